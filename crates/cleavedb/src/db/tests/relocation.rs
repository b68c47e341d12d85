//! Values put in the order of their keys by `compact`, seen from outside.

use super::collection::value;
use super::collection::{Model, apart, assert_shows, assert_sound, key, put, reclaim, widths};
use super::late_disk::Late;
use super::novkv::{assert_no_stray, engine_of, files_of, try_open};
use super::*;
use crate::base::widths::Widths;
use crate::io::Purpose;
use crate::io::memory_disk::CrashMode;
use crate::{ErrorKind, StrategyKind};

const KINDS: [StrategyKind; 3] =
    [StrategyKind::Unified, StrategyKind::Novkv, StrategyKind::Wayfinder];
const KEYS: u32 = 3_000;

/// A read of some twenty values is a good one.
fn scattered() -> Widths {
    let (value_segment_bytes, value_order_bytes) = (64 << 10, 2 << 10);
    Widths { value_segment_bytes, value_order_bytes, locator_shard_bits: 1, ..widths() }
}

fn open(disk: &MemoryDisk, kind: StrategyKind) -> Db {
    try_open(world(disk), small().strategy(kind), scattered()).unwrap()
}

/// Puts all keys in an order that has nothing to do with theirs.
fn put_scattered(keyspace: &Keyspace, model: &mut Model, round: u32) {
    (0..KEYS).for_each(|number| put(keyspace, model, number * 121 % KEYS, round));
}

/// A store in whose files all values are, in no order.
fn filled(disk: &MemoryDisk, kind: StrategyKind) -> (Db, Keyspace, Model) {
    let db = open(disk, kind);
    let keyspace = apart(&db);
    let mut model = Model::new();
    put_scattered(&keyspace, &mut model, 0);
    db.flush().unwrap();
    (db, keyspace, model)
}

/// Device reads of a scan over everything.
fn reads_of_scan(db: &Db, keyspace: &Keyspace, model: &Model) -> u64 {
    let before = engine_of(db).io.meter.read_calls(Purpose::Read);
    assert_eq!(pairs(keyspace.iter()).len(), model.len());
    engine_of(db).io.meter.read_calls(Purpose::Read) - before
}

#[test]
fn compact_puts_values_in_the_order_of_their_keys() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, model) = filled(&disk, kind);
        let before = reads_of_scan(&db, &keyspace, &model);
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let done = db.stats().collection;
        assert_eq!(done.records_relocated, u64::from(KEYS), "{kind:?}: {done:?}");
        assert!(done.bytes_relocated > u64::from(KEYS) * 60, "{kind:?}: {done:?}");
        let after = reads_of_scan(&db, &keyspace, &model);
        assert!(after * 4 < before, "{kind:?}: {after} reads after {before}");
        assert_shows(&keyspace, &model);
        assert_sound(&db);
        // What they were in is gone.
        let named = db.stats().values;
        assert!(named.live_bytes * 3 / 2 > named.file_bytes, "{kind:?}: {named:?}");
        // What is in order stays where it is.
        db.compact().unwrap();
        assert_eq!(db.stats().collection.records_relocated, u64::from(KEYS), "{kind:?}");
        assert_no_stray(&db, &disk);
    }
}

#[test]
fn what_was_relocated_is_there_after_a_crash_and_can_be_overwritten() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        db.compact().unwrap();
        drop(keyspace);
        assert!(db.stats().collection.records_relocated > 0);
        let disk = disk.crash_image(CrashMode::None, 0);
        let db = open(&disk, kind);
        let keyspace = apart(&db);
        assert_shows(&keyspace, &model);
        for round in 1..4 {
            (0..KEYS).step_by(3).for_each(|number| put(&keyspace, &mut model, number, round));
            db.flush().unwrap();
            reclaim(&db);
            assert_shows(&keyspace, &model);
        }
        db.compact().unwrap();
        assert_shows(&keyspace, &model);
        keyspace.delete_range(key(0)..key(9999)).unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_shows(&keyspace, &Model::new());
        assert_sound(&db);
        assert_eq!(db.stats().collection.facts_waiting, 0, "{kind:?}");
        assert_no_stray(&db, &disk);
    }
}

#[test]
fn a_snapshot_and_an_iterator_of_before_see_what_they_saw() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        let snapshot = db.snapshot();
        let old = model.clone();
        let mut walk = keyspace.iter();
        let first = walk.next().unwrap().unwrap();
        assert_eq!(&*first.0, key(0).as_bytes());
        put_scattered(&keyspace, &mut model, 1);
        db.compact().unwrap();
        reclaim(&db);
        let seen: Vec<String> = pairs(snapshot.range::<&str>(&keyspace, ..));
        let wanted: Vec<String> = old.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(seen, wanted, "{kind:?}");
        assert_eq!(pairs(walk), wanted[1..], "{kind:?}");
        assert!(db.stats().collection.records_relocated > u64::from(KEYS), "{kind:?}");
        assert_shows(&keyspace, &model);
        drop(snapshot);
        db.compact().unwrap();
        reclaim(&db);
        assert_shows(&keyspace, &model);
        assert_sound(&db);
    }
}

/// What a scan knows of pairs ahead leads into the files of when it learned of them.
#[test]
fn a_scan_goes_on_where_values_were_put_in_order_and_collected_meanwhile() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        let old = model.clone();
        for backwards in [false, true] {
            let mut walk = keyspace.iter();
            let mut next = || if backwards { walk.next_back() } else { walk.next() };
            let mut seen = Vec::new();
            for round in 0..12 {
                seen.extend((0..40).map(|_| next().unwrap().unwrap()));
                (0..KEYS).step_by(7 + round).for_each(|number| {
                    put(&keyspace, &mut model, number * 121 % KEYS, round as u32);
                });
                db.compact().unwrap();
                reclaim(&db);
            }
            assert!(db.stats().collection.records_moved > 0, "{kind:?}");
            let wanted = old.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
            let wanted: Vec<_> = match backwards {
                true => wanted.rev().take(seen.len()).collect(),
                false => wanted.take(seen.len()).collect(),
            };
            let seen: Vec<_> = seen.iter().map(|(key, value)| (&**key, &**value)).collect();
            assert_eq!(seen, wanted, "{kind:?}, {backwards}");
            drop(walk);
            old_again(&keyspace, &mut model, &old);
        }
    }
}

fn old_again(keyspace: &Keyspace, model: &mut Model, old: &Model) {
    for (key, value) in old {
        keyspace.put(key, value).unwrap();
        model.insert(key.clone(), value.clone());
    }
}

#[test]
fn scans_that_pay_for_scattered_values_have_them_put_in_order() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, model) = filled(&disk, kind);
        db.wait_idle().unwrap();
        let mut passes = Vec::new();
        for _ in 0..6 {
            passes.push(reads_of_scan(&db, &keyspace, &model));
            db.wait_idle().unwrap();
        }
        let (first, last) = (passes[0], passes[5]);
        assert!(last * 4 < first, "{kind:?}: {passes:?}");
        // Nobody asked for it, and once is enough.
        assert_eq!(db.stats().collection.records_relocated, u64::from(KEYS), "{kind:?}");
        assert_shows(&keyspace, &model);
        assert_sound(&db);
    }
}

#[test]
fn a_damaged_value_stays_where_it_is_and_the_rest_is_put_in_order() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        drop(keyspace);
        db.close().unwrap();
        let text = value(77, 0);
        let is_in = |bytes: &[u8]| bytes.windows(30).position(|w| w == &text.as_bytes()[..30]);
        let found = files_of(&disk, "val")
            .into_iter()
            .find_map(|path| is_in(&disk.contents(&path)).map(|at| (path, at)));
        let (path, at) = found.unwrap();
        let mut bytes = disk.contents(&path);
        bytes[at + 10] ^= 1;
        disk.replace(&path, bytes).unwrap();
        let db = open(&disk, kind);
        let keyspace = apart(&db);
        db.compact().unwrap();
        assert_eq!(db.stats().collection.records_relocated, u64::from(KEYS) - 1, "{kind:?}");
        let error = keyspace.get(key(77)).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)));
        model.remove(&key(77));
        for (key, value) in &model {
            assert_eq!(keyspace.get(key).unwrap().unwrap(), value.as_bytes(), "{key}");
        }
    }
}

/// The map must be told of each record that moves: what there is no memory for waits.
#[test]
fn the_map_is_told_of_as_many_records_as_there_is_memory_for_and_the_next_time_of_the_rest() {
    let disk = MemoryDisk::new();
    let db = open(&disk, StrategyKind::Wayfinder);
    let keyspace = apart(&db);
    let mut model = Model::new();
    let keys = 2 * KEYS;
    (0..keys).for_each(|number| put(&keyspace, &mut model, number * 121 % keys, 0));
    db.flush().unwrap();
    let before = reads_of_scan(&db, &keyspace, &model);
    db.compact().unwrap();
    let first = db.stats().collection.records_relocated;
    assert!(first > u64::from(KEYS) / 2 && first < u64::from(keys), "{first}");
    assert_shows(&keyspace, &model);
    (0..3).for_each(|_| db.compact().unwrap());
    let all = db.stats().collection.records_relocated;
    assert!(all > u64::from(keys) * 9 / 10, "{all}");
    let after = reads_of_scan(&db, &keyspace, &model);
    assert!(after * 4 < before, "{after} reads after {before}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
}

/// Keys for which the map has no room have their handles in the index, and those change with it.
#[test]
fn records_of_bare_entries_and_of_handles_beside_a_full_map_are_put_in_order() {
    let disk = MemoryDisk::new();
    let db = open(&disk, StrategyKind::Wayfinder);
    let keyspace = db.keyspace("bare", KeyspaceOptions::new().separate_at(Some(8))).unwrap();
    let (mut model, keys) = (Model::new(), 40_000);
    (0..keys).for_each(|number| put(&keyspace, &mut model, number * 7_919 % keys, 0));
    db.flush().unwrap();
    let stats = db.stats().values;
    assert!(stats.map.refused > 1000 && stats.map.keys > 1000, "{stats:?}");
    (0..8).for_each(|_| db.compact().unwrap());
    reclaim(&db);
    let all = db.stats().collection.records_relocated;
    assert!(all > u64::from(keys) * 8 / 10, "{all}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    // Nothing of what they left is held as if somebody needed it.
    let values = db.stats().values;
    assert!(values.live_bytes * 3 / 2 > values.file_bytes, "{values:?}");
    drop(keyspace);
    let disk = disk.crash_image(CrashMode::None, 0);
    drop(db);
    let db = open(&disk, StrategyKind::Wayfinder);
    assert_shows(&db.existing_keyspace("bare").unwrap().unwrap(), &model);
    assert_sound(&db);
}

/// Whatever a compaction has written of values by then is of no use.
#[test]
fn a_keyspace_dropped_while_its_values_are_put_in_order_leaves_no_value_table() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let late = Late::new(&disk);
        let db = late.open(small().strategy(kind), scattered());
        put_scattered(&apart(&db), &mut Model::new(), 0);
        db.flush().unwrap();
        let dropping = db.clone();
        late.at_creation(".vtb", move || dropping.drop_keyspace("apart").unwrap());
        let error = db.compact().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{kind:?}: dropped meanwhile: {error}");
        db.wait_idle().unwrap();
        assert_eq!(files_of(&disk, "vtb"), Vec::<std::path::PathBuf>::new(), "{kind:?}");
        assert_eq!(db.stats().collection.records_relocated, 0, "{kind:?}");
        assert_sound(&db);
    }
}
