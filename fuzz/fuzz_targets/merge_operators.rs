//! See `cleavedb::sim::fuzz::merge_operators`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::merge_operators(data);
});
