//! See `cleavedb::sim::fuzz::locator`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::locator(data);
});
