//! An index with buckets of deltas beside it: what it answers is what both know together.
//!
//! Any thread. The index itself is whichever the keyspace has; a view of it is pinned together with
//! the directory of the same moment. Cursors, range tombstones and figures are those of the index
//! alone: a scan walks over the buckets by a cursor of its own.

use std::any::Any;

use crate::base::cursor::BoxCursor;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::merge_operator::SharedOperator;
use crate::base::section::Section;
use crate::base::sync::{Arc, ArcSwap};
use crate::base::tombstone::Fragments;
use crate::deltas::directory::Directory;
use crate::engine::deltas::DeltaStore;
use crate::index::{
    Backlog, CursorOptions, FileRecord, FlushInput, IndexJob, IndexSpace, IndexView, KeyLookup,
    KeyRange, OrderedIndex, Prepared, VerifySink,
};

/// The index of a keyspace whose operands are in buckets.
pub(crate) struct BucketedIndex {
    index: Arc<dyn OrderedIndex>,
    keyspace: KeyspaceId,
    operator: Option<SharedOperator>,
    store: Arc<DeltaStore>,
    /// Both as they are now; changes under the manifest lock.
    view: ArcSwap<BucketedView>,
}

impl BucketedIndex {
    /// The index, with the buckets that there are.
    pub(crate) fn new(
        index: Arc<dyn OrderedIndex>,
        keyspace: KeyspaceId,
        operator: Option<SharedOperator>,
        store: &Arc<DeltaStore>,
    ) -> Arc<Self> {
        let view = BucketedView {
            index: index.view(),
            directory: store.directory(),
            keyspace,
            operator: operator.clone(),
            store: Arc::clone(store),
        };
        let (store, view) = (Arc::clone(store), ArcSwap::from_pointee(view));
        Arc::new(Self { index, keyspace, operator, store, view })
    }

    /// Takes up what has changed of the index or of the buckets.
    fn refresh(&self) {
        self.view.store(Arc::new(BucketedView {
            index: self.index.view(),
            directory: self.store.directory(),
            keyspace: self.keyspace,
            operator: self.operator.clone(),
            store: Arc::clone(&self.store),
        }));
    }
}

impl OrderedIndex for BucketedIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        self.view.load_full()
    }

    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared> {
        self.index.apply_flush(input)
    }

    fn pick_job(&self) -> Option<Box<dyn IndexJob>> {
        self.index.pick_job()
    }

    fn install(&self, change: Box<dyn Any + Send>) -> Result<()> {
        self.index.install(change)?;
        self.refresh();
        Ok(())
    }

    fn buckets_changed(&self) {
        self.refresh();
    }

    fn request_compaction(&self, range: KeyRange) -> u64 {
        self.index.request_compaction(range)
    }

    fn compaction_done(&self, ticket: u64) -> bool {
        self.index.compaction_done(ticket)
    }

    fn backlog(&self) -> Backlog {
        self.index.backlog()
    }

    fn snapshot_sections(&self) -> Vec<Section> {
        self.index.snapshot_sections()
    }

    fn replay_floor(&self) -> Seq {
        self.index.replay_floor()
    }

    fn retire(&self) {
        self.index.retire();
    }
}

/// A frozen state of both.
struct BucketedView {
    index: Arc<dyn IndexView>,
    directory: Directory,
    keyspace: KeyspaceId,
    operator: Option<SharedOperator>,
    store: Arc<DeltaStore>,
}

impl BucketedView {
    /// Adds what the buckets have of the key to what the index has said, in front of which the
    /// lookup had so many operands.
    fn add(&self, key: &[u8], operands_before: usize, lookup: &mut Lookup) -> Result<()> {
        let place = (self.keyspace, key);
        let operator = self.operator.as_ref();
        let found = self.store.get(&self.directory, place, lookup.snapshot, operator)?;
        if !found.is_empty() {
            lookup.add_apart(operands_before, found.anchor, found.operands);
        }
        Ok(())
    }
}

impl IndexView for BucketedView {
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        let operands_before = lookup.operands.len();
        self.index.get(key, hash, lookup)?;
        self.add(key, operands_before, lookup)
    }

    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        // What the memtables have decided is newer than any bucket.
        let undecided =
            |key: &KeyLookup<'_>| key.lookup.found.is_none().then_some(key.lookup.operands.len());
        let before: Vec<Option<usize>> = keys.iter().map(undecided).collect();
        self.index.multi_get(keys)?;
        let asked = keys.iter().zip(&before).filter(|(_, before)| before.is_some());
        let asked = asked.map(|(key, _)| (key.key, key.lookup.snapshot));
        let operator = self.operator.as_ref();
        let found = self.store.get_many(&self.directory, self.keyspace, asked, operator)?;
        let undecided =
            keys.iter_mut().zip(before).filter_map(|(key, before)| Some((key, before?)));
        for ((key, operands_before), found) in undecided.zip(found) {
            if !found.is_empty() {
                key.lookup.add_apart(operands_before, found.anchor, found.operands);
            }
        }
        Ok(())
    }

    fn add_deltas(&self, key: &[u8], lookup: &mut Lookup) -> Result<()> {
        self.add(key, lookup.operands.len(), lookup)
    }

    fn cursor(&self, options: &CursorOptions) -> Result<BoxCursor> {
        self.index.cursor(options)
    }

    fn tombstones(&self) -> Result<Arc<Fragments>> {
        self.index.tombstones()
    }

    fn cover(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        self.index.cover(key, snapshot)
    }

    fn files(&self) -> Vec<FileRecord> {
        self.index.files()
    }

    fn largest_seq(&self) -> Seq {
        self.index.largest_seq()
    }

    fn space(&self) -> IndexSpace {
        self.index.space()
    }

    fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
    }

    fn verify(&self, sink: &mut dyn VerifySink) {
        self.index.verify(sink);
    }
}
