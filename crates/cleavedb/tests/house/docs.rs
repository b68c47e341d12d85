//! Pages that do not point into the void, and a golden file behind each format page.

use crate::source::{SourceFile, files, report, root};

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
