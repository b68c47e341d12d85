//! What one flush or collection does to buckets: appends, and rewrites of those that take none.
//!
//! Owned by one thread, under the turn that flushes and collections share, which has the buckets
//! written side by side, and then synced side by side: each by one thread, and none of them twice.
//! Nothing is in force before its edit is durable; files that no edit names go away with their last
//! holder.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::file_ids::FileIds;
use crate::base::marks::mark;
use crate::base::merge_operator::SharedOperator;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::deltas::bucket::writer::{Append, Unsynced, sync_names};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::collect::outcome;
use crate::deltas::collect::survivors::{Fate, Rule, survivors};
use crate::deltas::collect::write::{WritePlan, Written, write};
use crate::deltas::directory::{Changed, Directory, Position};
use crate::deltas::edit::DeltasEdit;
use crate::deltas::record::OwnedBound;
use crate::deltas::route::BucketBatch;
use crate::engine::deltas::DeltaStore;
use crate::io::Purpose;
use crate::io::executor::{Parts, WAITS_MAX, side_by_side};

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
}

/// What is to be done to one bucket, or to neighbours that become one.
struct Task {
    replaced: Vec<Position>,
    batch: BucketBatch,
    /// Whether one chunk more will do.
    may_append: bool,
}

/// Buckets that are written before they are synced: together, so that the file system has one
/// commit of its own for many, but not so many that their open files count.
const SYNCED_TOGETHER: usize = 128;

/// Work in progress.
pub(crate) struct Work<'a> {
    pub(crate) store: &'a DeltaStore,
    pub(crate) directory: &'a Directory,
    pub(crate) verdicts: &'a Verdicts<'a>,
    pub(crate) file_ids: &'a FileIds,
    pub(crate) purpose: Purpose,
    tasks: Vec<Task>,
    /// Buckets that there will be.
    buckets: AtomicUsize,
}

/// Work that is on disk and in no edit yet.
#[derive(Default)]
pub(crate) struct Done {
    edits: Vec<DeltasEdit>,
    changed: Option<Changed>,
    /// Buckets that came or grew.
    made: Vec<Arc<Bucket>>,
    /// The snapshots that were minded.
    snapshots: Vec<Seq>,
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
        let (tasks, buckets) = (Vec::new(), AtomicUsize::new(directory.len()));
        Self { store, directory, verdicts, file_ids, purpose, tasks, buckets }
    }

    /// A bucket gets what a flush has for it: as one chunk more, or in a new file.
    pub(crate) fn add(&mut self, position: Option<Position>, batch: BucketBatch) {
        let replaced = position.into_iter().collect();
        self.tasks.push(Task { replaced, batch, may_append: true });
    }

    /// Neighbours are rewritten.
    pub(crate) fn collect(&mut self, replaced: Vec<Position>) {
        self.tasks.push(Task { replaced, batch: BucketBatch::default(), may_append: false });
    }

    /// Writes one task's buckets.
    fn write(&self, task: Task) -> Result<(Pending, Vec<OwnedBound>)> {
        match self.append(&task)? {
            Some(pending) => Ok((pending, Vec::new())),
            None => self.rewrite(task),
        }
    }

    /// Appends to a bucket, if it takes one chunk more.
    fn append(&self, task: &Task) -> Result<Option<Pending>> {
        let position = task.replaced.first().filter(|_| task.may_append);
        let bucket = position.and_then(|position| self.directory.at(*position));
        let Some(bucket) = bucket else { return Ok(None) };
        let groups = task.batch.groups()?;
        let appended = bucket.append(&Append {
            groups: &groups,
            ranges: &task.batch.ranges,
            capacity_bytes: self.store.limits.capacity_bytes,
            purpose: self.purpose,
        })?;
        let Ok(unsynced) = appended else { return Ok(None) };
        mark!("bucket_appended");
        Ok(Some(Pending::Appended(bucket.info().clone(), unsynced)))
    }

    /// Rewrites neighbours together with what a flush has for them; tells the keys whose operands
    /// should be applied to their values.
    fn rewrite(&self, task: Task) -> Result<(Pending, Vec<OwnedBound>)> {
        let Task { replaced, batch, .. } = task;
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
        // Others may split or merge at the same time: one bucket more or less does no harm.
        let others = self.buckets.load(Ordering::Acquire).saturating_sub(buckets.len());
        // Neighbours that become one are not begun with, even if there is no other.
        let beside = others.max(usize::from(buckets.len() > 1));
        let sizes: Vec<u64> = living.keys.iter().map(|key| key.bytes()).collect();
        let limits = &self.store.limits;
        let long = outcome(&sizes, beside, limits, true).fold;
        let mut to_fold: Vec<OwnedBound> = long
            .into_iter()
            .filter_map(|number| Some(living.keys.get(number)?.bound.clone()))
            .collect();
        let strays = living.keys.iter().filter(|key| key.has_strays());
        to_fold.extend(strays.map(|key| key.bound.clone()));
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
        self.buckets.fetch_add(count.wrapping_sub(buckets.len()), Ordering::AcqRel);
        Ok((Pending::Written(written), to_fold))
    }

    /// Does all of it, as many buckets at a time as there are threads, and makes it durable, more
    /// at a time; the edit is still to be.
    pub(crate) fn finish(mut self) -> Result<Done> {
        let executor = &*self.store.context.io.executor;
        let mut tasks = std::mem::take(&mut self.tasks).into_iter();
        let snapshots = self.verdicts.snapshots.to_vec();
        let (mut done, mut has_names) = (Done { snapshots, ..Done::default() }, false);
        loop {
            let some: Vec<Task> = tasks.by_ref().take(SYNCED_TOGETHER).collect();
            if some.is_empty() {
                break;
            }
            let lanes = executor.parallelism();
            let fork_join = |parts: Parts<'_>| executor.fork_join(parts);
            let written = side_by_side(some, lanes, &fork_join, &|task| self.write(task))?;
            let (pending, to_fold): (Vec<_>, Vec<_>) = written.into_iter().unzip();
            let fork_join = |parts: Parts<'_>| executor.fork_join_waits(parts);
            let synced = side_by_side(pending, WAITS_MAX, &fork_join, &Pending::sync)?;
            for mut synced in synced {
                has_names |= synced.has_names;
                done.made.append(&mut synced.buckets);
                done.edits.extend(synced.edit);
            }
            done.to_fold.extend(to_fold.into_iter().flatten());
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
        store.replace_directory(changed.settle(), &self.made, &self.snapshots);
        store.ask_to_fold(self.to_fold);
    }
}
