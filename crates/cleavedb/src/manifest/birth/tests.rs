//! Absent, unfinished, present or damaged: directories of every kind.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::memory_disk::MemoryDisk;
use crate::log::testing::{DIR, UUID, append, batch, disk, io, path, spec};
use crate::log::writer::SegmentWriter;
use crate::manifest::Manifest;

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn state(disk: &MemoryDisk) -> Result<State> {
    probe(&io(disk), dir())
}

fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
    disk.replace(dir().join(name), bytes).unwrap();
}

fn created() -> MemoryDisk {
    let disk = disk();
    drop(Manifest::create(&io(&disk), dir(), UUID, Vec::new()).unwrap());
    disk
}

#[test]
fn a_directory_without_files_of_ours_is_absent() {
    assert_eq!(probe(&io(&MemoryDisk::new()), dir()).unwrap(), State::Absent);
    let disk = disk();
    assert_eq!(state(&disk).unwrap(), State::Absent);
    put(&disk, "LOCK", b"");
    put(&disk, "notes.txt", b"not ours");
    put(&disk, "7.log", b"not ours either: its number is too short");
    assert_eq!(state(&disk).unwrap(), State::Absent);
    let error = Manifest::read_only(&io(&disk), dir()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn any_other_file_of_ours_without_current_is_damage() {
    for name in [
        "OPTIONS",
        "RESERVE",
        "000002.log",
        "000003.tbl",
        "000001.man",
        "000001.man.tmp",
        "OPTIONS.tmp",
    ] {
        let disk = disk();
        put(&disk, name, b"");
        assert_eq!(state(&disk).unwrap_err().kind(), ErrorKind::Corruption, "{name}");
        let error = Manifest::open(&io(&disk), dir()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{name}");
    }
}

#[test]
fn a_lost_current_is_never_an_empty_database() {
    let disk = created();
    disk.remove("/db/CURRENT").unwrap();
    assert_eq!(state(&disk).unwrap_err().kind(), ErrorKind::Corruption);
    for bad in [&b""[..], &[0; 48], b"CLVCURNT", &[0xff; 48]] {
        let disk = created();
        put(&disk, "CURRENT", bad);
        assert_eq!(state(&disk).unwrap(), State::Present);
        for error in [
            Manifest::open(&io(&disk), dir()).err().unwrap(),
            Manifest::read_only(&io(&disk), dir()).err().unwrap(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert_eq!(error.file(), Some(Path::new("/db/CURRENT")));
        }
    }
}

/// With the marker there, only what creation makes counts as unfinished.
#[test]
fn the_marker_does_not_hide_a_database() {
    let begun = || {
        let disk = disk();
        begin_creation(&io(&disk), dir(), &UUID).unwrap();
        put(&disk, "LOCK", b"");
        put(&disk, "OPTIONS", b"x");
        put(&disk, "RESERVE", &[0; 100]);
        put(&disk, "000001.man", b"");
        put(&disk, "CURRENT.tmp", b"");
        disk
    };
    let disk = begun();
    SegmentWriter::create(&io(&disk), &path(2), &spec(2, 100_000)).unwrap();
    assert_eq!(state(&disk).unwrap(), State::Unfinished);
    let error = Manifest::open(&io(&disk), dir()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let with_table = begun();
    put(&with_table, "000003.tbl", b"");
    let with_manifests = begun();
    put(&with_manifests, "000003.man", b"");
    let with_frames = begun();
    let mut writer = SegmentWriter::create(&io(&with_frames), &path(2), &spec(2, 100_000)).unwrap();
    append(&mut writer, 1, 1, &batch(1, 1, 10), 0);
    let with_damaged_marker = begun();
    put(&with_damaged_marker, "CREATING", &[0; 48]);
    for disk in [with_table, with_manifests, with_frames, with_damaged_marker] {
        assert_eq!(state(&disk).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn an_unfinished_creation_is_cleared_and_begun_again() {
    let disk = disk();
    let io = io(&disk);
    begin_creation(&io, dir(), &UUID).unwrap();
    for name in ["LOCK", "OPTIONS", "RESERVE", "000001.man", "000002.log", "CURRENT.tmp"] {
        put(&disk, name, b"");
    }
    put(&disk, "notes.txt", b"not ours");
    clear_unfinished(&io, dir()).unwrap();
    let names: Vec<_> = io.disk.read_dir(dir()).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["CREATING", "LOCK", "notes.txt"]);
    assert_eq!(state(&disk).unwrap(), State::Unfinished);
    drop(Manifest::create(&io, dir(), UUID, Vec::new()).unwrap());
    assert_eq!(state(&disk).unwrap(), State::Present);
    let names: Vec<_> = io.disk.read_dir(dir()).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["000001.man", "CURRENT", "LOCK", "notes.txt"]);
}
