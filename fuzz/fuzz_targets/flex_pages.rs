//! See `cleavedb::sim::fuzz::flex_pages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    cleavedb::sim::fuzz::flex_pages(data);
});
