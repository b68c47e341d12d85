//! What buckets take of the memory budget, and how many of them it has room for.

use super::collection::assert_sound;
use super::deltas::{buckets, entries, key, listing, lists, merge};
use super::novkv::try_open;
use super::*;
use crate::base::widths::{DeltaWidths, Widths};

/// Many small buckets, of which no key is cached.
fn open(disk: &MemoryDisk) -> Db {
    let deltas = DeltaWidths { cache_bytes: Some(0), ..DeltaWidths::default() };
    try_open(world(disk), small(), Widths { deltas, buckets_max: 1_000, ..buckets() }).unwrap()
}

fn filled(disk: &MemoryDisk, keys: u64) -> Db {
    let db = open(disk);
    let keyspace = lists(&db);
    for round in 0..6 {
        merge(&keyspace, 0..keys, round);
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    drop(keyspace);
    db.close().unwrap();
    open(disk)
}

fn held(db: &Db) -> u64 {
    db.memory_usage()["deltas"]
}

#[test]
fn the_directory_is_counted_and_so_is_what_a_get_brings() {
    let disk = MemoryDisk::new();
    let db = filled(&disk, 900);
    let count = db.stats().deltas.buckets;
    assert!(count > 20, "{count} buckets");
    let bare = held(&db);
    assert!(bare >= 200 * count && bare <= 2_000 * count, "{bare} bytes for {count} buckets");
    let keyspace = lists(&db);
    (0..900).for_each(|number| drop(keyspace.get(key(number)).unwrap().unwrap()));
    let all = held(&db);
    assert!(all >= bare + 100 * count, "{all} bytes with indexes and filters, {bare} without");
    let usage = db.memory_usage();
    let parts = usage.iter().filter(|(part, _)| !["total", "budget"].contains(&part.as_str()));
    assert_eq!(parts.map(|(_, bytes)| bytes).sum::<u64>(), usage["total"]);
}

/// Bytes of directory, indexes and filters.
fn known(db: &Db) -> u64 {
    lists(db).handle.engine.deltas.known_bytes()
}

/// Reads some keys; how often a bucket's index and filters had to be read for it.
fn loads(db: &Db, keys: impl Iterator<Item = u64>) -> u64 {
    let (keyspace, before) = (lists(db), db.stats().deltas.loads);
    keys.for_each(|number| drop(keyspace.get(key(number)).unwrap().unwrap()));
    db.stats().deltas.loads - before
}

#[test]
fn buckets_that_are_asked_for_stay_in_memory_and_others_go() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let share = small().into_settings().memory_budget / 16;
    // A quarter more than there is room for.
    let mut keys = 0;
    while known(&db) < share / 4 * 5 {
        for round in 0..6 {
            merge(&lists(&db), keys..keys + 100, round);
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        keys += 100;
        loads(&db, 0..keys);
    }
    db.close().unwrap();
    let db = open(&disk);
    let keep_house = || Arc::clone(&lists(&db).handle.engine).keep_house();
    // Wherever in the directory they are.
    for hot in [0..40, keys / 2..keys / 2 + 40, keys - 40..keys] {
        loads(&db, 0..keys);
        assert!(known(&db) > share, "{} bytes fit into {share}", known(&db));
        keep_house();
        assert!(known(&db) <= share, "{} bytes of {share}", known(&db));
        for _ in 0..3 {
            loads(&db, hot.clone());
            // Others come by, each once.
            loads(&db, (0..keys).step_by(40));
            loads(&db, hot.clone());
            keep_house();
        }
        assert_eq!(loads(&db, hot.clone()), 0, "of {hot:?}");
    }
    assert_sound(&db);
}

#[test]
fn there_are_as_many_buckets_as_the_budget_has_room_for() {
    let disk = MemoryDisk::new();
    let open = |budget: u64| {
        let options = Options::new().memory_budget(budget).reserve_bytes(0);
        try_open(world(&disk), options, Widths::for_budget(budget)).unwrap()
    };
    let list = |db: &Db| db.keyspace("list", listing().separate_at(None)).unwrap();
    let operand = |round: u64| format!("{round}{}", "m".repeat(199));
    // Of 64 buckets of 32 KiB, which the smallest budgets have, twice as much.
    let (db, keys) = (open(1 << 20), 5_000);
    let keyspace = list(&db);
    for round in 0..4 {
        (0..keys).for_each(|number| keyspace.merge(key(number), operand(round)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let count = db.stats().deltas.buckets;
    assert!(count > 8 && count <= 64, "{count} buckets");
    assert!(entries(&db) > 0, "and the rest is applied to the values");
    let wanted: Vec<String> = (0..4).map(operand).collect();
    for number in 0..keys {
        assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), wanted.join(",").as_bytes());
    }
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    // With more, more of them, and longer ones.
    let db = open(16 << 20);
    let keyspace = list(&db);
    let before = entries(&db);
    for round in 4..8 {
        (0..keys).for_each(|number| keyspace.merge(key(number), operand(round)).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    assert_eq!(entries(&db), before, "there is room for all of them");
    let wanted: Vec<String> = (0..8).map(operand).collect();
    for number in 0..keys {
        assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), wanted.join(",").as_bytes());
    }
    assert_sound(&db);
}

#[test]
fn buckets_grow_with_the_budget_in_number_and_size() {
    let of = |budget: u64| {
        let Widths { bucket_bytes, buckets_max, .. } = Widths::for_budget(budget);
        (bucket_bytes >> 10, buckets_max)
    };
    assert_eq!(of(1 << 20), (32, 64));
    assert_eq!(of(8 << 20), (128, 512));
    assert_eq!(of(256 << 20), (256, 16 << 10));
    assert_eq!(of(1 << 30), (256, 32 << 10));
    assert_eq!(of(1 << 40), (256, 32 << 10));
}
