//! The map at work, seen from outside: the index has bare keys, the map leads to their values, and
//! comes back after a close, after a crash, and where its checkpoint is damaged.

use super::collection::{
    Model, apart, assert_shows, assert_sound, key, put, put_twice, value, widths,
};
use super::novkv::{assert_no_stray, engine_of, files_of, let_time_pass, try_open};
use super::*;
use crate::base::entry::Kind;
use crate::base::widths::Widths;
use crate::index::{CursorOptions, KeyRange};
use crate::io::Purpose;
use crate::io::memory_disk::CrashMode;
use crate::{IndexKind, MapStats, StrategyKind};

fn open_with(disk: &MemoryDisk, options: Options) -> Db {
    let widths = Widths { locator_shard_bits: 1, ..widths() };
    try_open(world(disk), options.strategy(StrategyKind::Wayfinder), widths).unwrap()
}

pub(super) fn open(disk: &MemoryDisk) -> Db {
    open_with(disk, small())
}

/// With segments for more keys than the map has room for.
fn open_wide(disk: &MemoryDisk) -> Db {
    let widths = Widths { locator_shard_bits: 1, value_segment_bytes: 32 << 10, ..widths() };
    try_open(world(disk), small().strategy(StrategyKind::Wayfinder), widths).unwrap()
}

/// A keyspace without a merge operator, in which the map decides alone.
pub(super) fn bare(db: &Db) -> Keyspace {
    db.keyspace("bare", KeyspaceOptions::new().separate_at(Some(8))).unwrap()
}

pub(super) fn map(db: &Db) -> MapStats {
    db.stats().values.map
}

/// A store of 300 values, written twice and flushed.
pub(super) fn filled(disk: &MemoryDisk, keyspace: fn(&Db) -> Keyspace) -> (Db, Keyspace, Model) {
    let db = open(disk);
    let keyspace = keyspace(&db);
    let model = put_twice(&db, &keyspace);
    (db, keyspace, model)
}

/// Entries of the indexes by kind: bare, with a handle.
fn entries(db: &Db) -> (usize, usize) {
    let view = engine_of(db).view.load_full();
    let (mut bare, mut separated) = (0, 0);
    for index in view.indexes.values() {
        let (range, purpose) = (KeyRange::default(), Purpose::Other);
        let mut cursor =
            index.cursor(&CursorOptions { range, purpose, fill_cache: false }).unwrap();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            bare += usize::from(cursor.kind() == Kind::PutBare);
            separated += usize::from(cursor.kind() == Kind::PutSeparated);
            cursor.next().unwrap();
        }
    }
    (bare, separated)
}

pub(super) fn assert_finds_all(keyspace: &Keyspace, model: &Model) {
    assert_shows(keyspace, model);
    let keys: Vec<&String> = model.keys().collect();
    for (found, wanted) in keyspace.multi_get(&keys).unwrap().iter().zip(model.values()) {
        assert_eq!(found.as_deref(), Some(wanted.as_bytes()));
    }
    let mut back = pairs(keyspace.iter().rev());
    back.reverse();
    assert_eq!(back, pairs(keyspace.iter()));
}

#[test]
fn entries_are_bare_and_values_found_where_collection_put_them() {
    for kind in [bare, apart] {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        let (bare, separated) = entries(&db);
        assert!(bare >= 300 && separated == 0, "{bare} bare entries, {separated} others");
        assert_eq!(map(&db).keys, 300);
        assert_finds_all(&keyspace, &model);
        for round in 2..6 {
            let some = (0..300).filter(|number| number % (round + 1) == 0);
            some.for_each(|number| put(&keyspace, &mut model, number, round));
            db.flush().unwrap();
            db.reclaim(None, &mut |_| {}).unwrap();
            assert_finds_all(&keyspace, &model);
        }
        let collection = db.stats().collection;
        assert!(collection.records_moved > 0 && collection.records_dead > 200, "{collection:?}");
        assert_eq!((collection.index_reads, collection.index_writes), (0, 0));
        assert_sound(&db);
        assert_no_stray(&db, &disk);
    }
}

#[test]
fn a_value_goes_in_and_out_of_the_map_with_its_size() {
    let disk = MemoryDisk::new();
    let (db, keyspace, mut model) = filled(&disk, bare);
    for number in 0..100 {
        keyspace.put(key(number), "short").unwrap();
        model.insert(key(number), "short".to_owned());
    }
    (100..150).for_each(|number| keyspace.delete(key(number)).unwrap());
    model.retain(|name, _| *name < key(100) || *name >= key(150));
    db.flush().unwrap();
    assert_eq!(map(&db).keys, 150);
    assert_finds_all(&keyspace, &model);
    (0..120).for_each(|number| put(&keyspace, &mut model, number, 7));
    db.flush().unwrap();
    assert_eq!(map(&db).keys, 270);
    db.compact().unwrap();
    assert_finds_all(&keyspace, &model);
    assert_sound(&db);
}

#[test]
fn the_map_comes_back_from_its_checkpoint_and_without_one() {
    let disk = MemoryDisk::new();
    let (db, keyspace, mut model) = filled(&disk, apart);
    db.reclaim(None, &mut |_| {}).unwrap();
    drop(keyspace);
    db.close().unwrap();
    let checkpoint = files_of(&disk, "loc");
    assert_eq!(checkpoint.len(), 1);
    let damaged = disk.deep_clone();
    let mut bytes = damaged.contents(&checkpoint[0]);
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    damaged.replace(&checkpoint[0], bytes).unwrap();
    let lost = disk.deep_clone();
    lost.remove(&checkpoint[0]).unwrap();
    for disk in [&disk, &damaged, &lost] {
        let db = open(disk);
        assert_eq!(map(&db).keys, 300);
        assert_finds_all(&apart(&db), &model);
    }
    // A crash leaves no checkpoint that counts, and a log behind what was flushed.
    let db = open(&disk);
    let keyspace = apart(&db);
    (0..50).for_each(|number| put(&keyspace, &mut model, number, 3));
    db.flush().unwrap();
    (40..90).for_each(|number| put(&keyspace, &mut model, number, 4));
    db.sync().unwrap();
    let image = disk.crash_image(CrashMode::All, 1);
    let db = open(&image);
    assert_finds_all(&apart(&db), &model);
    db.flush().unwrap();
    assert_finds_all(&apart(&db), &model);
    assert_sound(&db);
}

#[test]
fn who_only_reads_makes_the_map_of_a_segment_that_nobody_sealed() {
    let disk = MemoryDisk::new();
    let (db, _keyspace, model) = filled(&disk, apart);
    db.sync().unwrap();
    let image = disk.crash_image(CrashMode::All, 1);
    let db = open_with(&image, small().read_only(true));
    assert_finds_all(&db.existing_keyspace("apart").unwrap().unwrap(), &model);
    assert_sound(&db);
}

#[test]
fn snapshots_and_scans_see_their_moment_through_flushes_and_collections() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk, bare);
    let snapshot = db.snapshot();
    let scan = keyspace.iter();
    for round in 2..5 {
        (0..300).for_each(|number| keyspace.put(key(number), value(number, round)).unwrap());
        db.flush().unwrap();
        db.reclaim(None, &mut |_| {}).unwrap();
        for (key, value) in &model {
            let found = snapshot.get(&keyspace, key).unwrap();
            assert_eq!(found.as_deref(), Some(value.as_bytes()), "{key} in round {round}");
        }
    }
    assert!(map(&db).versions >= 300);
    let wanted: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(pairs(scan), wanted, "begun before all that");
    assert_eq!(pairs(snapshot.range::<&str>(&keyspace, ..).rev()).len(), 300);
    drop(snapshot);
    db.reclaim(None, &mut |_| {}).unwrap();
    db.wait_idle().unwrap();
    assert_finds_all(&keyspace, &(0..300).map(|n| (key(n), value(n, 4))).collect());
    assert_sound(&db);
}

#[test]
fn range_deletes_and_merges_are_seen_through_the_map() {
    for kind in [bare, apart] {
        let disk = MemoryDisk::new();
        let (db, keyspace, mut model) = filled(&disk, kind);
        // One of the range was written again in the same memtable, before it.
        put(&keyspace, &mut model, 55, 5);
        keyspace.delete_range(key(50)..key(60)).unwrap();
        model.retain(|name, _| *name < key(50) || *name >= key(60));
        if keyspace.name() == "apart" {
            keyspace.merge(key(1), "+a").unwrap();
            model.get_mut(&key(1)).unwrap().push_str("+a");
        }
        assert_finds_all(&keyspace, &model);
        db.flush().unwrap();
        assert_finds_all(&keyspace, &model);
        (50..60).for_each(|n| assert_eq!(keyspace.get(key(n)).unwrap(), None, "{n}"));
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(map(&db).keys, 290, "compaction has told of the others");
        assert_finds_all(&keyspace, &model);
        assert_sound(&db);
        drop(keyspace);
        db.close().unwrap();
        assert_finds_all(&kind(&open(&disk)), &model);
    }
}

/// An index that merges all of itself at each flush, also while the log is replayed and the map is
/// not made yet: then the entry that a range delete ends goes, and the range delete with it.
#[test]
fn what_a_range_delete_ends_in_replay_does_not_come_back_with_the_map() {
    let naive = KeyspaceOptions::new().separate_at(Some(8)).index(IndexKind::Naive);
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = db.keyspace("naive", naive).unwrap();
    let mut model = Model::new();
    (0..60).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    keyspace.delete_range(key(20)..key(40)).unwrap();
    model.retain(|name, _| *name < key(20) || *name >= key(40));
    (50..60).for_each(|number| put(&keyspace, &mut model, number, 1));
    keyspace.delete(key(5)).unwrap();
    keyspace.put(key(6), "short").unwrap();
    model.remove(&key(5));
    model.insert(key(6), "short".to_owned());
    db.sync().unwrap();
    let image = disk.crash_image(CrashMode::All, 1);
    // Every frame of the log is flushed by itself.
    let widths = Widths { memtable_bytes: 1, locator_shard_bits: 1, ..widths() };
    let options = small().strategy(StrategyKind::Wayfinder);
    let db = try_open(world(&image), options, widths).unwrap();
    let keyspace = db.existing_keyspace("naive").unwrap().unwrap();
    for number in 0..60 {
        let found = keyspace.get(key(number)).unwrap();
        let wanted = model.get(&key(number));
        assert_eq!(found.as_deref(), wanted.map(|value| value.as_bytes()), "{number}");
    }
    assert_finds_all(&keyspace, &model);
    assert_eq!(map(&db).keys as usize, model.len() - 1, "but the short one");
    assert_sound(&db);
}

#[test]
fn keys_for_which_there_is_no_room_keep_their_handles() {
    let disk = MemoryDisk::new();
    let db = open_wide(&disk);
    let keyspace = bare(&db);
    let mut model = Model::new();
    for round in 0..3 {
        for number in (0..40_000).filter(|number| round == 0 || number % 3 == round) {
            let value = format!("value {number} {round} of some bytes");
            keyspace.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
        db.flush().unwrap();
    }
    let stats = map(&db);
    assert!(stats.refused > 1000 && stats.bytes <= 600 << 10, "{stats:?}");
    db.reclaim(None, &mut |_| {}).unwrap();
    let (bare_entries, separated) = entries(&db);
    assert!(bare_entries > 1000 && separated > 1000, "{bare_entries} and {separated}");
    assert_finds_all(&keyspace, &model);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open_wide(&disk);
    assert_finds_all(&bare(&db), &model);
    assert_sound(&db);
}

/// No flush tells of the deaths of keys with their handles in the index: compaction does, which
/// somebody has to ask for once nothing is written any more.
#[test]
fn deleting_keys_for_which_there_was_no_room_gives_their_values_back() {
    let disk = MemoryDisk::new();
    let db = open_wide(&disk);
    let keyspace = bare(&db);
    let numbers = || 0..40_000;
    numbers().for_each(|number| keyspace.put(key(number), value(number, 0)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let full = db.stats().values.file_bytes;
    let (_, separated) = entries(&db);
    assert!(separated > 5000 && map(&db).keys > 5000, "{separated} and {:?}", map(&db));
    numbers().for_each(|number| keyspace.delete(key(number)).unwrap());
    let_time_pass(&db);
    let rest = db.stats().values.file_bytes;
    assert!(rest * 20 < full, "{rest} of {full}, {:?}", db.stats().collection);
    assert_sound(&db);
}

#[test]
fn a_bare_entry_without_a_record_is_an_error_and_no_absence() {
    let disk = MemoryDisk::new();
    let (db, keyspace, _) = filled(&disk, bare);
    let mapping = engine_of(&db).mapping.clone().unwrap();
    let id = engine_of(&db).catalogue.lock().named("bare").unwrap().id;
    mapping.forget_keyspace(id);
    let error = keyspace.get(key(1)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Corruption, "{error}");
    assert!(keyspace.multi_get([key(1)]).is_err());
    assert!(keyspace.iter().next().unwrap().is_err());
    assert!(!db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}
