//! Round trips, hostile sections, and the golden file.

use super::*;
use crate::log::dump::Annotator;
use crate::log::testing::check_golden;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::run::tests::any_lines;
use crate::values::drops::testing::{KEYSPACE, batch, hash, long_key};
use proptest::prelude::*;

/// A section as an engine may write it.
fn any_edit() -> impl Strategy<Value = FactsEdit> {
    let files = || proptest::collection::btree_set(1..30u64, 0..5);
    let runs = proptest::collection::btree_map(1..30u64, any_lines(), 0..4);
    let generation = proptest::option::of(1..=GENERATION_MAX);
    (generation, files(), files(), 1..=GENERATION_MAX, runs).prop_filter_map(
        "says nothing",
        |(generation, dropped, discards, upto, runs)| {
            let mut edit =
                FactsEdit { generation: generation.map(Generation), ..Default::default() };
            if edit.generation.is_none() {
                let is_left = |file: &u64| !dropped.contains(file);
                let discard = |file| Discard { file: FileId(file), upto: Generation(upto) };
                edit.discards = discards.into_iter().filter(is_left).map(discard).collect();
                edit.dropped = dropped.into_iter().map(FileId).collect();
            }
            for (file, lines) in runs {
                if !edit.dropped.contains(&FileId(file)) {
                    let run = Run::new(lines.iter().copied());
                    edit.runs.push(FileRun { file: FileId(file), run });
                }
            }
            (!edit.is_empty()).then_some(edit)
        },
    )
}

proptest! {
    #[test]
    fn sections_round_trip(edit in any_edit()) {
        let section = edit.encode();
        prop_assert_eq!(section.tag, SectionTag::FACTS);
        prop_assert_eq!(FactsEdit::decode(&section.payload).unwrap(), edit);
    }

    #[test]
    fn a_damaged_section_has_one_encoding_or_none(edit in any_edit(), cut: prop::sample::Index) {
        let sound = edit.encode().payload;
        for at in 0..sound.len() * 8 {
            let mut payload = sound.clone();
            payload[at / 8] ^= 1 << (at % 8);
            if let Ok(other) = FactsEdit::decode(&payload) {
                prop_assert_ne!(&other, &edit);
                prop_assert_eq!(other.encode().payload, payload);
            }
        }
        let cut = &sound[..cut.index(sound.len())];
        if let Ok(other) = FactsEdit::decode(cut) {
            prop_assert_eq!(&*other.encode().payload, cut);
        }
    }

    #[test]
    fn noise_has_one_encoding_or_none(mut payload: Vec<u8>) {
        for _ in 0..2 {
            if let Ok(edit) = FactsEdit::decode(&payload) {
                prop_assert_eq!(edit.encode().payload, payload.clone());
            }
            if let Some(first) = payload.first_mut() {
                *first = VERSION;
            }
        }
    }
}

#[test]
fn sections_that_no_engine_writes_are_refused() {
    let kind = |payload: &[u8]| FactsEdit::decode(payload).unwrap_err().kind();
    let sound = [VERSION, 0, 1, 2, 4, 1, 2, 1, 9, 7];
    assert!(FactsEdit::decode(&sound).is_ok(), "files 4, 5 dropped; file 9 read up to 7");
    assert_eq!(kind(&[VERSION + 1, 0]), ErrorKind::Unsupported, "a later version");
    assert_eq!(kind(&[VERSION, 0, 4, 1, 1]), ErrorKind::Unsupported, "facts in another file");
    for (payload, why) in [
        (&[][..], "nothing"),
        (&[VERSION], "no generation"),
        (&[VERSION, 0], "nothing to say"),
        (&[VERSION, 0, 0, 1, 4], "part zero"),
        (&[VERSION, 0, 5, 1, 4], "an unknown part"),
        (&[VERSION, 0, 1, 0], "an empty part"),
        (&[VERSION, 0, 1, 1, 0], "file zero"),
        (&[VERSION, 0, 1, 2, 4, 0], "a file twice"),
        (&[VERSION, 0, 1, 2, 4], "fewer files than it says"),
        (&[VERSION, 0, 1, 1, 4, 1, 1, 5], "a part twice"),
        (&[VERSION, 0, 2, 1, 4, 7, 1, 1, 5], "parts out of order"),
        (&[VERSION, 0, 1, 1, 4, 2, 1, 4, 7], "a file dropped and read"),
        (&[VERSION, 0, 2, 1, 4, 0], "read up to generation zero"),
        (&[VERSION, 3, 1, 1, 4], "a snapshot that drops"),
        (&[VERSION, 3, 2, 1, 4, 1], "a snapshot that has read"),
        (
            &[VERSION, 0, 1, 1, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40],
            "file 2^62 + 1",
        ),
        (&[VERSION, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40], "generation 2^62 + 1"),
    ] {
        assert_eq!(kind(payload), ErrorKind::Corruption, "{why}");
    }
    let mut edit = FactsEdit::decode(&batch(&[(4, b"key", 9)]).encode()[0].payload).unwrap();
    edit.dropped = vec![FileId(4)];
    assert_eq!(kind(&edit.encode().payload), ErrorKind::Corruption, "facts of a file that goes");
}

/// The section of the golden file, with what each part of it means.
#[test]
fn golden_section() {
    let mut batch = FactBatch::new(hash());
    batch.add(FileId(15), KEYSPACE, b"apple", 1002);
    batch.add(FileId(15), KEYSPACE, b"apple", 1400);
    batch.add(FileId(15), KEYSPACE, b"apricot", 1001);
    batch.add(FileId(15), KEYSPACE, &long_key(1), 1003);
    batch.add_moved(FileId(15), KEYSPACE, b"plum", 977);
    batch.add(FileId(21), KEYSPACE, b"pear", 1004);
    batch.drop_file(FileId(9));
    batch.drop_file(FileId(12));
    batch.discard(&[Discard { file: FileId(7), upto: Generation(300) }]);
    let sections = batch.encode();
    assert_eq!(sections.len(), 1);
    let payload = &sections[0].payload;
    let mut dump = String::new();
    let mut lines = Annotator::new(payload, &mut dump);
    lines.field(1, "version 1");
    lines.field(1, "generation: one more than the last");
    lines.field(2, "dropped: 2 files");
    lines.field(2, "file 9, 3 more");
    lines.field(2, "discarded: 1 file");
    lines.field(3, "file 7, up to generation 300");
    lines.field(2, "stated: 2 files");
    lines.field(1, "file 15");
    lines.field(1 + 2, "5 facts, smallest seq 977");
    lines.field(2 + 6 + 1, "keyspace 3, key apple: superseded by seq 1002");
    lines.field(2 + 2, "all of it shared: by seq 1400");
    lines.field(2 + 5 + 1, "3 bytes shared, apricot: superseded by seq 1001");
    lines.field(2 + 17 + 1, "keyspace 3, a long key's hash: superseded by seq 1003");
    lines.field(2 + 5 + 1, "keyspace 3, key plum: moved, seq 977");
    lines.field(1, "6 more: file 21");
    lines.field(1 + 2, "1 fact, smallest seq 1004");
    lines.field(2 + 5 + 1, "keyspace 3, key pear: superseded by seq 1004");
    assert!(lines.rest().is_empty());
    assert_eq!(FactsEdit::decode(payload).unwrap().encode(), sections[0]);
    check_golden("facts-section", u32::from(VERSION), payload, &dump);
}
