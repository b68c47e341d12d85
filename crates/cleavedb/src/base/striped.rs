//! Figures that every operation moves, one copy for a few threads each, so that cores do not fight
//! over a cache line to count.
//!
//! Shared by all threads. A thread keeps to the stripe that it was given when it first counted;
//! whoever wants the figure adds up all of them. To count costs a locked instruction on a line that
//! is there already, some nanoseconds; on one that another core has just written, it costs tens.

use std::cell::Cell;

use crossbeam_utils::CachePadded;

use crate::base::sync::figures::{AtomicU64, AtomicUsize, Ordering};

/// Copies: beyond as many threads two share one, which costs time and nothing else.
pub(crate) const STRIPES: usize = 8;

/// The stripe of the next thread that counts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread's stripe; out of range until it counts for the first time.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread's stripe.
#[inline]
pub(crate) fn stripe() -> usize {
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

/// One figure, in as many copies.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    stripes: [CachePadded<AtomicU64>; STRIPES],
}

impl Counter {
    /// Counts so many more.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        if let Some(own) = self.stripes.get(stripe()) {
            own.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// How many there were so far.
    pub(crate) fn total(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests;
