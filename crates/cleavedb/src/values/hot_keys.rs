//! Keys whose values gets have wanted lately: a new value of one of them is kept when it is
//! written, since it is likely to be wanted before it would be read anyway.
//!
//! Shared by all readers and writers. A forgotten key costs a device read, a key taken for another
//! one some memory for a while. A key is taken out when it is asked for, so that what is only
//! written from then on is not kept.

use crate::base::checksum::KeyedHash;
use crate::base::entry::KeyspaceId;
use crate::values::tags::Tags;

/// A place for each so many bytes of the cache: about one for each value that it could keep.
const BYTES_PER_PLACE: u64 = 1024;

/// Most places: 16 MiB of memory.
const PLACES_MAX: u64 = 4 << 20;

/// The keys.
pub(crate) struct HotKeys {
    hash: KeyedHash,
    tags: Tags,
}

impl HotKeys {
    /// None yet, for a cache of so many bytes; ever, if it keeps nothing.
    pub(crate) fn new(cache_bytes: u64) -> Self {
        let tags = Tags::new((cache_bytes / BYTES_PER_PLACE).min(PLACES_MAX));
        Self { hash: KeyedHash::new(&[0; 16]), tags }
    }

    /// A get wanted the value of this key.
    #[inline]
    pub(crate) fn note(&self, keyspace: KeyspaceId, key: &[u8]) {
        self.tags.meet(self.hash.hash(keyspace, key));
    }

    /// Whether a get wanted the value of this key lately, which is forgotten with the answer.
    #[inline]
    pub(crate) fn take(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        self.tags.take(self.hash.hash(keyspace, key))
    }

    /// Memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tags.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
