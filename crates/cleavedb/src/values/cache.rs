//! Values that gets have read from value files, in the block cache's budget.
//!
//! Shared by all readers. Invariants: VC-1 what is handed out is of the keyspace, key and seq asked
//! for: a record proved itself before it came in. VC-2 a cached value pins no memory that is not
//! counted. VC-3 nothing is ever invalidated: places are never written twice, numbers of files
//! never given out twice (rules F3, F6); what a removed file held ages out.

use std::sync::Arc as ValueArc;

use crate::base::sync::Arc;
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::value::Value;
use crate::memory::cache::{Begin, MissGuard};
use crate::memory::cache_entry::CachedValue;
use crate::table::{BlockCache, CacheEntry};
use crate::values::handle::Handle;
use crate::values::reader::Wanted;

/// Largest record whose value is kept, in bytes and as a share of the cache: a read of more is
/// mostly transfer, and would push out many that are not.
const CACHED_BYTES_MAX: u64 = 64 << 10;
const CACHED_SHARE: u64 = 64;

/// Bytes that a value may pin besides its own and its key's: the rest of its record.
const PINNED_BYTES_MAX: usize = 64;

/// The cache as value files use it.
pub(crate) struct ValueCache {
    entries: Arc<BlockCache>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What there is of a value.
pub(crate) enum Kept<'a> {
    /// The value.
    Hit(Value),
    /// Nothing yet: who reads it may put it in.
    Miss(Option<MissGuard<'a, CacheEntry>>),
}

impl ValueCache {
    /// Keeps values beside what is in `entries` already.
    pub(crate) fn new(entries: &Arc<BlockCache>) -> Self {
        let entries = Arc::clone(entries);
        Self { entries, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    fn admits(&self, handle: &Handle) -> bool {
        let bytes_max = CACHED_BYTES_MAX.min(self.entries.capacity() / CACHED_SHARE);
        u64::from(handle.bytes) <= bytes_max
    }

    /// What is kept of a record, without a trace.
    pub(crate) fn peek(&self, handle: &Handle) -> Option<ValueArc<CachedValue>> {
        self.entries.peek(&(handle.file, handle.offset))?.into_value()
    }

    /// The value, or the right to put it in. With `wait`, waits for a thread that reads it already;
    /// who holds such a right must not wait.
    pub(crate) fn begin(&self, wanted: &Wanted<'_>, wait: bool) -> Kept<'_> {
        if !self.admits(&wanted.handle) {
            return Kept::Miss(None);
        }
        let place = (wanted.handle.file, wanted.handle.offset);
        match self.entries.begin_uncounted(&place, wait) {
            Begin::Hit(entry) => match entry.into_value().and_then(|kept| kept.of(wanted)) {
                Some(value) => {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                    Kept::Hit(value)
                }
                None => Kept::Miss(None),
            },
            Begin::Miss(guard) => Kept::Miss(Some(guard)),
            Begin::Busy => Kept::Miss(None),
        }
    }

    /// Counts a value that a get had to read, and keeps it if it may.
    pub(crate) fn keep(
        &self,
        guard: Option<MissGuard<'_, CacheEntry>>,
        wanted: &Wanted<'_>,
        value: &Value,
    ) {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let Some(guard) = guard else { return };
        let own = value.len() + wanted.key.len() + PINNED_BYTES_MAX;
        let shares_too_much = value.held_bytes() > own;
        let value = if shares_too_much { Value::copy_from(value) } else { value.clone() };
        let Wanted { handle, keyspace, key, seq } = *wanted;
        let (key, record_bytes) = (Box::from(key), handle.bytes);
        let kept = CachedValue { keyspace, key, seq, record_bytes, value };
        guard.insert(CacheEntry::Value(ValueArc::new(kept)));
    }

    #[cfg(test)]
    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let capacity = self.entries.capacity();
        self.entries.set_capacity(0);
        self.entries.set_capacity(capacity);
    }

    /// Values of gets that were served from memory so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Values of gets that had to be read so far.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}

impl CachedValue {
    /// The value, if it is that of this entry (VC-1).
    pub(crate) fn of(&self, wanted: &Wanted<'_>) -> Option<Value> {
        let is_right = *self.key == *wanted.key
            && self.seq == wanted.seq
            && self.keyspace == wanted.keyspace
            && self.record_bytes == wanted.handle.bytes;
        is_right.then(|| self.value.clone())
    }
}
