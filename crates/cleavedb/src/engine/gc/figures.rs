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
    /// Records that were not their key's value any more.
    pub(crate) records_dead: AtomicU64,
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
