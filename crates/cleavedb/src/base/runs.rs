//! Runs of bytes in a file: what was given back to the file system, and what of it can be.
//!
//! Pure functions over lists of runs that are sorted and have bytes between one another.

/// The bytes of a file from `start` up to `end`, without the one at `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its first byte.
    pub(crate) start: u64,
    /// The byte after its last one.
    pub(crate) end: u64,
}

impl Run {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The whole blocks in it: all that a file system gives back of it.
    pub(crate) fn whole_blocks(&self, block_bytes: u64) -> Option<Self> {
        let start = self.start.checked_next_multiple_of(block_bytes)?;
        let end = self.end - self.end % block_bytes.max(1);
        (start < end).then_some(Self { start, end })
    }
}

/// Bytes of the whole blocks in these runs.
pub(crate) fn whole_block_bytes(runs: &[Run], block_bytes: u64) -> u64 {
    runs.iter().filter_map(|run| run.whole_blocks(block_bytes)).map(|run| run.bytes()).sum()
}

/// The run in which the byte at `offset` lies.
pub(crate) fn run_at(runs: &[Run], offset: u64) -> Option<Run> {
    let before = runs.partition_point(|run| run.end <= offset);
    runs.get(before).copied().filter(|run| run.start <= offset)
}

/// Whether each of the runs `inner` lies within one of `outer`.
pub(crate) fn are_within(inner: &[Run], outer: &[Run]) -> bool {
    inner.iter().all(|run| run_at(outer, run.start).is_some_and(|found| run.end <= found.end))
}

/// The parts of the bytes `from..to` that no run covers, in order.
pub(crate) fn between(runs: &[Run], from: u64, to: u64) -> Vec<Run> {
    let mut left = Vec::new();
    let mut start = from;
    for run in runs.iter().filter(|run| run.end > from && run.start < to) {
        if run.start > start {
            left.push(Run { start, end: run.start });
        }
        start = start.max(run.end);
    }
    if start < to {
        left.push(Run { start, end: to });
    }
    left
}

#[cfg(test)]
mod tests;
