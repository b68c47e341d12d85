//! Round trips, hostile sections, and the golden file.

use super::*;
use crate::log::dump::Annotator;
use crate::log::testing::check_golden;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::run::tests::any_lines;
use crate::values::drops::spilled::named::SpilledPart;
use crate::values::drops::testing::{KEYSPACE, batch, hash, long_key};
use proptest::prelude::*;

/// A file of facts as an engine may name it.
fn any_spilled() -> impl Strategy<Value = SpilledFile> {
    let parts = proptest::collection::vec((0..3u64, 0..50u64, 40..200u32, 1..40u64, 1..9u64), 1..3);
    (1..60u64, any::<u32>(), 10..GENERATION_MAX, parts).prop_map(|(id, checksum, upto, parts)| {
        let (mut file, mut end, mut made) = (1, 64, Vec::new());
        for (step, gap, bytes, facts, age) in parts {
            (file, end) = (file + step, end + gap + u64::from(bytes));
            made.push(SpilledPart {
                file: FileId(file),
                offset: end - u64::from(bytes),
                bytes,
                facts,
                after: Generation((upto - age).saturating_sub(3)),
                newest: Generation(upto - age),
            });
        }
        let (id, upto) = (FileId(id), Generation(upto));
        SpilledFile { id, bytes: end + 36, checksum, upto, parts: made }
    })
}

/// A section as an engine may write it.
fn any_edit() -> impl Strategy<Value = FactsEdit> {
    let files = || proptest::collection::btree_set(1..30u64, 0..5);
    let runs = proptest::collection::btree_map(1..30u64, any_lines(), 0..4);
    let generation = proptest::option::of(1..=GENERATION_MAX);
    let spilled = (proptest::option::of(any_spilled()), files());
    (generation, files(), files(), 1..=GENERATION_MAX, runs, spilled).prop_filter_map(
        "says nothing",
        |(generation, dropped, discards, upto, runs, (spilled, merged))| {
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
            edit.spilled.extend(spilled);
            if let (Some(generation), Some(spilled)) = (edit.generation, edit.spilled.first()) {
                edit.generation = Some(generation.max(spilled.upto));
                edit.runs.clear();
            } else if let Some(spilled) = edit.spilled.first() {
                edit.merged = merged.into_iter().map(FileId).collect();
                edit.merged.retain(|id| *id != spilled.id);
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
    let part = SpilledPart {
        file: FileId(7),
        offset: 64,
        bytes: 50,
        facts: 3,
        after: Generation(2),
        newest: Generation(5),
    };
    let (id, upto) = (FileId(30), Generation(9));
    let named = |part: SpilledPart| {
        let spilled = SpilledFile { id, bytes: 150, checksum: 1, upto, parts: vec![part] };
        FactsEdit { spilled: vec![spilled], ..FactsEdit::default() }.encode().payload
    };
    assert!(FactsEdit::decode(&named(part)).is_ok(), "facts of file 7, in file 30");
    for (part, why) in [
        (SpilledPart { offset: 65, ..part }, "a part in the trailer"),
        (SpilledPart { bytes: 39, ..part }, "a part too short for a fact"),
        (SpilledPart { facts: 0, ..part }, "a part of no facts"),
        (SpilledPart { facts: 51, ..part }, "more facts than bytes"),
        (SpilledPart { after: Generation(5), ..part }, "a part of which nothing counts"),
        (SpilledPart { file: FileId(0), ..part }, "facts of file zero"),
    ] {
        assert_eq!(kind(&named(part)), ErrorKind::Corruption, "{why}");
    }
    for (payload, why) in [
        (&[][..], "nothing"),
        (&[VERSION], "no generation"),
        (&[VERSION, 0], "nothing to say"),
        (&[VERSION, 0, 0, 1, 4], "part zero"),
        (&[VERSION, 0, 6, 1, 4], "an unknown part"),
        (&[VERSION, 0, 5, 1, 4], "files merged into none"),
        (&[VERSION, 0, 4, 1, 4], "a file of facts without bytes"),
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
    let mut edit = FactsEdit::decode(&sections[0].payload).unwrap();
    let part = |file, offset, facts, after, newest| {
        let (file, bytes) = (FileId(file), 70);
        let (after, newest) = (Generation(after), Generation(newest));
        SpilledPart { file, offset, bytes, facts, after, newest }
    };
    let parts = vec![part(7, 64, 4, 300, 302), part(21, 200, 5, 0, 310)];
    let (id, upto) = (FileId(44), Generation(312));
    edit.spilled = vec![SpilledFile { id, bytes: 306, checksum: 0xdead_beef, upto, parts }];
    edit.merged = vec![FileId(31), FileId(38)];
    let sections = [edit.encode()];
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
    lines.field(2, "spilled: 1 file");
    lines.field(1, "file 44");
    lines.field(2, "of 306 bytes");
    lines.field(4, "checksum of its parts");
    lines.field(2 + 1, "facts up to generation 312, 2 parts");
    lines.field(2 + 2, "file 7: behind the header, 70 bytes, 4 facts");
    lines.field(1 + 2, "newest 10 generations before, read up to 300");
    lines.field(2 + 2, "14 more, file 21: 66 bytes further, 70 bytes, 5 facts");
    lines.field(1 + 1, "newest 2 generations before, nothing read");
    lines.field(2, "merged: 2 files");
    lines.field(2, "file 31, 7 more");
    assert!(lines.rest().is_empty());
    assert_eq!(FactsEdit::decode(payload).unwrap().encode(), sections[0]);
    check_golden("facts-section", u32::from(VERSION), payload, &dump);
}
