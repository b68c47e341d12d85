//! What an edit names of a Flex index, figures of what it holds, and its range tombstones' bytes.

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::RANGE_END_BYTES_MAX;
use crate::base::section::{Section, SectionTag};
use crate::base::tombstone::RangeTombstone;
use crate::index::flex::intervals::run::Record;
use crate::index::flex::space::SpaceState;
use crate::index::section_keyspace;

/// Version of the section, and of what stands in the space. On disk: raised by every change.
const VERSION: u8 = 2;

/// Figures of what the intervals hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Records.
    pub(crate) entries: u64,
    /// Deletes among them.
    pub(crate) deletes: u64,
    /// Bytes of their keys.
    pub(crate) key_bytes: u64,
    /// Bytes of their values.
    pub(crate) value_bytes: u64,
}

impl Totals {
    /// One record more.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        self.entries += 1;
        self.deletes += u64::from(record.kind == Kind::Delete);
        self.key_bytes += record.key.len() as u64;
        self.value_bytes += record.value.len() as u64;
    }

    fn numbers(&mut self) -> [&mut u64; 4] {
        [&mut self.entries, &mut self.deletes, &mut self.key_bytes, &mut self.value_bytes]
    }

    /// Others come, and some go.
    pub(super) fn change(&mut self, mut come: Self, mut go: Self) {
        let change = come.numbers().into_iter().zip(go.numbers());
        for (number, (come, go)) in self.numbers().into_iter().zip(change) {
            *number = number.saturating_add(*come).saturating_sub(*go);
        }
    }
}

/// What an edit names of a Flex index: all that opening it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlexState {
    /// The space.
    pub(crate) space: SpaceState,
    /// Number of the last group of intervals that there was.
    pub(crate) last_group: u64,
    /// Largest seq that ever came in.
    pub(crate) largest_seq: Seq,
    /// Figures.
    pub(crate) totals: Totals,
}

impl FlexState {
    /// The section of a keyspace in this state.
    pub(crate) fn encode(mut self, keyspace: KeyspaceId) -> Section {
        let mut payload = keyspace.0.to_le_bytes().to_vec();
        payload.push(VERSION);
        self.space.encode(&mut payload);
        put_varint(&mut payload, self.last_group);
        put_varint(&mut payload, self.largest_seq);
        self.totals.numbers().into_iter().for_each(|number| put_varint(&mut payload, *number));
        Section { tag: SectionTag::FLEX, payload }
    }

    /// Reads one; every byte must have a meaning.
    pub(crate) fn decode(section: &Section) -> Result<(KeyspaceId, Self)> {
        if section.tag != SectionTag::FLEX {
            return Err(Error::corruption("not a section of a Flex index"));
        }
        let keyspace = section_keyspace(section)?;
        let mut reader = Reader::new(&section.payload);
        reader.u32()?;
        let version = reader.u8()?;
        if version != VERSION {
            let message = format!("Flex section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut state = Self {
            space: SpaceState::decode(&mut reader)?,
            last_group: reader.varint()?,
            largest_seq: reader.varint()?,
            totals: Totals::default(),
        };
        for number in state.totals.numbers() {
            *number = reader.varint()?;
        }
        if !reader.is_empty() || state.largest_seq > SEQ_MAX || state.last_group == u64::MAX {
            return Err(Error::corruption("a Flex section holds what it cannot hold"));
        }
        Ok((keyspace, state))
    }
}

/// The bytes of range tombstones, one behind the other.
pub(crate) fn encode_tombstones(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    for RangeTombstone { start, end, seq } in tombstones {
        put_varint(&mut out, *seq);
        put_bytes(&mut out, start);
        put_bytes(&mut out, end);
    }
    out
}

/// Reads them.
pub(crate) fn decode_tombstones(bytes: &[u8]) -> Result<Vec<RangeTombstone>> {
    let (mut reader, mut tombstones) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        let (seq, start, end) = (reader.varint()?, reader.bytes()?, reader.bytes()?);
        let longest = start.len().max(end.len());
        if seq == 0 || seq > SEQ_MAX || start >= end || longest > RANGE_END_BYTES_MAX {
            return Err(Error::corruption("a range tombstone that deletes nothing"));
        }
        tombstones.push(RangeTombstone { start: start.into(), end: end.into(), seq });
    }
    Ok(tombstones)
}

#[cfg(test)]
mod tests;
