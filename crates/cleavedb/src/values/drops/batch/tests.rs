//! What a batch says, in how many sections and bytes.

use super::*;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::Generation;
use crate::values::drops::subject::FactKind;
use crate::values::drops::testing::{KEYSPACE, batch, contents, decoded, hash, line, long_key};

#[test]
fn an_empty_batch_has_no_section() {
    let batch = FactBatch::new(hash());
    assert!(batch.is_empty());
    assert!(batch.encode().is_empty());
}

#[test]
fn facts_are_sorted_and_repetitions_left_out() {
    let mut batch = batch(&[(9, b"b", 7), (4, b"b", 7), (4, b"a", 9), (4, b"a", 8), (4, b"b", 7)]);
    batch.add_moved(FileId(4), KEYSPACE, b"b", 7);
    assert_eq!(batch.facts(), 6);
    assert!(batch.memory_bytes() > 0 && !batch.is_empty());
    let facts = Facts::new(hash()).apply(&decoded(&batch.encode())).unwrap();
    let superseded = |key: &[u8], seq| line(FactKind::Superseded, key, seq);
    let of_4 = vec![
        superseded(b"a", 8),
        superseded(b"a", 9),
        superseded(b"b", 7),
        line(FactKind::Moved, b"b", 7),
    ];
    assert_eq!(contents(&facts), [(1, 4, of_4), (1, 9, vec![superseded(b"b", 7)])]);
}

#[test]
fn a_dropped_file_takes_its_facts_along() {
    let mut batch = batch(&[(4, b"a", 9), (5, b"a", 9)]);
    batch.drop_file(FileId(4));
    batch.drop_file(FileId(4));
    let discard = |file, upto| Discard { file: FileId(file), upto: Generation(upto) };
    batch.discard(&[discard(4, 1), discard(6, 2), discard(6, 5), discard(3, 1)]);
    let edits = decoded(&batch.encode());
    assert_eq!(edits.len(), 1);
    assert_eq!(edits[0].dropped, [FileId(4)]);
    assert_eq!(edits[0].discards, [discard(3, 1), discard(6, 5)]);
    assert_eq!(edits[0].runs.iter().map(|stated| stated.file).collect::<Vec<_>>(), [FileId(5)]);
}

#[test]
fn many_facts_take_several_sections_which_say_the_same() {
    let mut batch = FactBatch::new(hash());
    for number in 0..3000u64 {
        let key = if number % 10 == 0 { long_key(number) } else { number.to_be_bytes().to_vec() };
        batch.add(FileId(1 + number % 7 * (number % 3)), KEYSPACE, &key, 1 + number);
    }
    batch.drop_file(FileId(50));
    let whole = batch.clone().encode();
    assert_eq!(whole.len(), 1);
    let bytes = 4096;
    let parts = batch.encode_in(bytes);
    assert!(parts.len() > 8, "{} parts", parts.len());
    for part in &parts {
        assert!(part.payload.len() < bytes + LINE_BYTES_MAX + RUN_HEADER_BYTES_MAX);
    }
    let all = |sections: &[Section]| {
        let facts = Facts::new(hash()).apply(&decoded(sections)).unwrap();
        assert_eq!(facts.count(), 3000);
        let mut found: Vec<_> = contents(&facts)
            .into_iter()
            .flat_map(|(_, file, lines)| lines.into_iter().map(move |line| (file, line)))
            .collect();
        found.sort_unstable();
        found
    };
    assert_eq!(all(&parts), all(&whole));
    let dropped: usize = decoded(&parts).iter().map(|edit| edit.dropped.len()).sum();
    assert_eq!(dropped, 1);
}

#[test]
fn facts_of_a_long_job_are_packed_on_the_way() {
    let facts = 3 * UNPACKED.end() + 5;
    let (mut whole, mut packed) = (FactBatch::new(hash()), FactBatch::new(hash()));
    let mut most = 0;
    for number in 0..facts {
        // Keys of 16 bytes, in an order that is not that of their files.
        let key = [number.to_be_bytes(), (number % 11).to_be_bytes()].concat();
        for batch in [&mut whole, &mut packed] {
            batch.add(FileId(1 + number % 40), KEYSPACE, &key, 1000 + number);
        }
        packed.pack_beyond(u64::MAX);
        most = most.max(packed.memory_bytes());
    }
    assert_eq!((packed.facts(), packed.packed.len()), (facts, 3));
    assert!(most * 2 < whole.memory_bytes(), "{most} of {}", whole.memory_bytes());
    let all = |batch: FactBatch| {
        let facts = Facts::new(hash()).apply(&decoded(&batch.encode())).unwrap();
        let of_file = contents(&facts).into_iter();
        let mut lines: Vec<_> = of_file
            .flat_map(|(_, file, lines)| lines.into_iter().map(move |line| (file, line)))
            .collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(all(packed), all(whole));
}

#[test]
fn what_may_wait_to_be_packed_goes_by_the_bytes_there_are() {
    for (bytes_max, sections) in [(0, 3), (1 << 10, 3), (20 << 6, 2), (1 << 20, 0)] {
        let mut batch = FactBatch::new(hash());
        for seq in 1..=50 {
            batch.add(FileId(1), KEYSPACE, b"key", seq);
            batch.pack_beyond(bytes_max);
        }
        assert_eq!((batch.facts(), batch.packed.len()), (50, sections));
        let facts = Facts::new(hash()).apply(&decoded(&batch.encode())).unwrap();
        assert_eq!(facts.count(), 50);
    }
}
