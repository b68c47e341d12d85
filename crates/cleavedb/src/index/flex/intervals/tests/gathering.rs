//! Intervals that reads fetched in many fragments are written in one piece, whatever else happens
//! to them meanwhile; what nobody reads, or reads out of the cache, is left as it is.

use super::*;
use crate::base::checksum::key_hash;
use crate::base::lookup::Lookup;
use crate::index::KeyLookup;

/// With room for a few appends to each interval, gathered after one read of four fragments.
const GATHERED: FlexSizes = FlexSizes {
    intervals: FlexLimits { gathered_fragments_min: 3, gathered_paid_min: 3, ..ROOMY.intervals },
    ..ROOMY
};

fn recover(world: &World, sections: &[Section]) -> Arc<FlexIndex> {
    FlexIndex::recover(world.context(), &GATHERED, sections).unwrap()
}

const JOB: &str = "compaction: read in fragments";

/// An index of sixty records, and behind one of them so many appends. Nothing is in the cache.
fn appended(appends: u64) -> (World, Arc<FlexIndex>) {
    let (world, index) = of_sixty(&GATHERED);
    for seq in 100..100 + appends {
        flush(&index, vec![put("key00010", seq, &format!("v{seq}"))], vec![]);
    }
    (world, index)
}

#[test]
fn what_a_read_fetched_in_fragments_is_written_in_one_piece() {
    for reads in ["get", "multi_get", "scan"] {
        let (world, index) = appended(3);
        assert_eq!(fragments(&index, "key00010"), 4);
        assert!(!index.reads_want_work() && index.pick_job().is_none());
        match reads {
            "get" => drop(get(&*index.view(), b"key00010", SEQ_MAX).unwrap()),
            "scan" => drop(scan(&index)),
            _ => {
                let (key, hash) = (&b"key00010"[..], key_hash(b"key00010"));
                let key = KeyLookup { key, hash, lookup: Lookup::new(SEQ_MAX) };
                index.view().multi_get(&mut [key]).unwrap();
            }
        }
        assert!(index.reads_want_work(), "{reads}");
        assert_eq!(work(&index, &[], 9), [JOB], "{reads}");
        assert_eq!(fragments(&index, "key00010"), 1);
        assert!(!index.reads_want_work());
        assert_eq!(get(&*index.view(), b"key00010", SEQ_MAX).unwrap().unwrap(), b"v102");
        assert_eq!(scan(&index).len(), 60, "older versions are gone");
        verify(&*index.view());
        let again = recover(&world, &index.snapshot_sections());
        assert_eq!(scan(&again), scan(&index));
    }
}

/// Edits in place leave fragments, too, in the midst of what is in order.
#[test]
fn what_was_edited_in_place_is_written_in_one_piece() {
    let (_world, index) = appended(0);
    scan(&index);
    flush(&index, vec![put("key00010x", 200, "between")], vec![]);
    assert_eq!((fragments(&index, "key00010"), scan_past_cache(&index).len()), (3, 61));
    assert!(!index.reads_want_work(), "two fragments were fetched beside");
    scan_past_cache(&index);
    assert_eq!(work(&index, &[], 9), [JOB]);
    assert_eq!((fragments(&index, "key00010"), scan_past_cache(&index).len()), (1, 61));
    verify(&*index.view());
}

#[test]
fn few_fragments_and_what_is_in_the_cache_are_left_alone() {
    let (_world, index) = appended(1);
    assert_eq!((fragments(&index, "key00010"), scan(&index).len()), (2, 61));
    assert!(!index.reads_want_work(), "few fragments");
    // The interval is in the cache now, and what is appended goes there, too.
    for seq in 200..203 {
        flush(&index, vec![put("key00010", seq, "more")], vec![]);
    }
    assert!(fragments(&index, "key00010") >= 3);
    assert_eq!(get(&*index.view(), b"key00010", SEQ_MAX).unwrap().unwrap(), b"more");
    assert!(!index.reads_want_work(), "nothing was fetched");
}

#[test]
fn few_reads_of_few_fragments_are_not_worth_a_write() {
    let (_world, index) = appended(2);
    let view = index.shared.current();
    let found = view.source.anchors.find(b"key00010").unwrap();
    let other = view.source.anchors.find(b"key00050").unwrap();
    index.shared.gathering.note(&found, 3);
    index.shared.gathering.note(&other, 3);
    (0..20).for_each(|_| index.shared.gathering.note(&other, 2));
    assert!(!index.reads_want_work());
    index.shared.gathering.note(&found, 3);
    assert_eq!(work(&index, &[], 9), [JOB]);
    assert_eq!(fragments(&index, "key00010"), 1);
    verify(&*index.view());
}

/// A fragment is a copy from the page cache, or a read of the device.
#[test]
fn past_the_page_cache_fewer_fragments_are_worth_a_write() {
    for (direct_reads, appends, is_worth) in
        [(false, 1, false), (false, 3, false), (true, 0, false), (true, 2, true)]
    {
        let world = World::new();
        let context = IndexContext { direct_reads, ..world.context() };
        let usual =
            FlexLimits { gathered_fragments_min: 5, gathered_paid_min: 8, ..ROOMY.intervals };
        let sizes = FlexSizes { intervals: usual, ..ROOMY };
        let index = FlexIndex::recover(context, &sizes, &[]).unwrap();
        for seq in 1..=1 + appends {
            flush(&index, vec![put("key", seq, "value")], vec![]);
        }
        assert_eq!(fragments(&index, "key") as u64, 1 + appends);
        scan(&index);
        assert_eq!(index.reads_want_work(), is_worth, "{direct_reads}, {appends} appends");
    }
}

#[test]
fn what_snapshots_see_is_kept() {
    let (_world, index) = appended(3);
    let before = scan(&index);
    let view = index.view();
    assert_eq!(work(&index, &[101, 102], 9), [JOB]);
    assert_eq!(fragments(&index, "key00010"), 1);
    for (snapshot, value) in [(101, "v101"), (102, "v102"), (SEQ_MAX, "v102")] {
        let found = get(&*index.view(), b"key00010", snapshot).unwrap().unwrap();
        assert_eq!(found, value.as_bytes());
    }
    assert_eq!(entries_of(&*view, KeyRange::default()), before, "older views see what they saw");
}

#[test]
fn what_a_flush_wrote_in_one_piece_meanwhile_is_not_written_again() {
    let (_world, index) = appended(3);
    scan(&index);
    let all = keys(0..60).iter().zip(300..).map(|(key, seq)| put(key, seq, "all of it")).collect();
    flush(&index, all, vec![]);
    let before = (scan(&index), index.shared.current().state.space);
    assert_eq!(fragments(&index, "key00010"), 1);
    let mut job = index.pick_job().unwrap();
    let prepared = job.run(&job_context(&[])).unwrap();
    assert_eq!(prepared.report.bytes_written, 0);
    index.install(prepared.change).unwrap();
    assert_eq!(scan(&index), before.0);
}

#[test]
fn a_job_that_is_dropped_changes_nothing_and_the_next_read_asks_again() {
    let (world, index) = appended(3);
    let before = scan(&index);
    let mut job = index.pick_job().unwrap();
    drop(job.run(&job_context(&[])).unwrap());
    drop(job);
    assert_eq!((fragments(&index, "key00010"), scan(&index)), (4, before));
    assert!(!index.reads_want_work(), "in the cache by now");
    let again = recover(&world, &index.snapshot_sections());
    scan(&again);
    assert_eq!(work(&again, &[], 9).last().map(String::as_str), Some(JOB));
    assert_eq!(fragments(&again, "key00010"), 1);
    verify(&*again.view());
}
