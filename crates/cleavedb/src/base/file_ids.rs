//! Where new file numbers come from: one counter for all components of a database.

use crate::base::entry::FileId;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// Gives out file numbers, each once (rule F6). Shared by all threads.
#[derive(Debug)]
pub(crate) struct FileIds(AtomicU64);

impl FileIds {
    /// A counter whose first number is `next` (at least 1: zero is reserved).
    pub(crate) fn new(next: FileId) -> Self {
        Self(AtomicU64::new(next.0.max(1)))
    }

    /// A number never given out before.
    pub(crate) fn next(&self) -> FileId {
        FileId(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes sure that no number below `next` is given out any more.
    pub(crate) fn at_least(&self, next: FileId) {
        self.0.fetch_max(next.0, Ordering::Relaxed);
    }

    /// The number that would be given out next, for the manifest.
    pub(crate) fn peek(&self) -> FileId {
        FileId(self.0.load(Ordering::Relaxed))
    }
}
