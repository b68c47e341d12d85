//! See `cleavedb::sim::fuzz::pointer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::pointer(data);
});
