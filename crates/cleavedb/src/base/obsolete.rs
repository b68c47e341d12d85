//! Files that nothing names any more and nobody reads any more: ready to be unlinked. And runs of
//! bytes in files that stay, of which the same holds: ready to be given back.
//!
//! A file lands here when the last view that pins it goes away *after* the manifest edit that
//! dropped it became durable (rule F7). The engine's housekeeping takes them from here.

use crate::base::entry::FileId;
use crate::base::names::FileKind;
use crate::base::runs::Run;
use crate::base::sync::{Arc, Mutex};

/// Runs that an edit dropped out of a file, all those before included.
pub(crate) type ObsoleteRuns = (FileId, Arc<[Run]>);

/// The queue of files to unlink, and that of runs to give back.
#[derive(Debug, Default)]
pub(crate) struct ObsoleteFiles {
    queue: Mutex<Vec<(FileKind, FileId)>>,
    runs: Mutex<Vec<ObsoleteRuns>>,
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

    /// Queues runs of a value segment.
    pub(crate) fn push_runs(&self, id: FileId, runs: Arc<[Run]>) {
        self.runs.lock().push((id, runs));
    }

    /// Takes all queued runs.
    pub(crate) fn take_runs(&self) -> Vec<ObsoleteRuns> {
        std::mem::take(&mut *self.runs.lock())
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty() && self.runs.lock().is_empty()
    }
}
