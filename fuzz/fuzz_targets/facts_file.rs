//! See `cleavedb::sim::fuzz::facts_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::facts_file(data);
});
