//! What the value cache has of a key goes over to the key's new value: who reads a key often, and
//! changes it, finds it in memory still.
//!
//! The cache names values by where their records stand, so a new version would be read from the
//! device at first, while the one before, that nobody wants any more, kept its room until a flush.
//! Where the version before stands is known without a search of the index: the memtable has it
//! beside the new one, or the locator or the map names it. Invariants: CA-1 what is put in is the
//! record as it was logged, under its own place, which no reader knows before the memtable has its
//! handle. CA-2 an accelerator only: what is asked in vain, or not at all, costs a read later.
//! While nobody reads, nothing is carried: it would only slow down who writes.

use crate::base::entry::{Kind, Seq};
use crate::base::marks::mark;
use crate::base::sync::figures::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::value::Value;
use crate::engine::Engine;
use crate::log::separated::SeparatedRecord;
use crate::values::cache::{CachePlace, cache_place};
use crate::values::handle::Handle;
use crate::values::map::Answer;
use crate::values::reader::Wanted;

/// After so many puts in a row whose keys the cache has nothing of, few are asked for.
const VAIN_MAX: u32 = 64;
/// Then one in so many.
const ASKED_OF: u64 = 16;
/// Seqs, as a power of two, after which it is looked if anybody reads what is carried.
const LOOK_BITS: u32 = 10;
/// Gets that the cache must have served meanwhile.
const LOOK_HITS_MIN: u64 = 1 << (LOOK_BITS - 5);

/// A separated put that was inserted.
pub(crate) struct NewVersion<'a> {
    /// What it is of, and where it stands.
    pub(crate) wanted: Wanted<'a>,
    /// The record.
    pub(crate) record: &'a SeparatedRecord<'a>,
    /// The version before it in the memtable: its kind and what stands there.
    pub(crate) older: Option<(Kind, &'a [u8])>,
}

/// Whether it is worth asking.
#[derive(Default)]
pub(crate) struct Carrying {
    /// Puts in a row whose keys the cache had nothing of, up to [`VAIN_MAX`].
    vain: AtomicU32,
    /// The last look, as the seq without its last bits, and the hits of the cache then.
    look: AtomicU64,
    hits: AtomicU64,
    /// Whether nobody read anything between the last two looks.
    is_idle: AtomicBool,
}

impl Carrying {
    /// `hits` says how many gets the cache has served so far.
    fn is_due(&self, seq: Seq, hits: impl FnOnce() -> u64) -> bool {
        let look = seq >> LOOK_BITS;
        if self.look.load(Ordering::Relaxed) != look {
            let last = self.look.swap(look, Ordering::Relaxed);
            let now = hits();
            let before = self.hits.swap(now, Ordering::Relaxed);
            // The first look has nothing to compare with; of two threads the second saw it all.
            if last != 0 && last != look {
                let is_idle = now.saturating_sub(before) < LOOK_HITS_MIN;
                self.is_idle.store(is_idle, Ordering::Relaxed);
            }
        }
        if self.is_idle.load(Ordering::Relaxed) {
            return false;
        }
        self.vain.load(Ordering::Relaxed) < VAIN_MAX || seq.is_multiple_of(ASKED_OF)
    }

    /// Changes nothing, for the sake of other threads, where nothing is new.
    fn learn(&self, is_carried: bool) {
        let vain = self.vain.load(Ordering::Relaxed);
        let now = if is_carried { 0 } else { (vain + 1).min(VAIN_MAX) };
        if now != vain {
            self.vain.store(now, Ordering::Relaxed);
        }
    }
}

impl Engine {
    /// Puts a new value into the cache if an older one of its key is there.
    pub(super) fn carry_over(&self, put: &NewVersion<'_>) {
        let Wanted { handle, seq, .. } = put.wanted;
        let cache = &self.value_context.cache;
        if !self.commits.carrying.is_due(seq, || cache.hits()) {
            return;
        }
        let to = (&put.wanted, cache_place(handle.file, handle.offset));
        let value = || put.record.value().ok().map(|value| Value::copy_from(&value));
        let carry = |from: CachePlace| cache.carry(from, to, value);
        let is_carried = match put.older {
            Some((Kind::PutSeparated, older)) => Handle::decode(older)
                .is_ok_and(|older| carry(cache_place(older.file, older.offset))),
            Some(_) => false,
            None => self.carry_flushed(&put.wanted, carry),
        };
        if is_carried {
            mark!("cached_value_carried_over");
        }
        self.commits.carrying.learn(is_carried);
    }

    /// The same for the newest flushed version, where memory knows where that stands.
    fn carry_flushed(&self, put: &Wanted<'_>, carry: impl Fn(CachePlace) -> bool) -> bool {
        let Wanted { keyspace, key, seq, .. } = *put;
        if let Some(locating) = &self.locating {
            let flushed = locating.locator.lookup(&locating.key(keyspace, key));
            flushed.iter().any(|place| carry(cache_place(place.container(), place.offset())))
        } else if let Some(mapping) = &self.mapping
            && let Answer::Found(flushed) = mapping.map.lookup(&mapping.key(keyspace, key), seq)
        {
            carry(cache_place(flushed.place.container, flushed.place.offset))
        } else {
            false
        }
    }
}

#[cfg(test)]
mod tests;
