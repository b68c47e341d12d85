//! Sizes of a store at even intervals of operations.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::engine::Engine;
use crate::measure::folder_bytes;
use crate::report::Sample;

/// Looks at one store during one phase.
pub(super) struct Samples<'a> {
    engine: &'a dyn Engine,
    dir: PathBuf,
    start: Instant,
    /// Operations between two looks.
    every: u64,
    taken: Mutex<Vec<Sample>>,
}

impl<'a> Samples<'a> {
    /// None yet of a phase that begins at `start`.
    pub(super) fn new(engine: &'a dyn Engine, dir: &Path, start: Instant, every: u64) -> Self {
        let (dir, every, taken) = (dir.to_owned(), every.max(1), Mutex::default());
        Self { engine, dir, start, every, taken }
    }

    /// Looks if a multiple of the interval lies above `before` and not above `now`; says whether
    /// it did. The thread that does the operation looks, so that none of its own lie between.
    pub(super) fn look(&self, before: u64, now: u64) -> bool {
        let due = before / self.every < now / self.every;
        if due {
            self.take(now);
        }
        due
    }

    /// The sizes of now, noted.
    pub(super) fn take(&self, operations: u64) {
        let sample = self.sizes(operations);
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }

    /// The sizes of now, noted if they are others than before; says whether they are.
    pub(super) fn take_if_changed(&self, operations: u64) -> bool {
        let sample = self.sizes(operations);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |last: &Sample| {
            let (operations, seconds) = (sample.operations, sample.seconds);
            Sample { operations, seconds, ..*last } == sample
        };
        let changed = !taken.last().is_some_and(same);
        if changed {
            taken.push(sample);
        }
        changed
    }

    fn sizes(&self, operations: u64) -> Sample {
        let stats = self.engine.stats();
        Sample {
            operations,
            seconds: self.start.elapsed().as_secs_f64(),
            folder_bytes: folder_bytes(&self.dir),
            disk_bytes: stats.disk_bytes,
            value_file_bytes: stats.value_file_bytes,
            value_live_bytes: stats.value_live_bytes,
            bytes_written: stats.bytes_written,
        }
    }

    /// All in order of operations, with a last one of now unless there is one already.
    pub(super) fn finish(self, operations: u64) -> Vec<Sample> {
        let last = self.sizes(operations);
        let mut taken = self.taken.into_inner().unwrap_or_else(PoisonError::into_inner);
        taken.sort_by_key(|sample| sample.operations);
        if taken.last().is_none_or(|sample| sample.operations < operations) {
            taken.push(last);
        }
        taken
    }
}
