//! See `cleavedb::sim::fuzz::flex_intervals`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::flex_intervals(data);
});
