//! Intervals that reads found in many fragments, to be written anew in one piece.
//!
//! To append costs a flush one fragment, and every read of the whole interval from then on one more
//! block of the device. A flush does not know whether anybody reads; reads do: what they fetch past
//! the cache in many pieces is counted here, and once that comes to what it costs to write the
//! interval anew, a job does so (ski rental: at most twice what would have been spent by one who
//! knew the future). The paper leaves it to the next flush that meets the interval. Nothing is
//! spent on what is only written.
//!
//! Any number of threads. Invariants: G-1 what is noted is bounded in bytes of intervals, what is
//! counted in slots. G-2 a note is a wish: one that is lost, as its job failed or another interval
//! took its slot, comes again with later reads.

use std::collections::BTreeMap;
// Bounds that never change, which nobody waits for.
use std::sync::Arc as ValueArc;

use crate::base::checksum::key_hash;
use crate::base::sync::Mutex;
use crate::base::sync::figures::{AtomicU32, Ordering};
use crate::base::usual::UsualRun;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::anchors::Found;

/// Intervals whose reads are counted, at most; two that share a slot take turns.
const SLOTS: u64 = 1 << 14;

/// Bits of a slot that count; those above name the interval.
const COUNT_BITS: u32 = 8;

/// Whether an interval may stand in so many fragments, for all that is remembered of it.
pub(super) fn may_have(found: &Found<'_>, fragments: usize) -> bool {
    let known = usize::from(found.interval.fragments);
    known == 0 || known >= fragments
}

/// What reads have noted of one index.
pub(super) struct Gathering {
    limits: FlexLimits,
    /// What was fetched of intervals beside their first fragments.
    paid: Box<[AtomicU32]>,
    /// Intervals that walks forwards take.
    pub(super) usual_walk: UsualRun,
    wanted: Mutex<Wanted>,
}

/// Bounds of intervals, and how many bytes these have.
#[derive(Default)]
struct Wanted {
    intervals: BTreeMap<ValueArc<[u8]>, u64>,
    bytes: u64,
}

impl Gathering {
    /// Nothing noted.
    pub(super) fn new(limits: FlexLimits) -> Self {
        let paid = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        let usual_walk = UsualRun::default();
        Self { limits, paid, usual_walk, wanted: Mutex::new(Wanted::default()) }
    }

    /// Whether an interval may stand in so many fragments as reads pay for, for all that is
    /// remembered of it.
    pub(super) fn may_be_wanted(&self, found: &Found<'_>) -> bool {
        may_have(found, self.limits.gathered_fragments_min)
    }

    /// Whether an interval in so many fragments is worth being written anew where that is done
    /// from `min` of them on. A long one in fragments that are long gains nothing by it.
    pub(super) fn is_wanted(&self, found: &Found<'_>, fragments: usize, min: usize) -> bool {
        let bytes_max = self.limits.interval_bytes_max.saturating_mul(fragments as u64);
        fragments >= min && found.interval.bytes <= bytes_max
    }

    /// Counts a read of an interval in so many fragments, and notes it once enough was paid.
    pub(super) fn note(&self, found: &Found<'_>, fragments: usize) {
        let bytes = found.interval.bytes;
        let is_wanted = self.is_wanted(found, fragments, self.limits.gathered_fragments_min);
        if !is_wanted || !self.is_paid(&found.interval.anchor, fragments) {
            return;
        }
        let mut wanted = self.wanted.lock();
        if wanted.bytes < self.limits.job_bytes_max {
            let before = wanted.intervals.insert(found.interval.anchor.clone(), bytes);
            wanted.bytes = wanted.bytes.saturating_sub(before.unwrap_or(0)) + bytes;
        }
    }

    /// Counts fragments; whether they come to as many as are worth a write.
    fn is_paid(&self, anchor: &[u8], fragments: usize) -> bool {
        let hash = key_hash(anchor);
        let (number, name) = (hash % SLOTS, (hash >> 32) as u32 >> COUNT_BITS);
        let Some(slot) = self.paid.get(number as usize) else { return false };
        let before = slot.load(Ordering::Relaxed);
        let paid = if before >> COUNT_BITS == name { before & ((1 << COUNT_BITS) - 1) } else { 0 };
        let paid = paid as usize + fragments.saturating_sub(1);
        let is_paid = paid >= self.limits.gathered_paid_min;
        let now = if is_paid { 0 } else { paid as u32 };
        slot.store(name << COUNT_BITS | now, Ordering::Relaxed);
        is_paid
    }

    /// Whether enough is noted for a job.
    pub(super) fn is_due(&self) -> bool {
        let wanted = self.wanted.lock();
        !wanted.intervals.is_empty() && wanted.bytes >= self.limits.gathered_bytes_min
    }

    /// Takes what is noted, in order: as much as makes a job, so that no flush waits for it long.
    pub(super) fn take(&self) -> Vec<ValueArc<[u8]>> {
        let (mut taken, mut taken_bytes) = (Vec::new(), 0);
        let mut wanted = self.wanted.lock();
        while taken.is_empty() || taken_bytes < self.limits.gathered_bytes_min {
            let Some((anchor, bytes)) = wanted.intervals.pop_first() else { break };
            taken.push(anchor);
            taken_bytes += bytes;
        }
        wanted.bytes = wanted.bytes.saturating_sub(taken_bytes);
        taken
    }
}
