//! Which keys have their operands applied for good, and who finds them after a close that cut
//! folds off.

use super::collection::assert_sound;
use super::deltas::{buckets, entries, lists};
use super::novkv::try_open;
use super::*;
use crate::base::widths::Widths;
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
        let list = |db: &Db| {
            let options = KeyspaceOptions::new().merge_operator("append:,").index(kind);
            db.keyspace("list", options.deltas(Deltas::Buckets)).unwrap()
        };
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
    // Until the bucket of both has no room.
    for _ in 0..4 {
        keyspace.merge("b", "m".repeat(30 << 10)).unwrap();
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    assert_eq!(operands_of(&keyspace, "a"), 0);
    assert_sound(&db);
}
