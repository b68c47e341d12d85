//! Closing: what is acknowledged becomes durable, the journal is sealed, the lock released.

use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::commit::{Task, Work};
use crate::engine::lane::{JournalEdit, LaneId};
use crate::engine::state::Publication;

impl Engine {
    /// Closes the database; the first call does the work, later ones return at once.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.cancelled.store(true, Ordering::Release);
        let outcome = if self.settings.read_only { Ok(()) } else { self.seal_for_close() };
        self.refuse_calls();
        self.io.executor.shutdown();
        self.gc.forget();
        self.stop_timer();
        if !self.settings.read_only && outcome.is_ok() {
            self.drop_blank_segments();
            self.remove_obsolete();
        }
        *self.lock.lock() = None;
        tracing::debug!(dir = %self.dir.display(), "closed");
        outcome
    }

    /// Seals the open segment, so that the next open can tell damage from a torn tail.
    fn seal_for_close(self: &Arc<Self>) -> Result<()> {
        self.health.check_writable()?;
        // Becoming leader last in line: every batch accepted before is logged and visible after.
        self.commit(Work::control(Task::Seal))?;
        self.save_locator();
        Ok(())
    }

    /// The leader's part of [`Task::Seal`]: later batches are refused.
    pub(crate) fn seal_last_segment(self: &Arc<Self>) -> Result<()> {
        self.wait_published(self.commits.allocated.load(Ordering::Relaxed));
        self.sealed.store(true, Ordering::Release);
        if self.value_lane.is_open() {
            self.end_value_segment()?;
        }
        let Some(sealed) = self.seal_lane(LaneId::Journal)? else { return Ok(()) };
        let last_seq = self.commits.allocated.load(Ordering::Relaxed);
        let edit = JournalEdit::encode(&[JournalEdit::Sealed { sealed, last_seq }]);
        self.commit_edit(vec![edit], |_| Ok(Publication::default()))
    }
}
