//! Records that gets have read out of intervals which are not in the cache, kept one by one.
//!
//! Keys that are asked for often seldom stand side by side: an interval in the cache is room for
//! some forty records, of which one is wanted. So while the cache is full, a get that had to read
//! keeps its own record and nothing beside it.
//!
//! A record is kept with what names the contents that it was read from. It answers for the interval
//! of its key as long as these are in force, or all that came since stands in a tail that is known
//! and holds nothing that may be of the key. Plain data. Invariants: KR-1 what is kept is the
//! newest version of its key in those contents, and decides a look-up by itself. KR-2 no view is
//! answered with what its interval does not hold.

use crate::base::checksum::key_hash;
use crate::base::entry::{Kind, Seq};
use crate::base::lookup::Found;
use crate::base::value::Value;
use crate::index::flex::intervals::anchors::Interval;
use crate::memory::cache_entry::Resident;

/// A record, and the contents it was read from.
#[derive(Debug)]
pub(super) struct KeptRecord {
    /// Stamp of the contents.
    stamp: u64,
    /// Stamp of what they were before anything was appended.
    born: u64,
    /// How many records stood in the tail.
    tail_records: usize,
    key: Box<[u8]>,
    /// Its seq.
    pub(super) seq: Seq,
    /// Its kind: one that decides.
    pub(super) kind: Kind,
    /// Its value.
    pub(super) value: Value,
}

impl Resident for KeptRecord {
    fn memory_bytes(&self) -> u64 {
        /// What the cache has of an entry, and what three allocations take beside.
        const ENTRY_BYTES: usize = 128;
        (size_of::<Self>() + self.key.len() + self.value.held_bytes() + ENTRY_BYTES) as u64
    }
}

impl KeptRecord {
    /// That of a key which a get has found in an interval; `None` where it would answer for nothing
    /// else, or does not decide by itself.
    pub(super) fn new(interval: &Interval, key: &[u8], found: &Found) -> Option<Self> {
        let decides =
            matches!(found.kind, Kind::Put | Kind::PutSeparated | Kind::PutBare | Kind::Delete);
        let tail_records = interval.known_tail().filter(|_| decides)?;
        Some(Self {
            stamp: interval.stamp,
            born: interval.born,
            tail_records,
            key: key.into(),
            seq: found.seq,
            kind: found.kind,
            // Not the buffer that it was read into.
            value: Value::copy_from(&found.value),
        })
    }

    /// Whether it is what an interval holds of a key (KR-2).
    pub(super) fn answers(&self, interval: &Interval, key: &[u8]) -> bool {
        if *self.key != *key {
            return false;
        }
        let is_untouched = || {
            let tail = interval.tail_index.as_ref();
            tail.is_some_and(|tail| tail.lacks_since(self.tail_records, key_hash(key)))
        };
        self.stamp == interval.stamp || self.born == interval.born && is_untouched()
    }
}
