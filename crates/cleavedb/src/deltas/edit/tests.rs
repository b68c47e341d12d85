//! Round trips, hostile sections, and the golden file.

use super::*;
use crate::deltas::testing::{lowest, start};
use crate::log::dump::Annotator;
use crate::log::testing::check_golden;
use proptest::prelude::*;

fn any_info() -> impl Strategy<Value = BucketInfo> {
    (1..=FILE_ID_MAX, 64..9000u32, 1..900u32, 0..9000u32, any::<u32>(), 0..=SEQ_MAX, 0..60u64)
        .prop_map(|(id, pages_end, meta, unsorted, checksum, applied_seq, records)| BucketInfo {
            id: FileId(id),
            start: lowest(),
            pages_end,
            sorted_bytes: pages_end + meta,
            bytes: pages_end + meta + unsorted,
            checksum,
            applied_seq,
            records,
        })
}

fn any_start() -> impl Strategy<Value = OwnedBound> {
    proptest::collection::vec(any::<u8>(), 0..5).prop_map(|key| start(&key))
}

fn any_edit() -> impl Strategy<Value = DeltasEdit> {
    let removed = (1..=FILE_ID_MAX, any::<u32>())
        .prop_map(|(id, bytes)| RemovedBucket { id: FileId(id), bytes });
    let removed = proptest::collection::vec(removed, 0..4);
    let added = proptest::collection::btree_map(any_start(), any_info(), 0..4);
    let appended = (any_start(), any_info(), 13..5000u32, 1..=SEQ_MAX, 1..13u64);
    prop_oneof![
        (any_start(), removed, added).prop_filter_map("nothing", |(at, removed, added)| {
            let added: Vec<_> =
                (added.into_iter()).map(|(start, info)| BucketInfo { start, ..info }).collect();
            let start = added.first().map_or(at, |first| first.start.clone());
            let says_something = !(removed.is_empty() && added.is_empty());
            says_something.then_some(DeltasEdit::Replaced { start, removed, added })
        }),
        appended.prop_map(|(start, before, bytes, applied_seq, records)| {
            let before = BucketInfo { start, bytes: before.bytes + 1, ..before };
            let bytes = before.bytes + bytes;
            let records = before.records + records;
            let after = BucketInfo { bytes, checksum: 7, applied_seq, records, ..before.clone() };
            DeltasEdit::appended(&before, &after)
        }),
    ]
}

proptest! {
    #[test]
    fn sections_round_trip(edits in proptest::collection::vec(any_edit(), 0..8)) {
        let section = DeltasEdit::encode(&edits);
        prop_assert_eq!(section.tag, SectionTag::DELTAS);
        prop_assert_eq!(DeltasEdit::decode(&section.payload).unwrap(), edits);
    }

    #[test]
    fn a_damaged_section_has_one_encoding_or_none(edit in any_edit(), cut: prop::sample::Index) {
        let sound = DeltasEdit::encode(std::slice::from_ref(&edit)).payload;
        for at in 0..sound.len() * 8 {
            let mut payload = sound.clone();
            payload[at / 8] ^= 1 << (at % 8);
            if let Ok(other) = DeltasEdit::decode(&payload) {
                prop_assert_eq!(DeltasEdit::encode(&other).payload, payload);
                prop_assert_ne!(other.as_slice(), std::slice::from_ref(&edit));
            }
        }
        let cut = &sound[..cut.index(sound.len())];
        if let Ok(other) = DeltasEdit::decode(cut) {
            prop_assert_eq!(&*DeltasEdit::encode(&other).payload, cut);
        }
    }

    #[test]
    fn hostile_sections_have_one_encoding_or_none(mut payload: Vec<u8>) {
        if let Some(first) = payload.first_mut() {
            *first = VERSION;
        }
        if let Ok(edits) = DeltasEdit::decode(&payload) {
            prop_assert_eq!(DeltasEdit::encode(&edits).payload, payload);
        }
    }
}

fn info(id: u64, start: OwnedBound) -> BucketInfo {
    BucketInfo {
        id: FileId(id),
        start,
        pages_end: 4000,
        sorted_bytes: 4300,
        bytes: 4300,
        checksum: 0xabad_cafe,
        applied_seq: 900,
        records: 31,
    }
}

#[test]
fn sections_that_no_engine_writes_are_refused() {
    let kind = |payload: &[u8]| DeltasEdit::decode(payload).unwrap_err().kind();
    assert_eq!(kind(&[]), ErrorKind::Corruption);
    assert_eq!(kind(&[VERSION + 1]), ErrorKind::Unsupported, "a later version");
    assert_eq!(kind(&[VERSION, 3, 0, 0]), ErrorKind::Corruption, "an unknown edit");
    assert_eq!(kind(&[VERSION, 2, 0, 0, 0, 0]), ErrorKind::Corruption, "of nothing by nothing");
    let added = |added: Vec<BucketInfo>| {
        let edit = DeltasEdit::Replaced { start: start(b"a"), removed: Vec::new(), added };
        DeltasEdit::decode(&DeltasEdit::encode(&[edit]).payload)
    };
    let sound = info(5, start(b"a"));
    assert!(added(vec![sound.clone(), info(6, start(b"b"))]).is_ok());
    assert!(added(vec![sound.clone(), info(6, start(b"a"))]).is_err(), "twice the same start");
    let large = BUCKET_BYTES_MAX as u32;
    for wrong in [
        BucketInfo { id: FileId(0), ..sound.clone() },
        BucketInfo { pages_end: 63, ..sound.clone() },
        BucketInfo { sorted_bytes: 4000, ..sound.clone() },
        BucketInfo { bytes: large + 1, ..sound.clone() },
        BucketInfo { applied_seq: SEQ_MAX + 1, ..sound.clone() },
        BucketInfo { records: 4301, ..sound.clone() },
    ] {
        assert!(added(vec![wrong.clone()]).is_err(), "{wrong:?}");
    }
    let after = |bytes, applied_seq, records| {
        let after = BucketInfo { bytes, applied_seq, records, ..sound.clone() };
        let edit = DeltasEdit::appended(&sound, &after);
        DeltasEdit::decode(&DeltasEdit::encode(&[edit]).payload)
    };
    assert!(after(4400, 901, 32).is_ok());
    assert!(after(4312, 901, 32).is_err(), "no chunk is so short");
    assert!(after(large + 1, 901, 32).is_err());
    assert!(after(4400, 0, 32).is_err());
    assert!(after(4400, 901, 31).is_err(), "a chunk without records");
    assert!(after(4400, 901, 132).is_err(), "more records than bytes");
}

/// The golden section, with what each part of it means.
#[test]
fn golden_section() {
    let grown = BucketInfo { bytes: 4711, applied_seq: 950, records: 40, ..info(15, start(b"k")) };
    let edits = [
        DeltasEdit::Replaced {
            start: lowest(),
            removed: Vec::new(),
            added: vec![info(14, lowest()), info(15, start(b"k"))],
        },
        DeltasEdit::appended(&info(15, start(b"k")), &grown),
        DeltasEdit::Replaced {
            start: start(b"k"),
            removed: vec![RemovedBucket { id: FileId(15), bytes: 4711 }],
            added: vec![info(16, start(b"k")), info(17, start(b"q"))],
        },
        DeltasEdit::Replaced {
            start: start(b"q"),
            removed: vec![RemovedBucket { id: FileId(17), bytes: 4300 }],
            added: Vec::new(),
        },
    ];
    let payload = DeltasEdit::encode(&edits).payload;
    let mut dump = String::new();
    let mut lines = Annotator::new(&payload, &mut dump);
    let bucket = |lines: &mut Annotator<'_>, id: u64| {
        lines.field(1 + 2, format_args!("bucket {id}, pages end at 4000"));
        lines.field(2 + 1, "meta of 300 bytes, 0 of chunks");
        lines.field(4, "checksum abadcafe");
        lines.field(2 + 1, "applied seq 900, 31 records");
    };
    lines.field(1, "version 1");
    lines.field(1 + 2, "replaced: from keyspace 0, the empty key, on");
    lines.field(1 + 1, "0 buckets by 2");
    bucket(&mut lines, 14);
    lines.field(1 + 2, "from keyspace 3 \"k\" on");
    bucket(&mut lines, 15);
    lines.field(1 + 3, "appended: to the bucket from keyspace 3 \"k\" on");
    lines.field(1 + 2 + 2, "bucket 15 of 4300 bytes: 411 more");
    lines.field(4, "checksum abadcafe");
    lines.field(2 + 1, "applied seq 950, 9 records more");
    lines.field(1 + 3, "replaced: from keyspace 3 \"k\" on");
    lines.field(1 + 1 + 2, "1 bucket: 15 of 4711 bytes");
    lines.field(1, "by 2");
    bucket(&mut lines, 16);
    lines.field(3, "from keyspace 3 \"q\" on");
    bucket(&mut lines, 17);
    lines.field(1 + 3, "replaced: from keyspace 3 \"q\" on");
    lines.field(1 + 1 + 2, "1 bucket: 17 of 4300 bytes");
    lines.field(1, "by 0");
    assert!(lines.rest().is_empty());
    assert_eq!(DeltasEdit::decode(&payload).unwrap(), edits);
    check_golden("deltas-section", 1, &payload, &dump);
}
