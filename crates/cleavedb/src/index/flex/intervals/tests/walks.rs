//! Walks begin with as many intervals as walks usually take, and end at what they were told.

use super::*;
use crate::index::CursorOptions;

/// Takes so many pairs from a key on, of which nothing is in the cache; how often that read.
fn walk(world: &World, index: &FlexIndex, from: u32, pairs: u32) -> u64 {
    fill(index);
    let before = world.io.meter.read_calls(Purpose::Read);
    let options =
        CursorOptions { range: KeyRange::default(), purpose: Purpose::Read, fill_cache: true };
    let mut cursor = index.view().cursor(&options).unwrap();
    cursor.seek(keys(from..from + 1)[0].as_bytes(), SEQ_MAX).unwrap();
    for (number, key) in keys(from..from + pairs).iter().enumerate() {
        if number > 0 {
            cursor.next().unwrap();
        }
        assert_eq!(cursor.key(), key.as_bytes());
    }
    world.io.meter.read_calls(Purpose::Read) - before
}

#[test]
fn a_walk_begins_with_what_walks_usually_take() {
    let (world, index) = of_records(600, &TINY);
    // Opens the file.
    walk(&world, &index, 500, 1);
    index.shared.gathering.usual_walk.forget();
    let first = walk(&world, &index, 20, 40);
    for number in 0..20 {
        walk(&world, &index, number * 20, 40);
    }
    let usual = walk(&world, &index, 33, 40);
    assert!(first >= 3, "one interval, then more and more: {first} reads");
    assert_eq!(usual, 1, "what stands together is one read");
}

#[test]
fn where_walks_are_short_nothing_is_read_ahead() {
    let (world, index) = of_records(600, &TINY);
    for number in 0..20 {
        walk(&world, &index, number * 20, 1);
    }
    let cached = |from: u32| {
        let view = index.shared.current();
        let found = view.source.anchors.find(keys(from..from + 1)[0].as_bytes()).unwrap();
        let next = view.source.anchors.get(found.group, found.number + 1).unwrap();
        let peek = |stamp| index.shared.cache.peek(stamp).is_some();
        (peek(found.interval.stamp), peek(next.interval.stamp))
    };
    assert_eq!(walk(&world, &index, 301, 1), 1);
    assert_eq!(cached(301), (true, false));
}
