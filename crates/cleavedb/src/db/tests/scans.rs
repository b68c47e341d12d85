//! Scans over separated values: what is read ahead never shows in what is found, and no more is
//! read than the scan asks for.

use std::collections::BTreeMap;
use std::path::Path;

use super::novkv::engine_of;
use super::*;
use crate::base::sync::thread;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::Purpose;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::seeded::Seeded;
use crate::{Cursor, Durability, ErrorKind, Value};

pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Files of some hundred values, and nearly none of them in memory.
fn open_in(io: Io, options: Options) -> Db {
    let widths = Widths {
        value_segment_bytes: 64 << 10,
        value_tail_bytes: 1 << 10,
        ..Widths::for_budget(16 << 20)
    };
    let settings = options.memory_budget(16 << 20).reserve_bytes(0).into_settings();
    let engine = Engine::open(io, Path::new("/db"), settings, widths).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

pub(super) fn open_with(disk: &MemoryDisk, options: Options) -> Db {
    open_in(world(disk), options)
}

pub(super) fn open(disk: &MemoryDisk) -> Db {
    open_with(disk, Options::new())
}

/// A keyspace that separates from 64 bytes on.
pub(super) fn apart(db: &Db) -> Keyspace {
    let options =
        KeyspaceOptions::new().separate_at(Some(64)).merge_operator(crate::operators::APPEND);
    db.keyspace("apart", options).unwrap()
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

pub(super) fn long(number: u64, version: u64) -> Vec<u8> {
    format!("{number:05} {version:05} ").repeat(10).into_bytes()
}

/// Values in a random order, so that neighbours in the index are none in the files.
pub(super) fn filled(keyspace: &Keyspace, count: u64) -> Model {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut seeded = Seeded::new(count);
    let mut model = Model::new();
    while !numbers.is_empty() {
        let number = numbers.swap_remove(seeded.index(numbers.len()));
        keyspace.put(key(number), long(number, 0)).unwrap();
        model.insert(key(number), long(number, 0));
    }
    model
}

/// Separated and inline values, deleted keys, and merges above and without a base.
fn mixed(db: &Db, keyspace: &Keyspace, count: u64) -> Model {
    let mut model = filled(keyspace, count);
    let mut seeded = Seeded::new(7);
    for round in 0..3 {
        for _ in 0..count / 4 {
            let key = key(seeded.below(count + 20));
            match seeded.below(4) {
                0 => {
                    keyspace.delete(&key).unwrap();
                    model.remove(&key);
                }
                1 => {
                    keyspace.put(&key, b"short").unwrap();
                    model.insert(key, b"short".to_vec());
                }
                2 => {
                    keyspace.merge(&key, b"+more").unwrap();
                    model.entry(key).or_default().extend_from_slice(b"+more");
                }
                _ => {
                    let value = long(seeded.below(count), 1 + round);
                    keyspace.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        if round == 1 {
            keyspace.delete_range(key(count / 2)..key(count / 2 + 9)).unwrap();
            model.retain(|k, _| !(key(count / 2)..key(count / 2 + 9)).contains(k));
            db.flush().unwrap();
        }
    }
    model
}

fn all(iter: impl Iterator<Item = crate::Result<(Value, Value)>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|item| item.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn expected(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    model.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn prefetched(db: &Db) -> (u64, u64) {
    let values = db.stats().values;
    (values.prefetched, values.prefetched_unused)
}

#[test]
fn scans_in_both_directions_find_what_there_is() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let model = mixed(&db, &keyspace, 1000);
    let expected = expected(&model);
    for _ in 0..2 {
        assert_eq!(all(keyspace.iter()), expected);
        let mut backward = all(keyspace.iter().rev());
        backward.reverse();
        assert_eq!(backward, expected);
        assert_eq!(all(keyspace.iter().prefetch(false)), expected);
        db.flush().unwrap();
        keyspace.compact().unwrap();
    }
    let (begun, unused) = prefetched(&db);
    assert!(begun > 4 * 500 && unused == 0, "{begun} {unused}");
}

#[test]
fn ranges_that_end_anywhere_in_a_window_end_there() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let expected = expected(&filled(&keyspace, 150));
    db.flush().unwrap();
    for length in 0..100 {
        let range = || keyspace.range(key(20)..key(20 + length as u64));
        assert_eq!(all(range()), expected[20..20 + length]);
        let mut backward = all(range().rev());
        backward.reverse();
        assert_eq!(backward, expected[20..20 + length]);
        // From both ends until they meet.
        let mut both = range();
        let (mut front, mut back) = (Vec::new(), Vec::new());
        while let Some(pair) = both.next() {
            front.push(pair);
            let Some(pair) = both.next_back() else { break };
            back.push(pair);
        }
        let met = all(front.into_iter().chain(back.into_iter().rev()));
        assert_eq!(met, expected[20..20 + length]);
    }
}

/// One random move, and what the model says of it.
fn random_move<'a>(
    cursor: &mut Cursor,
    model: &'a Model,
    at: Option<&'a Vec<u8>>,
    seeded: &mut Seeded,
    runs: &mut (u64, bool),
) -> Option<&'a Vec<u8>> {
    let first = |range: std::ops::RangeFrom<Vec<u8>>| model.range(range).next().map(|(k, _)| k);
    if let Some(key) = at.filter(|_| runs.0 > 0) {
        runs.0 -= 1;
        let forward = runs.1;
        if forward {
            cursor.next().unwrap();
            return model.range(key.clone()..).nth(1).map(|(k, _)| k);
        }
        cursor.prev().unwrap();
        return model.range(..key.clone()).next_back().map(|(k, _)| k);
    }
    *runs = (seeded.below(90), seeded.below(2) == 0);
    let target = key(seeded.below(1050));
    match seeded.below(if at.is_some() { 6 } else { 4 }) {
        0 => {
            cursor.seek(&target).unwrap();
            first(target..)
        }
        1 => {
            cursor.seek_for_prev(&target).unwrap();
            model.range(..=target).next_back().map(|(k, _)| k)
        }
        2 => {
            cursor.seek_first().unwrap();
            model.keys().next()
        }
        3 => {
            cursor.seek_last().unwrap();
            model.keys().next_back()
        }
        // The other way, from where it stands.
        _ => at,
    }
}

#[test]
fn a_cursor_may_be_sent_anywhere_in_the_midst_of_a_run() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let model = mixed(&db, &keyspace, 1000);
    db.flush().unwrap();
    for seed in 0..4 {
        let (mut seeded, mut runs) = (Seeded::new(seed), (0, true));
        let mut cursor = keyspace.cursor().unwrap();
        cursor.set_prefetch(seed != 3);
        let mut at = None;
        for _ in 0..3000 {
            at = random_move(&mut cursor, &model, at, &mut seeded, &mut runs);
            assert_eq!(cursor.key(), at.map(Vec::as_slice));
            assert_eq!(cursor.value(), at.map(|key| model[key].as_slice()));
        }
    }
    let (begun, unused) = prefetched(&db);
    assert!(begun > 1000 && unused > 0 && unused < begun, "{begun} {unused}");
}

#[test]
fn no_more_is_read_ahead_than_was_taken() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    filled(&keyspace, 1000);
    db.flush().unwrap();
    let mut before = prefetched(&db);
    let mut step = |what: &dyn Fn()| {
        what();
        let now = prefetched(&db);
        let change = (now.0 - before.0, now.1 - before.1);
        before = now;
        change
    };
    // Nothing is known yet of how far scans go.
    let take = |count| {
        keyspace.state.usual_run.forget();
        assert_eq!(keyspace.iter().take(count).count(), count);
    };
    assert_eq!(step(&|| take(1)), (0, 0));
    assert_eq!(step(&|| take(2)), (1, 0), "the second alone, too");
    let (begun, unused) = step(&|| take(10));
    assert_eq!((begun, unused), (9, 0), "two alone, eight together");
    let (begun, unused) = step(&|| take(50));
    assert!(begun == 49 + unused && unused <= 50, "{begun} {unused}");
    assert_eq!(step(&|| take(1000)), (999, 0));
    keyspace.state.usual_run.forget();
    // A seek lets go of what was ahead.
    let (begun, unused) = step(&|| {
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_first().unwrap();
        for _ in 0..600 {
            cursor.next().unwrap();
        }
        assert!(db.memory_usage()["iterators"] > 256 * 120, "what is ahead is counted");
        cursor.seek(key(5)).unwrap();
        assert_eq!(cursor.key(), Some(&*key(5)));
    });
    assert!((64..=256).contains(&unused) && begun == 601 + unused, "{begun} {unused}");
    assert_eq!(db.memory_usage()["iterators"], 0);
    // Nothing is read for keys alone, for guards nobody asks, and where nothing shall be ahead.
    assert_eq!(step(&|| assert_eq!(keyspace.iter().keys().count(), 1000)), (0, 0));
    assert_eq!(step(&|| assert_eq!(keyspace.iter().guards().count(), 1000)), (0, 0));
    assert_eq!(step(&|| assert_eq!(keyspace.iter().prefetch(false).count(), 1000)), (0, 0));
}

#[test]
fn a_seek_reads_what_scans_usually_take_and_no_more() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    filled(&keyspace, 1000);
    db.flush().unwrap();
    let reads = || engine_of(&db).io.meter.read_calls(Purpose::Read);
    for (count, backward) in [(50, false), (50, true), (3, false), (200, false)] {
        let walk = |from: u64| {
            let mut cursor = keyspace.cursor().unwrap();
            match backward {
                false => cursor.seek(key(from)).unwrap(),
                true => cursor.seek_for_prev(key(1000 - from)).unwrap(),
            }
            for _ in 1..count {
                assert!(cursor.key().is_some());
                if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
            }
            assert!(cursor.key().is_some());
        };
        (0..64).for_each(|round| walk(round * 7));
        let (before, read_before) = (prefetched(&db), reads());
        (0..10).for_each(|round| walk(round * 11));
        let after = prefetched(&db);
        // Values stand where they were written, in the order of keys or not: each is wanted.
        assert_eq!(after.0 - before.0, 10 * count, "{count} {backward}");
        assert_eq!(after.1 - before.1, 0, "{count} {backward}");
        assert!(reads() - read_before <= 10 * count);
    }
    // One key at a time: no seek reads any other.
    (0..64).for_each(|number| keyspace.cursor().unwrap().seek(key(number)).unwrap());
    let before = prefetched(&db);
    (0..10).for_each(|number| keyspace.cursor().unwrap().seek(key(number)).unwrap());
    assert_eq!(prefetched(&db), before);
}

#[test]
fn what_stands_side_by_side_is_read_at_once() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    (0..1000).for_each(|number| keyspace.put(key(number), long(number, 0)).unwrap());
    db.flush().unwrap();
    let reads = || engine_of(&db).io.meter.read_calls(Purpose::Read);
    for backward in [false, true] {
        let walk = |count: usize| match backward {
            false => assert_eq!(keyspace.iter().take(count).count(), count),
            true => assert_eq!(keyspace.iter().rev().take(count).count(), count),
        };
        // Blocks of the index are cached from here on.
        walk(60);
        let before = reads();
        walk(60);
        let made = reads() - before;
        // One for the first value, unless it is kept, and one for the rest, or two where a segment
        // ends.
        assert!((1..=3).contains(&made), "{made} reads");
    }
}

#[test]
fn keys_alone_read_no_value() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    filled(&keyspace, 500);
    db.flush().unwrap();
    let bytes = || db.stats().bytes_read["read"];
    assert_eq!(keyspace.iter().keys().count(), 500);
    let before = bytes();
    assert_eq!(keyspace.iter().keys().count(), 500);
    assert_eq!(bytes(), before, "blocks are cached by now, and nothing else is read");
    assert_eq!(keyspace.iter().count(), 500);
    assert!(bytes() > before + 500 * 120);
}

#[test]
fn what_is_read_ahead_is_of_the_moment_of_the_scan() {
    let disk = MemoryDisk::new();
    let io = world(&disk);
    let db = open_in(io.clone(), Options::new());
    let keyspace = apart(&db);
    let model = mixed(&db, &keyspace, 800);
    let expected = expected(&model);
    let mut forward = keyspace.iter();
    let mut backward = keyspace.iter().rev();
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for (round, _) in expected.iter().enumerate() {
        there.extend(forward.next());
        back.extend(backward.next());
        if round % 100 == 30 {
            for number in 0..800 {
                match number % 3 {
                    0 => keyspace.put(key(number), long(number, 100 + round as u64)).unwrap(),
                    1 => keyspace.merge(key(number), b"!").unwrap(),
                    _ => keyspace.delete(key(number)).unwrap(),
                }
            }
            db.flush().unwrap();
            keyspace.compact().unwrap();
            while io.executor.help() {}
        }
    }
    assert!(forward.next().is_none() && backward.next().is_none());
    assert_eq!(all(there.into_iter()), expected);
    back.reverse();
    assert_eq!(all(back.into_iter()), expected);
}

#[test]
fn damage_shows_at_its_own_key() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let model = filled(&keyspace, 300);
    db.flush().unwrap();
    drop(keyspace);
    db.close().unwrap();
    for number in [1, 5, 40, 299] {
        let disk = disk.crash_image(crate::io::memory_disk::CrashMode::All, 0);
        let file = disk.files().into_iter().map(|(path, _)| path).find(|path| {
            let is_value = path.extension().is_some_and(|end| end == "val");
            let text = long(number, 0);
            is_value && disk.contents(path).windows(text.len()).any(|window| window == text)
        });
        let file = file.unwrap();
        let mut bytes = disk.contents(&file);
        let text = long(number, 0);
        let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
        bytes[at + 50] ^= 4;
        disk.replace(&file, bytes).unwrap();
        let db = open(&disk);
        let keyspace = apart(&db);
        let check = |iter: &mut dyn Iterator<Item = crate::Result<(Value, Value)>>, before| {
            let good: Vec<_> = (&mut *iter).take(before).collect();
            assert_eq!(good.len(), before);
            for (key, value) in all(good.into_iter()) {
                assert_eq!(model[&key], value);
            }
            let error = iter.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert_eq!(error.file(), Some(&*file));
            assert!(iter.next().is_none(), "the first error ends it");
        };
        check(&mut keyspace.iter(), number as usize);
        check(&mut keyspace.iter().rev(), 299 - number as usize);
        // A cursor goes on behind it.
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_first().unwrap();
        let failed = (0..number).map(|_| cursor.next()).find(Result::is_err);
        assert_eq!(failed.unwrap().unwrap_err().kind(), ErrorKind::Corruption);
        assert!(!cursor.valid());
        cursor.next().unwrap();
        assert!(!cursor.valid());
        cursor.seek(key(number + 1)).unwrap();
        assert_eq!(cursor.value(), model.get(&key(number + 1)).map(Vec::as_slice));
    }
}

#[test]
fn a_failed_read_ahead_shows_after_all_that_came_before() {
    let memory = MemoryDisk::new();
    let faults = FaultDisk::over(&memory);
    let db = open_in(Io::simulated(Arc::new(faults.clone())), Options::new());
    let keyspace = apart(&db);
    let model = filled(&keyspace, 400);
    let expected = expected(&model);
    db.flush().unwrap();
    // Blocks are cached afterwards: what fails then is a value.
    assert_eq!(all(keyspace.iter()), expected);
    for at in [1, 2, 3, 5, 9, 15] {
        let mut iter = keyspace.iter();
        let fault =
            FaultPlan { kind: Some(CallKind::Read), at, fault: Fault::Eio, persistent: false };
        faults.set_plan(Some(fault));
        let mut found = Vec::new();
        let error = loop {
            match iter.next().unwrap() {
                Ok((key, value)) => found.push((key.to_vec(), value.to_vec())),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(found, expected[..found.len()], "fault at read {at}");
        assert!(at < 3 || found.len() >= 2);
        assert!(iter.next().is_none());
        faults.set_plan(None);
        assert_eq!(all(keyspace.iter()), expected);
    }
}

#[test]
fn a_scan_may_end_with_reads_under_way() {
    for direct in [false, true] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let options = || Options::new().direct_reads(direct).reserve_bytes(0);
        let db = options().open(dir.path().join("db")).unwrap();
        let expected = expected(&filled(&apart(&db), 2000));
        db.close().unwrap();
        // Nothing in memory.
        let db = options().open(dir.path().join("db")).unwrap();
        let keyspace = apart(&db);
        for count in [3, 11, 40, 300, 1000] {
            let some = |iter: crate::RangeIter| all(iter.take(count));
            assert_eq!(some(keyspace.iter()), expected[..count]);
            let back = all(keyspace.iter().rev().take(count));
            assert_eq!(back.last(), expected.get(2000 - count));
        }
        assert_eq!(all(keyspace.iter()), expected);
        assert!(prefetched(&db).1 > 0);
        // Begun on one thread, walked on on another, ended by neither.
        let mut iter = keyspace.iter();
        let first = all(iter.by_ref().take(200));
        let rest = thread::scope(|scope| scope.spawn(|| all(iter.take(1500))).join().unwrap());
        assert_eq!([first, rest].concat(), expected[..1700]);
        drop(keyspace);
        db.close().unwrap();
    }
}
