//! Gets of intervals with tails that are not in a full cache: they read the records that may be of
//! their key, never more than that and what is in order, and answer what whole intervals do.

use proptest::prelude::*;

use super::*;
use crate::base::sync::Arc;
use crate::index::flex::intervals::run::{Record, RunBuilder};
use crate::index::flex::intervals::tail::TailIndex;
use crate::index::flex::intervals::view::FlexView;

fn recover(world: &World, sections: &[Section]) -> Arc<FlexIndex> {
    FlexIndex::recover(world.context(), &ROOMY, sections).unwrap()
}

/// An index with an interval of several records, behind which others were appended one by one.
fn appended(appends: &[(&str, &str)]) -> (World, Arc<FlexIndex>) {
    let (world, index) = of_sixty(&ROOMY);
    for ((key, value), seq) in appends.iter().zip(100..) {
        flush(&index, vec![put(key, seq, value)], vec![]);
    }
    fill(&index);
    (world, index)
}

/// What a get finds as of a seq, and how often it read.
fn looked_up(appends: &[(&str, &str)], key: &str, snapshot: Seq) -> (Option<String>, u64) {
    let (world, index) = appended(appends);
    let reads = || world.io.meter.read_calls(Purpose::Read);
    let view = index.view();
    // The first read of a file reads more of it.
    get(&*view, b"key00059", SEQ_MAX).unwrap();
    let before = reads();
    let found = get(&*view, key.as_bytes(), snapshot).unwrap();
    (found.map(|value| String::from_utf8(value).unwrap()), reads() - before)
}

#[test]
fn a_get_reads_what_may_be_its_key() {
    let appends = [("key00010", "first"), ("key00011", "other"), ("key00010", "second")];
    let tail = {
        let (_world, index) = appended(&appends);
        let view = index.shared.current();
        view.source.anchors.find(b"key00010").unwrap().interval.clone()
    };
    assert!(tail.tail >= 2, "records stand in a tail: {}", tail.tail);
    let found = |key, snapshot| looked_up(&appends, key, snapshot);
    // Two fragments may be of the key, and they decide; they stand in one block.
    assert_eq!(found("key00010", SEQ_MAX), (Some("second".to_owned()), 1));
    assert_eq!(found("key00011", SEQ_MAX), (Some("other".to_owned()), 1));
    // None is of the key.
    assert_eq!(found("key00012", SEQ_MAX), (Some("old".to_owned()), 1));
    assert_eq!(found("key00011x", SEQ_MAX), (None, 0));
    // All are too new.
    assert_eq!(found("key00010", 50), (Some("old".to_owned()), 2));
    assert_eq!(found("key00010", 100), (Some("first".to_owned()), 1));
}

#[test]
fn what_is_missed_again_is_read_whole_and_kept() {
    let (world, index) = appended(&[("key00010", "first"), ("key00011", "second")]);
    let is_cached = || {
        let view = index.shared.current();
        let stamp = view.source.anchors.find(b"key00010").unwrap().interval.stamp;
        index.shared.cache.peek(stamp).is_some()
    };
    let view = index.view();
    let found = |key: &str| get(&*view, key.as_bytes(), SEQ_MAX).unwrap().unwrap();
    assert_eq!((found("key00010"), is_cached()), (b"first".to_vec(), false));
    // Its neighbour, at once: they are asked for together.
    assert_eq!((found("key00011"), is_cached()), (b"second".to_vec(), true));
    let reads = world.io.meter.read_calls(Purpose::Read);
    assert_eq!(found("key00012"), b"old");
    assert_eq!(world.io.meter.read_calls(Purpose::Read), reads);
}

#[test]
fn while_there_is_room_what_is_missed_is_kept() {
    let world = World::new();
    let index = recover(&world, &[]);
    let entries = keys(0..60).iter().zip(1..).map(|(key, seq)| put(key, seq, "old")).collect();
    flush(&index, entries, vec![]);
    flush(&index, vec![put("key00010", 100, "new")], vec![]);
    assert_eq!(get(&*index.view(), b"key00012", SEQ_MAX).unwrap().unwrap(), b"old");
    let view = index.shared.current();
    let interval = view.source.anchors.find(b"key00012").unwrap().interval;
    assert!(interval.tail_index.is_some() && index.shared.cache.peek(interval.stamp).is_some());
}

#[test]
fn after_an_opening_tails_are_not_known_and_intervals_are_read_whole() {
    let (world, index) = appended(&[("key00010", "first"), ("key00010", "second")]);
    let sections = index.snapshot_sections();
    drop(index);
    let index = recover(&world, &sections);
    fill(&index);
    let interval = |index: &FlexIndex| {
        let view: Arc<FlexView> = index.shared.current();
        view.source.anchors.find(b"key00010").unwrap().interval.clone()
    };
    assert_eq!((interval(&index).tail, interval(&index).tail_index), (6, None));
    assert_eq!(get(&*index.view(), b"key00010", SEQ_MAX).unwrap().unwrap(), b"second");
    // What comes behind a tail that is not known does not make it known.
    let mut third = RunBuilder::default();
    third.add(&Record { key: b"key00010", seq: 200, kind: Kind::Put, value: b"third" });
    assert_eq!(TailIndex::appended(&interval(&index), &third), None);
}

#[test]
fn a_tag_bounds_the_records_of_a_tail_and_does_not_count_them() {
    let (world, index) = appended(&[("key00010", "1"), ("key00010", "2"), ("key00010", "3")]);
    let tail = |index: &FlexIndex| {
        let view: Arc<FlexView> = index.shared.current();
        view.source.anchors.find(b"key00010").unwrap().interval.tail
    };
    assert_eq!(tail(&index), 3);
    let sections = index.snapshot_sections();
    drop(index);
    let index = recover(&world, &sections);
    assert_eq!(tail(&index), 6);
    assert_eq!(get(&*index.view(), b"key00010", SEQ_MAX).unwrap().unwrap(), b"3");
    verify(&*index.view());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]

    /// Every view answers what it did when it was new, whatever comes later.
    #[test]
    fn gets_of_a_full_cache_answer_what_was_put(
        steps in prop::collection::vec(prop::collection::vec((0u32..80, 0u32..5), 1..6), 1..40),
    ) {
        let (_world, index) = of_sixty(&ROOMY);
        let mut model = model_of_sixty();
        let (mut seq, mut views) = (100, Vec::new());
        for step in steps {
            let entries = changes(step, &mut seq, &mut model);
            flush(&index, entries, vec![]);
            fill(&index);
            views.push((index.view(), model.clone()));
            for (view, model) in views.iter().rev().take(3) {
                for key in keys(0..81).iter().step_by(seq as usize % 5 + 1) {
                    let found = get(&**view, key.as_bytes(), SEQ_MAX).unwrap();
                    let wanted = model.get(key).cloned().flatten();
                    prop_assert_eq!(found, wanted.map(String::into_bytes), "{}", key);
                }
            }
            verify(&*index.view());
        }
    }
}
