//! How far scans usually go, in pairs of a keyspace or in blocks of a table, so that a new one can
//! read what it is going to want with its first read, and nothing behind it.
//!
//! Shared by all cursors of that keyspace or table. A mean and a mean deviation, each moved by an
//! eighth of its error with every run that ends, as TCP estimates round trips (RFC 6298). Updates
//! of two threads at once may lose one: it is an estimate.

use crate::base::sync::figures::{AtomicU64, Ordering};

/// Longest run that counts; a longer one counts as this.
const RUN_MAX: usize = 1024;

/// Both numbers are kept in parts of a pair or a block.
const PARTS: i64 = 1024;

/// The part of the error by which a number moves.
const GAIN: i64 = 8;

/// Pairs, or blocks, that runs of scans took lately.
#[derive(Debug, Default)]
pub(crate) struct UsualRun {
    /// Mean above, deviation below, 32 bits each; zero: nothing is known.
    packed: AtomicU64,
}

/// What is expected of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Pairs or blocks that most runs take, at least.
    pub(crate) least: usize,
    /// Pairs or blocks that few runs go beyond.
    pub(crate) most: usize,
}

impl UsualRun {
    /// A run took so many pairs or blocks.
    pub(crate) fn note(&self, taken: usize) {
        let taken = taken.min(RUN_MAX) as i64 * PARTS;
        if taken == 0 {
            return;
        }
        let packed = match self.numbers() {
            None => pack(taken, taken / 2),
            Some((mean, deviation)) => {
                let error = taken - mean;
                pack(mean + error / GAIN, deviation + (error.abs() - deviation) / GAIN)
            }
        };
        self.packed.store(packed, Ordering::Relaxed);
    }

    /// What is expected of the next run, if there were any.
    pub(crate) fn expected(&self) -> Option<Expected> {
        let (mean, deviation) = self.numbers()?;
        let least = (mean - deviation).max(0) as u64;
        let most = (mean + deviation) as u64;
        let parts = PARTS as u64;
        Some(Expected {
            least: least.div_ceil(parts) as usize,
            // What is left of a long forgotten run is no reason to go one further.
            most: ((most + parts - parts / 8) / parts) as usize,
        })
    }

    /// Nothing is known any more.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.packed.store(0, Ordering::Relaxed);
    }

    fn numbers(&self) -> Option<(i64, i64)> {
        let packed = self.packed.load(Ordering::Relaxed);
        (packed != 0).then(|| ((packed >> 32) as i64, i64::from(packed as u32)))
    }
}

fn pack(mean: i64, deviation: i64) -> u64 {
    // Both are below 2^21, and the mean of runs of at least one pair is not zero.
    (mean.max(1) as u64) << 32 | deviation.max(0) as u64
}

#[cfg(test)]
mod tests;
