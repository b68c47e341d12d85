//! See `cleavedb::sim::fuzz::manifest_edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::manifest_edit(data);
});
