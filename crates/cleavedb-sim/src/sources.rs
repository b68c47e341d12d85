//! Names of marks and planted bugs as the engine's sources have them, so that one that is never
//! met, or never caught, cannot hide.
//!
//! Reads the source tree that this crate was built from.

use std::collections::BTreeSet;
use std::path::Path;

/// Where the engine's sources are.
const ENGINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cleavedb/src");

fn visit(directory: &Path, names: &mut BTreeSet<String>, call: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            visit(&path, names, call);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_stem().is_none_or(|stem| stem != "tests")
        {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                let after = line.split(call).skip(1);
                names.extend(after.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
        }
    }
}

/// Names of all marks in the engine.
#[must_use]
pub fn marks() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    visit(Path::new(ENGINE), &mut names, "mark!(\"");
    names
}

/// Names of all planted bugs in the engine.
#[must_use]
pub fn planted() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    visit(Path::new(ENGINE), &mut names, "planted!(\"");
    names
}
