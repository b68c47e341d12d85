//! What the two lanes of the log have in common: one sequence of seqs, one mark of what is durable,
//! one sync at a time.
//!
//! Invariants: J2 `synced` never exceeds what successful syncs of both lanes covered; syncs run one
//! at a time, because the kernel reports a failed write-back to one caller only. J4 a lane is noted
//! as unsynced before `appended` covers what it holds, so whoever reads `appended` first and the
//! lanes after it misses nothing.

use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::Engine;
use crate::engine::lane::LaneId;
use crate::engine::metrics::Operation;
use crate::log::writer::AppendError;

/// How far both lanes reach together.
#[derive(Clone, Copy)]
struct Reach {
    appended: Seq,
    synced: Seq,
    /// Last seq that was cut off at open: up to it, seqs are given out a second time.
    cut: Seq,
}

/// What the lanes share.
pub(crate) struct Logs {
    reach: Mutex<Reach>,
    /// Held while lanes are synced or sealed.
    pub(super) syncing: Mutex<()>,
    /// Bytes appended since the database was opened, and how many of them are flushed.
    appended_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
}

impl Logs {
    /// Everything up to `last_seq` is durable; `bytes` of frames wait in segments.
    pub(crate) fn new(last_seq: Seq, bytes: u64) -> Self {
        Self {
            reach: Mutex::new(Reach { appended: last_seq, synced: last_seq, cut: 0 }),
            syncing: Mutex::new(()),
            appended_bytes: AtomicU64::new(bytes),
            flushed_bytes: AtomicU64::new(0),
        }
    }

    /// Last seq of any lane.
    pub(crate) fn appended_seq(&self) -> Seq {
        self.reach.lock().appended
    }

    /// Last durable seq.
    pub(crate) fn synced_seq(&self) -> Seq {
        self.reach.lock().synced
    }

    /// Whether anything appended is not durable yet.
    pub(crate) fn has_unsynced(&self) -> bool {
        let reach = self.reach.lock();
        reach.appended > reach.synced
    }

    /// A group has been appended: `bytes` of it, up to this seq.
    pub(super) fn set_appended(&self, last_seq: Seq, bytes: u64) {
        self.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut reach = self.reach.lock();
        if last_seq <= reach.cut {
            mark!("seq_reused_after_cut");
        }
        reach.appended = last_seq;
    }

    /// Bytes have been written elsewhere that a replay has to read, too.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Everything up to `seq` is durable.
    pub(super) fn set_synced(&self, seq: Seq) {
        let mut reach = self.reach.lock();
        reach.synced = reach.synced.max(seq);
    }

    /// Everything up to `seq` was replayed, and is durable; what lay behind it, up to `cut`, is
    /// gone.
    pub(crate) fn replayed(&self, seq: Seq, cut: Seq) {
        *self.reach.lock() = Reach { appended: seq, synced: seq, cut };
    }

    /// Bytes of frames that no flush has made superfluous yet.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        let appended = self.appended_bytes.load(Ordering::Relaxed);
        appended.saturating_sub(self.flushed_bytes.load(Ordering::Relaxed))
    }

    /// Bytes appended so far: the mark that a frozen memtable remembers.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Ordering::Relaxed)
    }

    /// Notes that everything up to a mark is flushed.
    pub(crate) fn set_flushed_bytes(&self, mark: u64) {
        self.flushed_bytes.fetch_max(mark, Ordering::Relaxed);
    }
}

impl Engine {
    /// Makes everything appended so far durable; returns at once where it is already.
    pub(crate) fn sync_logs(&self) -> Result<()> {
        let _one_at_a_time = self.logs.syncing.lock();
        self.health.check_writable()?;
        let Reach { appended, synced, .. } = *self.logs.reach.lock();
        if appended <= synced {
            return Ok(());
        }
        let start = self.io.clock.now();
        // What records name is durable before they are (LV-2 of `large`).
        self.sync_large()?;
        if !planted!("skip_journal_sync")
            && let Err(cause) = self.sync_lanes()
        {
            if planted!("ignore_sync_error") {
                return Ok(());
            }
            return Err(self.stopped_by_sync(cause));
        }
        self.metrics.record(Operation::JournalSync, self.io.clock.now().saturating_sub(start));
        self.metrics.journal_syncs.fetch_add(1, Ordering::Relaxed);
        self.logs.set_synced(appended);
        Ok(())
    }

    /// A failed sync stops the database for good.
    pub(super) fn stopped_by_sync(&self, cause: std::io::Error) -> Error {
        let error = Error::io("sync of the log", &self.dir, cause);
        self.stop(&error);
        error
    }

    /// Syncs the lanes that hold anything new, both at once where both do.
    fn sync_lanes(&self) -> std::io::Result<()> {
        if !(self.journal.is_unsynced() && self.value_lane.is_unsynced()) {
            self.journal.sync()?;
            return self.value_lane.sync();
        }
        mark!("both_lanes_synced");
        let mut outcomes: [std::io::Result<()>; 2] = [Ok(()), Ok(())];
        let [journal, values] = &mut outcomes;
        self.io.executor.fork_join(vec![
            Box::new(|| *journal = self.journal.sync()),
            Box::new(|| *values = self.value_lane.sync()),
        ]);
        outcomes.into_iter().collect()
    }

    /// Notes in the log that everything before is durable, so that damage to it is never taken for
    /// a torn tail. Under leadership; an append that fails and is cut back is no loss.
    pub(crate) fn append_watermark(&self) -> Result<()> {
        let Reach { appended, synced, .. } = *self.logs.reach.lock();
        // One lane is enough: what it says holds of both.
        let Some(lane) = LaneId::ALL.into_iter().find(|&id| !self.lane(id).is_empty()) else {
            return Ok(());
        };
        match self.lane(lane).append_watermark(appended + 1, synced) {
            Ok(()) | Err(AppendError::Recoverable(_)) => Ok(()),
            Err(AppendError::Fatal(error)) => {
                self.stop(&error);
                Err(error)
            }
        }
    }
}
