//! Runs a pick: merges its inputs through the stripe rule into new tables.
//!
//! A job works on the version it was picked from. Invariants: J1 its inputs stay in the levels
//! until it is installed, because they are reserved. J2 what it believes to be older below can
//! only have moved further down meanwhile, so tombstones are dropped only where nothing is. J3
//! parts work on disjoint key ranges, and range tombstones are cut to them. J4 a job that fails
//! or is cancelled leaves no file.

use crate::base::cursor::{BoxCursor, Cursor as _};
use crate::base::entry::SEQ_MAX;
use crate::base::error::{Error, Result};
use crate::base::limits::LEVELS;
use crate::base::marks::mark;
use crate::base::merging::MergingCursor;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::index::lsm::counters::Counters;
use crate::index::lsm::edit::DecodedEdit;
use crate::index::lsm::pick::{Pick, PickKind};
use crate::index::lsm::shape::{FileShape, Hull};
use crate::index::lsm::version::{Version, VersionEdit};
use crate::index::lsm::{LsmChange, Reservation, Shared};
use crate::index::ordering::write_in_order;
use crate::index::outputs::{KeySpan, OutputPlan, Outputs};
use crate::index::run_cursor::RunCursor;
use crate::index::stripes::{StripeRule, Survivors, surviving_tombstones};
use crate::index::table_file::TableFile;
use crate::index::{IndexJob, JobContext, KeyRange, Prepared, WorkReport};
use crate::io::Purpose;
use crate::io::executor::{Parts, side_by_side};
use crate::table::cursor::{Readahead, TableCursorOptions};

/// A picked compaction.
pub(super) struct LsmJob {
    pub(super) shared: Arc<Shared>,
    /// The version it was picked from.
    pub(super) version: Arc<Version>,
    pub(super) pick: Pick,
    pub(super) reservation: Arc<Reservation>,
    /// See `FileShape::tick`.
    pub(super) tick: u64,
}

/// A file of the output level may stay beside a merge with this part of a table's bytes.
const KEPT_TABLE_PART: u64 = 4;

type Files = Vec<Arc<TableFile>>;

/// The files of one merge.
#[derive(Clone, Copy)]
struct Merge<'a> {
    /// Files of the input level.
    inputs: &'a [Arc<TableFile>],
    /// Files of the output level that are merged with them.
    overlap: &'a [Arc<TableFile>],
    /// Files of the output level between those that stay as they are.
    kept: &'a [Arc<TableFile>],
}

/// What one part made.
#[derive(Default)]
struct PartOutcome {
    files: Vec<Arc<TableFile>>,
    sections: Vec<Section>,
    entries_in: u64,
    entries_out: u64,
}

impl IndexJob for LsmJob {
    fn score(&self) -> f64 {
        self.pick.score
    }

    fn orders(&self) -> bool {
        self.pick.orders
    }

    fn is_awaited(&self) -> bool {
        self.pick.reason == "reads"
    }

    fn run(&mut self, context: &JobContext) -> Result<Prepared> {
        let running = self.shared.begin_running();
        let outcome = match self.pick.kind {
            PickKind::Move => self.run_move(),
            PickKind::Merge | PickKind::IntraLevel0 => self.run_merge(context),
        };
        drop(running);
        outcome
    }
}

impl LsmJob {
    fn files_of(&self, level: usize, shapes: &[Arc<FileShape>]) -> Result<Vec<Arc<TableFile>>> {
        let find = |shape: &Arc<FileShape>| {
            let mut files = self.version.level(level).iter();
            files
                .find(|file| file.id() == shape.id)
                .cloned()
                .ok_or_else(|| Error::corruption(format!("a picked table is not in level {level}")))
        };
        shapes.iter().map(find).collect()
    }

    fn report(&self, kind: &'static str) -> WorkReport {
        WorkReport {
            kind,
            reason: self.pick.reason.to_owned(),
            levels: (self.pick.input_level, self.pick.output_level),
            parts: 1,
            ..WorkReport::default()
        }
    }

    fn prepared(
        &self,
        edit: VersionEdit,
        sections: Vec<Section>,
        report: WorkReport,
    ) -> Result<Prepared> {
        // Better to find a misfit before the edit is durable than after.
        self.shared.current().apply(&edit)?;
        let keyspace = self.shared.context.keyspace;
        let mut all = vec![DecodedEdit::of_change(keyspace, &edit).encode()];
        all.extend(sections);
        let change = LsmChange { edit, reservation: Some(self.reservation.clone()) };
        Ok(Prepared { sections: all, change: Box::new(change), report })
    }

    fn run_move(&self) -> Result<Prepared> {
        mark!("trivial_move");
        let Pick { input_level, output_level, inputs, .. } = &self.pick;
        let files = self.files_of(*input_level, inputs)?;
        Counters::add(&self.shared.counters.trivial_moves, files.len());
        let edit = VersionEdit {
            removed: files.iter().map(|file| (*input_level, file.id())).collect(),
            added: files.into_iter().map(|file| (*output_level, file)).collect(),
        };
        self.prepared(edit, Vec::new(), self.report("trivial move"))
    }

    fn run_merge(&self, context: &JobContext) -> Result<Prepared> {
        let Pick { input_level, output_level, .. } = self.pick;
        let inputs = self.files_of(input_level, &self.pick.inputs)?;
        let (overlap, kept) =
            self.part_overlap(&inputs, self.files_of(output_level, &self.pick.overlap)?)?;
        if self.pick.kind == PickKind::IntraLevel0 {
            mark!("intra_level0");
        }
        if self.pick.kind != PickKind::IntraLevel0 {
            mark!("compaction");
        }
        if self.pick.reason == "manual" {
            mark!("manual_compaction");
        }
        let merge = Merge { inputs: &inputs, overlap: &overlap, kept: &kept };
        let mut outcomes = self.run_parts(context, &merge)?;
        let mut report = self.report("compaction");
        report.parts = outcomes.len();
        report.bytes_read = inputs.iter().chain(&overlap).map(|file| file.meta.bytes).sum();
        let mut edit = VersionEdit::default();
        edit.removed.extend(inputs.iter().map(|file| (input_level, file.id())));
        edit.removed.extend(overlap.iter().map(|file| (output_level, file.id())));
        let mut sections = Vec::new();
        for outcome in &mut outcomes {
            report.entries_in += outcome.entries_in;
            report.entries_out += outcome.entries_out;
            sections.append(&mut outcome.sections);
            for file in outcome.files.drain(..) {
                report.bytes_written += file.meta.bytes;
                edit.added.push((output_level, file));
            }
        }
        Counters::add(&self.shared.counters.compactions, 1);
        self.prepared(edit, sections, report)
    }

    /// Runs all parts, side by side where that is possible.
    fn run_parts(&self, context: &JobContext, merge: &Merge<'_>) -> Result<Vec<PartOutcome>> {
        let ranges = part_ranges(&self.pick.splits);
        if ranges.len() < 2 {
            return Ok(vec![self.run_part(context, merge, &KeyRange::default())?]);
        }
        mark!("subcompaction");
        Counters::add(&self.shared.counters.parallel_parts, ranges.len());
        let executor = &self.shared.context.io.executor;
        let fork_join = |parts: Parts<'_>| executor.fork_join(parts);
        let lanes = ranges.len();
        side_by_side(ranges, lanes, &fork_join, &|range| self.run_part(context, merge, &range))
    }

    fn run_part(
        &self,
        context: &JobContext,
        merge: &Merge<'_>,
        range: &KeyRange,
    ) -> Result<PartOutcome> {
        let Merge { inputs, overlap, kept } = *merge;
        let mut listener = context.listeners.listener(self.shared.context.keyspace);
        let fragments = self.tombstones_in(inputs.iter().chain(overlap), range)?;
        let level = self.pick.output_level;
        let snapshots = context.stripes.as_slice();
        let tombstones = surviving_tombstones(
            &fragments,
            snapshots,
            |start, end| self.version.older_below_range(level, start, end),
            &mut *listener,
        );
        let mut outputs =
            Outputs::new(self.shared.context.clone(), self.output_plan(kept), tombstones);
        let mut input = self.merged_input(inputs, overlap, range);
        match &range.start {
            Some(start) => input.seek(start, SEQ_MAX)?,
            None => input.seek_first()?,
        }
        let rule = StripeRule {
            snapshots,
            tombstones: &fragments,
            operator: self.shared.context.operator.clone(),
            older_below: Box::new(|key| self.version.older_below(level, key)),
            cancelled: Some(&context.cancelled),
        };
        let mut survivors = Survivors::new(input, range.end.clone(), rule, &mut *listener);
        if self.pick.orders && survivors.listener().orders() {
            write_in_order(&mut survivors, &mut outputs)?;
        }
        while survivors.advance()? {
            outputs.add(survivors.key(), survivors.seq(), survivors.kind(), survivors.value())?;
        }
        let entries_in = survivors.entries_in();
        drop(survivors);
        let entries_out = outputs.entries();
        let files = outputs.finish()?;
        let sections = listener.finish()?;
        Ok(PartOutcome { files, sections, entries_in, entries_out })
    }

    fn output_plan(&self, kept: &[Arc<TableFile>]) -> OutputPlan {
        let level = self.pick.output_level;
        let table_bytes =
            if level == 0 { u64::MAX } else { self.shared.context.widths.table_bytes };
        let below = if level == 0 || level + 1 >= LEVELS { 0 } else { level + 1 };
        let below = if below == 0 { &[] } else { self.version.level(below) };
        OutputPlan {
            level,
            purpose: Purpose::Compaction,
            limited: true,
            table_bytes,
            tick: self.tick,
            below: below.iter().map(|f| (f.meta.smallest.clone(), f.meta.bytes)).collect(),
            kept: kept.iter().map(|file| file.meta.smallest.clone()).collect(),
            span: (level > 0).then(|| {
                let hull = &self.pick.hull;
                KeySpan::new(&hull.smallest, &hull.largest)
            }),
        }
    }

    /// Parts the files of the output level into those to merge and those that may stay as they
    /// are: the range of all inputs covers them, but no input has a key among theirs. So several
    /// ascending streams of keys are no dearer than one. Small ones are merged all the same, since
    /// what is cut at a file that stays would else become ever more and smaller tables. A manual
    /// compaction rewrites what it was asked for.
    fn part_overlap(&self, inputs: &[Arc<TableFile>], overlap: Files) -> Result<(Files, Files)> {
        let worth_keeping = self.shared.context.widths.table_bytes / KEPT_TABLE_PART;
        let (mut merged, mut kept) = (Vec::new(), Vec::new());
        for file in overlap {
            if self.pick.reason == "manual"
                || file.meta.bytes < worth_keeping
                || self.any_key_within(inputs, file.hull())?
            {
                merged.push(file);
            } else {
                mark!("overlap_kept");
                kept.push(file);
            }
        }
        Ok((merged, kept))
    }

    /// Whether any of these files has a key in the range, or may have a range tombstone there.
    fn any_key_within(&self, files: &[Arc<TableFile>], range: &Hull) -> Result<bool> {
        let options = TableCursorOptions {
            purpose: Purpose::Compaction,
            fill_cache: false,
            readahead: Readahead::Growing,
        };
        for file in files.iter().filter(|file| file.hull().overlaps(range)) {
            if file.meta.range_tombstones > 0 {
                return Ok(true);
            }
            let mut cursor = self.shared.context.reader(file)?.cursor(options);
            cursor.seek(&range.smallest, SEQ_MAX)?;
            if cursor.valid() && !range.ends_before(cursor.key()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All range tombstones of these files, cut to the part.
    fn tombstones_in<'a>(
        &self,
        files: impl Iterator<Item = &'a Arc<TableFile>>,
        range: &KeyRange,
    ) -> Result<Fragments> {
        let mut tombstones: Vec<RangeTombstone> = Vec::new();
        for file in files.filter(|file| file.meta.range_tombstones > 0) {
            tombstones.extend(self.shared.context.reader(file)?.tombstones().tombstones());
        }
        for tombstone in &mut tombstones {
            if let Some(start) = range.start.as_deref().filter(|key| *key > &*tombstone.start) {
                tombstone.start = start.into();
            }
            if let Some(end) = range.end.as_deref().filter(|key| *key < &*tombstone.end) {
                tombstone.end = end.into();
            }
        }
        // Ranges that became empty are left out here.
        Ok(Fragments::build(tombstones))
    }

    fn merged_input(
        &self,
        inputs: &[Arc<TableFile>],
        overlap: &[Arc<TableFile>],
        range: &KeyRange,
    ) -> BoxCursor {
        let options = TableCursorOptions {
            purpose: Purpose::Compaction,
            fill_cache: false,
            readahead: Readahead::Full,
        };
        let wanted = |files: &[Arc<TableFile>]| -> Vec<Arc<TableFile>> {
            files.iter().filter(|file| file.hull().overlaps_range(range)).cloned().collect()
        };
        let mut runs: Vec<Vec<Arc<TableFile>>> = if self.pick.input_level == 0 {
            wanted(inputs).into_iter().map(|file| vec![file]).collect()
        } else {
            vec![wanted(inputs)]
        };
        runs.push(wanted(overlap));
        if planted!("compaction_forgets_a_file") && runs.len() > 1 {
            runs.swap_remove(0);
        }
        let cursor = |files: Vec<Arc<TableFile>>| {
            let context = self.shared.context.clone();
            Box::new(RunCursor::new(context, Arc::new(files), options)) as BoxCursor
        };
        let children = runs.into_iter().filter(|files| !files.is_empty()).map(cursor).collect();
        Box::new(MergingCursor::new(children))
    }
}

/// The key ranges between split keys.
fn part_ranges(splits: &[Vec<u8>]) -> Vec<KeyRange> {
    let starts = std::iter::once(None).chain(splits.iter().cloned().map(Some));
    let ends = splits.iter().cloned().map(Some).chain(std::iter::once(None));
    starts.zip(ends).map(|(start, end)| KeyRange { start, end }).collect()
}
