//! A few entries for an interval in memory that is in order: others' bytes stay where they are, on
//! disk and in the cache, and what comes out is what a rewrite of all of it would make.

use super::*;
use crate::base::sync::Arc;
use crate::index::flex::intervals::run::Run;

/// Intervals of some tens of records.
const LARGE: FlexSizes = FlexSizes {
    intervals: FlexLimits {
        interval_bytes_max: 700,
        tail_records_max: 6,
        fragments_max: 12,
        gathered_fragments_min: 255,
        gathered_paid_min: 255,
        ..TINY.intervals
    },
    ..TINY
};

/// An index of sixty records, all of them in the cache.
fn warm() -> (World, Arc<FlexIndex>) {
    let (world, index) = of_sixty(&LARGE);
    assert_eq!(scan(&index).len(), 60);
    (world, index)
}

/// What is in the cache is what the device has, and all of it is there.
fn check(index: &FlexIndex) {
    let view = index.shared.current();
    for found in view.source.anchors.iter() {
        let run = index.shared.cache.peek(found.interval.stamp).expect("in the cache");
        let bytes = view.source.space.read_many(&[found.range()], Purpose::Verify).unwrap();
        assert_eq!(*run, Run::decode(bytes[0].clone()).unwrap());
        assert!(run.is_sorted() && found.interval.tail == 0);
    }
    verify(&*view);
}

/// Brings entries in; the bytes of intervals that were written for it.
fn written(index: &FlexIndex, entries: Vec<Entry>, stripes: &[Seq]) -> u64 {
    brought_in(index, entries, stripes).0
}

/// Brings entries in; the bytes that were written for it, and how many entries were judged.
fn brought_in(index: &FlexIndex, entries: Vec<Entry>, stripes: &[Seq]) -> (u64, u64) {
    let prepared = index.apply_flush(input(entries, vec![], stripes)).unwrap();
    let figures = (prepared.report.bytes_written, prepared.report.entries_in);
    index.install(prepared.change).unwrap();
    figures
}

fn merge(key: &str, seq: Seq, operand: &str) -> Entry {
    Entry { key: key.into(), seq, kind: Kind::Merge, value: operand.into() }
}

#[test]
fn what_is_written_is_what_came() {
    let (world, index) = warm();
    let (one, judged) = brought_in(&index, vec![put("key00010", 100, "new")], &[]);
    assert!((11..=20).contains(&one), "{one} bytes");
    assert_eq!(judged, 2, "it and what it takes the place of, no neighbour");
    assert_eq!(fragments(&index, "key00010"), 3, "before, the record, behind");
    check(&index);
    let two = vec![put("key00020", 101, "new"), put("key00020x", 102, "more")];
    let (bytes, judged) = brought_in(&index, two, &[]);
    assert!(bytes <= 40 && judged == 3, "{bytes} bytes, {judged} judged");
    assert_eq!(written(&index, vec![delete("key00030", 103)], &[]), 0, "taken out");
    check(&index);
    let reads = world.io.meter.read_calls(Purpose::Read);
    let found = |key: &str| get(&*index.view(), key.as_bytes(), SEQ_MAX).unwrap();
    assert_eq!(found("key00010").unwrap(), b"new");
    assert_eq!(found("key00020x").unwrap(), b"more");
    assert_eq!((found("key00030"), found("key00031").unwrap()), (None, b"old".to_vec()));
    assert_eq!(scan(&index).len(), 60);
    assert_eq!(world.io.meter.read_calls(Purpose::Read), reads);
}

#[test]
fn the_first_record_has_the_tag_whatever_becomes_of_it() {
    let (world, index) = warm();
    let count = index.shared.current().source.anchors.len();
    let second = index
        .shared
        .current()
        .source
        .anchors
        .get(0, 1)
        .map(|it| String::from_utf8(it.interval.anchor.to_vec()).unwrap());
    for (seq, entry) in [
        delete("key00000", 100),
        put("key00001", 101, "longer than before"),
        put("a", 102, "before all"),
        put("a", 103, "and again"),
        delete("a", 104),
        delete(&second.unwrap(), 105),
    ]
    .into_iter()
    .enumerate()
    {
        flush(&index, vec![entry], vec![]);
        check(&index);
        let again =
            FlexIndex::recover(world.context(), &LARGE, &index.snapshot_sections()).unwrap();
        assert_eq!(again.shared.current().source.anchors.len(), count, "change {seq}");
        assert_eq!(scan(&again), scan(&index));
        drop(again);
    }
}

#[test]
fn versions_for_snapshots_and_operands_are_judged_with_what_they_stand_on() {
    let (_world, index) = warm();
    written(&index, vec![put("key00010", 100, "new"), merge("key00011", 101, "+1")], &[60]);
    check(&index);
    let found = |key: &str, seq| get(&*index.view(), key.as_bytes(), seq).unwrap().unwrap();
    assert_eq!((found("key00010", 60), found("key00010", 100)), (b"old".into(), b"new".into()));
    assert_eq!((found("key00011", 60), found("key00011", 101)), (b"old".into(), b"old+1".into()));
    assert_eq!(scan(&index).len(), 62, "two versions of each");
    // The snapshot is gone.
    written(&index, vec![merge("key00010", 102, "+2"), merge("key00011", 103, "+3")], &[]);
    check(&index);
    assert_eq!(
        (found("key00010", 102), found("key00011", 103)),
        (b"new+2".into(), b"old+1+3".into())
    );
    assert_eq!(scan(&index).len(), 60);
    // Under a range delete, too.
    flush(&index, vec![], vec![range_delete("key00012", "key00013", 104)]);
    written(&index, vec![merge("key00012", 105, "alone")], &[]);
    assert_eq!(found("key00012", 105), b"alone");
    verify(&*index.view());
}

#[test]
fn what_would_become_too_large_or_lie_in_too_many_pieces_is_written_anew() {
    let (_world, index) = warm();
    let before = index.shared.current().source.anchors.len();
    let mut rewritten = 0;
    for seq in 100..160 {
        let key = format!("key{:05}-{seq}", seq % 60);
        rewritten += u32::from(written(&index, vec![put(&key, seq, "and more")], &[]) > 200);
        check(&index);
        let pieces = fragments(&index, &key);
        assert!(pieces <= LARGE.intervals.fragments_max, "{pieces}");
    }
    assert!((2..30).contains(&rewritten), "{rewritten}");
    assert!(index.shared.current().source.anchors.len() > before);
    assert_eq!(scan(&index).len(), 120);
}
