//! The plain picture of the levels that decisions are made from, and the arithmetic of key ranges
//! and level sizes over it. Pure: no file is touched.
//!
//! Invariants: H1 files of levels 1 and below are sorted and disjoint. H2 level 0 holds runs,
//! newest first. H3 the range of a file covers its entries and its range tombstones.

use std::collections::HashSet;
use std::ops::Range;

use crate::base::compress::Compression;
use crate::base::entry::FileId;
use crate::base::limits::LEVELS;
use crate::base::sync::Arc;
use crate::base::widths::Widths;
pub(crate) use crate::index::table_file::{FileShape, Hull};

/// Number of the deepest level.
pub(crate) const LAST_LEVEL: usize = LEVELS - 1;

/// The part of the base that level 0 gathers before it goes down, in eighths. Merging rewrites all
/// of the base: a byte costs itself and eight thirds, and more only above a base so large that the
/// most comes before this part of it.
const LEVEL0_BASE_EIGHTHS: u64 = 3;
/// Most that it gathers, in quarters of the least: gets ask a filter more for each further run.
const LEVEL0_FILL_MAX_QUARTERS: u64 = 7;

/// Output of a running job: nobody else may write there.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) ticket: u64,
    pub(crate) input_level: usize,
    pub(crate) output_level: usize,
    pub(crate) hull: Hull,
}

/// Everything a decision may look at.
pub(crate) struct Shape<'a> {
    /// Level by level; level 0 newest first.
    pub(crate) levels: Vec<Vec<Arc<FileShape>>>,
    /// Inputs of running jobs.
    pub(crate) busy: &'a HashSet<FileId>,
    /// Outputs of running jobs.
    pub(crate) reserved: &'a [Reserved],
    pub(crate) widths: &'a Widths,
    /// Compression by level; the last one holds for all deeper levels.
    pub(crate) compression: &'a [Compression],
    /// Parts that may run side by side.
    pub(crate) parallelism: usize,
}

impl Shape<'_> {
    /// Files of a level.
    pub(crate) fn level(&self, level: usize) -> &[Arc<FileShape>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// Whether a running job reads this file.
    pub(crate) fn is_busy(&self, file: &FileShape) -> bool {
        self.busy.contains(&file.id)
    }

    /// Whether a job may write `hull` to `level`, and read what overlaps there.
    pub(crate) fn may_write(&self, level: usize, hull: &Hull) -> bool {
        let taken = |r: &Reserved| r.output_level == level && r.hull.overlaps(hull);
        !self.reserved.iter().any(taken)
            && !self.overlapping(level, hull).iter().any(|file| self.is_busy(file))
    }

    /// The files of a level below 0 that have keys in common with `hull`.
    pub(crate) fn overlapping(&self, level: usize, hull: &Hull) -> &[Arc<FileShape>] {
        let files = self.level(level);
        files.get(overlapping(files, hull, |file| &file.hull)).unwrap_or(&[])
    }

    /// Whether files of both levels are compressed alike.
    pub(crate) fn same_compression(&self, a: usize, b: usize) -> bool {
        compression_of(self.compression, a) == compression_of(self.compression, b)
    }

    /// Bytes of every level.
    pub(crate) fn level_bytes(&self) -> Vec<u64> {
        self.levels.iter().map(|files| files.iter().map(|file| file.bytes).sum()).collect()
    }
}

/// Compression of a level.
pub(crate) fn compression_of(by_level: &[Compression], level: usize) -> Compression {
    by_level.get(level).or(by_level.last()).copied().unwrap_or_default()
}

/// Positions of those sorted, disjoint items that have keys in common with `hull`.
pub(crate) fn overlapping<T>(
    items: &[T],
    hull: &Hull,
    hull_of: impl Fn(&T) -> &Hull,
) -> Range<usize> {
    let start = items.partition_point(|item| hull_of(item).ends_before(&hull.smallest));
    let end = items.partition_point(|item| !hull.ends_before(&hull_of(item).smallest));
    start..end.max(start)
}

/// Target sizes of the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Where level 0 is compacted to; the levels between are empty.
    pub(crate) base_level: usize,
    /// Bytes a level may hold, by level; 0 for level 0 and levels above the base.
    pub(crate) bytes: Vec<u64>,
}

impl Targets {
    /// Dynamic level sizes: the deepest level is as large as its data, each level above it smaller
    /// by the ratio, and the base is the first whose size would still be worth a level. So at most
    /// about a tenth of the data lies above the deepest level, however much there is.
    ///
    /// A base somewhat larger than level 0 is preferred to one more level: merging into a level x
    /// times as large costs 1 + x, a level between costs at least 2 + 2 * sqrt(x), which is more
    /// up to x = 5.8; hence "worth a level" begins at half the ratio.
    pub(crate) fn new(level_bytes: &[u64], widths: &Widths) -> Self {
        let below = level_bytes.get(1..).unwrap_or(&[]);
        let largest = below.iter().copied().max().unwrap_or(0);
        let first_used = below.iter().position(|bytes| *bytes > 0).map_or(LAST_LEVEL, |n| n + 1);
        let ratio = widths.level_ratio.max(2);
        let base_bytes = widths.level_base_bytes_min.max(1);
        let mut base_level = first_used;
        let steps = (first_used..LAST_LEVEL).count();
        let mut size = (0..steps).fold(largest, |size, _| size / ratio);
        while base_level > 1 && size > base_bytes.saturating_mul((ratio / 2).max(1)) {
            base_level -= 1;
            size /= ratio;
        }
        let mut bytes = vec![0; LEVELS];
        for target in bytes.iter_mut().skip(base_level) {
            *target = size.max(base_bytes);
            size = size.saturating_mul(ratio);
        }
        Self { base_level, bytes }
    }

    /// Target of a level, 0 where there is none.
    pub(crate) fn of(&self, level: usize) -> u64 {
        self.bytes.get(level).copied().unwrap_or(0)
    }

    /// Urgency of a level 0 of so many runs and bytes above these levels: 1 is "due". It waits for
    /// its part of the base, but for no less than a base of the smallest size, and no more than
    /// seven quarters of that; runs are due in as many as there would be of whole memtables.
    pub(crate) fn level0_score(
        &self,
        (runs, bytes): (usize, u64),
        level_bytes: &[u64],
        widths: &Widths,
    ) -> f64 {
        let base_bytes = level_bytes.get(self.base_level).copied().unwrap_or(0);
        let least = widths.level_base_bytes_min.max(1);
        let most = least.saturating_mul(LEVEL0_FILL_MAX_QUARTERS) / 4;
        let due = (base_bytes / 8).saturating_mul(LEVEL0_BASE_EIGHTHS).clamp(least, most);
        let fill = due as f64 / least as f64;
        let runs_due = (widths.level0_runs_trigger.max(1) as f64 * fill).floor();
        (runs as f64 / runs_due).max(bytes as f64 / due as f64)
    }

    /// Bytes that compaction must rewrite until every level is within its target: what is too
    /// much in a level, times what merging it into the next one costs.
    pub(crate) fn pending_bytes(&self, level_bytes: &[u64], level0_due: bool) -> u64 {
        let at = |level: usize| level_bytes.get(level).copied().unwrap_or(0);
        let mut pending = 0u64;
        let mut carried = 0u64;
        if level0_due {
            carried = at(0);
            pending = carried.saturating_add(at(self.base_level));
        }
        for level in self.base_level..LAST_LEVEL {
            let bytes = at(level).saturating_add(carried);
            carried = bytes.saturating_sub(self.of(level));
            let ratio = at(level + 1) / bytes.max(1);
            pending = pending.saturating_add(carried.saturating_mul(1 + ratio));
        }
        pending
    }
}
