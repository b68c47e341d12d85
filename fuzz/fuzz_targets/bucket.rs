//! See `cleavedb::sim::fuzz::bucket`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::bucket(data);
});
