//! Files that nothing names any more and nobody reads any more: ready to be unlinked.
//!
//! A file lands here when the last view that pins it goes away *after* the manifest edit that
//! dropped it became durable (rule F7). The engine's housekeeping takes them from here.

use crate::base::entry::FileId;
use crate::base::names::FileKind;
use crate::base::sync::Mutex;

/// The queue of files to unlink.
#[derive(Debug, Default)]
pub(crate) struct ObsoleteFiles {
    queue: Mutex<Vec<(FileKind, FileId)>>,
}

impl ObsoleteFiles {
    /// Queues a file.
    pub(crate) fn push(&self, kind: FileKind, id: FileId) {
        self.queue.lock().push((kind, id));
    }

    /// Takes all queued files.
    pub(crate) fn take(&self) -> Vec<(FileKind, FileId)> {
        std::mem::take(&mut *self.queue.lock())
    }

    /// Whether any file waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }
}
