//! Forms: the same database under other options. Widths are tiny, so that every structure splits,
//! rolls and merges within a few hundred operations.
//!
//! Plain data. Invariant R1: no form changes what a read returns.

use std::time::Duration;

use cleavedb::sim::{DeltaWidths, Widths};
use cleavedb::{Compression, Deltas, Durability, IndexKind, Options, StrategyKind};

use crate::kinds::Kinds;
use crate::operators;
use crate::random::Random;

/// One set of options.
#[derive(Clone, Debug)]
pub struct Form {
    /// What is special about it.
    pub name: String,
    /// Sizes of structures.
    pub widths: Widths,
    /// Index of the keyspaces.
    pub index: IndexKind,
    /// Index of those in odd slots, if another one.
    pub odd_index: Option<IndexKind>,
    /// Whether the last keyspace has the naive index.
    pub mixed: bool,
    /// Compression by level.
    pub compression: Option<Vec<Compression>>,
    /// Bytes from which on values are kept in value files.
    pub separate_at: Option<u32>,
    /// How they are kept there.
    pub strategy: StrategyKind,
    /// Their compression there.
    pub value_compression: Compression,
    /// Where merge operands are.
    pub deltas: Deltas,
    /// Bytes of memory.
    pub memory_budget: u64,
    /// Interval of the background sync.
    pub sync_interval: Duration,
    /// Durability of writes that name none.
    pub durability: Durability,
    /// Direct reads and writes.
    pub direct: bool,
    /// Table files open at once.
    pub open_files_max: usize,
    /// Bytes set aside.
    pub reserve_bytes: u64,
    /// On the real file system with real threads.
    pub native: bool,
}

/// Widths at which a few kilobytes fill every structure.
#[must_use]
pub fn tiny() -> Widths {
    Widths {
        memtable_bytes: 4 << 10,
        frozen_memtables_max: 2,
        journal_segment_bytes: 4 << 10,
        value_segment_bytes: 4 << 10,
        value_tail_bytes: 2 << 10,
        value_order_bytes: 256,
        large_value_bytes: 8 << 20,
        large_chunk_bytes: 1 << 20,
        hole_block_bytes: 4096,
        replay_bytes_max: 64 << 10,
        manifest_bytes_max: 2 << 10,
        facts_bytes_max: 200,
        block_cache_bytes_max: u64::MAX,
        block_bytes: 256,
        restart_interval: 4,
        table_bytes: 2 << 10,
        level0_runs_trigger: 2,
        level_base_bytes_min: 8 << 10,
        level_ratio: 3,
        read_compaction_nanos_min: 50_000,
        subcompaction_bytes_min: 8 << 10,
        bucket_bytes: 1 << 10,
        buckets_max: 12,
        deltas: DeltaWidths::default(),
        journaled: true,
        locator_shard_bits: 1,
        locator_fingerprint_bits: 2,
        locator_window_bits: 12,
    }
}

/// Widths of the delta store, drawn.
fn drawn_deltas(random: &mut Random) -> DeltaWidths {
    DeltaWidths {
        cache_bytes: *random.pick(&[None, None, Some(0), Some(4 << 10)]),
        split_percent: *random.pick(&[80, 80, 10, 90]),
        splits: random.chance(3, 4),
    }
}

/// Now and then the other index for some of the keyspaces, drawn.
fn drawn_odd_index(random: &mut Random, index: IndexKind) -> Option<IndexKind> {
    let other = if index == IndexKind::Flex { IndexKind::Lsm } else { IndexKind::Flex };
    random.chance(1, 6).then_some(other)
}

impl Form {
    /// The form all others differ from in a few points.
    #[must_use]
    pub fn base() -> Self {
        Self {
            name: "tiny".to_owned(),
            widths: tiny(),
            index: IndexKind::Lsm,
            odd_index: None,
            mixed: true,
            compression: None,
            separate_at: None,
            strategy: StrategyKind::Wisckey,
            value_compression: Compression::None,
            deltas: Deltas::Inline,
            memory_budget: 4 << 20,
            sync_interval: Duration::from_secs(1),
            durability: Durability::Buffered,
            direct: false,
            open_files_max: 512,
            reserve_bytes: 8 << 10,
            native: false,
        }
    }

    fn named(name: &str, change: impl FnOnce(&mut Self)) -> Self {
        let mut form = Self { name: name.to_owned(), ..Self::base() };
        change(&mut form);
        form
    }

    /// All forms. Pairwise combinations come from [`Form::drawn`].
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut forms = vec![
            Self::base(),
            Self::named("naive index", |form| form.index = IndexKind::Naive),
            Self::named("large memtable", |form| {
                form.widths.memtable_bytes = 64 << 10;
                form.mixed = false;
            }),
            Self::named("smallest memtable, one frozen", |form| {
                form.widths.memtable_bytes = 1 << 10;
                form.widths.frozen_memtables_max = 1;
            }),
            Self::named("restart at every entry, tiny blocks", |form| {
                form.widths.block_bytes = 64;
                form.widths.restart_interval = 1;
            }),
            Self::named("blocks of 4 KiB, restart every 16", |form| {
                form.widths.block_bytes = 4096;
                form.widths.restart_interval = 16;
                form.widths.table_bytes = 16 << 10;
            }),
            Self::named("LZ4 on every level", |form| {
                form.compression = Some(vec![Compression::Lz4]);
            }),
            Self::named("zstd below level 0", |form| {
                form.compression = Some(vec![Compression::None, Compression::Zstd]);
            }),
            Self::named("ratio 2, tables of one kilobyte", |form| {
                form.widths.level_ratio = 2;
                form.widths.table_bytes = 1 << 10;
                form.widths.level_base_bytes_min = 4 << 10;
            }),
            Self::named("ratio 10, four runs in level 0", |form| {
                form.widths.level_ratio = 10;
                form.widths.level0_runs_trigger = 4;
            }),
            Self::named("parallel parts always", |form| form.widths.subcompaction_bytes_min = 1),
            Self::named("parallel parts never", |form| {
                form.widths.subcompaction_bytes_min = u64::MAX;
                form.compression = Some(vec![Compression::None]);
            }),
            Self::named("smallest memory budget, few files", |form| {
                form.memory_budget = 1 << 20;
                form.open_files_max = 16;
                form.separate_at = Some(16);
                form.widths.value_segment_bytes = 512;
            }),
            Self::named("sync at once, replay bounded", |form| {
                form.sync_interval = Duration::from_millis(1);
                form.durability = Durability::Sync;
                form.widths.replay_bytes_max = 4 << 10;
            }),
            Self::named("journal segments of one kilobyte", |form| {
                form.widths.journal_segment_bytes = 1 << 10;
                form.sync_interval = Duration::ZERO;
            }),
            Self::named("manifest rolls at every edit", |form| {
                form.widths.manifest_bytes_max = 1;
                form.reserve_bytes = 0;
            }),
        ];
        forms.extend(Self::of_values());
        forms.extend(Self::of_strategies());
        forms.extend(Self::with_map());
        forms.extend(Self::of_deltas());
        forms.extend(Self::of_flex());
        forms
    }

    /// The Flex index, with each strategy.
    fn of_flex() -> Vec<Self> {
        vec![
            Self::named("flex index", |form| form.index = IndexKind::Flex),
            Self::named("flex index, novkv, lz4", |form| {
                form.index = IndexKind::Flex;
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(8);
                form.value_compression = Compression::Lz4;
            }),
            Self::named("flex index, unified", |form| {
                form.index = IndexKind::Flex;
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(0);
            }),
            Self::named("flex index, wayfinder", |form| {
                form.index = IndexKind::Flex;
                form.strategy = StrategyKind::Wayfinder;
                form.separate_at = Some(8);
            }),
            Self::named("flex index, buckets, blocks of 64 bytes", |form| {
                form.index = IndexKind::Flex;
                form.deltas = Deltas::Buckets;
                form.widths.block_bytes = 64;
            }),
            Self::named("flex index, a cache that is always full, few files", |form| {
                form.index = IndexKind::Flex;
                form.open_files_max = 16;
                form.widths.block_cache_bytes_max = 0;
            }),
            Self::named("flex index, real disk, threads, direct I/O", |form| {
                form.index = IndexKind::Flex;
                form.native = true;
                form.direct = true;
                form.separate_at = Some(100);
                form.widths.block_cache_bytes_max = 4 << 10;
            }),
            Self::named("flex index, unified, a cache of four kilobytes", |form| {
                form.index = IndexKind::Flex;
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(16);
                form.widths.block_cache_bytes_max = 4 << 10;
            }),
            Self::named("flex index beside an LSM-tree, values apart", |form| {
                form.odd_index = Some(IndexKind::Flex);
                form.separate_at = Some(100);
            }),
        ]
    }

    /// Forms that keep merge operands in buckets.
    fn of_deltas() -> Vec<Self> {
        vec![
            Self::named("buckets", |form| form.deltas = Deltas::Buckets),
            Self::named("buckets of 300 bytes, values of 8 bytes apart", |form| {
                form.deltas = Deltas::Buckets;
                form.separate_at = Some(8);
                form.widths.bucket_bytes = 300;
                form.widths.buckets_max = 4;
                form.widths.value_segment_bytes = 1 << 10;
            }),
            Self::named("buckets of 64 KiB, naive index", |form| {
                form.deltas = Deltas::Buckets;
                form.index = IndexKind::Naive;
                form.widths.bucket_bytes = 64 << 10;
            }),
            Self::named("buckets, novkv, large memtable", |form| {
                form.deltas = Deltas::Buckets;
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(8);
                form.widths.memtable_bytes = 16 << 10;
                form.widths.large_value_bytes = 200;
                form.widths.large_chunk_bytes = 64;
            }),
            Self::named("buckets, unified, values of 8 bytes apart", |form| {
                form.deltas = Deltas::Buckets;
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(8);
                form.widths.bucket_bytes = 600;
                form.widths.buckets_max = 64;
                form.widths.value_segment_bytes = 1 << 10;
            }),
            Self::named("buckets, real disk, threads", |form| {
                form.deltas = Deltas::Buckets;
                form.native = true;
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(16);
                form.widths.value_segment_bytes = 2 << 10;
            }),
        ]
    }

    /// Forms that keep values apart, and those on the real disk.
    fn of_values() -> Vec<Self> {
        vec![
            Self::named("values of 100 bytes apart, a cache of two kilobytes", |form| {
                form.separate_at = Some(100);
                form.widths.block_cache_bytes_max = 2 << 10;
                form.widths.block_bytes = 512;
            }),
            Self::named("values of 8 bytes apart, segments of one kilobyte", |form| {
                form.separate_at = Some(8);
                form.widths.value_segment_bytes = 1 << 10;
            }),
            Self::named("values of 100 bytes in files of their own", |form| {
                form.separate_at = Some(8);
                form.widths.large_value_bytes = 100;
                form.widths.large_chunk_bytes = 64;
            }),
            Self::named("every value apart, naive index, no tail", |form| {
                form.separate_at = Some(0);
                form.index = IndexKind::Naive;
                form.widths.value_segment_bytes = 512;
                form.widths.value_tail_bytes = 0;
            }),
            Self::named("values of 200 bytes apart, zstd, synced", |form| {
                form.separate_at = Some(200);
                form.value_compression = Compression::Zstd;
                form.durability = Durability::Sync;
            }),
            Self::named("values of 40 bytes apart, holes of 16", |form| {
                form.separate_at = Some(40);
                form.widths.hole_block_bytes = 16;
                form.widths.value_segment_bytes = 2 << 10;
            }),
            Self::named("real disk, threads, values apart", |form| {
                form.native = true;
                form.separate_at = Some(64);
                form.widths.hole_block_bytes = 32;
                form.widths.value_segment_bytes = 2 << 10;
                form.widths.large_value_bytes = 300;
                form.widths.large_chunk_bytes = 128;
            }),
            Self::named("real disk, threads", |form| form.native = true),
            Self::named("real disk, threads, direct I/O", |form| {
                form.native = true;
                form.direct = true;
                form.separate_at = Some(100);
                form.value_compression = Compression::Lz4;
                form.widths.large_value_bytes = 1000;
                form.widths.large_chunk_bytes = 1 << 10;
                form.widths.subcompaction_bytes_min = 1;
            }),
        ]
    }

    /// Forms of the other strategies.
    fn of_strategies() -> Vec<Self> {
        vec![
            Self::named("novkv, values of 8 bytes apart", |form| {
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(8);
                form.widths.value_segment_bytes = 1 << 10;
            }),
            Self::named("novkv, large memtable", |form| {
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(0);
                form.widths.memtable_bytes = 16 << 10;
                form.widths.value_segment_bytes = 2 << 10;
            }),
            Self::named("novkv, naive index, zstd", |form| {
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(40);
                form.index = IndexKind::Naive;
                form.value_compression = Compression::Zstd;
            }),
            Self::named("unified, values of 8 bytes apart", |form| {
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(8);
                form.widths.value_segment_bytes = 1 << 10;
                form.widths.large_value_bytes = 400;
            }),
            Self::named("unified, large memtable", |form| {
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(0);
                form.widths.memtable_bytes = 16 << 10;
                form.widths.value_segment_bytes = 2 << 10;
                form.widths.locator_window_bits = 6;
            }),
            Self::named("unified, naive index, zstd", |form| {
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(40);
                form.index = IndexKind::Naive;
                form.value_compression = Compression::Zstd;
            }),
            Self::named("unified, real disk, threads", |form| {
                form.native = true;
                form.strategy = StrategyKind::Unified;
                form.separate_at = Some(16);
                form.widths.value_segment_bytes = 2 << 10;
            }),
            Self::named("novkv, real disk, threads", |form| {
                form.native = true;
                form.strategy = StrategyKind::Novkv;
                form.separate_at = Some(16);
                form.widths.value_segment_bytes = 2 << 10;
                form.widths.large_value_bytes = 300;
                form.widths.large_chunk_bytes = 128;
            }),
        ]
    }

    /// Forms with a map.
    fn with_map() -> Vec<Self> {
        vec![
            Self::named("wayfinder, values of 8 bytes apart", |form| {
                form.strategy = StrategyKind::Wayfinder;
                form.separate_at = Some(8);
                form.widths.value_segment_bytes = 1 << 10;
                form.widths.large_value_bytes = 400;
            }),
            Self::named("wayfinder, large memtable", |form| {
                form.strategy = StrategyKind::Wayfinder;
                form.separate_at = Some(0);
                form.widths.memtable_bytes = 16 << 10;
                form.widths.value_segment_bytes = 2 << 10;
            }),
            Self::named("wayfinder, naive index, zstd", |form| {
                form.strategy = StrategyKind::Wayfinder;
                form.separate_at = Some(40);
                form.index = IndexKind::Naive;
                form.value_compression = Compression::Zstd;
            }),
            Self::named("wayfinder, real disk, threads", |form| {
                form.native = true;
                form.strategy = StrategyKind::Wayfinder;
                form.separate_at = Some(16);
                form.widths.value_segment_bytes = 2 << 10;
            }),
        ]
    }

    /// The forms on the simulated disk.
    #[must_use]
    pub fn simulated() -> Vec<Self> {
        Self::all().into_iter().filter(|form| !form.native).collect()
    }

    /// A simulated form drawn for a seed, every option by itself.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let none = vec![Compression::None];
        let dense = vec![Compression::None, Compression::Lz4, Compression::Zstd];
        let mut form = Self { name: format!("drawn {seed}"), ..Self::base() };
        form.widths = Widths {
            memtable_bytes: *random.pick(&[1 << 10, 2 << 10, 4 << 10, 16 << 10]),
            frozen_memtables_max: *random.pick(&[1, 2, 3]),
            journal_segment_bytes: *random.pick(&[512, 1 << 10, 4 << 10, 64 << 10]),
            value_segment_bytes: *random.pick(&[512, 2 << 10, 16 << 10]),
            value_order_bytes: *random.pick(&[1, 256, 4 << 10, u64::MAX / 2]),
            value_tail_bytes: *random.pick(&[0, 1 << 10, 64 << 10]),
            large_value_bytes: 8 << 20,
            large_chunk_bytes: 1 << 20,
            hole_block_bytes: 4096,
            replay_bytes_max: *random.pick(&[4 << 10, 16 << 10, 256 << 10]),
            manifest_bytes_max: *random.pick(&[1, 512, 2 << 10, 64 << 10]),
            facts_bytes_max: 200,
            block_cache_bytes_max: u64::MAX,
            block_bytes: *random.pick(&[64, 256, 1024, 4096]),
            restart_interval: *random.pick(&[1, 2, 4, 16]),
            table_bytes: *random.pick(&[512, 2 << 10, 8 << 10]),
            level0_runs_trigger: *random.pick(&[1, 2, 4]),
            level_base_bytes_min: *random.pick(&[2 << 10, 8 << 10, 32 << 10]),
            level_ratio: *random.pick(&[2, 3, 10]),
            read_compaction_nanos_min: 50_000,
            subcompaction_bytes_min: *random.pick(&[1, 8 << 10, u64::MAX]),
            bucket_bytes: 1 << 10,
            buckets_max: 12,
            deltas: DeltaWidths::default(),
            journaled: true,
            locator_shard_bits: 1,
            locator_fingerprint_bits: 2,
            locator_window_bits: 12,
        };
        form.compression = random.pick(&[None, Some(none), Some(dense)]).clone();
        form.mixed = random.chance(3, 4);
        form.memory_budget = *random.pick(&[1 << 20, 4 << 20]);
        form.sync_interval = Duration::from_millis(*random.pick(&[0, 1, 100, 1000]));
        form.reserve_bytes = *random.pick(&[0, 4 << 10]);
        form.separate_at = *random.pick(&[None, Some(0), Some(0), Some(8), Some(8), Some(150)]);
        form.value_compression =
            *random.pick(&[Compression::None, Compression::Lz4, Compression::Zstd]);
        if random.chance(1, 8) {
            form.index = IndexKind::Naive;
        }
        if random.chance(1, 8) {
            form.durability = Durability::Sync;
        }
        // Drawn last, so that what came before stays what it was for its seed.
        form.widths.large_value_bytes = *random.pick(&[17, 100, 400, 8 << 20]);
        form.widths.large_chunk_bytes = *random.pick(&[16, 100, 1 << 10]);
        form.widths.hole_block_bytes = *random.pick(&[8, 32, 128, 4096]);
        form.strategy = *random.pick(&StrategyKind::ALL);
        form.widths.locator_fingerprint_bits = *random.pick(&[1, 2, 15]);
        form.widths.locator_shard_bits = *random.pick(&[1, 6]);
        form.widths.locator_window_bits = *random.pick(&[6, 12, 20]);
        form.deltas = *random.pick(&[Deltas::Inline, Deltas::Buckets]);
        form.widths.bucket_bytes = *random.pick(&[300, 1 << 10, 16 << 10]);
        form.widths.buckets_max = *random.pick(&[3, 12, 100]);
        form.widths.facts_bytes_max = *random.pick(&[1, 1, 100, 1 << 10, 1 << 20]);
        if random.chance(1, 3) {
            form.index = IndexKind::Flex;
        }
        form.widths.deltas = drawn_deltas(random);
        form.widths.block_cache_bytes_max = *random.pick(&[u64::MAX, u64::MAX, 0, 4 << 10]);
        form.odd_index = drawn_odd_index(random, form.index);
        form
    }

    /// The engine's options, without the environment.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::new()
            .durability(self.durability)
            .sync_interval(self.sync_interval)
            .memory_budget(self.memory_budget)
            .background_threads(2)
            .direct_reads(self.direct)
            .direct_writes(self.direct)
            .open_files_max(self.open_files_max)
            .reserve_bytes(self.reserve_bytes)
            .strategy(self.strategy)
            .widths(self.widths.clone());
        for operator in operators::all() {
            options = options.merge_operator(operator);
        }
        options
    }
}

impl Form {
    /// The form of a name, or the base.
    #[must_use]
    pub fn find(name: &str) -> Self {
        if let Some((kinds, rest)) = Kinds::of_name(name) {
            return kinds.form(&Self::find(rest));
        }
        if let Some(seed) = name.strip_prefix("drawn ").and_then(|seed| seed.parse().ok()) {
            return Self::drawn(seed);
        }
        Self::all().into_iter().find(|form| form.name == name).unwrap_or_else(Self::base)
    }
}
