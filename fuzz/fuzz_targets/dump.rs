//! See `cleavedb::sim::fuzz::dump`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::dump(data);
});
