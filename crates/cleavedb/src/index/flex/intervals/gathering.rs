//! Intervals that reads found in many fragments, to be written anew in one piece.
//!
//! To append costs a flush one fragment, and every read of the whole interval from then on one more
//! block of the device. A flush does not know whether anybody reads; reads do: what they had to
//! fetch past the cache in many pieces is noted here, and a job writes it anew (the paper leaves
//! that to the next flush which meets the interval). So nothing is spent on what is only written.
//!
//! Any number of threads. Invariants: G-1 what is noted is bounded in bytes of intervals. G-2 a
//! note is a wish: one that is lost, as its job failed, comes again with the next read.

use std::collections::BTreeMap;
// Bounds that never change, which nobody waits for.
use std::sync::Arc as ValueArc;

use crate::base::sync::Mutex;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::anchors::Found;

/// What reads have noted of one index.
pub(super) struct Gathering {
    limits: FlexLimits,
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
        Self { limits, wanted: Mutex::new(Wanted::default()) }
    }

    /// Whether an interval may stand in many fragments, for all that is remembered of it.
    pub(super) fn may_be_wanted(&self, found: &Found<'_>) -> bool {
        let known = usize::from(found.interval.fragments);
        known == 0 || known >= self.limits.gathered_fragments_min
    }

    /// Notes an interval that was read, if its fragments are many and small: a long one that stands
    /// in several segments gains nothing by being written anew.
    pub(super) fn note(&self, found: &Found<'_>, fragments: usize) {
        let bytes = found.interval.bytes;
        let is_wanted = fragments >= self.limits.gathered_fragments_min
            && bytes <= self.limits.interval_bytes_max.saturating_mul(fragments as u64);
        let mut wanted = self.wanted.lock();
        if is_wanted && wanted.bytes < self.limits.job_bytes_max {
            let before = wanted.intervals.insert(found.interval.anchor.clone(), bytes);
            wanted.bytes = wanted.bytes.saturating_sub(before.unwrap_or(0)) + bytes;
        }
    }

    /// Whether enough is noted for a job.
    pub(super) fn is_due(&self) -> bool {
        let wanted = self.wanted.lock();
        !wanted.intervals.is_empty() && wanted.bytes >= self.limits.gathered_bytes_min
    }

    /// Takes all that is noted, in order.
    pub(super) fn take(&self) -> Vec<ValueArc<[u8]>> {
        std::mem::take(&mut *self.wanted.lock()).intervals.into_keys().collect()
    }
}
