//! The delta cache: for a key what its bucket has of it, combined into as few operands as its
//! operator can, or that there is nothing. Bounded in bytes.
//!
//! Any thread. Nothing tells it of writes: an entry says of which file and how many of its bytes it
//! was made, and counts for a bucket as long as that has nothing behind them that may concern the
//! key, which the filters of its newer chunks tell without a read. So a flush costs it nothing, and
//! no order of threads makes it wrong. A bucket that was rewritten begins anew: what left it for
//! the index must not be seen twice. Invariants: DK-1 an entry is made only of a look-up whose
//! snapshot is not below the bucket's applied seq, so that it lacks nothing. DK-2 it is used only
//! for the same file with no fewer bytes, at a snapshot not below its newest record.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter};

use crate::base::entry::{FileId, Seq};
use crate::base::merge_operator::SharedOperator;
use crate::base::merge_operator::combine::combine_operands;
use crate::base::sync::Arc;
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::value::Value;
use crate::deltas::bucket::reader::{Asked, KeyDeltas};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::record::{Bound, OPERAND_BYTES_MAX, OwnedBound};

/// What the cache's tables take for one entry.
const ENTRY_OVERHEAD_BYTES: u64 = 96;
/// Typical entry, from which their number is estimated.
const TYPICAL_BYTES: u64 = 256;
/// What an operand may keep in memory beside twice its length.
const SLACK_BYTES: usize = 64;
/// Smallest shard.
const SHARD_BYTES_MIN: u64 = 256 << 10;
/// Most shards.
const SHARDS_MAX: u64 = 64;

/// What is known of a key.
#[derive(Debug)]
struct Entry {
    /// The bucket's file.
    file: FileId,
    /// Committed bytes that took part.
    bytes: u32,
    deltas: KeyDeltas,
}

impl Entry {
    fn newest(&self) -> Seq {
        let newest = self.deltas.operands.first().map_or(0, |(seq, _)| *seq);
        newest.max(self.deltas.anchor)
    }
}

impl Equivalent<OwnedBound> for Bound<'_> {
    fn equivalent(&self, key: &OwnedBound) -> bool {
        *self == key.as_ref()
    }
}

/// Weighs an entry by its memory.
#[derive(Clone, Copy, Debug)]
struct ByMemory;

impl Weighter<OwnedBound, Arc<Entry>> for ByMemory {
    fn weight(&self, key: &OwnedBound, entry: &Arc<Entry>) -> u64 {
        let operands = entry.deltas.operands.iter();
        let operands: usize = operands.map(|(_, operand)| operand.held_bytes() + 64).sum();
        key.key.len() as u64 + operands as u64 + ENTRY_OVERHEAD_BYTES
    }
}

/// The cache.
pub(crate) struct DeltaCache {
    cache: Cache<OwnedBound, Arc<Entry>, ByMemory>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl DeltaCache {
    /// A cache of so many bytes.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        let items = (capacity_bytes / TYPICAL_BYTES).max(64) as usize;
        let mut builder = OptionsBuilder::new();
        builder
            .shards(shards as usize)
            .estimated_items_capacity(items)
            .weight_capacity(capacity_bytes);
        let cache = match builder.build() {
            Ok(options) => Cache::with_options(
                options,
                ByMemory,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Only a missing setting makes `build` fail; the plain constructor sets the same.
            Err(_) => Cache::with_weighter(items, capacity_bytes, ByMemory),
        };
        Self { cache, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// What the cache knows of a key, as good as from the bucket; none where that must be read.
    pub(crate) fn lookup(&self, bucket: &Bucket, asked: &Asked<'_>) -> Option<KeyDeltas> {
        let found = self.cache.get(&asked.bound).filter(|entry| entry.counts_for(bucket, asked));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(found?.deltas.clone())
    }

    /// Takes in what a bucket has of a key, if that may serve others, combined where the operator
    /// can. Returns it.
    pub(crate) fn insert(
        &self,
        bucket: &Bucket,
        asked: &Asked<'_>,
        found: KeyDeltas,
        operator: Option<&SharedOperator>,
    ) -> KeyDeltas {
        let &BucketInfo { id: file, bytes, applied_seq, .. } = bucket.info();
        if asked.snapshot < applied_seq {
            return found;
        }
        let deltas = compact(combined(asked.bound.key, found, operator));
        let entry = Arc::new(Entry { file, bytes, deltas: deltas.clone() });
        self.cache.insert(asked.bound.to_owned(), entry);
        deltas
    }

    /// What a bucket has of a key, from the cache or with the bucket's reads.
    #[cfg(test)]
    pub(crate) fn get(
        &self,
        bucket: &Bucket,
        asked: &Asked<'_>,
        operator: Option<&SharedOperator>,
        purpose: crate::io::Purpose,
    ) -> crate::base::error::Result<KeyDeltas> {
        if let Some(found) = self.lookup(bucket, asked) {
            return Ok(found);
        }
        let found = bucket.get(asked, purpose)?;
        Ok(self.insert(bucket, asked, found, operator))
    }

    /// From here on so many bytes are held at most.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        self.cache.set_capacity(capacity_bytes);
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// Look-ups that were answered, and those that were not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

impl Entry {
    /// Whether a look-up in this bucket would find the same (DK-2).
    fn counts_for(&self, bucket: &Bucket, asked: &Asked<'_>) -> bool {
        let info = bucket.info();
        let is_of_it = self.file == info.id && self.bytes <= info.bytes;
        if !is_of_it || asked.snapshot < self.newest() {
            return false;
        }
        if self.bytes == info.bytes {
            return true;
        }
        let Some(loaded) = bucket.loaded() else { return false };
        let mut newer = loaded.chunks.iter().filter(|chunk| chunk.offset >= self.bytes);
        !newer.any(|chunk| chunk.filter.may_contain(asked.hash))
            && loaded.covers.cover_seq(asked.bound, asked.snapshot) <= self.newest()
    }
}

/// As few operands as the operator can make of these, each with the seq of its newest part. No base
/// lies between them: it would have left an anchor.
fn combined(key: &[u8], found: KeyDeltas, operator: Option<&SharedOperator>) -> KeyDeltas {
    let Some(operator) = operator.filter(|_| found.operands.len() > 1) else { return found };
    let KeyDeltas { mut operands, anchor, elsewhere } = found;
    operands.reverse();
    let mut rest = operands.as_slice();
    let mut combined = Vec::new();
    // Runs between operands that are in the index.
    for &bound in elsewhere.iter().rev().chain([&Seq::MAX]) {
        let (run, behind) = rest.split_at(rest.partition_point(|(seq, _)| *seq < bound));
        rest = behind;
        combined.extend(combine_operands(&**operator, key, run.to_vec(), OPERAND_BYTES_MAX));
    }
    combined.reverse();
    KeyDeltas { operands: combined, anchor, elsewhere }
}

/// The same operands, none of which keeps much more in memory than its own bytes: a page for a few
/// of them would leave the cache room for few keys.
fn compact(mut found: KeyDeltas) -> KeyDeltas {
    for (_, operand) in &mut found.operands {
        if operand.held_bytes() > 2 * operand.len() + SLACK_BYTES {
            *operand = Value::copy_from(operand);
        }
    }
    found.operands.shrink_to_fit();
    found
}

#[cfg(test)]
mod tests;
