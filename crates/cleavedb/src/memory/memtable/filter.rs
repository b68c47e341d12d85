//! Which keys a memtable may hold: a Bloom filter in blocks of one word.
//!
//! Most reads are of keys that are not in the memtables, and a search of a skip list that finds
//! nothing costs as much as one that does. Every bit of a key lies in one word (the smallest of
//! the blocks of Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"),
//! so that a read touches one cache line, and an insertion makes one atomic change, or none.
//!
//! F1: once `add` returned, `may_hold` is true for that key for ever, for whoever learnt of the
//! insertion. The bits need no order of their own: they are set before the entry is linked, and
//! readers learn of entries by loads that acquire.

use crate::base::checksum::key_hash_in;
use crate::base::entry::KeyspaceId;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::memory::prefetch::prefetch;

/// Bytes of a memtable by bytes of its filter. An entry takes about 100 bytes at least, so a full
/// memtable has 12 bits a key or more: of the keys that it does not hold it lets 1 % pass.
const MEMTABLE_BYTES_BY_FILTER: u64 = 64;
/// Bits set for a key.
const BITS: u32 = 4;
/// Words at most where each is followed by a model checker.
const MODEL_WORDS_MAX: usize = 8;

/// Keys of one memtable.
pub(super) struct Filter(Box<[AtomicU64]>);

impl Filter {
    /// An empty filter for a memtable of so many bytes.
    pub(super) fn new(memtable_bytes: u64) -> Self {
        let words = memtable_bytes / MEMTABLE_BYTES_BY_FILTER / size_of::<u64>() as u64;
        let words = usize::try_from(words).unwrap_or(usize::MAX).max(1);
        let words = if cfg!(shuttle) { words.min(MODEL_WORDS_MAX) } else { words };
        Self(std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect())
    }

    /// The word of a key, and its bits there.
    fn place(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<(&AtomicU64, u64)> {
        let hash = key_hash_in(keyspace, key);
        // The upper half chooses the word, the lower one the bits.
        let index = ((hash >> 32) * self.0.len() as u64) >> 32;
        let bits = (0..BITS).fold(0, |bits, number| bits | 1 << (hash >> (6 * number) & 63));
        self.0.get(index as usize).map(|word| (word, bits))
    }

    /// Whether [`Filter::may_hold`] each of these keys: all their words are on their way at once.
    pub(super) fn may_hold_each<'k>(
        &self,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Vec<bool> {
        let places: Vec<_> = keys.map(|key| self.place(keyspace, key)).collect();
        for (word, _) in places.iter().flatten() {
            prefetch(*word);
        }
        places.into_iter().map(holds).collect()
    }

    /// Has the word of a key on its way.
    pub(super) fn fetch(&self, keyspace: KeyspaceId, key: &[u8]) {
        if let Some((word, _)) = self.place(keyspace, key) {
            prefetch(word);
        }
    }

    /// Takes a key in; before its entry can be found.
    pub(super) fn add(&self, keyspace: KeyspaceId, key: &[u8]) {
        // Without the change where it makes none: other processors keep their copy of the line.
        if let Some((word, bits)) = self.place(keyspace, key)
            && word.load(Ordering::Relaxed) & bits != bits
        {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// False where the key was never taken in.
    pub(super) fn may_hold(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        holds(self.place(keyspace, key))
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Whether all bits of a key are set.
fn holds(place: Option<(&AtomicU64, u64)>) -> bool {
    place.is_none_or(|(word, bits)| word.load(Ordering::Relaxed) & bits == bits)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
