//! Small files, short lines, short functions, headers; nothing half-done.

use crate::source::{files, report, root, rust_files, split, words};

/// A file has fewer lines than this.
const FILE_LINES: usize = 600;
/// Longest line, in characters.
const LINE_COLUMNS_MAX: usize = 100;
/// Longest function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that may be longer, each as `path::name` with the reason.
const LONG_FUNCTIONS: [(&str, &str); 0] = [];

#[test]
fn files_and_lines_are_short() {
    let mut findings = Vec::new();
    for file in rust_files() {
        let lines = file.text.lines().count();
        if lines >= FILE_LINES {
            findings.push(format!("{}: {lines} lines", file.path));
        }
        for (number, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                findings.push(format!("{}:{}: {columns} columns", file.path, number + 1));
            }
        }
    }
    report("files of 600 lines and more, lines above 100 columns", &findings);
}

/// Functions in code as (1-based line, name, lines).
fn functions(code: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (number, column) in words(code, "fn") {
        let rest = &lines[number][column + 2..];
        let name: String =
            rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            continue; // The type `fn(..)`.
        }
        let mut depth = 0usize;
        let mut brackets = 0usize;
        let body = std::iter::once(rest).chain(lines[number + 1..].iter().copied());
        'function: for (extra, line) in body.enumerate() {
            for c in line.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth <= 1 => {
                        found.push((number + 1, name, extra + 1));
                        break 'function;
                    }
                    '}' => depth -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets = brackets.saturating_sub(1),
                    ';' if depth == 0 && brackets == 0 => break 'function, // No body.
                    _ => {}
                }
            }
        }
    }
    found
}

#[test]
fn functions_are_short() {
    let mut findings = Vec::new();
    let mut excused = 0;
    for file in rust_files() {
        for (line, name, lines) in functions(&split(&file.text).code) {
            if lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let full = format!("{}::{name}", file.path);
            if LONG_FUNCTIONS.iter().any(|(long, _)| *long == full) {
                excused += 1;
            } else {
                findings.push(format!("{}:{line}: {name} has {lines} lines", file.path));
            }
        }
    }
    report("functions above 70 lines", &findings);
    assert_eq!(excused, LONG_FUNCTIONS.len(), "a listed function is short now: take it off");
}

#[test]
fn function_lengths_are_counted_right() {
    let code = "fn a() -> [u8; 2] {\n x\n}\ntrait T {\n fn b(&self);\n fn c() { fn d() {} }\n}";
    let wanted = [(1, "a", 3), (6, "c", 1), (6, "d", 1)];
    assert_eq!(functions(code), wanted.map(|(line, name, n)| (line, name.to_owned(), n)));
}

#[test]
fn every_source_file_states_its_role() {
    let headless = |text: &str| !text.starts_with("//!") && !text.starts_with("#!");
    let findings: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| headless(&file.text))
        .map(|file| format!("{}:1", file.path))
        .collect();
    report("files that do not start with a //! header", &findings);
}

#[test]
fn nothing_is_left_half_done() {
    let mut findings = Vec::new();
    for file in rust_files() {
        let text = split(&file.text);
        for (number, line) in text.code.lines().enumerate() {
            for unfinished in ["todo!", "unimplemented!", "dbg!", "#[ignore", "#![ignore"] {
                if line.contains(unfinished) {
                    findings.push(format!("{}:{}: {unfinished}", file.path, number + 1));
                }
            }
        }
        for note in ["FIXME", "XXX", "TODO", "HACK"] {
            for (number, _) in words(&text.comments, note) {
                findings.push(format!("{}:{}: {note}", file.path, number + 1));
            }
        }
    }
    report("code or notes left half-done, or tests switched off", &findings);
}

#[test]
fn no_path_of_one_machine_stands_in_the_tree() {
    // Put together here, so that this file does not hold what it looks for.
    let homes = ["work", "home", "root", "Users"].map(|folder| format!("/{folder}/"));
    let mut findings = Vec::new();
    let extensions = [".rs", ".md", ".toml", ".sh", ".yml", ".json", "justfile", "run"];
    for file in files("", &extensions) {
        for (number, line) in file.text.lines().enumerate() {
            for home in &homes {
                let starts_here = |at: usize| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || "._-/}".contains(c))
                };
                if line.match_indices(home.as_str()).any(|(at, _)| starts_here(at)) {
                    findings.push(format!("{}:{}: {line}", file.path, number + 1));
                }
            }
        }
    }
    report("absolute paths of one machine", &findings);
}

#[test]
fn dependencies_stand_in_one_place() {
    let mut findings = Vec::new();
    for file in files("crates", &["Cargo.toml"]) {
        let mut in_dependencies = false;
        for (number, line) in file.text.lines().enumerate() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            } else if in_dependencies
                && !line.trim().is_empty()
                && !line.starts_with('#')
                && !line.contains("workspace = true")
            {
                findings.push(format!("{}:{}: {line}", file.path, number + 1));
            }
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            findings.push(format!("{}: does not take the workspace's lints", file.path));
        }
    }
    assert!(root().join("Cargo.lock").exists(), "the lock file is part of the tree");
    report("crates that do not take dependencies or lints from the workspace", &findings);
}
