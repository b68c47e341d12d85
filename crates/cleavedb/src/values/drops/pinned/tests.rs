//! What facts say of a record, case by case; the model has all of them at random.

use super::*;
use crate::base::entry::FileId;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::directory::Facts;
use crate::values::drops::testing::{KEYSPACE, after, batch, hash, long_key};

fn pinned(facts: &[(u64, &[u8], Seq)], sources: &[&[u64]]) -> PinnedFacts {
    pin(&after(&Facts::new(hash()), batch(facts)), sources)
}

fn pin(facts: &Facts, sources: &[&[u64]]) -> PinnedFacts {
    let sources: Vec<Vec<FileId>> =
        sources.iter().map(|files| files.iter().copied().map(FileId).collect()).collect();
    facts.pin(&sources).unwrap()
}

#[test]
fn a_version_does_not_supersede_itself() {
    for key in [b"apple".to_vec(), long_key(1)] {
        let mut pinned = pinned(&[(4, &key, 7)], &[&[4]]);
        let mut judge = |seq| pinned.judge(0, KEYSPACE, &key, seq, &[]);
        assert_eq!(judge(6), Verdict::Superseded(7));
        assert_eq!(judge(7), Verdict::Unknown, "strictly smaller seqs only");
        assert_eq!(judge(8), Verdict::Unknown);
    }
}

#[test]
fn a_fact_is_of_its_key_and_keyspace_alone() {
    let mut pinned = pinned(&[(4, b"apple", 7), (4, &long_key(1), 7)], &[&[4]]);
    for key in [&b"appl"[..], b"apples", b"", b"b", &long_key(2)] {
        assert_eq!(pinned.judge(0, KEYSPACE, key, 1, &[]), Verdict::Unknown);
    }
    for key in [&b"apple"[..], &long_key(1)] {
        assert_eq!(pinned.judge(0, KeyspaceId(4), key, 1, &[]), Verdict::Unknown);
        assert!(pinned.judge(0, KEYSPACE, key, 1, &[]).is_dead());
    }
}

#[test]
fn a_snapshot_holds_what_it_sees() {
    let mut pinned = pinned(&[(4, b"apple", 7)], &[&[4]]);
    for (snapshots, verdict) in [
        (&[][..], Verdict::Superseded(7)),
        (&[2], Verdict::Superseded(7)),
        (&[7], Verdict::Superseded(7)),
        (&[2, 7, 9], Verdict::Superseded(7)),
        (&[3], Verdict::Held(7)),
        (&[6], Verdict::Held(7)),
        (&[1, 2, 6, 8], Verdict::Held(7)),
    ] {
        assert_eq!(pinned.judge(0, KEYSPACE, b"apple", 3, snapshots), verdict, "{snapshots:?}");
    }
    let counts = pinned.counts();
    assert_eq!((counts.superseded, counts.held, counts.moved), (4, 3, 0));
}

#[test]
fn the_smallest_superseding_seq_of_any_file_decides() {
    // With 30 alone the snapshot at 20 would hold the record.
    let mut both = pinned(&[(4, b"apple", 30), (5, b"apple", 12)], &[&[4], &[5]]);
    for source in [0, 1] {
        assert_eq!(both.judge(source, KEYSPACE, b"apple", 9, &[20]), Verdict::Superseded(12));
        assert_eq!(both.judge(source, KEYSPACE, b"apple", 12, &[20]), Verdict::Held(30));
        assert_eq!(both.judge(source, KEYSPACE, b"apple", 12, &[]), Verdict::Superseded(30));
    }
    let mut one = pinned(&[(4, b"apple", 30), (5, b"apple", 12)], &[&[4]]);
    assert_eq!(one.judge(0, KEYSPACE, b"apple", 9, &[20]), Verdict::Held(30));
}

#[test]
fn moved_facts_are_of_one_record_in_one_container() {
    let mut batch = FactBatch::new(hash());
    for key in [b"apple".to_vec(), long_key(1)] {
        batch.add_moved(FileId(4), KEYSPACE, &key, 7);
    }
    let facts = after(&Facts::new(hash()), batch);
    for key in [b"apple".to_vec(), long_key(1)] {
        let mut pinned = pin(&facts, &[&[3, 4], &[5]]);
        let mut judge = |source, seq| pinned.judge(source, KEYSPACE, &key, seq, &[7]);
        assert_eq!(judge(0, 7), Verdict::Moved, "whatever snapshots there are");
        assert_eq!(judge(1, 7), Verdict::Unknown, "the copy, in another container");
        assert_eq!((judge(0, 6), judge(0, 8)), (Verdict::Unknown, Verdict::Unknown));
        assert_eq!(judge(2, 7), Verdict::Unknown, "no such source");
    }
}

#[test]
fn facts_that_no_record_met_are_counted() {
    let facts: Vec<(u64, Vec<u8>, Seq)> = (0..200u64)
        .map(|number| (4 + number % 3, (number / 2).to_be_bytes().to_vec(), 100 + number))
        .collect();
    let facts: Vec<_> = facts.iter().map(|(file, key, seq)| (*file, &**key, *seq)).collect();
    let mut pinned = pinned(&facts, &[&[4, 5], &[6]]);
    assert_eq!(pinned.counts(), FactCounts { facts: 200, ..Default::default() });
    assert_eq!(pinned.facts_unmet(), 200);
    for number in 0..50u64 {
        let verdict = pinned.judge(0, KEYSPACE, &number.to_be_bytes(), 1, &[]);
        assert_eq!(verdict, Verdict::Superseded(100 + 2 * number));
    }
    // The second of a key's two facts only.
    let verdict = pinned.judge(1, KEYSPACE, &60u64.to_be_bytes(), 220, &[]);
    assert_eq!(verdict, Verdict::Superseded(221));
    assert_eq!((pinned.facts_unmet(), pinned.counts().superseded), (200 - 100 - 1, 51));
}

#[test]
fn nothing_pinned_says_nothing() {
    let mut pinned = pinned(&[(4, b"apple", 7)], &[&[5], &[]]);
    assert_eq!(pinned.judge(0, KEYSPACE, b"apple", 3, &[]), Verdict::Unknown);
    assert!(pinned.discards().is_empty());
    assert_eq!(pinned.counts(), FactCounts::default());
}
