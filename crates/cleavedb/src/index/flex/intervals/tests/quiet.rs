//! What stands in fragments is written in one piece while nobody writes, out of what flushes have
//! earned; a flush puts an end to it.

use super::*;
use crate::index::flex::intervals::quiet::Quiet;

/// With room for a few appends to each interval.
const QUIET: FlexSizes = FlexSizes {
    intervals: FlexLimits { gathered_fragments_min: 3, gathered_paid_min: 255, ..ROOMY.intervals },
    ..ROOMY
};

const JOB: &str = "compaction: quiet";

/// An index of sixty records, behind which so many were appended for each of these keys.
fn appended(appends: u64, keys: &[&str]) -> (World, Arc<FlexIndex>) {
    let (world, index) = of_sixty(&QUIET);
    (100..100 + appends).for_each(|seq| append(&index, keys, seq));
    (world, index)
}

fn append(index: &FlexIndex, keys: &[&str], seq: u64) {
    let entries = keys.iter().map(|key| put(key, seq, &format!("v{seq}"))).collect();
    flush(index, entries, vec![]);
}

#[test]
fn what_nobody_has_read_is_written_in_one_piece_once_nobody_writes() {
    let (world, index) = appended(3, &["key00010", "key00050"]);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (4, 4));
    assert!(index.pick_job().is_none(), "somebody may be writing");
    index.note_quiet();
    let done = work(&index, &[], 9);
    assert!(done.iter().any(|job| job == JOB), "{done:?}");
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (1, 1));
    assert_eq!(get(&*index.view(), b"key00010", SEQ_MAX).unwrap().unwrap(), b"v102");
    assert_eq!(scan(&index).len(), 60, "older versions are gone");
    verify(&*index.view());
    index.note_quiet();
    let done = work(&index, &[], 9);
    assert!(done.iter().all(|job| job != JOB), "all has been passed: {done:?}");
    let again = FlexIndex::recover(world.context(), &QUIET, &index.snapshot_sections()).unwrap();
    assert_eq!(scan(&again), scan(&index));
    again.note_quiet();
    let done = work(&again, &[], 9);
    assert!(done.iter().all(|job| job != JOB), "nothing came since it was opened: {done:?}");
}

#[test]
fn a_flush_puts_an_end_to_it_and_it_goes_on_from_there() {
    let (_world, index) = appended(3, &["key00010", "key00050"]);
    index.note_quiet();
    while fragments(&index, "key00010") > 1 {
        assert_eq!(work(&index, &[], 1).len(), 1);
    }
    assert_eq!(fragments(&index, "key00050"), 4, "a job writes as much as it must");
    for seq in 200..202 {
        append(&index, &["key00010"], seq);
    }
    assert_eq!(fragments(&index, "key00010"), 3);
    assert!(work(&index, &[], 9).iter().all(|job| job != JOB), "somebody writes");
    index.note_quiet();
    work(&index, &[], 9);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (3, 1));
    append(&index, &["key00050"], 300);
    index.note_quiet();
    work(&index, &[], 9);
    assert_eq!(fragments(&index, "key00010"), 1);
    verify(&*index.view());
}

#[test]
fn no_more_is_written_than_was_put() {
    let sizes =
        FlexSizes { intervals: FlexLimits { gathered_bytes_min: 500, ..QUIET.intervals }, ..QUIET };
    let (world, index) = of_sixty(&sizes);
    let index = {
        let sections = index.snapshot_sections();
        drop(index);
        FlexIndex::recover(world.context(), &sizes, &sections).unwrap()
    };
    let mut seq = 100;
    while fragments(&index, "key00010") < 4 {
        append(&index, &["key00010"], seq);
        seq += 1;
    }
    index.note_quiet();
    let done = work(&index, &[], 99);
    assert!(done.iter().all(|job| job != JOB), "what came is worth no job: {done:?}");
    for seq in seq..seq + 40 {
        append(&index, &["key00010"], seq);
    }
    while fragments(&index, "key00010") < 4 {
        seq += 100;
        append(&index, &["key00010"], seq);
    }
    index.note_quiet();
    let done = work(&index, &[], 99);
    assert!(done.iter().any(|job| job == JOB), "{done:?}");
    assert_eq!(fragments(&index, "key00010"), 1);
    verify(&*index.view());
}

#[test]
fn a_job_that_is_dropped_is_done_again() {
    let (_world, index) = appended(3, &["key00010"]);
    let before = scan_past_cache(&index);
    index.note_quiet();
    let mut dropped = 0;
    while let Some(mut job) = index.pick_job().filter(|_| dropped < 3) {
        drop(job.run(&job_context(&[])).unwrap());
        dropped += 1;
    }
    assert_eq!((dropped, fragments(&index, "key00010")), (3, 4));
    assert_eq!(scan_past_cache(&index), before);
    work(&index, &[], 9);
    assert_eq!(fragments(&index, "key00010"), 1);
    verify(&*index.view());
}

/// What it brought in has not been passed yet.
#[test]
fn after_a_flush_in_the_midst_of_it_all_is_passed_again() {
    let limits = QUIET.intervals;
    let mut quiet = Quiet::default();
    assert!(!quiet.begin(&limits, 1000), "nothing came");
    quiet.flushed(100);
    assert!(quiet.due(&limits).is_none() && quiet.begin(&limits, 1000));
    quiet.passed(Some(b"key".into()), 40);
    assert_eq!(quiet.due(&limits), Some((&b"key"[..], 3)));
    quiet.flushed(1);
    quiet.passed(None, 40);
    assert!(quiet.due(&limits).is_none() && quiet.begin(&limits, 1000));
    assert_eq!(quiet.due(&limits), Some((&b""[..], 3)));
    quiet.passed(None, 0);
    assert!(!quiet.begin(&limits, 1000), "all has been passed");
    quiet.flushed(30);
    assert!(quiet.begin(&limits, 1000));
    quiet.passed(Some(b"key".into()), 30);
    assert!(quiet.due(&limits).is_none(), "what was earned is spent");
}

/// What was put since the last pass decides, where the next one begins.
#[test]
fn a_pass_that_can_pay_for_most_takes_all_that_is_not_in_one_piece() {
    let limits = QUIET.intervals;
    let mut quiet = Quiet::default();
    quiet.flushed(749);
    quiet.begin(&limits, 1000);
    assert_eq!(quiet.due(&limits), Some((&b""[..], 3)));
    quiet.flushed(1);
    quiet.begin(&limits, 1000);
    assert_eq!(quiet.due(&limits), Some((&b""[..], 2)));
    quiet.passed(Some(b"key".into()), 300);
    quiet.begin(&limits, 1000);
    assert_eq!(quiet.due(&limits), Some((&b"key"[..], 2)), "as the pass began");
    quiet.passed(None, 0);
    quiet.flushed(100);
    quiet.begin(&limits, 1000);
    assert_eq!(quiet.due(&limits), Some((&b""[..], 3)));
}

#[test]
fn after_a_load_two_fragments_are_one_too_many() {
    let (_world, index) = appended(1, &["key00010", "key00050"]);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (2, 2));
    index.note_quiet();
    work(&index, &[], 9);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (1, 1));
    verify(&*index.view());
}

/// Two fragments may stay where a pass cannot pay for most of the data.
#[test]
fn after_a_few_puts_two_fragments_stay() {
    let (_world, index) = appended(1, &["key00010", "key00050"]);
    index.note_quiet();
    work(&index, &[], 9);
    append(&index, &["key00010", "key00050"], 300);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (2, 2));
    index.note_quiet();
    work(&index, &[], 9);
    assert_eq!((fragments(&index, "key00010"), fragments(&index, "key00050")), (2, 2));
    verify(&*index.view());
}
