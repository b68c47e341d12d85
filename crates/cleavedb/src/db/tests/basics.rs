//! Reads and writes of every kind, over memtable, tables and reopening.

use super::novkv::try_open;
use super::*;
use crate::base::widths::Widths;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::{Durability, ErrorKind};

#[test]
fn what_is_put_is_there_before_and_after_flush_and_reopen() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    ks.put("a", "1").unwrap();
    ks.put("b", "2").unwrap();
    ks.put("a", "3").unwrap();
    ks.delete("b").unwrap();
    ks.put("", "empty key").unwrap();
    ks.put("empty value", "").unwrap();
    for round in 0..3 {
        assert_eq!(ks.get("a").unwrap().unwrap(), "3", "round {round}");
        assert!(ks.get("b").unwrap().is_none());
        assert_eq!(ks.get("").unwrap().unwrap(), "empty key");
        assert_eq!(ks.get("empty value").unwrap().unwrap(), "");
        assert!(ks.contains("a").unwrap() && !ks.contains("b").unwrap());
        match round {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            _ => {}
        }
    }
    db.close().unwrap();
    assert_eq!(ks.get("a").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(ks.put("a", "x").unwrap_err().kind(), ErrorKind::Closed);
    drop(ks);
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    assert_eq!(pairs(ks.iter()), ["=empty key", "a=3", "empty value="]);
}

#[test]
fn ranges_run_both_ways_and_meet() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    for i in 0..1000 {
        ks.put(format!("k{i:04}"), format!("{i}")).unwrap();
        if i % 300 == 299 {
            db.flush().unwrap();
        }
    }
    ks.delete_range("k0100".."k0900").unwrap();
    ks.put("k0500", "again").unwrap();
    for _ in 0..2 {
        let forward = pairs(ks.range("k0098".."k0902"));
        let expected = ["k0098=98", "k0099=99", "k0500=again", "k0900=900", "k0901=901"];
        assert_eq!(forward, expected);
        let mut backward = pairs(ks.range("k0098".."k0902").rev());
        backward.reverse();
        assert_eq!(backward, expected);
        let mut both = ks.range("k0098".."k0902");
        let mut met = vec![both.next().unwrap(), both.next_back().unwrap(), both.next().unwrap()];
        met.extend(both.next_back());
        met.extend(both.next());
        assert!(both.next().is_none() && both.next_back().is_none());
        assert_eq!(met.len(), 5);
        assert_eq!(ks.prefix("k00").count(), 100);
        assert_eq!(ks.prefix("k00").keys().rev().count(), 100);
        db.compact().unwrap();
    }
    assert_eq!(ks.iter().count(), 201);
}

#[test]
fn merges_fold_in_commit_order_wherever_the_operands_are() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let log = db.keyspace("log", KeyspaceOptions::new().merge_operator("append:,")).unwrap();
    let ks = counters(&db);
    for i in 0..30u64 {
        ks.merge("n", i.to_le_bytes()).unwrap();
        log.merge("l", format!("{i}")).unwrap();
        if i % 10 == 9 {
            db.flush().unwrap();
        }
    }
    let expected: Vec<String> = (0..30).map(|i| i.to_string()).collect();
    for _ in 0..2 {
        assert_eq!(ks.get("n").unwrap().unwrap(), 435u64.to_le_bytes());
        assert_eq!(log.get("l").unwrap().unwrap(), expected.join(","));
        assert_eq!(pairs(log.iter().rev()), [format!("l={}", expected.join(","))]);
        let guard = log.iter().guards().next().unwrap().unwrap();
        assert_eq!(guard.key(), b"l");
        assert_eq!(guard.value().unwrap(), expected.join(","));
        db.compact().unwrap();
    }
    assert_eq!(plain(&db).merge("k", "1").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn snapshots_hold_while_everything_changes() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    ks.put("a", "old").unwrap();
    ks.put("gone", "still here").unwrap();
    let snapshot = db.snapshot();
    ks.put("a", "new").unwrap();
    ks.delete_range::<&str>(..).unwrap();
    ks.put("b", "later").unwrap();
    for _ in 0..3 {
        assert_eq!(snapshot.get(&ks, "a").unwrap().unwrap(), "old");
        assert_eq!(pairs(snapshot.range::<&str>(&ks, ..)), ["a=old", "gone=still here"]);
        assert_eq!(pairs(ks.iter()), ["b=later"]);
        db.flush().unwrap();
        db.compact().unwrap();
    }
    let values = snapshot.multi_get(&ks, ["a", "b", "gone"]).unwrap();
    assert_eq!(values[0].as_deref(), Some(&b"old"[..]));
    assert!(values[1].is_none());
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(ks.iter().count(), 1);
}

#[test]
fn a_batch_spans_keyspaces_and_reports_refusals() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let (ks, other) = (plain(&db), counters(&db));
    let mut batch = db.batch();
    batch.put(&ks, "k", "v").merge(&other, "n", 7u64.to_le_bytes()).delete(&ks, "none");
    assert_eq!(batch.len(), 3);
    batch.commit(Durability::Sync).unwrap();
    assert!(batch.is_empty());
    assert_eq!(ks.get("k").unwrap().unwrap(), "v");
    assert_eq!(other.get("n").unwrap().unwrap(), 7u64.to_le_bytes());
    batch.put(&ks, "x", "y").merge(&ks, "k", "1");
    assert_eq!(batch.commit(Durability::Sync).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(ks.get("x").unwrap().is_none());
}

#[test]
fn compare_and_swap_takes_only_what_it_expects() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    assert!(ks.compare_and_swap("k", None, Some(b"1")).unwrap());
    assert!(!ks.compare_and_swap("k", None, Some(b"2")).unwrap());
    assert!(ks.compare_and_swap("k", Some(b"1"), Some(b"2")).unwrap());
    db.flush().unwrap();
    assert!(!ks.compare_and_swap("k", Some(b"1"), None).unwrap());
    assert!(ks.compare_and_swap("k", Some(b"2"), None).unwrap());
    assert!(ks.get("k").unwrap().is_none());
}

#[test]
fn a_cursor_moves_freely() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    for key in ["b", "d", "f"] {
        ks.put(key, key).unwrap();
        db.flush().unwrap();
    }
    let mut cursor = ks.cursor().unwrap();
    assert!(!cursor.valid() && cursor.key().is_none());
    cursor.seek_for_prev("e").unwrap();
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    cursor.next().unwrap();
    assert_eq!(cursor.value(), Some(&b"f"[..]));
    cursor.prev().unwrap();
    cursor.prev().unwrap();
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    cursor.prev().unwrap();
    assert!(!cursor.valid());
    cursor.seek("c").unwrap();
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    cursor.seek_last().unwrap();
    assert_eq!(cursor.key(), Some(&b"f"[..]));
}

#[test]
fn handles_can_go_anywhere() {
    fn everywhere<T: Send + 'static>() {}
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Db>();
    shared::<Keyspace>();
    shared::<crate::Snapshot>();
    shared::<crate::Value>();
    shared::<crate::Error>();
    everywhere::<crate::RangeIter>();
    everywhere::<crate::KeysIter>();
    everywhere::<crate::GuardsIter>();
    everywhere::<crate::Cursor>();
    everywhere::<crate::Batch>();
}

#[test]
fn a_stopped_database_acknowledges_nothing_not_even_what_changes_nothing() {
    let disk = MemoryDisk::new();
    let faults = FaultDisk::over(&disk);
    let io = Io { disk: Arc::new(faults.clone()), ..world(&disk) };
    let db = try_open(io, small(), Widths::for_budget(1 << 20)).unwrap();
    let ks = plain(&db);
    ks.put("a", "1").unwrap();
    ks.delete_range("b".."b").unwrap();
    db.batch().commit(Durability::Buffered).unwrap();
    let (kind, fault) = (Some(CallKind::Sync), Fault::Eio);
    faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: false }));
    assert_eq!(db.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(faults.triggered(), 1);
    for durability in [Durability::Buffered, Durability::Sync] {
        let mut nothing = db.batch();
        nothing.delete_range(&ks, "b".."b");
        assert_eq!(nothing.commit(durability).unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(db.batch().commit(durability).unwrap_err().kind(), ErrorKind::Stopped);
    }
    assert_eq!(ks.delete_range("b".."b").unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(ks.put("b", "2").unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(ks.get("a").unwrap().unwrap(), "1", "reads go on");
}
