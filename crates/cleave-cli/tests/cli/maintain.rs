//! `stats`, `verify`, `compact`, `checkpoint`, `dump`, and what damage looks like.

use std::fs;
use std::path::Path;

use crate::support::{NONE, Place, cleave, command, files};

/// A store with two thousand pairs, compacted into tables.
fn filled() -> Place {
    let place = Place::new();
    let lines: String =
        (0..2000).map(|n| format!("key{n:05}\tvalue {n} {:0100}\n", n * n)).collect();
    let file = place.file("pairs.tsv", lines);
    place.run("load", [file]).ok();
    place.run("compact", NONE).ok();
    place
}

fn flip(file: &Path, place: usize) {
    let mut bytes = fs::read(file).unwrap();
    let at = place.min(bytes.len() - 1);
    bytes[at] ^= 0x40;
    fs::write(file, bytes).unwrap();
}

#[test]
fn stats_are_a_page_or_an_object() {
    let place = filled();
    let json = place.run("stats", ["--json"]).json();
    for field in [
        "user_bytes_written",
        "bytes_written",
        "write_amplification",
        "space_amplification",
        "live_bytes",
        "disk_bytes",
        "memory_bytes",
        "keyspaces",
    ] {
        assert!(json.get(field).is_some(), "{field}");
    }
    assert!(json["live_bytes"].as_u64().unwrap() > 200_000, "{json}");
    let page = place.run("stats", NONE).ok();
    assert!(page.contains("keyspace default") && page.contains("space amplification"), "{page}");
}

#[test]
fn a_sound_store_verifies() {
    let place = filled();
    assert!(place.run("verify", NONE).ok().starts_with("sound: "));
    let json = place.run("verify", ["--json"]).json();
    assert!(json["problems"].as_array().unwrap().is_empty());
    assert!(json["entries"].as_u64().unwrap() >= 2000, "{json}");
}

#[test]
fn a_flipped_byte_in_a_table_is_found_and_other_keys_stay_readable() {
    let place = filled();
    let table = place.store_files("tbl").pop().expect("a table");
    flip(&table, 300);
    let run = place.run("verify", NONE);
    let text = String::from_utf8(run.stdout).unwrap();
    let name = table.file_name().unwrap().to_str().unwrap();
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{text}");
    assert!(text.contains(name) && text.contains("offset") && text.contains("problem"), "{text}");
    let run = place.run("verify", ["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(run.code, 1);
    assert!(json["problems"][0]["file"].as_str().unwrap().ends_with(name), "{json}");
    place.run("get", ["key00000"]).fails(1, name);
    assert!(place.run("get", ["key01999"]).ok().starts_with("value 1999"));
    place.run("scan", NONE);
    let export = place.beside("out.jsonl");
    place.run("export", [&export]).fails(1, name);
    assert!(!export.exists());
}

#[test]
fn damage_that_keeps_a_store_from_opening_is_reported() {
    for (extension, part) in [("man", ".man"), ("", "CURRENT")] {
        let place = filled();
        let file = match extension {
            "" => place.store().join("CURRENT"),
            _ => place.store_files(extension).pop().expect("such a file"),
        };
        flip(&file, 30);
        let run = place.run("verify", NONE);
        let text = String::from_utf8(run.stdout).unwrap();
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{text}");
        assert!(text.contains(part) && text.contains("1 problem"), "{text}");
        place.run("get", ["key00000"]).fails(1, part);
        place.run("put", ["a", "b"]).fails(1, part);
    }
}

#[test]
fn an_emptied_pointer_file_is_an_error_not_an_empty_store() {
    let place = filled();
    fs::write(place.store().join("CURRENT"), b"").unwrap();
    let run = place.run("get", ["key00000"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("CURRENT"), "{run:?}");
    assert_ne!(place.run("put", ["a", "b"]).code, 0);
}

#[test]
fn compact_takes_a_range_and_a_keyspace() {
    let place = filled();
    place.run("compact", ["--from", "key00100", "--to", "key00200"]).ok();
    place.run("compact", ["--keyspace", "default", "--json"]).ok();
    place.run("compact", ["--keyspace", "nonesuch"]).fails(2, "no keyspace 'nonesuch'");
    assert_eq!(place.run("count", NONE).ok(), "2000\n");
}

#[test]
fn reclaim_says_what_it_did() {
    let place = filled();
    let said = place.run("reclaim", NONE).ok();
    assert_eq!(said, "0 files removed, 0 B freed, 0 B of live values moved\n");
    let json = place.run("reclaim", ["--seconds", "9", "--json"]).ok();
    assert!(json.contains("\"bytes_freed\":0") && json.contains("\"is_complete\":true"), "{json}");
    assert_eq!(place.run("count", NONE).ok(), "2000\n");
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let place = filled();
    let copy = place.beside("copy");
    place.run("checkpoint", [&copy]).ok();
    place.put(&[("key00000", "changed"), ("new", "pair")]);
    let copied = |name: &str, rest: &[&str]| {
        let copy = copy.to_str().unwrap();
        cleave([&[name, copy], rest].concat())
    };
    assert_eq!(copied("count", &[]).ok(), "2000\n");
    assert!(copied("get", &["key00000"]).ok().starts_with("value 0 "));
    assert!(copied("verify", &[]).ok().starts_with("sound"));
    copied("put", &["only", "here"]).ok();
    place.run("get", ["only"]).fails(1, "no key");
    place.run("checkpoint", [&copy]).fails(2, "copy");
}

#[test]
fn dump_reads_any_file_and_changes_none() {
    let place = filled();
    let before: Vec<_> = files(&place.store()).iter().map(|file| fs::read(file).unwrap()).collect();
    let all = place.run("dump", NONE).ok();
    for file in files(&place.store()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(all.contains(name), "{name}");
        cleave(["dump".as_ref(), file.as_os_str()]).ok();
    }
    for part in ["magic", "segment", "footer", "set aside"] {
        assert!(all.contains(part), "{part}");
    }
    let foreign = place.file("store/notes.txt", "mine");
    assert!(place.run("dump", NONE).ok().contains("notes.txt: not the name"));
    cleave(["dump".as_ref(), foreign.as_os_str()]).fails(2, "notes.txt");
    fs::remove_file(foreign).unwrap();
    let after: Vec<_> = files(&place.store()).iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(before == after);
    cleave(["dump", "/nonexistent"]).fails(2, "/nonexistent");
}

#[test]
fn dump_of_damaged_and_foreign_files_does_not_break() {
    let place = filled();
    for file in files(&place.store()) {
        let bytes = fs::read(&file).unwrap();
        for cut in [0, 1, 17, bytes.len() / 2] {
            fs::write(&file, &bytes[..cut.min(bytes.len())]).unwrap();
            let run = cleave(["dump".as_ref(), file.as_os_str()]);
            assert!(run.code <= 1, "{}: {run:?}", file.display());
        }
        fs::write(&file, bytes.iter().map(|byte| byte ^ 0xff).collect::<Vec<_>>()).unwrap();
        let run = cleave(["dump".as_ref(), file.as_os_str()]);
        assert!(run.code <= 1, "{}: {run:?}", file.display());
    }
}

#[test]
fn verbose_tells_on_stderr() {
    let place = Place::new();
    let output = command(place.arguments("put", ["a", "b", "-v"])).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("cleave started"));
}

#[test]
fn findings_decide_the_exit_code_even_if_nobody_reads_them() {
    let place = filled();
    let ended = |name: &str, output: std::process::Stdio| {
        command(place.arguments(name, NONE)).stdout(output).status().unwrap().code()
    };
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        std::process::Stdio::from(writer)
    };
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    assert_eq!((ended("verify", closed()), ended("scan", closed())), (Some(0), Some(0)));
    assert_eq!((ended("verify", full()), ended("scan", full())), (Some(1), Some(1)));
    flip(&place.store_files("tbl").pop().expect("a table"), 300);
    assert_eq!(ended("verify", closed()), Some(1));
}
