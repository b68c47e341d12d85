//! Reading a version: gets, batched gets, cursors, figures and verification.
//!
//! Invariants: W1 sources are asked from newest to oldest: runs of level 0, then level by level.
//! W2 whatever a version hands out holds the files it reads.

use crate::base::cursor::BoxCursor;
use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::sync::Arc;
use crate::base::tombstone::Fragments;
use crate::index::lsm::counters::Counters;
use crate::index::lsm::shape::{LAST_LEVEL, Targets, overlapping};
use crate::index::lsm::version::Version;
use crate::index::run_cursor::{RunCursor, files_in_range, table_options};
use crate::index::table_file::TableFile;
use crate::index::verify::verify_file;
use crate::index::{
    CursorOptions, FileRecord, IndexSpace, IndexView, KeyLookup, LevelSpace, VerifySink,
};
use crate::io::Purpose;
use crate::table::batch::{TableRequest, get_many};
use crate::table::reader::TableReader;

/// Of so many gets, one is told to the cache of open tables and to who counts what runs of level 0
/// cost, chosen by the key's hash.
const USES_PER_NOTE: u64 = 64;

impl Version {
    /// Asks one file; true when the lookup is decided.
    #[inline]
    fn ask(&self, file: &TableFile, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<bool> {
        if !may_answer(file, key, lookup) {
            return Ok(false);
        }
        match &**file.at_hand.load() {
            Some(reader) => {
                if hash.is_multiple_of(USES_PER_NOTE) {
                    self.context.tables.note_use(file.id());
                }
                reader.get(key, hash, lookup, Purpose::Read)
            }
            None => self.context.reader(file)?.get(key, hash, lookup, Purpose::Read),
        }
    }

    /// One round of a batched get: every undecided key in the file that `choose` names for it.
    fn round<'a>(
        &self,
        keys: &mut [KeyLookup<'_>],
        choose: impl Fn(&[u8]) -> Option<&'a Arc<TableFile>>,
    ) -> Result<()> {
        let mut readers: Vec<Option<Arc<TableReader>>> = Vec::with_capacity(keys.len());
        let mut last: Option<(FileId, Arc<TableReader>)> = None;
        for key in keys.iter() {
            let file = choose(key.key).filter(|file| {
                key.lookup.found.is_none() && may_answer(file, key.key, &key.lookup)
            });
            readers.push(match (file, &last) {
                (None, _) => None,
                (Some(file), Some((id, reader))) if *id == file.id() => Some(reader.clone()),
                (Some(file), _) => {
                    let reader = self.context.reader(file)?;
                    last = Some((file.id(), reader.clone()));
                    Some(reader)
                }
            });
        }
        let mut requests: Vec<TableRequest<'_>> = keys
            .iter_mut()
            .zip(&readers)
            .filter_map(|(key, table)| {
                let table: &TableReader = table.as_ref()?;
                let KeyLookup { key, hash, lookup } = key;
                Some(TableRequest { table, key, hash: *hash, lookup })
            })
            .collect();
        if requests.is_empty() {
            return Ok(());
        }
        get_many(&self.context.io, &mut requests, Purpose::Read)
    }

    /// Merges the range tombstones of all files.
    fn merge_tombstones(&self) -> Result<Fragments> {
        let mut sets = Vec::new();
        for (_, file) in self.files().filter(|(_, file)| file.meta.range_tombstones > 0) {
            sets.push(self.context.reader(file)?.tombstones().clone());
        }
        Ok(Fragments::merged(&sets))
    }

    /// Estimate of the newest versions' key and value bytes: files of the deepest level, and of
    /// those above what overlaps nothing deeper; parts that tombstones, merges and older versions
    /// make up are taken off by their share of the entries.
    fn live_bytes(&self) -> u64 {
        let mut live = 0;
        for level in (0..=LAST_LEVEL).rev() {
            for file in self.level(level) {
                let covered = self.overlaps_below(level, file);
                if !covered || level == LAST_LEVEL {
                    live += live_share(file);
                }
            }
        }
        live
    }

    fn overlaps_below(&self, level: usize, file: &TableFile) -> bool {
        let end = &file.meta.largest;
        self.sorted_levels().skip(level).any(|files| {
            let hull = file.hull();
            let start = files.partition_point(|f| f.hull().ends_before(&hull.smallest));
            files.get(start).is_some_and(|f| *f.meta.smallest <= **end)
        })
    }
}

impl Version {
    /// Entries of the files below those with range deletes, as far as they reach: a file of level 0
    /// lies above the runs that follow it.
    fn covered_entries(&self) -> u64 {
        let mut covered = 0_u64;
        if !self.has_tombstones {
            return covered;
        }
        let deleting = |(_, file): &(usize, &Arc<TableFile>)| file.meta.range_tombstones > 0;
        for (level, above) in self.files().filter(deleting) {
            let (hull, newest) = (above.hull(), above.meta.largest_seq);
            let is_below = |run: &&Arc<TableFile>| {
                level == 0 && run.meta.largest_seq < newest && run.hull().overlaps(hull)
            };
            let older = self.level(0).iter().filter(is_below);
            let deeper = self.sorted_levels().skip(level).flat_map(|files| {
                files.get(overlapping(files, hull, |file| file.hull())).unwrap_or_default()
            });
            covered += older.chain(deeper).map(|file| file.meta.entries).sum::<u64>();
        }
        covered
    }
}

/// Key and value bytes of a file's newest versions, by share of its entries.
fn live_share(file: &TableFile) -> u64 {
    let meta = &file.meta;
    let raw = meta.raw_key_bytes.saturating_add(meta.raw_value_bytes);
    let dead = file.shape.hidden.saturating_add(meta.tombstones).min(meta.entries);
    let share = (meta.entries - dead) as f64 / meta.entries.max(1) as f64;
    (raw as f64 * share) as u64
}

/// Whether a file can hold anything that the lookup sees.
#[inline]
fn may_answer(file: &TableFile, key: &[u8], lookup: &Lookup) -> bool {
    file.meta.smallest_seq <= lookup.snapshot && file.meta.contains(key)
}

impl IndexView for Version {
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        if hash.is_multiple_of(USES_PER_NOTE) {
            self.counters.runs_paid.gets(USES_PER_NOTE, self.level(0).len());
        }
        for run in self.level(0) {
            if self.ask(run, key, hash, lookup)? {
                return Ok(());
            }
        }
        for files in self.sorted_levels() {
            if let Some(file) = Self::find(files, key)
                && self.ask(file, key, hash, lookup)?
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        for run in self.level(0) {
            self.round(keys, |_| Some(run))?;
        }
        for files in self.sorted_levels().filter(|files| !files.is_empty()) {
            self.round(keys, |key| Self::find(files, key))?;
        }
        Ok(())
    }

    fn cursors(&self, options: &CursorOptions) -> Result<Vec<BoxCursor>> {
        let table_options = table_options(options);
        let run = |files| {
            let cursor = RunCursor::new(self.context.clone(), files, table_options);
            Box::new(cursor) as BoxCursor
        };
        let mut children: Vec<BoxCursor> = self
            .level(0)
            .iter()
            .filter(|file| file.hull().overlaps_range(&options.range))
            .map(|file| run(Arc::new(vec![file.clone()])))
            .collect();
        if options.purpose == Purpose::Read {
            self.counters.runs_paid.scan(children.len());
        }
        for files in self.sorted_levels() {
            let wanted = files_in_range(files, options);
            if !wanted.is_empty() {
                children.push(run(wanted));
            }
        }
        Ok(children)
    }

    fn tombstones(&self) -> Result<Arc<Fragments>> {
        let mut cached = self.tombstones.lock();
        if let Some(fragments) = &*cached {
            return Ok(fragments.clone());
        }
        let fragments = Arc::new(self.merge_tombstones()?);
        *cached = Some(fragments.clone());
        Ok(fragments)
    }

    fn cover(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        match self.has_tombstones {
            true => Ok(IndexView::tombstones(self)?.cover_seq(key, snapshot)),
            false => Ok(0),
        }
    }

    fn files(&self) -> Vec<FileRecord> {
        Version::files(self).map(|(_, file)| file.record()).collect()
    }

    fn largest_seq(&self) -> Seq {
        Version::files(self).map(|(_, file)| file.meta.largest_seq).max().unwrap_or(0)
    }

    fn space(&self) -> IndexSpace {
        let level_bytes = self.level_bytes();
        let targets = Targets::new(&level_bytes, &self.context.widths);
        let levels: Vec<LevelSpace> = level_bytes
            .iter()
            .enumerate()
            .map(|(level, bytes)| LevelSpace {
                level,
                files: self.level(level).len(),
                bytes: *bytes,
                target_bytes: targets.of(level),
                entries: self.level(level).iter().map(|file| file.meta.entries).sum(),
            })
            .collect();
        IndexSpace {
            disk_bytes: level_bytes.iter().sum(),
            live_bytes: self.live_bytes(),
            entries: levels.iter().map(|level| level.entries).sum(),
            covered_entries: self.covered_entries(),
            levels,
            parallel_parts: Counters::get(&self.counters.parallel_parts),
            trivial_moves: Counters::get(&self.counters.trivial_moves),
        }
    }

    fn verify(&self, sink: &mut dyn VerifySink) {
        if let Err(error) = self.check() {
            sink.problem(error);
        }
        for (level, file) in Version::files(self) {
            if let Err(error) = verify_file(&self.context, file, sink) {
                sink.problem(Error::context(error, format_args!("level {level}")));
            }
        }
    }
}
