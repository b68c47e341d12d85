//! The exact side map: places of keys whose match in the table is another key's.
//!
//! Owned by a shard, under its lock. Bounded in bytes: the key that came first goes first, which
//! costs its reads a look into the index. Invariant: LS-1 a place is handed out for exactly the
//! keyspace and key that it was put in for.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::base::entry::KeyspaceId;
use crate::values::locator::LocatorKey;
use crate::values::locator::place::Place;

/// Bytes of an entry besides its key: hash twice, place, key's length, and the map's own.
const OVERHEAD_BYTES: usize = 96;

/// Takes the hash that a key comes with as it is.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only numbers of 64 bits are keys here; anything else is hashed badly but rightly.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Clone, Debug)]
struct Kept {
    keyspace: KeyspaceId,
    key: Box<[u8]>,
    place: Place,
}

/// Places of keys that are known exactly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// By hash; of two keys with one hash, which never happens, the later one stays.
    kept: HashMap<u64, Kept, BuildHasherDefault<AsItIs>>,
    /// Hashes in the order in which they came; some may be gone.
    order: VecDeque<u64>,
    bytes: usize,
    evicted: u64,
}

impl Side {
    /// Where the key's record is.
    #[inline]
    pub(crate) fn get(&self, key: &LocatorKey<'_>) -> Option<Place> {
        if self.kept.is_empty() {
            return None;
        }
        let kept = self.kept.get(&key.hash)?;
        (kept.keyspace == key.keyspace && *kept.key == *key.key).then_some(kept.place)
    }

    /// Changes the place of a key that is in the map; `None` takes it out.
    pub(crate) fn set(&mut self, key: &LocatorKey<'_>, place: Option<Place>) {
        if self.get(key).is_none() {
            return;
        }
        match place {
            Some(place) => {
                if let Some(kept) = self.kept.get_mut(&key.hash) {
                    kept.place = place;
                }
            }
            None => self.forget(key.hash),
        }
    }

    /// Puts a key in; what came first goes until there is room. Returns whether the key is in.
    pub(crate) fn insert(&mut self, key: &LocatorKey<'_>, place: Place, bytes_max: usize) -> bool {
        self.forget(key.hash);
        let bytes = key.key.len() + OVERHEAD_BYTES;
        if bytes > bytes_max {
            return false;
        }
        while self.bytes + bytes > bytes_max {
            let Some(hash) = self.order.pop_front() else { break };
            self.evicted += u64::from(self.kept.contains_key(&hash));
            self.forget(hash);
        }
        if self.order.len() > 2 * self.kept.len() + 16 {
            self.order.retain(|hash| self.kept.contains_key(hash));
        }
        let kept = Kept { keyspace: key.keyspace, key: Box::from(key.key), place };
        self.kept.insert(key.hash, kept);
        self.order.push_back(key.hash);
        self.bytes += bytes;
        true
    }

    fn forget(&mut self, hash: u64) {
        if let Some(kept) = self.kept.remove(&hash) {
            self.bytes -= kept.key.len() + OVERHEAD_BYTES;
        }
    }

    /// Keys in it.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keys that went for others so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Forgets everything.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        *self = Self { evicted: self.evicted, ..Self::default() };
    }
}

#[cfg(test)]
mod tests;
