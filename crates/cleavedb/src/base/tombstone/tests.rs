//! Fragments against the list of tombstones itself.

use super::*;
use proptest::prelude::*;

fn tombstone(start: &[u8], end: &[u8], seq: Seq) -> RangeTombstone {
    RangeTombstone { start: start.into(), end: end.into(), seq }
}

/// The twin: looks at every tombstone.
fn naive_cover(tombstones: &[RangeTombstone], key: &[u8], snapshot: Seq) -> Seq {
    tombstones
        .iter()
        .filter(|t| *t.start <= *key && *key < *t.end && t.seq <= snapshot)
        .map(|t| t.seq)
        .max()
        .unwrap_or(0)
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 0..4)
}

fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    prop::collection::vec((key(), key(), 1u64..40), 0..24)
        .prop_map(|list| list.iter().map(|(start, end, seq)| tombstone(start, end, *seq)).collect())
}

#[test]
fn none_covers_nothing() {
    for fragments in [Fragments::default(), Fragments::build(Vec::new())] {
        assert!(fragments.is_empty());
        assert_eq!(fragments.cover_seq(b"", Seq::MAX), 0);
        assert_eq!(fragments.iter().count(), 0);
        assert!(!fragments.covers_any(None, None));
        assert!(fragments.tombstones().is_empty());
    }
}

#[test]
fn an_end_is_exclusive_and_a_snapshot_inclusive() {
    let fragments = Fragments::build(vec![tombstone(b"b", b"d", 7), tombstone(b"c", b"e", 5)]);
    assert_eq!(fragments.cover_seq(b"a", 9), 0);
    assert_eq!(fragments.cover_seq(b"b", 7), 7);
    assert_eq!(fragments.cover_seq(b"b", 6), 0);
    assert_eq!(fragments.cover_seq(b"c", 6), 5);
    assert_eq!(fragments.cover_seq(b"d", 9), 5);
    assert_eq!(fragments.cover_seq(b"e", 9), 0);
    let listed: Vec<_> = fragments.iter().collect();
    let expected: Vec<(&[u8], &[u8], Vec<Seq>)> =
        vec![(b"b", b"c", vec![7]), (b"c", b"d", vec![7, 5]), (b"d", b"e", vec![5])];
    assert_eq!(listed, expected);
}

#[test]
fn nested_tombstones_do_not_take_quadratic_memory() {
    let count = 4096u32;
    let nested = (0..count)
        .map(|i| tombstone(&i.to_be_bytes(), &(3 * count - i).to_be_bytes(), u64::from(i) + 1));
    let fragments = Fragments::build(nested.collect());
    assert_eq!(fragments.cover_seq(&count.to_be_bytes(), Seq::MAX), u64::from(count));
    assert_eq!(fragments.cover_seq(&count.to_be_bytes(), 17), 17);
    assert_eq!(fragments.cover_seq(&9u32.to_be_bytes(), Seq::MAX), 10);
    assert!(fragments.memory_bytes() < 300 * count as usize, "{}", fragments.memory_bytes());
}

proptest! {
    #[test]
    fn answers_as_the_list_does(
        list in tombstones(),
        probes in prop::collection::vec(key(), 1..16),
    ) {
        let fragments = Fragments::build(list.clone());
        for probe in &probes {
            for snapshot in [0, 1, 5, 13, 39, 40, Seq::MAX] {
                prop_assert_eq!(
                    fragments.cover_seq(probe, snapshot),
                    naive_cover(&list, probe, snapshot)
                );
            }
        }
    }

    #[test]
    fn iteration_lists_each_interval_with_its_seqs(list in tombstones()) {
        let fragments = Fragments::build(list.clone());
        let mut previous_end: Option<Vec<u8>> = None;
        for (start, end, seqs) in fragments.iter() {
            prop_assert!(start < end);
            prop_assert!(previous_end.is_none_or(|previous| previous.as_slice() <= start));
            prop_assert!(seqs.windows(2).all(|pair| pair[0] > pair[1]));
            let mut expected: Vec<Seq> =
                list.iter()
                    .filter(|t| *t.start <= *start && *end <= *t.end)
                    .map(|t| t.seq)
                    .collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.dedup();
            prop_assert_eq!(&seqs, &expected);
            previous_end = Some(end.to_vec());
        }
    }

    #[test]
    fn a_round_trip_and_a_merge_keep_every_tombstone(a in tombstones(), b in tombstones()) {
        let mut all: Vec<RangeTombstone> = a.iter().chain(&b).cloned().collect();
        let sets = [Arc::new(Fragments::build(a)), Arc::new(Fragments::build(b))];
        let merged = Fragments::merged(&sets);
        all.retain(|t| t.start < t.end);
        all.sort_by(|x, y| x.start.cmp(&y.start).then(y.seq.cmp(&x.seq)).then(x.end.cmp(&y.end)));
        all.dedup();
        prop_assert_eq!(merged.tombstones(), all.clone());
        prop_assert_eq!(merged.len(), all.len());
    }

    #[test]
    fn a_range_is_touched_iff_some_tombstone_overlaps_it(
        list in tombstones(),
        start in prop::option::of(key()),
        end in prop::option::of(key()),
    ) {
        let fragments = Fragments::build(list.clone());
        let empty = start.as_ref().zip(end.as_ref()).is_some_and(|(start, end)| start >= end);
        let expected = !empty && list.iter().any(|t| {
            t.start < t.end
                && start.as_deref().is_none_or(|start| *start < *t.end)
                && end.as_deref().is_none_or(|end| *t.start < *end)
        });
        prop_assert_eq!(fragments.covers_any(start.as_deref(), end.as_deref()), expected);
    }
}
