//! A keyspace whose index is Flex beside one whose index is an LSM-tree, in one database: batches
//! over both, snapshots, range deletes, copies, figures, and crashes at every call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex as PlainMutex;

use super::*;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::memory_disk::CrashMode;
use crate::{Durability, IndexKind};

const NAMES: [(&str, IndexKind); 2] = [("flex", IndexKind::Flex), ("lsm", IndexKind::Lsm)];

/// Keys that every batch writes to in both keyspaces.
const KEYS: u32 = 40;

fn open_at(disk: &MemoryDisk, path: &str) -> Db {
    let settings = small().into_settings();
    let engine = Engine::open(world(disk), Path::new(path), settings, tiny()).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

fn open(disk: &MemoryDisk) -> Db {
    open_at(disk, "/db")
}

fn both(db: &Db) -> [Keyspace; 2] {
    NAMES.map(|(name, index)| {
        let options = KeyspaceOptions::new().index(index).separate_at(None);
        db.keyspace(name, options).unwrap()
    })
}

fn key(number: u32) -> String {
    format!("key {number:04}")
}

type Model = BTreeMap<String, String>;

fn text(pair: crate::Result<(impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> (String, String) {
    let (key, value) = pair.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(key.as_ref()), text(value.as_ref()))
}

/// What both keyspaces hold, which is the same.
fn contents(db: &Db) -> Model {
    let [flex, lsm] = both(db).map(|keyspace| keyspace.iter().map(text).collect::<Model>());
    assert_eq!(flex, lsm, "a batch is in one keyspace and not in the other");
    flex
}

fn assert_sound(db: &Db) {
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// One batch over both: all keys, one that goes, one that only this round has, and in some rounds a
/// range that goes.
fn write(db: &Db, round: u32, model: &mut Model) {
    let mut batch = db.batch();
    for keyspace in &both(db) {
        for number in 0..KEYS {
            batch.put(keyspace, key(number), format!("of round {round} {}", "x".repeat(60)));
        }
        batch.delete(keyspace, key(round % KEYS));
        batch.put(keyspace, format!("round {round:04}"), "");
        if round % 3 == 2 {
            batch.delete_range(keyspace, key(10)..key(15));
        }
    }
    batch.commit(Durability::Buffered).unwrap();
    let value = format!("of round {round} {}", "x".repeat(60));
    model.extend((0..KEYS).map(|number| (key(number), value.clone())));
    model.remove(&key(round % KEYS));
    model.insert(format!("round {round:04}"), String::new());
    if round % 3 == 2 {
        (10..15).for_each(|number| drop(model.remove(&key(number))));
    }
}

/// Both indexes have been written to disk.
fn assert_on_disk(db: &Db) {
    let stats = db.stats();
    for (name, _) in NAMES {
        let of = stats.keyspaces.iter().find(|keyspace| keyspace.name == name).unwrap();
        assert!(of.entries > 0 && of.disk_bytes > 0 && of.live_bytes > 0, "{of:?}");
        assert!(of.live_bytes <= 4 * of.disk_bytes, "{of:?}");
    }
}

#[test]
fn one_database_of_both_goes_through_all_that_a_database_does() {
    let disk = MemoryDisk::new();
    let mut db = open(&disk);
    let mut model = Model::new();
    for round in 0..12 {
        write(&db, round, &mut model);
        assert_eq!(contents(&db), model);
        let (then, snapshot) = (model.clone(), db.snapshot());
        write(&db, 100 + round, &mut model);
        // Deleted in both by one batch, and seen in both by the snapshot still.
        let mut batch = db.batch();
        for keyspace in &both(&db) {
            batch.delete_range(keyspace, key(20)..key(30));
        }
        batch.commit(Durability::Sync).unwrap();
        (20..30).for_each(|number| drop(model.remove(&key(number))));
        if round % 2 == 0 {
            db.flush().unwrap();
        }
        for keyspace in &both(&db) {
            let seen: Model = snapshot.range::<&str>(keyspace, ..).map(text).collect();
            assert_eq!(seen, then, "round {round} of {}", keyspace.name());
            assert_eq!(
                snapshot.get(keyspace, key(25)).unwrap().is_some(),
                then.contains_key(&key(25))
            );
            assert_eq!(keyspace.get(key(25)).unwrap(), None);
        }
        drop(snapshot);
        if round % 3 == 0 {
            db.compact().unwrap();
            db.wait_idle().unwrap();
        }
        assert_eq!(contents(&db), model);
        assert_sound(&db);
        if round % 4 == 3 {
            db.close().unwrap();
            db = open(&disk);
            assert_eq!(contents(&db), model, "after an open, round {round}");
            assert_sound(&db);
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_on_disk(&db);
    let entries: u64 = db.stats().keyspaces.iter().map(|keyspace| keyspace.entries).sum();
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.entries, entries, "verify has read what the statistics count");
    // A copy is a database of its own, of both.
    db.checkpoint("/copy").unwrap();
    let copied = model.clone();
    write(&db, 200, &mut model);
    let copy = open_at(&disk, "/copy");
    assert_eq!((contents(&copy), contents(&db)), (copied.clone(), model.clone()));
    assert_on_disk(&copy);
    let mut of_copy = copied;
    write(&copy, 300, &mut of_copy);
    both(&copy).iter().for_each(|keyspace| keyspace.delete_range(key(0)..key(20)).unwrap());
    (0..20).for_each(|number| drop(of_copy.remove(&key(number))));
    copy.compact().unwrap();
    copy.wait_idle().unwrap();
    assert_eq!((contents(&copy), contents(&db)), (of_copy, model));
    assert_sound(&copy);
    assert_sound(&db);
}

/// Whatever a crash leaves, a batch is in both keyspaces or in neither, and so are all before it.
#[test]
fn a_batch_is_in_both_or_in_none_after_a_crash_at_any_call() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let mut model = Model::new();
    let mut states = vec![model.clone()];
    write(&db, 0, &mut model);
    states.push(model.clone());
    db.sync().unwrap();
    let images = Arc::new(PlainMutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.set_observer(Some(std::sync::Arc::new(move |call, disk: &MemoryDisk| {
        for mode in [CrashMode::None, CrashMode::All, CrashMode::Sectors] {
            taken.lock().unwrap().push((call, mode, disk.crash_image(mode, call)));
        }
    })));
    // How many states there were when a call was made, and how many of them were durable.
    let mut synced = Vec::new();
    for round in 1..16 {
        write(&db, round, &mut model);
        states.push(model.clone());
        match round % 5 {
            1 => db.sync().unwrap(),
            2 => db.flush().unwrap(),
            3 => db.wait_idle().unwrap(),
            _ => {}
        }
        if round % 5 < 3 && round % 5 > 0 {
            synced.push((images.lock().unwrap().len(), states.len() - 1));
        }
    }
    disk.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let (each, mut met) = ((images.len() / 150).max(1) | 1, std::collections::BTreeSet::new());
    for (number, (call, mode, image)) in images.into_iter().enumerate().step_by(each) {
        let durable = synced.iter().rfind(|(before, _)| *before <= number).map_or(1, |it| it.1);
        let db = open(&image);
        let found = contents(&db);
        let state = states.iter().position(|state| *state == found);
        let state = state.unwrap_or_else(|| panic!("call {call} {mode:?}: no state was {found:?}"));
        assert!(state >= durable, "call {call} {mode:?}: {state} of {durable} that were durable");
        assert_sound(&db);
        met.insert(state);
    }
    assert!(met.len() > 8, "{met:?}");
}
