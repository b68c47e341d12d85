//! How much of what flushes write supersedes what was there before.
//!
//! What is in memtables is garbage of value files to come, as much as keys are written again: by
//! what the flushes before have met, it is known about how much.

use crate::base::sync::atomic::{AtomicU64, Ordering};

/// Least share: what was never met may come.
const SHARE_MIN: f64 = 1.0 / 16.0;
/// What it is before anything is known.
const SHARE_FIRST: f64 = 0.5;

/// The bits of a share before the first flush.
const UNKNOWN: u64 = 0;

/// Of the separated records that flushes write, the share that supersede others or are superseded
/// in their memtable; of the latest flush one half, of the one before a quarter, and so on.
pub(crate) struct SupersedingShare(AtomicU64);

impl SupersedingShare {
    /// Before the first flush.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }

    /// The share, [`SHARE_MIN`] to 1.
    pub(crate) fn get(&self) -> f64 {
        self.known().unwrap_or(SHARE_FIRST)
    }

    fn known(&self) -> Option<f64> {
        let bits = self.0.load(Ordering::Acquire);
        (bits != UNKNOWN).then(|| f64::from_bits(bits))
    }

    /// A flush met so many separated records, and by it so many were superseded. One flush at a
    /// time.
    pub(crate) fn learn(&self, separated: u64, superseded: u64) {
        if separated == 0 {
            return;
        }
        let now = share_of(superseded, separated);
        let share = self.known().map_or(now, |before| f64::midpoint(before, now));
        self.0.store(share.to_bits(), Ordering::Release);
    }
}

/// The share of what memtables hold, given for each its separated records and how many of them are
/// superseded within it. Of keys chosen at random a memtable supersedes as many in each one before
/// it as in itself, twice over.
pub(crate) fn share_in_memtables(counts: impl Iterator<Item = (u64, u64)>) -> f64 {
    let (mut separated, mut superseded, mut memtables) = (0, 0, 0);
    for (all, old) in counts.filter(|&(all, _)| all > 0) {
        (separated, superseded, memtables) = (separated + all, superseded + old, memtables + 1);
    }
    share_of(superseded * memtables, separated)
}

/// The share that so many superseded records are, within its bounds.
fn share_of(superseded: u64, separated: u64) -> f64 {
    (superseded as f64 / separated.max(1) as f64).clamp(SHARE_MIN, 1.0)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
