//! What an LSM index has done since it was opened.

use crate::base::sync::figures::{AtomicU64, Ordering};

/// Figures of background work. Shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Compactions that rewrote data.
    pub(crate) compactions: AtomicU64,
    /// Parts that ran side by side with another part.
    pub(crate) parallel_parts: AtomicU64,
    /// Files moved down without rewriting.
    pub(crate) trivial_moves: AtomicU64,
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
