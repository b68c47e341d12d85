//! Where memory safety rests on an argument: few places, each with the argument beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::source::{Split, check_generated, report, rust_files, split, words};

/// Files that may hold `unsafe`, by the beginning of their path.
const ALLOWED: [&str; 4] = [
    "crates/cleavedb/src/io/",
    "crates/cleavedb/src/memory/",
    // An allocator that counts cannot be written without; it is part of the harness only.
    "crates/cleavedb-sim/src/allocator.rs",
    // Peers written in C and C++ are called here; built only with the feature `peers`.
    "crates/cleavedb-bench/src/peers/foreign/",
];

/// Every use of `unsafe` as (0-based line, whether an argument stands with it).
fn uses(text: &Split) -> Vec<(usize, bool)> {
    let code: Vec<&str> = text.code.lines().collect();
    let comments: Vec<&str> = text.comments.lines().collect();
    let mut found = Vec::new();
    for (number, column) in words(&text.code, "unsafe") {
        // A function hands the argument on to its callers; clippy wants its contract stated.
        let rest = code[number][column + "unsafe".len()..].trim_start();
        let is_contract = rest.starts_with("fn ") || rest.starts_with("extern ");
        found.push((number, is_contract || argued(&code, &comments, number)));
    }
    found
}

/// Whether a comment that argues safety stands on the line, or on lines above it that hold only
/// comments, attributes or the beginning of the same statement.
fn argued(code: &[&str], comments: &[&str], number: usize) -> bool {
    let is_argument = |line: &str| line.contains("SAFETY:") || line.contains("# Safety");
    if comments.get(number).is_some_and(|line| is_argument(line)) {
        return true;
    }
    for above in (0..number).rev() {
        if is_argument(comments[above]) {
            return true;
        }
        let line = code[above].trim();
        let blank = line.is_empty() && comments[above].trim().is_empty();
        let ended = line.ends_with([';', '{', '}']) || line.ends_with(',');
        if blank || (ended && !line.starts_with("#[")) {
            return false;
        }
    }
    false
}

#[test]
fn unsafe_stands_only_where_it_may_and_is_argued() {
    let mut findings = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_files() {
        for (number, is_argued) in uses(&split(&file.text)) {
            let place = format!("{}:{}", file.path, number + 1);
            if !ALLOWED.iter().any(|allowed| file.path.starts_with(allowed)) {
                findings.push(format!("{place}: not a place for unsafe"));
            }
            if !is_argued {
                findings.push(format!("{place}: no SAFETY paragraph above it"));
            }
            *counts.entry(file.path.clone()).or_default() += 1;
        }
    }
    report("unsafe in the wrong place or without its argument", &findings);
    let total: usize = counts.values().sum();
    println!("unsafe_uses={total} files={}", counts.len());
    let mut page = String::from(
        "# Uses of `unsafe`\n\nMade from the code by a test (`UPDATE_DOCS=1 cargo test -p cleavedb \
         --test house` rewrites it), so that\na change in number shows in review. Each has its \
         SAFETY paragraph beside it.\n\n| file | uses |\n|---|---:|\n",
    );
    for (path, count) in &counts {
        let _ = writeln!(page, "| `{path}` | {count} |");
    }
    let _ = writeln!(page, "| **all** | **{total}** |");
    check_generated("docs/unsafe.md", &page);
}

#[test]
fn a_missing_argument_is_found() {
    let argued = |text: &str| uses(&split(text)).iter().map(|(_, argued)| *argued).collect();
    let with: Vec<bool> = argued("// SAFETY: fine.\nlet a =\n    unsafe { b() };\n");
    assert_eq!(with, [true]);
    let without: Vec<bool> = argued("// SAFETY: fine.\nlet a = 1;\nunsafe { b() };\n");
    assert_eq!(without, [false]);
    let none: Vec<bool> = argued("#![deny(unsafe_code)]\n// unsafe\nlet s = \"unsafe\";");
    assert!(none.is_empty());
}
