//! See `cleavedb::sim::fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::segment(data);
});
