//! Giving back dead records where they are: as holes in a file whose live records stay.
//!
//! A file of large records is first looked at (`look`), which reads only their heads. Where holes
//! free enough, an edit drops the runs of frames whose records are all dead. Views from it on have
//! another object for the same file (`values::file`); when the last holder of the one before is
//! gone, housekeeping has the file system take the blocks back. A crash in between leaves bytes
//! that nobody reads, and the next open gives them back once more.
//!
//! Invariants, besides GC1, GC2 and GC5: GH1 the edit waits as long as a snapshot may see one of
//! the records that it drops, as the removal of a file does (GC3). GH2 nothing is given back before
//! the edit is durable and every view of before it is gone, nor while the file has other names:
//! what was linked before the edit is read to its end by whoever opens that. A checkpoint holds its
//! view while it links, so that no look at the names comes in between. GH3 where giving back fails,
//! nothing is lost: the file counts with all of its blocks again, and its live values are put
//! elsewhere.

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::runs::{Run, whole_block_bytes};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::gc::is_seen;
use crate::engine::gc::look::Look;
use crate::engine::state::{Draft, Publication};
use crate::io::Purpose;
use crate::log::punched::Punched;
use crate::values::edit::ValuesEdit;
use crate::values::file_table::{TableEntry, ValueFiles};
use crate::values::sample::Sample;
use crate::values::strategy::holes::{Looked, Remedy, may_pay, remedy};

/// Runs that are to be dropped from a file.
pub(super) struct Planned {
    punched: Arc<Punched>,
    /// Smallest seq of the records in those that are new.
    oldest_record: Seq,
    /// Newest seq visible after the last look at them.
    barrier: Seq,
    /// Bytes of the records that were live.
    pub(super) live_record_bytes: u64,
    /// Index entries that name what is gone then, about.
    dangling: u64,
    /// What is known of what is left.
    sample: Sample,
}

/// What follows from a look at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file needs no collection, or not any more.
    Settled,
    /// Its live values are to be put elsewhere.
    Move,
}

impl Engine {
    /// Looks at a file that is to be collected, if holes in it may pay; drops what it can.
    pub(super) fn punch_instead(&self, id: FileId) -> Result<Verdict> {
        let Some(entry) = self.may_punch(id)? else { return Ok(Verdict::Move) };
        let Some(values) = entry.state.sealed else { return Ok(Verdict::Move) };
        let look = Look::at(self, &entry)?;
        let block_bytes = self.widths.hole_block_bytes;
        let found = look.droppable(block_bytes);
        let punched = &found.punched;
        let left = (
            values.totals.records.saturating_sub(punched.records),
            values.totals.record_bytes.saturating_sub(punched.record_bytes),
        );
        let file_bytes = entry.disk_bytes();
        let free_after = whole_block_bytes(&punched.runs, block_bytes);
        let length = values.sealed.bytes;
        let looked = Looked {
            id,
            length,
            file_bytes,
            freed_bytes: free_after.saturating_sub(length.saturating_sub(file_bytes)),
            is_punched: entry.punched.is_some(),
            refs: (entry.state.refs, entry.state.ref_bytes),
            records_left: left,
            live_record_bytes: found.live_record_bytes,
        };
        let remedy = remedy(&looked, &self.space_limits());
        tracing::debug!(file = %id, ?remedy, ?looked, "value file looked at");
        if remedy == Remedy::Move {
            mark!("gc_holes_do_not_pay");
            return Ok(Verdict::Move);
        }
        let sample = Sample::draw(&self.value_context, &entry.file, &found.live)?;
        let sample = sample.of_share(looked.live_share());
        if remedy == Remedy::Leave {
            mark!("gc_little_is_dead_after_all");
            self.gc.state.lock().samples.insert(id, sample);
            return Ok(Verdict::Settled);
        }
        let barrier = self.visible.load(Ordering::Acquire);
        self.sync_logs()?;
        let before = entry.punched.as_ref().map_or(0, |before| before.records);
        if entry.punched.is_some() {
            mark!("gc_punched_again");
        }
        let dead_entries = entry.state.refs.saturating_sub(found.live.len() as u64);
        let dangling = found.punched.records.saturating_sub(before).min(dead_entries);
        let planned = Planned {
            dangling,
            punched: Arc::new(found.punched),
            oldest_record: found.oldest_record,
            barrier,
            live_record_bytes: found.live_record_bytes,
            sample,
        };
        if planted!("gc_punch_before_edit") {
            self.obsolete.push_runs(id, Arc::clone(&planned.punched.runs));
            self.give_back_runs();
        }
        self.gc.state.lock().planned.insert(id, planned);
        self.drop_dead_runs()?;
        Ok(Verdict::Settled)
    }

    /// The file, if there may be holes in it that pay (GC1).
    fn may_punch(&self, id: FileId) -> Result<Option<TableEntry>> {
        let view = self.view.load();
        let is_newest = view.newest_value_file() == id.0;
        let entry = view.values.get(id).filter(|entry| entry.state.is_settled(self.flushed()));
        let Some(entry) = entry.filter(|entry| !is_newest && !entry.file.refuses_holes()) else {
            return Ok(None);
        };
        let are_large =
            entry.records_left().is_some_and(|left| may_pay(left, self.widths.hole_block_bytes));
        if !are_large || self.gc.refuses_holes.load(Ordering::Acquire) {
            return Ok(None);
        }
        let entry = entry.clone();
        let footprint = entry.file.disk_file()?.footprint();
        let failed = |e| Error::io("looking at a value file", entry.file.path(), e);
        if footprint.map_err(failed)?.links > 1 {
            mark!("gc_punch_refused_for_links");
            entry.file.refuse_holes();
            return Ok(None);
        }
        Ok(Some(entry))
    }

    /// Drops the planned runs that no snapshot needs any more (GH1); false if there are none.
    pub(crate) fn drop_dead_runs(&self) -> Result<bool> {
        let ready = self.droppable_now(&self.view.load().values);
        if ready.is_empty() {
            return Ok(false);
        }
        let edits: Vec<_> = {
            let known = self.gc.state.lock();
            let edit = |&id: &FileId| {
                let punched = Arc::clone(&known.planned.get(&id)?.punched);
                Some(ValuesEdit::Punched { id, punched })
            };
            ready.iter().filter_map(edit).collect()
        };
        // Housekeeping may come to the same conclusion at the same time.
        let is_unchanged = || self.droppable_now(&self.view.load().values) == ready;
        let sections = vec![ValuesEdit::encode(&edits)];
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        let install = |engine: &Self| {
            // Under the manifest lock, so that nobody plans it a second time.
            let mut known = engine.gc.state.lock();
            for id in &ready {
                if let Some(planned) = known.planned.remove(id) {
                    known.dangling += planned.dangling;
                    known.samples.insert(*id, planned.sample);
                }
            }
            Ok(Publication::default())
        };
        if !self.commit_draft(draft, install)? {
            return Ok(false);
        }
        mark!("gc_runs_dropped");
        self.metrics.collection.punched.fetch_add(ready.len() as u64, Ordering::Relaxed);
        tracing::info!(files = ready.len(), "dead records of value files dropped in place");
        Ok(true)
    }

    /// Files whose planned runs may be dropped.
    fn droppable_now(&self, values: &ValueFiles) -> Vec<FileId> {
        let mut known = self.gc.state.lock();
        // Compaction may have found that nothing names a file before that.
        known.planned.retain(|&id, _| values.get(id).is_some());
        let snapshots = self.snapshots.stripes();
        let is_free = |planned: &Planned| {
            let is_seen = is_seen(planned.oldest_record, planned.barrier, &snapshots);
            if is_seen {
                mark!("gc_punch_waited_for_snapshot");
            }
            !is_seen || planted!("gc_punch_ignores_snapshots")
        };
        known.planned.iter().filter(|(_, planned)| is_free(planned)).map(|(&id, _)| id).collect()
    }

    /// Has runs given back that the manifest names: a crash may have come before that, and nobody
    /// knows. At open.
    pub(crate) fn drop_runs_again(&self) {
        for entry in self.view.load().values.iter() {
            if let Some(punched) = &entry.punched {
                mark!("gc_runs_of_before_open");
                self.obsolete.push_runs(entry.file.id(), Arc::clone(&punched.runs));
            }
        }
    }

    /// Gives back the runs that no view reads any more.
    pub(crate) fn give_back_runs(&self) {
        for (id, runs) in self.obsolete.take_runs() {
            // A file that is gone needs no holes.
            let Some(entry) = self.view.load().values.get(id).cloned() else { continue };
            if entry.file.refuses_holes() {
                continue;
            }
            match self.give_back(&entry, &runs) {
                Ok(bytes) => {
                    mark!("gc_runs_given_back");
                    self.io.meter.punched(Purpose::Collection, bytes);
                    tracing::info!(file = %id, bytes, "holes punched");
                }
                Err(cause) => {
                    mark!("gc_punch_refused");
                    if cause.kind() == std::io::ErrorKind::Unsupported {
                        self.gc.refuses_holes.store(true, Ordering::Release);
                    }
                    entry.file.refuse_holes();
                    tracing::warn!(file = %id, error = %cause, "dead records keep their room");
                }
            }
        }
    }

    /// Gives back these runs; bytes that this freed (GH2).
    fn give_back(&self, entry: &TableEntry, runs: &[Run]) -> std::io::Result<u64> {
        let file = &entry.file;
        let block_bytes = self.widths.hole_block_bytes;
        let freed = whole_block_bytes(runs, block_bytes);
        let disk_file = self.io.disk.open_write(file.path())?;
        let footprint = disk_file.footprint()?;
        let left = file.readable().saturating_sub(freed);
        if file.given_back_bytes() == 0 && footprint.allocated_bytes <= left {
            mark!("gc_runs_were_given_back");
            file.gave_back(freed);
            return Ok(0);
        }
        if footprint.links > 1 {
            let message = "the file has another name, of a checkpoint";
            return Err(std::io::Error::other(message));
        }
        for run in runs.iter().filter_map(|run| run.whole_blocks(block_bytes)) {
            disk_file.punch(run.start, run.bytes())?;
        }
        Ok(file.gave_back(freed))
    }
}
