//! Buckets of merge operands, and look-ups in them.

use crate::db::stats::DeltaStats;
use crate::engine::Engine;

/// What there is of buckets, and what look-ups took.
pub(super) fn deltas_of(engine: &Engine) -> DeltaStats {
    let figures = engine.deltas.figures();
    DeltaStats {
        buckets: figures.buckets,
        bytes: figures.bytes,
        cache_hits: figures.cache_hits,
        cache_misses: figures.cache_misses,
        gets: figures.gets,
        reads: figures.loads + figures.page_reads + figures.unsorted_reads,
        loads: figures.loads,
        page_reads: figures.page_reads,
        unsorted_reads: figures.unsorted_reads,
    }
}
