//! Collection because somebody asked for it: everything that is worth it, and no waiting for
//! thresholds.

use std::time::Duration;

use crate::base::error::{ErrorKind, Result};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::gc::estimate::DeadTail;
use crate::io::Purpose;
use crate::values::strategy::Collects;

/// What a call of [`Engine::reclaim`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reclaimed {
    /// Files that are gone.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes_freed: u64,
    /// Bytes given back out of files that stay.
    pub(crate) bytes_punched: u64,
    /// Bytes of records that were put again.
    pub(crate) bytes_moved: u64,
    /// Collected files that a snapshot keeps.
    pub(crate) files_waiting: u64,
    /// Whether there was time for everything.
    pub(crate) is_complete: bool,
}

/// What of the open segment must be dead, where somebody asks.
const DEAD_TAIL: DeadTail = DeadTail { percent: 10, bytes_min: 0 };

impl Engine {
    /// Collects all value files that are worth it, for as long as `timeout` allows.
    pub(crate) fn reclaim(
        self: &Arc<Self>,
        timeout: Option<Duration>,
        progress: &mut dyn FnMut(Reclaimed),
    ) -> Result<Reclaimed> {
        self.health.check_writable()?;
        let start = self.io.clock.now();
        let before = self.reclaimed_so_far();
        self.flush_all()?;
        match self.strategy.collection() {
            Collects::Index(_) if self.end_dead_tail(DEAD_TAIL)? => self.flush_all()?,
            Collects::Index(_) => {}
            Collects::Facts | Collects::Map => self.gather_facts(timeout)?,
        }
        let newest = {
            let view = self.view.load();
            let segment = view.values.iter().next_back().map(|entry| entry.file.id());
            let container = view.values.containers().next_back();
            let large = view.values.large().next_back().map(|entry| entry.file.id());
            segment.max(large).max(container.map(|entry| entry.container.id()))
        };
        let ask = self.gc.state.lock().ask(newest);
        self.schedule();
        let left =
            timeout.map(|limit| limit.saturating_sub(self.io.clock.now().saturating_sub(start)));
        let waited = self.wait_background(left, || {
            self.health.check_writable()?;
            progress(self.reclaimed_so_far().since(before));
            // The last files may go before a look at them answers what was asked.
            let is_answered = self.gc.state.lock().asked.is_none() || !self.has_value_files();
            Ok(!self.is_collecting() && is_answered)
        });
        let is_complete = match waited {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::Timeout => false,
            Err(error) => return Err(error),
        };
        self.gc.state.lock().answer(ask);
        self.remove_obsolete();
        let refused = self.gc.state.lock().refused.values().next().cloned();
        refused.map_or(Ok(()), Err)?;
        Ok(Reclaimed { is_complete, ..self.reclaimed_so_far().since(before) })
    }

    /// Has the indexes tell of all that died, and waits for it.
    fn gather_facts(self: &Arc<Self>, timeout: Option<Duration>) -> Result<()> {
        self.ask_for_facts(0);
        self.schedule();
        let waited = self.wait_background(timeout, || {
            self.health.check_writable()?;
            Ok(self.settle_asked())
        });
        match waited {
            // What is known by then is what is collected.
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            waited => waited?,
        }
        self.end_named_little(DEAD_TAIL)?;
        Ok(())
    }

    fn reclaimed_so_far(&self) -> Reclaimed {
        let figures = &self.metrics.collection;
        Reclaimed {
            files: figures.files_removed.load(Ordering::Relaxed),
            bytes_freed: figures.bytes_freed.load(Ordering::Relaxed),
            bytes_punched: self.io.meter.bytes_punched(Purpose::Collection),
            bytes_moved: figures.bytes_moved.load(Ordering::Relaxed),
            files_waiting: self.gc.files_waiting(),
            is_complete: false,
        }
    }
}

impl Reclaimed {
    fn since(self, before: Self) -> Self {
        Self {
            files: self.files - before.files,
            bytes_freed: self.bytes_freed - before.bytes_freed,
            bytes_punched: self.bytes_punched - before.bytes_punched,
            bytes_moved: self.bytes_moved - before.bytes_moved,
            ..self
        }
    }
}
