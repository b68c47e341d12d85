//! Filters of intervals: no key denied that is there, few others let through, and where keys are.

use super::*;
use crate::base::checksum::key_hash;

/// Bytes of each record.
const BYTES: u64 = 100;

fn hashes(count: usize, of: &str) -> Vec<u64> {
    (0..count).map(|number| key_hash(format!("{of}{number}").as_bytes())).collect()
}

fn filter_of(hashes: &[u64]) -> KeyFilter {
    let fingerprints: Vec<u16> = hashes.iter().map(|hash| fingerprint(*hash)).collect();
    KeyFilter::of((0..).map(|number| number * BYTES), &fingerprints)
}

#[test]
fn no_key_is_denied_that_is_there() {
    for count in [0, 1, 4, 5, 6, 7, 40, 300] {
        let keys = hashes(count, "key");
        let filter = filter_of(&keys);
        assert!(!filter.can_learn(0));
        for (number, key) in keys.iter().enumerate() {
            assert!(!filter.lacks(*key), "{count} keys");
            let places = filter.places(*key, count as u64 * BYTES);
            let place = number as u64 * BYTES..(number as u64 + 1) * BYTES;
            let holds = |it: &Range<u64>| it.start <= place.start && place.end <= it.end;
            assert!(places.iter().any(holds), "{count} keys: {number} in {places:?}");
        }
    }
}

#[test]
fn one_in_fifty_others_is_let_through() {
    let others = hashes(20_000, "other");
    for (count, share) in [(1, 500), (10, 100), (30, 40), (45, 25)] {
        let filter = filter_of(&hashes(count, "key"));
        let let_through = others.iter().filter(|other| !filter.lacks(**other)).count();
        assert!(let_through < others.len() / share, "{count} keys: {let_through}");
    }
    let nothing = filter_of(&[]);
    assert!(others.iter().all(|other| nothing.lacks(*other)));
    assert!(others.iter().all(|other| nothing.places(*other, 0).is_empty()));
}

/// Mostly a part alone, and neighbours as one.
#[test]
fn what_is_to_be_read_is_little() {
    let keys = hashes(30, "key");
    let filter = filter_of(&keys);
    let places = keys.iter().map(|key| filter.places(*key, 30 * BYTES));
    let bytes = places.flatten().map(|place| place.end - place.start).sum::<u64>();
    assert!(bytes < 30 * 600, "{bytes}");
    let twice = [vec![keys[0]; 8], keys[1..9].to_vec()].concat();
    assert_eq!(filter_of(&twice).places(keys[0], 16 * BYTES)[0].start, 0);
    assert!(filter_of(&twice).places(keys[0], 16 * BYTES)[0].end >= 10 * BYTES);
}

#[test]
fn what_is_not_known_denies_nothing_and_what_is_known_stays() {
    let filter = KeyFilter::default();
    let keys = hashes(9, "key");
    assert!(filter.can_learn(900) && keys.iter().all(|key| !filter.lacks(*key)));
    assert!(!filter.can_learn(70_000), "nothing to be had from it");
    assert_eq!(filter.places(keys[0], 900), std::iter::once(0..900).collect::<Vec<_>>());
    let fingerprints: Vec<u16> = keys.iter().map(|key| fingerprint(*key)).collect();
    filter.learn(filter_of(&keys));
    filter.learn(filter_of(&[]));
    assert!(!filter.can_learn(900) && keys.iter().all(|key| !filter.lacks(*key)));
    assert!(hashes(9, "other").iter().any(|other| filter.lacks(*other)));
    // The records of one key may be longer than a part can tell.
    let long = KeyFilter::of((0..9).map(|number| number * 20_000), &fingerprints);
    assert!(long.can_learn(0));
}

#[test]
fn sixteen_bits_a_key_are_held() {
    let bytes = |count| filter_of(&hashes(count, "key")).memory_bytes();
    assert_eq!((bytes(1), bytes(5), bytes(30), bytes(100)), (34, 34, 84, 224));
    assert_eq!(KeyFilter::default().memory_bytes(), bytes(30));
}
