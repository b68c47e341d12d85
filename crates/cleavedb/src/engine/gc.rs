//! Garbage collection of value files: which are due, one at a time, and when a collected one may
//! go.
//!
//! A file is read in order (`collect`); each record that is still its key's value is put again, on
//! the condition that it still is when that is written (`moves`). Nothing of this is in the
//! manifest before the file's removal: a crash leaves the file in force and some records twice, and
//! the next collection finds the old ones dead. Where records are large, dead ones leave as holes
//! instead (`holes`), and nothing is put again.
//!
//! Invariants, the rules being those of the design:
//! GC1 only a file that grows no more and whose seqs are all flushed is touched (R9).
//! GC2 both lanes are synced after the last look at whether a record is live, before the file is
//!     removed: what superseded a record must not be lost while the record is gone (R22).
//! GC3 the file stays in force while a snapshot lives that may see one of its records: older than
//!     the *barrier*, the newest seq visible after the last look, and not older than the file's
//!     oldest record (the stripe rule). Readers without a snapshot pin it through their view.
//! GC4 the newest file is never removed (`reclaim`).
//! GC5 one collection runs at a time.

use std::collections::BTreeMap;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::commit::{Task, Work};
use crate::engine::gc::collect::Collector;
use crate::engine::gc::estimate::DeadTail;
use crate::engine::gc::expected::Expected;
use crate::engine::gc::holes::{Planned, Verdict};
use crate::engine::gc::rewrite::Rewriting;
use crate::engine::mapping::Live;
use crate::engine::state::{Draft, Publication};
use crate::values::edit::ValuesEdit;
use crate::values::file_table::{TableEntry, ValueFiles};
use crate::values::sample::Sample;
use crate::values::strategy::space::{
    FileFigures, Plan, Space, SpaceLimits, Urgency, live_record_bytes, plan, worthwhile,
};
use crate::values::strategy::{AsksIndex, Collects};

mod chunk;
mod collect;
mod estimate;
mod expected;
pub(crate) mod figures;
mod holes;
mod large;
mod look;
mod moves;
mod newest;
pub(crate) mod on_demand;
mod rewrite;

/// Segments of garbage that are allowed in any case: files come and go whole.
const SLACK_SEGMENTS: u64 = 2;

/// What is dead in the open segment is worth a flush, once nothing is written any more, from this
/// part of a segment on.
const QUIET_PART: u64 = 16;

/// The part of the garbage allowed that what is not flushed may come to.
const UNFLUSHED_PART: u64 = 4;

/// What garbage collection knows.
#[derive(Default)]
pub(crate) struct Collection {
    state: Mutex<Known>,
    /// Log bytes that are not flushed at which a memtable is frozen, once that is known: beyond
    /// these, so much of them may be garbage that nobody knows of that the bound on space could not
    /// be kept.
    unflushed_bytes_max: AtomicU64,
    /// Set once the file system has refused to punch a hole.
    refuses_holes: AtomicBool,
}

#[derive(Default)]
struct Known {
    /// The collection in progress, between two steps.
    current: Option<Collector>,
    /// The same, where facts say what is dead.
    rewriting: Option<Rewriting>,
    /// A rewrite is under way: what room there is, it needs before it frees any.
    needs_room: bool,
    /// Log bytes appended when a rewrite last met a full disk: it needs room for all that survives
    /// before it frees any, and is not tried again and again.
    rewrite_found_full: Option<u64>,
    /// What indexes are expected to tell of.
    expected: Expected,
    /// Its file, and the bytes of the records that have left it.
    moved: Option<(FileId, u64)>,
    /// Collected files that wait to be removed, with their barriers (GC3).
    retiring: BTreeMap<FileId, Seq>,
    /// Files of which runs are to be dropped.
    planned: BTreeMap<FileId, Planned>,
    /// Files that could not be collected, with the reason; left alone until somebody asks.
    refused: BTreeMap<FileId, Error>,
    /// What is known of how live the files are.
    samples: BTreeMap<FileId, Sample>,
    /// Log bytes appended when that was last looked at.
    looked_bytes: u64,
    /// Newest seq visible then.
    looked_seq: Seq,
    /// Index entries that name files removed since the index was last compacted for that.
    dangling: u64,
    /// Newest seq visible when the timer last looked.
    quiet_seq: Seq,
    /// Whether to look anew, however little was written since.
    look: bool,
    /// Somebody asked for all that is worth it, up to this file.
    asked: Option<FileId>,
    /// How often somebody asked.
    asks: u64,
    /// How often when the step in progress began: what it finds is no answer to what was asked
    /// later.
    asks_seen: u64,
}

impl Known {
    /// Asks for all that is worth it, up to this file or what others asked for. Returns which ask
    /// this is.
    fn ask(&mut self, newest: Option<FileId>) -> u64 {
        self.refused.clear();
        self.look = true;
        self.asked = newest.or(self.asked);
        self.asks += 1;
        self.asks
    }

    /// Nothing is left to be done of what was asked for by then.
    fn answer(&mut self, asks: u64) {
        if self.asks == asks {
            self.asked = None;
        }
    }
}

impl Collection {
    /// Collected files that wait to be removed, or for a part of them to be dropped.
    pub(crate) fn files_waiting(&self) -> u64 {
        let known = self.state.lock();
        (known.retiring.len() + known.planned.len()) as u64
    }

    /// Whether room that is there now may be spoken for.
    pub(crate) fn needs_room(&self) -> bool {
        self.state.lock().needs_room
    }

    /// Whether nothing has been written since the last call, but something since the last look:
    /// what was deleted last must not wait for the next write.
    pub(crate) fn is_quiet_since_last_look(&self, visible: Seq) -> bool {
        let mut known = self.state.lock();
        let is_quiet = known.quiet_seq == visible && known.looked_seq != visible;
        known.quiet_seq = visible;
        known.look |= is_quiet;
        is_quiet
    }

    /// Bytes of the records of a file that are still their keys' values, as far as is known where
    /// everything up to `flushed` is in the index.
    pub(crate) fn live_bytes(&self, entry: &TableEntry, flushed: Seq) -> u64 {
        let id = entry.file.id();
        let known = self.state.lock();
        if known.retiring.contains_key(&id) {
            return 0;
        }
        if let Some(planned) = known.planned.get(&id) {
            return planned.live_record_bytes;
        }
        let share = known.samples.get(&id).and_then(Sample::live_share);
        let moved = known.moved.filter(|(file, _)| *file == id).map_or(0, |(_, bytes)| bytes);
        live_record_bytes(entry, flushed, share).saturating_sub(moved)
    }

    /// So much garbage is allowed in all: what is not flushed may be a part of it, of which this
    /// share is taken to supersede others.
    fn bound_unflushed(&self, allowed_bytes: u64, superseding_share: f64, least: u64) {
        let bytes = (allowed_bytes / UNFLUSHED_PART) as f64 / superseding_share;
        self.unflushed_bytes_max.store((bytes as u64).max(least), Ordering::Release);
    }

    /// Log bytes that are not flushed at which a memtable is frozen.
    fn unflushed_bytes_max(&self) -> u64 {
        match self.unflushed_bytes_max.load(Ordering::Acquire) {
            0 => u64::MAX,
            bytes => bytes,
        }
    }

    /// From here on all is looked at as it is now.
    fn begin_step(&self) {
        let mut known = self.state.lock();
        known.asks_seen = known.asks;
    }

    /// The next look is to be a thorough one.
    pub(crate) fn look_anew(&self) {
        self.state.lock().look = true;
    }

    /// Gives up the collection in progress.
    pub(crate) fn forget(&self) {
        let mut known = self.state.lock();
        let (current, rewriting) = (known.current.take(), known.rewriting.take());
        drop(known);
        drop((current, rewriting));
    }

    /// Whether containers are being rewritten.
    #[cfg(test)]
    pub(crate) fn is_rewriting(&self) -> bool {
        self.state.lock().rewriting.is_some()
    }

    /// Files that are left alone.
    #[cfg(test)]
    pub(crate) fn refused_files(&self) -> Vec<FileId> {
        self.state.lock().refused.keys().copied().collect()
    }

    /// Files that wait to be removed or for a part of them to be, are being collected, or cannot
    /// be.
    fn taken(&self) -> Vec<FileId> {
        let known = self.state.lock();
        let current = known.current.as_ref().map(Collector::file);
        let waiting = known.retiring.keys().chain(known.planned.keys());
        let rewriting = known.rewriting.iter().flat_map(Rewriting::victims);
        waiting.chain(known.refused.keys()).copied().chain(current).chain(rewriting).collect()
    }
}

impl Engine {
    /// Whether there may be anything to collect: cheap.
    pub(crate) fn has_value_files(&self) -> bool {
        let view = self.view.load();
        let values = &view.values;
        values.iter().next().is_some()
            || values.containers().next().is_some()
            || values.large().next().is_some()
    }

    /// Does the most pressing piece of collection; false if nothing is due.
    pub(crate) fn collect_once(self: &Arc<Self>) -> Result<bool> {
        if self.cancelled.load(Ordering::Acquire) || !self.has_value_files() {
            return Ok(false);
        }
        self.health.check_writable()?;
        self.gc.begin_step();
        if !matches!(self.strategy.collection(), Collects::Index(_)) {
            return self.rewrite_once();
        }
        let current = self.gc.state.lock().current.take();
        if let Some(collector) = current {
            return self.go_on_collecting(collector).map(|()| true);
        }
        let mut has_worked = self.remove_dead_value_files()? | self.remove_collected()?;
        has_worked |= self.drop_dead_runs()?;
        let is_quiet = self.refresh_estimates()?;
        // Large values that were found dead just now.
        has_worked |= self.remove_collected()?;
        if is_quiet {
            let bytes_min = self.widths.value_segment_bytes / QUIET_PART;
            has_worked |= self.end_dead_tail(DeadTail { percent: 50, bytes_min })?;
        }
        has_worked |= self.succeed_dead_newest()?;
        let Some(victim) = self.pick_victim() else {
            return Ok(self.compact_dead_indexes()? || has_worked);
        };
        let collector = match self.punch_instead(victim) {
            Ok(Verdict::Settled) => return Ok(true),
            Ok(Verdict::Move) => self.begin_collection(victim),
            Err(error) => Err(error),
        };
        match collector {
            Ok(collector) => self.go_on_collecting(collector)?,
            Err(error) => self.settle_collection(victim, error)?,
        }
        Ok(true)
    }

    /// One step of a collection, and what follows if it is the last one.
    fn go_on_collecting(self: &Arc<Self>, mut collector: Collector) -> Result<()> {
        let id = collector.file();
        match collector.step(self) {
            Ok(None) => {
                let mut known = self.gc.state.lock();
                known.moved = Some((id, collector.moved_bytes()));
                known.current = Some(collector);
            }
            Ok(Some(barrier)) => {
                // The last one, perhaps, who has the file open.
                drop(collector);
                let mut known = self.gc.state.lock();
                known.moved = None;
                known.retiring.insert(id, barrier);
                drop(known);
                self.succeed_dead_newest()?;
                self.remove_collected()?;
            }
            Err(error) => self.settle_collection(id, error)?,
        }
        Ok(())
    }

    /// What a failed collection means: nothing is lost, the file stays. Only what concerns all is
    /// passed on; the file itself is left alone from here on.
    fn settle_collection(&self, victim: FileId, error: Error) -> Result<()> {
        let is_general = matches!(error.kind(), ErrorKind::Closed | ErrorKind::NoSpace);
        if is_general || self.health.is_stopped() {
            return Err(error);
        }
        if !self.is_in_force(victim) {
            // Housekeeping found all of it dead since it was picked: what was wanted is done.
            mark!("gc_victim_gone");
            self.gc.state.lock().moved = None;
            return Ok(());
        }
        mark!("gc_file_refused");
        tracing::warn!(file = %victim, %error, "a value file cannot be collected");
        self.metrics.collection.refused.fetch_add(1, Ordering::Relaxed);
        let mut known = self.gc.state.lock();
        known.refused.insert(victim, error);
        // A later look at the file finds by itself what has left it.
        known.moved = None;
        Ok(())
    }

    /// Whether a value file is still there to be collected.
    fn is_in_force(&self, id: FileId) -> bool {
        let view = self.view.load();
        view.values.get(id).is_some() || view.values.container(id).is_some()
    }

    /// The file to collect next.
    fn pick_victim(&self) -> Option<FileId> {
        self.ranked_victims().0.first().copied()
    }

    /// What to collect, the first one first, and the figures of all.
    fn ranked_victims(&self) -> (Vec<FileId>, Vec<FileFigures>) {
        let figures = self.value_file_figures();
        let limits = self.space_limits();
        let space = Space::of(&figures);
        let expected = self.unflushed_garbage();
        // A flush makes garbage of much at once: the bound holds if writers wait for that, too.
        self.pressure.set_value_garbage(space.expecting(expected).share(&limits));
        if let Some(share) = self.superseding_share() {
            let allowed = space.allowed_bytes(&limits);
            let least = self.widths.value_segment_bytes.max(self.widths.memtable_bytes);
            self.gc.bound_unflushed(allowed, share, least);
        }
        let Plan { urgency, mut victims, .. } = plan(&figures, &limits, expected, &*self.strategy);
        let asked = self.gc.state.lock().asked;
        if let Some(newest) = asked {
            victims = worthwhile(&figures, &limits, &*self.strategy);
            victims.retain(|&id| id <= newest);
        }
        if victims.is_empty() {
            let mut known = self.gc.state.lock();
            let seen = known.asks_seen;
            known.answer(seen);
        } else if urgency >= Urgency::Urgent {
            mark!("gc_urgent");
        }
        if self.reserve.is_given_up() {
            // What is left of the disk must not be spent on moving: only what frees much more.
            let is_cheap = |id: &FileId| {
                let file = figures.iter().find(|file| file.id == *id);
                file.is_some_and(|file| file.live_bytes.saturating_mul(4) <= file.file_bytes)
            };
            let is_free = self.snapshots.stripes().is_empty();
            victims.retain(|id| is_free && is_cheap(id));
        }
        (victims, figures)
    }

    /// How records are judged by what the index says.
    ///
    /// # Errors
    /// `InvalidArgument` where the strategy never asks it: garbage collection does not come here.
    pub(crate) fn asks_index(&self) -> Result<&dyn AsksIndex> {
        match self.strategy.collection() {
            Collects::Index(asks) => Ok(asks),
            Collects::Facts | Collects::Map => {
                let name = self.strategy.name();
                Err(Error::invalid(format!("strategy {name} asks no index about its records")))
            }
        }
    }

    /// What the user allows.
    pub(crate) fn space_limits(&self) -> SpaceLimits {
        SpaceLimits {
            amplification_max: self.settings.space_amplification_max,
            slack_bytes: SLACK_SEGMENTS * self.widths.value_segment_bytes,
        }
    }

    /// Figures of all value files, with what samples say.
    fn value_file_figures(&self) -> Vec<FileFigures> {
        let flushed = self.flushed();
        let taken = self.gc.taken();
        let view = self.view.load();
        let known = self.gc.state.lock();
        let figures = |entry: &TableEntry| {
            let id = entry.file.id();
            let share = known.samples.get(&id).and_then(Sample::live_share);
            let records = entry.state.sealed.map(|values| values.totals.records);
            let share = share.or_else(|| self.live_share_of([id], records?));
            let figures = FileFigures::of(entry, flushed, share, taken.contains(&id));
            self.with_mapped(figures, None)
        };
        let large = view
            .values
            .large()
            .map(|entry| FileFigures::of_large(entry, flushed, taken.contains(&entry.file.id())));
        let containers = view.values.containers().map(|entry| {
            let is_taken = taken.contains(&entry.container.id());
            let files = view.values.files_in(entry.container.id()).map(|file| file.id);
            let share = self.live_share_of(files, entry.totals.records);
            let figures = FileFigures::of_container(entry, &view.values, share, is_taken);
            self.with_mapped(figures, Some(entry.totals.record_bytes))
        });
        view.values.iter().map(figures).chain(containers).chain(large).collect()
    }

    /// Figures of a file, with what lives in it besides what index entries name.
    fn with_mapped(&self, figures: FileFigures, container_bytes: Option<u64>) -> FileFigures {
        let Some(mapping) = &self.mapping else { return figures };
        let Live { records, bytes } = mapping.live_in(figures.id);
        let kept = mapping.kept_in(figures.id, &self.snapshots.stripes());
        let records = records.max(0) as u64 + u64::from(kept > 0);
        let bytes = bytes.max(0) as u64 + kept;
        let figures = figures.with_mapped(records, bytes, container_bytes);
        FileFigures { is_dead: figures.is_dead && !self.is_mapped(figures.id), ..figures }
    }

    /// Whether the map has, or may have, records of a container: superseded ones that a snapshot
    /// needs are counted nowhere.
    pub(crate) fn is_mapped(&self, container: FileId) -> bool {
        let Some(mapping) = &self.mapping else { return false };
        mapping.names(container) || !self.snapshots.stripes().is_empty()
    }

    /// Records that index entries or the map name, and their bytes.
    pub(crate) fn named_records(&self, values: &ValueFiles) -> (u64, u64) {
        let (refs, ref_bytes) = values.all_refs();
        let live = self.mapping.as_ref().map(|mapping| mapping.live()).unwrap_or_default();
        (refs + live.records.max(0) as u64, ref_bytes + live.bytes.max(0) as u64)
    }

    /// The share of so many records of a container's files that flushes have not superseded, where
    /// there is a locator to say so.
    fn live_share_of(&self, files: impl IntoIterator<Item = FileId>, records: u64) -> Option<f64> {
        let locating = self.locating.as_ref()?;
        let superseded: u64 = files.into_iter().map(|file| locating.superseded_in(file)).sum();
        Some(records.saturating_sub(superseded) as f64 / records.max(1) as f64)
    }

    /// Removes the collected files that no snapshot needs any more (GC3); false if there is none.
    pub(crate) fn remove_collected(&self) -> Result<bool> {
        let removable = self.removable(&self.view.load().values);
        if removable.is_empty() {
            return Ok(false);
        }
        let view = self.view.load_full();
        let files = || removable.iter().filter_map(|&id| view.values.get(id));
        let large = || removable.iter().filter_map(|&id| view.values.get_large(id));
        let freed: u64 = files().map(|entry| entry.file.disk_bytes()).sum();
        let large_freed: u64 = large().filter_map(|e| e.info).map(|info| info.sealed.bytes).sum();
        let freed = freed + large_freed;
        // What names dropped runs was counted when these were dropped, as far as it is there still.
        let gone = |entry: &TableEntry| entry.punched.as_ref().map_or(0, |p| p.records);
        let dangling: u64 = files().map(|e| e.state.refs.saturating_sub(gone(e))).sum();
        let dangling = dangling + large().map(|entry| entry.refs).sum::<u64>();
        let edits: Vec<_> = removable.iter().map(|&id| ValuesEdit::Removed { id }).collect();
        // Housekeeping may come to the same conclusion at the same time.
        let is_unchanged = || self.removable(&self.view.load().values) == removable;
        let sections = vec![ValuesEdit::encode(&edits)];
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        if !self.commit_draft(draft, |_| Ok(Publication::default()))? {
            return Ok(false);
        }
        mark!("gc_file_removed");
        let mut known = self.gc.state.lock();
        known.dangling += dangling;
        for id in &removable {
            known.retiring.remove(id);
            known.samples.remove(id);
        }
        drop(known);
        self.metrics.collection.removed(removable.len() as u64, freed);
        tracing::info!(files = removable.len(), bytes = freed, "collected value files removed");
        Ok(true)
    }

    /// Collected files that may go.
    fn removable(&self, values: &ValueFiles) -> Vec<FileId> {
        let snapshots = self.snapshots.stripes();
        let newest = values.iter().next_back().map(|entry| entry.file.id());
        let mut known = self.gc.state.lock();
        // Compaction may have found that nothing names them before they could be removed here.
        let is_there = |id| values.get(id).is_some() || values.get_large(id).is_some();
        known.retiring.retain(|&id, _| is_there(id));
        let is_free = |id: FileId, barrier: Seq| {
            let sealed = values.get(id).and_then(|entry| entry.state.sealed);
            let large = values.get_large(id).and_then(|entry| entry.info);
            let oldest_record = sealed.map(|values| values.totals.smallest_seq);
            let oldest_record = oldest_record.or(large.map(|info| info.seq)).unwrap_or(0);
            if is_seen(oldest_record, barrier, &snapshots) {
                mark!("gc_waited_for_snapshot");
                return planted!("gc_ignores_snapshots");
            }
            if snapshots.first().is_some_and(|&oldest| oldest < oldest_record) {
                mark!("gc_snapshot_older_than_file");
            }
            true
        };
        let is_free =
            |&(&id, &barrier): &(&FileId, &Seq)| Some(id) != newest && is_free(id, barrier);
        known.retiring.iter().filter(is_free).map(|(&id, _)| id).collect()
    }

    /// Begins a file after the newest one where that one waits for its removal (GC4).
    fn succeed_dead_newest(self: &Arc<Self>) -> Result<bool> {
        let is_waiting = {
            let view = self.view.load();
            let Some(newest) = view.values.iter().next_back() else { return Ok(false) };
            let holds = newest.state.sealed.is_some_and(|values| values.totals.records > 0);
            let is_collected = self.gc.state.lock().retiring.contains_key(&newest.file.id());
            let is_dead = newest.state.is_dead(self.flushed()) && !self.is_mapped(newest.file.id());
            holds && (is_collected || is_dead)
        };
        if !is_waiting || self.value_lane.is_open() || self.reserve.is_given_up() {
            return Ok(false);
        }
        mark!("gc_newest_file_succeeded");
        self.commit(Work::control(Task::RollValues))?;
        self.remove_dead_value_files()?;
        Ok(true)
    }
}

/// Whether one of these snapshots may see a record of a file (GC3): all of them are from
/// `oldest_record` on, and all were superseded or put again up to `barrier`.
fn is_seen(oldest_record: Seq, barrier: Seq, snapshots: &[Seq]) -> bool {
    snapshots.iter().any(|&snapshot| oldest_record <= snapshot && snapshot < barrier)
}
