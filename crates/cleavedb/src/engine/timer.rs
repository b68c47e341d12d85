//! The background sync's clock: one thread that sleeps for the sync interval and queues
//! housekeeping, so that a buffered write waits no longer than that for its sync; and background
//! work that reads, not writes, or the time that has passed have made due.

use crate::base::error::{Error, Result};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Condvar, Mutex, thread};
use crate::engine::Engine;

/// The running thread and how to stop it.
pub(crate) struct Timer {
    stop: Arc<Stop>,
    thread: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    signal: Condvar,
}

impl Engine {
    /// Starts the timer, where there is an interval and no stepper.
    pub(crate) fn start_timer(self: &Arc<Self>) -> Result<()> {
        let interval = self.settings.sync_interval;
        if interval.is_zero() || self.io.executor.is_stepper() {
            return Ok(());
        }
        let stop = Arc::new(Stop::default());
        let engine = Arc::clone(self);
        let signal = Arc::clone(&stop);
        let run = move || {
            let mut seen = engine.visible.load(Ordering::Acquire);
            let mut stopped = signal.stopped.lock();
            while !*stopped {
                signal.signal.wait_for(&mut stopped, interval);
                if !*stopped && engine.needs_housekeeping() {
                    engine.schedule_housekeeping();
                }
                let visible = engine.visible.load(Ordering::Acquire);
                let is_quiet = engine.gc.is_quiet_since_last_look(visible);
                let is_due =
                    std::mem::replace(&mut seen, visible) == visible && engine.note_quiet();
                let is_late = engine.note_time();
                if !*stopped && (is_quiet || is_due || is_late || engine.reads_want_work()) {
                    engine.schedule();
                }
            }
        };
        let thread = thread::spawn("cleavedb-timer", run)
            .map_err(|cause| Error::io("starting the timer", &self.dir, cause))?;
        *self.timer.lock() = Some(Timer { stop, thread });
        Ok(())
    }

    fn needs_housekeeping(&self) -> bool {
        self.logs.has_unsynced()
            || !self.obsolete.is_empty()
            || self.gc.files_waiting() > 0
            || self.reserve.is_given_up()
            || self.is_out_of_space()
    }

    /// Whether reads have left something to do, to an index or a fold, or a snapshot that is gone
    /// to a bucket: no write tells of it.
    fn reads_want_work(&self) -> bool {
        if self.deltas.is_fold_due() || self.is_collection_due() {
            return true;
        }
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        keyspaces.iter().any(|keyspace| keyspace.index.reads_want_work())
    }

    /// Tells every index what the clock says; whether one has something to do for it.
    pub(crate) fn note_time(&self) -> bool {
        let now = self.io.clock.now();
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        keyspaces.iter().fold(false, |is_due, keyspace| keyspace.index.note_time(now) | is_due)
    }

    /// Tells every index that nobody writes; whether one has something to do.
    pub(crate) fn note_quiet(&self) -> bool {
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        keyspaces.iter().fold(false, |is_due, keyspace| keyspace.index.note_quiet() | is_due)
    }

    /// Stops the timer and waits for it.
    pub(crate) fn stop_timer(&self) {
        let Some(timer) = self.timer.lock().take() else { return };
        *timer.stop.stopped.lock() = true;
        timer.stop.signal.notify_all();
        // The thread only queues work; a panic there has been reported by the panic hook.
        let _ = timer.thread.join();
    }
}
