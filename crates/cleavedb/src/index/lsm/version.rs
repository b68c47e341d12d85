//! One state of the levels, immutable: which tables stand where.
//!
//! Shared by all readers. Invariants: V1 files of levels 1 and below are sorted and disjoint. V2
//! level 0 holds runs, newest first: where two have keys in common, so that one hides the other,
//! all seqs of the first are larger. V3 no file stands twice. V4 a version holds its files, so
//! none is removed while the version lives.

use std::collections::HashSet;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::limits::LEVELS;
use crate::base::sync::{Arc, Mutex};
use crate::base::tombstone::Fragments;
use crate::index::context::IndexContext;
use crate::index::lsm::counters::Counters;
use crate::index::lsm::shape::{Hull, Shape, overlapping};
use crate::index::table_file::TableFile;

/// The files of one level, or of one run.
pub(crate) type Files = Arc<Vec<Arc<TableFile>>>;

/// A change of the levels.
#[derive(Clone, Default)]
pub(crate) struct VersionEdit {
    /// (level, file) to take out.
    pub(crate) removed: Vec<(usize, FileId)>,
    /// (level, file) to put in; runs of level 0 from oldest to newest. Runs that replace others
    /// take their place, other runs are the newest.
    pub(crate) added: Vec<(usize, Arc<TableFile>)>,
}

/// One state of the levels.
pub(crate) struct Version {
    pub(crate) context: Arc<IndexContext>,
    pub(crate) counters: Arc<Counters>,
    /// By level; all [`LEVELS`] are there.
    levels: Vec<Files>,
    /// All range tombstones, merged at first use.
    pub(super) tombstones: Mutex<Option<Arc<Fragments>>>,
    /// Whether there is any.
    pub(super) has_tombstones: bool,
}

impl Version {
    /// No files.
    pub(crate) fn empty(context: Arc<IndexContext>, counters: Arc<Counters>) -> Self {
        Self::new(context, counters, vec![Files::default(); LEVELS])
    }

    fn new(context: Arc<IndexContext>, counters: Arc<Counters>, levels: Vec<Files>) -> Self {
        debug_assert!(levels.len() == LEVELS);
        let mut files = levels.iter().flat_map(|files| files.iter());
        let has_tombstones = files.any(|file| file.meta.range_tombstones > 0);
        Self { context, counters, levels, tombstones: Mutex::new(None), has_tombstones }
    }

    /// The files of a level.
    pub(crate) fn level(&self, level: usize) -> &[Arc<TableFile>] {
        self.levels.get(level).map_or(&[], |files| files.as_slice())
    }

    /// The files of all levels from 1 on, level by level.
    pub(crate) fn sorted_levels(&self) -> impl Iterator<Item = &Files> {
        self.levels.iter().skip(1)
    }

    /// All files with their level.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }

    /// The one file of a level below 0 that may hold `key`.
    pub(crate) fn find<'a>(files: &'a [Arc<TableFile>], key: &[u8]) -> Option<&'a Arc<TableFile>> {
        // The *last* one that begins at or before the key: its predecessor may end, exclusively,
        // at the very same key.
        let after = files.partition_point(|file| *file.meta.smallest <= *key);
        files.get(after.checked_sub(1)?).filter(|file| file.meta.contains(key))
    }

    /// Whether anything older than the entries that a merge writes to `output_level` may exist for
    /// `key`, given that the merge read all that level 0 and the output level have of it.
    pub(crate) fn older_below(&self, output_level: usize, key: &[u8]) -> bool {
        output_level == 0
            || self
                .levels
                .iter()
                .skip(output_level + 1)
                .any(|files| Self::find(files, key).is_some())
    }

    /// The same for all keys in [start, end).
    pub(crate) fn older_below_range(&self, output_level: usize, start: &[u8], end: &[u8]) -> bool {
        let hull = Hull { smallest: start.into(), largest: end.into(), exclusive: true };
        output_level == 0
            || self
                .levels
                .iter()
                .skip(output_level + 1)
                .any(|files| !overlapping(files, &hull, |file| file.hull()).is_empty())
    }

    /// The picture that decisions are made from.
    pub(crate) fn shapes(&self) -> Vec<Vec<Arc<crate::index::lsm::shape::FileShape>>> {
        self.levels
            .iter()
            .map(|files| files.iter().map(|file| file.shape.clone()).collect())
            .collect()
    }

    /// Bytes of every level.
    pub(crate) fn level_bytes(&self) -> Vec<u64> {
        self.levels.iter().map(|files| files.iter().map(|file| file.meta.bytes).sum()).collect()
    }

    /// The state after `edit`; an edit that does not fit is refused.
    pub(crate) fn apply(&self, edit: &VersionEdit) -> Result<Self> {
        let mut levels: Vec<Vec<Arc<TableFile>>> = Vec::with_capacity(LEVELS);
        let mut touched = [false; LEVELS];
        let mut run_at = 0;
        for (level, files) in self.levels.iter().enumerate() {
            let gone: HashSet<FileId> =
                edit.removed.iter().filter(|(at, _)| *at == level).map(|(_, id)| *id).collect();
            if !gone.is_empty() {
                if level == 0 {
                    run_at = files.iter().position(|f| gone.contains(&f.id())).unwrap_or(0);
                }
                touch(&mut touched, level);
            }
            let kept: Vec<_> = files.iter().filter(|f| !gone.contains(&f.id())).cloned().collect();
            if kept.len() + gone.len() != files.len() {
                return Err(misfit(level, "an edit removes a table that is not there"));
            }
            levels.push(kept);
        }
        for (level, file) in &edit.added {
            let files = levels
                .get_mut(*level)
                .ok_or_else(|| misfit(*level, "an edit names a level that does not exist"))?;
            let at = match level {
                0 => run_at,
                _ => files.partition_point(|other| other.meta.smallest <= file.meta.smallest),
            };
            files.insert(at, file.clone());
            touch(&mut touched, *level);
        }
        let levels = levels
            .into_iter()
            .zip(&self.levels)
            .zip(touched)
            .map(|((files, old), touched)| if touched { Arc::new(files) } else { old.clone() })
            .collect();
        let next = Self::new(self.context.clone(), self.counters.clone(), levels);
        next.check()?;
        // Merging all range tombstones anew is in vain where the change leaves them alone.
        if self.range_deleting().eq(next.range_deleting()) {
            *next.tombstones.lock() = self.tombstones.lock().clone();
        }
        Ok(next)
    }

    /// Files with range tombstones, in the order of the levels.
    fn range_deleting(&self) -> impl Iterator<Item = FileId> {
        let files = self.files().filter(|(_, file)| file.meta.range_tombstones > 0);
        files.map(|(_, file)| file.id())
    }

    /// Checks V1, V2 (of neighbours) and V3.
    pub(crate) fn check(&self) -> Result<()> {
        let mut seen = HashSet::new();
        for (level, file) in self.files() {
            if !seen.insert(file.id()) {
                return Err(misfit(level, "a table stands twice in the levels"));
            }
        }
        let runs = self.level(0);
        let newest_first = runs.iter().zip(runs.iter().skip(1)).all(|(newer, older)| {
            newer.meta.smallest_seq > older.meta.largest_seq || !newer.hull().overlaps(older.hull())
        });
        if !newest_first {
            return Err(misfit(0, "runs are not in the order of their writing"));
        }
        for (number, files) in self.levels.iter().enumerate().skip(1) {
            let ordered = files
                .iter()
                .zip(files.iter().skip(1))
                .all(|(a, b)| a.hull().ends_before(&b.meta.smallest));
            if !ordered {
                return Err(misfit(number, "tables overlap"));
            }
        }
        Ok(())
    }

    /// The picture with what is going on at this moment.
    pub(crate) fn shape<'a>(
        &'a self,
        busy: &'a HashSet<FileId>,
        reserved: &'a [crate::index::lsm::shape::Reserved],
    ) -> Shape<'a> {
        Shape {
            levels: self.shapes(),
            busy,
            reserved,
            widths: &self.context.widths,
            compression: &self.context.compression,
            parallelism: self.context.io.executor.parallelism(),
        }
    }
}

fn touch(touched: &mut [bool; LEVELS], level: usize) {
    if let Some(touched) = touched.get_mut(level) {
        *touched = true;
    }
}

fn misfit(level: usize, what: &str) -> Error {
    Error::corruption(format!("level {level}: {what}"))
}
