//! Values that gets, and short scans for a second time, have read from value files, in the block
//! cache's budget.
//!
//! Shared by all readers. Invariants: VC-1 what is handed out is of the keyspace, key and seq asked
//! for: a record proved itself before it came in. VC-2 a cached value pins no memory that is not
//! counted. VC-3 nothing need ever be invalidated: places are never written twice, numbers of files
//! never given out twice (rules F3, F6). What a flush supersedes is let go to make room; what else
//! a removed file held ages out.

use std::sync::Arc as ValueArc;

use crate::base::entry::FileId;
use crate::base::marks::mark;
use crate::base::striped::Counter;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::memory::cache::{Begin, MissGuard};
use crate::memory::cache_entry::CachedValue;
use crate::table::{BlockCache, CacheEntry};
use crate::values::locator::place::UNIT_BYTES;
use crate::values::reader::Wanted;
use crate::values::scanned::ScannedParts;

/// Largest record whose value is kept, in bytes and as a share of the cache: a read of more is
/// mostly transfer, and would push out many that are not.
const CACHED_BYTES_MAX: u64 = 64 << 10;
const CACHED_SHARE: u64 = 64;

/// Bytes that a value may pin besides its own and its key's: the rest of its record.
const PINNED_BYTES_MAX: usize = 64;

/// The bytes of a record that was moved after it was read: the same, or some more or less for the
/// number of its file.
const UNKNOWN: u32 = 0;

/// The cache as value files use it.
pub(crate) struct ValueCache {
    entries: Arc<BlockCache>,
    /// What scans have read.
    pub(crate) scanned: ScannedParts,
    hits: Counter,
    misses: Counter,
}

/// Names a record: the file that it stands in, and where its unit of [`UNIT_BYTES`] begins there,
/// which no other record shares. A handle that does not lead there any more names a place that
/// is no other's, too.
pub(crate) type CachePlace = (FileId, u64);

/// The place of a record in a file.
pub(crate) fn cache_place(file: FileId, offset: u64) -> CachePlace {
    (file, offset & !(UNIT_BYTES - 1))
}

/// What there is of a value.
pub(crate) enum Kept<'a, T = Value> {
    /// The value.
    Hit(T),
    /// Nothing yet: who reads it may put it in.
    Miss(Option<MissGuard<'a, CacheEntry>>),
}

impl ValueCache {
    /// Keeps values beside what is in `entries` already.
    pub(crate) fn new(entries: &Arc<BlockCache>) -> Self {
        let entries = Arc::clone(entries);
        let scanned = ScannedParts::new(entries.capacity());
        Self { entries, scanned, hits: Counter::default(), misses: Counter::default() }
    }

    fn admits(&self, record_bytes: u32) -> bool {
        let bytes_max = CACHED_BYTES_MAX.min(self.entries.capacity() / CACHED_SHARE);
        u64::from(record_bytes) <= bytes_max
    }

    /// What is kept of a record, without a trace.
    pub(crate) fn peek(&self, place: CachePlace) -> Option<ValueArc<CachedValue>> {
        self.entries.peek(&place)?.into_value()
    }

    /// The value, or the right to put it in. With `wait`, waits for a thread that reads it already;
    /// who holds such a right must not wait.
    pub(crate) fn begin(&self, wanted: &Wanted<'_>, place: CachePlace, wait: bool) -> Kept<'_> {
        match self.begin_any(place, wanted.handle.bytes, wait) {
            Kept::Hit(kept) => match kept.of(wanted) {
                Some(value) => {
                    self.count_hit();
                    Kept::Hit(value)
                }
                None => Kept::Miss(None),
            },
            Kept::Miss(guard) => Kept::Miss(guard),
        }
    }

    /// Whatever is kept of the record at a place, or the right to put it in: whose it is, the
    /// caller compares, and says if it is a hit.
    pub(crate) fn begin_any(
        &self,
        place: CachePlace,
        record_bytes_max: u32,
        wait: bool,
    ) -> Kept<'_, ValueArc<CachedValue>> {
        if !self.admits(record_bytes_max) {
            return Kept::Miss(None);
        }
        match self.entries.begin_uncounted(&place, wait) {
            Begin::Hit(entry) => entry.into_value().map_or(Kept::Miss(None), Kept::Hit),
            Begin::Miss(guard) => Kept::Miss(Some(guard)),
            Begin::Busy => Kept::Miss(None),
        }
    }

    /// A get was served with what is kept.
    pub(crate) fn count_hit(&self) {
        self.hits.add(1);
    }

    /// Counts a value that a get had to read, and keeps it if it may.
    pub(crate) fn keep(
        &self,
        guard: Option<MissGuard<'_, CacheEntry>>,
        wanted: &Wanted<'_>,
        value: &Value,
    ) {
        self.misses.add(1);
        self.keep_read(guard, wanted, value);
    }

    /// Keeps a value that a get has read from the log's tail, if it may.
    pub(crate) fn keep_read(
        &self,
        guard: Option<MissGuard<'_, CacheEntry>>,
        wanted: &Wanted<'_>,
        value: &Value,
    ) {
        let Some(guard) = guard else { return };
        let own = value.len() + wanted.key.len() + PINNED_BYTES_MAX;
        let shares_too_much = value.held_bytes() > own;
        let value = if shares_too_much { Value::copy_from(value) } else { value.clone() };
        guard.insert(entry_of(wanted, value));
    }

    /// What is kept of a record, which counts as a use of it.
    pub(crate) fn touch(&self, place: CachePlace) -> Option<ValueArc<CachedValue>> {
        self.entries.get_uncounted(&place)?.into_value()
    }

    /// Keeps a value that a scan has read.
    pub(crate) fn keep_scanned(&self, wanted: &Wanted<'_>, place: CachePlace, value: &Value) {
        if self.admits(wanted.handle.bytes) {
            self.entries.insert_uncounted(place, entry_of(wanted, Value::copy_from(value)));
        }
    }

    /// A record stands elsewhere from here on, and whoever knew its place knows the new one.
    pub(crate) fn moved(&self, from: CachePlace, to: CachePlace) {
        let Some(kept) = self.peek(from).filter(|_| from != to) else { return };
        mark!("cached_value_moved");
        self.entries.remove(&from);
        let CachedValue { keyspace, seq, .. } = *kept;
        let (key, value) = (kept.key.clone(), kept.value.clone());
        let now = CachedValue { keyspace, key, seq, offset: to.1, record_bytes: UNKNOWN, value };
        self.entries.insert_uncounted(to, CacheEntry::Value(ValueArc::new(now)));
    }

    /// Keeps the newer version of a key in the stead of the one that is kept at this place, if that
    /// is of the key. Says if it was; the value is not asked for otherwise.
    pub(crate) fn carry(
        &self,
        from: CachePlace,
        (wanted, to): (&Wanted<'_>, CachePlace),
        value: impl FnOnce() -> Option<Value>,
    ) -> bool {
        let is_of_key =
            |kept: &CachedValue| *kept.key == *wanted.key && kept.keyspace == wanted.keyspace;
        if from == to || !self.peek(from).is_some_and(|kept| is_of_key(&kept)) {
            return false;
        }
        // First, so that it leaves its room among what is read often.
        self.entries.remove(&from);
        if self.admits(wanted.handle.bytes)
            && let Some(value) = value()
        {
            self.entries.insert_uncounted(to, entry_of(wanted, value));
        }
        true
    }

    /// A newer version of a record's key was flushed: its room goes to others.
    pub(crate) fn forget(&self, place: CachePlace) {
        self.entries.remove(&place);
    }

    /// Memory of what it knows besides what it keeps.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.scanned.memory_bytes()
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
        self.hits.total()
    }

    /// Values of gets that had to be read so far.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.total()
    }
}

fn entry_of(wanted: &Wanted<'_>, value: Value) -> CacheEntry {
    let Wanted { handle, keyspace, key, seq } = *wanted;
    let (key, offset, record_bytes) = (Box::from(key), handle.offset, handle.bytes);
    let kept = CachedValue { keyspace, key, seq, offset, record_bytes, value };
    CacheEntry::Value(ValueArc::new(kept))
}

impl CachedValue {
    /// The value, if it is that of this entry (VC-1).
    pub(crate) fn of(&self, wanted: &Wanted<'_>) -> Option<Value> {
        let is_right = *self.key == *wanted.key
            && self.seq == wanted.seq
            && self.keyspace == wanted.keyspace
            && self.offset == wanted.handle.offset
            && (self.record_bytes == wanted.handle.bytes || self.record_bytes == UNKNOWN);
        is_right.then(|| self.value.clone())
    }
}
