//! What tails make garbage: how it is counted, how long it is left alone, and that a reclaim has it
//! written anew.

use std::collections::BTreeSet;

use super::*;
use crate::base::entry::FileId;
use crate::index::flex::intervals::anchors::{Found, Interval};
use crate::index::flex::intervals::superseded::superseded_in;
use crate::index::flex::space::segment::format::place_of;

/// With room for many appends to each interval.
const LONG: FlexSizes = FlexSizes {
    intervals: FlexLimits { tail_records_max: 30, fragments_max: 31, ..ROOMY.intervals },
    ..ROOMY
};

fn interval(index: &FlexIndex, key: &str) -> Interval {
    index.shared.current().source.anchors.find(key.as_bytes()).unwrap().interval.clone()
}

#[test]
fn records_of_keys_that_are_there_are_counted() {
    let (world, index) = of_sixty(&LONG);
    let (bytes, none) = interval(&index, "key00010").superseded();
    assert_eq!((interval(&index, "key00010").bytes, none), (bytes, 0));
    let mut bytes_of = Vec::new();
    for (key, seq) in ["key00010", "key00010x", "key00011", "key00010x"].iter().zip(100..) {
        let before = interval(&index, key);
        flush(&index, vec![put(key, seq, "new")], vec![]);
        let after = interval(&index, key);
        bytes_of.push((after.bytes - before.bytes, after.superseded().1 - before.superseded().1));
    }
    let [first, new, other, again] = bytes_of[..] else { panic!("{bytes_of:?}") };
    assert!(first.0 > 0 && first.0 == first.1 && other.0 == other.1, "{bytes_of:?}");
    assert_eq!((new.1, again.1), (0, again.0), "only the second one of them: {bytes_of:?}");
    assert_eq!(interval(&index, "key00010").superseded().0, bytes);
    // Nobody knows after an opening.
    let again = FlexIndex::recover(world.context(), &LONG, &index.snapshot_sections()).unwrap();
    assert_eq!(interval(&again, "key00010").superseded().1, 0);
}

/// One that is nearly full would be written anew for each record or two otherwise.
#[test]
fn a_full_interval_takes_a_share_of_garbage() {
    let (_world, index) = of_sixty(&LONG);
    let mut nearly_full = 0;
    for seq in 100..900u64 {
        let key = format!("key{:05}", seq * 37 % 60);
        let value = "v".repeat(1 + (seq / 50) as usize);
        let before = interval(&index, &key);
        flush(&index, vec![put(&key, seq, &value)], vec![]);
        let (before_tail, garbage) = before.superseded();
        assert_eq!(before.bytes - before_tail, garbage, "all that comes replaces something");
        if interval(&index, &key).tail > 0 {
            continue;
        }
        let comes = (key.len() + value.len()) as u64 + 12;
        assert!(garbage + comes > before_tail / 5, "{garbage} behind {before_tail}");
        let max = LONG.intervals.interval_bytes_max;
        nearly_full += u32::from(before_tail + comes > max - before_tail / 10);
    }
    assert!(nearly_full > 3, "{nearly_full}");
    assert_eq!(scan_past_cache(&index).len(), 60 + garbage_records(&index));
    verify(&*index.view());
}

/// What all intervals say, each of them looked at.
fn superseded_in_all(index: &FlexIndex, victims: &BTreeSet<FileId>) -> Vec<Vec<u8>> {
    let view = index.shared.current();
    let tree = view.source.space.tree();
    let is_meant = |found: &Found<'_>| {
        let (before_tail, superseded) = found.interval.superseded();
        let first = tree.walk(found.offset..found.offset + 1).unwrap().next().unwrap();
        superseded > before_tail / 8 && victims.contains(&place_of(first.extent.physical).0)
    };
    let found = view.source.anchors.iter().filter(is_meant);
    found.map(|found| found.interval.anchor.to_vec()).collect()
}

/// Writes are near each other, as those of a user often are: a segment has bytes of few groups.
#[test]
fn only_what_owns_bytes_in_the_victims_is_looked_at() {
    let (_world, index) = of_records(400, &LONG);
    let limits = FlexLimits { job_bytes_max: u64::MAX, ..LONG.intervals };
    let (mut all, mut looked_at, mut wanted, mut found) = (0, 0, 0, 0);
    for seq in 1000..3000u64 {
        let key = format!("key{:05}", (seq / 100 * 10 + seq * 37 % 40) % 400);
        flush(&index, vec![put(&key, seq, &format!("v{seq}"))], vec![]);
        let victims = index.shared.writer.lock().space.victims(u64::MAX);
        if !victims.is_empty() {
            let view = index.shared.current();
            let superseded = superseded_in(&view.source, &victims, &limits).unwrap();
            let anchors = superseded_in_all(&index, &victims);
            all += view.source.anchors.len() as u64;
            looked_at += superseded.looked_at;
            wanted += anchors.len();
            found += superseded.anchors.len();
            assert!(superseded.anchors.iter().all(|anchor| anchors.contains(&anchor.to_vec())));
        }
        work(&index, &[], 99);
    }
    println!("looked at {looked_at} of {all}, found {found} of {wanted}");
    assert!(looked_at * 2 < all, "{looked_at} of {all}");
    assert!(wanted > 50 && found * 20 > wanted * 19, "{found} of {wanted}");
}

/// Records in tails, all of which replace others.
fn garbage_records(index: &FlexIndex) -> usize {
    let view = index.shared.current();
    view.source.anchors.iter().map(|found| usize::from(found.interval.tail)).sum()
}

/// They make it larger, so that it is to be cut in two.
#[test]
fn new_keys_get_no_share() {
    let (_world, index) = of_sixty(&LONG);
    for seq in 100..150 {
        let key = format!("key00010x{seq}");
        flush(&index, vec![put(&key, seq, "new")], vec![]);
        let bytes = interval(&index, &key).bytes;
        assert!(bytes <= LONG.intervals.interval_bytes_max + 30, "{bytes}");
    }
    verify(&*index.view());
}

#[test]
fn a_reclaim_has_garbage_written_anew_and_then_moves_what_is_left() {
    let (world, index) = of_sixty(&LONG);
    let mut done = Vec::new();
    let mut values: BTreeMap<String, String> =
        keys(0..60).into_iter().map(|key| (key, "old".to_owned())).collect();
    for seq in 100..400u64 {
        let key = format!("key{:05}", seq * 37 % 60);
        flush(&index, vec![put(&key, seq, &format!("v{seq}"))], vec![]);
        values.insert(key, format!("v{seq}"));
        done.extend(work(&index, &[], 99));
    }
    let (anew, moved) = ("compaction: garbage", "reclaim: garbage");
    let anew_at: Vec<_> = (0..done.len()).filter(|number| done[*number] == anew).collect();
    assert!(!anew_at.is_empty(), "{done:?}");
    let follows = |number: &usize| matches!(done.get(number + 1), Some(next) if next != anew);
    assert!(anew_at.iter().all(follows), "once is enough: {done:?}");
    assert!(done.iter().any(|job| job == moved), "{done:?}");
    let found = |index: &FlexIndex| -> BTreeMap<String, String> {
        let newest = |entry: Entry| {
            let value = get(&*index.view(), &entry.key, SEQ_MAX).unwrap().unwrap();
            (String::from_utf8(entry.key).unwrap(), String::from_utf8(value).unwrap())
        };
        scan_past_cache(index).into_iter().map(newest).collect()
    };
    assert_eq!(found(&index), values);
    verify(&*index.view());
    let again = FlexIndex::recover(world.context(), &LONG, &index.snapshot_sections()).unwrap();
    assert_eq!(found(&again), values);
}
