//! Live snapshots: the stripes between which versions may die.

use std::collections::BTreeMap;

use crate::base::entry::Seq;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};

/// Registry of live snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Seq, usize>>,
}

impl Snapshots {
    /// Registers a snapshot at the newest visible seq. The seq is read under the registry's lock,
    /// so that a flush that lists the stripes either sees it or has inputs entirely at or below it.
    pub(crate) fn take(self: &Arc<Self>, visible: &AtomicU64) -> SnapshotPin {
        let mut live = self.live.lock();
        let seq = visible.load(Ordering::Acquire);
        *live.entry(seq).or_default() += 1;
        SnapshotPin { seq, registry: Arc::clone(self) }
    }

    /// Registers a seq that somebody has registered already, who may go before this does.
    pub(crate) fn hold(self: &Arc<Self>, seq: Seq) -> SnapshotPin {
        *self.live.lock().entry(seq).or_default() += 1;
        SnapshotPin { seq, registry: Arc::clone(self) }
    }

    /// All live snapshots, ascending.
    pub(crate) fn stripes(&self) -> Vec<Seq> {
        self.live.lock().keys().copied().collect()
    }
}

/// Keeps one snapshot alive.
#[derive(Debug)]
pub(crate) struct SnapshotPin {
    seq: Seq,
    registry: Arc<Snapshots>,
}

impl SnapshotPin {
    /// What it sees: versions with seq <= this.
    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        let mut live = self.registry.live.lock();
        if let Some(count) = live.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seq);
            }
        }
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
