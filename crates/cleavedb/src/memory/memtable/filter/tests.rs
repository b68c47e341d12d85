//! What was taken in passes, and little else does.

use super::*;

const KEYSPACE: KeyspaceId = KeyspaceId(7);

fn keys(from: u64, count: u64) -> impl Iterator<Item = [u8; 8]> {
    (from..from + count).map(u64::to_be_bytes)
}

#[test]
fn what_was_taken_in_passes_and_one_percent_of_the_rest() {
    // Few, where an interpreter runs it.
    let (memtable_bytes, part) = if cfg!(miri) { (32 << 10, 20) } else { (4 << 20, 75) };
    // What stands in a memtable of entries without values.
    let count = memtable_bytes / 100;
    let filter = Filter::new(memtable_bytes);
    assert_eq!(filter.memory_bytes() as u64, memtable_bytes / MEMTABLE_BYTES_BY_FILTER);
    assert!(keys(0, count).all(|key| !filter.may_hold(KEYSPACE, &key)), "something in nothing");
    keys(0, count).for_each(|key| filter.add(KEYSPACE, &key));
    assert!(keys(0, count).all(|key| filter.may_hold(KEYSPACE, &key)));
    let passes =
        |keyspace| keys(count, count).filter(|key| filter.may_hold(keyspace, key)).count() as u64;
    assert!(passes(KEYSPACE) <= count / part, "{} of {count}", passes(KEYSPACE));
    // The same keys of another keyspace are other keys.
    let other = keys(0, count).filter(|key| filter.may_hold(KeyspaceId(8), key)).count() as u64;
    assert!(other <= count / part, "{other} of {count}");
}

#[test]
fn a_word_is_enough_for_the_smallest_and_all_words_are_used() {
    let one = Filter::new(0);
    assert_eq!(one.memory_bytes(), 8);
    one.add(KEYSPACE, b"");
    assert!(one.may_hold(KEYSPACE, b""));
    let few = Filter::new(MEMTABLE_BYTES_BY_FILTER * 8 * 3);
    keys(0, 1000).for_each(|key| few.add(KEYSPACE, &key));
    assert_eq!(few.0.len(), 3);
    assert!(few.0.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX));
}

#[test]
fn threads_that_share_words_lose_no_key() {
    let filter = Filter::new(MEMTABLE_BYTES_BY_FILTER * 8 * 64);
    let count = if cfg!(miri) { 20 } else { 500 };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let filter = &filter;
            scope.spawn(move || {
                for key in keys(thread * 10_000, count) {
                    filter.add(KEYSPACE, &key);
                    assert!(filter.may_hold(KEYSPACE, &key));
                }
            });
        }
    });
    assert!((0..4).all(|t| keys(t * 10_000, count).all(|key| filter.may_hold(KEYSPACE, &key))));
}
