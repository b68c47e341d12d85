//! See `cleavedb::sim::fuzz::map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::map(data);
});
