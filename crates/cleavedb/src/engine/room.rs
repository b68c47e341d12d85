//! Room for writers: paces or stops them while background work lags behind.

use std::time::Duration;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::engine::Engine;
use crate::engine::pacing::{DELAY_MAX, Pace, Pressure, Reason, pace};

/// Shortest sleep. Systems sleep 50 us and more however little is asked for, and a write's delay is
/// often far below one: slept singly, such delays would hold writers back hundreds of times as much
/// as was decided. Longer ones, fewer, would be felt more.
const SLEEP_MIN: Duration = Duration::from_micros(250);

/// The pressure of this moment, readable without a lock on every write.
#[derive(Debug, Default)]
pub(crate) struct PressureGauge {
    frozen: AtomicUsize,
    level0_runs: AtomicUsize,
    pending_bytes: AtomicU64,
    /// Garbage in value files, in percent of what is allowed.
    value_garbage: AtomicU64,
    /// Nanoseconds of delay that writers owe and nobody has slept yet; below zero where sleeps
    /// took longer than was asked for.
    owed_nanos: AtomicI64,
}

impl PressureGauge {
    /// Takes in a writer's delay. What it has to sleep now, if that is worth a sleep: what writers
    /// before it still owed with it.
    fn owe(&self, delay: Duration) -> Option<Duration> {
        let nanos = delay.as_nanos() as i64;
        let owed = self.owed_nanos.fetch_add(nanos, Ordering::Relaxed) + nanos;
        if owed < SLEEP_MIN.as_nanos() as i64 {
            return None;
        }
        // Another writer may have taken it meanwhile.
        let owed = self.owed_nanos.swap(0, Ordering::Relaxed);
        let due = owed.clamp(0, DELAY_MAX.as_nanos() as i64);
        if owed != due {
            self.owed_nanos.fetch_add(owed - due, Ordering::Relaxed);
        }
        Some(Duration::from_nanos(due as u64)).filter(|due| !due.is_zero())
    }

    /// A sleep has taken so much longer than was due. A machine that was asleep itself gives away
    /// no more than one delay, however many writers slept.
    fn overslept(&self, excess: Duration) {
        let most = DELAY_MAX.as_nanos() as i64;
        let excess = excess.min(DELAY_MAX).as_nanos() as i64;
        let lowered = |owed: i64| Some((owed - excess).max(-most).min(owed));
        let relaxed = Ordering::Relaxed;
        // Never fails: there is always a new value.
        let _ = self.owed_nanos.fetch_update(relaxed, relaxed, lowered);
    }

    /// Notes the garbage in value files, as a share of what is allowed.
    pub(crate) fn set_value_garbage(&self, share: f64) {
        self.value_garbage.store((share * 100.0) as u64, Ordering::Relaxed);
    }

    /// Garbage in value files, in percent of what is allowed, as noted last.
    #[cfg(test)]
    pub(crate) fn value_garbage(&self) -> u64 {
        self.value_garbage.load(Ordering::Relaxed)
    }

    fn read(&self) -> Pressure {
        Pressure {
            frozen: self.frozen.load(Ordering::Relaxed),
            level0_runs: self.level0_runs.load(Ordering::Relaxed),
            pending_bytes: self.pending_bytes.load(Ordering::Relaxed),
            value_garbage: self.value_garbage.load(Ordering::Relaxed),
        }
    }
}

impl Engine {
    /// Takes the gauge's reading anew; called whenever memtables or indexes change.
    pub(crate) fn refresh_pressure(&self) {
        self.pressure.frozen.store(self.view.load().frozen.len(), Ordering::Relaxed);
    }

    /// Takes the reading of the indexes anew; not under any index's lock.
    pub(crate) fn refresh_backlog(&self) {
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        let backlogs: Vec<_> = keyspaces.iter().map(|k| k.index.backlog()).collect();
        let runs = backlogs.iter().map(|b| b.level0_runs).max().unwrap_or(0);
        let pending = backlogs.iter().map(|b| b.pending_bytes).sum();
        self.pressure.level0_runs.store(runs, Ordering::Relaxed);
        self.pressure.pending_bytes.store(pending, Ordering::Relaxed);
    }

    /// Waits, if need be, until a write of `bytes` may go on. No lock may be held.
    ///
    /// Writers stop when the active memtable is full and no more may be frozen; the leader lets
    /// the active one grow beyond its size only by what was already on its way.
    pub(crate) fn make_room(self: &Arc<Self>, bytes: u64) -> Result<()> {
        match self.pace_now(bytes) {
            Pace::Free => Ok(()),
            Pace::Delay(delay, reason) => {
                if let Some(due) = self.pressure.owe(delay) {
                    let start = self.io.clock.now();
                    self.io.clock.sleep(due);
                    let slept = self.io.clock.now().saturating_sub(start);
                    self.pressure.overslept(slept.saturating_sub(due));
                    self.metrics.stalled(reason, slept);
                }
                Ok(())
            }
            Pace::Stop(reason) => self.wait_for_room(reason, bytes),
        }
    }

    /// What the pressure of this moment means for a write of `bytes`.
    fn pace_now(&self, bytes: u64) -> Pace {
        let mut pressure = self.pressure.read();
        let full = pressure.frozen >= self.widths.frozen_memtables_max
            && self.view.load().active.memory_bytes() >= self.widths.memtable_bytes;
        pressure.frozen += usize::from(full);
        pace(pressure, bytes, &self.widths)
    }

    /// Whether writers wait for a flush, or are about to: no more memtables may be frozen.
    pub(crate) fn is_room_scarce(&self) -> bool {
        self.pressure.read().frozen >= self.widths.frozen_memtables_max
    }

    /// Whether writers are held back, or stopped, for what compaction has not done yet.
    pub(crate) fn waits_for_compaction(&self) -> bool {
        matches!(
            pace(self.pressure.read(), 1, &self.widths),
            Pace::Delay(_, Reason::Level0 | Reason::Compaction)
                | Pace::Stop(Reason::Level0 | Reason::Compaction)
        )
    }

    fn wait_for_room(self: &Arc<Self>, reason: Reason, bytes: u64) -> Result<()> {
        mark!("writer_stopped");
        let start = self.io.clock.now();
        tracing::warn!(reason = reason.name(), "writers wait for background work");
        self.retry_after_full_disk();
        self.forget_full_disk();
        self.schedule();
        let outcome = self.wait_with_retries(self.settings.write_timeout, || {
            self.health.check_writable()?;
            Ok(!matches!(self.pace_now(bytes), Pace::Stop(_)))
        });
        let waited = self.io.clock.now().saturating_sub(start);
        self.metrics.stalled(reason, waited);
        tracing::info!(reason = reason.name(), micros = waited.as_micros() as u64, "stall ended");
        match outcome {
            // Compaction lacks room, flushes do not: go on, slow reads are better than no deletes.
            // What is no delete is refused with the reserve gone.
            Err(error)
                if error.kind() == ErrorKind::NoSpace
                    && self.pace_now(bytes) != Pace::Stop(Reason::Memtables) =>
            {
                Ok(())
            }
            outcome => outcome.map_err(|error| timed_out(error, reason, waited)),
        }
    }
}

fn timed_out(error: Error, reason: Reason, waited: Duration) -> Error {
    if error.kind() != ErrorKind::Timeout {
        return error;
    }
    let reason = reason.name();
    let millis = waited.as_millis();
    Error::new(
        ErrorKind::Timeout,
        format!("no room for the write after {millis} ms ({reason}); nothing was written"),
    )
}

#[cfg(all(test, not(shuttle)))]
mod tests;
