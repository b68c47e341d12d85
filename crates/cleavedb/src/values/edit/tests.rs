//! Round trips and hostile sections.

use super::*;
use crate::base::runs::Run;
use proptest::prelude::*;

pub(crate) fn any_edit() -> impl Strategy<Value = ValuesEdit> {
    let sealed = (1..50u64, 0..1000u64, any::<u32>(), 1..1u64 << 40, 0..900u64, any::<u32>());
    prop_oneof![
        (1..50u64).prop_map(|id| ValuesEdit::Added { id: FileId(id) }),
        (1..50u64).prop_map(|id| ValuesEdit::Removed { id: FileId(id) }),
        (1..50u64, any::<i64>(), any::<i64>()).prop_map(|(id, refs, ref_bytes)| {
            ValuesEdit::Counted { id: FileId(id), refs, ref_bytes }
        }),
        (1..50u64, any::<u32>(), 17..u64::from(u32::MAX), 1..1000u64).prop_map(
            |(id, checksum, value_bytes, seq)| {
                let sealed = Sealed { id: FileId(id), bytes: value_bytes + 100, checksum };
                ValuesEdit::AddedLarge(LargeInfo { sealed, value_bytes, seq })
            }
        ),
        (1..50u64, crate::log::punched::tests::any_punched()).prop_map(|(id, punched)| {
            ValuesEdit::Punched { id: FileId(id), punched: Arc::new(punched) }
        }),
        any_container().prop_map(|info| ValuesEdit::Rewritten(Arc::new(info))),
        any_container().prop_map(|info| ValuesEdit::Held(Arc::new(info))),
        sealed.prop_map(|(id, records, checksum, smallest_seq, keys, extra)| {
            let totals = Totals {
                records,
                record_bytes: records * 1000,
                key_bytes: if records == 0 { 0 } else { keys.min(records * 900) },
                value_bytes: if records == 0 { 0 } else { u64::from(extra >> 8) },
                smallest_seq: if records == 0 { 0 } else { smallest_seq },
                largest_seq: if records == 0 { 0 } else { smallest_seq + records },
            };
            let bytes = totals.record_bytes + u64::from(extra);
            let sealed = Sealed { id: FileId(id), bytes, checksum };
            let last_seq = totals.largest_seq + u64::from(extra);
            ValuesEdit::Sealed(SealedValues { sealed, last_seq, totals })
        }),
    ]
}

fn any_container() -> impl Strategy<Value = ContainerInfo> {
    let files = proptest::collection::btree_map(1..=FILE_ID_MAX, 1..=u32::MAX, 1..6);
    (1..=FILE_ID_MAX, 1..1000u64, any::<u32>(), files).prop_map(|(id, records, extra, files)| {
        let totals = Totals {
            records,
            record_bytes: records * 1000,
            key_bytes: records,
            value_bytes: u64::from(extra >> 8),
            smallest_seq: 9,
            // Copies of one record may stand there.
            largest_seq: 9 + records / 2,
        };
        let bytes = totals.record_bytes + u64::from(extra);
        let sealed = Sealed { id: FileId(id), bytes, checksum: extra };
        let files = files.into_iter().map(|(file, epoch)| (FileId(file), epoch)).collect();
        ContainerInfo { sealed, totals, files }
    })
}

proptest! {
    #[test]
    fn sections_round_trip(edits in proptest::collection::vec(any_edit(), 0..12)) {
        let section = ValuesEdit::encode(&edits);
        prop_assert_eq!(section.tag, SectionTag::VALUES);
        prop_assert_eq!(ValuesEdit::decode(&section.payload).unwrap(), edits);
    }

    #[test]
    fn hostile_sections_have_one_encoding_or_none(mut payload: Vec<u8>) {
        for _ in 0..2 {
            if let Ok(edits) = ValuesEdit::decode(&payload) {
                prop_assert_eq!(ValuesEdit::encode(&edits).payload, payload.clone());
            }
            if let Some(first) = payload.first_mut() {
                *first = VERSION;
            }
        }
    }
}

#[test]
fn sections_that_no_engine_writes_are_refused() {
    let kind = |payload: &[u8]| ValuesEdit::decode(payload).unwrap_err().kind();
    assert_eq!(kind(&[]), ErrorKind::Corruption);
    assert_eq!(kind(&[VERSION + 1]), ErrorKind::Unsupported, "a later version");
    assert_eq!(kind(&[VERSION, 9, 1]), ErrorKind::Corruption, "an unknown edit");
    assert_eq!(kind(&[VERSION, 1, 0]), ErrorKind::Corruption, "file zero");
    let totals = Totals {
        records: 1,
        record_bytes: 30,
        key_bytes: 1,
        value_bytes: 2,
        smallest_seq: 7,
        largest_seq: 7,
    };
    let sealed = Sealed { id: FileId(1), bytes: 200, checksum: 1 };
    let decode = |bytes, last_seq| {
        let sealed = SealedValues { sealed: Sealed { bytes, ..sealed }, last_seq, totals };
        ValuesEdit::decode(&ValuesEdit::encode(&[ValuesEdit::Sealed(sealed)]).payload)
    };
    assert!(decode(200, 7).is_ok());
    assert!(decode(29, 7).is_err(), "records larger than their file");
    assert!(decode(200, 6).is_err(), "a record newer than its file");
    assert!(decode(200, SEQ_MAX + 1).is_err(), "a seq out of range");
    let large = |value_bytes, bytes, seq| {
        let sealed = Sealed { id: FileId(5), bytes, checksum: 7 };
        ValuesEdit::encode(&[ValuesEdit::AddedLarge(LargeInfo { sealed, value_bytes, seq })])
    };
    assert!(ValuesEdit::decode(&large(17, 120, 1).payload).is_ok());
    let longest = LARGE_VALUE_BYTES_MAX;
    for wrong in [
        large(16, 120, 1),
        large(17, 17, 1),
        large(17, 120, 0),
        large(17, 120, SEQ_MAX + 1),
        large(longest + 1, longest + 100, 1),
    ] {
        assert_eq!(kind(&wrong.payload), ErrorKind::Corruption);
    }
}

#[test]
fn containers_that_cannot_be_are_refused() {
    let totals = Totals {
        records: 2,
        record_bytes: 60,
        key_bytes: 2,
        value_bytes: 4,
        smallest_seq: 7,
        largest_seq: 7,
    };
    let refused = |change: &dyn Fn(&mut ContainerInfo)| {
        let sealed = Sealed { id: FileId(9), bytes: 200, checksum: 1 };
        let files = vec![(FileId(3), 1), (FileId(5), 2)];
        let mut info = ContainerInfo { sealed, totals, files };
        change(&mut info);
        [ValuesEdit::Rewritten, ValuesEdit::Held].map(|edit| {
            let payload = ValuesEdit::encode(&[edit(Arc::new(info.clone()))]).payload;
            ValuesEdit::decode(&payload).err().map(|error| error.kind())
        })
    };
    assert_eq!(refused(&|_| {}), [None; 2]);
    let corruption = [Some(ErrorKind::Corruption); 2];
    assert_eq!(refused(&|info| info.files.clear()), corruption, "no file");
    assert_eq!(refused(&|info| info.files[0].1 = 0), corruption, "an epoch of segments");
    assert_eq!(refused(&|info| info.files[1].0 = FileId(3)), corruption, "a file twice");
    assert_eq!(refused(&|info| info.files[0].0 = FileId(0)), corruption, "file zero");
    assert_eq!(refused(&|info| info.files[1].0 = FileId(FILE_ID_MAX + 1)), corruption);
    assert_eq!(refused(&|info| info.sealed.id = FileId(FILE_ID_MAX + 1)), corruption);
    assert_eq!(refused(&|info| info.sealed.bytes = 59), corruption, "records beyond its end");
    assert_eq!(refused(&|info| info.totals.smallest_seq = 0), corruption, "seq zero");
    // As many files as there could be are not believed.
    let sealed = Sealed { id: FileId(9), bytes: 200, checksum: 1 };
    let info = ContainerInfo { sealed, totals, files: vec![(FileId(3), 1)] };
    let mut payload = ValuesEdit::encode(&[ValuesEdit::Held(Arc::new(info))]).payload;
    payload.truncate(payload.len() - 3);
    put_varint(&mut payload, u64::MAX >> 1);
    payload.extend([3, 1]);
    assert_eq!(ValuesEdit::decode(&payload).unwrap_err().kind(), ErrorKind::Corruption);
}

/// The edits of the golden section.
fn golden_edits() -> [ValuesEdit; 9] {
    let totals = Totals {
        records: 3,
        record_bytes: 4000,
        key_bytes: 30,
        value_bytes: 9000,
        smallest_seq: 41,
        largest_seq: 46,
    };
    let sealed = Sealed { id: FileId(15), bytes: 5000, checksum: 0xdead_beef };
    let large = Sealed { id: FileId(22), bytes: 9_000_137, checksum: 0xabad_cafe };
    let runs = [Run { start: 80, end: 1190 }, Run { start: 3000, end: 4200 }];
    let punched =
        Punched { runs: runs.into(), records: 2, record_bytes: 2200, checksum: 0xfeed_f00d };
    let rewritten = ContainerInfo {
        sealed: Sealed { id: FileId(33), bytes: 6000, checksum: 0xfade_d0ff },
        totals,
        files: vec![(FileId(12), 3), (FileId(15), 1)],
    };
    let held = ContainerInfo {
        sealed: Sealed { id: FileId(30), bytes: 4200, checksum: 0xc0ff_ee11 },
        totals,
        files: vec![(FileId(4), 2)],
    };
    [
        ValuesEdit::Sealed(SealedValues { sealed, last_seq: 47, totals }),
        ValuesEdit::Added { id: FileId(21) },
        ValuesEdit::Counted { id: FileId(15), refs: 3, ref_bytes: 4000 },
        ValuesEdit::Counted { id: FileId(12), refs: -2, ref_bytes: -2100 },
        ValuesEdit::Removed { id: FileId(9) },
        ValuesEdit::AddedLarge(LargeInfo { sealed: large, value_bytes: 9_000_000, seq: 48 }),
        ValuesEdit::Punched { id: FileId(15), punched: Arc::new(punched) },
        ValuesEdit::Rewritten(Arc::new(rewritten)),
        ValuesEdit::Held(Arc::new(held)),
    ]
}

/// The golden section, with what each part of it means.
#[test]
fn golden_section() {
    use crate::log::dump::Annotator;
    use crate::log::testing::check_golden;
    let edits = golden_edits();
    let payload = ValuesEdit::encode(&edits).payload;
    let mut dump = String::new();
    let mut lines = Annotator::new(&payload, &mut dump);
    lines.field(1, "version 4");
    lines.field(2, "sealed: file 15");
    lines.field(2 + 5, "5000 bytes, checksum deadbeef");
    lines.field(1, "last seq 47");
    lines.field(1 + 2, "3 records of 4000 bytes");
    lines.field(1 + 2, "keys of 30 bytes, values of 9000");
    lines.field(1 + 1, "smallest seq 41, largest 46");
    lines.field(2, "added: file 21");
    lines.field(2, "counted: file 15");
    lines.field(1 + 2, "3 entries more, 4000 bytes more");
    lines.field(2, "counted: file 12");
    lines.field(1 + 2, "2 entries fewer, 2100 bytes fewer");
    lines.field(2, "removed: file 9");
    lines.field(2, "large value added: file 22");
    lines.field(4 + 5, "9000137 bytes, checksum abadcafe");
    lines.field(4 + 1, "9000000 of the value, seq 48");
    lines.field(2, "punched: file 15");
    lines.field(1 + 2, "2 records of 2200 bytes are gone");
    lines.field(5, "checksum of the headers left feedf00d");
    lines.field(1, "2 runs");
    lines.field(1 + 2, "from byte 80 on, 1110 bytes");
    lines.field(2 + 2, "1810 bytes behind it, 1200 bytes");
    lines.field(2, "rewritten: into container 33");
    lines.field(2 + 5, "6000 bytes, checksum faded0ff");
    lines.field(1 + 2, "3 records of 4000 bytes");
    lines.field(1 + 2, "keys of 30 bytes, values of 9000");
    lines.field(1 + 1, "smallest seq 41, largest 46");
    lines.field(1, "2 files");
    lines.field(1 + 1, "file 12, epoch 3");
    lines.field(1 + 1, "file 15, epoch 1");
    lines.field(2, "held: in container 30");
    lines.field(2 + 5, "4200 bytes, checksum c0ffee11");
    lines.field(1 + 2, "3 records of 4000 bytes");
    lines.field(1 + 2, "keys of 30 bytes, values of 9000");
    lines.field(1 + 1, "smallest seq 41, largest 46");
    lines.field(1, "1 file");
    lines.field(1 + 1, "file 4, epoch 2");
    assert!(lines.rest().is_empty());
    assert_eq!(ValuesEdit::decode(&payload).unwrap(), edits);
    check_golden("values-section", 4, &payload, &dump);
}
