//! The block cache: restored blocks of all files, bounded in bytes.
//!
//! Shared by all readers; sharded, and scan-resistant, since what is read once does not push out
//! what is read often. Generic over what is cached, since this layer knows no files.
//! Invariants: H1 concurrent misses of one block read it once. H2 the bytes held do not exceed the
//! capacity, rounding per shard aside. H3 (file, offset) names immutable bytes: file numbers are
//! never reused (rule F6), so nothing is ever invalidated for correctness.

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult, PlaceholderGuard};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::striped::Counter;
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::sync::value_or_guard;

/// Names a block: its file and its offset there.
pub(crate) type BlockKey = (FileId, u64);

/// What can be cached: cheap to clone, and knows the memory it holds.
pub(crate) trait Cached: Clone {
    /// Memory held in bytes; constant over the value's life, at least 1.
    fn memory_bytes(&self) -> u64;
}

/// Weighs a cached value by its memory and the cache's own cost per entry.
#[derive(Clone, Copy, Debug)]
struct ByMemory;

/// What the cache's tables take for one entry.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

impl<V: Cached> Weighter<BlockKey, V> for ByMemory {
    fn weight(&self, _: &BlockKey, value: &V) -> u64 {
        value.memory_bytes() + ENTRY_OVERHEAD_BYTES
    }
}

type Inner<V> = Cache<BlockKey, V, ByMemory>;
type InnerGuard<'a, V> =
    PlaceholderGuard<'a, BlockKey, V, ByMemory, DefaultHashBuilder, DefaultLifecycle<BlockKey, V>>;

/// Typical block, from which the number of entries is estimated.
const TYPICAL_BYTES: u64 = 4096;

/// Smallest shard: below this, one cold block in a shard would push out much of the hot set.
const SHARD_BYTES_MIN: u64 = 256 << 10;

/// Most shards.
const SHARDS_MAX: u64 = 64;

/// The cache.
pub(crate) struct BlockCache<V: Cached> {
    cache: Inner<V>,
    /// Asked for with every value; to ask the shards would take each one's lock.
    capacity_bytes: AtomicU64,
    hits: Counter,
    misses: Counter,
}

/// A block that is not in the cache, and the right to read it for everybody who waits for it.
/// Dropped without [`MissGuard::insert`], the next one who waits takes over.
pub(crate) struct MissGuard<'a, V: Cached>(InnerGuard<'a, V>);

impl<V: Cached> MissGuard<'_, V> {
    /// Hands the block to the cache and to those who wait.
    pub(crate) fn insert(self, value: V) {
        // Refused only where the entry was removed meanwhile: those who wait get it all the same.
        let _ = self.0.insert(value);
    }
}

/// Outcome of [`BlockCache::begin`].
pub(crate) enum Begin<'a, V: Cached> {
    /// The block is there.
    Hit(V),
    /// The caller reads it.
    Miss(MissGuard<'a, V>),
    /// Another thread is reading it and the caller did not want to wait.
    Busy,
}

impl<V: Cached> BlockCache<V> {
    /// A cache of `capacity_bytes`.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        let items = (capacity_bytes / TYPICAL_BYTES).max(64);
        let mut builder = OptionsBuilder::new();
        builder
            .shards(usize::try_from(shards).unwrap_or(1))
            .estimated_items_capacity(usize::try_from(items).unwrap_or(usize::MAX))
            .weight_capacity(capacity_bytes);
        let cache = match builder.build() {
            Ok(options) => Cache::with_options(
                options,
                ByMemory,
                DefaultHashBuilder::default(),
                DefaultLifecycle::default(),
            ),
            // Only a missing setting makes `build` fail; the plain constructor sets the same.
            Err(_) => Cache::with_weighter(items as usize, capacity_bytes, ByMemory),
        };
        Self {
            cache,
            capacity_bytes: AtomicU64::new(capacity_bytes),
            hits: Counter::default(),
            misses: Counter::default(),
        }
    }

    /// The block, if it is there. A miss is not counted: the caller goes on to load.
    #[inline]
    pub(crate) fn get(&self, key: &BlockKey) -> Option<V> {
        let value = self.cache.get(key)?;
        self.hits.add(1);
        Some(value)
    }

    /// [`BlockCache::get`] for callers that keep counts of their own.
    pub(crate) fn get_uncounted(&self, key: &BlockKey) -> Option<V> {
        self.cache.get(key)
    }

    /// The block, if it is there, without a trace: for work that must not shape the cache.
    pub(crate) fn peek(&self, key: &BlockKey) -> Option<V> {
        self.cache.peek(key)
    }

    /// The block, or the right to read it. With `wait`, waits for a thread that reads it already;
    /// callers that hold a [`MissGuard`] must not wait, or two of them could wait for each other.
    pub(crate) fn begin(&self, key: &BlockKey, wait: bool) -> Begin<'_, V> {
        let begun = self.begin_uncounted(key, wait);
        match &begun {
            Begin::Hit(_) => self.hits.add(1),
            Begin::Miss(_) | Begin::Busy => self.misses.add(1),
        }
        begun
    }

    /// [`BlockCache::begin`] for callers that keep counts of their own.
    pub(crate) fn begin_uncounted(&self, key: &BlockKey, wait: bool) -> Begin<'_, V> {
        match value_or_guard(&self.cache, key, wait) {
            GuardResult::Value(value) => Begin::Hit(value),
            GuardResult::Guard(guard) => Begin::Miss(MissGuard(guard)),
            GuardResult::Timeout => Begin::Busy,
        }
    }

    /// The block, read by `load` if it is not there; concurrent callers share one read.
    pub(crate) fn get_or_load(
        &self,
        key: &BlockKey,
        load: impl FnOnce() -> Result<V>,
    ) -> Result<V> {
        match self.begin(key, true) {
            Begin::Hit(value) => Ok(value),
            Begin::Miss(guard) => {
                let value = load()?;
                guard.insert(value.clone());
                Ok(value)
            }
            Begin::Busy => load(),
        }
    }

    /// Puts a block in, for example one of many that were read ahead together.
    pub(crate) fn insert(&self, key: BlockKey, value: V) {
        self.misses.add(1);
        self.cache.insert(key, value);
    }

    /// Counts a hit of a caller that had to look at what [`BlockCache::get_uncounted`] gave.
    pub(crate) fn count_hit(&self) {
        self.hits.add(1);
    }

    /// Counts a miss of a caller that reads past the cache.
    pub(crate) fn count_miss(&self) {
        self.misses.add(1);
    }

    /// Puts in what nobody had to read.
    pub(crate) fn insert_uncounted(&self, key: BlockKey, value: V) {
        self.cache.insert(key, value);
    }

    /// Lets go of what nobody is going to ask for.
    pub(crate) fn remove(&self, key: &BlockKey) {
        self.cache.remove(key);
    }

    /// Changes the capacity; blocks beyond it go at once.
    pub(crate) fn set_capacity(&self, capacity_bytes: u64) {
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
        self.cache.set_capacity(capacity_bytes);
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// Blocks served from memory so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.total()
    }

    /// Blocks that had to be read so far.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.total()
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
