//! The `cleave` command as its users meet it: real processes, real files, exit codes, one line of
//! error. One test binary; `every_file_is_in` guards against a forgotten one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected should fail loudly"
)]

mod bench;
mod demo;
mod errors;
mod load;
mod maintain;
mod pairs;
mod strategy;
mod support;

#[test]
fn every_file_is_in() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let main = std::fs::read_to_string(here.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(&here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap();
        assert!(stem == "main" || main.contains(&format!("mod {stem};")), "{name}");
    }
}
