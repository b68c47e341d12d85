//! Values in files of their own, seen from outside: written and read piece by piece, flushed or
//! not, over crashes, damage and failing sources.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::*;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::memory_disk::CrashMode;
use crate::{Durability, ErrorKind, StrategyKind};

/// Chunks of 100 bytes, and a file of its own for what is longer than 300.
pub(super) fn widths() -> Widths {
    Widths {
        large_value_bytes: 300,
        large_chunk_bytes: 100,
        value_segment_bytes: 2 << 10,
        ..Widths::for_budget(1 << 20)
    }
}

pub(super) fn open_with(disk: &MemoryDisk, durability: Durability) -> crate::Result<Db> {
    let settings = small().strategy(StrategyKind::Wisckey).into_settings();
    let engine = Engine::open(world(disk), Path::new("/db"), settings, widths())?;
    Ok(Db::new(Handle::new(engine, durability)))
}

pub(super) fn open(disk: &MemoryDisk) -> Db {
    open_with(disk, Durability::Buffered).unwrap()
}

/// A keyspace that separates from 8 bytes on, and one that separates nothing shorter than large.
pub(super) fn keyspaces(db: &Db) -> [Keyspace; 2] {
    let append = || KeyspaceOptions::new().merge_operator(crate::operators::APPEND);
    [
        db.keyspace("apart", append().separate_at(Some(8))).unwrap(),
        db.keyspace("within", append().separate_at(None)).unwrap(),
    ]
}

/// `length` bytes that differ from place to place and from one `tag` to another.
pub(super) fn long(tag: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| tag ^ (at / 7) as u8 ^ (at as u8).wrapping_mul(31)).collect()
}

pub(super) fn large_files(disk: &MemoryDisk) -> Vec<PathBuf> {
    let all = disk.files().into_iter().map(|(path, _)| path);
    all.filter(|path| path.extension().is_some_and(|end| end == "big")).collect()
}

pub(super) fn assert_sound(db: &Db) {
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

pub(super) fn streamed(keyspace: &Keyspace, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    keyspace.get_reader(key).unwrap().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// Every way to read says the same.
pub(super) fn assert_reads(keyspace: &Keyspace, expected: &[(String, Vec<u8>)]) {
    let pair = |item: crate::Result<(crate::Value, crate::Value)>| {
        let (key, value) = item.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
    };
    assert!(keyspace.iter().map(pair).eq(expected.iter().cloned()));
    assert!(keyspace.iter().rev().map(pair).eq(expected.iter().rev().cloned()));
    let many = keyspace.multi_get(expected.iter().map(|(key, _)| key)).unwrap();
    for ((key, value), one) in expected.iter().zip(many) {
        assert!(one.unwrap() == value.as_slice(), "{key}");
        assert!(keyspace.get(key).unwrap().unwrap() == value.as_slice(), "{key}");
        assert!(streamed(keyspace, key) == *value, "{key}");
        assert!(keyspace.contains(key).unwrap());
    }
}

/// Pairs around every border: of chunk, of stream and of put.
fn filled(keyspace: &Keyspace) -> Vec<(String, Vec<u8>)> {
    let lengths = [0, 1, 99, 100, 101, 200, 299, 300, 301, 400, 499, 1000, 12_345];
    let mut expected = Vec::new();
    for (number, length) in lengths.into_iter().enumerate() {
        let (put, stream) = (format!("p {length:05}"), format!("s {length:05}"));
        let value = long(number as u8, length);
        keyspace.put(&put, &value).unwrap();
        expected.push((put, value));
        let value = long(100 + number as u8, length);
        keyspace.put_reader(&stream, &mut value.as_slice(), None).unwrap();
        expected.push((stream, value));
    }
    expected.sort();
    expected
}

#[test]
fn large_values_are_read_before_and_after_flush_and_after_reopening() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let spaces = keyspaces(&db);
    let expected = spaces.each_ref().map(filled);
    for (keyspace, expected) in spaces.iter().zip(&expected) {
        assert_reads(keyspace, expected);
    }
    // Of 13 lengths, puts of 5 and streams of 9.
    assert_eq!(large_files(&disk).len(), 2 * (5 + 9));
    assert_eq!(db.stats().values.large_files, 2 * (5 + 9));
    assert_sound(&db);
    drop(spaces);
    db.close().unwrap();

    let db = open(&disk);
    let spaces = keyspaces(&db);
    for (keyspace, expected) in spaces.iter().zip(&expected) {
        assert_reads(keyspace, expected);
    }
    assert_sound(&db);
    db.flush().unwrap();
    assert_sound(&db);
    for (keyspace, expected) in spaces.iter().zip(&expected) {
        assert_reads(keyspace, expected);
    }
    drop(spaces);
    db.close().unwrap();
    let db = open(&disk);
    for (keyspace, expected) in keyspaces(&db).iter().zip(&expected) {
        assert_reads(keyspace, expected);
        keyspace.compact().unwrap();
        assert_reads(keyspace, expected);
    }
    assert_eq!(large_files(&disk).len(), 2 * (5 + 9));
    assert_sound(&db);
}

#[test]
fn a_file_goes_away_with_its_value_and_not_before_its_readers() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    let old = long(1, 1000);
    keyspace.put("a", &old).unwrap();
    keyspace.put("b", long(2, 1000)).unwrap();
    db.flush().unwrap();
    let mut stream = keyspace.get_reader("a").unwrap().unwrap();
    let mut start = [0; 150];
    stream.read_exact(&mut start).unwrap();
    keyspace.put("a", long(3, 1000)).unwrap();
    // Superseded in the same memtable: its file never comes into an index.
    keyspace.put("a", long(4, 1000)).unwrap();
    keyspace.delete("b").unwrap();
    db.flush().unwrap();
    keyspace.compact().unwrap();
    db.reclaim(None, &mut |_| {}).unwrap();
    assert_eq!(large_files(&disk).len(), 2, "the newest, and the one that is being read");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!([start.as_slice(), &rest].concat(), old);
    drop(stream);
    db.reclaim(None, &mut |_| {}).unwrap();
    assert_sound(&db);
    assert_reads(&keyspace, &[("a".to_owned(), long(4, 1000))]);
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(large_files(&disk).len(), 1);
}

#[test]
fn what_is_superseded_goes_before_its_entry_is_compacted() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [_, keyspace] = keyspaces(&db);
    keyspace.put("a", long(1, 1000)).unwrap();
    keyspace.put("b", long(2, 1000)).unwrap();
    db.flush().unwrap();
    let snapshot = db.snapshot();
    keyspace.put("a", "short").unwrap();
    keyspace.put("b", long(3, 1000)).unwrap();
    let reclaim = || db.reclaim(None, &mut |_| {}).unwrap();
    assert_eq!((reclaim().files, large_files(&disk).len()), (0, 3), "a snapshot needs them");
    assert_eq!(snapshot.get(&keyspace, "a").unwrap().unwrap(), long(1, 1000));
    drop(snapshot);
    assert_eq!((reclaim().files, large_files(&disk).len()), (2, 1));
    let expected = [("a".to_owned(), b"short".to_vec()), ("b".to_owned(), long(3, 1000))];
    assert_reads(&keyspace, &expected);
    assert_sound(&db);
    let crashed = disk.crash_image(CrashMode::None, 0);
    drop(db);
    let db = open(&crashed);
    let [_, keyspace] = keyspaces(&db);
    assert_reads(&keyspace, &expected);
    keyspace.compact().unwrap();
    assert_reads(&keyspace, &expected);
    assert_sound(&db);
}

#[test]
fn a_torn_file_ends_the_log_and_a_durable_one_that_is_damaged_is_an_error() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    db.sync().unwrap();
    keyspace.put("a", "before").unwrap();
    keyspace.put("b", long(1, 1000)).unwrap();
    keyspace.put("c", "after").unwrap();
    let unsynced = disk.crash_image(CrashMode::All, 0);
    db.sync().unwrap();
    // Its frame says up to where the log was durable.
    keyspace.put("d", "last").unwrap();
    db.sync().unwrap();
    let synced = disk.crash_image(CrashMode::None, 0);
    for (disk, is_durable) in [(unsynced, false), (synced, true)] {
        let [path] = large_files(&disk).try_into().unwrap();
        let whole = disk.contents(&path);
        for damage in 0..3 {
            let disk = disk.deep_clone();
            match damage {
                0 => disk.remove(&path).unwrap(),
                1 => disk.replace(&path, whole[..whole.len() / 2].to_vec()).unwrap(),
                _ => {
                    let mut bytes = whole.clone();
                    bytes[500] ^= 1;
                    disk.replace(&path, bytes).unwrap();
                }
            }
            let opened = open_with(&disk, Durability::Buffered);
            if is_durable {
                let error = opened.err().unwrap();
                assert_eq!(error.kind(), ErrorKind::Corruption, "{damage}: {error}");
                assert_eq!(error.file(), Some(&*path), "{damage}: {error}");
                continue;
            }
            let db = opened.unwrap();
            let [keyspace, _] = keyspaces(&db);
            assert_eq!(keyspace.get("a").unwrap().unwrap(), "before");
            assert_eq!(keyspace.get("b").unwrap(), None);
            assert_eq!(keyspace.get("c").unwrap(), None, "a prefix");
            assert!(large_files(&disk).is_empty());
            keyspace.put("b", long(2, 1000)).unwrap();
            assert_sound(&db);
        }
    }
}

#[test]
fn a_stream_can_be_positioned_anywhere() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    for (key, length) in [("large", 1234), ("small", 50)] {
        let value = long(9, length);
        keyspace.put(key, &value).unwrap();
        let mut stream = keyspace.get_reader(key).unwrap().unwrap();
        assert_eq!((stream.len(), stream.is_empty()), (length as u64, false));
        for start in [0, 1, length / 2, length - 1, length, length + 10, 0] {
            stream.seek(SeekFrom::Start(start as u64)).unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, value.get(start..).unwrap_or_default());
        }
        assert_eq!(stream.seek(SeekFrom::End(-3)).unwrap(), length as u64 - 3);
        assert_eq!(stream.seek(SeekFrom::Current(1)).unwrap(), length as u64 - 2);
        assert!(stream.seek(SeekFrom::Current(-1 - length as i64)).is_err());
    }
    assert!(keyspace.get_reader("absent").unwrap().is_none());
}

#[test]
fn merges_batches_snapshots_and_swaps_take_large_values() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, other] = keyspaces(&db);
    let (one, two) = (long(1, 700), long(2, 800));
    let mut batch = db.batch();
    batch.put(&keyspace, "a", &one).put(&other, "a", "small").put(&keyspace, "b", "12345678");
    batch.put(&other, "b", &two).commit(Durability::Buffered).unwrap();
    let snapshot = db.snapshot();
    keyspace.merge("a", "!").unwrap();
    let merged = [one.as_slice(), b"!"].concat();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), merged);
    assert_eq!(streamed(&keyspace, "a"), merged);
    assert!(other.compare_and_swap("b", Some(&two), Some(&one)).unwrap());
    assert!(!other.compare_and_swap("b", Some(&two), Some(&one)).unwrap());
    for _ in 0..2 {
        assert_eq!(snapshot.get(&other, "b").unwrap().unwrap(), two);
        let mut bytes = Vec::new();
        let mut stream = snapshot.get_reader(&keyspace, "a").unwrap().unwrap();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, one);
        assert_eq!(other.get("b").unwrap().unwrap(), one);
        assert_eq!(keyspace.get("a").unwrap().unwrap(), merged);
        db.flush().unwrap();
        other.compact().unwrap();
        keyspace.compact().unwrap();
        assert_sound(&db);
    }
    // A batch that is not committed leaves nothing.
    let before = large_files(&disk).len();
    batch.put(&keyspace, "c", &one);
    assert_eq!(large_files(&disk).len(), before + 1);
    batch.clear();
    db.reclaim(None, &mut |_| {}).unwrap();
    drop(batch);
    assert_eq!(keyspace.get("c").unwrap(), None);
    drop((snapshot, keyspace, other));
    db.close().unwrap();
    let db = open(&disk);
    assert!(large_files(&disk).len() <= before);
    assert_sound(&db);
}

/// Ends with an error after some bytes.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, mut buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::Error::other("the source is gone"));
        }
        let count = buffer.write(&vec![7; self.0.min(33)])?;
        self.0 -= count;
        Ok(count)
    }
}

#[test]
fn a_source_that_fails_or_is_too_long_stores_nothing() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    for bytes in [0, 10, 150, 5000] {
        let error = keyspace.put_reader("a", &mut Failing(bytes), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("the source is gone"), "{error}");
    }
    // What was announced must come, whether it is a large value or not.
    for bytes in [0_usize, 20, 150, 300, 5000] {
        let mut wrong = vec![bytes + 1, bytes + 1000];
        wrong.extend(bytes.checked_sub(1));
        for announced in wrong {
            let value = long(1, bytes);
            let length = Some(announced as u64);
            let error = keyspace.put_reader("a", &mut value.as_slice(), length).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bytes} for {announced}");
            assert!(error.message().contains(&announced.to_string()), "{error}");
        }
        assert_eq!(keyspace.get("a").unwrap(), None);
        assert!(large_files(&disk).is_empty());
    }
    let too_long = Some(crate::LARGE_VALUE_BYTES_MAX + 1);
    let error = keyspace.put_reader("a", &mut Failing(9), too_long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(keyspace.get("a").unwrap(), None);
    assert!(large_files(&disk).is_empty());
    disk.set_capacity(Some(100));
    let error = keyspace.put("a", long(1, 5000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    disk.set_capacity(None);
    assert!(large_files(&disk).is_empty());
    keyspace.put("a", long(1, 5000)).unwrap();
    assert_eq!(keyspace.get("a").unwrap().unwrap(), long(1, 5000));
}

#[test]
fn an_acknowledged_value_survives_what_its_durability_says() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    db.sync().unwrap();
    keyspace.put("buffered", long(1, 1000)).unwrap();
    let kept = |disk: &MemoryDisk, key: &str| {
        let db = open(disk);
        let [keyspace, _] = keyspaces(&db);
        let value = keyspace.get(key).unwrap();
        assert_sound(&db);
        drop((keyspace, db));
        let db = open(disk);
        assert_eq!(large_files(disk).len(), value.iter().count(), "no orphan stays");
        drop(db);
        value
    };
    assert_eq!(kept(&disk.crash_image(CrashMode::All, 0), "buffered").unwrap(), long(1, 1000));
    assert_eq!(kept(&disk.crash_image(CrashMode::None, 0), "buffered"), None);
    db.sync().unwrap();
    assert_eq!(kept(&disk.crash_image(CrashMode::None, 0), "buffered").unwrap(), long(1, 1000));
    keyspace.delete("buffered").unwrap();
    db.flush().unwrap();
    drop((keyspace, db));

    let disk = MemoryDisk::new();
    let db = open_with(&disk, Durability::Sync).unwrap();
    let [keyspace, _] = keyspaces(&db);
    keyspace.put("sync", long(2, 1000)).unwrap();
    assert_eq!(kept(&disk.crash_image(CrashMode::None, 0), "sync").unwrap(), long(2, 1000));
}

#[test]
fn a_damaged_file_is_an_error_in_every_byte() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    keyspace.put("a", long(1, 350)).unwrap();
    db.flush().unwrap();
    drop(keyspace);
    db.close().unwrap();
    let [path] = large_files(&disk).try_into().unwrap();
    let whole = disk.contents(&path);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        disk.replace(&path, bytes).unwrap();
        let db = open(&disk);
        let [keyspace, _] = keyspaces(&db);
        let error = keyspace.get("a").unwrap_err();
        let is_version = error.kind() == ErrorKind::Unsupported;
        assert!(error.kind() == ErrorKind::Corruption || is_version, "{at}: {error:?}");
        assert_eq!(error.file(), Some(&*path), "{at}: {error}");
        assert!(error.offset().is_some(), "{at}: {error}");
        let mut read = Vec::new();
        match keyspace.get_reader("a") {
            Ok(stream) => {
                let cause = stream.unwrap().read_to_end(&mut read).unwrap_err();
                assert_eq!(cause.kind(), std::io::ErrorKind::InvalidData, "{at}: {cause}");
                assert_eq!(read, long(1, 350)[..read.len()], "{at}: a wrong byte");
            }
            Err(streamed) => assert_eq!(streamed.kind(), error.kind(), "{at}"),
        }
        assert!(!db.verify(&mut |_, _| {}).unwrap().problems.is_empty(), "{at}");
    }
    for length in [0, 40, whole.len() - 1] {
        disk.replace(&path, whole[..length].to_vec()).unwrap();
        let db = open(&disk);
        let [keyspace, _] = keyspaces(&db);
        assert_eq!(keyspace.get("a").unwrap_err().kind(), ErrorKind::Corruption);
    }
    disk.remove(&path).unwrap();
    assert_eq!(open_with(&disk, Durability::Buffered).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn a_checkpoint_has_large_values_of_index_and_log() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let [keyspace, _] = keyspaces(&db);
    keyspace.put("a", long(1, 1000)).unwrap();
    db.flush().unwrap();
    keyspace.put("b", long(2, 1000)).unwrap();
    db.checkpoint(Path::new("/copy")).unwrap();
    keyspace.delete("a").unwrap();
    let copied = disk.crash_image(CrashMode::None, 0);
    drop((keyspace, db));
    let settings = small().into_settings();
    let engine = Engine::open(world(&copied), Path::new("/copy"), settings, widths()).unwrap();
    let copy = Db::new(Handle::new(engine, Durability::Buffered));
    let [keyspace, _] = keyspaces(&copy);
    assert_reads(&keyspace, &[("a".to_owned(), long(1, 1000)), ("b".to_owned(), long(2, 1000))]);
    assert_sound(&copy);
}
