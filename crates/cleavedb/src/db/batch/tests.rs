//! Batches: refusals, and which operations only free space.

use super::*;

#[test]
fn the_first_refusal_is_reported_and_nothing_is_left() {
    let mut operations = Operations::new();
    operations.add(Kind::Put, KeyspaceId(1), b"k", b"v");
    operations.add(Kind::Put, KeyspaceId(1), &vec![0; KEY_BYTES_MAX + 1], b"v");
    operations.refuse(Error::invalid("second"));
    let error = operations.take(Durability::Buffered).err().unwrap();
    assert!(error.message().contains("65536"), "{error}");
    assert_eq!(operations.take(Durability::Buffered).unwrap().count, 0);
}

#[test]
fn only_deletes_free_space() {
    let mut operations = Operations::new();
    operations.add(Kind::Delete, KeyspaceId(1), b"k", b"");
    operations.add_range(KeyspaceId(1), KeyRange::default());
    assert!(operations.take(Durability::Sync).unwrap().frees_space);
    operations.add(Kind::Delete, KeyspaceId(1), b"k", b"");
    operations.add(Kind::Merge, KeyspaceId(1), b"k", b"1");
    let work = operations.take(Durability::Sync).unwrap();
    assert!(!work.frees_space && work.sync);
}
