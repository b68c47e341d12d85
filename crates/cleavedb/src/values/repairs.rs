//! Handles that reads have found to be of an earlier epoch, with the ones that lead to the same
//! records now (selective handle repair of NovKV, MSST'20): the next read needs no search, and
//! compaction writes the fresh handle where it rewrites the entry anyway. An entry keeps its seq,
//! so that no newer put is ever raced.
//!
//! Shared by readers and compactions; any thread. Invariants: HR-1 both handles name the record of
//! one key and seq: a place of a file in an epoch is that of one record for ever. HR-2 a fresh
//! handle is of an epoch that a published table of files had, so that the edit of a later
//! compaction comes after the one that made it. HR-3 bounded; what is forgotten is found again.

use quick_cache::sync::Cache;

use crate::base::entry::FileId;
use crate::base::marks::mark;
use crate::values::handle::Handle;

/// What an entry takes, the cache's own cost included.
const ENTRY_BYTES: u64 = 96;

/// Names a handle that was found in an entry.
type Place = (FileId, u32, u64);

/// Repaired handles.
pub(crate) struct Repairs {
    handles: Cache<Place, Handle>,
}

impl Repairs {
    /// At most so many bytes of them.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let entries = usize::try_from(bytes_max / ENTRY_BYTES).unwrap_or(usize::MAX);
        Self { handles: Cache::new(entries) }
    }

    /// The handle to go by instead of this one, if one is known.
    pub(crate) fn get(&self, handle: &Handle) -> Option<Handle> {
        self.handles.get(&place(handle))
    }

    /// The record of a handle was found elsewhere.
    pub(crate) fn note(&self, handle: &Handle, now: Handle) {
        debug_assert!(now.file == handle.file && now.epoch > handle.epoch);
        mark!("handle_repaired");
        self.handles.insert(place(handle), now);
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.handles.len() as u64 * ENTRY_BYTES
    }
}

fn place(handle: &Handle) -> Place {
    (handle.file, handle.epoch, handle.offset)
}

#[cfg(test)]
mod tests;
