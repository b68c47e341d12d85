//! What reads pay for the runs of level 0, so that these become one once that is worth it.
//!
//! Compaction goes by what writes bring. Where writes pause, or are few, up to a trigger of runs
//! would stay in level 0 for good, and every scan would seek in each of them, every get ask each
//! one's filter. So reads count what that costs them, and once it comes to what it costs to merge
//! the runs among themselves, a job does so (ski rental: at most twice what one would have spent
//! who knew the future). LevelDB compacts a table that was searched in vain often enough.
//!
//! Any number of threads; who reads a figure a moment late decides a moment late.

use crate::base::sync::Arc;
use crate::base::sync::figures::{AtomicU64, Ordering};
use crate::base::widths::Widths;
use crate::index::table_file::TableFile;

/// Processor time of a scan for each run more, in nanoseconds: a seek, and a step now and then. Of
/// 50 pairs it took 21 microseconds more with seven runs than with one.
const SCAN_NANOS: u64 = 3500;

/// That of a get: a look at a filter.
const GET_NANOS: u64 = 40;

/// That of merging a byte, read and written: entries of 116 bytes take one microsecond.
const BYTE_NANOS: u64 = 9;

/// Nanoseconds paid since runs were merged for it last.
#[derive(Debug, Default)]
pub(crate) struct RunsPaid(AtomicU64);

impl RunsPaid {
    /// A scan of so many runs began.
    pub(crate) fn scan(&self, runs: usize) {
        self.add(SCAN_NANOS, runs);
    }

    /// So many gets asked so many runs.
    #[inline]
    pub(crate) fn gets(&self, gets: u64, runs: usize) {
        self.add(GET_NANOS * gets, runs);
    }

    fn add(&self, nanos: u64, runs: usize) {
        if let Some(more) = runs.checked_sub(1).filter(|more| *more > 0) {
            self.0.fetch_add(nanos * more as u64, Ordering::Relaxed);
        }
    }

    /// Whether these runs are worth a merge.
    pub(crate) fn wants(&self, runs: &[Arc<TableFile>], widths: &Widths) -> bool {
        let bytes: u64 = runs.iter().map(|file| file.meta.bytes).sum();
        let cost =
            bytes.saturating_mul(BYTE_NANOS).saturating_add(widths.read_compaction_nanos_min);
        runs.len() > 1 && self.0.load(Ordering::Relaxed) >= cost
    }

    /// Runs are being merged for it.
    pub(crate) fn spend(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
