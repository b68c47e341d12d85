//! Intervals in the block cache, under the one budget for all that is read.
//!
//! An interval's contents have a stamp that others never have: what changes an interval gives it a
//! new one, so that nothing in the cache is ever wrong, and what is old leaves as it is not asked
//! for. Stamps are counted from one in each life of an index, under a number of a file that no file
//! has.
//!
//! What is missed once does not take the place of what is read often: as long as the cache is full,
//! a get keeps its own record alone ([`kept`]), and an interval is read whole and kept only
//! where it is missed again at once: where keys are asked for that stand side by side.
//!
//! What a change makes of contents that are there is put in with it, and nothing else. That is
//! before the change is known to succeed, and harmless: no view but those that follow it knows the
//! stamp, and a change that fails has used its stamps up. Once it is in force, what was there
//! before goes.

use std::sync::Arc as ValueArc;

use crate::base::checksum::key_hash;
use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::lookup::Found;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::figures::{AtomicBool, AtomicU32, Ordering};
use crate::index::flex::intervals::anchors::Interval;
use crate::index::flex::intervals::kept;
use crate::index::flex::intervals::run::Run;
use crate::memory::cache_entry::Resident;
use crate::memory::cached_record::CachedRecord;
use crate::table::{BlockCache, CacheEntry};

impl Resident for Run {
    fn memory_bytes(&self) -> u64 {
        Run::memory_bytes(self) as u64
    }
}

/// Bytes of the cache for each interval that is remembered as missed: a small part of those that
/// it has room for, or keys that have nothing to do with each other would seem to be neighbours.
const CACHE_BYTES_PER_MISSED: u64 = 64 << 10;

/// Bounds of how many are remembered.
const MISSED: (u64, u64) = (1, 1 << 15);

/// The cache is asked whether it is full at every miss of this number, while it was not and once it
/// was: that takes the locks of all its parts.
const LOOK_EVERY: (u32, u32) = (8, 64);

/// The intervals of one index in the cache.
pub(super) struct IntervalCache {
    blocks: Arc<BlockCache>,
    namespace: FileId,
    /// Of records by themselves, named by the hashes of their keys.
    records: FileId,
    /// Hashes of anchors whose intervals were missed last.
    missed: Box<[AtomicU32]>,
    misses: AtomicU32,
    is_full: AtomicBool,
}

impl IntervalCache {
    /// Those of an index that has these two numbers.
    pub(super) fn new(blocks: &Arc<BlockCache>, (namespace, records): (FileId, FileId)) -> Self {
        let slots = (blocks.capacity() / CACHE_BYTES_PER_MISSED).clamp(MISSED.0, MISSED.1);
        Self {
            blocks: Arc::clone(blocks),
            namespace,
            records,
            missed: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            misses: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// The run of a stamp, if it is there; work that asks so does not shape the cache.
    pub(super) fn peek(&self, stamp: u64) -> Option<ValueArc<Run>> {
        self.blocks.peek(&(self.namespace, stamp))?.into_resident()
    }

    /// The run of a stamp, if it is there.
    pub(super) fn get(&self, stamp: u64) -> Option<ValueArc<Run>> {
        self.blocks.get(&(self.namespace, stamp))?.into_resident()
    }

    /// What was kept of a key of an interval, if it stands there still.
    pub(super) fn record(&self, interval: &Interval, hash: u64) -> Option<CachedRecord> {
        let record = self.blocks.get_uncounted(&(self.records, hash))?.into_record()?;
        if !kept::answers(&record, interval, hash) {
            mark!("kept_record_superseded");
            return None;
        }
        Some(record)
    }

    /// Keeps what a get has found of a key in an interval.
    pub(super) fn keep(&self, interval: &Interval, (key, hash): (&[u8], u64), found: &Found) {
        if let Some(record) = kept::record_of(interval, key, found) {
            self.blocks.insert_uncounted((self.records, hash), CacheEntry::Record(record));
        }
    }

    /// A get was answered with what was kept.
    pub(super) fn count_hit(&self) {
        self.blocks.count_hit();
    }

    /// Whether an interval that is not there is worth what it takes to read it whole and keep it:
    /// while there is room, and where it was missed before, not long ago.
    pub(super) fn is_wanted(&self, anchor: &[u8]) -> bool {
        let every = if self.is_full.load(Ordering::Relaxed) { LOOK_EVERY.1 } else { LOOK_EVERY.0 };
        if self.misses.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
            let is_full = self.blocks.bytes() >= self.blocks.capacity() / 8 * 7;
            self.is_full.store(is_full, Ordering::Relaxed);
        }
        let hash = key_hash(anchor);
        let (number, name) = (hash % self.missed.len().max(1) as u64, (hash >> 32) as u32);
        let slot = self.missed.get(number as usize);
        let was_missed = slot.is_some_and(|slot| slot.swap(name, Ordering::Relaxed) == name);
        was_missed || !self.is_full.load(Ordering::Relaxed)
    }

    /// Counts a read past the cache as the miss that it is.
    pub(super) fn count_miss(&self) {
        self.blocks.count_miss();
    }

    /// Puts a run in that was read.
    pub(super) fn insert(&self, stamp: u64, run: &ValueArc<Run>) {
        let entry: ValueArc<dyn Resident> = ValueArc::clone(run) as _;
        self.blocks.insert((self.namespace, stamp), CacheEntry::Resident(entry));
    }

    /// Puts in the bytes of an interval that takes the place of one that was there: nobody had to
    /// read them.
    pub(super) fn write_through(&self, stamp: u64, mut bytes: Vec<u8>) -> Result<()> {
        bytes.shrink_to_fit();
        self.put_through(stamp, Run::decode(bytes)?);
        Ok(())
    }

    /// The same with contents that are read already.
    pub(super) fn put_through(&self, stamp: u64, run: Run) {
        let run: ValueArc<dyn Resident> = ValueArc::new(run);
        self.blocks.insert_uncounted((self.namespace, stamp), CacheEntry::Resident(run));
    }

    /// What was written through is in force: what it took the place of, which no new view asks for,
    /// goes at once, and leaves its rank in the cache to what came. Else the contents that were
    /// read most would stay longest once they are nobody's.
    pub(super) fn carry(&self, carried: &[(u64, u64)]) {
        for (old, new) in carried {
            let (old, new) = ((self.namespace, *old), (self.namespace, *new));
            self.blocks.remove(&old);
            // What comes where there is room among the often read goes there.
            if let Some(entry) = self.blocks.peek(&new) {
                self.blocks.remove(&new);
                self.blocks.insert_uncounted(new, entry);
            }
        }
    }

    /// The run of a stamp, read by `load` if it is not there; who asks at the same time shares one
    /// read.
    pub(super) fn get_or_load(
        &self,
        stamp: u64,
        load: impl Fn() -> Result<ValueArc<Run>>,
    ) -> Result<ValueArc<Run>> {
        let entry = self.blocks.get_or_load(&(self.namespace, stamp), || {
            let entry: ValueArc<dyn Resident> = load()?;
            Ok(CacheEntry::Resident(entry))
        })?;
        entry.into_resident().map_or_else(load, Ok)
    }
}
