//! Range anchors round trip, and look-ups find the newest that is visible.

use proptest::prelude::*;

use super::*;
use crate::deltas::testing::{KEYSPACE, bound, range};

fn some() -> Vec<RangeAnchor> {
    let mut ranges = vec![range(b"b", b"d", 9), range(b"b", b"e", 9), range(b"b", b"c", 12)];
    ranges.push(RangeAnchor { keyspace: KeyspaceId(1), ..range(b"x", b"z", 5) });
    ranges.push(range(b"c", b"c", 7));
    sort(&mut ranges);
    ranges
}

#[test]
fn ranges_round_trip_in_one_encoding() {
    let ranges = some();
    assert_eq!(ranges.len(), 4, "the empty one is gone");
    assert_eq!(ranges[0].keyspace, KeyspaceId(1));
    assert_eq!(ranges[1].range.seq, 12);
    let mut bytes = Vec::new();
    encode(&ranges, &mut bytes);
    assert_eq!(decode(&mut Reader::new(&bytes)).unwrap(), ranges);
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        let mut reader = Reader::new(&damaged);
        if let Ok(other) = decode(&mut reader) {
            let mut again = Vec::new();
            encode(&other, &mut again);
            assert_eq!(again, damaged[..damaged.len() - reader.rest().len()]);
            assert_ne!(other, ranges);
        }
    }
    for length in 0..bytes.len() {
        assert!(decode(&mut Reader::new(&bytes[..length])).is_err(), "{length} bytes");
    }
    let mut swapped = Vec::new();
    encode(&[ranges[1].clone(), ranges[0].clone()], &mut swapped);
    assert!(decode(&mut Reader::new(&swapped)).is_err());
}

#[test]
fn a_key_is_covered_by_what_its_snapshot_sees() {
    let covers = Covers::new(some().iter());
    for (key, snapshot, seq) in
        [("b", 20, 12), ("b", 11, 9), ("b", 8, 0), ("c", 20, 9), ("d", 20, 9), ("e", 20, 0)]
    {
        assert_eq!(covers.cover_seq(bound(key.as_bytes()), snapshot), seq, "{key} at {snapshot}");
    }
    assert_eq!(covers.cover_seq(bound(b"x"), 20), 0, "of another keyspace");
    assert_eq!(covers.cover_seq(Bound { keyspace: KeyspaceId(1), key: b"y" }, 20), 5);
    assert!(covers.memory_bytes() > 0 && KEYSPACE != KeyspaceId(1));
}

#[test]
fn a_part_of_a_range_is_what_both_have() {
    let whole = range(b"c", b"m", 7);
    assert_eq!(whole.cut(None, None), Some(whole.clone()));
    assert_eq!(whole.cut(Some(b"a"), Some(b"z")), Some(whole.clone()));
    assert_eq!(whole.cut(Some(b"d"), Some(b"e")), Some(range(b"d", b"e", 7)));
    assert_eq!(whole.cut(Some(b"m"), None), None);
    assert_eq!(whole.cut(None, Some(b"c")), None);
}

fn some_range() -> impl Strategy<Value = RangeAnchor> {
    (0..2_u32, 0..12_u8, 0..12_u8, 1..40_u64).prop_map(|(keyspace, a, b, seq)| RangeAnchor {
        keyspace: KeyspaceId(1 + keyspace),
        ..range(&[a.min(b)], &[a.max(b)], seq)
    })
}

proptest! {
    /// What is left decides as all of them did, for every snapshot and for what comes after them,
    /// and there is no more of it over a key than there are stripes.
    #[test]
    fn what_is_left_decides_as_all_of_them(
        mut ranges in prop::collection::vec(some_range(), 0..30),
        snapshots in prop::collection::btree_set(1..40_u64, 0..6),
    ) {
        let snapshots: Vec<Seq> = snapshots.into_iter().collect();
        sort(&mut ranges);
        let mut thinned = ranges.clone();
        thin(&mut thinned, &snapshots);
        let mut sorted = thinned.clone();
        sort(&mut sorted);
        prop_assert_eq!(&sorted, &thinned);
        let (all, left) = (Covers::new(ranges.iter()), Covers::new(thinned.iter()));
        for keyspace in [1, 2].map(KeyspaceId) {
            for key in 0..13_u8 {
                let bound = Bound { keyspace, key: &[key] };
                for top in snapshots.iter().copied().chain([SEQ_MAX]) {
                    prop_assert_eq!(left.cover_seq(bound, top), all.cover_seq(bound, top));
                }
                let over = thinned.iter().filter(|anchor| {
                    anchor.keyspace == keyspace
                        && *anchor.range.start <= *bound.key
                        && *bound.key < *anchor.range.end
                });
                prop_assert!(ranges.len() < 2 || over.count() <= snapshots.len() + 1);
            }
        }
    }
}
