//! See `cleavedb::sim::fuzz::table_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::table_file(data);
});
