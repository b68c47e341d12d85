//! What stands in the space of a Flex index, on arbitrary bytes: the first byte says what.

use crate::base::codec::put_varint;
use crate::base::entry::Kind;
use crate::base::section::{Section, SectionTag};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::index::flex::intervals::anchors::{Directory, encode_directory};
use crate::index::flex::intervals::run::{Record, Run};
use crate::index::flex::intervals::state::{FlexState, decode_tombstones, encode_tombstones};

use super::seeds::Seed;

/// A list of tombstones, a directory, an interval or a section. What decodes has one meaning.
pub fn flex_intervals(data: &[u8]) -> bool {
    let Some((&what, bytes)) = data.split_first() else { return false };
    match what {
        1 => {
            let Ok(tombstones) = decode_tombstones(bytes) else { return false };
            assert_eq!(encode_tombstones(&tombstones), bytes, "one encoding only");
            let kept = Fragments::build(tombstones.clone());
            assert!(kept.len() <= tombstones.len(), "tombstones out of nothing");
        }
        2 => {
            let Ok(read) = Directory::decode(bytes) else { return false };
            let anchors = read.anchors.iter().map(|anchor| &**anchor);
            let again = Directory::decode(&encode_directory((read.id, read.parent), anchors));
            assert_eq!(again.ok().map(|again| again.anchors), Some(read.anchors));
        }
        3 => {
            let Ok(run) = Run::decode(bytes.to_vec()) else { return false };
            let mut again = Vec::new();
            run.iter().for_each(|record| record.encode(&mut again));
            assert_eq!(again.len(), bytes.len(), "a record has one encoding only");
            assert!(Run::decode(again).is_ok_and(|again| again.iter().eq(run.iter())));
        }
        _ => {
            let section = Section { tag: SectionTag::FLEX, payload: bytes.to_vec() };
            let Ok((keyspace, state)) = FlexState::decode(&section) else { return false };
            assert_eq!(state.encode(keyspace), section, "one encoding only");
        }
    }
    true
}

/// One of each.
pub(super) fn seeds() -> Vec<Seed> {
    let (start, end) = (b"apple"[..].into(), b"banana"[..].into());
    let tombstone = RangeTombstone { start, end, seq: 300 };
    let mut tombstones = vec![1];
    tombstones.extend(encode_tombstones(&[tombstone.clone(), tombstone]));
    let anchors: [&[u8]; 3] = [b"", b"grape", b"melon"];
    let mut directory = vec![2];
    directory.extend(encode_directory((7, 3), anchors.into_iter()));
    put_varint(&mut directory, 2);
    let mut interval = vec![3];
    let kinds = [Kind::Put, Kind::Merge, Kind::Delete, Kind::PutSeparated, Kind::PutBare];
    for (kind, seq) in kinds.into_iter().zip([90, 80, 70, 60, 50]) {
        let value: &[u8] = match kind {
            Kind::Delete | Kind::PutBare => b"",
            _ => b"some value",
        };
        Record { key: b"kiwi", seq, kind, value }.encode(&mut interval);
    }
    let mut tailed = interval.clone();
    Record { key: b"fig", seq: 99, kind: Kind::Put, value: &[9; 300] }.encode(&mut tailed);
    let mut section = vec![4];
    let keyspace = crate::base::entry::KeyspaceId(300);
    section.extend(FlexState::default().encode(keyspace).payload);
    vec![
        ("flex_intervals", "tombstones", tombstones),
        ("flex_intervals", "directory", directory),
        ("flex_intervals", "interval", interval),
        ("flex_intervals", "tail", tailed),
        ("flex_intervals", "section", section),
    ]
}
