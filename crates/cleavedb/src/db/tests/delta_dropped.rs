//! What buckets have of keyspaces that are dropped, and of ranges that are deleted.

use super::collection::assert_sound;
use super::deltas::{buckets, key, open};
use super::novkv::{files_of, try_open};
use super::*;
use crate::Deltas;

fn lists(db: &Db, name: &str) -> Keyspace {
    let options = KeyspaceOptions::new().merge_operator("append:,").deltas(Deltas::Buckets);
    db.keyspace(name, options.separate_at(Some(100))).unwrap()
}

/// A keyspace of a bucket or two, one of very many behind it, and one that stays.
fn filled(db: &Db) {
    for (name, keys) in [("few", 20), ("many", 700), ("stays", 20)] {
        let keyspace = lists(db, name);
        for round in 0..6 {
            (0..keys).for_each(|number| keyspace.merge(key(number), format!("{round}")).unwrap());
            db.flush().unwrap();
        }
    }
    db.wait_idle().unwrap();
}

fn assert_only_the_last_is_left(db: &Db, disk: &MemoryDisk) {
    db.wait_idle().unwrap();
    assert_eq!(lists(db, "stays").get(key(7)).unwrap().unwrap(), b"0,1,2,3,4,5");
    assert!(files_of(disk, "dlt").len() <= 3, "{:?}", files_of(disk, "dlt"));
    assert_sound(db);
}

#[test]
fn keyspaces_that_share_a_bucket_are_dropped_at_once() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    filled(&db);
    assert!(files_of(&disk, "dlt").len() > 20, "{:?}", files_of(&disk, "dlt"));
    // The bucket in which one ends and the other begins is met twice, and by the time there are
    // as many as one step takes.
    db.drop_keyspace("few").unwrap();
    db.drop_keyspace("many").unwrap();
    assert_only_the_last_is_left(&db, &disk);
    db.close().unwrap();
    assert_only_the_last_is_left(&open(&disk), &disk);
}

#[test]
fn an_opening_goes_on_with_what_was_dropped() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    filled(&db);
    db.drop_keyspace("few").unwrap();
    db.drop_keyspace("many").unwrap();
    // Nothing ran since.
    let image = disk.crash_image(crate::io::memory_disk::CrashMode::All, 0);
    drop(db);
    let db = try_open(world(&image), small(), buckets()).unwrap();
    assert_only_the_last_is_left(&db, &image);
}

#[test]
fn who_still_holds_a_dropped_keyspace_keeps_no_buckets_of_others() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    filled(&db);
    let gone = lists(&db, "few");
    let mut begun = gone.iter();
    begun.next().unwrap().unwrap();
    db.drop_keyspace("few").unwrap();
    db.drop_keyspace("many").unwrap();
    db.wait_idle().unwrap();
    // What was begun before goes on; the handle alone keeps nothing.
    assert_eq!(pairs(begun).len(), 19);
    let stays = lists(&db, "stays");
    for round in 6..20 {
        (0..20).for_each(|number| stays.merge(key(number), format!("{round}")).unwrap());
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    assert!(files_of(&disk, "dlt").len() <= 4, "{:?}", files_of(&disk, "dlt"));
    assert_eq!(gone.get(key(1)).unwrap_err().kind(), crate::ErrorKind::Closed);
}

#[test]
fn ranges_that_are_deleted_again_and_again_take_no_room() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    filled(&db);
    let many = lists(&db, "many");
    let snapshot = db.snapshot();
    let before: u64 = bytes_of_buckets(&disk);
    // Each end lies beyond the longest key: 64 KiB, in each of many buckets.
    for round in 0..40 {
        many.delete_range::<&[u8]>(..).unwrap();
        many.merge(key(round), "again").unwrap();
        if round % 8 == 7 {
            db.flush().unwrap();
        }
    }
    db.wait_idle().unwrap();
    let grown = bytes_of_buckets(&disk).saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes for the ranges");
    assert_eq!(snapshot.get(&many, key(600)).unwrap().unwrap(), b"0,1,2,3,4,5");
    assert!(many.get(key(600)).unwrap().is_none());
    assert_eq!(many.iter().count(), 1, "the last round's");
    assert_sound(&db);
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(many.iter().count(), 1);
    assert_eq!(many.get(key(39)).unwrap().unwrap(), b"again");
}

fn bytes_of_buckets(disk: &MemoryDisk) -> u64 {
    let is_bucket = |path: &std::path::Path| path.extension().is_some_and(|end| end == "dlt");
    disk.files().iter().filter(|(path, _)| is_bucket(path)).map(|(_, bytes)| bytes).sum()
}
