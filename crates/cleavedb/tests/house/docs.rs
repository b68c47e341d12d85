//! Pages that do not point into the void, and a golden file behind each format page.

use std::collections::BTreeSet;

use crate::source::{SourceFile, files, report, root, rust_files};

/// Targets of links in a page, with 1-based lines; code blocks left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            // A link inside `code` is an example.
            if line[..at].matches('`').count() % 2 == 0
                && let Some((target, _)) = line[at + 2..].split_once(')')
            {
                found.push((number + 1, target.to_owned()));
            }
        }
    }
    found
}

fn pages() -> Vec<SourceFile> {
    let pages = files("", &[".md"]);
    assert!(pages.len() > 5, "only {} pages found", pages.len());
    pages
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut findings = Vec::new();
    for page in pages() {
        let file = root().join(&page.path);
        let folder = file.parent().expect("in a folder");
        for (line, target) in links(&page.text) {
            let path = target.split('#').next().unwrap_or_default();
            let outside = ["https://", "http://", "mailto:"].iter().any(|s| target.starts_with(s));
            if !outside && !path.is_empty() && !folder.join(path).exists() {
                findings.push(format!("{}:{line}: {target}", page.path));
            }
        }
    }
    report("links that lead nowhere", &findings);
}

#[test]
fn links_are_found_outside_code() {
    let text = "[a](b.md) `[c](d)`\n```\n[e](f)\n```\n[g](h.md#i)";
    assert_eq!(links(text), [(1, "b.md".to_owned()), (5, "h.md#i".to_owned())]);
}

#[test]
fn every_format_page_has_what_a_reader_needs() {
    let mut findings = Vec::new();
    for page in files("docs/format", &[".md"]) {
        if page.path.ends_with("README.md") {
            continue;
        }
        let text = page.text.to_lowercase();
        for wanted in ["offset | size", "if and only if", "golden"] {
            if !text.replace("  ", " ").contains(wanted) {
                findings.push(format!("{}: says nothing of \"{wanted}\"", page.path));
            }
        }
        for golden in golden_files(&page.text) {
            // Beside the page, or from the root.
            let places = [root().join("docs/format").join(&golden), root().join(&golden)];
            if !places.iter().any(|place| place.exists()) {
                findings.push(format!("{}: {golden} does not exist", page.path));
            }
        }
        if golden_files(&page.text).is_empty() {
            findings.push(format!("{}: names no golden file", page.path));
        }
    }
    report("format pages without table, validity list or golden file", &findings);
}

/// Paths of golden files that a page names, as written: words that hold `golden/`.
fn golden_files(text: &str) -> Vec<String> {
    let ends = |c: char| c.is_whitespace() || "`()[]|,;\"<>".contains(c);
    let mut found: Vec<String> = text
        .split(ends)
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| word.contains("golden/") && !word.ends_with('/'))
        .filter(|word| !word.contains(['*', '{']))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Names of the planted bugs in the engine.
fn planted() -> BTreeSet<String> {
    let engine =
        rust_files().into_iter().filter(|file| file.path.starts_with("crates/cleavedb/src"));
    let mut names = BTreeSet::new();
    for file in engine {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let after = line.split("planted!(\"").skip(1);
            names.extend(after.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    names
}

/// Names in the first column of tables below a heading that begins so.
fn first_column<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn every_planted_bug_is_in_the_table_of_them_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/reliability.md")).expect("the page");
    let (planted, listed) = (planted(), first_column(&page, "6. Planted bugs"));
    assert!(planted.len() > 50, "only {} planted bugs found", planted.len());
    let missing = planted.iter().filter(|name| !listed.contains(name.as_str()));
    let mut findings: Vec<String> = missing.map(|name| format!("{name} is missing")).collect();
    let gone = listed.iter().filter(|name| !planted.contains(**name));
    findings.extend(gone.map(|name| format!("{name} is planted nowhere")));
    report("the table of planted bugs in docs/reliability.md", &findings);
}

#[test]
fn the_first_column_is_read_from_its_section_alone() {
    let page = "# T\n## 1. A\n| `a` | b |\n## 2. B\n| x |\n|---|\n| `c` | `d` |\n| `e` |\n";
    assert_eq!(first_column(page, "2. B"), BTreeSet::from(["c", "e"]));
    assert_eq!(first_column(page, "3"), BTreeSet::new());
}
