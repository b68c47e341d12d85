//! Arrows point down: a folder of the engine imports only folders before it.

use crate::source::{files, report, split};

/// The layers, lowest first.
const LAYERS: [&str; 11] = [
    "base", "io", "memory", "log", "table", "values", "deltas", "index", "manifest", "engine", "db",
];

/// Layers that know the harness's face: they take the environment it hands in.
const SIM_USERS: [&str; 2] = ["engine", "db"];

const SOURCE: &str = "crates/cleavedb/src/";

/// The findings in one file, given by its path below the source folder.
fn check(path: &str, text: &str) -> Vec<String> {
    let top = path.split(['/', '.']).next().unwrap_or_default();
    let Some(own) = LAYERS.iter().position(|layer| *layer == top) else {
        return Vec::new(); // The crate's root and the harness's face may use everything.
    };
    let code = split(text).code;
    let mut findings = Vec::new();
    for (at, used) in crate_paths(&code) {
        let line = code[..at].matches('\n').count() + 1;
        let place = format!("{SOURCE}{path}:{line}");
        match LAYERS.iter().position(|layer| *layer == used) {
            Some(other) if other <= own => {}
            Some(_) => findings.push(format!("{place}: {top} may not use {used}")),
            None if used == "sim" && SIM_USERS.contains(&top) => {}
            // The highest layer is the public face, whose names stand at the crate's root.
            None if top == "db" && used != "sim" => {}
            None => findings.push(format!("{place}: crate::{used} is not a layer; name its home")),
        }
    }
    // `super` must not climb out of the layer either.
    let depth = path.trim_end_matches("/mod.rs").trim_end_matches(".rs").split('/').count();
    let climb = "super::".repeat(depth);
    for (number, line) in code.lines().enumerate() {
        // One more level may be open inside an inline module: only tests have those.
        if line.contains(&climb) {
            findings.push(format!("{SOURCE}{path}:{}: {climb} leaves {top}", number + 1));
        }
    }
    findings
}

/// First segments that follow `crate::` anywhere in the code, groups taken apart, with places.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let inside_word = |c: char| c.is_alphanumeric() || c == '_';
        if code[..at].chars().next_back().is_some_and(inside_word) {
            continue;
        }
        // `pub(in crate::x)` names a scope; it imports nothing.
        if code[..at].trim_end().ends_with("(in") {
            continue;
        }
        let rest = code[at + "crate::".len()..].trim_start();
        let name = |text: &str| text.trim_start().chars().take_while(|c| inside_word(*c)).collect();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(members(group).into_iter().map(|text| (at, name(text)))),
            None => found.push((at, name(rest))),
        }
    }
    found
}

/// Members of a brace group, up to its end.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                all.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.retain(|text| !text.trim().is_empty());
    all
}

#[test]
fn every_import_points_down() {
    let mut findings = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for file in files(SOURCE, &[".rs"]) {
        let path = file.path.strip_prefix(SOURCE).expect("below the source folder");
        seen.extend(path.split('/').next().map(str::to_owned));
        findings.extend(check(path, &file.text));
    }
    for layer in LAYERS {
        let there = seen.contains(layer) || seen.contains(&format!("{layer}.rs"));
        assert!(there, "the folder of layer {layer} is gone");
    }
    let known = ["lib.rs", "sim.rs", "sim"];
    for name in &seen {
        let layer = name.trim_end_matches(".rs");
        if !LAYERS.contains(&layer) && !known.contains(&name.as_str()) {
            findings.push(format!("{SOURCE}{name}: not a layer; give it a place in the order"));
        }
    }
    report("imports that do not point down", &findings);
}

#[test]
fn imports_that_point_up_are_found() {
    let found = |path, text| check(path, text).len();
    assert_eq!(found("table/block.rs", "use crate::index::X;\n"), 1);
    assert_eq!(found("table/block.rs", "use crate::{base::error, log::Frame};"), 0);
    assert_eq!(found("table/block.rs", "use crate::{\n base::{a, b},\n db::Db,\n};"), 1);
    assert_eq!(found("table/block.rs", "fn f() { crate::engine::go() }"), 1);
    assert_eq!(found("table/block.rs", "// crate::engine::go()\nlet s = \"crate::db\";"), 0);
    assert_eq!(found("table/block.rs", "use super::super::index::X;"), 1);
    assert_eq!(found("index/lsm/pick.rs", "use super::super::X;"), 0);
    assert_eq!(found("io/mod.rs", "use crate::sim::Environment;"), 1);
    assert_eq!(found("db/options.rs", "x: crate::sim::Environment,"), 0);
    assert_eq!(found("base/marks.rs", "$crate::base::marks::Mark"), 0);
    assert_eq!(found("base/a.rs", "use crate::Result;"), 1);
    assert_eq!(found("db/tests.rs", "use crate::Result;"), 0);
}
