//! The LSM index: leveled, with dynamic level sizes and concurrent compactions.
//!
//! Any number of threads read; changes are prepared by any thread and installed one at a time, in
//! manifest order. Invariants: L1 the current version changes by `install` only. L2 inputs and
//! output range of a job stay reserved until both the job and its change are gone. L3 runs of
//! level 0 are ordered by the time they were installed, so newer runs hide older ones.

use std::any::Any;
use std::collections::HashSet;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Arc, Mutex, RwLock};
use crate::base::tombstone::Fragments;
use crate::index::context::IndexContext;
use crate::index::outputs::{OutputPlan, Outputs};
use crate::index::stripes::{StripeRule, Survivors, surviving_tombstones};
use crate::index::table_file::TableFile;
use crate::index::{
    Backlog, FlushInput, IndexJob, IndexView, KeyRange, OrderedIndex, Prepared, WorkReport,
};
use crate::io::Purpose;

mod compact;
pub(crate) mod counters;
pub(crate) mod edit;
pub(crate) mod pick;
pub(crate) mod reads;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
pub(crate) mod version;
mod view;

use compact::LsmJob;
use counters::Counters;
use edit::{DecodedEdit, EditKind};
use pick::{Manual, ManualStep, Pick, manual_step, pick, pick_for_reads};
use shape::{Reserved, Targets};
use version::{Version, VersionEdit};

/// An LSM index of one keyspace.
pub(crate) struct LsmIndex {
    shared: Arc<Shared>,
}

/// What the index and its jobs share.
struct Shared {
    context: Arc<IndexContext>,
    counters: Arc<Counters>,
    current: RwLock<Arc<Version>>,
    plans: Mutex<Plans>,
    running: AtomicUsize,
}

/// What is going on and what was asked for.
#[derive(Default)]
struct Plans {
    busy: HashSet<FileId>,
    reserved: Vec<Reserved>,
    last_reservation: u64,
    manual: Vec<Manual>,
    /// Number of the last manual request.
    last_ticket: u64,
}

/// Inputs and output range of a job; gives them back when dropped.
struct Reservation {
    shared: Arc<Shared>,
    number: u64,
    inputs: Vec<FileId>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut plans = self.shared.plans.lock();
        for id in &self.inputs {
            plans.busy.remove(id);
        }
        let number = self.number;
        plans.reserved.retain(|reserved| reserved.ticket != number);
    }
}

/// A prepared change of the levels.
struct LsmChange {
    edit: VersionEdit,
    /// Held until the change is installed or dropped (L2).
    reservation: Option<Arc<Reservation>>,
}

/// Counts a running job while it lives.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    fn current(&self) -> Arc<Version> {
        self.current.read().clone()
    }

    fn begin_running(&self) -> Running<'_> {
        let now = self.running.fetch_add(1, Ordering::AcqRel) + 1;
        if now > 1 {
            mark!("concurrent_compaction");
        }
        self.counters.concurrent_max.fetch_max(now as u64, Ordering::AcqRel);
        Running(&self.running)
    }
}

impl LsmIndex {
    /// The index that these sections describe, in manifest order; none: an empty index.
    pub(crate) fn recover(context: IndexContext, sections: &[Section]) -> Result<Arc<Self>> {
        let context = Arc::new(context);
        let counters = Arc::new(Counters::default());
        let mut version = Version::empty(context.clone(), counters.clone());
        let mut last_file = FileId(0);
        for section in sections.iter().filter(|section| section.tag == SectionTag::LSM) {
            let decoded = DecodedEdit::decode(section)?;
            if decoded.keyspace != context.keyspace {
                return Err(Error::corruption("a section of another keyspace"));
            }
            if decoded.kind == EditKind::Snapshot {
                version = Version::empty(context.clone(), counters.clone());
            }
            let mut edit = VersionEdit { removed: decoded.removed, added: Vec::new() };
            for table in decoded.added {
                last_file = last_file.max(table.meta.file);
                let file = TableFile::new(table.meta, table.hidden, 0, context.obsolete.clone());
                file.keep();
                edit.added.push((table.level, file));
            }
            version = version.apply(&edit)?;
        }
        context.file_ids.at_least(FileId(last_file.0.saturating_add(1)));
        Ok(Arc::new(Self {
            shared: Arc::new(Shared {
                context,
                counters,
                current: RwLock::new(Arc::new(version)),
                plans: Mutex::new(Plans::default()),
                running: AtomicUsize::new(0),
            }),
        }))
    }

    /// Makes a job of a pick and reserves what it needs.
    fn reserve(&self, plans: &mut Plans, version: &Arc<Version>, pick: Pick) -> LsmJob {
        plans.last_reservation += 1;
        let number = plans.last_reservation;
        let inputs: Vec<FileId> =
            pick.inputs.iter().chain(&pick.overlap).map(|file| file.id).collect();
        plans.busy.extend(inputs.iter().copied());
        plans.reserved.push(Reserved {
            ticket: number,
            input_level: pick.input_level,
            output_level: pick.output_level,
            hull: pick.hull.clone(),
        });
        let reservation = Reservation { shared: self.shared.clone(), number, inputs };
        LsmJob {
            shared: self.shared.clone(),
            version: version.clone(),
            pick,
            reservation: Arc::new(reservation),
            tick: plans.last_ticket,
        }
    }

    /// Writes the survivors of a flush into one table.
    fn write_flush(&self, input: FlushInput<'_>, report: &mut WorkReport) -> Result<FlushOutcome> {
        let FlushInput { entries, tombstones, stripes, listeners, .. } = input;
        let (mut entries, mut listener) = (entries(), listeners());
        let fragments = Fragments::build(tombstones);
        // Something older may stand in the levels for any key.
        let kept = surviving_tombstones(&fragments, stripes, |_, _| true, &mut *listener);
        let context = &self.shared.context;
        let plan = OutputPlan {
            level: 0,
            purpose: Purpose::Flush,
            limited: true,
            table_bytes: u64::MAX,
            tick: 0,
            below: Vec::new(),
            kept: Vec::new(),
            span: None,
        };
        let mut outputs = Outputs::new(context.clone(), plan, kept);
        entries.seek_first()?;
        let rule = StripeRule {
            snapshots: stripes,
            tombstones: &fragments,
            operator: context.operator.clone(),
            older_below: Box::new(|_| true),
            cancelled: None,
        };
        let mut survivors = Survivors::new(entries, None, rule, &mut *listener);
        while survivors.advance()? {
            outputs.add(survivors.key(), survivors.seq(), survivors.kind(), survivors.value())?;
        }
        report.entries_in = survivors.entries_in();
        drop(survivors);
        report.entries_out = outputs.entries();
        let files = outputs.finish()?;
        report.bytes_written = files.iter().map(|file| file.meta.bytes).sum();
        Ok(FlushOutcome { files, sections: listener.finish()? })
    }
}

struct FlushOutcome {
    files: Vec<Arc<TableFile>>,
    sections: Vec<Section>,
}

impl OrderedIndex for LsmIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        self.shared.current()
    }

    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared> {
        let mut report =
            WorkReport { kind: "flush", reason: "memtable".to_owned(), ..WorkReport::default() };
        report.parts = 1;
        let FlushOutcome { files, sections } = self.write_flush(input, &mut report)?;
        let edit = VersionEdit {
            removed: Vec::new(),
            added: files.into_iter().map(|file| (0, file)).collect(),
        };
        let mut all = Vec::new();
        if !edit.added.is_empty() {
            all.push(DecodedEdit::of_change(self.shared.context.keyspace, &edit).encode());
        }
        all.extend(sections);
        let change = LsmChange { edit, reservation: None };
        Ok(Prepared { sections: all, change: Box::new(change), report })
    }

    fn pick_job(&self) -> Option<Box<dyn IndexJob>> {
        let mut plans = self.shared.plans.lock();
        let version = self.shared.current();
        let paid = &self.shared.counters.runs_paid;
        let chosen = {
            let shape = version.shape(&plans.busy, &plans.reserved);
            plans
                .manual
                .iter()
                .find_map(|manual| match manual_step(&shape, manual) {
                    ManualStep::Work(pick) => Some(pick),
                    ManualStep::Done | ManualStep::Blocked => None,
                })
                .or_else(|| pick(&shape))
                .or_else(|| {
                    let is_wanted = paid.wants(version.level(0), shape.widths);
                    let pick = is_wanted.then(|| pick_for_reads(&shape)).flatten()?;
                    mark!("level0_merged_for_reads");
                    paid.spend();
                    Some(pick)
                })
        }?;
        Some(Box::new(self.reserve(&mut plans, &version, chosen)))
    }

    fn install(&self, change: Box<dyn Any + Send>) -> Result<()> {
        let LsmChange { edit, reservation } = *change
            .downcast::<LsmChange>()
            .map_err(|_| Error::invalid("a change of another kind of index"))?;
        // Whatever becomes of the files below, the manifest names them from here on.
        edit.added.iter().for_each(|(_, file)| file.keep());
        let old = {
            let mut current = self.shared.current.write();
            let next = Arc::new(current.apply(&edit)?);
            std::mem::replace(&mut *current, next)
        };
        let added: HashSet<FileId> = edit.added.iter().map(|(_, file)| file.id()).collect();
        for (level, id) in edit.removed.iter().filter(|(_, id)| !added.contains(id)) {
            if let Some(file) = old.level(*level).iter().find(|file| file.id() == *id) {
                file.doom();
            }
        }
        // The reservation goes last: until here nobody may pick what has just changed.
        drop(reservation);
        Ok(())
    }

    fn request_compaction(&self, range: KeyRange, orders: bool) -> u64 {
        let mut plans = self.shared.plans.lock();
        let version = self.shared.current();
        let seq_limit: Seq =
            version.files().map(|(_, file)| file.meta.largest_seq).max().unwrap_or(0);
        plans.last_ticket += 1;
        let ticket = plans.last_ticket;
        plans.manual.push(Manual { ticket, range, seq_limit, orders });
        ticket
    }

    fn compaction_done(&self, ticket: u64) -> bool {
        let mut plans = self.shared.plans.lock();
        let version = self.shared.current();
        let Some(manual) = plans.manual.iter().find(|manual| manual.ticket == ticket) else {
            return true;
        };
        let shape = version.shape(&plans.busy, &plans.reserved);
        let done = matches!(manual_step(&shape, manual), ManualStep::Done);
        if done {
            plans.manual.retain(|manual| manual.ticket != ticket);
        }
        done
    }

    fn backlog(&self) -> Backlog {
        // Asked for often, so files that are on their way already are not told apart.
        let version = self.shared.current();
        let level_bytes = version.level_bytes();
        let widths = &self.shared.context.widths;
        let level0_runs = version.level(0).len();
        let level0_bytes = level_bytes.first().copied().unwrap_or(0);
        let targets = Targets::new(&level_bytes, widths);
        let level0 = (level0_runs, level0_bytes);
        let level0_due = targets.level0_score(level0, &level_bytes, widths) >= 1.0;
        let pending_bytes = targets.pending_bytes(&level_bytes, level0_due);
        Backlog { level0_runs, pending_bytes }
    }

    fn reads_want_work(&self) -> bool {
        let version = self.shared.current();
        self.shared.counters.runs_paid.wants(version.level(0), &self.shared.context.widths)
    }

    fn snapshot_sections(&self) -> Vec<Section> {
        let version = self.shared.current();
        vec![DecodedEdit::of_state(self.shared.context.keyspace, &version).encode()]
    }

    fn replay_floor(&self) -> Seq {
        0
    }

    fn retire(&self) {
        mark!("index_retired");
        self.shared.current().files().for_each(|(_, file)| file.doom());
    }
}
