//! The locator at work, seen from outside: gets go by it, garbage is known at flush, and whatever
//! it does not know, or knows no more, the index answers.

use super::collection::{
    Model, apart, assert_shows, assert_sound, key, put, put_twice, value, widths,
};
use super::novkv::{assert_goes_by_facts, assert_no_stray, engine_of, files_of, try_open};
use super::*;
use crate::base::names::FileKind;
use crate::base::widths::Widths;
use crate::io::memory_disk::CrashMode;
use crate::values::file::ValueFile;
use crate::{LocatorStats, StrategyKind, Value};

fn options() -> Options {
    small().strategy(StrategyKind::Unified)
}

fn open(disk: &MemoryDisk) -> Db {
    // Few shards, so that each has room for chains.
    let widths = Widths { locator_shard_bits: 1, ..widths() };
    try_open(world(disk), options(), widths).unwrap()
}

fn locator(db: &Db) -> LocatorStats {
    db.stats().values.locator
}

/// Lets background work run that nothing else waits for.
fn work_until(db: &Db, is_done: impl Fn() -> bool) {
    let engine = engine_of(db);
    while !is_done() {
        let is_there = engine.io.executor.help();
        assert!(is_there, "background work that does not come: {:#?}", db.stats());
    }
}

/// Hits and misses of some gets.
fn served(db: &Db, gets: impl FnOnce()) -> (u64, u64) {
    let before = locator(db);
    gets();
    let after = locator(db);
    (after.hits - before.hits, after.misses - before.misses)
}

/// A store of 300 values, written twice and flushed.
fn filled(disk: &MemoryDisk) -> (Db, Keyspace, Model) {
    let db = open(disk);
    let keyspace = apart(&db);
    let model = put_twice(&db, &keyspace);
    (db, keyspace, model)
}

fn get_all(keyspace: &Keyspace, model: &Model) {
    for (key, value) in model {
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value.as_bytes(), "{key}");
    }
}

#[test]
fn gets_of_flushed_values_go_by_the_locator_alone_and_in_batches() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    assert_eq!(served(&db, || get_all(&keyspace, &model)), (300, 0));
    let keys: Vec<&String> = model.keys().collect();
    let many = || {
        let found = keyspace.multi_get(&keys).unwrap();
        for (found, wanted) in found.iter().zip(model.values()) {
            assert_eq!(found.as_deref(), Some(wanted.as_bytes()));
        }
    };
    assert_eq!(served(&db, many), (300, 0));
    // What is not there is the index's to say; inline values and deletes are not in the locator.
    keyspace.put("short", "x").unwrap();
    keyspace.delete(key(7)).unwrap();
    db.flush().unwrap();
    let none = || {
        assert_eq!(keyspace.get("nothing").unwrap(), None);
        assert_eq!(keyspace.get(key(7)).unwrap(), None);
        assert_eq!(keyspace.get("short").unwrap().unwrap(), b"x");
        let found = keyspace.multi_get(["nothing".to_owned(), key(7), key(8)]).unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
    };
    assert_eq!(served(&db, none), (1, 5));
    assert_sound(&db);
}

#[test]
fn gets_that_the_locator_never_serves_leave_it_out_until_one_meets_a_value() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    let missing = |keys: std::ops::Range<u32>| {
        keys.for_each(|number| assert_eq!(keyspace.get(format!("none{number}")).unwrap(), None));
    };
    // One in eight counts, and 32 of those are as many as it takes; of the rest those ask it yet.
    let (hits, misses) = served(&db, || missing(0..4_000));
    assert!(hits == 0 && misses > 256 && misses < 1_200, "{hits} {misses}");
    let (_, misses) = served(&db, || missing(4_000..8_000));
    assert!((400..600).contains(&misses), "{misses}");
    // The first value comes by way of the index, unless its key is one that counts; then all else
    // by the locator, with the right answers.
    let (hits, misses) = served(&db, || get_all(&keyspace, &model));
    assert!(hits >= 299 && misses == 0, "{hits} {misses}");
    assert_sound(&db);
}

#[test]
fn flush_says_what_died_and_collection_needs_no_compaction_for_it() {
    let disk = MemoryDisk::new();
    // Runs are not merged by themselves, so that no compaction tells of anything.
    let widths = Widths { level0_runs_trigger: 1000, ..widths() };
    let db = try_open(world(&disk), options(), widths).unwrap();
    let keyspace = apart(&db);
    // So many that entries of files which are gone are no reason to compact the indexes.
    (0..6000_u32).for_each(|number| plain(&db).put(number.to_be_bytes(), "").unwrap());
    db.compact().unwrap();
    let mut model = Model::new();
    for round in 0..12 {
        (0..120).for_each(|number| put(&keyspace, &mut model, number, round));
        db.flush().unwrap();
    }
    let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    work_until(&db, || db.stats().values.file_bytes < 4 * live as u64);
    assert!(db.stats().collection.records_dead > 600);
    let runs = db.stats().keyspaces[0].levels[0].files;
    assert!(runs >= 10, "{runs} runs: something was compacted");
    assert_eq!(db.stats().collection.compactions_asked, 0);
    assert_goes_by_facts(&db);
    assert_eq!(served(&db, || get_all(&keyspace, &model)), (120, 0), "also where it was moved");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_no_stray(&db, &disk);
}

#[test]
fn a_closed_store_finds_its_values_by_the_locator_when_it_is_opened_again() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(files_of(&disk, "loc").len(), 1);
    let db = open(&disk);
    let keyspace = apart(&db);
    work_until(&db, || locator(&db).keys == 300);
    assert_eq!(served(&db, || get_all(&keyspace, &model)), (300, 0));
    assert_sound(&db);
    // It counts until something else is newest.
    keyspace.put(key(1), value(1, 9)).unwrap();
    db.flush().unwrap();
    work_until(&db, || files_of(&disk, "loc").is_empty());
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(files_of(&disk, "loc").len(), 1);
}

#[test]
fn after_a_crash_the_index_answers_and_fills_the_locator() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    db.sync().unwrap();
    let image = disk.crash_image(CrashMode::All, 1);
    drop((keyspace, db));
    let db = open(&image);
    let keyspace = apart(&db);
    assert_eq!(served(&db, || get_all(&keyspace, &model)), (0, 300));
    assert_eq!(served(&db, || get_all(&keyspace, &model)), (300, 0), "from the second time on");
    assert_sound(&db);
}

#[test]
fn what_the_log_still_held_is_in_the_locator_with_its_flush() {
    let disk = MemoryDisk::new();
    let (db, keyspace, mut model) = filled(&disk);
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 3));
    db.sync().unwrap();
    let image = disk.crash_image(CrashMode::All, 1);
    drop((keyspace, db));
    // Flushed while it is replayed, frame by frame, or as usual later.
    let at_once = Widths { memtable_bytes: 1, locator_shard_bits: 1, ..widths() };
    for widths in [at_once, Widths { locator_shard_bits: 1, ..widths() }] {
        let db = try_open(world(&image.deep_clone()), options(), widths).unwrap();
        let keyspace = apart(&db);
        db.flush().unwrap();
        let get = |numbers: std::ops::Range<u32>| {
            let some = numbers.map(|number| (key(number), model[&key(number)].clone()));
            served(&db, || get_all(&keyspace, &some.collect()))
        };
        assert_eq!(get(0..100), (100, 0));
        assert_eq!(get(100..300), (0, 200), "was flushed before the crash");
        assert_sound(&db);
    }
}

#[test]
fn a_damaged_checkpoint_costs_nothing_but_look_ups() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    drop(keyspace);
    db.close().unwrap();
    let path = files_of(&disk, "loc").remove(0);
    let mut bytes = disk.contents(&path);
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    disk.replace(&path, bytes).unwrap();
    let db = open(&disk);
    let keyspace = apart(&db);
    let waiting = || engine_of(&db).locating.as_ref().map_or(0, |it| it.figures().waiting);
    work_until(&db, || waiting() == 0);
    let (hits, misses) = served(&db, || get_all(&keyspace, &model));
    assert!(hits > 0 && misses > 0 && hits + misses == 300, "{hits} hits, {misses} misses");
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(format!("{problems:?}").contains(".loc"), "{problems:?}");
    drop(keyspace);
    drop(db);
    // Lost, it is not missed either.
    disk.remove(&path).unwrap();
    let db = open(&disk);
    assert_shows(&apart(&db), &model);
}

#[test]
fn range_deletes_and_merges_are_seen_through_the_locator() {
    let disk = MemoryDisk::new();
    let (db, keyspace, mut model) = filled(&disk);
    keyspace.delete_range(key(50)..key(60)).unwrap();
    keyspace.merge(key(1), "+a").unwrap();
    model.retain(|name, _| *name < key(50) || *name >= key(60));
    model.get_mut(&key(1)).unwrap().push_str("+a");
    let unseen = || (50..60).for_each(|n| assert_eq!(keyspace.get(key(n)).unwrap(), None, "{n}"));
    // In the memtable, in level 0, at the bottom, and reopened.
    unseen();
    get_all(&keyspace, &model);
    db.flush().unwrap();
    unseen();
    get_all(&keyspace, &model);
    db.compact().unwrap();
    db.wait_idle().unwrap();
    unseen();
    get_all(&keyspace, &model);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = apart(&db);
    (50..60).for_each(|n| assert_eq!(keyspace.get(key(n)).unwrap(), None, "{n}"));
    assert_shows(&keyspace, &model);
}

#[test]
fn snapshots_see_what_they_saw_before_the_locator_changed() {
    let disk = MemoryDisk::new();
    let (db, keyspace, model) = filled(&disk);
    let snapshot = db.snapshot();
    for round in 2..5 {
        for number in 0..300 {
            keyspace.put(key(number), value(number, round)).unwrap();
        }
        db.flush().unwrap();
        db.reclaim(None, &mut |_| {}).unwrap();
        let get_old = || {
            for (key, value) in &model {
                let found: Option<Value> = snapshot.get(&keyspace, key).unwrap();
                assert_eq!(found.as_deref(), Some(value.as_bytes()), "{key} in round {round}");
            }
        };
        let (hits, misses) = served(&db, get_old);
        // Chains are short; what they do not hold is the index's to say.
        assert_eq!(hits + misses, 300);
        assert!(round > 2 || hits > 10, "{hits} by way of chains, {misses} not");
    }
    drop(snapshot);
    let newest = (0..300).map(|number| (key(number), value(number, 4))).collect();
    assert_shows(&keyspace, &newest);
    assert_sound(&db);
}

#[test]
fn a_segment_of_another_history_is_not_read_by_place() {
    let disk = MemoryDisk::new();
    let (db, _keyspace, _) = filled(&disk);
    let engine = engine_of(&db);
    let view = engine.view.load_full();
    let mut seen = 0;
    for entry in view.values.iter() {
        let Some(sealed) = entry.state.sealed.filter(|sealed| sealed.totals.records > 0) else {
            continue;
        };
        assert!(entry.file.is_as_sealed(&sealed).unwrap());
        let id = entry.file.id();
        let unseen = || ValueFile::new(&engine.value_context, FileKind::Value, id);
        let mut other = sealed;
        other.totals.largest_seq += 1;
        let file = unseen();
        file.keep();
        assert!(!file.is_as_sealed(&other).unwrap());
        assert!(!file.is_as_sealed(&other).unwrap(), "however often it is asked");
        assert!(file.is_as_sealed(&sealed).unwrap());
        seen += 1;
    }
    assert!(seen > 2, "{seen} segments");
}
