//! An index with buckets of deltas beside it: what it answers is what both know together.
//!
//! Any thread. The index itself is whichever the keyspace has; a view of it is pinned together with
//! the directory of the same moment. Cursors, range tombstones and figures are those of the index
//! alone: a scan walks over the buckets by a cursor of its own.

use std::any::Any;
use std::time::Duration;

use crate::base::cursor::BoxCursor;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::merge_operator::SharedOperator;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, ArcSwap};
use crate::base::tombstone::Fragments;
use crate::deltas::bucket::reader::Asked;
use crate::deltas::directory::Directory;
use crate::engine::deltas::DeltaStore;
use crate::engine::deltas::read::{KeyUnderWay, KeysUnderWay};
use crate::engine::read::many::{ManyApart, undecided};
use crate::index::{
    ApartUnderWay, Backlog, BoxApart, BoxManyApart, CursorOptions, FileRecord, FlushInput,
    IndexJob, IndexSpace, IndexView, KeyLookup, KeyRange, ManyApartUnderWay, OrderedIndex,
    Prepared, VerifySink,
};

/// The index of a keyspace whose operands are in buckets.
pub(crate) struct BucketedIndex {
    index: Arc<dyn OrderedIndex>,
    keyspace: KeyspaceId,
    operator: Option<SharedOperator>,
    store: Arc<DeltaStore>,
    /// Both as they are now; changes under the manifest lock.
    view: ArcSwap<BucketedView>,
    /// Whether the keyspace was dropped. Whoever still holds it must not keep the buckets of all
    /// others as they were then.
    is_retired: AtomicBool,
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
        let is_retired = AtomicBool::new(false);
        Arc::new(Self { index, keyspace, operator, store, view, is_retired })
    }

    /// Takes up what has changed of the index or of the buckets.
    fn refresh(&self) {
        let is_retired = self.is_retired.load(Ordering::Acquire);
        let directory = if is_retired { Directory::default() } else { self.store.directory() };
        self.view.store(Arc::new(BucketedView {
            index: self.index.view(),
            directory,
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

    fn view_of_entries(&self) -> Arc<dyn IndexView> {
        self.index.view_of_entries()
    }

    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared> {
        self.index.apply_flush(input)
    }

    fn pick_job(&self) -> Option<Box<dyn IndexJob>> {
        self.index.pick_job()
    }

    fn pick_reclaim(&self) -> Option<Box<dyn IndexJob>> {
        self.index.pick_reclaim()
    }

    fn install(&self, change: Box<dyn Any + Send>) -> Result<()> {
        self.index.install(change)?;
        self.refresh();
        Ok(())
    }

    fn buckets_changed(&self) {
        self.refresh();
    }

    fn request_compaction(&self, range: KeyRange, orders: bool) -> u64 {
        self.index.request_compaction(range, orders)
    }

    fn compaction_done(&self, ticket: u64) -> bool {
        self.index.compaction_done(ticket)
    }

    fn backlog(&self) -> Backlog {
        self.index.backlog()
    }

    fn reads_want_work(&self) -> bool {
        self.index.reads_want_work()
    }

    fn note_quiet(&self) -> bool {
        self.index.note_quiet()
    }

    fn note_time(&self, now: Duration) -> bool {
        self.index.note_time(now)
    }

    fn snapshot_sections(&self) -> Vec<Section> {
        self.index.snapshot_sections()
    }

    fn replay_floor(&self) -> Seq {
        self.index.replay_floor()
    }

    fn retire(&self) {
        self.index.retire();
        self.is_retired.store(true, Ordering::Release);
        self.refresh();
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

/// What buckets have of a key, on its way.
struct BucketsUnderWay<'k> {
    view: &'k BucketedView,
    asked: Asked<'k>,
    under_way: KeyUnderWay,
}

impl BucketsUnderWay<'_> {
    fn add(self, operands_before: usize, lookup: &mut Lookup) -> Result<()> {
        let operator = self.view.operator.as_ref();
        let found = self.view.store.finish(self.under_way, &self.asked, operator)?;
        if !found.is_empty() {
            lookup.add_apart(operands_before, found.anchor, found.operands);
        }
        Ok(())
    }
}

impl ApartUnderWay for BucketsUnderWay<'_> {
    fn finish(self: Box<Self>, operands_before: usize, lookup: &mut Lookup) -> Result<()> {
        self.add(operands_before, lookup)
    }
}

/// The same of many keys.
struct ManyBucketsUnderWay<'k> {
    view: &'k BucketedView,
    under_way: KeysUnderWay<'k>,
}

impl ManyApartUnderWay for ManyBucketsUnderWay<'_> {
    fn finish(
        self: Box<Self>,
        lookups: &mut dyn Iterator<Item = (usize, &mut Lookup)>,
    ) -> Result<()> {
        let operator = self.view.operator.as_ref();
        let found = self.view.store.finish_many(self.under_way, operator)?;
        for ((operands_before, lookup), found) in lookups.zip(found) {
            if !found.is_empty() {
                lookup.add_apart(operands_before, found.anchor, found.operands);
            }
        }
        Ok(())
    }
}

impl BucketedView {
    fn begin<'k>(&'k self, key: &'k [u8], snapshot: Seq) -> Result<BucketsUnderWay<'k>> {
        let asked = self.store.asked(self.keyspace, key, snapshot);
        let under_way = self.store.begin(&self.directory, &asked)?;
        Ok(BucketsUnderWay { view: self, asked, under_way })
    }
}

impl IndexView for BucketedView {
    fn get(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        let operands_before = lookup.operands.len();
        let begun = self.begin(key, lookup.snapshot)?;
        self.get_base(key, hash, lookup)?;
        begun.add(operands_before, lookup)
    }

    fn multi_get(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        let apart = ManyApart::begin(self, keys)?;
        self.multi_get_base(keys)?;
        match apart {
            Some(apart) => apart.finish(keys),
            None => Ok(()),
        }
    }

    fn multi_get_base(&self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        let before = undecided(keys);
        self.index.multi_get(keys)?;
        for (key, before) in keys.iter_mut().zip(before) {
            let count = key.lookup.operands.len();
            key.lookup.has_strays |= before.is_some_and(|before| count > before);
        }
        Ok(())
    }

    fn get_base(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> Result<()> {
        let operands_before = lookup.operands.len();
        self.index.get(key, hash, lookup)?;
        lookup.has_strays |= lookup.operands.len() > operands_before;
        Ok(())
    }

    fn begin_apart<'k>(&'k self, key: &'k [u8], snapshot: Seq) -> Result<Option<BoxApart<'k>>> {
        if self.directory.len() == 0 {
            return Ok(None);
        }
        let begun = self.begin(key, snapshot)?;
        let is_nothing = matches!(&begun.under_way, KeyUnderWay::Known(known) if known.is_empty());
        Ok((!is_nothing).then(|| Box::new(begun) as BoxApart<'k>))
    }

    fn begin_many_apart<'k>(
        &'k self,
        keys: &mut dyn Iterator<Item = (&'k [u8], Seq)>,
    ) -> Result<Option<BoxManyApart<'k>>> {
        if self.directory.len() == 0 {
            return Ok(None);
        }
        let under_way = self.store.begin_many(&self.directory, self.keyspace, keys)?;
        Ok(Some(Box::new(ManyBucketsUnderWay { view: self, under_way })))
    }

    fn cursors(&self, options: &CursorOptions) -> Result<Vec<BoxCursor>> {
        self.index.cursors(options)
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
