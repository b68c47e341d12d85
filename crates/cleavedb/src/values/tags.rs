//! What was met lately, by hashes: a table with one tag for each place, that of the latest hash
//! there. Bounded, and wrong in both directions now and then: what it is asked for may have been
//! forgotten, and one hash in four billion is taken for another.
//!
//! Shared; no thread acts on the order of its operations.

use crate::base::sync::figures::{AtomicU32, Ordering};

/// The table.
pub(crate) struct Tags {
    /// Zero: none. As many as a power of two, or none at all.
    tags: Box<[AtomicU32]>,
}

impl Tags {
    /// An empty table of so many places, rounded up to a power of two.
    pub(crate) fn new(places: u64) -> Self {
        let places = if places == 0 { 0 } else { places.next_power_of_two() };
        Self { tags: (0..places).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Meets a hash; whether it was there already.
    #[inline]
    pub(crate) fn meet(&self, hash: u64) -> bool {
        let Some((tag, met)) = self.place(hash) else { return false };
        // A read alone leaves the line to all who share it.
        let is_there = tag.load(Ordering::Relaxed) == met;
        if !is_there {
            tag.store(met, Ordering::Relaxed);
        }
        is_there
    }

    /// Memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.tags) as u64
    }

    fn place(&self, hash: u64) -> Option<(&AtomicU32, u32)> {
        let place = hash as usize & self.tags.len().wrapping_sub(1);
        Some((self.tags.get(place)?, (hash >> 32) as u32 | 1))
    }
}
