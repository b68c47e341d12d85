//! What an index is given to work with.

use std::path::PathBuf;

use crate::base::compress::Compression;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::file_ids::FileIds;
use crate::base::merge_operator::SharedOperator;
use crate::base::names::{FileKind, file_name};
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::base::sync::atomic::AtomicBool;
use crate::base::widths::Widths;
use crate::index::table_file::TableFile;
use crate::io::Io;
use crate::table::cache::TableCache;
use crate::table::reader::TableReader;
use crate::values::file::OpenFiles;

/// Everything an index of one keyspace needs from its database.
#[derive(Clone)]
pub(crate) struct IndexContext {
    /// Disk, clock, executor, meter, limiter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// Where new file numbers come from.
    pub(crate) file_ids: Arc<FileIds>,
    /// Open tables.
    pub(crate) tables: Arc<TableCache>,
    /// Open files of values and of Flex segments, under one bound.
    pub(crate) open_files: Arc<OpenFiles>,
    /// Where files go that nobody needs any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// Whether the disk is full, and what is left of it is the reserve.
    pub(crate) is_disk_full: Arc<AtomicBool>,
    /// Bytes of the reserve; 0: there is none.
    pub(crate) reserve_bytes: u64,
    /// Sizes of structures.
    pub(crate) widths: Widths,
    /// Compression by level; the last one holds for all deeper levels, none means none.
    pub(crate) compression: Vec<Compression>,
    /// The keyspace's merge operator.
    pub(crate) operator: Option<SharedOperator>,
    /// Whether Flex segments are read past the page cache, as tables are.
    pub(crate) direct_reads: bool,
    /// Whether tables and Flex segments are written past the page cache.
    pub(crate) direct_writes: bool,
}

impl IndexContext {
    /// Where the table of this number stands.
    pub(crate) fn table_path(&self, id: FileId) -> PathBuf {
        self.dir.join(file_name(FileKind::Table, id))
    }

    /// The reader of a table.
    pub(crate) fn reader(&self, file: &TableFile) -> Result<Arc<TableReader>> {
        self.tables.get(&file.meta, &file.at_hand)
    }

    /// Compression of a level.
    pub(crate) fn compression_of(&self, level: usize) -> Compression {
        self.compression.get(level).or(self.compression.last()).copied().unwrap_or_default()
    }
}
