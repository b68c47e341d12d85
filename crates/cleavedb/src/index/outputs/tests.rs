//! The measure of gaps between keys.

use super::*;
use crate::index::table_file::Hull;
use crate::index::testing::world::World;

#[test]
fn gaps_are_wide_by_their_part_of_the_range() {
    let number = |number: u64| number.to_be_bytes();
    let span = KeySpan::new(&number(1_000), &number(1_000 + 16 * 50));
    assert!(!span.is_wide_gap(&number(1_000), &number(1_049)));
    assert!(span.is_wide_gap(&number(1_000), &number(1_050)));
    // Behind the range nothing is measured, but nothing fails either.
    assert!(!span.is_wide_gap(&number(5_000), &number(4_000)));
}

#[test]
fn what_all_keys_begin_with_does_not_count() {
    let span = KeySpan::new(b"user:0001:name", b"user:9999:name");
    assert!(!span.is_wide_gap(b"user:0001:name", b"user:0002:name"));
    assert!(span.is_wide_gap(b"user:0001:name", b"user:5000:name"));
}

#[test]
fn ranges_of_one_key_and_keys_that_end_are_fine() {
    let span = KeySpan::new(b"same", b"same");
    assert!(!span.is_wide_gap(b"same", b"same"));
    let span = KeySpan::new(b"", b"zz");
    assert!(!span.is_wide_gap(b"a", b"a\0"));
    assert!(span.is_wide_gap(b"a", b"q"));
    assert!(!span.is_wide_gap(b"", b""));
}

#[test]
fn nothing_reaches_over_a_table_that_stays() {
    let world = World::new();
    let stays = |smallest: &[u8], largest: &[u8]| Hull {
        smallest: smallest.into(),
        largest: largest.into(),
        exclusive: false,
    };
    let kept = [stays(b"f", b"g"), stays(b"k", b"l"), stays(b"x", b"y")];
    let plan = OutputPlan {
        level: 5,
        purpose: Purpose::Compaction,
        limited: false,
        table_bytes: 1 << 20,
        tick: 0,
        below: Vec::new(),
        kept: kept.iter().map(|hull| hull.smallest.clone()).collect(),
        span: None,
    };
    let range =
        |start: &[u8], end: &[u8]| RangeTombstone { start: start.into(), end: end.into(), seq: 9 };
    // Between tables that stay, before the next key, and behind the last key and table.
    let tombstones = vec![range(b"h", b"i"), range(b"m", b"n"), range(b"z", b"zz")];
    let mut outputs = Outputs::new(Arc::new(world.context()), plan, tombstones);
    for key in [b"a", b"b", b"p"] {
        outputs.add(key, 7, Kind::Put, b"value").unwrap();
    }
    let files = outputs.finish().unwrap();
    let hulls: Vec<_> = files.iter().map(|file| file.hull().clone()).collect();
    assert_eq!(hulls.len(), 4, "{hulls:?}");
    for hull in &hulls {
        assert!(!kept.iter().any(|kept| kept.overlaps(hull)), "{hull:?}");
    }
    assert!(hulls.is_sorted_by(|one, next| one.ends_before(&next.smallest)));
}
