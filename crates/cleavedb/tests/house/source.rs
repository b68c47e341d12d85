//! The tree as the rules see it: files, and Rust text with comments and literals told apart.

use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A file of the tree: its path from the root, with `/`, and its text.
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

/// Every text file under `folder` (from the root) with one of the extensions, sorted by path.
/// What a build or version control makes is left out.
pub fn files(folder: &str, extensions: &[&str]) -> Vec<SourceFile> {
    let root = root();
    let mut found = Vec::new();
    let mut pending = vec![root.join(folder)];
    while let Some(path) = pending.pop() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if path == root || !matches!(name, "target" | ".git" | "corpus" | "artifacts") {
                let entries = fs::read_dir(&path).expect("a readable folder");
                pending.extend(entries.map(|entry| entry.expect("a readable entry").path()));
            }
        } else if extensions.iter().any(|extension| name.ends_with(extension))
            && let Ok(text) = fs::read_to_string(&path)
        {
            let path = path.strip_prefix(&root).expect("below the root");
            found.push(SourceFile { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Every Rust file of the tree.
pub fn rust_files() -> Vec<SourceFile> {
    let mut all = files("crates", &[".rs"]);
    all.extend(files("fuzz", &[".rs"]));
    assert!(all.len() > 40, "only {} Rust files found", all.len());
    all
}

/// Rust text split in two of equal shape: blanks stand where the other part is.
pub struct Split {
    /// Without comments and without the contents of literals.
    pub code: String,
    /// Only the comments.
    pub comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// Splits Rust text; both results have the lines and columns (in characters) of the original.
pub fn split(text: &str) -> Split {
    let chars: Vec<char> = text.chars().collect();
    let mut parts = vec![Part::Code; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let (part, end) = token(&chars, at);
        parts[at..end].fill(part);
        at = end;
    }
    let keep = |wanted: Part| {
        let pick = |(&c, &part): (&char, &Part)| if part == wanted || c == '\n' { c } else { ' ' };
        chars.iter().zip(&parts).map(pick).collect()
    };
    Split { code: keep(Part::Code), comments: keep(Part::Comment) }
}

/// What starts at `at`, and where it ends.
fn token(chars: &[char], at: usize) -> (Part, usize) {
    let starts = |text: &str| chars[at..].iter().copied().take(text.len()).eq(text.chars());
    let find = |from: usize, wanted: char| {
        (from..chars.len()).find(|&i| chars[i] == wanted).unwrap_or(chars.len())
    };
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        return (Part::Comment, find(at, '\n'));
    }
    if starts("/*") {
        return (Part::Comment, block_comment_end(chars, at));
    }
    if chars[at] == '"' {
        return (Part::Literal, quoted_end(chars, at + 1, '"'));
    }
    if chars[at] == 'r' && (!in_word || chars[at - 1] == 'b') {
        let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
        if chars.get(at + 1 + hashes) == Some(&'"') {
            let close: String = format!("\"{}", "#".repeat(hashes));
            let mut end = at + 2 + hashes;
            while end < chars.len()
                && !chars[end..].iter().copied().take(close.len()).eq(close.chars())
            {
                end += 1;
            }
            return (Part::Literal, (end + close.len()).min(chars.len()));
        }
    }
    // A character, unless it is a lifetime.
    if chars[at] == '\'' && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')) {
        return (Part::Literal, quoted_end(chars, at + 1, '\''));
    }
    (Part::Code, at + 1)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut end = at;
    while end < chars.len() {
        match (chars[end], chars.get(end + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                end += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                end += 2;
                if depth == 0 {
                    return end;
                }
            }
            _ => end += 1,
        }
    }
    end
}

fn quoted_end(chars: &[char], mut at: usize, close: char) -> usize {
    while at < chars.len() && chars[at] != close {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Places of a whole word in code: 0-based (line, byte column).
pub fn words(code: &str, word: &str) -> Vec<(usize, usize)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        for (column, _) in line.match_indices(word) {
            let before = line[..column].chars().next_back();
            let after = line[column + word.len()..].chars().next();
            if !before.is_some_and(is_part) && !after.is_some_and(is_part) {
                found.push((number, column));
            }
        }
    }
    found
}

/// Fails with all findings, one a line.
pub fn report(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

/// Compares a generated page with the file, or writes it where `UPDATE_DOCS` is set.
pub fn check_generated(path: &str, wanted: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().expect("in a folder")).expect("the folder");
        fs::write(&file, wanted).expect("the page is written");
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let differing = found.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    assert!(
        found == wanted,
        "{path} is not what the code says (first at line {}); \
         run UPDATE_DOCS=1 cargo test -p cleavedb --test house",
        differing.unwrap_or(found.lines().count().min(wanted.lines().count())) + 1,
    );
}

#[test]
fn splitting_tells_comments_and_literals_from_code() {
    let text = r##"let a = "x // \" y"; // unsafe
let b = 'u'; let c: &'static str = r#"todo "!"#; /* a /* b */ c */ fn d() { '\'' }"##;
    let Split { code, comments } = split(text);
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeeze(&code), "let a = ; let b = ; let c: &'static str = ; fn d() { }");
    assert_eq!(squeeze(&comments), "// unsafe /* a /* b */ c */");
    assert_eq!(words("unsafe_code unsafe {", "unsafe"), [(0, 12)]);
}
