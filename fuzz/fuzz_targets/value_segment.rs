//! See `cleavedb::sim::fuzz::value_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::value_segment(data);
});
