//! `docs/options.md`, made from the doc comments and defaults in the code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::source::{check_generated, root};

const SOURCE: &str = "crates/cleavedb/src/db/options.rs";

/// One option as the code states it.
#[derive(Debug, PartialEq)]
struct Setting {
    name: String,
    kind: String,
    text: String,
}

/// Fields and their expressions in `impl Default for NAME`.
fn defaults(source: &str, of: &str) -> BTreeMap<String, String> {
    let Some((_, rest)) = source.split_once(&format!("impl Default for {of} {{")) else {
        return BTreeMap::new();
    };
    let body = rest.split("\n}").next().unwrap_or_default();
    body.lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Options of `impl NAME`: `setter!` blocks and functions that take and return `self`.
fn settings(source: &str, of: &str) -> Vec<Setting> {
    let mut found = Vec::new();
    for part in source.split(&format!("\nimpl {of} {{")).skip(1) {
        let body = part.split("\n}").next().unwrap_or_default();
        let mut text: Vec<&str> = Vec::new();
        let (mut in_setter, mut is_hidden) = (false, false);
        for line in body.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix("///") {
                text.push(comment.trim());
            } else if line.starts_with("setter!") {
                in_setter = true;
            } else if line.starts_with("#[") {
                // What only the harness sets is no option.
                is_hidden |= line.contains("feature = \"sim\"");
            } else {
                if let Some((name, kind)) = option_of(line, in_setter)
                    && !is_hidden
                {
                    found.push(Setting { name, kind, text: text.join(" ") });
                }
                (in_setter, is_hidden) = (false, false);
                text.clear();
            }
        }
    }
    found
}

/// Name and type, where the line declares an option.
fn option_of(line: &str, in_setter: bool) -> Option<(String, String)> {
    if in_setter {
        let (name, kind) = line.split_once(':')?;
        return Some((name.trim().to_owned(), kind.trim().to_owned()));
    }
    let (name, rest) = line.strip_prefix("pub fn ")?.split_once("(mut self, ")?;
    let (_, kind) = rest.split_once(") -> Self")?.0.split_once(": ")?;
    Some((name.to_owned(), kind.to_owned()))
}

/// The sentence of a text that states the default.
fn stated_default(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Default: ")?;
    let end = rest.find(". ").unwrap_or(rest.trim_end_matches('.').len());
    Some(rest[..end].trim_end_matches('.'))
}

fn page(source: &str) -> String {
    let mut page = String::from(
        "# Options\n\nMade from the code by a test (`UPDATE_DOCS=1 cargo test -p cleavedb --test \
         house` rewrites it).\nEffective options are kept as text in the `OPTIONS` file of each \
         database.\n",
    );
    let banners = [
        ("Options", "Database", "Set with `Options::new()` before `open`."),
        ("KeyspaceOptions", "Keyspace", "Given when a keyspace is created."),
    ];
    for (of, title, intro) in banners {
        let defaults = defaults(source, of);
        let _ = write!(page, "\n## {title}: `{of}`\n\n{intro}\n");
        for Setting { name, kind, text } in settings(source, of) {
            let default = match defaults.get(&name) {
                Some(value) => format!("`{value}`"),
                None => stated_default(&text).unwrap_or("none registered").to_owned(),
            };
            let plain = |text: &str| text.replace("[`", "`").replace("`]", "`");
            let (default, text) = (plain(&default), plain(&text));
            let _ = write!(
                page,
                "\n### `{name}`\n\nType: `{kind}`. Default: {default}.\n\n{}\n",
                wrap(&text)
            );
        }
    }
    page
}

fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if line.len() + word.len() >= 100 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn source() -> String {
    fs::read_to_string(root().join(SOURCE)).expect("the options' source")
}

#[test]
fn the_options_page_is_what_the_code_says() {
    check_generated("docs/options.md", &page(&source()));
}

#[test]
fn every_option_has_a_text_and_a_default() {
    let source = source();
    let database = settings(&source, "Options");
    let keyspace = settings(&source, "KeyspaceOptions");
    assert!(database.len() >= 13 && keyspace.len() >= 3, "options were not found");
    let defaults = defaults(&source, "Options");
    for setting in database.iter().chain(&keyspace) {
        let repeatable = setting.text.starts_with("Registers");
        assert!(
            repeatable || stated_default(&setting.text).is_some(),
            "option {} does not state its default",
            setting.name
        );
    }
    // Every field can be set, and no option lacks its field.
    for name in defaults.keys() {
        let hidden = ["environment", "widths", "merge_operators"].contains(&name.as_str());
        assert!(hidden || database.iter().any(|s| s.name == *name), "no setter for {name}");
    }
}

#[test]
fn options_are_read_from_both_forms() {
    let source = "\nimpl Default for O {\n  a: 1 << 20,\n}\nimpl O {\n  setter! {\n    /// A.\n    \
                  /// Default: 1 MiB. More.\n    a: u64\n  }\n\n  /// B. Default: none.\n  \
                  #[must_use]\n  pub fn b(mut self, v: impl Into<String>) -> Self {\n  }\n}\n";
    let found = settings(source, "O");
    let names: Vec<(&str, &str)> =
        found.iter().map(|s| (s.name.as_str(), s.kind.as_str())).collect();
    assert_eq!(names, [("a", "u64"), ("b", "impl Into<String>")]);
    assert_eq!(stated_default(&found[0].text), Some("1 MiB"));
    assert_eq!(stated_default(&found[1].text), Some("none"));
    assert_eq!(defaults(source, "O").get("a").map(String::as_str), Some("1 << 20"));
}
