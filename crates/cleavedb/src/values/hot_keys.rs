//! Keys whose values gets have wanted lately: a new value of one of them is kept when it is written,
//! since it is likely to be wanted before it would be read anyway.
//!
//! Shared by all readers and writers. A table of tags, one for each place, the latest key's: a
//! forgotten key costs a device read, a key taken for another one some memory for a while. A key is
//! taken out when it is asked for, so that what is only written from then on is not kept.

use crate::base::checksum::KeyedHash;
use crate::base::entry::KeyspaceId;
use crate::base::sync::figures::{AtomicU32, Ordering};

/// A place for each so many bytes of the cache: about one for each value that it could keep.
const BYTES_PER_PLACE: u64 = 1024;

/// Most places: 16 MiB of memory.
const PLACES_MAX: u64 = 4 << 20;

/// The keys.
pub(crate) struct HotKeys {
    hash: KeyedHash,
    /// Zero: none. As many as a power of two.
    tags: Box<[AtomicU32]>,
}

impl HotKeys {
    /// None yet, for a cache of so many bytes; ever, if it keeps nothing.
    pub(crate) fn new(cache_bytes: u64) -> Self {
        let places = match cache_bytes / BYTES_PER_PLACE {
            0 => 0,
            places => places.min(PLACES_MAX).next_power_of_two(),
        };
        let tags = (0..places).map(|_| AtomicU32::new(0)).collect();
        Self { hash: KeyedHash::new(&[0; 16]), tags }
    }

    /// A get wanted the value of this key.
    #[inline]
    pub(crate) fn note(&self, keyspace: KeyspaceId, key: &[u8]) {
        let Some((tag, now)) = self.place(keyspace, key) else { return };
        // A read alone leaves the line to all who share it.
        if tag.load(Ordering::Relaxed) != now {
            tag.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a get wanted the value of this key lately, which is forgotten with the answer.
    #[inline]
    pub(crate) fn take(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        let Some((tag, wanted)) = self.place(keyspace, key) else { return false };
        let is_hot = tag.load(Ordering::Relaxed) == wanted;
        if is_hot {
            tag.store(0, Ordering::Relaxed);
        }
        is_hot
    }

    /// Memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.tags) as u64
    }

    fn place(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<(&AtomicU32, u32)> {
        let hash = self.hash.hash(keyspace, key);
        let place = hash as usize & self.tags.len().wrapping_sub(1);
        Some((self.tags.get(place)?, (hash >> 32) as u32 | 1))
    }
}

#[cfg(test)]
mod tests;
