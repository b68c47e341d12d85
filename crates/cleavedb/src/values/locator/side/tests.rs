//! Exactness and bounds of the side map.

use super::*;
use crate::base::entry::FileId;

fn key(keyspace: u32, key: &[u8], hash: u64) -> LocatorKey<'_> {
    LocatorKey { keyspace: KeyspaceId(keyspace), key, hash }
}

fn place(offset: u64) -> Place {
    Place::of(FileId(3), offset, 100).unwrap()
}

#[test]
fn only_the_very_key_is_found() {
    let mut side = Side::default();
    assert!(side.insert(&key(1, b"a", 7), place(0), 1000));
    assert_eq!(side.get(&key(1, b"a", 7)), Some(place(0)));
    assert_eq!(side.get(&key(2, b"a", 7)), None, "another keyspace");
    assert_eq!(side.get(&key(1, b"b", 7)), None, "another key of that hash");
    side.set(&key(1, b"b", 7), None);
    assert_eq!(side.get(&key(1, b"a", 7)), Some(place(0)), "another key is taken out");
    side.set(&key(1, b"a", 7), Some(place(32)));
    assert_eq!(side.get(&key(1, b"a", 7)), Some(place(32)));
    side.set(&key(1, b"a", 7), None);
    assert_eq!((side.len(), side.bytes()), (0, 0));
}

#[test]
fn the_first_goes_first_and_bytes_stay_within_the_budget() {
    let mut side = Side::default();
    let room = 4 * (OVERHEAD_BYTES + 1);
    for hash in 0..1000 {
        assert!(side.insert(&key(1, b"k", hash), place(hash * 16), room));
        side.set(&key(1, b"k", hash.wrapping_sub(2)), None);
        assert!(side.bytes() <= room && side.order.len() <= 2 * side.len() + 17);
    }
    assert_eq!(side.len(), 2);
    assert_eq!(side.evicted(), 0);
    for hash in 1000..1006 {
        side.insert(&key(1, b"k", hash), place(0), room);
    }
    assert_eq!((side.len(), side.evicted()), (4, 4));
    assert!(side.get(&key(1, b"k", 1001)).is_none() && side.get(&key(1, b"k", 1002)).is_some());
    assert!(!side.insert(&key(1, &[0; 400], 1), place(0), room), "longer than the budget");
    side.clear();
    assert_eq!((side.len(), side.bytes()), (0, 0));
}
