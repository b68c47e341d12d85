//! Collection of buckets between flushes: those of a range that somebody asks to compact, those
//! that the next flush would find full, those that may have lost much while there are more than
//! there should be, those of keyspaces that were dropped, those that are too long for what
//! snapshots keep, and neighbours that one bucket has room for, where there are many.
//!
//! Runs in the turn of flushes, when no memtable waits; a few buckets at a time, so that none waits
//! long.

use std::collections::BTreeMap;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::collect::{Limits, pick_merge};
use crate::deltas::directory::{Directory, Position};
use crate::deltas::record::{Bound, OwnedBound};
use crate::engine::Engine;
use crate::engine::deltas::DeltaStore;
use crate::engine::deltas::work::{Verdicts, Work};
use crate::engine::state::{Draft, Publication};
use crate::index::KeyRange;
use crate::io::Purpose;

/// Buckets that are collected in one edit.
const BUCKETS_MAX: usize = 16;

/// Whether the next append will hardly fit, and something was appended.
fn is_nearly_full(info: &BucketInfo, limits: &Limits) -> bool {
    u64::from(info.bytes) > limits.capacity_bytes / 10 * 9 && info.bytes > info.sorted_bytes
}

/// Ranges of keys whose buckets somebody waits for.
#[derive(Default)]
pub(super) struct Requests {
    last: u64,
    waiting: BTreeMap<u64, Request>,
}

/// What is left of such a range.
#[derive(Clone)]
struct Request {
    from: OwnedBound,
    end: OwnedBound,
}

/// Buckets to collect, each run of neighbours one task and none twice, and what that settles once
/// it is done.
#[derive(Default)]
struct Due {
    runs: Vec<Vec<Position>>,
    /// Of the request of this number so much is left, if anything.
    request: Option<(u64, Option<OwnedBound>)>,
    /// Beginnings of dropped keyspaces, or of what is left of them, that these buckets cover.
    gone: Vec<OwnedBound>,
    /// Where the last of them goes on.
    gone_next: Option<OwnedBound>,
}

impl Due {
    /// Takes one more bucket along. Keyspaces may share one, so that it may be there already.
    fn add(&mut self, position: Position) {
        if !self.runs.iter().any(|run| run.contains(&position)) {
            self.runs.push(vec![position]);
        }
    }
}

impl DeltaStore {
    /// Whether there may be buckets to collect, whatever snapshots there are.
    fn is_collection_due(&self) -> bool {
        self.collection_due.load(Ordering::Acquire) || !self.requests.lock().waiting.is_empty()
    }

    /// Asks that the buckets of a range be collected; returns a ticket.
    pub(crate) fn request_collection(&self, keyspace: KeyspaceId, range: &KeyRange) -> u64 {
        let bound = |key: &[u8]| Bound { keyspace, key }.to_owned();
        let end = match &range.end {
            Some(end) => bound(end),
            None => beginning_of(KeyspaceId(keyspace.0.saturating_add(1))),
        };
        let from = bound(range.start.as_deref().unwrap_or_default());
        let mut requests = self.requests.lock();
        requests.last += 1;
        let ticket = requests.last;
        requests.waiting.insert(ticket, Request { from, end });
        ticket
    }

    /// Whether the request is fulfilled.
    pub(crate) fn is_collected(&self, ticket: u64) -> bool {
        !self.requests.lock().waiting.contains_key(&ticket)
    }

    /// Buckets of the oldest request that have anything to collect, as many as one step takes.
    fn of_request(&self, directory: &Directory) -> Due {
        let oldest = self.requests.lock().waiting.first_key_value().map(|(t, r)| (*t, r.clone()));
        let Some((ticket, request)) = oldest else { return Due::default() };
        let mut runs = Vec::new();
        let mut next = directory.position(request.from.as_ref());
        while let Some(position) = next {
            let Some(bucket) = directory.at(position) else { break };
            if bucket.info().start >= request.end {
                break;
            }
            if runs.len() == BUCKETS_MAX {
                let rest = Some(bucket.info().start.clone());
                return Due { runs, request: Some((ticket, rest)), ..Due::default() };
            }
            // What is sorted was collected when it was written.
            if bucket.info().bytes > bucket.info().sorted_bytes {
                runs.push(vec![position]);
            }
            next = directory.next(position);
        }
        Due { runs, request: Some((ticket, None)), ..Due::default() }
    }

    /// So much of a request has been done.
    fn settle_request(&self, (ticket, rest): (u64, Option<OwnedBound>)) {
        let mut requests = self.requests.lock();
        match rest {
            Some(from) => {
                if let Some(request) = requests.waiting.get_mut(&ticket) {
                    request.from = from;
                }
            }
            None => drop(requests.waiting.remove(&ticket)),
        }
    }

    /// Puts a directory into force. Under the manifest lock.
    pub(super) fn replace_directory(
        &self,
        directory: Directory,
        made: &[Arc<Bucket>],
        snapshots: &[Seq],
    ) {
        self.long.note(made, snapshots, &self.limits);
        self.long.retain(&directory, &self.limits);
        let is_crowded = directory.len() + 2 > self.limits.buckets_max;
        let is_full = |bucket: &Arc<Bucket>| is_nearly_full(bucket.info(), &self.limits);
        if is_crowded || made.iter().any(is_full) {
            self.collection_due.store(true, Ordering::Release);
        }
        self.directory.store(Arc::new(directory));
    }

    /// Buckets that are worth collecting, with these snapshots live.
    fn due(&self, directory: &Directory, live: &[Seq]) -> Due {
        let asked = self.of_request(directory);
        if asked.request.is_some() {
            return asked;
        }
        self.worth_collecting(directory, live)
    }

    /// Buckets that are worth collecting though nobody asks, each run of neighbours into one task.
    fn worth_collecting(&self, directory: &Directory, live: &[Seq]) -> Due {
        let mut due = self.of_dropped(directory);
        let mut next = directory.first();
        let mut positions = Vec::with_capacity(directory.len());
        // The operands of their keys are applied to the values; what that leaves has to go.
        let is_over = directory.len() > self.limits.buckets_max;
        while let Some(position) = next {
            positions.push(position);
            let bucket = directory.at(position);
            let is_worth_it = bucket.is_some_and(|bucket| {
                is_nearly_full(bucket.info(), &self.limits)
                    || is_over && bucket.has_much_new()
                    || self.long.is_due(bucket.info(), live, &self.limits)
            });
            if is_worth_it && due.runs.len() < BUCKETS_MAX {
                due.add(position);
            }
            next = directory.next(position);
        }
        if due.runs.is_empty() {
            let bytes: Vec<u64> =
                directory.iter().map(|bucket| u64::from(bucket.info().bytes)).collect();
            let left = pick_merge(&bytes, |_| false, &self.limits);
            due.runs.extend(left.and_then(|left| Some(positions.get(left..left + 2)?.to_vec())));
        }
        due
    }

    /// Buckets of dropped keyspaces, as many as one step takes.
    fn of_dropped(&self, directory: &Directory) -> Due {
        let mut due = Due::default();
        for first in self.gone.lock().iter() {
            let mut next = directory.position(first.as_ref());
            while let Some(position) = next {
                let end = directory.end_of(position).filter(|end| end.keyspace <= first.keyspace);
                due.add(position);
                next = end.and_then(|_| directory.next(position));
                if let Some(end) = end.filter(|_| due.runs.len() >= BUCKETS_MAX) {
                    due.gone.push(first.clone());
                    due.gone_next = Some(end.clone());
                    return due;
                }
            }
            due.gone.push(first.clone());
        }
        due
    }

    /// What was due has been done.
    fn settle(&self, due: Due) {
        if let Some(request) = due.request {
            self.settle_request(request);
        }
        let mut gone = self.gone.lock();
        gone.retain(|first| !due.gone.contains(first));
        gone.extend(due.gone_next);
    }
}

impl Engine {
    /// Whether there may be buckets to collect.
    pub(crate) fn is_collection_due(&self) -> bool {
        let store = &self.deltas;
        store.is_collection_due() || store.long.are_due(|| self.snapshots.stripes())
    }

    /// Collects some buckets; false if none is due.
    pub(crate) fn collect_buckets(&self) -> Result<bool> {
        let store = &self.deltas;
        if !self.is_collection_due() || self.cancelled.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.health.check_writable()?;
        let was_due = store.collection_due.swap(false, Ordering::AcqRel);
        let directory = store.directory();
        let mut due = store.due(&directory, &self.snapshots.stripes());
        if due.runs.is_empty() {
            let was_asked = due.request.is_some();
            store.settle(due);
            store.collection_due.fetch_or(was_asked && was_due, Ordering::AcqRel);
            return Ok(was_asked);
        }
        let done = self.collect_runs(&directory, std::mem::take(&mut due.runs));
        // There may be more; and what failed for want of room is due still.
        store.collection_due.store(true, Ordering::Release);
        done?;
        store.settle(due);
        Ok(true)
    }

    /// Collects these buckets and makes that known.
    fn collect_runs(&self, directory: &Directory, runs: Vec<Vec<Position>>) -> Result<()> {
        let store = &self.deltas;
        mark!("buckets_collected_between_flushes");
        // All that is in buckets is older than any snapshot that is taken from here on.
        let snapshots = self.snapshots.stripes();
        let verdicts = Verdicts { snapshots: &snapshots, keyspaces: self.living_keyspaces() };
        let (ids, purpose) = (&*self.file_ids, Purpose::Compaction);
        let mut work = Work::new(store, directory, &verdicts, ids, purpose);
        for positions in runs {
            work.collect(positions);
        }
        let done = work.finish()?;
        let draft = Draft { sections: done.section().into_iter().collect(), ..Draft::default() };
        self.commit_draft(draft, |engine| {
            engine.install_buckets(done);
            Ok(Publication { indexes: engine.bucketed_views(), flushed: None })
        })?;
        Ok(())
    }
}

/// Where the deltas of a keyspace begin.
pub(super) fn beginning_of(keyspace: KeyspaceId) -> OwnedBound {
    Bound { keyspace, key: b"" }.to_owned()
}
