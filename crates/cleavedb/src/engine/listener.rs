//! What the engine listens for in every flush and compaction: what dies is counted, and how many
//! index entries name each value file is kept exact (rules R6 and R8).
//!
//! Invariant L1: an entry is *born* when it comes into an index and *dies* when it leaves one. What
//! a flush meets above the flushed seq was in no index yet; everything else was.

use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::metrics::Metrics;
use crate::index::{Dead, Listener, ListenerFactory};
use crate::values::handle::Handle;
use crate::values::ref_changes::RefChanges;
use crate::values::strategy::Strategy;

/// Makes the listeners of one flush or compaction.
pub(crate) struct EntryListeners {
    metrics: Arc<Metrics>,
    strategy: Arc<dyn Strategy>,
    /// Entries up to this seq are in the index.
    indexed: Seq,
}

impl EntryListeners {
    /// A fresh listener.
    pub(crate) fn make(&self) -> EntryListener {
        EntryListener {
            metrics: Arc::clone(&self.metrics),
            strategy: Arc::clone(&self.strategy),
            indexed: self.indexed,
            entries: 0,
            bytes: 0,
            changes: RefChanges::default(),
            failed: None,
        }
    }
}

impl ListenerFactory for EntryListeners {
    fn listener(&self, _keyspace: KeyspaceId) -> Box<dyn Listener> {
        Box::new(self.make())
    }
}

/// Listens to one flush or one part of a compaction.
pub(crate) struct EntryListener {
    metrics: Arc<Metrics>,
    strategy: Arc<dyn Strategy>,
    indexed: Seq,
    entries: u64,
    bytes: u64,
    changes: RefChanges,
    /// A handle that says nothing.
    failed: Option<Error>,
}

impl EntryListener {
    fn handle(&mut self, bytes: &[u8]) -> Option<Handle> {
        match self.strategy.resolve(bytes) {
            Ok(handle) => Some(handle),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }
}

impl Listener for EntryListener {
    fn dead(&mut self, dead: Dead<'_>) {
        debug_assert!(dead.seq <= dead.superseded_by, "{:?} dies of an older entry", dead.kind);
        self.entries += 1;
        self.bytes += (dead.key.len() + dead.value.len()) as u64;
        if dead.kind != Kind::PutSeparated {
            return;
        }
        if dead.seq > self.indexed {
            mark!("separated_entry_hidden");
            return;
        }
        mark!("separated_entry_died");
        if let Some(handle) = self.handle(dead.value)
            && !planted!("dead_handle_not_counted")
        {
            self.strategy.died(&handle, &mut self.changes);
        }
    }

    fn survivor(&mut self, _key: &[u8], seq: Seq, handle: &[u8]) -> Option<Vec<u8>> {
        if seq > self.indexed
            && let Some(handle) = self.handle(handle)
        {
            self.strategy.born(&handle, &mut self.changes);
        }
        None
    }

    fn keeps_tombstone(&mut self, _key: &[u8], _seq: Seq) -> bool {
        false
    }

    fn finish(&mut self) -> Result<Vec<Section>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.metrics.entries_dropped.fetch_add(self.entries, Ordering::Relaxed);
        self.metrics.bytes_dropped.fetch_add(self.bytes, Ordering::Relaxed);
        Ok(self.changes.encode().into_iter().collect())
    }
}

impl Engine {
    /// Listeners for work on entries of which those up to `indexed` are in the index already.
    pub(crate) fn entry_listeners(&self, indexed: Seq) -> EntryListeners {
        EntryListeners {
            metrics: Arc::clone(&self.metrics),
            strategy: Arc::clone(&self.strategy),
            indexed,
        }
    }
}
