//! See `cleavedb::sim::fuzz::value_handle`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::value_handle(data);
});
