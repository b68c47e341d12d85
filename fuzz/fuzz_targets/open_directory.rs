//! See `cleavedb::sim::fuzz::open_directory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::open_directory(data);
});
