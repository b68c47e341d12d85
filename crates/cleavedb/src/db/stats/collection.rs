//! What garbage collection of value files has done.

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::db::stats::CollectionStats;
use crate::engine::Engine;
use crate::io::Purpose;

/// The figures since open.
pub(super) fn collection_of(engine: &Engine) -> CollectionStats {
    let (figures, facts) = (&engine.metrics.collection, engine.facts.load());
    CollectionStats {
        files_collected: figures.collected.load(Relaxed),
        files_removed: figures.files_removed.load(Relaxed),
        files_refused: figures.refused.load(Relaxed),
        files_waiting: engine.gc.files_waiting(),
        bytes_read: engine.io.meter.bytes_read(Purpose::Collection),
        bytes_moved: figures.bytes_moved.load(Relaxed),
        files_punched: figures.punched.load(Relaxed),
        bytes_freed: figures.bytes_freed.load(Relaxed),
        bytes_punched: engine.io.meter.bytes_punched(Purpose::Collection),
        records_moved: figures.records_moved.load(Relaxed),
        records_relocated: figures.records_relocated.load(Relaxed),
        bytes_relocated: figures.bytes_relocated.load(Relaxed),
        records_dead: figures.records_dead.load(Relaxed),
        records_held: figures.records_held.load(Relaxed),
        races_lost: figures.races_lost.load(Relaxed),
        index_reads: figures.index_reads.load(Relaxed),
        index_writes: figures.index_writes.load(Relaxed),
        facts: figures.facts.load(Relaxed),
        facts_waiting: facts.count(),
        facts_memory_bytes: facts.memory_bytes(),
        facts_disk_bytes: facts.disk_bytes(),
        facts_files: facts.spilled().count() as u64,
        compactions_asked: figures.compactions_asked.load(Relaxed),
    }
}
