//! Who holds which lock within this process: any number of shared holders, or one exclusive.
//!
//! Plain data behind its owner's mutex. Invariant: an entry is there as long as it has a holder.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::io::disk::LockMode;

/// Locks by the identity of their file.
#[derive(Debug)]
pub(super) struct HeldLocks<K> {
    /// Number of shared holders; zero for an exclusive one.
    holders: BTreeMap<K, usize>,
}

impl<K: Ord> HeldLocks<K> {
    /// No locks.
    pub(super) const fn new() -> Self {
        Self { holders: BTreeMap::new() }
    }

    /// Notes one more holder; `false` where one stands against it.
    pub(super) fn take(&mut self, file: K, mode: LockMode) -> bool {
        match (self.holders.entry(file), mode) {
            (Entry::Vacant(entry), LockMode::Shared) => *entry.insert(1) == 1,
            (Entry::Vacant(entry), LockMode::Exclusive) => *entry.insert(0) == 0,
            (Entry::Occupied(mut entry), LockMode::Shared) if *entry.get() > 0 => {
                *entry.get_mut() += 1;
                true
            }
            (Entry::Occupied(_), _) => false,
        }
    }

    /// Forgets one holder.
    pub(super) fn give_back(&mut self, file: K) {
        if let Entry::Occupied(mut entry) = self.holders.entry(file) {
            if *entry.get() > 1 {
                *entry.get_mut() -= 1;
            } else {
                entry.remove();
            }
        }
    }
}
