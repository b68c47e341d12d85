//! Wrong calls and wrong surroundings: exit code 2, one line that says what to do.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::{NONE, Place, cleave, command};

const COMMANDS: [&str; 16] = [
    "put",
    "get",
    "del",
    "merge",
    "scan",
    "count",
    "load",
    "export",
    "stats",
    "verify",
    "compact",
    "checkpoint",
    "keyspace",
    "dump",
    "bench",
    "demo",
];

#[test]
fn every_command_has_help_with_an_example() {
    let all = cleave(["--help"]).ok();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md"));
    let page = page.unwrap();
    for name in COMMANDS {
        let help = cleave([name, "--help"]).ok();
        assert!(help.contains(&format!("Example:\n  cleave {name}")), "{help}");
        assert!(all.contains(&format!("\n  {name} ")), "{name}");
        assert!(page.contains(&format!("cleave {name}")), "docs/cli.md lacks {name}");
    }
    assert!(cleave(["--version"]).ok().starts_with("cleave "));
}

#[test]
fn unknown_options_and_commands_are_named() {
    for name in COMMANDS {
        cleave([name, "--bogus"]).fails(2, "--bogus");
        cleave([name, "--bogus"]).fails(2, &format!("cleave {name} --help"));
    }
    cleave(["nonsense"]).fails(2, "nonsense");
    cleave(NONE).fails(2, "--help");
    cleave(["put", "dir"]).fails(2, "<KEY>");
    cleave(["scan", "dir", "--limit", "x"]).fails(2, "--limit");
    cleave(["scan", "dir", "--prefix", "a", "--from", "b"]).fails(2, "--prefix");
}

#[test]
fn only_some_commands_create_a_store() {
    let place = Place::new();
    for (name, rest) in [
        ("get", vec!["k"]),
        ("del", vec!["k"]),
        ("scan", vec![]),
        ("count", vec![]),
        ("export", vec![]),
        ("stats", vec![]),
        ("verify", vec![]),
        ("compact", vec![]),
        ("checkpoint", vec!["/tmp/never-made"]),
    ] {
        place.run(name, rest).fails(2, "there is no store");
        assert!(!place.store().exists(), "{name}");
    }
    cleave(["keyspace", "list", place.store().to_str().unwrap()]).fails(2, "there is no store");
    let store = place.store();
    cleave(["keyspace", "create", store.to_str().unwrap(), "x"]).fails(2, "there is no store");
    assert!(!place.store().exists());
}

#[test]
fn a_directory_without_a_store_and_a_file_are_told_apart() {
    let place = Place::new();
    std::fs::create_dir(place.store()).unwrap();
    place.run("get", ["k"]).fails(2, "there is no store");
    assert_eq!(std::fs::read_dir(place.store()).unwrap().count(), 0);
    place.run("put", ["k", "v"]).ok();
    let deep = place.beside("no/such/store");
    cleave(["put".as_ref(), deep.as_os_str(), "k".as_ref(), "v".as_ref()]).fails(2, "folder above");
    let file = place.file("file", "text");
    cleave(["get".as_ref(), file.as_os_str(), "k".as_ref()]).fails(2, "is a file");
    cleave(["put".as_ref(), file.as_os_str(), "k".as_ref(), "v".as_ref()]).fails(2, "is a file");
}

#[test]
fn a_store_in_use_is_left_alone() {
    let place = Place::new();
    place.put(&[("a", "b")]);
    let mut writer =
        command(place.arguments("demo-writer", ["0", "1"])).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut pipe = BufReader::new(writer.stdout.take().unwrap());
    pipe.read_line(&mut line).unwrap();
    place.run("put", ["a", "c"]).fails(2, "open in another process");
    place.run("compact", NONE).fails(2, "open in another process");
    place.run("get", ["a"]).fails(2, "open in another process");
    place.run("verify", NONE).fails(2, "open in another process");
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(place.run("get", ["a"]).ok(), "b\n");
    place.run("put", ["a", "c"]).ok();
}

#[test]
fn too_long_keys_are_refused() {
    let place = Place::new();
    place.put(&[("a", "b")]);
    let key = "k".repeat(70_000);
    place.run("put", [key.as_str(), "v"]).fails(2, "65535");
    assert_eq!(place.run("count", NONE).ok(), "1\n");
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let place = Place::new();
    place.file("closed/file", "");
    let closed = place.beside("closed");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o500)).unwrap();
    let may_write = std::fs::write(closed.join("probe"), b"").is_ok();
    // Root may write everywhere, so there is nothing to see.
    if !may_write {
        let store = closed.join("store");
        let run = cleave(["put".as_ref(), store.as_os_str(), "k".as_ref(), "v".as_ref()]);
        assert!(run.code == 1 || run.code == 2);
        assert!(run.stderr.contains("closed"), "{run:?}");
    }
}
