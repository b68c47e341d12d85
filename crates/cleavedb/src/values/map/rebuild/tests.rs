//! What a rebuild takes, what it refuses, and that it loads nothing incomplete.

use super::*;
use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId};
use crate::values::locator::Generation;
use crate::values::map::place::Snapshots;
use crate::values::map::{Answer, Flushed, Settings};

fn place(container: u64, number: u64) -> Place {
    let container = FileId(container);
    Place { container, file: container, offset: 100 + number * 1040, bytes: 1000 }
}

fn map() -> Map {
    let settings = Settings { shard_bits: 1, ..Settings::for_budget(1 << 24) };
    Map::restored(settings, KeyedHash::new(b"a map of a test."), Generation(3))
}

fn with_key<T>(map: &Map, number: u64, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
    let (keyspace, name) = (KeyspaceId(1), number.to_be_bytes());
    run(&LocatorKey { keyspace, key: &name, hash: map.hashing.of(keyspace, &name) })
}

#[test]
fn every_expected_key_gets_the_place_of_its_very_seq() {
    let map = map();
    let rebuild = Rebuild::new(&map);
    let expect = |number: u64| with_key(&map, number, |key| rebuild.expect(key, number * 10 + 5));
    let offer = |number: u64, seq, place| {
        with_key(&map, number, |key| rebuild.insert_exact(key.hash, seq, place))
    };
    (0..1000).for_each(expect);
    for number in 0..1000 {
        assert!(!offer(number, number * 10 + 4, place(1, number)), "superseded");
        assert!(!offer(number, number * 10 + 6, place(1, number)), "never flushed");
        assert!(!offer(number + 5000, number * 10 + 5, place(1, number)), "another key's");
    }
    assert!((0..2).all(|shard| rebuild.load_shard(&map, shard).is_err()), "nothing was found");
    for number in 0..1000 {
        assert!(offer(number, number * 10 + 5, place(2, number)));
        assert!(!offer(number, number * 10 + 5, place(1, number)), "an older copy");
        assert!(number % 2 == 0 || offer(number, number * 10 + 5, place(7, number)));
    }
    // Touched before it is loaded: what is newer stands, what is older goes to the chains.
    let mut touches = map.begin_flush(Snapshots::new(vec![10_000]));
    let new = Flushed { seq: 10_001, place: Some(place(9, 9)) };
    let _ = with_key(&map, 0, |key| touches.touch(key, &[new], &mut Vec::new()));
    touches.publish(Generation(4));
    assert!((0..2).all(|shard| rebuild.load_shard(&map, shard).unwrap()));
    assert!(!rebuild.load_shard(&map, 0).unwrap(), "loaded already");
    assert_eq!((map.figures().keys, map.figures().waiting), (1000, 0));
    for number in 0..1000 {
        let place = place(if number % 2 == 0 { 2 } else { 7 }, number);
        let wanted = Answer::Found(Version { seq: number * 10 + 5, place });
        assert_eq!(with_key(&map, number, |key| map.lookup(key, 10_000)), wanted);
    }
    let newest = with_key(&map, 0, |key| map.lookup(key, 10_001));
    assert_eq!(newest, Answer::Found(Version { seq: 10_001, place: new.place.unwrap() }));
}

#[test]
fn one_key_without_its_record_keeps_its_shard_waiting() {
    let map = map();
    let rebuild = Rebuild::new(&map);
    with_key(&map, 4, |key| {
        rebuild.expect(key, 9);
        let number = map.hashing.shard(key.hash);
        assert!(rebuild.load_shard(&map, number).is_err());
        assert!(rebuild.load_shard(&map, 1 - number).unwrap(), "the other one has no keys");
        assert_eq!(map.lookup(key, 9), Answer::Waiting);
        assert!(rebuild.insert_exact(key.hash, 9, place(1, 1)));
        assert!(rebuild.load_shard(&map, number).unwrap());
        assert_eq!(map.lookup(key, 9), Answer::Found(Version { seq: 9, place: place(1, 1) }));
    });
    assert!(!map.is_waiting());
    assert!(rebuild.load_shard(&map, 2).is_ok_and(|loaded| !loaded), "there is none");
}

#[test]
fn what_the_log_supersedes_is_not_missed() {
    let map = map();
    let rebuild = Rebuild::new(&map);
    for number in 0..4 {
        with_key(&map, number, |key| rebuild.expect(key, 9 + number));
    }
    let found = with_key(&map, 1, |key| rebuild.insert_exact(key.hash, 10, place(1, 1)));
    assert!(found);
    with_key(&map, 3, |key| assert!(rebuild.insert_exact(key.hash, 12, place(1, 3))));
    for number in [0, 1, 2, 8] {
        with_key(&map, number, |key| rebuild.shadow(key));
    }
    assert!((0..2).all(|shard| rebuild.load_shard(&map, shard).unwrap()));
    assert_eq!(map.figures().keys, 1);
    let found = with_key(&map, 3, |key| map.lookup(key, 99));
    assert_eq!(found, Answer::Found(Version { seq: 12, place: place(1, 3) }));
}
