//! `docs/papers.md`: every mechanism of the five papers, once, with what became of it.

use std::collections::BTreeSet;
use std::fs;

use crate::source::{report, root};

/// Groups of mechanisms and how many each has.
const GROUPS: [(&str, usize); 8] =
    [("W", 16), ("N", 18), ("Y", 13), ("K", 34), ("FT", 16), ("FS", 12), ("FD", 19), ("FX", 10)];

const STATUSES: [&str; 3] = ["done", "better", "not yet"];

/// Rows of the page's tables: id, mechanism, status, file, test, figure.
fn rows() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/papers.md")).expect("docs/papers.md");
    text.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| id |"))
        .map(|line| {
            let cells = line.trim().trim_start_matches('|').trim_end_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

#[test]
fn every_mechanism_stands_there_exactly_once() {
    let mut wanted: BTreeSet<String> = GROUPS
        .iter()
        .flat_map(|(prefix, count)| (1..=*count).map(move |n| format!("{prefix}{n}")))
        .collect();
    let mut findings = Vec::new();
    for row in rows() {
        let [id, mechanism, status, ..] = row.as_slice() else {
            findings.push(format!("{row:?}: too few columns"));
            continue;
        };
        if row.len() != 6 {
            findings.push(format!("{id}: {} columns instead of 6", row.len()));
        }
        if !wanted.remove(id) {
            findings.push(format!("{id}: unknown, or there twice"));
        }
        if mechanism.is_empty() || !STATUSES.contains(&status.as_str()) {
            findings.push(format!("{id}: no mechanism, or status \"{status}\""));
        }
    }
    findings.extend(wanted.iter().map(|id| format!("{id}: missing")));
    report("docs/papers.md", &findings);
}

#[test]
fn what_is_claimed_can_be_looked_up() {
    let mut findings = Vec::new();
    for row in rows() {
        let [id, _, status, file, test, ..] = row.as_slice() else { continue };
        if status != "not yet" && (file.is_empty() || test.is_empty()) {
            findings.push(format!("{id}: \"{status}\" without file and test"));
        }
        let quoted = |cell: &'_ str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        for named in quoted(file).iter().chain(&quoted(test)) {
            let (path, function) = named.split_once("::").unwrap_or((named, ""));
            match fs::read_to_string(root().join(path)) {
                Err(_) => findings.push(format!("{id}: {path} does not exist")),
                Ok(text) if !function.is_empty() && !text.contains(&format!("fn {function}(")) => {
                    findings.push(format!("{id}: no test {function} in {path}"));
                }
                Ok(_) => {}
            }
        }
    }
    report("docs/papers.md names what is not there", &findings);
}
