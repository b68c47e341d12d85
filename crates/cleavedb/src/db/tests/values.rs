//! Separated values, seen from outside: through both lanes, flushed or not, over every kind of
//! read, crash and damage.

use std::path::{Path, PathBuf};

use super::*;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::engine::commit::StopIfUnwound;
use crate::io::memory_disk::CrashMode;
use crate::{Compression, Durability, ErrorKind};

/// Value segments of 2 KiB, so that some writes fill one, and a tail that holds some values.
fn widths() -> Widths {
    Widths {
        value_segment_bytes: 2 << 10,
        value_tail_bytes: 1 << 10,
        ..Widths::for_budget(1 << 20)
    }
}

fn try_open(disk: &MemoryDisk, widths: Widths) -> crate::Result<(Db, Io)> {
    let io = world(disk);
    let settings = small().into_settings();
    let engine = Engine::open(io.clone(), Path::new("/db"), settings, widths)?;
    Ok((Db::new(Handle::new(engine, Durability::Buffered)), io))
}

fn open(disk: &MemoryDisk) -> (Db, Io) {
    try_open(disk, widths()).unwrap()
}

/// A keyspace that separates from 8 bytes on.
fn apart(db: &Db) -> Keyspace {
    let options =
        KeyspaceOptions::new().separate_at(Some(8)).merge_operator(crate::operators::APPEND);
    db.keyspace("apart", options).unwrap()
}

/// A value that is long enough to be separated.
fn long(number: u32) -> String {
    format!("value {number:06}")
}

fn value_files(disk: &MemoryDisk) -> Vec<PathBuf> {
    let all = disk.files().into_iter().map(|(path, _)| path);
    all.filter(|path| path.extension().is_some_and(|end| end == "val")).collect()
}

/// Every way to read says the same.
pub(super) fn assert_reads(keyspace: &Keyspace, expected: &[(String, String)]) {
    let text = |value: crate::Value| String::from_utf8(value.to_vec()).unwrap();
    let pair = |item: crate::Result<(crate::Value, crate::Value)>| {
        let (key, value) = item.unwrap();
        (text(key), text(value))
    };
    assert_eq!(keyspace.iter().map(pair).collect::<Vec<_>>(), expected);
    let mut backward: Vec<_> = keyspace.iter().rev().map(pair).collect();
    backward.reverse();
    assert_eq!(backward, expected);
    let keys: Vec<_> = keyspace.iter().keys().map(|key| text(key.unwrap())).collect();
    assert!(keys.iter().eq(expected.iter().map(|(key, _)| key)));
    let guards = keyspace.iter().guards().map(|guard| text(guard.unwrap().value().unwrap()));
    assert!(guards.eq(expected.iter().map(|(_, value)| value.clone())));
    let many = keyspace.multi_get(expected.iter().map(|(key, _)| key)).unwrap();
    for ((key, value), one) in expected.iter().zip(many) {
        assert_eq!(one.unwrap(), value.as_bytes());
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value.as_bytes());
        assert!(keyspace.contains(key).unwrap());
    }
}

fn assert_sound(db: &Db) {
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

fn key(number: u32) -> String {
    format!("key {number:03}")
}

fn filled(keyspace: &Keyspace, count: u32) -> Vec<(String, String)> {
    let pair = |number: u32| {
        // Every third value is too short to be separated.
        let value = if number.is_multiple_of(3) { "short".to_owned() } else { long(number) };
        keyspace.put(key(number), &value).unwrap();
        (key(number), value)
    };
    (0..count).map(pair).collect()
}

#[test]
fn separated_values_are_read_from_memory_files_and_after_reopening() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    let expected = filled(&keyspace, 120);
    assert_reads(&keyspace, &expected);
    assert!(value_files(&disk).len() > 2, "values fill some segments");
    let stats = db.stats();
    assert!(stats.bytes_written["values"] > 80 * 12 && stats.values.entries == 0, "{stats:?}");
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();

    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    assert_reads(&keyspace, &expected);
    db.flush().unwrap();
    assert_eq!(db.stats().values.entries, 80, "two of three are separated");
    assert_reads(&keyspace, &expected);
    keyspace.compact().unwrap();
    assert_reads(&keyspace, &expected);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();

    let (db, _io) = open(&disk);
    assert_reads(&apart(&db), &expected);
    assert_sound(&db);
}

#[test]
fn merges_fold_into_separated_bases() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    keyspace.put("k", "a long base").unwrap();
    keyspace.merge("k", "+1").unwrap();
    let expected = |text: &str| vec![("k".to_owned(), text.to_owned())];
    assert_reads(&keyspace, &expected("a long base+1"));
    db.flush().unwrap();
    assert_reads(&keyspace, &expected("a long base+1"));
    keyspace.merge("k", "+2").unwrap();
    assert_reads(&keyspace, &expected("a long base+1+2"));
    db.flush().unwrap();
    keyspace.compact().unwrap();
    assert_reads(&keyspace, &expected("a long base+1+2"));
    assert!(!keyspace.compare_and_swap("k", Some(b"a long base"), None).unwrap());
    let swapped = keyspace.compare_and_swap("k", Some(b"a long base+1+2"), Some(b"something new"));
    assert!(swapped.unwrap());
    assert_reads(&keyspace, &expected("something new"));
    assert_sound(&db);
}

#[test]
fn a_snapshot_keeps_reading_what_is_superseded() {
    let disk = MemoryDisk::new();
    let (db, io) = open(&disk);
    let keyspace = apart(&db);
    let before = filled(&keyspace, 60);
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let held = keyspace.iter();
    for number in 0..60 {
        keyspace.put(key(number), long(1000 + number)).unwrap();
    }
    db.flush().unwrap();
    keyspace.compact().unwrap();
    while io.executor.help() {}
    for number in [1, 2, 58] {
        let old = snapshot.get(&keyspace, key(number)).unwrap().unwrap();
        assert_eq!(old, long(number).as_bytes());
    }
    let values: Vec<_> = held.map(|item| item.unwrap().1).collect();
    assert_eq!(values.len(), before.len());
    for (value, (_, expected)) in values.iter().zip(&before) {
        assert_eq!(*value, expected.as_bytes());
    }
    assert_sound(&db);
}

#[test]
fn files_go_away_when_no_entry_names_them() {
    let disk = MemoryDisk::new();
    let (db, io) = open(&disk);
    let keyspace = apart(&db);
    filled(&keyspace, 200);
    db.flush().unwrap();
    let before = value_files(&disk);
    assert!(before.len() > 3, "{before:?}");
    for round in 1..3 {
        for number in 0..200 {
            keyspace.put(key(number), long(1000 * round + number)).unwrap();
        }
    }
    db.flush().unwrap();
    keyspace.compact().unwrap();
    db.wait_idle().unwrap();
    while io.executor.help() {}
    let after = value_files(&disk);
    assert!(!before.iter().any(|path| after.contains(path)), "{before:?} {after:?}");
    // Some may have been moved meanwhile.
    db.flush().unwrap();
    keyspace.compact().unwrap();
    assert_eq!(db.stats().values.entries, 200);
    assert_eq!(keyspace.iter().count(), 200);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let (db, _io) = open(&disk);
    assert_eq!(apart(&db).iter().count(), 200);
}

#[test]
fn a_dropped_keyspace_names_nothing_any_more() {
    let disk = MemoryDisk::new();
    let (db, io) = open(&disk);
    filled(&apart(&db), 100);
    db.flush().unwrap();
    assert!(db.stats().values.entries > 0);
    db.drop_keyspace("apart").unwrap();
    assert_eq!(db.stats().values.entries, 0);
    while io.executor.help() {}
    // The newest one stays.
    assert_eq!(db.stats().values.files, 1);
    assert_sound(&db);
}

#[test]
fn values_are_compressed_where_that_saves_enough() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let options = KeyspaceOptions::new().separate_at(Some(8)).value_compression(Compression::Zstd);
    let keyspace = db.keyspace("dense", options).unwrap();
    let text = "the same again and again, ".repeat(100);
    keyspace.put("k", &text).unwrap();
    assert!(db.stats().values.file_bytes < 1000);
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    db.flush().unwrap();
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
}

#[test]
fn a_checkpoint_holds_both_lanes() {
    let disk = MemoryDisk::new();
    let (db, io) = open(&disk);
    let keyspace = apart(&db);
    let mut expected = filled(&keyspace, 60);
    db.flush().unwrap();
    keyspace.put("later", "a long later value").unwrap();
    keyspace.put("later still", "short").unwrap();
    db.checkpoint("/copy").unwrap();
    keyspace.put(key(1), "not in the copy").unwrap();
    drop(keyspace);
    db.close().unwrap();
    expected.push(("later".to_owned(), "a long later value".to_owned()));
    expected.push(("later still".to_owned(), "short".to_owned()));
    let copy = small().open_in(world(&disk), Path::new("/copy")).unwrap();
    assert_reads(&apart(&copy), &expected);
    assert_sound(&copy);
    drop(io);
}

/// The contents with zeros from the last frame on, as if it had never reached the device.
fn without_last_frame(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let last = bytes.windows(4).rposition(|window| window == b"CLVF").unwrap();
    bytes[last..].fill(0);
    bytes
}

#[test]
fn a_log_ends_at_the_first_seq_that_neither_lane_has() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    keyspace.put("a", "short").unwrap();
    keyspace.put("b", "long enough to be separated").unwrap();
    db.sync().unwrap();
    keyspace.put("c", "long enough, but not synced").unwrap();
    keyspace.put("d", "after").unwrap();
    // The process is killed, and the value lane's last write does not reach the device.
    let crashed = disk.crash_image(CrashMode::All, 0);
    let newest = value_files(&crashed).pop().unwrap();
    let cut = without_last_frame(&crashed.contents(&newest));
    crashed.replace(&newest, cut).unwrap();
    let (again, _io) = open(&crashed);
    let keys = |db: &Db| -> Vec<Vec<u8>> {
        apart(db).iter().keys().map(|key| key.unwrap().to_vec()).collect()
    };
    let found = keys(&again);
    assert_eq!(found, [b"a", b"b"], "what lies beyond the gap is gone, too");
    assert_sound(&again);
    // The seqs are given out again, to be found in the place of those cut off.
    apart(&again).put("e", "short").unwrap();
    apart(&again).put("f", "and a long one").unwrap();
    let crashed = crashed.crash_image(CrashMode::All, 0);
    let (again, _io) = open(&crashed);
    let found = keys(&again);
    assert_eq!(found, [b"a", b"b", b"e", b"f"]);
    assert_sound(&again);
}

#[test]
fn a_lost_frame_that_was_durable_is_damage() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    keyspace.put("a", "short").unwrap();
    keyspace.put("b", "long enough to be separated").unwrap();
    db.sync().unwrap();
    keyspace.put("c", "after").unwrap();
    let crashed = disk.crash_image(CrashMode::All, 0);
    let newest = value_files(&crashed).pop().unwrap();
    let cut = without_last_frame(&crashed.contents(&newest));
    crashed.replace(&newest, cut).unwrap();
    let error = try_open(&crashed, widths()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_flipped_bit_in_a_value_is_an_error_that_names_the_file() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    filled(&keyspace, 10);
    db.flush().unwrap();
    drop(keyspace);
    db.close().unwrap();
    let file = value_files(&disk).remove(0);
    let mut bytes = disk.contents(&file);
    let at = bytes.windows(12).position(|window| window == long(4).as_bytes()).unwrap();
    bytes[at] ^= 1;
    disk.replace(&file, bytes).unwrap();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    let error = keyspace.get(key(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.file().is_some_and(|path| path == file), "{error:?}");
    assert_eq!(keyspace.get(key(5)).unwrap().unwrap(), long(5).as_bytes());
    assert!(keyspace.contains(key(4)).unwrap(), "no value is read for that");
    assert!(!db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}

#[test]
fn a_segment_that_finds_no_room_for_its_footer_does_without() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    let mut expected = Vec::new();
    while db.stats().values.file_bytes < 1850 {
        let number = expected.len() as u32;
        keyspace.put(key(number), long(number)).unwrap();
        expected.push((key(number), long(number)));
    }
    assert!(value_files(&disk).len() <= 2, "one segment and a blank one");
    let file = value_files(&disk).remove(0);
    drop(keyspace);
    disk.set_capacity(Some(0));
    // The manifest may find no room either.
    let _ = db.close();
    disk.set_capacity(None);
    let mut text = String::new();
    crate::log::dump::values::dump_values(&disk.contents(&file), &mut text);
    assert!(!text.contains("frame: footer"), "{text}");
    let (db, _io) = open(&disk);
    assert_reads(&apart(&db), &expected);
    assert_sound(&db);
}

#[test]
fn sealing_one_lane_makes_the_other_durable() {
    let disk = MemoryDisk::new();
    let (db, _io) = try_open(&disk, Widths { journal_segment_bytes: 1 << 10, ..widths() }).unwrap();
    let keyspace = apart(&db);
    keyspace.put("a", "long enough to be separated").unwrap();
    let synced = |disk: &MemoryDisk| {
        let (db, _io) = open(&disk.crash_image(CrashMode::None, 0));
        db.existing_keyspace("apart").unwrap().unwrap().contains("a").unwrap()
    };
    assert!(!synced(&disk), "nothing has asked for it");
    let rolls = || db.stats().stalls["journal_roll"].count;
    let before = rolls();
    let mut number = 0;
    while rolls() == before {
        keyspace.put(key(number), "short").unwrap();
        number += 1;
    }
    assert!(synced(&disk), "a gap below a sealed segment");
}

#[test]
fn a_reader_sees_both_lanes_and_writes_nothing() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let expected = filled(&apart(&db), 50);
    let crashed = disk.crash_image(CrashMode::All, 0);
    let before = crashed.digest();
    let reader = small().read_only(true).open_in(world(&crashed), Path::new("/db")).unwrap();
    assert_reads(&reader.existing_keyspace("apart").unwrap().unwrap(), &expected);
    assert_sound(&reader);
    drop(reader);
    assert_eq!(crashed.digest(), before);
}

#[test]
fn rolls_of_value_segments_have_their_own_reason_and_footers_count_as_memory() {
    let disk = MemoryDisk::new();
    let widths = Widths { value_segment_bytes: 8 << 10, value_tail_bytes: 0, ..widths() };
    let (db, _io) = try_open(&disk, widths).unwrap();
    let keyspace = apart(&db);
    let held = || db.stats().memory_bytes["value_tail"];
    let rolls = |reason: &str| db.stats().stalls[reason].count;
    let journal = rolls("journal_roll");
    assert_eq!((held(), rolls("value_log_roll")), (0, 0));
    keyspace.put("a", long(0)).unwrap();
    let (one, first) = (held(), rolls("value_log_roll"));
    let mut number = 0;
    let mut most = 0;
    while rolls("value_log_roll") == first {
        most = held();
        keyspace.put(key(number), long(number)).unwrap();
        number += 1;
    }
    assert!(most >= one + 10 * u64::from(number - 1), "{one} bytes, then {most} at {number}");
    assert!(held() < most, "the footer is written");
    assert_eq!(rolls("journal_roll"), journal);
}

/// What one long batch was encoded in is not kept for the short ones behind it.
#[test]
fn memory_of_a_long_batch_is_given_back() {
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    let lane = &keyspace.handle.engine.value_lane;
    let mut batch = db.batch();
    for number in 0..100_u32 {
        batch.put(&keyspace, number.to_be_bytes(), [7; 40_000]);
    }
    batch.commit(Durability::Buffered).unwrap();
    assert!(lane.memory_bytes() < 1 << 20, "{}", lane.memory_bytes());
    keyspace.put("short", long(1)).unwrap();
    assert!(lane.memory_bytes() < 1 << 20, "{}", lane.memory_bytes());
    assert_eq!(keyspace.get(99_u32.to_be_bytes()).unwrap().unwrap(), [7; 40_000]);
}

/// A panic below a writer ends writing, as it leaves open how far the log got; a write by what an
/// unwinding thread drops ends nothing.
#[test]
fn a_panic_while_logging_stops_writes() {
    struct PutsWhenDropped<'a>(&'a Keyspace);
    impl Drop for PutsWhenDropped<'_> {
        fn drop(&mut self) {
            self.0.put("dropped", long(2)).unwrap();
        }
    }
    let disk = MemoryDisk::new();
    let (db, _io) = open(&disk);
    let keyspace = apart(&db);
    let unwound = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    assert!(unwound(&|| {
        let _puts = PutsWhenDropped(&keyspace);
        panic!("not while logging");
    }));
    keyspace.put("after", long(3)).unwrap();
    assert!(unwound(&|| {
        let _stopping = StopIfUnwound::new(&keyspace.handle.engine);
        panic!("while logging");
    }));
    assert_eq!(keyspace.put("later", long(4)).unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(keyspace.get("dropped").unwrap().unwrap(), long(2));
}
