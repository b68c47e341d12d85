//! The delta store in the engine: keyspaces that keep their merge operands in buckets, beside an
//! index of everything else.
//!
//! One directory of buckets serves all such keyspaces. It changes with manifest edits only, under
//! the manifest lock, and a view pins it together with the indexes (rule R12): a read at any seq
//! meets each operand once. Flushes and collections of buckets take turns (B1 of the scheduler), so
//! each owns the buckets that it touches.
//!
//! Invariants: ED-1 an operand is in the index or in a bucket, never in both: the edit of a flush
//! puts it into one of them and moves the flushed seq, so a replay repeats nothing. ED-2 an index
//! beside buckets combines no operands and applies none: what lies between two of them, or between
//! one and its base, may be in a bucket. ED-3 wherever a put, a delete or a range delete goes into
//! the index while older operands may be in a bucket, an anchor goes there in the same edit; so no
//! tombstone is needed to hide them. ED-4 nothing enters an index below what is there: operands
//! leave buckets by an ordinary put of the value that they make, iff the key has not changed.

pub(crate) mod collect;
pub(crate) mod flush;
pub(crate) mod fold;
mod gather;
pub(crate) mod index;
mod long;
mod read;
pub(crate) mod work;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::checksum::KeyedHash;
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::merge_operator::SharedOperator;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::figures::Ordering::Relaxed;
use crate::base::sync::{Arc, ArcSwap, Mutex};
use crate::base::widths::Widths;
use crate::deltas::bucket::file::{DeltaContext, DeltaCounters, PAGE_BYTES};
use crate::deltas::cache::DeltaCache;
use crate::deltas::collect::Limits;
use crate::deltas::directory::Directory;
use crate::deltas::edit::DeltasEdit;
use crate::deltas::record::OwnedBound;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::settings::{Deltas, Settings};
use crate::index::IndexView;
use crate::values::file::{OpenFiles, ValueContext};

/// The part of the memory budget that the delta cache may take in any case.
const CACHE_BUDGET_PART: u64 = 16;
/// The part that it may take of what it and the block cache have together, once it fills it: what
/// is pending of a key that gets ask for is worth about as much as the value that it goes to, and
/// as long at most.
const CACHE_SHARE: u64 = 3;
/// The part of it for the directory of buckets, and for indexes and filters of those that are asked
/// for most; the others' are read again when needed.
const LOADED_BUDGET_PART: u64 = 16;
/// The part of the open files that may be buckets.
const OPEN_FILES_PART: usize = 4;

/// The buckets of a database, and what reading them takes.
pub(crate) struct DeltaStore {
    context: Arc<DeltaContext>,
    cache: DeltaCache,
    /// Bytes of the cache, if they are given.
    cache_bytes: Option<u64>,
    limits: Limits,
    loaded_bytes_max: u64,
    /// Where [`DeltaStore::trim`] goes on.
    hand: Mutex<Option<OwnedBound>>,
    /// The buckets in force; changes under the manifest lock.
    directory: ArcSwap<Directory>,
    /// Whether there may be buckets to collect; set by whatever changes the directory.
    collection_due: AtomicBool,
    /// Ranges whose buckets somebody waits for.
    requests: Mutex<collect::Requests>,
    /// Where deltas may be of keyspaces that were dropped: from each of these places to the end of
    /// its keyspace.
    gone: Mutex<BTreeSet<OwnedBound>>,
    /// Buckets of single keys that are too long.
    long: long::LongBuckets,
    /// Keys whose operands are to be applied to their values.
    to_fold: Mutex<fold::Waiting>,
}

impl DeltaStore {
    /// The buckets that these edits describe.
    pub(crate) fn open(
        values: &ValueContext,
        settings: &Settings,
        widths: &Widths,
        edits: &[DeltasEdit],
    ) -> Result<Arc<Self>> {
        let budget = settings.memory_budget;
        let context = Arc::new(DeltaContext {
            io: values.io.clone(),
            dir: values.dir.clone(),
            uuid: values.uuid,
            hash: KeyedHash::new(&values.uuid),
            obsolete: Arc::clone(&values.obsolete),
            open_files: Arc::new(OpenFiles::new(settings.open_files_max / OPEN_FILES_PART)),
            direct_reads: settings.direct_reads,
            page_bytes: PAGE_BYTES.min(widths.bucket_bytes as usize / 4),
            counters: DeltaCounters::default(),
        });
        let described = Directory::default().apply(&context, edits, &[]);
        let described = described.and_then(|changed| {
            changed.directory().check()?;
            Ok(changed)
        });
        let directory = described.map_err(|error| error.in_file(&values.dir))?.settle();
        Ok(Arc::new(Self {
            context,
            cache: DeltaCache::new(widths.deltas.cache_bytes.unwrap_or(budget / CACHE_BUDGET_PART)),
            cache_bytes: widths.deltas.cache_bytes,
            limits: Limits {
                capacity_bytes: widths.bucket_bytes,
                buckets_max: widths.buckets_max,
                split_percent: widths.deltas.split_percent,
                splits: widths.deltas.splits,
            },
            loaded_bytes_max: budget / LOADED_BUDGET_PART,
            hand: Mutex::default(),
            collection_due: AtomicBool::new(directory.len() > 0),
            directory: ArcSwap::from_pointee(directory),
            requests: Mutex::default(),
            gone: Mutex::default(),
            long: long::LongBuckets::default(),
            to_fold: Mutex::default(),
        }))
    }

    /// The buckets in force.
    pub(crate) fn directory(&self) -> Directory {
        Directory::clone(&self.directory.load())
    }

    /// The whole state as a section, for a fresh manifest.
    pub(crate) fn snapshot(&self) -> Option<Section> {
        let edits = self.directory.load().snapshot();
        (!edits.is_empty()).then(|| DeltasEdit::encode(&edits))
    }

    /// Memory of the directory, of indexes, filters and cached deltas.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.known_bytes() + self.cache.memory_bytes()
    }

    /// Memory of the directory, and of indexes and filters.
    pub(crate) fn known_bytes(&self) -> u64 {
        let directory = self.directory.load();
        directory.memory_bytes() + loaded_bytes(&directory)
    }

    /// Gives the cache its part of the `both_bytes` that it and the block cache have together, and
    /// says how much of them it may take until it is asked again. It grows as it is filled.
    pub(crate) fn share_cache(&self, both_bytes: u64, budget: u64) -> u64 {
        let (held, least) = (self.cache.memory_bytes(), budget / CACHE_BUDGET_PART);
        let most = (both_bytes / CACHE_SHARE).max(least);
        let capacity = self.cache_bytes.unwrap_or_else(|| (2 * held).clamp(least, most));
        self.cache.set_capacity(capacity);
        if held > 0 { capacity } else { 0 }
    }

    /// Gives up indexes and filters beyond what the directory leaves them of their share of the
    /// budget: a hand goes round, and what nobody has asked for since it came by last goes. Whoever
    /// needs it again has one read more.
    pub(crate) fn trim(&self) {
        let directory = self.directory.load();
        let mut held = loaded_bytes(&directory);
        let room = self.loaded_bytes_max.saturating_sub(directory.memory_bytes());
        if held <= room {
            return;
        }
        let mut hand = self.hand.lock();
        let at = hand.take().and_then(|hand| directory.position(hand.as_ref()));
        let mut next = at.or_else(|| directory.first());
        // By the second time round, what was in use at the first has been asked for or goes.
        for _ in 0..2 * directory.len() {
            if held <= room {
                break;
            }
            let Some(position) = next else { break };
            held = held.saturating_sub(directory.at(position).map_or(0, |bucket| bucket.cool()));
            next = directory.next(position).or_else(|| directory.first());
        }
        *hand = next.and_then(|next| directory.at(next)).map(|bucket| bucket.info().start.clone());
    }

    /// A keyspace was dropped: what buckets have of it can go.
    pub(crate) fn forget_keyspace(&self, id: KeyspaceId) {
        if self.directory.load().len() > 0 {
            self.gone.lock().insert(collect::beginning_of(id));
            self.collection_due.store(true, Ordering::Release);
        }
    }

    /// What statistics say.
    pub(crate) fn figures(&self) -> DeltaFigures {
        let (directory, counters) = (self.directory.load(), &self.context.counters);
        let (cache_hits, cache_misses) = self.cache.counts();
        DeltaFigures {
            buckets: directory.len() as u64,
            bytes: directory.bytes(),
            cache_hits,
            cache_misses,
            gets: counters.gets.load(Relaxed),
            loads: counters.loads.load(Relaxed),
            page_reads: counters.page_reads.load(Relaxed),
            unsorted_reads: counters.unsorted_reads.load(Relaxed),
        }
    }
}

/// Memory of indexes and filters.
fn loaded_bytes(directory: &Directory) -> u64 {
    directory.iter().map(|bucket| bucket.memory_bytes()).sum()
}

/// What statistics say of buckets.
pub(crate) struct DeltaFigures {
    /// Buckets.
    pub(crate) buckets: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
    /// Look-ups that the cache answered.
    pub(crate) cache_hits: u64,
    /// Look-ups that it did not.
    pub(crate) cache_misses: u64,
    /// Look-ups in buckets.
    pub(crate) gets: u64,
    /// Reads of index, filters and unsorted part.
    pub(crate) loads: u64,
    /// Reads of a page of a sorted part.
    pub(crate) page_reads: u64,
    /// Reads of an unsorted part, or of some of it.
    pub(crate) unsorted_reads: u64,
}

impl KeyspaceState {
    /// Whether its operands go into buckets.
    pub(crate) fn has_buckets(&self) -> bool {
        self.settings.deltas == Some(Deltas::Buckets)
    }
}

impl Engine {
    /// The operators of all keyspaces: what is not among them was dropped.
    fn living_keyspaces(&self) -> BTreeMap<KeyspaceId, Option<SharedOperator>> {
        let catalogue = self.catalogue.lock();
        catalogue.all().map(|keyspace| (keyspace.id, keyspace.operator.clone())).collect()
    }

    /// Views of all indexes with buckets beside them.
    pub(crate) fn bucketed_views(&self) -> Vec<(KeyspaceId, Option<Arc<dyn IndexView>>)> {
        let catalogue = self.catalogue.lock();
        let bucketed = catalogue.all().filter(|keyspace| keyspace.has_buckets());
        bucketed.map(|keyspace| (keyspace.id, Some(keyspace.index.view()))).collect()
    }

    /// Refuses buckets that contradict the rest of the manifest, and finds those of keyspaces that
    /// were dropped.
    pub(crate) fn check_buckets(&self) -> Result<()> {
        let (flushed, last_id) = (self.flushed(), self.catalogue.lock().last_id);
        let keyspaces = self.living_keyspaces();
        for bucket in self.deltas.directory().iter() {
            let info = bucket.info();
            if info.applied_seq > flushed || info.start.keyspace.0 > last_id {
                let message = format!(
                    "bucket {} holds seq {} of keyspace {}, but {flushed} is flushed and {last_id} \
                     the last keyspace",
                    info.id, info.applied_seq, info.start.keyspace.0
                );
                return Err(Error::corruption(message).in_file(&self.dir));
            }
            let id = info.start.keyspace;
            if id.0 != 0 && !keyspaces.contains_key(&id) {
                self.deltas.forget_keyspace(id);
            }
        }
        Ok(())
    }
}
