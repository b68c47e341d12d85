//! Round trips, and sections that no writer ever wrote.

use proptest::prelude::*;

use super::*;

fn table(id: u64, key: &str) -> TableMeta {
    TableMeta {
        file: FileId(id),
        bytes: 1000 + id,
        checksum: 0xdead_0000 + id as u32,
        entries: 12,
        tombstones: 3,
        range_tombstones: 1,
        merges: 2,
        smallest: key.as_bytes().into(),
        largest: format!("{key}z").into_bytes().into(),
        largest_exclusive: true,
        smallest_seq: 5,
        largest_seq: 17,
        raw_key_bytes: 40,
        raw_value_bytes: 400,
    }
}

fn sample(kind: EditKind) -> DecodedEdit {
    let removed =
        if kind == EditKind::Change { vec![(0, FileId(3)), (5, FileId(700))] } else { vec![] };
    DecodedEdit {
        keyspace: KeyspaceId(9),
        kind,
        removed,
        added: vec![
            AddedTable { level: 0, hidden: 0, meta: table(11, "a") },
            AddedTable { level: 6, hidden: 4, meta: table(12, "m") },
        ],
    }
}

#[test]
fn sections_round_trip() {
    for kind in [EditKind::Change, EditKind::Snapshot] {
        let edit = sample(kind);
        let section = edit.encode();
        assert_eq!(section.tag, SectionTag::LSM);
        assert_eq!(section_keyspace(&section).unwrap(), KeyspaceId(9));
        assert_eq!(DecodedEdit::decode(&section).unwrap(), edit);
    }
}

#[test]
fn the_golden_section_is_what_is_written() {
    let golden = include_bytes!("../../../../../../docs/format/golden/index-section-v1.bin");
    let annotated = include_str!("../../../../../../docs/format/golden/index-section-v1.txt");
    let page = include_str!("../../../../../../docs/format/index-sections.md");
    let edit = DecodedEdit {
        keyspace: KeyspaceId(9),
        kind: EditKind::Change,
        removed: vec![(0, FileId(3))],
        added: vec![AddedTable { level: 6, hidden: 0, meta: table(11, "a") }],
    };
    let section = edit.encode();
    assert_eq!(section.payload, golden);
    assert_eq!(DecodedEdit::decode(&section).unwrap(), edit);
    let hex: String = golden.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(annotated.lines().next(), Some(hex.as_str()));
    // Below the whole, its parts: each stands under the bytes that it explains.
    let parts = annotated.lines().skip(1).map(|line| line.split_whitespace().next().unwrap());
    assert_eq!(parts.collect::<String>(), hex);
    assert!(page.contains(annotated), "the page shows something else");
}

#[test]
fn every_truncation_and_addition_is_refused() {
    let section = sample(EditKind::Change).encode();
    for len in 0..section.payload.len() {
        let cut = Section { tag: section.tag, payload: section.payload[..len].to_vec() };
        assert!(DecodedEdit::decode(&cut).is_err(), "{len} bytes were accepted");
    }
    let mut longer = section.clone();
    longer.payload.push(0);
    assert!(DecodedEdit::decode(&longer).is_err());
    let other = Section { tag: SectionTag::NAIVE, payload: section.payload };
    assert!(DecodedEdit::decode(&other).is_err());
}

#[test]
fn wrong_numbers_are_refused() {
    let good = sample(EditKind::Snapshot).encode();
    let with = |at: usize, byte: u8| {
        let mut payload = good.payload.clone();
        payload[at] = byte;
        DecodedEdit::decode(&Section { tag: good.tag, payload })
    };
    let kind = |outcome: Result<DecodedEdit>| outcome.unwrap_err().kind();
    use crate::base::error::ErrorKind::{Corruption, Unsupported};
    assert_eq!(kind(with(4, 2)), Unsupported);
    assert_eq!(kind(with(5, 0)), Corruption);
    assert_eq!(kind(with(5, 3)), Corruption);
    // A huge count ends at the first item that is not there.
    let mut payload = 9u32.to_le_bytes().to_vec();
    payload.extend([VERSION, 1]);
    put_varint(&mut payload, u64::MAX);
    assert!(DecodedEdit::decode(&Section { tag: SectionTag::LSM, payload }).is_err());
    // Levels beyond the last do not exist.
    let mut edit = sample(EditKind::Change);
    edit.added[1].level = LEVELS;
    assert_eq!(kind(DecodedEdit::decode(&edit.encode())), Corruption);
}

proptest! {
    #[test]
    fn hostile_sections_do_no_harm(
        mut noise in prop::collection::vec(any::<u8>(), 0..80),
        at in 0..60usize,
        byte: u8,
        from_good: bool,
    ) {
        if from_good {
            noise = sample(EditKind::Change).encode().payload;
            if let Some(place) = noise.get_mut(at) {
                *place = byte;
            }
        }
        let section = Section { tag: SectionTag::LSM, payload: noise };
        if let Ok(edit) = DecodedEdit::decode(&section) {
            // What is accepted has one meaning.
            prop_assert_eq!(DecodedEdit::decode(&edit.encode()).unwrap(), edit);
        }
    }
}
