//! What one flush or collection does to buckets: appends, and rewrites of those that take none.
//!
//! Owned by one thread, under the turn that flushes and collections share. Nothing is in force
//! before its edit is durable; files that no edit names go away with their last holder.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::file_ids::FileIds;
use crate::base::marks::mark;
use crate::base::merge_operator::SharedOperator;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::{Arc, Mutex};
use crate::deltas::bucket::writer::{Append, Unsynced, sync_names};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::collect::outcome;
use crate::deltas::collect::survivors::{Fate, Rule, Survivors, survivors};
use crate::deltas::collect::write::{WritePlan, Written, write};
use crate::deltas::directory::{Changed, Directory, Position};
use crate::deltas::edit::DeltasEdit;
use crate::deltas::record::OwnedBound;
use crate::deltas::route::BucketBatch;
use crate::engine::deltas::DeltaStore;
use crate::io::Purpose;
use crate::io::executor::Executor;

/// What decides over records: live snapshots, ascending, and the keyspaces that there are.
pub(crate) struct Verdicts<'a> {
    pub(crate) snapshots: &'a [Seq],
    pub(crate) keyspaces: BTreeMap<KeyspaceId, Option<SharedOperator>>,
}

impl Verdicts<'_> {
    /// What becomes of a keyspace's records.
    pub(crate) fn fate(&self, keyspace: KeyspaceId) -> Fate {
        self.keyspaces.get(&keyspace).map_or(Fate::Gone, |operator| Fate::Lives(operator.clone()))
    }

    /// The operator of a keyspace, if it is there and has one.
    pub(crate) fn operator(&self, keyspace: KeyspaceId) -> Option<SharedOperator> {
        self.keyspaces.get(&keyspace).cloned().flatten()
    }
}

/// Written and not durable yet.
enum Pending {
    Appended(BucketInfo, Unsynced),
    Written(Written),
}

/// Durable, and in no edit yet.
struct Synced {
    buckets: Vec<Arc<Bucket>>,
    edit: Option<DeltasEdit>,
    has_names: bool,
}

impl Pending {
    fn sync(self) -> Result<Synced> {
        match self {
            Self::Appended(before, unsynced) => {
                let after = unsynced.sync()?;
                let edit = Some(DeltasEdit::appended(&before, after.info()));
                Ok(Synced { buckets: vec![after], edit, has_names: false })
            }
            Self::Written(written) => {
                let (buckets, edit) = written.sync()?;
                let has_names = !buckets.is_empty();
                Ok(Synced { buckets, edit, has_names })
            }
        }
    }

    /// Makes all of them durable, as many at a time as there are threads.
    fn sync_all(pending: Vec<Self>, executor: &dyn Executor) -> Result<Vec<Synced>> {
        let lanes = executor.parallelism().min(pending.len()).max(1);
        let mut queues: Vec<Vec<Self>> = (0..lanes).map(|_| Vec::new()).collect();
        for (number, pending) in pending.into_iter().enumerate() {
            if let Some(queue) = queues.get_mut(number % lanes) {
                queue.push(pending);
            }
        }
        let sync = |queue: Vec<Self>| queue.into_iter().map(Self::sync).collect();
        let slots: Vec<Mutex<Option<Result<Vec<Synced>>>>> =
            queues.iter().map(|_| Mutex::new(None)).collect();
        let parts = queues.into_iter().zip(&slots).map(|(queue, slot)| {
            let part = move || *slot.lock() = Some(sync(queue));
            Box::new(part) as Box<dyn FnOnce() + Send + '_>
        });
        executor.fork_join(parts.collect());
        let lost = || Err(Error::new(ErrorKind::Stopped, "a part of a flush was not run"));
        let mut all = Vec::new();
        for slot in slots {
            all.append(&mut slot.into_inner().unwrap_or_else(lost)?);
        }
        Ok(all)
    }
}

/// Work in progress.
pub(crate) struct Work<'a> {
    pub(crate) store: &'a DeltaStore,
    pub(crate) directory: &'a Directory,
    pub(crate) verdicts: &'a Verdicts<'a>,
    pub(crate) file_ids: &'a FileIds,
    pub(crate) purpose: Purpose,
    pending: Vec<Pending>,
    /// Buckets that there will be.
    buckets: usize,
    /// Keys with more operands than a bucket should have.
    to_fold: Vec<OwnedBound>,
}

/// Work that is on disk and in no edit yet.
#[derive(Default)]
pub(crate) struct Done {
    edits: Vec<DeltasEdit>,
    changed: Option<Changed>,
    /// Buckets that came or grew.
    made: Vec<Arc<Bucket>>,
    pub(crate) to_fold: Vec<OwnedBound>,
}

impl<'a> Work<'a> {
    /// No work yet.
    pub(crate) fn new(
        store: &'a DeltaStore,
        directory: &'a Directory,
        verdicts: &'a Verdicts<'a>,
        file_ids: &'a FileIds,
        purpose: Purpose,
    ) -> Self {
        let (pending, to_fold, buckets) = (Vec::new(), Vec::new(), directory.len());
        Self { store, directory, verdicts, file_ids, purpose, pending, buckets, to_fold }
    }

    /// Gives a bucket what a flush has for it: as one chunk more, or in a new file.
    pub(crate) fn add(&mut self, position: Option<Position>, batch: &BucketBatch) -> Result<()> {
        let bucket = position.and_then(|position| self.directory.at(position));
        if let Some(bucket) = bucket {
            let groups = batch.groups()?;
            let appended = bucket.append(&Append {
                groups: &groups,
                ranges: &batch.ranges,
                capacity_bytes: self.store.limits.capacity_bytes,
                purpose: self.purpose,
            })?;
            if let Ok(unsynced) = appended {
                mark!("bucket_appended");
                self.pending.push(Pending::Appended(bucket.info().clone(), unsynced));
                return Ok(());
            }
        }
        let replaced: Vec<Position> = position.into_iter().collect();
        self.collect(&replaced, batch)
    }

    /// Rewrites neighbours together with what a flush has for them.
    pub(crate) fn collect(&mut self, replaced: &[Position], batch: &BucketBatch) -> Result<()> {
        let at = replaced.iter().filter_map(|position| self.directory.at(*position).cloned());
        let buckets: Vec<Arc<Bucket>> = at.collect();
        let whole = buckets.iter().map(|bucket| bucket.read_whole(Purpose::Compaction));
        let whole = whole.collect::<Result<Vec<_>>>()?;
        let fate_of = |keyspace| self.verdicts.fate(keyspace);
        let mut rule = Rule { snapshots: self.verdicts.snapshots, fate_of: &fate_of };
        if planted!("bucket_collection_ignores_snapshots") {
            rule.snapshots = &[];
        }
        let living = survivors(&whole, &batch.keys, &batch.ranges, &rule);
        drop(whole);
        let others = self.buckets.saturating_sub(buckets.len());
        // Neighbours that become one are not begun with, even if there is no other.
        let beside = others.max(usize::from(buckets.len() > 1));
        let sizes: Vec<u64> = living.keys.iter().map(|key| key.bytes()).collect();
        let limits = &self.store.limits;
        self.note_long(&living, &outcome(&sizes, beside, limits, true).fold);
        let outcome = outcome(&sizes, beside, limits, false);
        let applied = buckets.iter().map(|bucket| bucket.info().applied_seq).max();
        let mut plan = WritePlan {
            replaced: &buckets,
            may_vanish: replaced.first() != self.directory.first().as_ref(),
            applied_seq: applied.unwrap_or(0).max(batch.last_seq()),
            capacity_bytes: limits.capacity_bytes,
            purpose: Purpose::Compaction,
            next_id: &mut || self.file_ids.next(),
        };
        let written = write(&self.store.context, &living, &outcome, &mut plan)?;
        let count = written.buckets.len();
        match (buckets.len(), count) {
            (0, _) => mark!("buckets_begun"),
            (1, 0) => mark!("bucket_gone"),
            (1, 1) => mark!("bucket_rewritten"),
            (1, _) => mark!("bucket_split"),
            _ => mark!("buckets_merged"),
        }
        self.buckets = others + count;
        self.pending.push(Pending::Written(written));
        Ok(())
    }

    /// Keys whose operands should be applied to their values.
    fn note_long(&mut self, living: &Survivors, numbers: &[usize]) {
        let keys = numbers.iter().filter_map(|number| living.keys.get(*number));
        self.to_fold.extend(keys.map(|key| key.bound.clone()));
    }

    /// Makes everything durable; the edit is still to be.
    pub(crate) fn finish(self) -> Result<Done> {
        let mut done = Done { to_fold: self.to_fold, ..Done::default() };
        let mut has_names = false;
        let executor = &*self.store.context.io.executor;
        for mut synced in Pending::sync_all(self.pending, executor)? {
            has_names |= synced.has_names;
            done.made.append(&mut synced.buckets);
            done.edits.extend(synced.edit);
        }
        if has_names && !planted!("bucket_names_not_synced") {
            sync_names(&self.store.context)?;
        }
        if !done.edits.is_empty() {
            let changed = self.directory.apply(&self.store.context, &done.edits, &done.made)?;
            done.changed = Some(changed);
        }
        Ok(done)
    }
}

impl Done {
    /// What goes into the manifest edit.
    pub(crate) fn section(&self) -> Option<Section> {
        (!self.edits.is_empty()).then(|| DeltasEdit::encode(&self.edits))
    }

    /// Whether any bucket changes.
    pub(crate) fn changes_buckets(&self) -> bool {
        self.changed.is_some()
    }

    /// The edit is durable: puts the directory into force. Under the manifest lock.
    pub(super) fn install(self, store: &DeltaStore) {
        let Some(changed) = self.changed else { return };
        store.replace_directory(changed.settle(), &self.made);
        store.ask_to_fold(self.to_fold);
    }
}
