//! Keys with more operands than a bucket should hold: how long their buckets become, and that they
//! do not stay so.

use super::appending::{self, Appending};
use super::collection::assert_sound;
use super::delta_folds::operands_of;
use super::deltas::{buckets, entries};
use super::novkv::{files_of, try_open};
use super::*;
use crate::Deltas;
use crate::base::widths::Widths;

/// Bytes of a bucket here.
const CAPACITY: u64 = 4 << 10;

fn open(disk: &MemoryDisk) -> Db {
    let operator = Appending { only_applies: true, ..Appending::default() };
    let options = small().merge_operator(std::sync::Arc::new(operator));
    let widths = Widths { bucket_bytes: CAPACITY, memtable_bytes: 64 << 20, ..buckets() };
    try_open(world(disk), options, widths).unwrap()
}

fn list(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().merge_operator(appending::NAME).separate_at(None);
    db.keyspace("list", options.deltas(Deltas::Buckets)).unwrap()
}

/// Bytes of the longest bucket.
fn longest(disk: &MemoryDisk) -> u64 {
    let paths = files_of(disk, "dlt").into_iter();
    paths.map(|path| disk.contents(&path).len() as u64).max().unwrap_or(0)
}

/// Operands of 40 bytes.
fn merge(keyspace: &Keyspace, text: &mut String, operands: u64) {
    for number in 0..operands {
        let operand = format!("{number:040}");
        keyspace.merge("k", &operand).unwrap();
        text.push_str(&operand);
    }
}

#[test]
fn a_bucket_of_one_key_has_a_bound_whatever_snapshots_keep() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = list(&db);
    let (mut text, mut most, mut wanted) = (String::new(), 0, Vec::new());
    for _ in 0..20 {
        merge(&keyspace, &mut text, 45);
        wanted.push((db.snapshot(), text.clone()));
        db.flush().unwrap();
        db.wait_idle().unwrap();
        most = longest(&disk).max(most);
    }
    assert!(most > CAPACITY, "{most} bytes: nothing was too long");
    assert!(most <= 2 * CAPACITY, "{most} bytes in a bucket of {CAPACITY}");
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for (snapshot, text) in &wanted {
        assert_eq!(snapshot.get(&keyspace, "k").unwrap().unwrap(), text.as_bytes());
    }
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
    // While snapshots need what is there, nothing is written for nothing.
    assert!(longest(&disk) > CAPACITY);
    let written = db.stats().bytes_written;
    db.wait_idle().unwrap();
    assert_eq!(db.stats().bytes_written, written);
    drop(wanted);
    db.wait_idle().unwrap();
    let left = longest(&disk);
    assert!(left <= CAPACITY, "{left} bytes though no snapshot needs them");
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
}

#[test]
fn many_operands_of_one_flush_leave_one_mark_in_the_bucket() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = list(&db);
    let mut text = String::new();
    merge(&keyspace, &mut text, 2_000);
    db.flush().unwrap();
    let bytes = longest(&disk);
    assert!(bytes <= CAPACITY, "{bytes} bytes for what went into the index");
    assert!(entries(&db) > 1_900);
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    db.wait_idle().unwrap();
    db.compact().unwrap();
    assert_eq!((entries(&db), operands_of(&keyspace, "k")), (1, 0));
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
}

#[test]
fn a_key_in_the_range_of_one_that_fills_its_bucket_finds_room() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = list(&db);
    let mut text = String::new();
    for _ in 0..3 {
        merge(&keyspace, &mut text, 48);
        db.flush().unwrap();
    }
    assert!(longest(&disk) > CAPACITY);
    let before = entries(&db);
    keyspace.merge("k beside", "n").unwrap();
    db.flush().unwrap();
    assert_eq!(entries(&db), before, "nothing went into the index");
    assert_eq!(keyspace.get("k beside").unwrap().unwrap(), b"n");
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
}

#[test]
fn a_bucket_that_is_too_long_at_an_opening_is_folded() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = list(&db);
    let mut text = String::new();
    for _ in 0..3 {
        merge(&keyspace, &mut text, 48);
        db.flush().unwrap();
    }
    assert!(longest(&disk) > CAPACITY);
    assert_eq!(operands_of(&keyspace, "k"), 3 * 48, "it was folded at once");
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = list(&db);
    db.wait_idle().unwrap();
    assert_eq!(operands_of(&keyspace, "k"), 0);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(longest(&disk) <= CAPACITY, "{} bytes", longest(&disk));
    assert_eq!(keyspace.get("k").unwrap().unwrap(), text.as_bytes());
    assert_sound(&db);
}
