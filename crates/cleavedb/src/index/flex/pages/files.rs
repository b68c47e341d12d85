//! Which page files there are, what is live in each, and which of them are worth emptying. Plain
//! state and pure decisions; no I/O.
//!
//! Invariants: PA-1 live bytes of a file are the sum of the pages in it that the published root
//! leads to, the root's own page included. PA-2 of a file that does not grow any more, half of what
//! it has is live after each checkpoint, and it has an eighth of a full file at least.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::entry::FileId;
use crate::base::sync::Arc;
use crate::index::flex::pages::file::PageFile;
use crate::index::flex::pages::format::PageAddress;

/// Sizes of page files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileLimits {
    /// A file of these many bytes does not grow any more, however small the tree is.
    pub(crate) bytes_min: u64,
    /// A file of these many bytes does not grow any more, however large the tree is.
    pub(crate) bytes_max: u64,
}

impl FileLimits {
    /// What a database uses.
    pub(crate) const USUAL: Self = Self { bytes_min: 1 << 20, bytes_max: 64 << 20 };

    /// Bytes at which a file is full, beside so many live ones in all: what a tree of some size
    /// leaves behind in the file that grows is bounded by what it takes itself.
    pub(super) fn full_bytes(&self, live_bytes: u64) -> u64 {
        live_bytes.saturating_mul(2).clamp(self.bytes_min, self.bytes_max.max(self.bytes_min))
    }
}

/// A page file.
#[derive(Clone)]
pub(crate) struct FileState {
    /// Its pin.
    pub(crate) file: Arc<PageFile>,
    /// Bytes of it.
    pub(crate) bytes: u64,
    /// Bytes of live pages.
    pub(crate) live_bytes: u64,
}

/// The page files of one tree.
#[derive(Clone, Default)]
pub(crate) struct PageFiles {
    all: BTreeMap<FileId, FileState>,
}

impl PageFiles {
    /// All of them, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &FileState)> {
        self.all.iter().map(|(id, state)| (*id, state))
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, id: FileId) -> bool {
        self.all.contains_key(&id)
    }

    /// Bytes of all files.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.all.values().map(|state| state.bytes).sum()
    }

    /// Bytes of all live pages.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.all.values().map(|state| state.live_bytes).sum()
    }

    /// One file more, or as long as it is now.
    pub(super) fn grown(&mut self, file: &Arc<PageFile>, bytes: u64) {
        let fresh = || FileState { file: Arc::clone(file), bytes, live_bytes: 0 };
        let state = self.all.entry(file.id()).or_insert_with(fresh);
        state.bytes = state.bytes.max(bytes);
    }

    /// A page is live.
    pub(super) fn born(&mut self, page: &PageAddress) {
        if let Some(state) = self.all.get_mut(&page.file) {
            state.live_bytes += u64::from(page.bytes);
        }
    }

    /// A page is garbage.
    pub(super) fn died(&mut self, page: &PageAddress) {
        if let Some(state) = self.all.get_mut(&page.file) {
            debug_assert!(state.live_bytes >= u64::from(page.bytes), "{page:?} dies twice");
            state.live_bytes = state.live_bytes.saturating_sub(page.bytes.into());
        }
    }

    /// Forgets the files without a live page, one excepted.
    pub(super) fn forget_empty(&mut self, but: FileId) {
        self.all.retain(|id, state| *id == but || state.live_bytes > 0);
    }

    /// Files whose live pages are to be written again: more than half of one is garbage, or it
    /// is so short that many like it would be many files (PA-2). Not the one that grows.
    pub(super) fn victims(&self, growing: Option<FileId>, limits: &FileLimits) -> BTreeSet<FileId> {
        let full_bytes = limits.full_bytes(self.live_bytes());
        let is_worth_it = |state: &FileState| {
            state.live_bytes.saturating_mul(2) < state.bytes || state.bytes < full_bytes / 8
        };
        self.iter()
            .filter(|(id, state)| Some(*id) != growing && is_worth_it(state))
            .map(|(id, _)| id)
            .collect()
    }
}
