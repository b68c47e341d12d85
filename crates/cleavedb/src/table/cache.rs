//! The open tables: bounded in number and in the memory of their indexes and filters.
//!
//! Shared by all indexes of a database. Invariants: O1 a table is opened by one thread at a time;
//! others wait for it. O2 what the cache holds stays within both bounds; a table that is pushed out
//! while a cursor pins it closes when that cursor ends. O3 a reader at hand ([`AtHand`]) is in the
//! cache, or is taken away by whoever pushed it out or put it there too late.

use std::ops::Deref;
use std::path::PathBuf;

use quick_cache::sync::{Cache, GuardResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::sync::{Arc, ArcSwap, value_or_guard};
use crate::io::{Io, Purpose};
use crate::table::BlockCache;
use crate::table::meta::TableMeta;
use crate::table::reader::{OpenOptions, TableReader};

/// A reader weighs its memory, but never less than its share of the file limit: one capacity then
/// bounds both bytes and number.
#[derive(Clone, Copy, Debug)]
struct ByBudget {
    share_bytes: u64,
}

impl Weighter<FileId, Open> for ByBudget {
    fn weight(&self, _: &FileId, open: &Open) -> u64 {
        open.reader.memory_bytes().max(self.share_bytes)
    }
}

/// The reader of one table while it is open, for gets: they take no lock and move no count that
/// other cores move too. Kept by the table's owner, filled and emptied by the cache.
pub(crate) struct AtHand(ArcSwap<Option<Arc<TableReader>>>);

impl Default for AtHand {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(None))
    }
}

impl AtHand {
    /// The reader, if the table is open.
    #[inline]
    pub(crate) fn load(&self) -> impl Deref<Target = Arc<Option<Arc<TableReader>>>> {
        self.0.load()
    }

    fn take_away(&self) {
        self.0.store(Arc::new(None));
    }
}

/// What the cache keeps of an open table.
#[derive(Clone)]
struct Open {
    reader: Arc<TableReader>,
    at_hand: Arc<AtHand>,
}

/// What is pushed out is at hand no longer (O3).
#[derive(Clone)]
struct TakeAway;

/// A table that was pushed out; taken away when no lock of the cache is held any more.
struct PushedOut(Open);

impl Drop for PushedOut {
    fn drop(&mut self) {
        self.0.at_hand.take_away();
    }
}

impl Lifecycle<FileId, Open> for TakeAway {
    type RequestState = Vec<PushedOut>;

    fn on_evict(&self, state: &mut Self::RequestState, _: FileId, open: Open) {
        state.push(PushedOut(open));
    }
}

/// Smallest shard: room for a table of some gigabytes.
const SHARD_BYTES_MIN: u64 = 64 << 20;

/// Most shards.
const SHARDS_MAX: u64 = 16;

/// The cache of open tables of one database.
pub(crate) struct TableCache {
    io: Io,
    directory: PathBuf,
    uuid: [u8; 16],
    blocks: Arc<BlockCache>,
    direct: bool,
    /// What it was made with, and what is in force.
    budget_bytes_max: u64,
    budget_bytes: AtomicU64,
    cache: Cache<FileId, Open, ByBudget, DefaultHashBuilder, TakeAway>,
    opened: AtomicU64,
}

impl TableCache {
    /// A cache of at most `open_files_max` tables that hold at most `budget_bytes` of memory.
    pub(crate) fn new(
        io: &Io,
        directory: PathBuf,
        uuid: [u8; 16],
        blocks: &Arc<BlockCache>,
        open_files_max: usize,
        budget_bytes: u64,
        direct: bool,
    ) -> Self {
        let open_files_max = open_files_max.max(1);
        let budget_bytes = budget_bytes.max(1);
        let share_bytes = budget_bytes.div_ceil(open_files_max as u64);
        let budget_bytes_max = share_bytes.saturating_mul(open_files_max as u64);
        let weighter = ByBudget { share_bytes };
        let mut builder = OptionsBuilder::new();
        // With too many shards one large table could exceed its shard and never be kept.
        let shards = (budget_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        builder
            .shards(shards as usize)
            .estimated_items_capacity(open_files_max)
            .weight_capacity(budget_bytes_max);
        let hasher = DefaultHashBuilder::default();
        let cache = match builder.build() {
            Ok(options) => Cache::with_options(options, weighter, hasher, TakeAway),
            // Only a missing setting makes `build` fail.
            Err(_) => Cache::with(open_files_max, budget_bytes, weighter, hasher, TakeAway),
        };
        Self {
            io: io.clone(),
            directory,
            uuid,
            blocks: blocks.clone(),
            direct,
            budget_bytes_max,
            budget_bytes: AtomicU64::new(budget_bytes_max),
            cache,
            opened: AtomicU64::new(0),
        }
    }

    /// The cache that blocks of tables are in.
    pub(crate) fn blocks(&self) -> &Arc<BlockCache> {
        &self.blocks
    }

    /// The path of a table.
    pub(crate) fn path(&self, file: FileId) -> PathBuf {
        self.directory.join(file_name(FileKind::Table, file))
    }

    /// The open table, opened now if it is not, and at hand from here on.
    pub(crate) fn get(&self, meta: &TableMeta, at_hand: &Arc<AtHand>) -> Result<Arc<TableReader>> {
        let reader = match value_or_guard(&self.cache, &meta.file, true) {
            GuardResult::Value(open) => open.reader,
            GuardResult::Guard(guard) => {
                let reader = self.open(meta)?;
                let open = Open { reader: reader.clone(), at_hand: at_hand.clone() };
                // Refused only where the table was forgotten meanwhile.
                let _ = guard.insert(open);
                reader
            }
            // Not met: the call waits.
            GuardResult::Timeout => return self.open(meta),
        };
        if at_hand.load().is_none() {
            at_hand.0.store(Arc::new(Some(reader.clone())));
            // Whoever pushes it out after this look takes it away after this store (O3). The table
            // may have been pushed out and opened again meanwhile: this reader must be that one.
            let kept = self.cache.peek(&meta.file);
            if !kept.is_some_and(|open| Arc::ptr_eq(&open.reader, &reader)) {
                at_hand.take_away();
            }
        }
        Ok(reader)
    }

    /// Notes that a table is in use that was at hand. For one get of many: what is open stays open
    /// by how often it is used in proportion to others.
    pub(crate) fn note_use(&self, file: FileId) {
        self.cache.get(&file);
    }

    fn open(&self, meta: &TableMeta) -> Result<Arc<TableReader>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let options = OpenOptions { direct: self.direct, purpose: Purpose::Read };
        TableReader::open(&self.io, &self.blocks, &self.path(meta.file), &self.uuid, meta, options)
    }

    /// Forgets a table whose file is obsolete.
    pub(crate) fn evict(&self, file: FileId) {
        if let Some((_, open)) = self.cache.remove(&file) {
            open.at_hand.take_away();
        }
    }

    /// Changes the bytes that tables may hold; those beyond are closed. Not above those it was made
    /// with, by which the number of tables is bounded.
    pub(crate) fn set_budget(&self, budget_bytes: u64) {
        let bounded = budget_bytes.clamp(1, self.budget_bytes_max);
        if self.budget_bytes.swap(bounded, Ordering::Relaxed) != bounded {
            self.cache.set_capacity(bounded);
        }
    }

    /// Tables open now: those kept here and those pushed out that a cursor still pins.
    pub(crate) fn open_files(&self) -> u64 {
        self.io.meter.open_tables()
    }

    #[cfg(test)]
    /// Tables opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Memory of the indexes, filters and tombstones of the tables open now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.io.meter.open_tables_bytes()
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
