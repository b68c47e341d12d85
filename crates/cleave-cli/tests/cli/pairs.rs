//! `put`, `get`, `del`, `merge`, `scan`, `count`, `keyspace`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::json;

use crate::support::{NONE, Place, cleave, cleave_reading, command};

#[test]
fn a_value_comes_back_and_goes() {
    let place = Place::new();
    place.put(&[("hello", "world"), ("empty", "")]);
    assert_eq!(place.run("get", ["hello"]).ok(), "world\n");
    assert_eq!(place.run("get", ["hello", "--raw"]).ok(), "world");
    assert_eq!(place.run("get", ["empty"]).ok(), "\n");
    assert_eq!(
        place.run("get", ["hello", "--json"]).json(),
        json!({"key":"hello","value":"world"})
    );
    place.put(&[("hello", "again")]);
    assert_eq!(place.run("get", ["hello"]).ok(), "again\n");
    assert_eq!(place.run("del", ["hello"]).ok(), "");
    place.run("get", ["hello"]).fails(1, "no key 'hello'");
    place.run("del", ["hello"]).fails(1, "no key 'hello'");
    assert_eq!(place.run("put", ["a", "b", "--json"]).json(), json!({"ok":true}));
}

#[test]
fn bytes_that_are_not_text() {
    let place = Place::new();
    place.run("put", ["00ff", "80", "--hex"]).ok();
    assert_eq!(place.run("get", ["00FF", "--hex"]).ok(), "80\n");
    let json = place.run("get", ["00ff", "--hex", "--json"]).json();
    assert_eq!(json, json!({"key_hex":"00ff","value_hex":"80"}));
    place.run("get", ["0", "--hex"]).fails(2, "not hexadecimal");
    // Arguments may hold any bytes but zero.
    let odd = OsStr::from_bytes(b"\xfe\xff");
    place.run("put", [odd, odd]).ok();
    let run = place.run("get", [odd]);
    assert_eq!((run.code, run.stdout.as_slice()), (0, b"\xfe\xff\n".as_slice()));
    assert_eq!(place.run("scan", NONE).ok(), "\\x00\\xff\t\\x80\n\\xfe\\xff\t\\xfe\\xff\n");
}

#[test]
fn values_from_files_and_standard_input() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let file = place.file("value.bin", &bytes);
    place.run("put", [OsStr::new("big"), OsStr::new("--file"), file.as_os_str()]).ok();
    assert_eq!(place.run("get", ["big", "--raw"]).stdout, bytes);
    cleave_reading(place.arguments("put", ["piped", "--file", "-"]), b"from a pipe\n").ok();
    assert_eq!(place.run("get", ["piped", "--raw"]).ok(), "from a pipe\n");
    place.run("put", ["x", "--file", "/nonexistent"]).fails(2, "/nonexistent");
}

#[test]
fn numbers_and_dashes_as_keys_and_values() {
    let place = Place::new();
    place.put(&[("-5", "-1.5")]);
    assert_eq!(place.run("get", ["-5"]).ok(), "-1.5\n");
    cleave([
        OsStr::new("put"),
        place.store().as_os_str(),
        "--".as_ref(),
        "--k".as_ref(),
        "v".as_ref(),
    ])
    .ok();
    assert_eq!(place.run("get", ["--", "--k"]).ok(), "v\n");
}

#[test]
fn merges_by_operator() {
    let place = Place::new();
    let merge = |keyspace: &str, operand: &str, operator: &str| {
        let arguments =
            ["k", operand, "--operator", operator, "--keyspace", keyspace].map(str::to_owned);
        place.run("merge", arguments)
    };
    let get = |keyspace: &str, form: &str| {
        place.run("get", ["k", "--keyspace", keyspace, "--as", form]).ok()
    };
    for _ in 0..3 {
        merge("counters", "5", "u64-add").ok();
    }
    assert_eq!(get("counters", "u64"), "15\n");
    place.run("merge", ["k", "1", "--keyspace", "counters"]).ok();
    assert_eq!(get("counters", "u64"), "16\n");
    let raw = ["6b", "0100000000000000", "--hex", "--keyspace", "counters"];
    place.run("merge", raw).ok();
    assert_eq!(get("counters", "u64"), "17\n");
    merge("signed", "5", "i64-add").ok();
    merge("signed", "-7", "i64-add").ok();
    assert_eq!(get("signed", "i64"), "-2\n");
    merge("lists", "a", "append:,").ok();
    merge("lists", "b", "append:,").ok();
    assert_eq!(get("lists", "bytes"), "a,b\n");
    merge("sets", "pear", "set-union").ok();
    merge("sets", "apple", "set-union").ok();
    merge("sets", "pear", "set-union").ok();
    assert_eq!(get("sets", "set"), "apple\npear\n");
    merge("records", "2:xy", "patch").ok();
    assert_eq!(place.run("get", ["6b", "--hex", "--keyspace", "records"]).ok(), "00007879\n");
    merge("documents", r#"{"a":1,"b":2}"#, "json-merge-patch").ok();
    merge("documents", r#"{"a":null}"#, "json-merge-patch").ok();
    assert_eq!(get("documents", "bytes"), "{\"b\":2}\n");
    merge("counters", "x", "u64-add").fails(2, "whole number");
    merge("counters", "1", "append").fails(2, "u64-add");
    merge("new", "1", "nonesuch").fails(2, "nonesuch");
    place.run("merge", ["k", "1"]).fails(2, "--operator");
    place.run("get", ["k", "--keyspace", "lists", "--as", "u64"]).fails(1, "8");
}

#[test]
fn scans_and_counts_in_every_direction() {
    let place = Place::new();
    place.put(&[("a", "1"), ("b/1", "2"), ("b/2", "3"), ("b0", "4"), ("c", "5")]);
    let scan = |rest: &[&str]| place.run("scan", rest).ok();
    assert_eq!(scan(&[]), "a\t1\nb/1\t2\nb/2\t3\nb0\t4\nc\t5\n");
    assert_eq!(scan(&["--prefix", "b/"]), "b/1\t2\nb/2\t3\n");
    assert_eq!(scan(&["--prefix", "b/", "--reverse", "--limit", "1"]), "b/2\t3\n");
    assert_eq!(scan(&["--from", "b/2", "--to", "c"]), "b/2\t3\nb0\t4\n");
    assert_eq!(scan(&["--from", "b/2", "--to", "c", "--reverse"]), "b0\t4\nb/2\t3\n");
    assert_eq!(scan(&["--keys-only", "--limit", "2"]), "a\nb/1\n");
    assert_eq!(scan(&["--keys-only", "--reverse", "--limit", "2"]), "c\nb0\n");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--hex", "--limit", "1"]), "61\t31\n");
    assert_eq!(scan(&["--hex", "--from", "63"]), "63\t35\n");
    assert_eq!(scan(&["--prefix", "zzz"]), "");
    assert_eq!(scan(&["--json", "--limit", "1"]), "{\"key\":\"a\",\"value\":\"1\"}\n");
    assert_eq!(scan(&["--json", "--keys-only", "--limit", "1"]), "{\"key\":\"a\"}\n");
    let count = |rest: &[&str]| place.run("count", rest).ok();
    assert_eq!(count(&[]), "5\n");
    assert_eq!(count(&["--prefix", "b"]), "3\n");
    assert_eq!(count(&["--from", "b0"]), "2\n");
    assert_eq!(count(&["--to", "b0", "--json"]), "{\"count\":3}\n");
    place.run("scan", ["--from", "b", "--to", "a"]).fails(2, "--from is above --to");
}

#[test]
fn keyspaces_are_apart() {
    let place = Place::new();
    place.put(&[("k", "default")]);
    place.run("put", ["k", "other", "--keyspace", "other"]).ok();
    assert_eq!(place.run("get", ["k"]).ok(), "default\n");
    assert_eq!(place.run("get", ["k", "--keyspace", "other"]).ok(), "other\n");
    place.run("get", ["k", "--keyspace", "third"]).fails(2, "no keyspace 'third'");
    let keyspace = |words: &[&str]| {
        let store = place.store();
        let words =
            words.iter().map(|&word| if word == "DIR" { store.as_os_str() } else { word.as_ref() });
        cleave(std::iter::once(OsStr::new("keyspace")).chain(words))
    };
    keyspace(&["create", "DIR", "counters", "--operator", "u64-add", "--deltas", "inline"]).ok();
    let buckets = ["1", "2", "--keyspace", "sums", "--operator", "u64-add", "--deltas", "buckets"];
    place.run("merge", buckets).ok();
    place.run("merge", ["1", "3", "--keyspace", "sums", "--deltas", "inline"]).fails(2, "Buckets");
    keyspace(&["create", "DIR", "counters"]).fails(1, "already");
    keyspace(&["create", "DIR", "bad", "--operator", "nonesuch"]).fails(2, "nonesuch");
    assert_eq!(
        keyspace(&["list", "DIR"]).ok(),
        "counters\tlsm\tu64-add\tinline\ndefault\tlsm\t-\t-\nother\tlsm\t-\t-\n\
         sums\tlsm\tu64-add\tbuckets\n"
    );
    let json = keyspace(&["DIR", "list", "--json"]).ok();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["name"], &first["merge_operator"]), (&json!("counters"), &json!("u64-add")));
    assert_eq!(first["deltas"], "inline");
    keyspace(&["list", "DIR", "--deltas", "inline"]).fails(2, "keyspace create");
    keyspace(&["create", "DIR", "x", "--deltas", "elsewhere"]).fails(2, "inline, buckets");
    keyspace(&["drop", "DIR", "other"]).ok();
    keyspace(&["drop", "DIR", "other"]).fails(2, "no keyspace 'other'");
    place.run("get", ["k", "--keyspace", "other"]).fails(2, "no keyspace 'other'");
    keyspace(&["rename", "DIR"]).fails(2, "keyspace list");
    keyspace(&["create", "DIR"]).fails(2, "keyspace list");
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|n| format!("key{n:06}\t{n:040}\n")).collect();
    let file = place.file("pairs.tsv", lines);
    place.run("load", [file]).ok();
    for name in ["scan", "export"] {
        let mut child = command(place.arguments(name, NONE))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("key000000"));
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert_eq!((child.wait().unwrap().code(), complaint.as_str()), (Some(0), ""), "{name}");
    }
}
