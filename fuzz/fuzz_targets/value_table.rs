//! See `cleavedb::sim::fuzz::value_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::value_table(data);
});
