//! Sizes of structures: derived from the memory budget, and settable only by the harness, which
//! makes them tiny so that every structure splits and rolls within a few operations.

/// Sizes of the structures of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Arena bytes at which the active memtable is frozen.
    pub memtable_bytes: u64,
    /// Frozen memtables that may wait for their flush before writers are stopped.
    pub frozen_memtables_max: usize,
    /// Bytes of a journal segment before the next one is begun.
    pub journal_segment_bytes: u64,
    /// Bytes of a value segment before the next one is begun.
    pub value_segment_bytes: u64,
    /// Bytes of the newest values kept in memory until they are read from the device.
    pub value_tail_bytes: usize,
    /// Longest value that is logged with its batch; a longer one goes to a file of its own.
    pub large_value_bytes: u64,
    /// Bytes of a piece of such a file, each with a checksum of its own: what a stream holds in
    /// memory.
    pub large_chunk_bytes: usize,
    /// Bytes that a device read of neighbouring keys' values brings on average, from which on they
    /// are in order well enough for scans.
    pub value_order_bytes: u64,
    /// Bytes of a block of the file system: holes in value segments take whole ones.
    pub hole_block_bytes: u64,
    /// Bytes of unflushed log that force a flush, so that recovery is bounded.
    pub replay_bytes_max: u64,
    /// Bytes of edits after which the manifest is rolled into a fresh snapshot.
    pub manifest_bytes_max: u64,
    /// Bytes of facts about value files in memory, and in the manifest, before they go to a file;
    /// [`u64::MAX`]: never.
    pub facts_bytes_max: u64,
    /// Most bytes of the block cache, which otherwise takes what the others leave of the budget.
    pub block_cache_bytes_max: u64,
    /// Bytes of an uncompressed data block.
    pub block_bytes: usize,
    /// Entries between restart points of a block.
    pub restart_interval: usize,
    /// Bytes of a table at which compaction begins the next one.
    pub table_bytes: u64,
    /// Runs in level 0 that make its compaction due where the base is small; up to seven quarters
    /// of them where it is large.
    pub level0_runs_trigger: usize,
    /// Smallest target of the first level below 0.
    pub level_base_bytes_min: u64,
    /// Ratio between neighbouring levels.
    pub level_ratio: u64,
    /// Processor time, in nanoseconds, that reads must have paid for runs of level 0 before these
    /// are merged for it, beside what it costs by their bytes: what a job costs however small.
    pub read_compaction_nanos_min: u64,
    /// Bytes of compaction input from which it is split into parallel parts.
    pub subcompaction_bytes_min: u64,
    /// Most bytes of a bucket of deltas, but for one of a single key: by the budget up to 256 KiB,
    /// since a scan holds one and the one behind it, and each task of a collection one or two.
    pub bucket_bytes: u64,
    /// Buckets there may be before their operands are applied to the values: by the budget one for
    /// each 16 KiB, since each is in the directory and wants its index and filters in memory.
    pub buckets_max: usize,
    /// What experiments vary of the delta store.
    pub deltas: DeltaWidths,
    /// Whether commits are logged. Without, what is not flushed is lost however the database ends,
    /// and it may not open again: for measurements of what being able to recover costs.
    pub journaled: bool,
    /// Shards of the locator, as a power of two: 1 to 6.
    pub locator_shard_bits: u32,
    /// Bits of a key's hash that an entry of the locator tells keys apart by, beside those that say
    /// where it stands: 1 to 15.
    pub locator_fingerprint_bits: u32,
    /// Bits of a container's number in an entry of the locator: at most 20.
    pub locator_window_bits: u32,
}

/// What experiments vary of the delta store; the usual values are those of [`Default`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaWidths {
    /// Bytes of the delta cache; `None`: a sixteenth of the memory budget, and as it fills up to a
    /// third of what it and the block cache have.
    pub cache_bytes: Option<u64>,
    /// Live bytes from which a bucket is split, in percent of its capacity.
    pub split_percent: u64,
    /// Whether buckets are split and merged; otherwise there are those of the first flush, and what
    /// they have no room for is applied to the values.
    pub splits: bool,
}

impl Default for DeltaWidths {
    fn default() -> Self {
        Self { cache_bytes: None, split_percent: 80, splits: true }
    }
}

/// Bytes of a bucket, where the budget allows, and in any case.
const BUCKET_BYTES: u64 = 256 << 10;
const BUCKET_BYTES_LEAST: u64 = 32 << 10;
/// Budget for each bucket. A sixteenth of it, 1 KiB, is for its place in the directory and for
/// index and filters, which not all buckets have in memory at a time.
const BUCKET_BUDGET_BYTES: u64 = 16 << 10;
/// Fewest and most buckets: a few threads' worth, and what a fresh manifest states in 2 MiB.
const BUCKETS_LEAST: u64 = 64;
const BUCKETS_MOST: u64 = 32 << 10;

impl Widths {
    /// Widths for a memory budget: three eighths of it in memtables (the active one and up to two
    /// frozen ones), at most 64 MiB each, and a level 0 of eight to fourteen of them before they
    /// are merged into the base, the more the larger that is. Merging rewrites all of the base
    /// however little comes from above, so what is written in all falls with the size of level 0;
    /// it costs a get one filter more a run. A
    /// segment of the journal takes two memtables: a blank one stands beside it, and small stores
    /// should stay small.
    #[must_use]
    pub fn for_budget(memory_budget: u64) -> Self {
        let memtable_bytes = (memory_budget / 8).clamp(64 << 10, 64 << 20);
        Self {
            memtable_bytes,
            frozen_memtables_max: 2,
            journal_segment_bytes: (2 * memtable_bytes).clamp(4 << 20, 64 << 20),
            value_segment_bytes: 64 << 20,
            value_tail_bytes: (memory_budget / 32).min(8 << 20) as usize,
            large_value_bytes: 8 << 20,
            large_chunk_bytes: 1 << 20,
            value_order_bytes: 64 << 10,
            hole_block_bytes: 4096,
            replay_bytes_max: 512 << 20,
            manifest_bytes_max: 4 << 20,
            facts_bytes_max: (memory_budget / 32).clamp(64 << 10, 4 << 20),
            block_cache_bytes_max: u64::MAX,
            block_bytes: 4096,
            restart_interval: 16,
            table_bytes: 32 << 20,
            level0_runs_trigger: 8,
            level_base_bytes_min: 8 * memtable_bytes,
            level_ratio: 10,
            read_compaction_nanos_min: 10_000_000,
            subcompaction_bytes_min: 64 << 20,
            bucket_bytes: (memory_budget / 64).clamp(BUCKET_BYTES_LEAST, BUCKET_BYTES),
            buckets_max: (memory_budget / BUCKET_BUDGET_BYTES).clamp(BUCKETS_LEAST, BUCKETS_MOST)
                as usize,
            deltas: DeltaWidths::default(),
            journaled: true,
            locator_shard_bits: 6,
            locator_fingerprint_bits: 15,
            locator_window_bits: 20,
        }
    }
}
