//! The open tables: bounded in number and in the memory of their indexes and filters.
//!
//! Shared by all indexes of a database. Invariants: O1 a table is opened by one thread at a time;
//! others wait for it. O2 what the cache holds stays within both bounds; a table that is pushed out
//! while a cursor pins it closes when that cursor ends.

use std::path::PathBuf;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::sync::{Arc, value_or_guard};
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

impl Weighter<FileId, Arc<TableReader>> for ByBudget {
    fn weight(&self, _: &FileId, reader: &Arc<TableReader>) -> u64 {
        reader.memory_bytes().max(self.share_bytes)
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
    cache: Cache<FileId, Arc<TableReader>, ByBudget>,
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
        let weighter = ByBudget { share_bytes };
        let mut builder = OptionsBuilder::new();
        // With too many shards one large table could exceed its shard and never be kept.
        let shards = (budget_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        builder
            .shards(shards as usize)
            .estimated_items_capacity(open_files_max)
            .weight_capacity(share_bytes.saturating_mul(open_files_max as u64));
        let cache = match builder.build() {
            Ok(options) => Cache::with_options(
                options,
                weighter,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            Err(_) => Cache::with_weighter(open_files_max, budget_bytes, weighter),
        };
        Self {
            io: io.clone(),
            directory,
            uuid,
            blocks: blocks.clone(),
            direct,
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

    /// The open table, opened now if it is not.
    pub(crate) fn get(&self, meta: &TableMeta) -> Result<Arc<TableReader>> {
        match value_or_guard(&self.cache, &meta.file, true) {
            GuardResult::Value(reader) => Ok(reader),
            GuardResult::Guard(guard) => {
                let reader = self.open(meta)?;
                // Refused only where the table was forgotten meanwhile.
                let _ = guard.insert(reader.clone());
                Ok(reader)
            }
            // Not met: the call waits.
            GuardResult::Timeout => self.open(meta),
        }
    }

    fn open(&self, meta: &TableMeta) -> Result<Arc<TableReader>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let options = OpenOptions { direct: self.direct, purpose: Purpose::Read };
        TableReader::open(&self.io, &self.blocks, &self.path(meta.file), &self.uuid, meta, options)
    }

    /// Forgets a table whose file is obsolete.
    pub(crate) fn evict(&self, file: FileId) {
        self.cache.remove(&file);
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

#[cfg(test)]
mod tests;
