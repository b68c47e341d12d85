//! What garbage collection asks, writes and is told differs by strategy, and the figures say so.

use crate::{Db, KeyspaceOptions, Options, StrategyKind};

const PAIRS: u32 = 400;

/// A store of which half of the separated values were written again, all of it in tables.
fn overwritten(strategy: StrategyKind) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(1 << 20).reserve_bytes(0).strategy(strategy);
    let db = options.open(dir.path().join("db")).unwrap();
    let pairs = db.keyspace("pairs", KeyspaceOptions::new().separate_at(Some(100))).unwrap();
    for number in 0..PAIRS + PAIRS / 2 {
        let key = format!("{:05}", number % PAIRS);
        pairs.put(&key, format!("{number:0500}")).unwrap();
    }
    (dir, db)
}

#[test]
fn collection_by_facts_leaves_the_index_alone() {
    let (_dir, db) = overwritten(StrategyKind::Novkv);
    let before = db.stats();
    assert_eq!((before.values.strategy.as_str(), before.values.containers), ("novkv", 0));
    assert_eq!(before.collection.facts, 0, "nothing was flushed");
    db.compact().unwrap();
    let known = db.stats().collection;
    let replaced = u64::from(PAIRS / 2);
    assert_eq!((known.facts, known.facts_waiting), (replaced, replaced), "{known:?}");
    let reclaimed = db.reclaim(None, &mut |_| {}).unwrap();
    assert!(reclaimed.bytes_freed > 0, "{reclaimed:?}");
    let after = db.stats();
    let done = &after.collection;
    assert_eq!((done.index_reads, done.index_writes), (0, 0), "{done:?}");
    assert_eq!((done.records_dead, done.records_held), (replaced, 0), "{done:?}");
    assert_eq!((done.facts_waiting, done.records_moved), (0, u64::from(PAIRS)), "{done:?}");
    assert_eq!(after.values.containers, 1, "{:?}", after.values);
    assert_eq!(after.values.entries, u64::from(PAIRS));
}

#[test]
fn a_record_that_a_snapshot_sees_is_held() {
    let (_dir, db) = overwritten(StrategyKind::Novkv);
    let pairs = db.existing_keyspace("pairs").unwrap().unwrap();
    let snapshot = db.snapshot();
    pairs.put("00000", [7; 500]).unwrap();
    db.compact().unwrap();
    db.reclaim(None, &mut |_| {}).unwrap();
    // The version that the snapshot sees keeps its entry, so no fact is stated of it yet.
    let held = db.stats().collection;
    assert_eq!(held.records_dead, u64::from(PAIRS / 2), "{held:?}");
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(db.stats().collection.facts, u64::from(PAIRS / 2) + 1);
}

#[test]
fn collection_by_the_index_asks_and_writes_it() {
    let (_dir, db) = overwritten(StrategyKind::Wisckey);
    db.reclaim(None, &mut |_| {}).unwrap();
    let stats = db.stats();
    let done = &stats.collection;
    assert_eq!((stats.values.strategy.as_str(), stats.values.containers), ("wisckey", 0));
    assert!(done.index_reads >= u64::from(PAIRS), "{done:?}");
    assert_eq!(done.index_writes, done.records_moved, "{done:?}");
    assert!(done.index_writes > 0, "{done:?}");
    assert_eq!((done.facts, done.facts_waiting, done.compactions_asked), (0, 0, 0), "{done:?}");
}
