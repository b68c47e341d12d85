//! Garbage collection of value files, seen from outside: what it gives back, what it keeps, and
//! that it comes to rest.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use super::*;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::engine::settings::Settings;
use crate::io::memory_disk::CrashMode;
use crate::{Compression, Durability, Reclaimed, StrategyKind};

/// Value segments of 2 KiB, whose values are never so far out of order that `compact` moves them.
pub(super) fn widths() -> Widths {
    Widths {
        value_order_bytes: 1,
        value_segment_bytes: 2 << 10,
        value_tail_bytes: 1 << 10,
        ..Widths::for_budget(1 << 20)
    }
}

fn wisckey() -> Settings {
    small().strategy(StrategyKind::Wisckey).into_settings()
}

fn open(disk: &MemoryDisk) -> Db {
    open_as(disk, StrategyKind::Wisckey)
}

fn open_as(disk: &MemoryDisk, strategy: StrategyKind) -> Db {
    let settings = small().strategy(strategy).into_settings();
    let engine = Engine::open(world(disk), Path::new("/db"), settings, widths()).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

pub(super) fn apart(db: &Db) -> Keyspace {
    let options =
        KeyspaceOptions::new().separate_at(Some(8)).merge_operator(crate::operators::APPEND);
    db.keyspace("apart", options).unwrap()
}

pub(super) fn key(number: u32) -> String {
    format!("key {number:04}")
}

pub(super) fn value(number: u32, round: u32) -> String {
    format!("value {number:04} of round {round:03} {}", "x".repeat(60))
}

pub(super) type Model = BTreeMap<String, String>;

pub(super) fn put(keyspace: &Keyspace, model: &mut Model, number: u32, round: u32) {
    keyspace.put(key(number), value(number, round)).unwrap();
    model.insert(key(number), value(number, round));
}

/// Puts 300 values, twice, and has them flushed.
pub(super) fn put_twice(db: &Db, keyspace: &Keyspace) -> Model {
    let mut model = Model::new();
    for round in 0..2 {
        (0..300).for_each(|number| put(keyspace, &mut model, number, round));
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    model
}

pub(super) fn assert_shows(keyspace: &Keyspace, model: &Model) {
    let wanted: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(pairs(keyspace.iter()), wanted);
    for (key, value) in model {
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value.as_bytes(), "{key}");
        let mut streamed = Vec::new();
        keyspace.get_reader(key).unwrap().unwrap().read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed, value.as_bytes(), "{key}, piece by piece");
    }
}

pub(super) fn assert_sound(db: &Db) {
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

pub(super) fn reclaim(db: &Db) -> Reclaimed {
    let reclaimed = db.reclaim(None, &mut |_| {}).unwrap();
    assert!(reclaimed.is_complete, "{reclaimed:?}");
    reclaimed
}

/// Bytes of value files by bytes of what a user would say is in them.
fn amplification(db: &Db, model: &Model) -> f64 {
    let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    db.stats().values.file_bytes as f64 / live as f64
}

#[test]
fn what_was_overwritten_is_given_back() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..6 {
        (0..120).for_each(|number| put(&keyspace, &mut model, number, round));
    }
    // Some of the old ones stay, so that files hold both.
    (0..120).filter(|n| n % 3 == 0).for_each(|number| put(&keyspace, &mut model, number, 7));
    let reclaimed = reclaim(&db);
    assert!(reclaimed.bytes_freed > 60_000 && reclaimed.bytes_moved > 0, "{reclaimed:?}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    let after = amplification(&db, &model);
    assert!(after < 2.0, "{after}");
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_shows(&apart(&db), &model);
    db.compact().unwrap();
    assert_shows(&apart(&db), &model);
    assert_sound(&db);
}

#[test]
fn a_store_without_garbage_is_left_alone() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    let mut batch = db.batch();
    for number in 0..300 {
        batch.put(&keyspace, key(number), value(number, 0));
        model.insert(key(number), value(number, 0));
        if number % 20 == 19 {
            batch.commit(Durability::Buffered).unwrap();
        }
    }
    reclaim(&db);
    let moved = db.stats().collection.bytes_moved;
    for _ in 0..5 {
        reclaim(&db);
        db.wait_idle().unwrap();
    }
    assert_eq!(db.stats().collection.bytes_moved, moved);
    assert_eq!(moved, 0, "{:?}", db.stats().collection);
    assert_shows(&keyspace, &model);
}

#[test]
fn collection_comes_to_rest_by_itself() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..8 {
        (0..200).for_each(|number| put(&keyspace, &mut model, number, round));
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    let collection = db.stats().collection;
    assert!(collection.files_removed > 20, "{collection:?}");
    let after = amplification(&db, &model);
    assert!(after < 2.1, "{after} {collection:?}");
    for _ in 0..3 {
        db.wait_idle().unwrap();
    }
    let later = db.stats().collection;
    assert_eq!(later.bytes_moved, collection.bytes_moved, "at rest");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
}

#[test]
fn a_snapshot_keeps_what_it_sees() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    let snapshot = db.snapshot();
    let before = model.clone();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 1));
    let reclaimed = reclaim(&db);
    assert!(reclaimed.files_waiting > 3, "{reclaimed:?}");
    for (key, value) in &before {
        assert_eq!(snapshot.get(&keyspace, key).unwrap().unwrap(), value.as_bytes());
    }
    let seen: Vec<String> = before.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let iterator = snapshot.range::<&str>(&keyspace, ..);
    drop(snapshot);
    let reclaimed = reclaim(&db);
    assert!(reclaimed.files_waiting > 0, "the iterator holds on to it: {reclaimed:?}");
    assert_eq!(pairs(iterator), seen);
    let reclaimed = reclaim(&db);
    assert!(reclaimed.files > 3 && reclaimed.files_waiting == 0, "{reclaimed:?}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
}

#[test]
fn an_old_snapshot_does_not_keep_what_was_written_after_it() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..60).for_each(|number| put(&keyspace, &mut model, number, 0));
    let snapshot = db.snapshot();
    let before = model.clone();
    let mut waiting = Vec::new();
    for round in 1..8 {
        (0..60).for_each(|number| put(&keyspace, &mut model, number, round));
        waiting.push(reclaim(&db).files_waiting);
    }
    // Those of the snapshot, and not one more for all that was written and collected since.
    assert!(waiting[0] > 0 && waiting.iter().all(|files| *files <= waiting[0] + 1), "{waiting:?}");
    let collection = db.stats().collection;
    assert!(collection.files_removed > 3 * waiting[0], "{collection:?} {waiting:?}");
    for (key, value) in &before {
        assert_eq!(snapshot.get(&keyspace, key).unwrap().unwrap(), value.as_bytes());
    }
    let seen: Vec<String> = before.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(pairs(snapshot.range::<&str>(&keyspace, ..)), seen);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    drop(snapshot);
    assert_eq!(reclaim(&db).files_waiting, 0);
    assert_shows(&keyspace, &model);
}

#[test]
fn an_iterator_without_a_snapshot_keeps_its_files() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    let seen: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut iterator = keyspace.iter();
    let first = pairs(iterator.by_ref().take(1));
    assert_eq!(first, seen[..1]);
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 1));
    let reclaimed = reclaim(&db);
    assert!(reclaimed.files > 3, "{reclaimed:?}");
    assert_eq!(pairs(iterator), seen[1..]);
    assert_shows(&keyspace, &model);
}

#[test]
fn operands_are_folded_into_what_is_moved() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    for number in (0..100).filter(|number| number % 4 != 0) {
        put(&keyspace, &mut model, number, 1);
    }
    for number in (0..100).filter(|number| number % 2 == 0) {
        keyspace.merge(key(number), "+").unwrap();
        model.get_mut(&key(number)).unwrap().push('+');
    }
    let snapshot = db.snapshot();
    let before = model.clone();
    reclaim(&db);
    assert_shows(&keyspace, &model);
    keyspace.merge(key(0), "!").unwrap();
    model.get_mut(&key(0)).unwrap().push('!');
    assert_shows(&keyspace, &model);
    for (key, value) in &before {
        assert_eq!(snapshot.get(&keyspace, key).unwrap().unwrap(), value.as_bytes());
    }
    drop(snapshot);
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    db.compact().unwrap();
    assert_shows(&keyspace, &model);
}

#[test]
fn compressed_values_move_as_they_are() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let options = KeyspaceOptions::new().separate_at(Some(8)).value_compression(Compression::Zstd);
    let keyspace = db.keyspace("dense", options).unwrap();
    let mut model = Model::new();
    for round in 0..2 {
        for number in (0..100).filter(|number| round == 0 || number % 3 == 0) {
            let value = format!("{number} {round} ").repeat(60);
            keyspace.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
    }
    let reclaimed = reclaim(&db);
    assert!(reclaimed.bytes_moved > 0 && reclaimed.files > 0, "{reclaimed:?}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
}

#[test]
fn deleting_everything_gives_everything_back() {
    let ways = ["one by one", "a range", "the keyspace"];
    let cases = StrategyKind::ALL.into_iter().flat_map(|strategy| ways.map(|how| (strategy, how)));
    for ((strategy, how), is_settled) in cases.flat_map(|case| [(case, false), (case, true)]) {
        let disk = MemoryDisk::new();
        let db = open_as(&disk, strategy);
        let keyspace = apart(&db);
        let mut model = Model::new();
        (0..400).for_each(|number| put(&keyspace, &mut model, number, 0));
        db.flush().unwrap();
        if is_settled {
            db.compact().unwrap();
            db.wait_idle().unwrap();
        }
        let full = db.stats().values.file_bytes;
        match how {
            "one by one" => (0..400).for_each(|number| keyspace.delete(key(number)).unwrap()),
            "a range" => keyspace.delete_range("key "..).unwrap(),
            _ => db.drop_keyspace("apart").unwrap(),
        }
        db.wait_idle().unwrap();
        let rest = db.stats().values.file_bytes;
        assert!(
            rest * 20 < full,
            "{strategy} {how}: {rest} of {full}, {:?}",
            db.stats().collection
        );
        let entries: u64 = db.stats().keyspaces.iter().map(|keyspace| keyspace.entries).sum();
        assert_eq!(entries, 0, "{strategy} {how}: the index keeps what leads nowhere");
        assert_sound(&db);
        drop(keyspace);
        db.close().unwrap();
        let db = open_as(&disk, strategy);
        if let Some(keyspace) = db.existing_keyspace("apart").unwrap() {
            assert_shows(&keyspace, &Model::new());
            keyspace.put("a", "something new and long").unwrap();
        }
        assert_sound(&db);
    }
}

#[test]
fn a_crash_at_any_call_of_a_collection_loses_nothing() {
    use crate::base::sync::Mutex;
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..3 {
        for number in (0..60).filter(|number| round == 0 || number % (round + 1) == 0) {
            put(&keyspace, &mut model, number, round);
        }
    }
    db.sync().unwrap();
    let images: Arc<Mutex<Vec<MemoryDisk>>> = Arc::default();
    let taken = Arc::clone(&images);
    disk.set_observer(Some(Arc::new(move |call, disk| {
        for mode in CrashMode::ALL {
            taken.lock().push(disk.crash_image(mode, call));
        }
    })));
    reclaim(&db);
    disk.set_observer(None);
    assert_shows(&keyspace, &model);
    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() > 200, "{}", images.len());
    for image in images {
        let db = open(&image);
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        reclaim(&db);
        assert_shows(&apart(&db), &model);
    }
}

#[test]
fn a_damaged_file_is_left_alone_and_the_rest_is_collected() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..2 {
        for number in (0..200).filter(|number| round == 0 || number % 2 == 0) {
            put(&keyspace, &mut model, number, round);
        }
    }
    // Else the next open reads, and refuses, it.
    db.flush().unwrap();
    drop(keyspace);
    db.close().unwrap();
    let files = disk.files().into_iter().map(|(path, _)| path);
    let first = files.filter(|path| path.extension().is_some_and(|e| e == "val")).min().unwrap();
    let mut bytes = disk.contents(&first);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.replace(&first, bytes).unwrap();
    let db = open(&disk);
    let error = db.reclaim(None, &mut |_| {}).unwrap_err();
    assert_eq!(error.file(), Some(first.as_path()), "{error:?}");
    let collection = db.stats().collection;
    assert!(collection.files_refused == 1 && collection.files_removed > 3, "{collection:?}");
    let keyspace = apart(&db);
    keyspace.put("more", "writes go on as before").unwrap();
    assert_eq!(keyspace.get(key(199)).unwrap().unwrap(), model[&key(199)].as_bytes());
}

/// A tombstone that reached the bottom leaves nothing behind that is newer than what was read.
#[test]
fn a_key_that_was_deleted_and_compacted_away_does_not_come_back() {
    let disk = MemoryDisk::new();
    let io = world(&disk);
    let engine = Engine::open(io.clone(), Path::new("/db"), wisckey(), widths()).unwrap();
    let db = Db::new(Handle::new(engine, Durability::Buffered));
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..200).for_each(|number| put(&keyspace, &mut model, number, 0));
    (0..200).filter(|n| n % 2 == 0).for_each(|number| put(&keyspace, &mut model, number, 1));
    db.flush().unwrap();
    let waiting = |db: &Db| db.stats().collection.races_lost;
    for number in (1..200).step_by(2) {
        // A step of background work now and then: collections stand between look and move.
        io.executor.help();
        keyspace.delete(key(number)).unwrap();
        model.remove(&key(number));
        db.compact().unwrap();
    }
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert!(waiting(&db) > 0, "no race was met");
    assert_sound(&db);
}

/// Values that were looked at are not put again into a keyspace that was dropped meanwhile.
#[test]
fn a_keyspace_dropped_in_the_midst_of_a_collection_stays_dropped() {
    let mut races_lost = 0;
    for steps in 1..40 {
        let disk = MemoryDisk::new();
        let io = world(&disk);
        let engine = Engine::open(io.clone(), Path::new("/db"), wisckey(), widths()).unwrap();
        let db = Db::new(Handle::new(engine, Durability::Buffered));
        let keyspace = apart(&db);
        let mut model = Model::new();
        (0..200).for_each(|number| put(&keyspace, &mut model, number, 0));
        (0..200).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 1));
        db.flush().unwrap();
        (0..steps).for_each(|_| {
            io.executor.help();
        });
        db.drop_keyspace("apart").unwrap();
        reclaim(&db);
        races_lost += db.stats().collection.races_lost;
        assert!(keyspace.get(key(1)).is_err(), "it is gone");
        assert_sound(&db);
    }
    assert!(races_lost > 0, "no race was met");
}

/// Live bytes by what the records of the newest values take: key, value and some 30 bytes.
fn live_share(db: &Db, model: &Model) -> f64 {
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len() + 30).sum();
    db.stats().values.live_bytes as f64 / bytes as f64
}

#[test]
fn live_bytes_are_those_of_the_newest_values() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    assert_eq!(db.stats().values.entries, 0, "in memtables only");
    let share = live_share(&db, &model);
    assert!((0.9..1.8).contains(&share), "{share}");
    db.flush().unwrap();
    let share = live_share(&db, &model);
    assert!((0.9..1.2).contains(&share), "{share}");
    let snapshot = db.snapshot();
    for round in 1..5 {
        (0..100).for_each(|number| put(&keyspace, &mut model, number, round));
        db.flush().unwrap();
    }
    // The index still names most of what was overwritten, and the snapshot keeps some of it.
    reclaim(&db);
    let stats = db.stats();
    assert!(stats.collection.files_waiting > 0, "{:?}", stats.collection);
    assert!(stats.values.entries > 110, "{:?}", stats.values);
    let share = live_share(&db, &model);
    assert!((0.9..1.4).contains(&share), "{share}");
    drop(snapshot);
    reclaim(&db);
    let share = live_share(&db, &model);
    assert!((0.9..1.4).contains(&share), "{share}");
    assert_shows(&keyspace, &model);
}
