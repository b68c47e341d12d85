//! Which keys are taken for hot ones.

use super::HotKeys;
use crate::base::entry::KeyspaceId;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

#[test]
fn a_key_that_was_wanted_is_hot_once() {
    let keys = HotKeys::new(1 << 20);
    keys.note(KEYSPACE, &key(1));
    keys.note(KEYSPACE, &key(1));
    assert!(!keys.take(KEYSPACE, &key(2)));
    assert!(!keys.take(KeyspaceId(2), &key(1)), "the same key elsewhere");
    assert!(keys.take(KEYSPACE, &key(1)));
    assert!(!keys.take(KEYSPACE, &key(1)), "nobody wanted what was written since");
}

#[test]
fn most_keys_of_as_many_as_the_cache_could_keep_are_remembered() {
    let keys = HotKeys::new(1 << 20);
    (0..512).for_each(|number| keys.note(KEYSPACE, &key(number)));
    let hot = (0..512).filter(|number| keys.take(KEYSPACE, &key(*number))).count();
    assert!((350..=512).contains(&hot), "{hot}");
    let wrong = (1000..5000).filter(|number| keys.take(KEYSPACE, &key(*number))).count();
    assert_eq!(wrong, 0);
}

#[test]
fn memory_is_a_small_part_of_the_cache_and_none_of_no_cache() {
    for (cache_bytes, bytes_max) in [(0, 0), (1023, 0), (1 << 20, 4096), (u64::MAX, 16 << 20)] {
        let keys = HotKeys::new(cache_bytes);
        assert_eq!(keys.memory_bytes(), bytes_max);
        keys.note(KEYSPACE, b"key");
        assert_eq!(keys.take(KEYSPACE, b"key"), bytes_max > 0);
    }
}
