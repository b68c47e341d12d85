//! The directory: what stays after discards and removals, what is refused, and its bytes.

use super::*;
use crate::base::error::ErrorKind;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::testing::{KEYSPACE, after, batch, contents, decoded, hash, long_key};

fn pinned_discards(facts: &Facts, files: &[u64]) -> FactBatch {
    let files: Vec<FileId> = files.iter().copied().map(FileId).collect();
    let mut batch = FactBatch::new(hash());
    batch.discard(facts.pin(&[files]).unwrap().discards());
    batch
}

#[test]
fn facts_that_come_during_a_collection_wait_for_the_next_one() {
    let before = after(&Facts::new(hash()), batch(&[(4, b"a", 9), (5, b"a", 9)]));
    let discards = pinned_discards(&before, &[4, 6]);
    let late = after(&before, batch(&[(4, b"b", 12), (4, b"a", 13)]));
    assert_eq!((before.count_of(FileId(4)), late.count_of(FileId(4))), (1, 3));
    let next = after(&late, discards);
    assert_eq!(next.count_of(FileId(4)), 2, "the late ones");
    assert_eq!(next.count_of(FileId(5)), 1, "not of the collection");
    assert_eq!(next.count(), 3);
    let last = after(&next, pinned_discards(&next, &[4, 5]));
    assert!(last.is_empty());
    assert_eq!(last.generation(), Generation(4));
    assert_eq!(contents(&last), []);
    assert_eq!((late.count(), before.count()), (4, 2), "snapshots do not change");
}

#[test]
fn facts_of_files_that_are_gone_go() {
    let mut facts = after(&Facts::new(hash()), batch(&[(4, b"a", 9), (5, b"a", 9), (6, b"a", 9)]));
    let discards = pinned_discards(&facts, &[4]);
    let mut gone = FactBatch::new(hash());
    gone.drop_file(FileId(4));
    gone.drop_file(FileId(40));
    facts = after(&facts, gone);
    assert_eq!((facts.count_of(FileId(4)), facts.count()), (0, 2));
    facts = after(&facts, discards);
    assert_eq!(facts.count(), 2, "discards of a file that is gone are nothing");
    facts.retain(|file| file != FileId(6));
    assert_eq!((facts.count_of(FileId(5)), facts.count()), (1, 1));
}

#[test]
fn a_snapshot_keeps_generations() {
    let mut facts = after(&Facts::new(hash()), batch(&[(4, b"a", 9), (5, b"a", 9)]));
    facts = after(&facts, batch(&[(4, b"b", 10)]));
    let discards = pinned_discards(&facts, &[4]);
    facts = after(&facts, batch(&[(4, b"c", 11)]));
    let mut gone = FactBatch::new(hash());
    gone.drop_file(FileId(77));
    facts = after(&facts, gone);
    let again = Facts::new(hash()).apply(&decoded(&facts.snapshot())).unwrap();
    assert_eq!(contents(&again), contents(&facts));
    assert_eq!((again.generation(), facts.generation()), (Generation(4), Generation(4)));
    let next = after(&again, discards);
    assert_eq!(contents(&next).iter().map(|run| run.0).collect::<Vec<_>>(), [1, 3]);
    assert!(Facts::new(hash()).snapshot().is_empty());
}

#[test]
fn edits_that_contradict_the_directory_are_refused() {
    let facts = after(&Facts::new(hash()), batch(&[(4, b"a", 9)]));
    let refused = |edit: FactsEdit| {
        let edit = FactsEdit::decode(&edit.encode().payload).unwrap();
        let Err(error) = facts.apply(&[edit]) else { panic!("an edit is not refused") };
        assert_eq!(error.kind(), ErrorKind::Corruption);
    };
    refused(FactsEdit { generation: Some(Generation(1)), ..FactsEdit::default() });
    let discards = vec![Discard { file: FileId(4), upto: Generation(2) }];
    refused(FactsEdit { discards, ..FactsEdit::default() });
    let end = FactsEdit { generation: Some(Generation(GENERATION_MAX)), ..FactsEdit::default() };
    let full = facts.apply(&[end]).unwrap();
    assert!(full.apply(&decoded(&batch(&[(4, b"a", 9)]).encode())).is_err());
}

#[test]
fn runs_are_packed_and_taken_apart_again() {
    let mut facts = Facts::new(hash());
    for number in 0..2000u64 {
        facts = after(&facts, batch(&[(4, &number.to_be_bytes(), 1 + number)]));
    }
    assert_eq!(facts.count(), 2000);
    let pieces = &facts.files[0].pieces;
    assert!((3..20).contains(&pieces.len()), "{} pieces", pieces.len());
    assert!(pieces.iter().all(|piece| piece.bytes.len() <= PIECE_BYTES_MAX + 20));
    let whole = contents(&facts);
    for upto in [1, 2, 700, 701, 1999, 2000] {
        let mut discards = FactBatch::new(hash());
        discards.discard(&[Discard { file: FileId(4), upto: Generation(upto) }]);
        let left = after(&facts, discards);
        assert_eq!(left.count_of(FileId(4)), 2000 - upto);
        assert_eq!(contents(&left), whole[upto as usize..]);
    }
    let per_fact = facts.memory_bytes() / 2000;
    assert!(per_fact <= 8 + 12, "{per_fact} bytes for a fact of its own");
}

/// Bytes that facts take, on disk, in memory and pinned, beyond those of their keys: what the
/// format's page says.
#[test]
fn facts_are_small() {
    let (count, files) = (65_536u64, 64);
    for (name, key_bytes) in [("alike", 16u64), ("alike", 24), ("spread", 16), ("hashed", 16)] {
        let mut batch = FactBatch::new(hash());
        for number in 0..count {
            let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let key = match name {
                "alike" => {
                    let width = key_bytes as usize - 4;
                    format!("user{:0width$}", spread % 100_000_000).into_bytes()
                }
                "spread" => [spread.to_be_bytes(), spread.to_le_bytes()].concat(),
                _ => long_key(spread),
            };
            let file = FileId(1000 + number * 31 % files);
            batch.add(file, KEYSPACE, &key, 3_000_000_000 + number);
        }
        let sections = batch.encode();
        let disk: usize = sections.iter().map(|section| section.payload.len()).sum();
        let facts = Facts::new(hash()).apply(&decoded(&sections)).unwrap();
        assert_eq!(facts.count(), count);
        let all: Vec<FileId> = (1000..1000 + files).map(FileId).collect();
        let pinned = facts.pin(&[all]).unwrap();
        let each = |bytes: u64| bytes as f64 / count as f64;
        let (disk, memory) = (each(disk as u64), each(facts.memory_bytes()));
        let in_use = each(pinned.memory_bytes());
        println!(
            "facts keys={name} key_bytes={key_bytes} disk={disk:.2} memory={memory:.2} \
             pinned={in_use:.2}"
        );
        assert!(disk <= key_bytes as f64 + 6.0, "{disk} bytes on disk");
        assert!(memory <= key_bytes as f64 + 12.0, "{memory} bytes in memory");
        assert!(in_use <= key_bytes as f64 + 12.0, "{in_use} bytes pinned");
    }
}
