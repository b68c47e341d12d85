//! `load` and `export`.

use std::ffi::OsStr;

use crate::support::{NONE, Place, cleave, cleave_reading};

/// Keys and values with every byte, nothing, tabs, newlines, and text that is not ASCII.
fn awkward() -> Vec<(Vec<u8>, Vec<u8>)> {
    let all: Vec<u8> = (0..=255).collect();
    vec![
        (b"plain".to_vec(), b"value".to_vec()),
        (b"empty".to_vec(), Vec::new()),
        (b"tab\tand\nnewline\r".to_vec(), b"\\t is not a tab\t\n\r\n".to_vec()),
        ("k\u{e4}se".into(), "\u{1f9c0}\u{85}".into()),
        (b"\xff\xfe".to_vec(), b"\x80".to_vec()),
        (all.clone(), all.repeat(100)),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A store with the awkward pairs, loaded from JSON lines of hexadecimal digits.
fn store_of_awkward_pairs() -> Place {
    let place = Place::new();
    let lines: String = awkward()
        .iter()
        .map(|(key, value)| {
            format!("{{\"key_hex\":\"{}\",\"value_hex\":\"{}\"}}\n", hex(key), hex(value))
        })
        .collect();
    let file = place.file("awkward.jsonl", lines);
    assert!(place.run("load", [file]).ok().contains("6 pairs"));
    place
}

#[test]
fn export_and_load_round_trip_in_every_form() {
    let original = store_of_awkward_pairs();
    let all = original.run("scan", ["--hex"]).ok();
    assert_eq!(all.lines().count(), 6);
    for (format, more) in [("jsonl", ""), ("jsonl", "--hex"), ("tsv", ""), ("tsv", "--hex")] {
        let file = original.beside(&format!("out.{format}"));
        let more: Vec<&OsStr> = if more.is_empty() { Vec::new() } else { vec![OsStr::new(more)] };
        let arguments = std::iter::once(file.as_os_str()).chain(more.iter().copied());
        assert!(original.run("export", arguments).ok().contains("6 pairs"));
        let copy = Place::new();
        let arguments = std::iter::once(file.as_os_str()).chain(more.iter().copied());
        copy.run("load", arguments).ok();
        assert_eq!(copy.run("scan", ["--hex"]).ok(), all, "{format} {more:?}");
    }
}

#[test]
fn scan_output_loads_again() {
    let original = store_of_awkward_pairs();
    let all = original.run("scan", ["--hex"]).ok();
    for (scan, format) in [(vec!["--json"], "jsonl"), (vec![], "tsv")] {
        let lines = original.run("scan", scan).ok();
        let copy = Place::new();
        cleave_reading(copy.arguments("load", ["-", "--format", format]), lines.as_bytes()).ok();
        assert_eq!(copy.run("scan", ["--hex"]).ok(), all, "{format}");
    }
}

#[test]
fn export_to_standard_output_and_by_keyspace() {
    let place = Place::new();
    place.put(&[("a", "1")]);
    place.run("put", ["b", "2", "--keyspace", "other"]).ok();
    assert_eq!(place.run("export", NONE).ok(), "{\"key\":\"a\",\"value\":\"1\"}\n");
    let tsv = place.run("export", ["--format", "tsv", "--keyspace", "other"]).ok();
    assert_eq!(tsv, "b\t2\n");
    let missing = place.beside("no/such/dir/out.tsv");
    place.run("export", [missing]).fails(2, "no/such/dir");
}

#[test]
fn export_writes_into_devices_and_pipes_and_keeps_links() {
    let place = Place::new();
    place.put(&[("a", "1")]);
    let line = "{\"key\":\"a\",\"value\":\"1\"}\n";
    assert_eq!(place.run("export", ["-"]).ok(), line);
    assert_eq!(place.run("export", ["/dev/stdout"]).ok(), line, "and nothing else");
    // A link to a device, so that no real one is at stake.
    let null = place.beside("null");
    std::os::unix::fs::symlink("/dev/null", &null).unwrap();
    assert_eq!(place.run("export", [&null]).ok(), "");
    assert!(null.is_symlink());
    for old in [Some("old"), None] {
        let target = place.beside(&format!("target of {old:?}"));
        if let Some(old) = old {
            std::fs::write(&target, old).unwrap();
        }
        let link = place.beside(&format!("link to {old:?}"));
        std::os::unix::fs::symlink(target.file_name().unwrap(), &link).unwrap();
        place.run("export", [&link]).ok();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), line);
    }
    place.run("export", [place.beside("")]).fails(2, "folder");
}

#[test]
fn a_failed_export_leaves_the_old_file() {
    let place = Place::new();
    let file = place.file("out.jsonl", "old");
    place.run("export", [&file]).fails(2, "no store");
    assert_eq!(std::fs::read(file).unwrap(), b"old");
}

#[test]
fn the_last_line_of_a_key_wins() {
    let place = Place::new();
    let mut lines: String = (0..5000).map(|n| format!("k{}\t{n}\n", n % 10)).collect();
    lines.push_str("\r\n\nk0\tlast, with\ttab");
    let file = place.file("pairs.tsv", lines);
    let json = place.run("load", [file.as_os_str(), OsStr::new("--json")]).json();
    assert_eq!(json["pairs"], 5001);
    assert_eq!(place.run("count", NONE).ok(), "10\n");
    assert_eq!(place.run("get", ["k0"]).ok(), "last, with\ttab\n");
    assert_eq!(place.run("get", ["k9"]).ok(), "4999\n");
}

#[test]
fn a_folder_becomes_paths_and_bytes() {
    let place = Place::new();
    place.file("folder/a.txt", "A");
    place.file("folder/sub/b.bin", [0u8, 255]);
    place.file("folder/sub/deep/empty", "");
    place.file("folder/large", vec![7u8; 3 << 20]);
    std::os::unix::fs::symlink("a.txt", place.beside("folder/link")).unwrap();
    let text = place.run("load", [place.beside("folder")]).ok();
    assert!(text.contains("4 pairs"), "{text}");
    assert_eq!(
        place.run("scan", ["--keys-only"]).ok(),
        "a.txt\nlarge\nsub/b.bin\nsub/deep/empty\n"
    );
    assert_eq!(place.run("get", ["large", "--raw"]).stdout, vec![7u8; 3 << 20]);
    assert_eq!(place.run("get", ["7375622f622e62696e", "--hex"]).ok(), "00ff\n");
}

#[test]
fn wrong_input_is_named_with_its_line() {
    let place = Place::new();
    let load = |name: &str, text: &str| {
        let file = place.file(name, text);
        place.run("load", [file])
    };
    load("a.jsonl", "{\"key\":\"a\",\"value\":\"b\"}\nnonsense\n").fails(2, "line 2");
    load("b.jsonl", "{\"key\":\"a\"}\n").fails(2, "line 1");
    load("c.tsv", "a\tb\nc\n").fails(2, "line 2: there is no tab");
    load("d.tsv", "a\t\\q\n").fails(2, "unknown escape");
    let long = format!("a\tb\n{}\tb\n", "k".repeat(70_000));
    load("e.tsv", &long).fails(2, "line 2: the key has 70000 bytes");
    load("f.dat", "a\tb\n").fails(2, "--format");
    let file = place.file("g.tsv", "a\tb\n");
    place.run("load", [file.as_os_str(), "--format".as_ref(), "xml".as_ref()]).fails(2, "xml");
    place.run("load", ["/nonexistent.tsv"]).fails(2, "/nonexistent.tsv");
    place.run("load", ["/nonexistent"]).fails(2, "/nonexistent");
    place.run("load", [place.beside(""), "--format".into(), "tsv".into()]).fails(2, "folder");
}

#[test]
fn a_load_that_cannot_begin_leaves_no_store() {
    let place = Place::new();
    place.run("load", ["/nonexistent.tsv"]).fails(2, "/nonexistent.tsv");
    assert!(!place.store().exists());
    cleave(["load"]).fails(2, "required");
}
