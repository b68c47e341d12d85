//! See `cleavedb::sim::fuzz::batch_payload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::batch_payload(data);
});
