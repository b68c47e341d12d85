//! Which keys have their operands applied for good, and who finds them: after a close that cut
//! folds off, and where reads meet many operands again and again.

use super::collection::{assert_sound, widths};
use super::deltas::{buckets, entries, listing, lists};
use super::novkv::try_open;
use super::*;
use crate::base::widths::Widths;
use crate::engine::deltas::fold::{CHAIN_BYTES_EACH, CHAIN_OPERANDS};
use crate::{Deltas, IndexKind};

/// Operands that a read of a key meets now. Asks for nothing.
pub(super) fn operands_of(keyspace: &Keyspace, key: &str) -> usize {
    let engine = &keyspace.handle.engine;
    engine.look_up(keyspace.state.id, key.as_bytes(), None).unwrap().operands.len()
}

/// No flush but those that a test asks for.
fn roomy() -> Widths {
    Widths { bucket_bytes: 64 << 10, memtable_bytes: 64 << 20, ..buckets() }
}

fn open(disk: &MemoryDisk) -> Db {
    try_open(world(disk), small(), roomy()).unwrap()
}

fn long(number: u64) -> String {
    format!("{number}").repeat(66 << 10)
}

/// A store that was closed when a key with a long operand in the index was about to be folded.
fn cut_off(disk: &MemoryDisk) -> Db {
    let db = open(disk);
    let keyspace = lists(&db);
    keyspace.put("a", "base").unwrap();
    db.flush().unwrap();
    keyspace.merge("a", long(1)).unwrap();
    keyspace.merge("b", "0").unwrap();
    // Nobody runs what is queued behind the flush.
    db.flush().unwrap();
    assert_eq!(operands_of(&keyspace, "a"), 1, "it was folded at once");
    drop(keyspace);
    db.close().unwrap();
    let db = open(disk);
    db.wait_idle().unwrap();
    assert_eq!(operands_of(&lists(&db), "a"), 1, "an opening reads nothing");
    db
}

fn assert_folded(db: &Db) {
    db.wait_idle().unwrap();
    let keyspace = lists(db);
    assert_eq!(operands_of(&keyspace, "a"), 0);
    let wanted = format!("base,{}", long(1));
    assert_eq!(keyspace.get("a").unwrap().unwrap(), wanted.as_bytes());
    db.compact().unwrap();
    assert_eq!(entries(db), 1, "nothing but the value is left");
    assert_eq!(keyspace.get("a").unwrap().unwrap(), wanted.as_bytes());
    assert_sound(db);
}

#[test]
fn what_a_close_left_unfolded_is_folded_when_a_read_meets_it() {
    type Read = fn(&Keyspace);
    let reads: [Read; 2] = [
        |keyspace| drop(keyspace.get("a").unwrap()),
        |keyspace| drop(keyspace.multi_get(["b", "a"]).unwrap()),
    ];
    for read in reads {
        let disk = MemoryDisk::new();
        let db = cut_off(&disk);
        // What a snapshot sees is not what is there now, for all that is known.
        let snapshot = db.snapshot();
        snapshot.get(&lists(&db), "a").unwrap().unwrap();
        drop(snapshot);
        db.wait_idle().unwrap();
        assert_eq!(operands_of(&lists(&db), "a"), 1);
        read(&lists(&db));
        assert_folded(&db);
    }
}

#[test]
fn what_a_close_left_unfolded_is_folded_when_a_compaction_meets_it() {
    for kind in [IndexKind::Lsm, IndexKind::Naive] {
        let disk = MemoryDisk::new();
        let list = |db: &Db| db.keyspace("list", listing().index(kind)).unwrap();
        let db = open(&disk);
        let keyspace = list(&db);
        keyspace.merge("a", long(1)).unwrap();
        db.flush().unwrap();
        drop(keyspace);
        db.close().unwrap();
        let db = open(&disk);
        let keyspace = list(&db);
        db.wait_idle().unwrap();
        assert_eq!(operands_of(&keyspace, "a"), 1);
        // Of an index alone: its buckets are not collected.
        for round in 0..12_u64 {
            keyspace.put(format!("z {round}"), "z").unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        assert_eq!(operands_of(&keyspace, "a"), 0, "{kind:?}");
        assert_eq!(keyspace.get("a").unwrap().unwrap(), long(1).as_bytes());
        assert_sound(&db);
    }
}

#[test]
fn what_a_close_left_unfolded_is_folded_when_its_bucket_is_collected() {
    let disk = MemoryDisk::new();
    let db = cut_off(&disk);
    let keyspace = lists(&db);
    let is_asked = || keyspace.handle.engine.deltas.is_fold_due();
    // Until the bucket of all has no room; no key has much, and no compaction comes before.
    for _ in 0..8 {
        (0..300).for_each(|n| keyspace.merge(format!("c {n:03}"), "m".repeat(50)).unwrap());
        db.flush().unwrap();
        if is_asked() {
            break;
        }
    }
    assert!(is_asked());
    db.wait_idle().unwrap();
    assert_eq!(operands_of(&keyspace, "a"), 0);
    assert_sound(&db);
}

/// A store in whose memtable a key has so many operands.
fn chained(deltas: Deltas, operands: usize, base: usize) -> (Db, Keyspace) {
    let db = try_open(world(&MemoryDisk::new()), small(), roomy()).unwrap();
    let options = listing().deltas(deltas).separate_at(None);
    let keyspace = db.keyspace("lists", options).unwrap();
    keyspace.put("k", "b".repeat(base)).unwrap();
    (0..operands).for_each(|_| keyspace.merge("k", "m").unwrap());
    (db, keyspace)
}

#[test]
fn a_read_of_now_that_applies_many_operands_has_them_put_as_a_value() {
    type Read = fn(&Db, &Keyspace);
    let reads: [(&str, Read); 5] = [
        ("get", |_, keyspace| drop(keyspace.get("k").unwrap())),
        ("multi_get", |_, keyspace| drop(keyspace.multi_get(["k", "x"]).unwrap())),
        ("scan", |_, keyspace| assert_eq!(keyspace.iter().count(), 1)),
        ("scan back", |_, keyspace| assert_eq!(keyspace.iter().rev().count(), 1)),
        ("range", |_, keyspace| assert_eq!(keyspace.range("a".."z").count(), 1)),
    ];
    for deltas in [Deltas::Buckets, Deltas::Inline] {
        for (name, read) in reads {
            let (db, keyspace) = chained(deltas, CHAIN_OPERANDS, 1);
            let seq = db.stats().last_seq;
            read(&db, &keyspace);
            assert_eq!(db.stats().last_seq, seq, "{name}: not in the reader's own time");
            db.wait_idle().unwrap();
            assert_eq!(operands_of(&keyspace, "k"), 0, "{name}, {deltas:?}");
            assert_eq!(db.stats().last_seq, seq + 1, "{name}: one put");
            let value = keyspace.get("k").unwrap().unwrap();
            assert_eq!(value.len(), 1 + 2 * CHAIN_OPERANDS);
            db.flush().unwrap();
            assert_eq!(keyspace.get("k").unwrap().unwrap(), value);
            assert_sound(&db);
        }
    }
}

#[test]
fn neither_few_operands_nor_those_on_a_long_value_nor_those_of_a_snapshot_are_put_as_a_value() {
    let is_left = |(db, keyspace): (Db, Keyspace), read: &dyn Fn(&Db, &Keyspace)| {
        let before = operands_of(&keyspace, "k");
        assert!(before > 0);
        read(&db, &keyspace);
        db.wait_idle().unwrap();
        assert_eq!(operands_of(&keyspace, "k"), before);
    };
    let all = |_: &Db, keyspace: &Keyspace| {
        keyspace.get("k").unwrap().unwrap();
        keyspace.multi_get(["k"]).unwrap();
        assert_eq!(keyspace.iter().count(), 1);
    };
    is_left(chained(Deltas::Buckets, CHAIN_OPERANDS - 1, 1), &all);
    let bytes = CHAIN_OPERANDS * CHAIN_BYTES_EACH;
    is_left(chained(Deltas::Buckets, CHAIN_OPERANDS, bytes), &all);
    is_left(chained(Deltas::Buckets, CHAIN_OPERANDS, 1), &|db, keyspace| {
        let snapshot = db.snapshot();
        snapshot.get(keyspace, "k").unwrap().unwrap();
        assert_eq!(snapshot.range::<&str>(keyspace, ..).count(), 1);
    });
}

#[test]
fn a_chain_that_grows_meanwhile_loses_nothing_and_is_put_at_the_next_read() {
    let (db, keyspace) = chained(Deltas::Buckets, CHAIN_OPERANDS, 1);
    keyspace.get("k").unwrap().unwrap();
    keyspace.merge("k", "n").unwrap();
    let snapshot = db.snapshot();
    db.wait_idle().unwrap();
    assert_eq!(operands_of(&keyspace, "k"), 0);
    keyspace.merge("k", "o").unwrap();
    let wanted = format!("b{},n", ",m".repeat(CHAIN_OPERANDS));
    assert_eq!(snapshot.get(&keyspace, "k").unwrap().unwrap(), wanted.as_bytes());
    assert_eq!(keyspace.get("k").unwrap().unwrap(), format!("{wanted},o").as_bytes());
    db.compact().unwrap();
    assert_eq!(snapshot.get(&keyspace, "k").unwrap().unwrap(), wanted.as_bytes());
    assert_eq!(keyspace.get("k").unwrap().unwrap(), format!("{wanted},o").as_bytes());
    assert_sound(&db);
}

#[test]
fn a_store_that_is_only_read_is_asked_for_nothing() {
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), small(), widths()).unwrap();
    let keyspace = lists(&db);
    (0..CHAIN_OPERANDS).for_each(|_| keyspace.merge("k", "m").unwrap());
    drop(keyspace);
    db.close().unwrap();
    let db = try_open(world(&disk), small().read_only(true), widths()).unwrap();
    let keyspace = lists(&db);
    keyspace.get("k").unwrap().unwrap();
    assert!(!keyspace.handle.engine.deltas.is_fold_due());
}
