//! What an LSM index has done since it was opened.

use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::index::lsm::reads::RunsPaid;

/// Figures of background work and what reads wish of it. Shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Compactions that rewrote data.
    pub(crate) compactions: AtomicU64,
    /// Parts that ran side by side with another part.
    pub(crate) parallel_parts: AtomicU64,
    /// Files moved down without rewriting.
    pub(crate) trivial_moves: AtomicU64,
    /// What reads have paid for runs of level 0.
    pub(crate) runs_paid: RunsPaid,
    /// Largest number of compactions that ran at the same time.
    pub(crate) concurrent_max: AtomicU64,
}

impl Counters {
    /// Adds to a figure.
    pub(crate) fn add(figure: &AtomicU64, count: usize) {
        figure.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Reads a figure.
    pub(crate) fn get(figure: &AtomicU64) -> u64 {
        figure.load(Ordering::Relaxed)
    }
}
