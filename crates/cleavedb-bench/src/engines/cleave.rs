//! CleaveDB as an engine to measure, through its public face only.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use cleavedb::{
    Batch, Compression, Db, Deltas, Durability, IndexKind, Keyspace, KeyspaceOptions, Options,
    StrategyKind, operators,
};

use crate::engine::{Collection, Engine, EngineStats, Settings, WriteBatch};
use crate::tuning::Tuning;

/// Keyspace that holds the benchmark's pairs.
const KEYSPACE: &str = "bench";

struct Cleave {
    db: Db,
    pairs: Keyspace,
    durability: Durability,
    /// Whether scans read values ahead.
    prefetch: bool,
    settings: String,
}

/// What is special about a store.
#[derive(Clone, Copy, Default)]
struct Kind {
    /// Its strategy; `None`: the one that is asked for, or the default.
    strategy: Option<StrategyKind>,
    /// All values stay in the index.
    values_inline: bool,
    /// All merge operands stay in the index.
    deltas_inline: bool,
    /// The index; `None`: the default.
    index: Option<IndexKind>,
}

impl Kind {
    fn of(strategy: StrategyKind) -> Self {
        Self { strategy: Some(strategy), ..Self::default() }
    }
}

/// Opens or creates a store in `dir`.
pub(super) fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind::default())
}

/// Opens or creates a store in `dir` whose garbage collection asks the index.
pub(super) fn open_wisckey(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind::of(StrategyKind::Wisckey))
}

/// Opens or creates a store in `dir` whose garbage collection goes by facts.
pub(super) fn open_novkv(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind::of(StrategyKind::Novkv))
}

/// Opens or creates a store in `dir` with bare keys in its index and a map beside it.
pub(super) fn open_wayfinder(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind::of(StrategyKind::Wayfinder))
}

/// Opens or creates a store in `dir` that keeps all values in the index.
pub(super) fn open_inline(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind { values_inline: true, ..Kind::default() })
}

/// Opens or creates a store in `dir` with a Flex index that keeps all values.
pub(super) fn open_flex(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let index = Some(IndexKind::Flex);
    open_kind(dir, settings, Kind { values_inline: true, index, ..Kind::default() })
}

/// Opens or creates a store in `dir` that keeps all merge operands in the index.
pub(super) fn open_inline_deltas(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind { deltas_inline: true, ..Kind::default() })
}

/// The same, with a garbage collection that asks the index.
pub(super) fn open_wisckey_inline_deltas(
    dir: &Path,
    settings: &Settings,
) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind { deltas_inline: true, ..Kind::of(StrategyKind::Wisckey) })
}

/// Opens or creates a store in `dir` that keeps values and merge operands in the index.
pub(super) fn open_all_inline(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    open_kind(dir, settings, Kind { values_inline: true, deltas_inline: true, ..Kind::default() })
}

fn open_kind(dir: &Path, settings: &Settings, kind: Kind) -> Result<Box<dyn Engine>> {
    let strategy = kind.strategy.or(settings.tuning.strategy);
    let durability = if settings.sync { Durability::Sync } else { Durability::Buffered };
    let tuning = &settings.tuning;
    let mut takes = vec!["merges_parts", "statistics", "separate_at", "prefetch"];
    let mut options = Options::new();
    if let Some(strategy) = strategy {
        options = options.strategy(strategy);
    }
    if strategy == tuning.strategy {
        takes.push("strategy");
    }
    if let Some(most) = tuning.space_amplification_max {
        options = options.space_amplification_max(most);
        takes.push("space_amplification_max");
    }
    let db = sized(options, settings, &mut takes)
        .memory_budget(settings.memory_budget)
        .durability(durability)
        .direct_reads(settings.direct)
        .direct_writes(settings.direct)
        .background_threads(settings.background_threads)
        .open(dir)?;
    let parts = settings.tuning.merges_parts;
    let operator = if parts { operators::PATCH } else { operators::U64_ADD };
    let mut options = KeyspaceOptions::new().merge_operator(operator);
    if !settings.compressed {
        options = options.compression([Compression::None]);
    }
    if kind.values_inline {
        options = options.separate_at(None);
    } else if let Some(bytes) = tuning.separate_at {
        options = options.separate_at(Some(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }
    if let Some(index) = kind.index {
        options = options.index(index);
    }
    if kind.deltas_inline {
        options = options.deltas(Deltas::Inline);
    }
    let prefetch = settings.tuning.prefetch.unwrap_or(true);
    let pairs = db.keyspace(KEYSPACE, options)?;
    let known = db.keyspaces().into_iter().find(|known| known.name == KEYSPACE);
    let deltas = known.as_ref().map(|known| known.deltas).unwrap_or_default();
    let index = known.as_ref().map(|known| known.index).unwrap_or_default();
    let separated = match known.and_then(|known| known.separate_at) {
        Some(bytes) => bytes.to_string(),
        None => "off".to_owned(),
    };
    let settings = format!(
        "defaults; memory_budget={} durability={durability:?} direct_reads={direct} \
         direct_writes={direct} background_threads={} compression={} merge_operator={operator} \
         index={index:?} deltas={deltas:?} strategy={} separate_at={separated} \
         prefetch={prefetch}{}",
        settings.memory_budget,
        settings.background_threads,
        if settings.compressed { "default" } else { "none" },
        db.stats().values.strategy,
        taken(&settings.tuning, &takes) + &settings.tuning.not_taken(&takes),
        direct = settings.direct,
    );
    Ok(Box::new(Cleave { db, pairs, durability, prefetch, settings }))
}

/// What of a tuning is no public option, and taken with the feature `widths` only.
const WIDTHS: [&str; 7] = [
    "memtable_bytes",
    "replay_bytes_max",
    "separated_file_bytes",
    "delta_cache_bytes",
    "bucket_split_percent",
    "bucket_splits",
    "journaled",
];

/// Sizes of structures that the public options do not name.
#[cfg(feature = "widths")]
fn sized(options: Options, settings: &Settings, takes: &mut Vec<&'static str>) -> Options {
    let tuning = &settings.tuning;
    let asked = tuning.asked();
    if !asked.iter().any(|(name, _)| WIDTHS.contains(&name.as_str())) {
        return options;
    }
    let mut widths = cleavedb::sim::Widths::for_budget(settings.memory_budget);
    widths.memtable_bytes = tuning.memtable_bytes.unwrap_or(widths.memtable_bytes);
    widths.replay_bytes_max = tuning.replay_bytes_max.unwrap_or(widths.replay_bytes_max);
    widths.value_segment_bytes = tuning.separated_file_bytes.unwrap_or(widths.value_segment_bytes);
    widths.journaled = tuning.journaled.unwrap_or(true);
    let deltas = &mut widths.deltas;
    deltas.cache_bytes = tuning.delta_cache_bytes;
    deltas.split_percent = tuning.bucket_split_percent.unwrap_or(deltas.split_percent);
    deltas.splits = tuning.bucket_splits.unwrap_or(deltas.splits);
    takes.extend(WIDTHS);
    options.widths(widths)
}

/// Without the feature `widths` there are none that could be set.
#[cfg(not(feature = "widths"))]
fn sized(options: Options, _: &Settings, _: &mut Vec<&'static str>) -> Options {
    options
}

/// What was asked for and taken, beyond what is printed anyway.
fn taken(tuning: &Tuning, takes: &[&str]) -> String {
    let is_shown = |name: &str| {
        (name == "space_amplification_max" || WIDTHS.contains(&name)) && takes.contains(&name)
    };
    let taken = tuning.asked().into_iter().filter(|(name, _)| is_shown(name));
    taken.map(|(name, value)| format!(" {name}={value}")).collect()
}

impl Engine for Cleave {
    fn name(&self) -> String {
        format!("cleavedb {}", env!("CARGO_PKG_VERSION"))
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.pairs.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.pairs.delete(key)?)
    }

    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()> {
        Ok(self.pairs.merge(key, operand.to_le_bytes())?)
    }

    fn merge_part(&self, key: &[u8], place: usize, part: &[u8]) -> Result<()> {
        Ok(self.pairs.merge(key, operators::encode_patch(u32::try_from(place)?, part)?)?)
    }

    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.pairs.delete_range(from..to)?)
    }

    fn drop_keyspace(&self) -> Result<()> {
        Ok(self.db.drop_keyspace(KEYSPACE)?)
    }

    fn compact(&self) -> Result<()> {
        Ok(self.db.compact()?)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.pairs.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (index, value) in self.pairs.multi_get(keys)?.iter().enumerate() {
            if let Some(value) = value {
                found(index, value);
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut pairs = 0;
        let mut take = |item: cleavedb::Result<(cleavedb::Value, cleavedb::Value)>| {
            let (key, value) = item?;
            visit(&key, &value);
            pairs += 1;
            Ok::<_, cleavedb::Error>(())
        };
        if reverse {
            self.pairs
                .range(..=from)
                .prefetch(self.prefetch)
                .rev()
                .take(limit)
                .try_for_each(&mut take)?;
        } else {
            self.pairs.range(from..).prefetch(self.prefetch).take(limit).try_for_each(&mut take)?;
        }
        Ok(pairs)
    }

    fn batch(&self) -> Box<dyn WriteBatch + '_> {
        Box::new(CleaveBatch { engine: self, batch: self.db.batch() })
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.db.wait_idle()?)
    }

    fn stats(&self) -> EngineStats {
        let stats = self.db.stats();
        EngineStats {
            user_bytes_written: stats.user_bytes_written,
            bytes_written: stats.bytes_written.values().sum(),
            disk_bytes: stats.disk_bytes,
            live_bytes: stats.live_bytes,
            value_file_bytes: stats.values.file_bytes,
            value_live_bytes: stats.values.live_bytes,
            index_bytes: Some(stats.keyspaces.iter().map(|keyspace| keyspace.disk_bytes).sum()),
            collection: Some(Collection {
                index_reads: stats.collection.index_reads,
                index_writes: stats.collection.index_writes,
                bytes_moved: stats.collection.bytes_moved,
                files: stats.collection.files_collected,
                bytes_written: stats.bytes_written.get("gc").copied().unwrap_or(0),
            }),
            memory_bytes: self.db.memory_usage().get("total").copied().unwrap_or(0),
            // Its statistics are kept always, and are all in the detail.
            read_counters: BTreeMap::new(),
            detail: serde_json::to_value(&stats).unwrap_or_default(),
        }
    }
}

struct CleaveBatch<'a> {
    engine: &'a Cleave,
    batch: Batch,
}

impl WriteBatch for CleaveBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(&self.engine.pairs, key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.batch.delete(&self.engine.pairs, key);
    }

    fn merge_add(&mut self, key: &[u8], operand: u64) {
        self.batch.merge(&self.engine.pairs, key, operand.to_le_bytes());
    }

    fn len(&self) -> usize {
        self.batch.len()
    }

    fn commit(&mut self) -> Result<()> {
        Ok(self.batch.commit(self.engine.durability)?)
    }
}
