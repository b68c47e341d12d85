//! Compactions: which one runs, on which kind of worker, and how it becomes part of the database.

use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::background::Running;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::metrics::Operation;
use crate::engine::relocate::Relocations;
use crate::engine::state::{Draft, Publication};
use crate::index::{IndexJob, JobContext, KeyRange, OrderedIndex};
use crate::io::executor::Priority;

/// A compaction that was chosen, and has what it reads for itself.
struct Picked {
    keyspace: Arc<KeyspaceState>,
    job: Box<dyn IndexJob>,
}

/// Jobs that give room back before one flush: some more than what it takes, mostly.
const FLUSH_RECLAIMS_MAX: usize = 8;

impl Engine {
    /// Queues compactions, as many as may run at once; each finds out whether there is any to do.
    pub(super) fn schedule_compactions(self: &Arc<Self>, running: &mut Running) {
        running.asked |= running.compactions >= self.io.executor.parallelism();
        while running.compactions < self.io.executor.parallelism()
            && running.full.compaction.is_none()
        {
            running.compactions += 1;
            let engine = Arc::clone(self);
            self.io
                .executor
                .submit(Priority::Compaction, Box::new(move || engine.compaction_step()));
        }
    }

    fn compaction_step(self: Arc<Self>) {
        self.remove_obsolete_if_full();
        let number = {
            let mut running = self.background.running.lock();
            // This step sees what was asked for up to here.
            running.asked = false;
            running.compactions_begun += 1;
            let number = running.compactions_begun;
            running.compacting.insert(number, None);
            number
        };
        let picked = match self.next_compaction() {
            Ok(Some(picked)) => picked,
            Ok(None) => return self.end_compaction_step(number, Ok(false)),
            Err(error) => return self.end_compaction_step(number, Err(error)),
        };
        let is_awaited = picked.job.is_awaited() || self.waits_for_compaction();
        let is_awaited = {
            let mut running = self.background.running.lock();
            running.compacting.insert(number, Some(picked.keyspace.id));
            is_awaited || running.waiters > 0
        };
        let run = move |engine: Arc<Self>| {
            let outcome = engine.compact(picked);
            engine.end_compaction_step(number, outcome.map(|()| true));
        };
        if is_awaited {
            mark!("compaction_awaited");
            let engine = Arc::clone(&self);
            self.io.executor.submit(Priority::Awaited, Box::new(move || run(engine)));
        } else {
            run(self);
        }
    }

    /// What follows from a step that has compacted something, has found nothing to do, or failed.
    fn end_compaction_step(self: &Arc<Self>, number: u64, outcome: Result<bool>) {
        let settled = self.settle(outcome.as_ref().err());
        let has_worked = matches!(outcome, Ok(true)) || settled.again;
        let mut goes_on = has_worked;
        self.finished(|running| {
            running.compactions -= 1;
            running.compacting.remove(&number);
            running.full.compaction = settled.full.or(running.full.compaction.take());
            goes_on |= std::mem::take(&mut running.asked);
            running.settling += usize::from(goes_on);
        });
        if has_worked {
            // What was merged takes less room, perhaps enough less for others.
            self.forget_full_disk();
            self.refresh_backlog();
        }
        if goes_on {
            self.go_on();
        }
    }

    /// Waits for compactions of a keyspace that have begun: what they replaced stays until then.
    fn wait_for_compacting(self: &Arc<Self>, keyspace: KeyspaceId) -> Result<()> {
        let begun = self.background.running.lock().compactions_begun;
        self.wait_with_retries(None, || {
            self.health.check_writable()?;
            let running = self.background.running.lock();
            let mut before = running.compacting.range(..=begun);
            Ok(before.all(|(_, of)| of.is_some_and(|of| of != keyspace)))
        })
    }

    /// The most urgent compaction of any keyspace, if one is due.
    fn next_compaction(&self) -> Result<Option<Picked>> {
        if self.cancelled.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.health.check_writable()?;
        Ok(self.most_urgent(|index| index.pick_job()))
    }

    fn most_urgent(
        &self,
        pick: impl Fn(&dyn OrderedIndex) -> Option<Box<dyn IndexJob>>,
    ) -> Option<Picked> {
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        let mut best: Option<Picked> = None;
        for keyspace in keyspaces {
            let Some(job) = pick(&*keyspace.index) else { continue };
            if best.as_ref().is_none_or(|other| job.score() > other.job.score()) {
                best = Some(Picked { keyspace, job });
            }
        }
        best
    }

    /// Has indexes give room back before a flush takes some, while the disk is full. Where that
    /// lacks room itself, or nothing is to be got, the flush has to do with what there is.
    pub(super) fn make_room_for_flush(self: &Arc<Self>) -> Result<()> {
        for _ in 0..FLUSH_RECLAIMS_MAX {
            if !self.reserve.is_given_up() || self.cancelled.load(Ordering::Acquire) {
                break;
            }
            let Some(picked) = self.most_urgent(|index| index.pick_reclaim()) else { break };
            mark!("room_made_for_flush");
            let outcome = self.compact(picked);
            self.remove_obsolete();
            match outcome {
                Err(error) if error.kind() == ErrorKind::NoSpace => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Runs a compaction and makes it part of the database.
    fn compact(self: &Arc<Self>, mut picked: Picked) -> Result<()> {
        self.health.check_writable()?;
        let running = self.metrics.compactions_running.fetch_add(1, Ordering::Relaxed) + 1;
        self.metrics.compactions_running_max.fetch_max(running, Ordering::Relaxed);
        let start = self.io.clock.now();
        let outcome = self.run_compaction(&picked.keyspace, picked.job.as_mut());
        self.metrics.compactions_running.fetch_sub(1, Ordering::Relaxed);
        outcome?;
        let took = self.io.clock.now().saturating_sub(start);
        self.metrics.record(Operation::Compaction, took);
        self.metrics.compactions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn run_compaction(&self, keyspace: &Arc<KeyspaceState>, job: &mut dyn IndexJob) -> Result<()> {
        let stripes = self.snapshots.stripes();
        if !stripes.is_empty() {
            mark!("compaction_with_snapshot");
        }
        // Only then: it pins all value files, and a full disk found by others is no matter of it.
        let orders = job.orders();
        let relocations = orders.then(|| self.begin_relocations(keyspace)).flatten();
        let outcome = self.compact_with(keyspace, job, stripes, relocations.as_ref());
        if let Some(relocations) = relocations {
            self.end_relocations(relocations, &outcome);
        }
        outcome.map(|_| ())
    }

    /// Runs the job and commits what it prepared; false where the keyspace was dropped meanwhile,
    /// and nothing of values is in the edit.
    fn compact_with(
        &self,
        keyspace: &Arc<KeyspaceState>,
        job: &mut dyn IndexJob,
        stripes: Vec<Seq>,
        relocations: Option<&Arc<Relocations>>,
    ) -> Result<bool> {
        let touching = self.touching_of_compaction(&stripes);
        // All that a compaction meets is in the index.
        let listeners = self.entry_listeners(SEQ_MAX, touching.clone());
        let context = JobContext {
            stripes,
            listeners: Arc::new(listeners.relocating(relocations.cloned())),
            cancelled: Arc::clone(&self.cancelled),
        };
        let prepared = job.run(&context)?;
        let report = prepared.report;
        let change = prepared.change;
        let mut draft = Draft::default();
        draft.add(keyspace, prepared.sections);
        if let Some(touching) = &touching {
            draft.sections.extend(touching.sections(&self.view.load().values));
        }
        draft.sections.extend(relocations.and_then(|relocations| relocations.before_edit()));
        let mut is_there = true;
        self.commit_draft(draft, |_| {
            keyspace.index.install(change)?;
            let mut publication = Publication::default();
            if keyspace.dropped.load(Ordering::Acquire) {
                is_there = false;
                keyspace.index.retire();
            } else {
                publication.indexes.push((keyspace.id, Some(keyspace.index.view())));
            }
            Ok(publication)
        })?;
        if let Some(touching) = touching {
            touching.publish(&self.view.load().values);
        }
        tracing::info!(
            keyspace = keyspace.name,
            kind = report.kind,
            reason = report.reason,
            from = report.levels.0,
            to = report.levels.1,
            parts = report.parts,
            bytes_read = report.bytes_read,
            bytes_written = report.bytes_written,
            entries_in = report.entries_in,
            entries_out = report.entries_out,
            "compaction"
        );
        Ok(is_there)
    }

    /// Compacts a range of a keyspace to the bottom and waits.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        keyspace: &Arc<KeyspaceState>,
        range: KeyRange,
    ) -> Result<()> {
        self.check_readable(keyspace)?;
        self.flush_all()?;
        let of_buckets = keyspace.has_buckets().then_some(&self.deltas);
        let of_buckets =
            of_buckets.map(|deltas| (deltas, deltas.request_collection(keyspace.id, &range)));
        let orders = self.orders_values(keyspace);
        self.scattered.found_full.store(false, Ordering::Release);
        let ticket = keyspace.index.request_compaction(range, orders);
        self.schedule();
        self.wait_with_retries(None, || {
            self.health.check_writable()?;
            keyspace.check_exists()?;
            let is_collected = of_buckets.is_none_or(|(deltas, of)| deltas.is_collected(of));
            Ok(is_collected && keyspace.index.compaction_done(ticket))
        })?;
        self.wait_for_compacting(keyspace.id)?;
        self.schedule_housekeeping();
        self.make_tidy();
        Ok(())
    }
}
