//! See `cleavedb::sim::fuzz::large_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::large_value(data);
});
