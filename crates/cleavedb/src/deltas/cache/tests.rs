//! What the cache answers, and when it must not.

use super::*;
use crate::base::merge_operator::operators;
use crate::deltas::testing::{Bench, Line, anchor, delta, lowest, range, seen};
use crate::io::Purpose;

fn append() -> SharedOperator {
    operators::by_name(operators::APPEND).unwrap()
}

#[test]
fn a_key_is_read_once_and_kept_combined_until_something_new_may_concern_it() {
    let bench = Bench::new();
    let (cache, operator) = (DeltaCache::new(1 << 20), append());
    let lines: [Line; 2] =
        [(b"a", vec![delta(5, b"y"), delta(3, b"x")]), (b"b", vec![delta(4, b"q")])];
    let first = bench.write(Bench::plan(1, lowest(), 9), &lines).unwrap();
    let get = |bucket: &Bucket, key: &[u8], snapshot| {
        let asked = bench.asked(key, snapshot);
        seen(&cache.get(bucket, &asked, Some(&operator), Purpose::Read).unwrap())
    };
    // A snapshot below the applied seq might miss something: nothing is kept.
    assert_eq!(get(&first, b"a", 4), (vec![(3, b"x".to_vec())], 0));
    assert_eq!(cache.memory_bytes(), 0);
    let both = (vec![(5, b"xy".to_vec())], 0);
    let calls = || bench.context.io.meter.read_calls(Purpose::Read);
    assert_eq!(get(&first, b"a", 9), both);
    let before = calls();
    assert_eq!(get(&first, b"a", 9), both);
    assert_eq!(get(&first, b"a", 5), both, "nothing is above that");
    // Known to be empty.
    assert_eq!(get(&first, b"c", 9), (vec![], 0));
    assert_eq!(get(&first, b"c", 9), (vec![], 0));
    assert_eq!((calls(), cache.counts()), (before, (3, 3)));
    assert_eq!(get(&first, b"a", 4).0, [(3, b"x".to_vec())], "an older snapshot reads");
    // A chunk of other keys changes nothing, one of the key does.
    let second = bench.append(&first, &[(b"b", vec![delta(12, b"r")])], &[]).unwrap();
    let before = calls();
    assert_eq!(get(&second, b"a", 20), both);
    assert_eq!(calls(), before);
    let third = bench.append(&second, &[(b"a", vec![delta(15, b"z"), anchor(14)])], &[]).unwrap();
    assert_eq!(get(&third, b"a", 20), (vec![(15, b"z".to_vec())], 14));
    // A view from before must not see what its memtable still has.
    assert_eq!(get(&second, b"a", 20), both);
    assert_eq!(get(&third, b"a", 20), (vec![(15, b"z".to_vec())], 14));
    // Nor may a range anchor be missed, or records of a rewritten bucket.
    let fourth = bench.append(&third, &[], &[range(b"a", b"b", 30)]).unwrap();
    assert_eq!(get(&fourth, b"a", 40), (vec![], 30));
    let lines: [Line; 1] = [(b"a", vec![delta(50, b"new")])];
    let fifth = bench.write(Bench::plan(2, lowest(), 50), &lines).unwrap();
    assert_eq!(get(&fifth, b"a", 60), (vec![(50, b"new".to_vec())], 0));
}

#[test]
fn memory_is_bounded() {
    let bench = Bench::new();
    let (cache, operator) = (DeltaCache::new(20_000), append());
    let lines: [Line; 1] = [(b"a", vec![delta(5, b"y")])];
    let bucket = bench.write(Bench::plan(1, lowest(), 9), &lines).unwrap();
    for number in 0..2000 {
        let key = format!("key {number}");
        let asked = bench.asked(key.as_bytes(), 9);
        cache.get(&bucket, &asked, Some(&operator), Purpose::Read).unwrap();
        assert!(cache.memory_bytes() <= 20_000);
    }
    assert!(cache.memory_bytes() > 10_000);
}
