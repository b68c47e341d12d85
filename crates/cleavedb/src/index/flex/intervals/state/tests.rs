//! Sections and tombstones: round trips, refusals, and the golden file of the format.

use std::fmt::Write as _;

use super::*;
use crate::base::entry::FileId;
use crate::index::flex::intervals::anchors::{Edit, encode_directory};
use crate::index::flex::pages::format::PageAddress;
use crate::index::flex::space::log::LogEnd;
use crate::log::testing::{check_golden, check_page};

fn state() -> FlexState {
    let root = PageAddress { file: FileId(20), offset: 64, bytes: 100, checksum: 5 };
    let log = LogEnd { file: FileId(22), bytes: 300, group: 7, checksum: 9 };
    FlexState {
        space: SpaceState { root: Some(root), log: Some(log) },
        last_group: 900,
        largest_seq: SEQ_MAX,
        totals: Totals { entries: 5000, deletes: 3, key_bytes: 70_000, value_bytes: 1 << 40 },
    }
}

#[test]
fn sections_round_trip_and_others_are_refused() {
    for state in [state(), FlexState::default()] {
        let section = state.encode(KeyspaceId(9));
        assert_eq!(FlexState::decode(&section).unwrap(), (KeyspaceId(9), state));
        let decode = |payload: &[u8]| {
            FlexState::decode(&Section { tag: SectionTag::FLEX, payload: payload.to_vec() })
        };
        for end in 0..section.payload.len() {
            assert!(decode(&section.payload[..end]).is_err(), "{end} bytes");
        }
        assert!(decode(&[&section.payload[..], &[0]].concat()).is_err());
        let mut newer = section.payload.clone();
        newer[4] = VERSION + 1;
        assert_eq!(decode(&newer).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(FlexState::decode(&Section { tag: SectionTag::LSM, ..section }).is_err());
    }
    let late = FlexState { largest_seq: SEQ_MAX + 1, ..state() };
    assert!(FlexState::decode(&late.encode(KeyspaceId(9))).is_err());
}

#[test]
fn tombstones_round_trip_and_others_are_refused() {
    let tombstone = |start: &str, end: &str, seq| RangeTombstone {
        start: start.as_bytes().into(),
        end: end.as_bytes().into(),
        seq,
    };
    let good = [tombstone("", "b", 1), tombstone("a", "c", SEQ_MAX)];
    assert_eq!(decode_tombstones(&encode_tombstones(&good)).unwrap(), good);
    for wrong in [tombstone("a", "a", 1), tombstone("b", "a", 1), tombstone("a", "b", 0)] {
        assert!(decode_tombstones(&encode_tombstones(&[wrong])).is_err());
    }
    assert!(decode_tombstones(&encode_tombstones(&good)[..5]).is_err());
}

#[test]
fn golden_intervals() {
    let record = |key: &'static [u8], seq, kind, value: &'static [u8]| {
        let mut bytes = Vec::new();
        Record { key, seq, kind, value }.encode(&mut bytes);
        bytes
    };
    let (start, end) = (b"b"[..].into(), b"d"[..].into());
    let mut edit = [Vec::new(), Vec::new()];
    Edit::Insert(0, b"").encode(&mut edit[0]);
    Edit::Insert(1, b"m").encode(&mut edit[1]);
    let totals = Totals { entries: 3, deletes: 1, key_bytes: 3, value_bytes: 5 };
    let state = FlexState { last_group: 7, largest_seq: 44, totals, ..FlexState::default() };
    let section = state.encode(KeyspaceId(3)).payload;
    let parts: [(Vec<u8>, &str); 11] = [
        (
            encode_tombstones(&[RangeTombstone { start, end, seq: 44 }]),
            "range tombstone of seq 44: \"b\" to \"d\"",
        ),
        (encode_directory((7, 0), std::iter::empty()), "directory of group 7, split off from none"),
        (edit[0].clone(), "  anchor \"\" comes at 0"),
        (edit[1].clone(), "  anchor \"m\" comes at 1"),
        (record(b"k", 43, Kind::Put, b"value"), "put of \"k\", seq 43: \"value\""),
        (record(b"l", 11, Kind::Delete, b""), "delete of \"l\", seq 11"),
        (record(b"a", 13, Kind::Merge, b""), "merge of \"a\", seq 13, in the tail: no operand"),
        (section[..5].to_vec(), "section of keyspace 3, version 2"),
        (section[5..6].to_vec(), "  an empty space"),
        (section[6..8].to_vec(), "  last group 7, largest seq 44"),
        (section[8..].to_vec(), "  3 records, 1 delete, 3 bytes of keys, 5 of values"),
    ];
    let (mut bytes, mut dump) = (Vec::new(), String::new());
    for (part, meaning) in parts {
        let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(dump, "{hex:<20}  # {meaning}").unwrap();
        bytes.extend(part);
    }
    println!("{dump}");
    check_golden("flex-intervals", VERSION.into(), &bytes, &dump);
    check_page("flex-intervals", &[(0, 4, "keyspace number"), (4, 1, "version, 2")]);
}
