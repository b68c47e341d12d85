//! What a reader sees: memtables and index views, frozen together.
//!
//! A view is published whole by one atomic swap; readers take it without a lock. A read loads the
//! view *first* and the visible seq after it: everything the view lacks was written after the
//! view, so what is read is the state at some moment between the two loads.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::sync::Arc;
use crate::deltas::directory::Directory;
use crate::index::IndexView;
use crate::memory::memtable::Memtable;
use crate::values::file_table::ValueFiles;

/// A memtable that takes no more batches and waits for its flush.
#[derive(Clone)]
pub(crate) struct Frozen {
    /// The memtable. Batches that were logged before the freeze may still be arriving.
    pub(crate) table: Arc<Memtable>,
    /// Last seq that belongs to it or to an older one.
    pub(crate) last_seq: Seq,
    /// Log bytes appended when it was frozen.
    pub(crate) journal_mark: u64,
}

/// One frozen arrangement of memtables and indexes.
pub(crate) struct View {
    /// Receives writes.
    pub(crate) active: Arc<Memtable>,
    /// Waiting for their flush, newest first.
    pub(crate) frozen: Vec<Frozen>,
    /// Index of every keyspace.
    pub(crate) indexes: Arc<BTreeMap<KeyspaceId, Arc<dyn IndexView>>>,
    /// The value files that entries of these name (rule R12).
    pub(crate) values: Arc<ValueFiles>,
    /// The buckets of deltas that belong to the indexes.
    pub(crate) deltas: Directory,
    /// Counts the tables of value files: a later one has a larger number.
    pub(crate) value_table: u64,
    /// Last seq that is in the indexes: what is newer is in the memtables, or came after the view.
    pub(crate) flushed: Seq,
}

impl View {
    /// Memtables from newest to oldest.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.table))
    }

    /// The same view with a fresh active memtable; the old one ends at `last_seq`.
    pub(crate) fn freeze(&self, fresh: Arc<Memtable>, last_seq: Seq, journal_mark: u64) -> Self {
        let mut frozen = Vec::with_capacity(self.frozen.len() + 1);
        frozen.push(Frozen { table: Arc::clone(&self.active), last_seq, journal_mark });
        frozen.extend(self.frozen.iter().cloned());
        let (indexes, values) = (Arc::clone(&self.indexes), Arc::clone(&self.values));
        let Self { value_table, flushed, .. } = *self;
        let deltas = self.deltas.clone();
        Self { active: fresh, frozen, indexes, values, deltas, value_table, flushed }
    }

    /// Number of the newest value segment; 0 for none.
    pub(crate) fn newest_value_file(&self) -> u64 {
        self.values.iter().next_back().map_or(0, |entry| entry.file.id().0)
    }

    /// The same view with other indexes and value files, and without the memtable that was written
    /// out.
    pub(crate) fn after_edit(
        &self,
        changed: impl IntoIterator<Item = (KeyspaceId, Option<Arc<dyn IndexView>>)>,
        flushed: Option<&Arc<Memtable>>,
        values: Option<Arc<ValueFiles>>,
    ) -> Self {
        let mut indexes = BTreeMap::clone(&self.indexes);
        for (keyspace, index) in changed {
            match index {
                Some(index) => indexes.insert(keyspace, index),
                None => indexes.remove(&keyspace),
            };
        }
        let is_gone = |f: &Frozen| flushed.is_some_and(|gone| Arc::ptr_eq(&f.table, gone));
        let gone = self.frozen.iter().find(|f| is_gone(f));
        Self {
            active: Arc::clone(&self.active),
            flushed: gone.map_or(self.flushed, |gone| gone.last_seq),
            frozen: self.frozen.iter().filter(|f| !is_gone(f)).cloned().collect(),
            indexes: Arc::new(indexes),
            deltas: self.deltas.clone(),
            value_table: self.value_table + u64::from(values.is_some()),
            values: values.unwrap_or_else(|| Arc::clone(&self.values)),
        }
    }
}
