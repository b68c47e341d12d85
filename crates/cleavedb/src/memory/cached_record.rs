//! A record that a get has read, kept by itself: in one allocation, as there are many.
//!
//! Plain bytes. Layout: seq (8), length of the key (4), kind (1), length of the note (1), the note,
//! the key, the value.

// A `Value` shares the bytes, and it is outside what the model checker watches.
use std::sync::Arc as BytesArc;

use crate::base::entry::{Kind, Seq};
use crate::base::value::Value;

/// Bytes in front of the note.
const HEAD_BYTES: usize = 14;

/// A record, with what its owner has noted beside. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct CachedRecord(BytesArc<[u8]>);

/// What is found of a key.
pub(crate) struct Version<'a> {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: Kind,
    record: &'a CachedRecord,
    value_start: usize,
}

impl Version<'_> {
    /// Its value, sharing the bytes of the record.
    pub(crate) fn value(&self) -> Value {
        let bytes = &self.record.0;
        Value::shared(BytesArc::clone(bytes), self.value_start..bytes.len())
    }
}

impl CachedRecord {
    /// A copy of a record and a note of its owner; `None` for a key or a note of impossible length.
    pub(crate) fn new(
        note: &[u8],
        key: &[u8],
        (seq, kind): (Seq, Kind),
        value: &[u8],
    ) -> Option<Self> {
        let key_bytes = u32::try_from(key.len()).ok()?.to_le_bytes();
        let kinds = [kind as u8, u8::try_from(note.len()).ok()?];
        let seq = seq.to_le_bytes();
        let parts = [seq.as_slice(), &key_bytes, &kinds, note, key, value];
        Some(Self(parts.concat().into()))
    }

    /// Length of the note and of the key.
    fn lengths(&self) -> Option<(usize, usize)> {
        let (head, _) = self.0.split_first_chunk::<HEAD_BYTES>()?;
        let [.., k0, k1, k2, k3, _, note] = *head;
        Some((note.into(), u32::from_le_bytes([k0, k1, k2, k3]) as usize))
    }

    /// What the owner has noted.
    pub(crate) fn note(&self) -> &[u8] {
        let bytes = self.lengths().map_or(0, |(note, _)| note);
        self.0.get(HEAD_BYTES..HEAD_BYTES + bytes).unwrap_or_default()
    }

    /// The record, if it is of this key and visible at a snapshot.
    pub(crate) fn visible(&self, key: &[u8], snapshot: Seq) -> Option<Version<'_>> {
        let (note, key_bytes) = self.lengths()?;
        let start = HEAD_BYTES + note;
        let value_start = start + key_bytes;
        let is_its = self.0.get(start..value_start)? == key;
        let seq = u64::from_le_bytes(*self.0.first_chunk::<8>()?);
        let kind = Kind::from_u8(*self.0.get(12)?)?;
        (is_its && seq <= snapshot).then_some(Version { seq, kind, record: self, value_start })
    }

    /// Memory held, its place in the cache's tables left out.
    pub(crate) fn memory_bytes(&self) -> u64 {
        /// Counts of holders, and what an allocation takes beside.
        const SHARED_BYTES: usize = 32;
        (self.0.len() + SHARED_BYTES) as u64
    }
}

#[cfg(test)]
mod tests;
