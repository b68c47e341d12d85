//! What a fact is about: a key of a keyspace, or the hash that stands for a long one, as one byte
//! string. Pure data.
//!
//! A varint of the keyspace's number with two bits below it (1: a hash follows, 2: the fact is of a
//! moved record), then the key, or the hash. Facts are sorted by these bytes: any order will do, as
//! long as it is the same everywhere and brings keys of one beginning together.

use std::fmt;
use std::ops::Deref;

use crate::base::checksum::KeyedHash;
use crate::base::codec::Reader;
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};

/// Longest key that is stated as it is.
pub(crate) const WHOLE_KEY_BYTES_MAX: usize = 32;
/// Bytes of the hash of a longer one. On disk: little-endian.
const HASH_BYTES: usize = 16;
/// Most bytes of a subject: 34 bits as a varint, and a key.
pub(crate) const SUBJECT_BYTES_MAX: usize = 5 + WHOLE_KEY_BYTES_MAX;

/// Bit of the head: the key's hash follows, not the key. On disk: never renumber.
const HASHED: u64 = 1;
/// Bit of the head: the fact is of a moved record. On disk: never renumber.
const MOVED: u64 = 2;
/// Bits below the keyspace's number.
const HEAD_BITS: u32 = 2;

/// What a fact says of its key's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FactKind {
    /// Those of a smaller seq are superseded.
    Superseded,
    /// The one of exactly this seq was copied elsewhere.
    Moved,
}

/// What a fact is about; dereferences to its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    bytes: [u8; SUBJECT_BYTES_MAX],
    length: u8,
}

impl Subject {
    /// No subject: what comes before the first one.
    pub(crate) const EMPTY: Self = Self { bytes: [0; SUBJECT_BYTES_MAX], length: 0 };

    /// A key of a keyspace.
    pub(crate) fn new(hash: KeyedHash, kind: FactKind, keyspace: KeyspaceId, key: &[u8]) -> Self {
        let moved = if kind == FactKind::Moved { MOVED } else { 0 };
        let head = u64::from(keyspace.0) << HEAD_BITS | moved;
        let mut subject = Self::EMPTY;
        if key.len() <= WHOLE_KEY_BYTES_MAX {
            subject.put_head(head);
            subject.put(key);
        } else {
            subject.put_head(head | HASHED);
            subject.put(&hash.wide(keyspace, key).to_le_bytes());
        }
        subject
    }

    /// Whether the fact is of a moved record.
    pub(crate) fn kind(&self) -> FactKind {
        let is_moved = self.first().is_some_and(|&byte| u64::from(byte) & MOVED != 0);
        if is_moved { FactKind::Moved } else { FactKind::Superseded }
    }

    /// How many bytes it begins with as `other` does.
    pub(crate) fn shared_with(&self, other: &Self) -> usize {
        self.iter().zip(other.iter()).take_while(|(a, b)| a == b).count()
    }

    /// Keeps the first `shared` bytes and puts others behind them.
    pub(crate) fn replace_tail(&mut self, shared: usize, tail: &[u8]) -> Result<()> {
        let fits = shared <= self.len() && shared + tail.len() <= SUBJECT_BYTES_MAX;
        if !fits {
            return Err(Error::corruption("a fact about more than a key"));
        }
        self.length = shared as u8;
        self.put(tail);
        Ok(())
    }

    /// Refuses bytes that no key of a keyspace makes.
    pub(crate) fn check(&self) -> Result<()> {
        let mut reader = Reader::new(self);
        let head = reader.varint()?;
        let keyspace = u32::try_from(head >> HEAD_BITS).unwrap_or(0);
        let length = reader.rest().len();
        let is_sound =
            if head & HASHED != 0 { length == HASH_BYTES } else { length <= WHOLE_KEY_BYTES_MAX };
        if keyspace == 0 || !is_sound {
            return Err(Error::corruption("a fact about what is no key"));
        }
        Ok(())
    }

    fn put_head(&mut self, mut head: u64) {
        while head >= 0x80 {
            self.put(&[(head as u8) | 0x80]);
            head >>= 7;
        }
        self.put(&[head as u8]);
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.len() + bytes.len();
        debug_assert!(end <= SUBJECT_BYTES_MAX);
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)..end) {
            place.copy_from_slice(bytes);
            self.length = end as u8;
        }
    }
}

impl Deref for Subject {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Subject {}

impl PartialOrd for Subject {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subject {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({:02x?})", &**self)
    }
}

#[cfg(test)]
mod tests;
