//! Options: plain data, few, each with unit, default, range, what more of it buys and what it
//! costs. `docs/options.md` is generated from this file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::compress::Compression;
use crate::base::error::{Error, Result};
use crate::base::merge_operator::MergeOperator;
use crate::base::widths::Widths;
use crate::db::Db;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::engine::settings::{Deltas, Durability, IndexKind, KeyspaceSettings, Settings};
use crate::io::Io;
use crate::io::context::native_io;
use crate::values::strategy::kind::StrategyKind;

/// How to open a database. Build one, set what differs, call [`Options::open`].
#[derive(Clone)]
pub struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    pub(crate) durability: Durability,
    pub(crate) sync_interval: Duration,
    pub(crate) write_timeout: Option<Duration>,
    pub(crate) memory_budget: u64,
    pub(crate) background_threads: usize,
    pub(crate) io_rate_limit: u64,
    pub(crate) direct_reads: bool,
    pub(crate) direct_writes: bool,
    pub(crate) open_files_max: usize,
    pub(crate) reserve_bytes: u64,
    pub(crate) strategy: Option<StrategyKind>,
    pub(crate) space_amplification_max: f64,
    pub(crate) merge_operators: Vec<Arc<dyn MergeOperator>>,
    #[cfg(feature = "sim")]
    pub(crate) environment: Option<crate::sim::Environment>,
    #[cfg(feature = "sim")]
    pub(crate) widths: Option<crate::base::widths::Widths>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            durability: Durability::Buffered,
            sync_interval: Duration::from_secs(1),
            write_timeout: None,
            memory_budget: 256 << 20,
            background_threads: 0,
            io_rate_limit: 0,
            direct_reads: false,
            direct_writes: false,
            open_files_max: 512,
            reserve_bytes: 64 << 20,
            strategy: None,
            space_amplification_max: 1.25,
            merge_operators: Vec::new(),
            #[cfg(feature = "sim")]
            environment: None,
            #[cfg(feature = "sim")]
            widths: None,
        }
    }
}

macro_rules! setter {
    ($(#[$doc:meta])* $name:ident: $type:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $type) -> Self {
            self.$name = value;
            self
        }
    };
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setter! {
        /// Create the database where the directory has none, and the directory with all folders
        /// above it where they are missing. Default: true.
        create_if_missing: bool
    }
    setter! {
        /// Fail with `AlreadyExists` where there is a database. Default: false.
        error_if_exists: bool
    }
    setter! {
        /// Write nothing, not even a lock file; needs an existing database. Default: false. Any
        /// number of readers may have a database open at a time, and no writer beside them.
        read_only: bool
    }
    setter! {
        /// Durability of operations that do not name one. Default: [`Durability::Buffered`].
        durability: Durability
    }
    setter! {
        /// Longest time a buffered write waits for its sync. Default: 1 s. Zero: no background
        /// sync. Shorter loses less at a power cut and costs a device flush each time.
        sync_interval: Duration
    }
    setter! {
        /// Longest time a write may be held back by a full backlog before it fails with
        /// `Timeout`, nothing written. Default: `None`, wait as long as it takes.
        write_timeout: Option<Duration>
    }
    setter! {
        /// Bytes of memory for everything: memtables, block cache, filters, indexes, iterators.
        /// Default: 256 MiB. Range: 1 MiB and up. More buys fewer device reads and fewer, larger
        /// flushes; an eighth of it (at most 64 MiB) is one memtable.
        memory_budget: u64
    }
    setter! {
        /// Threads for compaction. Default: 0 = one per core, at least two. More keeps up with
        /// heavier writing and takes processor time from the foreground, though not from threads
        /// that want all of it: on Linux, these run fifteen steps of priority ("nice") below the
        /// thread that opens the database, and two beside them for flushes and housekeeping five.
        /// Compaction that somebody waits for, writers above all, has as many as this again.
        background_threads: usize
    }
    setter! {
        /// Bytes per second that flush and compaction may write together. Default: 0, no limit.
        /// Lower leaves the device to reads; too low lets the backlog grow until writers are
        /// paced.
        io_rate_limit: u64
    }
    setter! {
        /// Read tables, values, delta buckets and Flex segments past the page cache (`O_DIRECT`).
        /// Default: false. Gains where the block cache is large; loses the page cache as a second
        /// cache. A Flex index gathers fragments sooner, as each is a read of the device then.
        direct_reads: bool
    }
    setter! {
        /// Write flushes and compactions past the page cache, tables and Flex segments alike.
        /// Default: false. Keeps the page cache for what readers want.
        direct_writes: bool
    }
    setter! {
        /// Table files open at once, and half as many files of values and of Flex segments
        /// together. Default: 512. Range: 16 and up.
        /// Fewer saves descriptors and re-reads filter and index of a table opened again.
        open_files_max: usize
    }
    setter! {
        /// Bytes set aside on disk, given up when the disk is full so that deletes, flush and
        /// compaction can go on. Default: 64 MiB. Zero: none. Segments of Flex indexes take at
        /// most a sixteenth of it, or 32 KiB where that is more, so that what is moved out of one
        /// finds room; those made beside a larger reserve stay as large until they are emptied.
        reserve_bytes: u64
    }
    setter! {
        /// Bytes of value files by bytes of the live records in them, at most. Default: 1.25.
        /// Range: 1.05 to 10. Lower keeps less of what was overwritten or deleted on disk, and
        /// moves live values more often: each byte freed costs about 1 / (this - 1) bytes moved.
        /// Collection begins at 60 % of the garbage allowed, is urgent at 85 %, and slows writers
        /// down at 100 %. Two segments of garbage (128 MiB) are allowed in any case. Strategies
        /// other than `unified` learn of garbage later than it is made: while all is overwritten,
        /// they may be above by a tenth on average.
        space_amplification_max: f64
    }

    /// How separated values are kept, found and collected. Default: [`StrategyKind::Unified`] for a
    /// new database, and for an existing one whatever it was created with. Fixed at creation:
    /// `Mismatch` where the database has another.
    #[must_use]
    pub fn strategy(mut self, strategy: StrategyKind) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// Registers a merge operator by its name; keyspaces refer to it. The built-in operators are
    /// registered already.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operators.push(operator);
        self
    }

    /// Runs the database in this world instead of the real one.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn environment(mut self, environment: crate::sim::Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sizes of structures, instead of those that follow from the memory budget.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn widths(mut self, widths: crate::sim::Widths) -> Self {
        self.widths = Some(widths);
        self
    }

    /// Opens the database in directory `path`.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `InUse`, `Corruption`, `Unsupported`, `Mismatch`, `Io`,
    /// `NoSpace`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        self.check()?;
        let io =
            self.io().map_err(|cause| Error::io("starting background threads", path, cause))?;
        self.open_in(io, path)
    }

    /// Opens the database in a world of the caller's choice.
    pub(crate) fn open_in(self, io: Io, path: &Path) -> Result<Db> {
        let durability = self.durability;
        let widths = self.effective_widths();
        let engine = Engine::open(io, path, self.into_settings(), widths)?;
        Ok(Db::new(Handle::new(engine, durability)))
    }

    /// Refuses values out of range.
    fn check(&self) -> Result<()> {
        if self.memory_budget < MEMORY_BUDGET_MIN {
            let least = MEMORY_BUDGET_MIN;
            return Err(Error::invalid(format!("memory_budget must be at least {least} bytes")));
        }
        if self.open_files_max < OPEN_FILES_MIN {
            let least = OPEN_FILES_MIN;
            return Err(Error::invalid(format!("open_files_max must be at least {least}")));
        }
        if !SPACE_AMPLIFICATION.contains(&self.space_amplification_max) {
            let (least, most) = (SPACE_AMPLIFICATION.start(), SPACE_AMPLIFICATION.end());
            let message = format!("space_amplification_max must be {least} to {most}");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Removes a database: every file of it, and the directory if nothing else is in it.
    ///
    /// # Errors
    /// `InUse` if it is open, `NotFound` if there is no database, `Io`.
    pub fn destroy(self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let io =
            self.io().map_err(|cause| Error::io("starting background threads", path, cause))?;
        let outcome = crate::engine::destroy::destroy(&io, path);
        io.executor.shutdown();
        outcome
    }

    #[cfg(feature = "sim")]
    fn io(&self) -> std::io::Result<Io> {
        match &self.environment {
            Some(world) => world.clone().into_io(self.background_threads, self.io_rate_limit),
            None => native_io(self.background_threads, self.io_rate_limit),
        }
    }

    #[cfg(not(feature = "sim"))]
    fn io(&self) -> std::io::Result<Io> {
        native_io(self.background_threads, self.io_rate_limit)
    }

    fn effective_widths(&self) -> Widths {
        #[cfg(feature = "sim")]
        if let Some(widths) = &self.widths {
            return widths.clone();
        }
        Widths::for_budget(self.memory_budget)
    }

    /// The part of the options that the engine keeps.
    pub(crate) fn into_settings(self) -> Settings {
        Settings {
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            read_only: self.read_only,
            sync_interval: self.sync_interval,
            write_timeout: self.write_timeout,
            memory_budget: self.memory_budget,
            direct_reads: self.direct_reads,
            direct_writes: self.direct_writes,
            open_files_max: self.open_files_max,
            reserve_bytes: self.reserve_bytes,
            strategy: self.strategy,
            space_amplification_max: self.space_amplification_max,
            operators: self.merge_operators,
        }
    }
}

/// Smallest memory budget: a memtable, a few blocks and a compaction's buffers.
const MEMORY_BUDGET_MIN: u64 = 1 << 20;
/// Smallest limit of open tables: a compaction's inputs and a reader's levels.
const OPEN_FILES_MIN: usize = 16;
/// Below, collection would do nothing else; above, it would do nothing.
const SPACE_AMPLIFICATION: std::ops::RangeInclusive<f64> = 1.05..=10.0;

/// Bytes from which on values are kept apart in a keyspace that does not say. The text of
/// [`KeyspaceOptions::separate_at`] names it, too.
const SEPARATE_AT_DEFAULT: Option<u32> = Some(1 << 10);

/// How to create (or find) a keyspace. What is recorded at creation must match afterwards.
#[derive(Clone, Debug)]
pub struct KeyspaceOptions {
    pub(crate) index: IndexKind,
    pub(crate) merge_operator: Option<String>,
    pub(crate) compression: Option<Vec<Compression>>,
    pub(crate) separate_at: Option<u32>,
    pub(crate) value_compression: Compression,
    pub(crate) deltas: Option<Deltas>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyspaceOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            index: IndexKind::default(),
            merge_operator: None,
            compression: None,
            separate_at: SEPARATE_AT_DEFAULT,
            value_compression: Compression::None,
            deltas: None,
        }
    }

    setter! {
        /// The index structure. Default: [`IndexKind::Lsm`]. Fixed at creation.
        index: IndexKind
    }

    /// Name of the merge operator. Default: none, `merge` is refused. Fixed once set.
    #[must_use]
    pub fn merge_operator(mut self, name: impl Into<String>) -> Self {
        self.merge_operator = Some(name.into());
        self
    }

    /// Compression by level, the last entry for all below. Default: none on levels 0 and 1, LZ4
    /// below. Denser costs processor time at compaction and on every uncached read.
    #[must_use]
    pub fn compression(mut self, by_level: impl Into<Vec<Compression>>) -> Self {
        self.compression = Some(by_level.into());
        self
    }

    setter! {
        /// Bytes from which on a value is kept in a value file, and only its place in the index.
        /// Default: 1024; `None`: never. Fixed at creation. Lower saves writing: compaction does
        /// not move what is not in the index; it costs one more read a value that is read, scans
        /// of cold data above all, and live values are moved now and then to free the room of
        /// dead ones ([`Options::space_amplification_max`]).
        separate_at: Option<u32>
    }
    setter! {
        /// Compression of values in value files. Default: none. Fixed at creation. A value is
        /// stored as it is where the gain is small.
        value_compression: Compression
    }

    /// Where merge operands are kept. Default: [`Deltas::Buckets`] for a new keyspace with a merge
    /// operator, [`Deltas::Inline`] for one without, and for an existing one whatever it was
    /// created with. Fixed at creation. In buckets all flushed operands of a key stand in one small
    /// file: compaction does not move them, and a get of a key with many costs one or two reads
    /// more than its value, under way at the same time. It costs memory for the buckets' filters, a
    /// device flush for each bucket that a flush of memory touches, and file descriptors; as long
    /// as nothing is merged, it costs nothing.
    #[must_use]
    pub fn deltas(mut self, deltas: Deltas) -> Self {
        self.deltas = Some(deltas);
        self
    }
}

impl KeyspaceOptions {
    /// What is recorded at creation.
    pub(crate) fn into_settings(self) -> KeyspaceSettings {
        let by_level = self.compression.filter(|by_level| !by_level.is_empty());
        let compression = by_level
            .unwrap_or_else(|| vec![Compression::None, Compression::None, Compression::Lz4]);
        KeyspaceSettings {
            index: self.index,
            merge_operator: self.merge_operator,
            compression,
            separate_at: self.separate_at,
            value_compression: self.value_compression,
            deltas: self.deltas,
        }
    }
}
