//! Shares of groups, and flushes in parts beside flushes as a whole.

use super::*;
use crate::base::entry::SEQ_MAX;
use crate::index::flex::intervals::FlexIndex;
use crate::index::flex::intervals::open::FlexSizes;
use crate::index::flex::intervals::tests::{
    TINY, delete, flush, input, put, recover, verify, work,
};
use crate::index::testing::world::{World, entries_of, get};
use crate::index::{FlushInput, KeyRange, OrderedIndex};

/// As many parts as the executor runs at once, or one.
fn sizes(is_cut: bool) -> FlexSizes {
    let part_bytes_min = if is_cut { 1 } else { u64::MAX };
    FlexSizes { intervals: FlexLimits { part_bytes_min, ..TINY.intervals }, ..TINY }
}

fn of_two_hundred(is_cut: bool) -> (World, Arc<FlexIndex>) {
    let world = World::new();
    let index = FlexIndex::recover(world.context(), &sizes(is_cut), &[]).unwrap();
    let entries = (0..200).map(|number| put(&key(number), u64::from(number) + 1, "old")).collect();
    flush(&index, entries, vec![]);
    (world, index)
}

fn key(number: u32) -> String {
    format!("key{number:05}")
}

#[test]
fn shares_are_all_groups_and_all_keys() {
    let (_world, index) = of_two_hundred(true);
    let view = index.shared.current();
    let anchors = &view.source.anchors;
    let groups = anchors.groups().len();
    assert!(groups > 7, "{groups} groups");
    for count in [1, 2, 3, 7, groups, groups + 5] {
        let shares = Share::cut(anchors, 10, count);
        assert_eq!(shares.len(), count.min(groups));
        let mut end = (0, 10, None);
        for share in &shares {
            assert!(!share.groups.is_empty());
            assert_eq!((share.groups.start, share.offset, share.keys.start.clone()), end);
            let bytes: u64 =
                anchors.groups()[share.groups.clone()].iter().map(|it| it.bytes()).sum();
            end = (share.groups.end, share.offset + bytes, share.keys.end.clone());
        }
        let bytes: u64 = anchors.groups().iter().map(|it| it.bytes()).sum();
        assert_eq!(end, (groups, 10 + bytes, None), "{count} shares");
        for share in shares.iter().skip(1) {
            assert_eq!(anchors.group_of(share.keys.start.as_deref().unwrap()), share.groups.start);
        }
    }
    assert_eq!(Share::cut(&Anchors::default(), 3, 4), [Share::whole(&Anchors::default(), 3)]);
}

#[test]
fn a_flush_in_parts_leaves_what_one_as_a_whole_does() {
    let [parts, whole] = [true, false].map(|is_cut| {
        let (world, index) = of_two_hundred(is_cut);
        let mut all = Vec::new();
        for round in 1..6 {
            let seq = |number: u32| u64::from(1000 * round + number);
            let come =
                (0..200).step_by(1 + round as usize % 3).map(|number| match (number + round) % 4 {
                    0 => delete(&key(number), seq(number)),
                    _ => put(&key(number), seq(number), &"new".repeat(round as usize)),
                });
            let prepared = {
                let input = input(come.collect(), vec![], &[]);
                index.apply_flush(input).unwrap()
            };
            assert_eq!(prepared.report.parts, if is_cut { 2 } else { 1 });
            let sections = prepared.sections.clone();
            index.install(prepared.change).unwrap();
            verify(&*index.view());
            all = entries_of(&*index.view(), KeyRange::default());
            let again = recover(&world, &sections);
            assert_eq!(entries_of(&*again.view(), KeyRange::default()), all, "round {round}");
            work(&index, &[], 3);
        }
        assert!(get(&*index.view(), key(198).as_bytes(), SEQ_MAX).unwrap().is_some());
        all
    });
    assert_eq!(parts, whole);
}

#[test]
fn a_flush_in_parts_that_is_dropped_leaves_nothing() {
    let (_world, index) = of_two_hundred(true);
    let before = entries_of(&*index.view(), KeyRange::default());
    let come = |seq| (0..200).map(move |number| put(&key(number), seq, "never")).collect();
    let flushed = |seq| index.apply_flush(input(come(seq), vec![], &[])).unwrap();
    drop(flushed(900));
    assert_eq!(entries_of(&*index.view(), KeyRange::default()), before);
    verify(&*index.view());
    index.install(flushed(901).change).unwrap();
    assert_eq!(get(&*index.view(), key(7).as_bytes(), SEQ_MAX).unwrap().unwrap(), b"never");
    verify(&*index.view());
}

/// Writers that wait leave their processors to what they wait for.
#[test]
fn a_flush_that_is_waited_for_takes_all_threads() {
    let sizes = sizes(true);
    let intervals = FlexLimits { part_threads: usize::MAX, ..sizes.intervals };
    let world = World::new();
    let sizes = FlexSizes { intervals, ..sizes };
    let index = FlexIndex::recover(world.context(), &sizes, &[]).unwrap();
    let come = |seq| (0..200).map(move |number| put(&key(number), seq, "value")).collect();
    flush(&index, come(1), vec![]);
    for (is_waited_for, parts) in [(false, 1), (true, 2), (false, 1)] {
        let seq = index.view().largest_seq() + 1;
        let flushed = FlushInput { is_waited_for, ..input(come(seq), vec![], &[]) };
        let prepared = index.apply_flush(flushed).unwrap();
        assert_eq!(prepared.report.parts, parts);
        index.install(prepared.change).unwrap();
        assert_eq!(index.view().largest_seq(), seq);
        verify(&*index.view());
    }
}
