//! Lists that once failed, shrunk: one file each below `regressions/`, with a header that tells
//! the bug.

mod regressions {
    //! One module per file; the test below finds forgotten ones.
}

#[test]
fn no_file_is_forgotten() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regressions");
    let source = include_str!("regressions.rs");
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let extension = path.extension().is_some_and(|extension| extension == "rs");
        assert!(!extension || source.contains(&format!("mod {stem};")), "{stem} is not run");
    }
}
