//! The sparse index of a value table: for each group of records a bound, not before any record in
//! it and before every record behind it. A search reads one group.
//!
//! Immutable once built; any thread. In memory it stays as it is on disk, front-coded, with the
//! place of every sixteenth entry, which has its key whole: a search halves these and walks over
//! at most sixteen more. So memory is what the file has, and 16 bytes for 16 groups. For each key
//! of 16 random bytes that is 0.15 bytes with values of 100 bytes, 0.5 with 400, 1.2 with 1 KiB,
//! and 8 from 4 KiB on, where each record has a group of its own (test `bytes_a_key`).
//!
//! On disk: number of groups (varint), then of each: keyspace (varint), bytes of the key shared
//! with the entry before (varint), the rest of the key (varint length, bytes), `split` (varint),
//! the file (varint, only where split), bytes of the group by 16 (varint). Groups lie one behind
//! the other from the first record on. `split` is 0 where every record of the key is within this
//! group or before it; else 1 + the seq of the group's last record, whose file follows.
//!
//! Invariants: KI-1 bounds ascend strictly. KI-2 the groups cover all records. KI-3 entry 16 n
//! shares nothing with the one before.

use std::cmp::Ordering;
use std::ops::Range;

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::FILE_ID_MAX;
use crate::table::block::common_prefix;
use crate::table::block_index::separator;
use crate::values::table::format::{
    HEADER_BYTES, PLACE_BYTES, RECORD_BYTES_MAX, RECORD_BYTES_MIN, Rank, padded,
};

/// Entries from one whole key to the next.
const RESTART_INTERVAL: u64 = 16;
/// Fewest bytes of an entry.
const ENTRY_BYTES_MIN: usize = 5;

/// A bound: all versions of the key, or those down to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound<'a> {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// The last version within, where more of the key follow.
    pub(crate) split: Option<(Seq, FileId)>,
}

impl Bound<'_> {
    /// Whether a record of this rank lies within the bound.
    pub(crate) fn covers(&self, rank: &Rank<'_>) -> bool {
        match (rank.keyspace, rank.key).cmp(&(self.keyspace, self.key)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.split.is_none_or(|(seq, file)| {
                *rank <= Rank { keyspace: self.keyspace, key: self.key, seq, file }
            }),
        }
    }
}

/// Collects the index while a container is written.
#[derive(Debug, Default)]
pub(crate) struct KeyIndexBuilder {
    bytes: Vec<u8>,
    groups: u64,
    last: Vec<u8>,
    key: Vec<u8>,
}

impl KeyIndexBuilder {
    /// Adds a group of so many bytes, of which `last` is the last record; `next` is the first one
    /// of the next group.
    pub(crate) fn add(&mut self, last: &Rank<'_>, next: Option<&Rank<'_>>, group_bytes: u64) {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let mut split = None;
        match next.filter(|next| next.keyspace == last.keyspace) {
            Some(next) if next.key == last.key => {
                key.extend_from_slice(last.key);
                split = Some((last.seq, last.file));
            }
            Some(next) => separator(last.key, next.key, &mut key),
            None => key.extend_from_slice(last.key),
        }
        let is_whole = self.groups.is_multiple_of(RESTART_INTERVAL);
        let shared = if is_whole { 0 } else { common_prefix(&self.last, &key) };
        put_varint(&mut self.bytes, u64::from(last.keyspace.0));
        put_varint(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, key.get(shared..).unwrap_or_default());
        put_varint(&mut self.bytes, split.map_or(0, |(seq, _)| seq + 1));
        if let Some((_, file)) = split {
            put_varint(&mut self.bytes, file.0);
        }
        put_varint(&mut self.bytes, group_bytes / PLACE_BYTES);
        self.groups += 1;
        self.key = std::mem::replace(&mut self.last, key);
    }

    /// Memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.last.capacity() + self.key.capacity()) as u64
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The section's bytes.
    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        put_varint(&mut out, self.groups);
        out.extend_from_slice(&self.bytes);
        out
    }
}

/// A place to begin a walk from.
#[derive(Clone, Copy, Debug)]
struct Restart {
    /// Offset of an entry with a whole key.
    at: u64,
    /// Offset of its group in the file.
    start: u64,
}

/// The index in memory.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    bytes: Vec<u8>,
    restarts: Vec<Restart>,
}

/// Walks over entries.
pub(crate) struct Groups<'a> {
    reader: Reader<'a>,
    keyspace: KeyspaceId,
    key: Vec<u8>,
    split: Option<(Seq, FileId)>,
    /// Where the next group begins.
    start: u64,
}

impl<'a> Groups<'a> {
    fn new(bytes: &'a [u8], start: u64) -> Self {
        let reader = Reader::new(bytes);
        Self { reader, keyspace: KeyspaceId(0), key: Vec::new(), split: None, start }
    }

    /// Decodes the next entry: where its group lies, and whether its bound is behind the one before
    /// it. The caller knows that there is one.
    fn step(&mut self) -> Result<(Range<u64>, bool)> {
        let keyspace = KeyspaceId(self.reader.varint_u32()?);
        let shared = usize::try_from(self.reader.varint()?).unwrap_or(usize::MAX);
        let rest = self.reader.bytes()?;
        let split = match self.reader.varint()?.checked_sub(1) {
            None => None,
            Some(seq) => Some((seq, FileId(self.reader.varint()?))),
        };
        let group_bytes = self.reader.varint()?.saturating_mul(PLACE_BYTES);
        let is_sound = keyspace.0 != 0
            && shared <= self.key.len()
            && shared.saturating_add(rest.len()) <= KEY_BYTES_MAX
            && split.is_none_or(|(seq, file)| {
                (1..=SEQ_MAX).contains(&seq) && (1..=FILE_ID_MAX).contains(&file.0)
            })
            && group_bytes >= padded(RECORD_BYTES_MIN as u64)
            && group_bytes <= padded(RECORD_BYTES_MAX as u64);
        if !is_sound {
            return Err(Error::corruption("an entry of the index that no group has"));
        }
        let order = keyspace
            .cmp(&self.keyspace)
            .then_with(|| rest.cmp(self.key.get(shared..).unwrap_or_default()));
        let ascends = match order {
            Ordering::Less => false,
            Ordering::Greater => true,
            // More of the same key: from the newest version to the oldest.
            Ordering::Equal => self.split.is_some_and(|(before, file_before)| {
                split.is_none_or(|(seq, file)| (before, file) > (seq, file_before))
            }),
        };
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        (self.keyspace, self.split) = (keyspace, split);
        let start = self.start;
        self.start = start.saturating_add(group_bytes);
        Ok((start..self.start, ascends))
    }

    /// Bytes of the entries to come.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.reader.rest().len()
    }

    /// The next group and its bound; none behind the last one.
    pub(crate) fn next_group(&mut self) -> Result<Option<(Range<u64>, Bound<'_>)>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let (place, _) = self.step()?;
        Ok(Some((place, Bound { keyspace: self.keyspace, key: &self.key, split: self.split })))
    }
}

impl KeyIndex {
    /// Decodes the section; the records must end at `records_end`.
    pub(crate) fn decode(bytes: Vec<u8>, records_end: u64) -> Result<Self> {
        let mut reader = Reader::new(&bytes);
        let count = reader.varint()?;
        let entries = reader.rest();
        if count > (entries.len() / ENTRY_BYTES_MIN) as u64 {
            return Err(Error::corruption("the index claims more groups than it has room for"));
        }
        let first = bytes.len() - entries.len();
        let mut restarts = Vec::with_capacity(count.div_ceil(RESTART_INTERVAL) as usize);
        let mut groups = Groups::new(entries, HEADER_BYTES as u64);
        for number in 0..count {
            let at = (bytes.len() - groups.reader.rest().len()) as u64;
            if number.is_multiple_of(RESTART_INTERVAL) {
                restarts.push(Restart { at, start: groups.start });
                check_whole(groups.reader)?;
            }
            if !groups.step()?.1 {
                return Err(Error::corruption("the index does not ascend").at_offset(at));
            }
        }
        if !groups.reader.is_empty() || groups.start != records_end {
            return Err(Error::corruption("the index does not cover the records"));
        }
        debug_assert!(restarts.first().is_none_or(|restart| restart.at == first as u64));
        Ok(Self { bytes, restarts })
    }

    /// Memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.restarts.capacity() * size_of::<Restart>()) as u64
    }

    /// A walk over all groups.
    pub(crate) fn groups(&self) -> Groups<'_> {
        self.from(self.restarts.first())
    }

    fn from(&self, restart: Option<&Restart>) -> Groups<'_> {
        let rest = restart.and_then(|restart| self.bytes.get(restart.at as usize..));
        Groups::new(rest.unwrap_or_default(), restart.map_or(0, |restart| restart.start))
    }

    /// The group in which a record of this rank would be; none behind the last one.
    pub(crate) fn find(&self, rank: &Rank<'_>) -> Result<Option<Range<u64>>> {
        let mut failed = None;
        let behind =
            self.restarts.partition_point(|restart| match self.from(Some(restart)).next_group() {
                Ok(found) => found.is_some_and(|(_, bound)| !bound.covers(rank)),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            });
        if let Some(error) = failed {
            return Err(error);
        }
        // The bound of the restart before does not reach so far, that of the next one does.
        let mut groups = self.from(self.restarts.get(behind.saturating_sub(1)));
        while let Some((place, bound)) = groups.next_group()? {
            if bound.covers(rank) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// Refuses an entry that has no whole key (KI-3).
fn check_whole(mut entry: Reader<'_>) -> Result<()> {
    entry.varint_u32()?;
    match entry.varint()? {
        0 => Ok(()),
        _ => Err(Error::corruption("an entry of the index leans on one too far away")),
    }
}

#[cfg(test)]
mod tests;
