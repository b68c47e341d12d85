//! Figures of a running database.

mod collection;
mod deltas;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::engine::Engine;
use crate::engine::gc::on_demand;
use crate::engine::locate::Locating;
use crate::engine::mapping::Mapping;
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::index::IndexSpace;
use crate::io::Purpose;

/// A latency distribution, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Histogram {
    /// Operations timed: all of a kind, but for gets, of which one in eight of each thread is.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Largest of those timed.
    pub max_us: f64,
}

/// One level of an LSM index.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LevelStats {
    /// Number of the level.
    pub level: usize,
    /// Tables in it.
    pub files: usize,
    /// Their bytes on disk.
    pub bytes: u64,
    /// Target bytes, 0 where there is none.
    pub target_bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// One keyspace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KeyspaceStats {
    /// Name.
    pub name: String,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Estimated bytes of its newest versions.
    pub live_bytes: u64,
    /// Entries in its files.
    pub entries: u64,
    /// Its levels.
    pub levels: Vec<LevelStats>,
}

/// Files that hold separated values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ValueStats {
    /// Name of the strategy by which the database keeps, finds and collects them, see
    /// [`StrategyKind`](crate::StrategyKind).
    pub strategy: String,
    /// Files.
    pub files: u64,
    /// Those of them that garbage collection has written in key order, for what lives of one or
    /// more others: value tables. Always 0 where collection puts values again.
    pub containers: u64,
    /// Their bytes, without the holes in them.
    pub file_bytes: u64,
    /// Bytes of holes in them: dead values that were given back to the file system, or are about to
    /// be, as soon as nobody reads them.
    pub hole_bytes: u64,
    /// Index entries that name records in them; what is in memtables only is not counted yet.
    pub entries: u64,
    /// Bytes of the records that are still their keys' values, as far as is known: exact counts of
    /// what the index names, less what samples of the files say was overwritten since. What is in
    /// memtables only counts whole.
    pub live_bytes: u64,
    /// Files of large values, which are not among the files above.
    pub large_files: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Bytes of those that are still their keys' values, as far as is known; what is in memtables
    /// only counts whole.
    pub large_live_bytes: u64,
    /// Values of gets served from memory: what was read before stays in the block cache, as long as
    /// there is room and it is not large.
    pub cache_hits: u64,
    /// Values of gets that were read from files.
    pub cache_misses: u64,
    /// Values that scans began to read ahead.
    pub prefetched: u64,
    /// Those of them that no scan came to: it ended, turned or was sent elsewhere.
    pub prefetched_unused: u64,
    /// The locator, all zeros where the strategy has none.
    pub locator: LocatorStats,
    /// The exact map, where the strategy has one.
    pub map: MapStats,
}

/// The locator: a compact table in memory, from key to the place of its newest flushed value.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LocatorStats {
    /// Keys in it.
    pub keys: u64,
    /// Bytes of memory, all included.
    pub bytes: u64,
    /// Gets that it led to their values since open.
    pub hits: u64,
    /// Gets since open that memtables did not decide and that it left to the index.
    pub misses: u64,
    /// Keys that went for others since open, because it may not grow any more.
    pub evicted: u64,
}

/// The exact map: from every key whose index entry is bare to its newest flushed value.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MapStats {
    /// Keys in it.
    pub keys: u64,
    /// Bytes of these.
    pub key_bytes: u64,
    /// Bytes of memory, keys and all else included.
    pub bytes: u64,
    /// Superseded versions that it keeps for snapshots.
    pub versions: u64,
    /// New keys since open for which it had no room: their handles are in the index.
    pub refused: u64,
}

/// Buckets of merge operands, and look-ups in them since open.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DeltaStats {
    /// Buckets.
    pub buckets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Look-ups of a key that the delta cache answered.
    pub cache_hits: u64,
    /// Look-ups of a key that it did not.
    pub cache_misses: u64,
    /// Look-ups of a key in a bucket.
    pub gets: u64,
    /// Reads that they took: the three below.
    pub reads: u64,
    /// Of a bucket's index and filters: one until they have to leave memory.
    pub loads: u64,
    /// Of a page of a sorted part: at most one a look-up.
    pub page_reads: u64,
    /// Of some of an unsorted part: one a look-up, more where what has the key lies far apart, and
    /// none where index and filters had to be read, for they bring it along.
    pub unsorted_reads: u64,
}

/// Garbage collection of value files since open.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CollectionStats {
    /// Files read to their end, their live values put again, or rewritten in key order.
    pub files_collected: u64,
    /// Files removed: collected ones, and those that nothing named any more.
    pub files_removed: u64,
    /// Files left alone since they could not be collected: damaged, or of a keyspace whose merge
    /// operator is not registered.
    pub files_refused: u64,
    /// Collected files that a snapshot keeps.
    pub files_waiting: u64,
    /// Bytes read for it.
    pub bytes_read: u64,
    /// Bytes of records put again, or rewritten.
    pub bytes_moved: u64,
    /// Times that dead records of a file were dropped where they were, for the file system to take
    /// their blocks back, instead of putting the live ones elsewhere.
    pub files_punched: u64,
    /// Bytes of the files removed.
    pub bytes_freed: u64,
    /// Bytes given back to the file system out of files that stay.
    pub bytes_punched: u64,
    /// Records put again, or rewritten.
    pub records_moved: u64,
    /// Records that compactions of the last level put in the order of their keys (`compact`).
    pub records_relocated: u64,
    /// Their bytes.
    pub bytes_relocated: u64,
    /// Records met that were not their key's value any more.
    pub records_dead: u64,
    /// Records of those rewritten that are not their key's value any more, but a snapshot sees.
    pub records_held: u64,
    /// Records whose key was written between the look and the move, and which were looked at
    /// again.
    pub races_lost: u64,
    /// Look-ups of keys in an index by collection. Always 0 where it goes by facts.
    pub index_reads: u64,
    /// Operations that collection committed, each of which becomes an index entry. Always 0 where
    /// it goes by facts.
    pub index_writes: u64,
    /// Facts of superseded values that flush and compaction stated; 0 for other strategies.
    pub facts: u64,
    /// Facts which no collection has read yet.
    pub facts_waiting: u64,
    /// Bytes of memory that they take.
    pub facts_memory_bytes: u64,
    /// Bytes of files in which those stand that are not in memory.
    pub facts_disk_bytes: u64,
    /// Such files.
    pub facts_files: u64,
    /// Times that collection had an index compacted, so that it tells what was superseded.
    pub compactions_asked: u64,
}

/// What [`Db::reclaim`](crate::Db::reclaim) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reclaimed {
    /// Value files that are gone.
    pub files: u64,
    /// Their bytes.
    pub bytes_freed: u64,
    /// Bytes given back to the file system out of files that stay.
    pub bytes_punched: u64,
    /// Bytes of live values that were put again.
    pub bytes_moved: u64,
    /// Collected files that go once the snapshots are dropped that still read them.
    pub files_waiting: u64,
    /// Whether everything worth it was done, rather than the time up.
    pub is_complete: bool,
}

/// The block cache. It holds values of value files, too; reads of those are counted in
/// [`ValueStats`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct CacheStats {
    /// Reads served from the cache.
    pub hits: u64,
    /// Reads that went to the file.
    pub misses: u64,
    /// Bytes cached.
    pub bytes: u64,
    /// Bytes it may hold now.
    pub capacity_bytes: u64,
}

/// Writers held back, by reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StallStats {
    /// Times.
    pub count: u64,
    /// Microseconds in all.
    pub micros: u64,
}

/// Background work done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventCounts {
    /// Memtables written out.
    pub flushes: u64,
    /// Compactions that rewrote data.
    pub compactions: u64,
    /// Parts of compactions that ran side by side.
    pub parallel_parts: u64,
    /// Tables moved down without rewriting.
    pub trivial_moves: u64,
    /// Largest number of compactions running at once.
    pub concurrent_compactions_max: u64,
    /// Entries that flush and compaction left out because newer ones supersede them.
    pub entries_dropped: u64,
    /// Bytes of keys and values of those.
    pub bytes_dropped: u64,
    /// Groups of batches written with one call.
    pub commit_groups: u64,
    /// Batches committed.
    pub commits: u64,
    /// Syncs of the journal.
    pub journal_syncs: u64,
}

/// Counters since open and shapes of this moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Key and value bytes of all writes accepted.
    pub user_bytes_written: u64,
    /// Bytes written to files, by purpose (journal, values, gc, flush, compaction, manifest,
    /// other).
    pub bytes_written: BTreeMap<String, u64>,
    /// Bytes read from files, by purpose.
    pub bytes_read: BTreeMap<String, u64>,
    /// Calls that read from files, by purpose.
    pub reads: BTreeMap<String, u64>,
    /// All bytes written / user bytes written; 0 before the first write.
    pub write_amplification: f64,
    /// Blocks fetched (cache or device) per get.
    pub read_amplification: f64,
    /// `disk_bytes` / `live_bytes`; 0 where there is nothing.
    pub space_amplification: f64,
    /// Estimated bytes of the newest versions of all keys: what the tables hold of them, and the
    /// live records of value files ([`ValueStats::live_bytes`]). Keys, and values that are not
    /// separated, count from their flush on.
    pub live_bytes: u64,
    /// Bytes written in all files of the database. Room that holds nothing yet is not among them.
    pub disk_bytes: u64,
    /// Bytes of files that hold nothing yet: zeros ahead of the tails of journal and manifest, and
    /// the reserve. Together with `disk_bytes`, what the file system shows.
    pub set_aside_bytes: u64,
    /// Memory in use by part, see [`Db::memory_usage`](crate::Db::memory_usage).
    pub memory_bytes: BTreeMap<String, u64>,
    /// Keyspaces.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Value files.
    pub values: ValueStats,
    /// Buckets of merge operands.
    pub deltas: DeltaStats,
    /// Gets since open by how many merge operands each applied to its value: those of one, of 2, of
    /// up to 4, of up to 8 and so on. What flushes and the delta cache have combined is one; gets
    /// of values without operands are not counted.
    pub operands_per_get: BTreeMap<u64, u64>,
    /// Garbage collection of value files.
    pub collection: CollectionStats,
    /// Block cache.
    pub cache: CacheStats,
    /// Writers held back, by reason.
    pub stalls: BTreeMap<String, StallStats>,
    /// Latencies by operation (put, get, multi_get, scan_next, flush, ...), of all keyspaces
    /// together: they share memtable, journal and threads, so one keyspace's are not kept apart.
    pub latencies: BTreeMap<String, Histogram>,
    /// Background work.
    pub events: EventCounts,
    /// How batched reads reach the device: "io_uring", "threads" or "sequential".
    pub read_batch_mode: String,
    /// Batched reads done that way.
    pub read_batches: u64,
    /// Table files open, those included that only a cursor still keeps open.
    pub open_files: u64,
    /// Newest sequence number visible.
    pub last_seq: u64,
}

/// One finding of `verify`.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The file, where one is concerned.
    pub file: Option<PathBuf>,
    /// Offset in it, where known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// What `verify` saw.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Files checked.
    pub files: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Entries checked.
    pub entries: u64,
    /// Findings; empty means sound.
    pub problems: Vec<Problem>,
}

impl Stats {
    /// The figures of this moment.
    pub(crate) fn of(engine: &Engine) -> Self {
        let metrics = &engine.metrics;
        let meter = &engine.io.meter;
        let by_purpose = |value: &dyn Fn(Purpose) -> u64| {
            Purpose::ALL.into_iter().map(|p| (p.name().to_owned(), value(p))).collect()
        };
        let bytes_written: BTreeMap<String, u64> = by_purpose(&|p| meter.bytes_written(p));
        let user_bytes_written = metrics.user_bytes.load(Relaxed);
        let keyspaces = keyspaces_of(engine);
        let values = values_of(engine);
        let indexed = keyspaces.iter().map(|(k, _)| k.live_bytes).sum::<u64>();
        let deltas = deltas::deltas_of(engine);
        let live_bytes = indexed + values.live_bytes + values.large_live_bytes + deltas.bytes;
        let disk = engine.disk_bytes();
        let disk_bytes = disk.written;
        let gets = metrics.gets.total();
        let cache = CacheStats {
            hits: engine.blocks.hits(),
            misses: engine.blocks.misses(),
            bytes: engine.blocks.bytes(),
            capacity_bytes: engine.blocks.capacity(),
        };
        Self {
            user_bytes_written,
            write_amplification: ratio(bytes_written.values().sum(), user_bytes_written),
            bytes_written,
            bytes_read: by_purpose(&|p| meter.bytes_read(p)),
            reads: by_purpose(&|p| meter.read_calls(p)),
            read_amplification: ratio(cache.hits + cache.misses, gets),
            space_amplification: ratio(disk_bytes, live_bytes),
            live_bytes,
            disk_bytes,
            set_aside_bytes: disk.set_aside,
            memory_bytes: engine.memory_usage(),
            events: events_of(engine, &keyspaces),
            keyspaces: keyspaces.into_iter().map(|(keyspace, _)| keyspace).collect(),
            values,
            deltas,
            operands_per_get: engine.metrics.operands.counts().collect(),
            collection: collection::collection_of(engine),
            cache,
            stalls: stalls_of(engine),
            latencies: latencies_of(engine),
            read_batch_mode: engine.io.disk.batch_mode().to_owned(),
            read_batches: meter.read_batches(),
            open_files: engine.tables.open_files(),
            last_seq: engine.visible.load(std::sync::atomic::Ordering::Acquire),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn keyspaces_of(engine: &Engine) -> Vec<(KeyspaceStats, IndexSpace)> {
    let states: Vec<_> = engine.catalogue.lock().all().map(Arc::clone).collect();
    states
        .into_iter()
        .map(|state| {
            let space = state.index.view().space();
            let levels = space.levels.iter().map(|level| LevelStats {
                level: level.level,
                files: level.files,
                bytes: level.bytes,
                target_bytes: level.target_bytes,
                entries: level.entries,
            });
            let keyspace = KeyspaceStats {
                name: state.name.clone(),
                disk_bytes: space.disk_bytes,
                live_bytes: space.live_bytes,
                entries: space.entries,
                levels: levels.collect(),
            };
            (keyspace, space)
        })
        .collect()
}

fn values_of(engine: &Engine) -> ValueStats {
    let figures = engine.value_figures();
    let view = engine.view.load();
    let large_bytes = view.values.large().map(|entry| entry.file.readable()).sum();
    ValueStats {
        strategy: engine.strategy_kind.name().to_owned(),
        files: figures.files,
        containers: view.values.containers().count() as u64,
        file_bytes: figures.file_bytes,
        hole_bytes: figures.hole_bytes,
        entries: figures.entries,
        live_bytes: figures.live_bytes,
        large_files: view.values.large().count() as u64,
        large_bytes,
        large_live_bytes: engine.live_large_bytes(&view),
        cache_hits: engine.value_context.cache.hits(),
        cache_misses: engine.value_context.cache.misses(),
        prefetched: engine.metrics.values_prefetched.load(Relaxed),
        prefetched_unused: engine.metrics.values_unused.load(Relaxed),
        locator: engine.locating.as_deref().map(locator_of).unwrap_or_default(),
        map: engine.mapping.as_deref().map(map_of).unwrap_or_default(),
    }
}

fn map_of(mapping: &Mapping) -> MapStats {
    let figures = mapping.figures();
    MapStats {
        keys: figures.keys,
        key_bytes: figures.key_bytes,
        bytes: figures.bytes,
        versions: figures.links,
        refused: figures.refused,
    }
}

fn locator_of(locating: &Locating) -> LocatorStats {
    let figures = locating.figures();
    LocatorStats {
        keys: figures.entries + figures.beside,
        bytes: figures.bytes,
        hits: locating.hits.total(),
        misses: locating.misses.total(),
        evicted: figures.evicted.iter().take(2).sum(),
    }
}

fn events_of(engine: &Engine, keyspaces: &[(KeyspaceStats, IndexSpace)]) -> EventCounts {
    let metrics = &engine.metrics;
    let sum = |value: &dyn Fn(&IndexSpace) -> u64| {
        keyspaces.iter().map(|(_, space)| value(space)).sum::<u64>()
    };
    EventCounts {
        flushes: metrics.flushes.load(Relaxed),
        compactions: metrics.compactions.load(Relaxed),
        parallel_parts: sum(&|space| space.parallel_parts),
        trivial_moves: sum(&|space| space.trivial_moves),
        concurrent_compactions_max: metrics.compactions_running_max.load(Relaxed),
        entries_dropped: metrics.entries_dropped.load(Relaxed),
        bytes_dropped: metrics.bytes_dropped.load(Relaxed),
        commit_groups: metrics.commit_groups.load(Relaxed),
        commits: metrics.commits.load(Relaxed),
        journal_syncs: metrics.journal_syncs.load(Relaxed),
    }
}

fn stalls_of(engine: &Engine) -> BTreeMap<String, StallStats> {
    Reason::ALL
        .into_iter()
        .map(|reason| {
            let (count, micros) = engine.metrics.stalls(reason);
            (reason.name().to_owned(), StallStats { count, micros })
        })
        .collect()
}

fn latencies_of(engine: &Engine) -> BTreeMap<String, Histogram> {
    Operation::ALL
        .into_iter()
        .map(|operation| {
            let figures = engine.metrics.percentiles(operation);
            let histogram = Histogram {
                count: figures.count,
                mean_us: figures.mean_us,
                p50_us: figures.p50_us,
                p99_us: figures.p99_us,
                p999_us: figures.p999_us,
                max_us: figures.max_us,
            };
            (operation.name().to_owned(), histogram)
        })
        .collect()
}

impl From<on_demand::Reclaimed> for Reclaimed {
    fn from(done: on_demand::Reclaimed) -> Self {
        let on_demand::Reclaimed { files, bytes_freed, bytes_punched, bytes_moved, .. } = done;
        let on_demand::Reclaimed { files_waiting, is_complete, .. } = done;
        Self { files, bytes_freed, bytes_punched, bytes_moved, files_waiting, is_complete }
    }
}

impl VerifyReport {
    /// Verifies the whole database.
    pub(crate) fn of(engine: &Arc<Engine>, progress: &mut dyn FnMut(u64, u64)) -> Result<Self> {
        let outcome = engine.verify(progress)?;
        Ok(Self {
            files: outcome.files,
            bytes: outcome.bytes,
            entries: outcome.entries,
            problems: outcome.problems.iter().map(Problem::of).collect(),
        })
    }
}

impl Problem {
    fn of(error: &Error) -> Self {
        Self {
            file: error.file().map(PathBuf::from),
            offset: error.offset(),
            message: error.message().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
