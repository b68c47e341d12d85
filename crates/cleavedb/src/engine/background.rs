//! The scheduler of flushes, compactions and housekeeping.
//!
//! Invariants: B1 at most one flush runs, so memtables become tables in order. B2 a failed step
//! reaches the next caller: running out of space is retried when room is made, anything else stops
//! writes (promises P6, P7). B3 nobody blocks on work that cannot come: every wait re-checks health
//! and, under the stepper, runs steps itself.

mod compactions;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Condvar, Mutex};
use crate::engine::Engine;
use crate::io::executor::Priority;

/// Steps that met a full disk and wait until somebody tries again.
#[derive(Default)]
struct FullDisk {
    flush: Option<Error>,
    compaction: Option<Error>,
}

impl FullDisk {
    fn error(&self) -> Option<&Error> {
        self.flush.as_ref().or(self.compaction.as_ref())
    }
}

#[derive(Default)]
struct Running {
    flushing: bool,
    compactions: usize,
    /// Those of them that have begun, in that order, and what they have picked something of.
    compacting: BTreeMap<u64, Option<KeyspaceId>>,
    /// Compactions that ever began.
    compactions_begun: u64,
    /// Callers that wait until background work is done: it need not stand back for them.
    waiters: usize,
    /// Work may have become due while all places for compactions were taken, perhaps by steps
    /// that had looked already: the next one to end without work looks again.
    asked: bool,
    /// Steps that are done but have not queued yet what is due after them.
    settling: usize,
    /// Housekeeping is queued.
    housekeeping: bool,
    /// Housekeeping that runs.
    keeping_house: usize,
    /// A value file is being collected, or it is found out whether one is to be.
    collecting: bool,
    /// Operands are being applied to their values.
    folding: bool,
    /// Collection may have become due since then.
    collection_asked: bool,
    /// The disk was full when a step last ran; it is tried again when room is made.
    full: FullDisk,
    /// Counts changes, so that waiters notice each.
    changes: u64,
}

impl Running {
    /// The full disk that keeps background work from getting any further.
    fn hopeless(&self) -> Option<Error> {
        let works = self.flushing || self.collecting || self.folding;
        let idle = !works && self.compactions == 0;
        self.full.error().filter(|_| idle).cloned()
    }
}

/// What a failed step leaves behind.
#[derive(Default)]
struct Settled {
    /// Room was made: the step is worth repeating.
    again: bool,
    /// The full disk that it met.
    full: Option<Error>,
}

/// What runs in the background.
#[derive(Default)]
pub(crate) struct Background {
    running: Mutex<Running>,
    changed: Condvar,
}

/// Times that whoever waits lets steps try again that met a full disk.
const FULL_DISK_RETRIES: usize = 3;

/// Longest sleep between two looks at a condition that a lost wake-up might have hidden.
const RECHECK: Duration = Duration::from_millis(50);

impl Engine {
    /// Queues whatever work is due and not running.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if self.settings.read_only || self.health.is_closed() || self.health.is_stopped() {
            return;
        }
        let flush_due = !self.view.load().frozen.is_empty() || self.is_collection_due();
        let mut running = self.background.running.lock();
        if flush_due && !running.flushing && running.full.flush.is_none() {
            running.flushing = true;
            let engine = Arc::clone(self);
            self.io.executor.submit(Priority::Flush, Box::new(move || engine.flush_step()));
        }
        self.schedule_collection(&mut running);
        self.schedule_folding(&mut running);
        self.schedule_compactions(&mut running);
    }

    /// Queues collection of value files, one at a time.
    fn schedule_collection(self: &Arc<Self>, running: &mut Running) {
        if !self.has_value_files() {
            return;
        }
        if running.collecting {
            running.collection_asked = true;
            return;
        }
        running.collecting = true;
        let engine = Arc::clone(self);
        self.io.executor.submit(Priority::Compaction, Box::new(move || engine.collection_step()));
    }

    /// Queues folds of deltas, one step at a time.
    fn schedule_folding(self: &Arc<Self>, running: &mut Running) {
        if running.folding || running.full.error().is_some() || !self.deltas.is_fold_due() {
            return;
        }
        running.folding = true;
        let engine = Arc::clone(self);
        self.io.executor.submit(Priority::Compaction, Box::new(move || engine.folding_step()));
    }

    fn folding_step(self: Arc<Self>) {
        let outcome = self.fold_some();
        // On a full disk it waits for room: that is nobody's failure (B2).
        let settled = self.settle(outcome.as_ref().err());
        let goes_on = outcome.is_ok() || settled.again;
        self.finished(|running| {
            running.folding = false;
            running.settling += usize::from(goes_on);
        });
        if goes_on {
            self.go_on();
        }
    }

    fn collection_step(self: Arc<Self>) {
        self.remove_obsolete_if_full();
        // This step sees what was asked for up to here.
        self.background.running.lock().collection_asked = false;
        let outcome = self.collect_once();
        // It waits for room: that is nobody's failure but its own (B2).
        let mut goes_on = match &outcome {
            Ok(has_worked) => *has_worked,
            Err(error) => self.settle(Some(error)).again,
        };
        self.finished(|running| {
            running.collecting = false;
            goes_on |= std::mem::take(&mut running.collection_asked);
            running.settling += usize::from(goes_on);
        });
        if goes_on {
            self.go_on();
        }
    }

    /// Whether a value file is being collected.
    pub(crate) fn is_collecting(&self) -> bool {
        self.background.running.lock().collecting
    }

    /// Queues housekeeping, unless it is queued already.
    pub(crate) fn schedule_housekeeping(self: &Arc<Self>) {
        let mut running = self.background.running.lock();
        if running.housekeeping || self.settings.read_only || self.health.is_closed() {
            return;
        }
        running.housekeeping = true;
        let engine = Arc::clone(self);
        self.io.executor.submit(Priority::Housekeeping, Box::new(move || engine.keep_house()));
    }

    fn flush_step(self: Arc<Self>) {
        self.remove_obsolete_if_full();
        let flushed = self.make_room_for_flush().and_then(|()| self.flush_oldest());
        let outcome = match flushed {
            Ok(false) => self.collect_buckets(),
            outcome => outcome,
        };
        let settled = self.settle(outcome.as_ref().err());
        let goes_on = outcome.is_ok() || settled.again;
        self.finished(|running| {
            running.flushing = false;
            running.full.flush = settled.full;
            running.settling += usize::from(goes_on);
        });
        self.refresh_backlog();
        if goes_on {
            self.go_on();
        }
    }

    /// Queues what a finished step has made due; only then may anybody think that all is quiet.
    fn go_on(self: &Arc<Self>) {
        self.schedule();
        self.schedule_housekeeping();
        self.finished(|running| running.settling -= 1);
    }

    /// Stops all writes for good, and tells whoever waits for work that will not come (B3).
    pub(crate) fn stop(&self, cause: &Error) {
        self.health.stop(cause);
        self.finished(|_| {});
    }

    /// Refuses all calls from here on, and tells whoever waits for work that will not come (B3).
    pub(crate) fn refuse_calls(&self) {
        self.health.close();
        self.finished(|_| {});
    }

    fn finished(&self, change: impl FnOnce(&mut Running)) {
        let mut running = self.background.running.lock();
        change(&mut running);
        running.changes += 1;
        self.background.changed.notify_all();
    }

    /// What a step's error means (B2). A full disk is the caller's to file, together with the end
    /// of its step: whoever clears it then and asks anew must not find the step still running.
    fn settle(&self, error: Option<&Error>) -> Settled {
        let mut settled = Settled::default();
        let Some(error) = error else { return settled };
        match error.kind() {
            ErrorKind::Closed => {}
            ErrorKind::NoSpace if !self.health.is_stopped() => {
                mark!("background_out_of_space");
                // What the step wrote before it failed takes room, too.
                self.remove_obsolete();
                settled.again = self.note_full_disk(error);
                settled.full = (!settled.again).then(|| error.clone());
            }
            _ => self.stop(error),
        }
        settled
    }

    /// Removes obsolete files, syncs what waits, balances memory, retries what ran out of space.
    pub(crate) fn keep_house(self: Arc<Self>) {
        self.finished(|running| {
            running.housekeeping = false;
            running.keeping_house += 1;
        });
        if !self.health.is_closed() {
            self.keep_house_open();
        }
        self.finished(|running| running.keeping_house -= 1);
    }

    fn keep_house_open(self: &Arc<Self>) {
        if !self.health.is_stopped() {
            let removed = self.remove_dead_value_files().and_then(|_| self.remove_collected());
            let removed = removed.and_then(|_| self.drop_dead_runs());
            if let Err(error) = removed {
                tracing::warn!(%error, "value files that nobody needs stay");
            }
            self.spill_facts();
        }
        self.remove_obsolete();
        self.deltas.trim();
        self.balance_memory();
        self.order_scattered();
        if !self.health.is_stopped() {
            if self.logs.has_unsynced() && !self.settings.sync_interval.is_zero() {
                // A failure has stopped the database already; the next writer is told.
                let _ = self.sync_logs();
            }
            self.retry_after_full_disk();
        }
    }

    /// Whether a step met a full disk and waits for room.
    pub(crate) fn is_out_of_space(&self) -> bool {
        self.background.running.lock().full.error().is_some()
    }

    /// Lets steps run again that met a full disk, if there is room now.
    pub(crate) fn retry_after_full_disk(self: &Arc<Self>) {
        self.remove_obsolete();
        if (self.is_out_of_space() || self.reserve.is_given_up()) && self.restore_reserve() {
            self.forget_full_disk();
            self.schedule();
        }
    }

    /// Lets steps that met a full disk run again, room or not: whoever waits is told anew.
    pub(crate) fn forget_full_disk(&self) {
        self.background.running.lock().full = FullDisk::default();
    }

    fn remove_obsolete_if_full(&self) {
        if self.reserve.is_given_up() {
            self.remove_obsolete();
        }
    }

    /// Unlinks files that no edit names and no view pins, and gives back such runs of others.
    pub(crate) fn remove_obsolete(&self) {
        let obsolete = self.obsolete.take();
        if self.health.is_stopped() {
            // An edit whose outcome is unknown may name them after all. The next open decides: it
            // removes what the manifest does not name. (The stop comes before the queueing.)
            return;
        }
        self.give_back_runs();
        for (kind, id) in obsolete {
            if kind == FileKind::Table {
                self.tables.evict(id);
            }
            let path = self.dir.join(file_name(kind, id));
            if let Err(cause) = self.io.disk.remove_file(&path)
                && cause.kind() != std::io::ErrorKind::NotFound
            {
                // Not lost: the next open removes what the manifest does not name.
                tracing::warn!(file = %path.display(), error = %cause, "obsolete file stays");
            }
        }
    }

    /// Waits until `done` or the timeout (kind `Timeout`). No lock may be held.
    pub(crate) fn wait_background(
        self: &Arc<Self>,
        timeout: Option<Duration>,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let start = self.io.clock.now();
        loop {
            let changes = self.background.running.lock().changes;
            if done()? {
                return Ok(());
            }
            // Others that still run may make the room that a step lacked.
            if let Some(error) = self.background.running.lock().hopeless() {
                return Err(error);
            }
            if timeout.is_some_and(|limit| self.io.clock.now().saturating_sub(start) >= limit) {
                return Err(Error::new(ErrorKind::Timeout, "background work took too long"));
            }
            if self.io.executor.is_stepper() {
                if !self.io.executor.help() && !done()? {
                    let message = "background work is due but none is queued";
                    return Err(Error::new(ErrorKind::Stopped, message));
                }
                continue;
            }
            let mut running = self.background.running.lock();
            if running.changes == changes {
                self.background.changed.wait_for(&mut running, RECHECK);
            }
        }
    }

    /// As [`Engine::wait_background`], but lets steps that met a full disk try again some times:
    /// what they had written is gone by then, and one of them may have left the others no room.
    pub(crate) fn wait_with_retries(
        self: &Arc<Self>,
        timeout: Option<Duration>,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.background.running.lock().waiters += 1;
        let mut outcome = self.wait_background(timeout, &mut done);
        for _ in 0..FULL_DISK_RETRIES {
            match &outcome {
                Err(error) if error.kind() == ErrorKind::NoSpace => {
                    self.remove_obsolete();
                    self.forget_full_disk();
                    self.schedule();
                    outcome = self.wait_background(timeout, &mut done);
                }
                _ => break,
            }
        }
        self.background.running.lock().waiters -= 1;
        outcome
    }

    /// Whether nothing runs and no flush is due.
    fn is_quiet(&self) -> bool {
        let running = self.background.running.lock();
        !running.flushing
            && running.compactions == 0
            && !running.collecting
            && !running.folding
            && running.settling == 0
            && self.view.load().frozen.is_empty()
    }

    /// Gives back the room that work which is done has made free, and waits for who is at that.
    fn make_tidy(self: &Arc<Self>) {
        self.remove_obsolete();
        // Room is what this is about: that there is none on the disk is nothing to tell.
        let _ = self.wait_background(None, || {
            self.health.check_writable()?;
            Ok(self.background.running.lock().keeping_house == 0)
        });
    }

    /// Writes all memtables out and waits.
    pub(crate) fn flush_all(self: &Arc<Self>) -> Result<()> {
        self.health.check_writable()?;
        self.commit(crate::engine::commit::Work::control(crate::engine::commit::Task::Freeze))?;
        let target = self.last_frozen();
        self.retry_after_full_disk();
        self.forget_full_disk();
        self.schedule();
        self.wait_with_retries(None, || {
            self.health.check_writable()?;
            Ok(self.flushed.load(Ordering::Acquire) >= target)
        })
    }

    /// Last seq that is frozen or flushed.
    pub(crate) fn last_frozen(&self) -> Seq {
        let view = self.view.load();
        let flushed = self.flushed.load(Ordering::Acquire);
        view.frozen.first().map_or(flushed, |frozen| frozen.last_seq)
    }

    /// Waits until no background work is due, and what it made superfluous is gone.
    pub(crate) fn wait_idle(self: &Arc<Self>) -> Result<()> {
        self.gc.look_anew();
        self.note_quiet();
        self.order_scattered();
        self.schedule();
        self.wait_with_retries(None, || {
            self.health.check_writable()?;
            Ok(self.is_quiet())
        })?;
        self.make_tidy();
        Ok(())
    }
}
