//! The faults of the public prototype of the paper about FlexDB, each as a test of a whole database
//! that it would fail. Finer ones are beside tree, space and intervals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex as PlainMutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::clock::SystemClock;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;
use crate::io::threads::ThreadPool;
use crate::{Durability, ErrorKind, IndexKind, Result};

fn try_open(io: Io, durability: Durability) -> Result<Db> {
    let engine = Engine::open(io, Path::new("/db"), small().into_settings(), tiny())?;
    Ok(Db::new(Handle::new(engine, durability)))
}

fn open(disk: &MemoryDisk) -> Db {
    try_open(world(disk), Durability::Buffered).unwrap()
}

fn flex(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    db.keyspace("flex", options).unwrap()
}

fn key(number: u32) -> String {
    format!("key {number:04}")
}

fn value(number: u32, round: u32) -> String {
    format!("value {number} of round {round} {}", "x".repeat(40))
}

type Model = BTreeMap<String, String>;

fn put(keyspace: &Keyspace, model: &mut Model, number: u32, round: u32) {
    keyspace.put(key(number), value(number, round)).unwrap();
    model.insert(key(number), value(number, round));
}

/// What a keyspace holds, by scan; a get must say the same of each.
fn contents(keyspace: &Keyspace) -> Model {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = Model::new();
    for pair in keyspace.iter() {
        let (key, value) = pair.unwrap();
        assert_eq!(keyspace.get(&*key).unwrap().as_deref(), Some(&*value));
        all.insert(text(&key), text(&value));
    }
    all
}

fn assert_shows(db: &Db, model: &Model) {
    assert_eq!(contents(&flex(db)), *model);
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// Closes and opens it, and looks at all there is.
fn reopened(db: Db, disk: &MemoryDisk, model: &Model) -> Db {
    db.close().unwrap();
    let db = open(disk);
    assert_shows(&db, model);
    db
}

fn files_of(disk: &MemoryDisk, ending: &str) -> Vec<PathBuf> {
    let all = disk.files().into_iter().map(|(path, _)| path);
    all.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// FX1: a checkpoint wrote changed leaves and not their clean parents: what was put in between two
/// opens was gone, or the reader ended in a segmentation fault.
#[test]
fn updates_below_a_clean_parent_outlive_every_checkpoint() {
    let disk = MemoryDisk::new();
    let mut model = Model::new();
    let mut db = open(&disk);
    let keyspace = flex(&db);
    (0..500).for_each(|number| put(&keyspace, &mut model, number, 0));
    drop(keyspace);
    db = reopened(db, &disk, &model);
    let mut checkpoints = std::collections::BTreeSet::new();
    for round in 0..12 {
        let keyspace = flex(&db);
        for number in 0..5 {
            put(&keyspace, &mut model, 500 + 5 * round + number, round);
            put(&keyspace, &mut model, 97 * (5 * round + number) % 500, round);
        }
        keyspace.compact().unwrap();
        db.wait_idle().unwrap();
        checkpoints.extend(files_of(&disk, "fxl"));
        drop(keyspace);
        db = reopened(db, &disk, &model);
    }
    assert!(checkpoints.len() > 1, "a checkpoint begins another log: {checkpoints:?}");
}

/// FX2: of two logs the newer was replayed first, and the older one over it.
#[test]
fn logs_are_replayed_in_the_order_of_writing() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = flex(&db);
    let mut model = Model::new();
    let mut tables = 0;
    for round in 0..40 {
        (0..10).for_each(|number| put(&keyspace, &mut model, number, round));
        let view = keyspace.handle.engine.view.load_full();
        if view.frozen.is_empty() {
            continue;
        }
        // More than one table is not flushed, each with all of the keys in it.
        tables = tables.max(1 + view.frozen.len());
        db.sync().unwrap();
        for mode in [CrashMode::None, CrashMode::All] {
            let image = disk.crash_image(mode, 1);
            assert!(files_of(&image, "log").len() > 1);
            assert_shows(&open(&image), &model);
        }
    }
    assert!(tables > 1, "{tables}");
}

/// FX3: the delete of an interval's first key, where two were left, took the interval's anchor
/// along: after an open, neighbours were one interval, larger than what was to hold it.
#[test]
fn an_anchor_stays_when_its_key_is_deleted() {
    let disk = MemoryDisk::new();
    let mut db = open(&disk);
    let mut model = Model::new();
    let keyspace = flex(&db);
    (0..400).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    for number in (0..400).filter(|number| number % 8 > 0) {
        keyspace.delete(key(number)).unwrap();
        model.remove(&key(number));
        if number % 50 == 1 {
            db.flush().unwrap();
        }
    }
    drop(keyspace);
    for _ in 0..2 {
        db.flush().unwrap();
        db = reopened(db, &disk, &model);
        let keyspace = flex(&db);
        for number in 0..400 {
            let found = keyspace.get(key(number)).unwrap();
            assert_eq!(found.is_some(), model.contains_key(&key(number)), "{number}");
        }
        keyspace.compact().unwrap();
    }
    // Down to the last one, and up again.
    let keyspace = flex(&db);
    for number in (0..400).step_by(8) {
        keyspace.delete(key(number)).unwrap();
        model.remove(&key(number));
        db.flush().unwrap();
    }
    put(&keyspace, &mut model, 7, 1);
    drop(keyspace);
    reopened(db, &disk, &model);
}

/// FX4: writes were acknowledged out of a buffer of the process, megabytes of them, and gone when
/// it was killed; what was to be durable was so within five seconds.
#[test]
fn what_is_acknowledged_is_with_the_system_or_on_the_disk() {
    for (durability, mode) in
        [(Durability::Buffered, CrashMode::All), (Durability::Sync, CrashMode::None)]
    {
        let disk = MemoryDisk::new();
        let db = try_open(world(&disk), durability).unwrap();
        let keyspace = flex(&db);
        let mut model = Model::new();
        for number in 0..150 {
            put(&keyspace, &mut model, number * 31 % 60, number);
            if number % 8 == 0 {
                let image = disk.crash_image(mode, number.into());
                assert_eq!(contents(&flex(&open(&image))), model, "{durability:?} {number}");
            }
        }
    }
}

/// FX5: a length of zero for a value was a delete; pairs of 4,080 bytes and more were refused.
#[test]
fn a_value_may_be_empty_and_a_pair_large() {
    let disk = MemoryDisk::new();
    let mut db = open(&disk);
    let mut model = Model::new();
    for (round, large) in [4_079, 4_080, 4_096, 70_000, 1_000_000].into_iter().enumerate() {
        let keyspace = flex(&db);
        let long_key = format!("{round} {}", "k".repeat(4_000));
        for (name, value) in [
            (format!("empty {round}"), String::new()),
            (format!("large {round}"), "v".repeat(large)),
            (long_key, "w".repeat(large)),
            // What was large is empty, and the other way round.
            (format!("empty {}", round.saturating_sub(1)), "v".repeat(large)),
            (format!("large {}", round.saturating_sub(1)), String::new()),
        ] {
            keyspace.put(&name, &value).unwrap();
            model.insert(name, value);
        }
        assert_eq!(contents(&keyspace), model);
        drop(keyspace);
        db.flush().unwrap();
        db = reopened(db, &disk, &model);
    }
}

/// Overwrites everything, flushes and reclaims, round by round.
fn churn(db: &Db, disk: &MemoryDisk, rounds: std::ops::Range<u32>) -> Model {
    let keyspace = flex(db);
    let mut model = Model::new();
    for round in rounds {
        (0..120).for_each(|number| put(&keyspace, &mut model, number, round));
        db.flush().unwrap();
        keyspace.compact().unwrap();
        db.wait_idle().unwrap();
    }
    assert!(!files_of(disk, "fxs").is_empty());
    model
}

/// FX6: segments were used again before what freed them was durable: after a crash, metadata led
/// to bytes that had been overwritten.
#[test]
fn a_crash_at_any_call_finds_the_bytes_that_metadata_leads_to() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    churn(&db, &disk, 0..4);
    db.sync().unwrap();
    let before = contents(&flex(&db));
    let segments = files_of(&disk, "fxs");
    let images = Arc::new(PlainMutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.set_observer(Some(std::sync::Arc::new(move |call, disk: &MemoryDisk| {
        for mode in [CrashMode::None, CrashMode::All, CrashMode::Sectors] {
            taken.lock().unwrap().push((call, mode, disk.crash_image(mode, call)));
        }
    })));
    // The same values once more: any prefix of this shows one of two for each key.
    let after = churn(&db, &disk, 9..11);
    disk.set_observer(None);
    let gone = segments.iter().filter(|path| !files_of(&disk, "fxs").contains(path)).count();
    assert!(gone > 0, "segments went meanwhile");
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 200, "{}", images.len());
    let each = images.len() / 120;
    for (call, mode, image) in images.into_iter().step_by(each.max(1) | 1) {
        let db = open(&image);
        let found = contents(&flex(&db));
        assert_eq!(found.len(), before.len(), "call {call} {mode:?}");
        for (key, value) in &found {
            let rounds = [9, 10].map(|round| value.contains(&format!("of round {round} ")));
            let is_one = rounds.contains(&true) || before.get(key) == Some(value);
            assert!(is_one && after.contains_key(key), "call {call} {mode:?} {key}: {value}");
        }
        let problems = db.verify(&mut |_, _| {}).unwrap().problems;
        assert!(problems.is_empty(), "call {call} {mode:?}: {problems:?}");
    }
}

/// FX7: nothing had a checksum, and lengths were trusted: a changed byte was a wrong value, or read
/// beyond a buffer.
#[test]
fn a_changed_byte_is_an_error_that_names_its_file_and_never_a_wrong_value() {
    let disk = MemoryDisk::new();
    let mut model = Model::new();
    for round in 0..10 {
        let db = open(&disk);
        model = churn(&db, &disk, round..round + 1);
        db.close().unwrap();
    }
    let files: Vec<PathBuf> =
        ["fxs", "fxl", "fxp"].iter().flat_map(|ending| files_of(&disk, ending)).collect();
    assert!(files.len() > 2, "{files:?}");
    let mut seen = 0;
    for path in &files {
        let bytes = disk.contents(path);
        for at in (0..bytes.len()).step_by((bytes.len() / 25).max(1) | 1) {
            let image = disk.deep_clone();
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            image.replace(path, changed).unwrap();
            let names = |error: &crate::Error| {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
            };
            match try_open(world(&image), Durability::Buffered) {
                Err(error) => {
                    names(&error);
                    seen += 1;
                }
                Ok(db) => {
                    for (key, value) in &model {
                        match flex(&db).get(key) {
                            Ok(found) => assert_eq!(found.as_deref(), Some(value.as_bytes())),
                            Err(error) => {
                                names(&error);
                                seen += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// FX8: the last sync of a flush took no lock: it raced readers of what was being written, and ran
/// a reclaim that changed the tree below them.
#[test]
fn readers_see_one_state_while_flushes_and_reclaims_run() {
    const KEYS: u32 = 200;
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let keyspace = flex(&db);
    let write = |round: u32| {
        let mut batch = db.batch();
        for number in 0..KEYS {
            batch.put(&keyspace, key(number), format!("{round:06} {}", "x".repeat(100)));
        }
        batch.commit(Durability::Buffered).unwrap();
    };
    write(0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut scans = 0;
                    while !is_done.load(Ordering::Acquire) || scans == 0 {
                        let mut rounds = std::collections::BTreeSet::new();
                        let mut count = 0;
                        for pair in keyspace.iter() {
                            let (_, value) = pair.unwrap();
                            rounds.insert(value.get(..6).unwrap().to_vec());
                            count += 1;
                        }
                        assert_eq!((count, rounds.len()), (KEYS, 1), "{rounds:?}");
                        scans += 1;
                    }
                    scans
                })
            })
            .collect();
        for round in 1..40 {
            write(round);
            db.flush().unwrap();
            if round % 4 == 0 {
                keyspace.compact().unwrap();
            }
        }
        is_done.store(true, Ordering::Release);
        assert!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>() > 1);
    });
    db.wait_idle().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}

/// FX9, its first half: an open with little room reclaimed before there was anything to reclaim
/// with, a close did so with what was freed already.
#[test]
fn an_open_or_a_close_in_the_middle_of_a_reclaim_is_one_like_any_other() {
    let disk = MemoryDisk::new();
    let mut model = Model::new();
    for round in 0..30 {
        let io = world(&disk);
        let db = try_open(io.clone(), Durability::Buffered).unwrap();
        assert_shows(&db, &model);
        let keyspace = flex(&db);
        for number in 0..60 {
            put(&keyspace, &mut model, number * 7 % 120, round);
        }
        db.flush().unwrap();
        drop(keyspace);
        // Whatever is due has not begun, has done one step, or two.
        for _ in 0..round % 3 {
            io.executor.help();
        }
        match round % 4 {
            3 => drop(db),
            _ => db.close().unwrap(),
        }
    }
    let db = open(&disk);
    db.wait_idle().unwrap();
    assert_shows(&db, &model);
    let bytes: u64 = files_of(&disk, "fxs").iter().map(|at| disk.contents(at).len() as u64).sum();
    let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes < 40 * live as u64, "{bytes} of {live}: space was got back");
}

/// FX9, its second half: a sync that failed was taken for one that had not, and a full disk ended
/// the process.
#[test]
fn a_failed_sync_or_a_full_disk_fails_the_flush_and_loses_nothing() {
    let plans = [(CallKind::Sync, Fault::Eio), (CallKind::Write, Fault::Enospc)];
    let (mut failed, mut planned) = (0, 0);
    for (kind, fault) in plans {
        for at in 1..8 {
            let disk = MemoryDisk::new();
            let faults = FaultDisk::over(&disk);
            let io = Io { disk: Arc::new(faults.clone()), ..world(&disk) };
            let db = try_open(io, Durability::Buffered).unwrap();
            let keyspace = flex(&db);
            let mut model = Model::new();
            (0..60).for_each(|number| put(&keyspace, &mut model, number, 0));
            db.flush().unwrap();
            (0..60).for_each(|number| put(&keyspace, &mut model, number, 1));
            let kind = Some(kind);
            faults.set_plan(Some(FaultPlan { kind, at, fault, persistent: true }));
            failed += u32::from(db.flush().is_err());
            planned += u32::from(faults.triggered() > 0);
            assert_eq!(contents(&keyspace), model, "{fault:?} at {at}: readers go on");
            faults.set_plan(None);
            drop((keyspace, db));
            assert_shows(&open(&disk), &model);
        }
    }
    assert!(failed > 3 && planned >= failed, "{failed} of {planned}");
}

/// FX10: appending to the log and putting into the memtable were two steps, so that two writers of
/// a key could come in one order in the log and in the other in memory.
#[test]
fn the_log_and_memory_agree_on_who_wrote_a_key_last() {
    let disk = MemoryDisk::new();
    // Several writers need background work that goes on by itself.
    let threads = ThreadPool::new(2).unwrap();
    let io = Io::new(Arc::new(disk.clone()), Arc::new(SystemClock), threads, 0);
    let db = try_open(io, Durability::Buffered).unwrap();
    let keyspace = flex(&db);
    for round in 0..10 {
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let keyspace = &keyspace;
                scope.spawn(move || {
                    for number in 0..40 {
                        let of = format!("{round} {writer} {number}");
                        keyspace.put(key(number % 4), of).unwrap();
                    }
                });
            }
        });
        let found = contents(&keyspace);
        assert_eq!(found.len(), 4);
        let after = contents(&flex(&open(&disk.crash_image(CrashMode::All, round))));
        assert_eq!(found, after, "round {round}");
    }
}
