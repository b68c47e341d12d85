//! What buckets take of the memory budget.

use super::collection::assert_sound;
use super::deltas::{buckets, key, lists, merge};
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

#[test]
fn buckets_that_are_asked_for_stay_in_memory_and_others_go() {
    let disk = MemoryDisk::new();
    let db = filled(&disk, 2_000);
    let keyspace = lists(&db);
    let share = small().into_settings().memory_budget / 16;
    let all = 0..2_000_u64;
    let loads = |keys: &mut dyn Iterator<Item = u64>| {
        let before = db.stats().deltas.loads;
        keys.for_each(|number| drop(keyspace.get(key(number)).unwrap().unwrap()));
        db.stats().deltas.loads - before
    };
    let keep_house = || Arc::clone(&keyspace.handle.engine).keep_house();
    // Wherever in the directory they are.
    for hot in [0..60, 500..560, 940..1_000] {
        loads(&mut all.clone());
        assert!(held(&db) > share, "{} bytes fit into {share}", held(&db));
        keep_house();
        assert!(held(&db) <= share, "{} bytes of {share}", held(&db));
        for _ in 0..3 {
            loads(&mut hot.clone());
            // Others come by, each once.
            loads(&mut all.clone().step_by(9).skip(2).take(50));
            loads(&mut hot.clone());
            keep_house();
        }
        assert_eq!(loads(&mut hot.clone()), 0, "of {hot:?}");
    }
    assert_sound(&db);
}
