//! What garbage collection has done since open.

use crate::base::sync::figures::{AtomicU64, Ordering};

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct CollectionFigures {
    /// Files read to their end.
    pub(crate) collected: AtomicU64,
    /// Files removed, those that could go unread included.
    pub(crate) files_removed: AtomicU64,
    /// Files left alone after a failure.
    pub(crate) refused: AtomicU64,
    /// Times that dead records of a file were dropped in place.
    pub(crate) punched: AtomicU64,
    /// Bytes of the files removed.
    pub(crate) bytes_freed: AtomicU64,
    /// Bytes of records that were put again.
    pub(crate) bytes_moved: AtomicU64,
    /// Records put again.
    pub(crate) records_moved: AtomicU64,
    /// Records that compactions put in the order of their keys.
    pub(crate) records_relocated: AtomicU64,
    /// Their bytes.
    pub(crate) bytes_relocated: AtomicU64,
    /// Records that were not their key's value any more.
    pub(crate) records_dead: AtomicU64,
    /// Bytes of records whose entries left the indexes.
    pub(crate) bytes_died: AtomicU64,
    /// Facts stated of records that nothing names any more.
    pub(crate) facts: AtomicU64,
    /// Records that facts say are superseded, but a snapshot sees.
    pub(crate) records_held: AtomicU64,
    /// Times that collection had an index compacted, so that it tells what died.
    pub(crate) compactions_asked: AtomicU64,
    /// Look-ups of keys in an index by collection.
    pub(crate) index_reads: AtomicU64,
    /// Operations written by collection.
    pub(crate) index_writes: AtomicU64,
    /// Records whose key changed between the look and the move.
    pub(crate) races_lost: AtomicU64,
}

impl CollectionFigures {
    /// Files have been removed.
    pub(crate) fn removed(&self, files: u64, bytes: u64) {
        self.files_removed.fetch_add(files, Ordering::Relaxed);
        self.bytes_freed.fetch_add(bytes, Ordering::Relaxed);
    }
}
