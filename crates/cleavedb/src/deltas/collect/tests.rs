//! Decisions by cases; the stripe rule by hand. The model runs all of it at random.

use super::survivors::{Judge, OwnedRecord};
use super::*;
use crate::base::entry::Seq;
use crate::base::merge_operator::{SharedOperator, operators};
use crate::deltas::ranges::{Covers, RangeAnchor};
use crate::deltas::record::{DeltaKind, Record};
use crate::deltas::testing::{anchor, bound, delta, range, record};

const LIMITS: Limits = Limits::of(1000, 6);

#[test]
fn buckets_are_rewritten_split_or_folded() {
    let of = |key_bytes: &[u64], others| outcome(key_bytes, others, &LIMITS, true);
    let parts = |parts: &[Range<usize>]| Outcome { parts: parts.to_vec(), fold: Vec::new() };
    let whole = |count| Outcome { parts: vec![Range { start: 0, end: count }], fold: Vec::new() };
    assert_eq!(of(&[], 3), parts(&[]), "nothing lives: the bucket goes");
    assert_eq!(of(&[400, 400], 3), whole(2), "up to the threshold: rewritten");
    assert_eq!(of(&[400, 201, 200], 3), parts(&[0..1, 1..3]), "above it: split");
    assert_eq!(of(&[200; 10], 2), parts(&[0..2, 2..4, 4..6, 6..8, 8..10]).max_fold(2));
    assert_eq!(of(&[400, 401], 5), Outcome { parts: vec![], fold: vec![0, 1] }, "no room: folded");
    assert_eq!(of(&[10, 501, 10], 3).fold, [1], "a key that outgrows a bucket");
    let after = outcome(&[400, 401], 5, &LIMITS, false);
    assert_eq!(after, parts(&[0..1, 1..2]), "what could not be folded is kept all the same");
    assert_eq!(
        of(&[30; 5], 0),
        parts(&[0..1, 1..2, 2..3, 3..4, 4..5]),
        "the first flush: 5 % each"
    );
    assert_eq!(of(&[30; 20], 0), whole(20), "or fewer, larger ones, if they were too many");
}

#[test]
fn what_experiments_vary_changes_what_becomes_of_a_bucket() {
    let of = |key_bytes: &[u64], limits: &Limits| outcome(key_bytes, 3, limits, true);
    let whole = [Range { start: 0, end: 2 }];
    let early = Limits { split_percent: 10, ..LIMITS };
    assert_eq!(of(&[40, 50], &early).parts, whole);
    assert_eq!(of(&[60, 60], &early).parts, [0..1, 1..2]);
    let late = Limits { split_percent: 90, ..LIMITS };
    assert_eq!(of(&[450, 450], &late).parts, whole);
    assert_eq!(of(&[450, 451], &late).parts, [0..1, 1..2]);
    // What was merged would be split at once otherwise, and so on for ever.
    let pair = |limits: &Limits| pick_merge(&[60, 60, 90, 90, 90], |_| false, limits);
    assert_eq!((pair(&early), pair(&late)), (None, Some(0)));
    let never = Limits { splits: false, ..LIMITS };
    assert_eq!(of(&[450, 451], &never).parts, whole, "rewritten as long as there is room");
    let folded = Outcome { parts: vec![], fold: vec![0, 1, 2] };
    assert_eq!(of(&[450, 451, 450], &never), folded);
    let after = outcome(&[450, 451, 450], 3, &never, false).parts;
    assert_eq!(after, [0..2, 2..3], "what is not folded yet has to be somewhere");
    assert_eq!(outcome(&[30; 5], 0, &never, true).parts.len(), 5, "the first flush makes them");
    assert_eq!(pick_merge(&[90, 20, 70, 30, 50], |_| false, &never), None);
}

impl Outcome {
    /// Folds all where the parts would be too many.
    fn max_fold(self, others: usize) -> Self {
        match others + self.parts.len() > LIMITS.buckets_max {
            true => Self { parts: Vec::new(), fold: (0..10).collect() },
            false => self,
        }
    }
}

#[test]
fn the_smallest_neighbours_merge_once_room_is_short() {
    let none = |_| false;
    assert_eq!(pick_merge(&[10, 10, 10, 10], none, &LIMITS), None, "there is room for a split");
    assert_eq!(pick_merge(&[90, 20, 70, 30, 50], none, &LIMITS), Some(3));
    assert_eq!(pick_merge(&[90, 20, 70, 30, 50], |at| at > 2, &LIMITS), Some(1), "just split");
    assert_eq!(pick_merge(&[400, 300, 300, 300, 400], none, &LIMITS), None, "one is full of both");
    assert_eq!(pick_merge(&[], none, &Limits { buckets_max: 0, ..LIMITS }), None);
}

fn append() -> SharedOperator {
    operators::by_name(operators::APPEND).unwrap()
}

/// Seqs and operands that live; an anchor as `|`.
fn living(
    line: &[(Seq, Option<Vec<u8>>)],
    ranges: &[RangeAnchor],
    snapshots: &[Seq],
    operator: Option<&SharedOperator>,
    older_below: bool,
) -> Vec<(Seq, String)> {
    let records: Vec<_> = line.iter().map(record).collect();
    let covers = &Covers::new(ranges.iter());
    let judge = Judge { covers, snapshots, operator, older_below };
    let shown = |record: OwnedRecord| {
        let is_anchor = record.kind == DeltaKind::Anchor;
        let text = String::from_utf8(record.operand).unwrap();
        (record.seq, if is_anchor { "|".to_owned() } else { text })
    };
    judge.judge(bound(b"k"), &records).into_iter().map(shown).collect()
}

#[test]
fn a_delta_dies_under_an_anchor_that_no_snapshot_comes_before() {
    let line = [delta(9, b"d"), delta(8, b"c"), anchor(7), delta(5, b"b"), delta(3, b"a")];
    let operator = append();
    let run = |snapshots: &[Seq], operator, older| living(&line, &[], snapshots, operator, older);
    let text = |wanted: &[(Seq, &str)]| {
        wanted.iter().map(|(seq, text)| (*seq, (*text).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(run(&[], Some(&operator), false), text(&[(9, "cd")]));
    assert_eq!(run(&[], None, false), text(&[(9, "d"), (8, "c")]), "no operator, no combining");
    assert_eq!(run(&[], Some(&operator), true), text(&[(9, "cd"), (7, "|")]));
    let wanted = text(&[(9, "cd"), (7, "|"), (5, "ab")]);
    assert_eq!(run(&[5], Some(&operator), false), wanted);
    assert_eq!(run(&[6], Some(&operator), false), wanted);
    assert_eq!(run(&[3], Some(&operator), false), text(&[(9, "cd"), (7, "|"), (3, "a")]));
    assert_eq!(run(&[7], Some(&operator), false), text(&[(9, "cd")]));
    assert_eq!(run(&[8], Some(&operator), false), text(&[(9, "d"), (8, "c")]), "one a stripe");
    let ranged =
        |snapshots: &[Seq]| living(&line, &[range(b"a", b"z", 10)], snapshots, None, false);
    assert_eq!(ranged(&[]), text(&[]));
    assert_eq!(ranged(&[9]), text(&[(9, "d"), (8, "c")]));
    assert_eq!(ranged(&[4]), text(&[(3, "a")]));
}

#[test]
fn combining_stops_where_a_bucket_takes_no_more() {
    let half = vec![b'x'; crate::deltas::record::OPERAND_BYTES_MAX / 2 + 1];
    let line = [delta(4, b"y"), delta(3, &half), delta(2, &half)];
    let operator = append();
    let seqs: Vec<_> = living(&line, &[], &[], Some(&operator), false)
        .into_iter()
        .map(|(seq, text)| (seq, text.len()))
        .collect();
    assert_eq!(seqs, [(4, half.len() + 1), (2, half.len())]);
}

#[test]
fn nothing_is_combined_across_an_operand_that_is_in_the_index() {
    let operator = append();
    let record = |seq, kind, operand| Record { seq, kind, operand };
    let line = [
        record(9, DeltaKind::Delta, b"d".as_slice()),
        record(8, DeltaKind::Delta, b"c"),
        record(7, DeltaKind::Elsewhere, b""),
        record(5, DeltaKind::Delta, b"b"),
        record(3, DeltaKind::Delta, b"a"),
    ];
    let covers = &Covers::new([].iter());
    let operator = Some(&operator);
    let judge = Judge { covers, snapshots: &[], operator, older_below: false };
    let living = judge.judge(bound(b"k"), &line);
    let living: Vec<_> = living.iter().map(OwnedRecord::as_ref).collect();
    let wanted = [
        record(9, DeltaKind::Delta, b"cd".as_slice()),
        record(7, DeltaKind::Elsewhere, b""),
        record(5, DeltaKind::Delta, b"ab"),
    ];
    assert_eq!(living, wanted);
}

#[test]
fn of_operands_in_the_index_with_nothing_between_one_is_told() {
    let operator = append();
    let record = |seq, kind, operand| Record { seq, kind, operand };
    let elsewhere = |seq| record(seq, DeltaKind::Elsewhere, b"".as_slice());
    let line = [
        record(9, DeltaKind::Delta, b"b".as_slice()),
        elsewhere(8),
        elsewhere(6),
        elsewhere(5),
        record(4, DeltaKind::Anchor, b""),
        elsewhere(3),
        elsewhere(2),
        record(1, DeltaKind::Delta, b"a"),
    ];
    let covers = &Covers::new([].iter());
    let judge = |snapshots: &[Seq]| {
        let judge = Judge { covers, snapshots, operator: Some(&operator), older_below: false };
        judge.judge(bound(b"k"), &line).iter().map(|r| (r.seq, r.kind)).collect::<Vec<_>>()
    };
    let newer = [(9, DeltaKind::Delta), (5, DeltaKind::Elsewhere)];
    assert_eq!(judge(&[]), newer);
    let older = [(4, DeltaKind::Anchor), (2, DeltaKind::Elsewhere), (1, DeltaKind::Delta)];
    assert_eq!(judge(&[3, 5]), [&newer[..], &older[..]].concat(), "whatever snapshots see");
}
