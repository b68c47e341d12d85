//! The exact map at work: what flushes, compactions and collections tell it, what reads ask it, and
//! how it comes back at opening. There is one where the strategy says so; then entries of the index
//! are bare, and the map is the only way to their values.
//!
//! The duties of the map's callers (its MO-1 to MO-7) are kept here. Invariants: MG-1 the map is
//! loaded before the first read and the first collection; flushes of the log's replay may come
//! earlier. MG-2 what lives in each container is counted beside the map, from all of it when it has
//! been loaded and with each change from then on; both change under one lock, but for flushes,
//! which come one at a time. MG-3 a large value has a file of its own, and its handle in the index.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX, Seq};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex, figures};
use crate::base::widths::Widths;
use crate::engine::described::Described;
use crate::engine::settings::Settings;
use crate::engine::superseding::SupersedingShare;
use crate::values::file_table::ValueFiles;
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::place::Place;
use crate::values::map::{Answer, Figures, FlushTouches, Map, Moves, Settings as Sizes, Swung};

pub(crate) mod find;
pub(crate) mod judge;
pub(crate) mod moved;
pub(crate) mod rebuild;
pub(crate) mod touching;

/// The part of the memory budget that a map may take: beside keys of 16 bytes some 36 bytes a key.
const BUDGET_PART: u64 = 2;

/// What lives in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// Records that are their keys' newest versions.
    pub(crate) records: i64,
    /// Their bytes.
    pub(crate) bytes: i64,
}

/// Superseded records of a container that a collection kept for snapshots.
struct KeptFor {
    bytes: u64,
    snapshots: Vec<Seq>,
}

/// A container is on its way into force as long as this is there.
pub(crate) struct Arriving {
    mapping: Arc<Mapping>,
    container: FileId,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.mapping.arriving.lock().remove(&self.container);
    }
}

/// The map of an open database.
pub(crate) struct Mapping {
    /// The map.
    pub(crate) map: Arc<Map>,
    hash: KeyedHash,
    /// Edits with touches; changes under the manifest lock.
    generation: AtomicU64,
    live: Mutex<BTreeMap<FileId, Live>>,
    /// By container: as long as all these snapshots live, to collect it again would be in vain.
    kept: Mutex<BTreeMap<FileId, KeptFor>>,
    /// Bare entries of the index that flushes have superseded and no compaction has met since, as
    /// far as is known.
    dead_entries: figures::AtomicU64,
    /// What is not flushed is taken to supersede as much.
    pub(crate) superseding: SupersedingShare,
    /// The touches of a flush that failed, until it is done again.
    unfinished: Mutex<Option<FlushTouches<Arc<Map>>>>,
    /// Containers on their way into force: the map is told of what lives in them after that.
    arriving: Mutex<BTreeSet<FileId>>,
}

/// The bytes that a map may take of a memory budget.
pub(crate) fn bytes_max(memory_budget: u64) -> u64 {
    memory_budget / BUDGET_PART
}

impl Mapping {
    /// The map of a database that is being opened, where it is to have one.
    pub(crate) fn open(
        settings: &Settings,
        widths: &Widths,
        uuid: &[u8; 16],
        state: &Described,
        values: &ValueFiles,
    ) -> Option<Arc<Self>> {
        if !state.strategy.strategy().maps() {
            return None;
        }
        let sizes = Sizes::for_shards(bytes_max(settings.memory_budget), widths.locator_shard_bits);
        let (hash, saved) = (KeyedHash::new(uuid), state.locator.as_ref());
        let generation = saved.map_or(Generation(0), |saved| saved.generation);
        let map = match values.is_empty() {
            // There is no record that an entry could be of.
            true => Map::new(sizes, hash, generation),
            false => Map::restored(sizes, hash, generation),
        };
        Some(Arc::new(Self {
            map: Arc::new(map),
            hash,
            generation: AtomicU64::new(generation.0),
            live: Mutex::default(),
            kept: Mutex::default(),
            dead_entries: figures::AtomicU64::new(0),
            superseding: SupersedingShare::new(),
            unfinished: Mutex::default(),
            arriving: Mutex::default(),
        }))
    }

    /// A container is on its way into force until what is returned goes, which is to be when the
    /// map has been told of its records.
    pub(crate) fn expect(self: &Arc<Self>, container: FileId) -> Arriving {
        self.arriving.lock().insert(container);
        Arriving { mapping: Arc::clone(self), container }
    }

    /// Whether a container is on its way into force. Of one that a view has already, the map has
    /// been told if it is not.
    pub(crate) fn is_arriving(&self, container: FileId) -> bool {
        self.arriving.lock().contains(&container)
    }

    /// Whether the map names, or is about to name, records of a container.
    pub(crate) fn names(&self, container: FileId) -> bool {
        // In this order: what has just arrived is counted.
        let is_arriving = self.is_arriving(container);
        is_arriving || self.live_in(container).records > 0
    }

    /// A key as the map takes it.
    pub(crate) fn key<'a>(&self, keyspace: KeyspaceId, key: &'a [u8]) -> LocatorKey<'a> {
        LocatorKey { keyspace, key, hash: self.hash.hash(keyspace, key) }
    }

    /// The generation now. Exact under the manifest lock.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// An edit with touches is durable. Under the manifest lock.
    pub(crate) fn raise_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// What lives in a container, which has a number of its own.
    pub(crate) fn live_in(&self, container: FileId) -> Live {
        self.live.lock().get(&container).copied().unwrap_or_default()
    }

    /// What lives in all containers.
    pub(crate) fn live(&self) -> Live {
        let live = self.live.lock();
        live.values().fold(Live::default(), |sum, live| Live {
            records: sum.records + live.records,
            bytes: sum.bytes + live.bytes,
        })
    }

    /// Counts anew what lives (MG-2).
    pub(crate) fn count_anew(&self) {
        let mut live = self.live.lock();
        live.clear();
        self.map.each_newest(&mut |place| count(&mut live, place, 1));
    }

    /// Records are where these places say, or no more.
    fn count(&self, changes: &BTreeMap<FileId, Live>) {
        let mut live = self.live.lock();
        for (container, change) in changes {
            let live = live.entry(*container).or_default();
            live.records += change.records;
            live.bytes += change.bytes;
        }
    }

    /// A collection kept so many bytes of a new container for these snapshots alone. Where none is
    /// left by now, nothing keeps them any more, and none would ever go away.
    pub(crate) fn kept_for(&self, container: FileId, bytes: u64, snapshots: Vec<Seq>) {
        if bytes > 0 && !snapshots.is_empty() {
            self.kept.lock().insert(container, KeptFor { bytes, snapshots });
        }
    }

    /// Bytes of a container that live for snapshots alone, of which these are left.
    pub(crate) fn kept_in(&self, container: FileId, snapshots: &[Seq]) -> u64 {
        let kept = self.kept.lock();
        let is_left = |seq: &Seq| snapshots.binary_search(seq).is_ok();
        let kept = kept.get(&container).filter(|kept| kept.snapshots.iter().all(is_left));
        kept.map_or(0, |kept| kept.bytes)
    }

    /// So many bare entries of the index are dead.
    pub(crate) fn left_dead(&self, entries: u64) {
        self.dead_entries.fetch_add(entries, figures::Ordering::Relaxed);
    }

    /// Compaction has met so many bare entries that die.
    pub(crate) fn met_dead(&self, entries: u64) {
        let less = |dead: u64| Some(dead.saturating_sub(entries));
        let relaxed = figures::Ordering::Relaxed;
        // It always returns a number.
        let _ = self.dead_entries.fetch_update(relaxed, relaxed, less);
    }

    /// Bare entries of the index that are known to be dead.
    pub(crate) fn dead_entries(&self) -> u64 {
        self.dead_entries.load(figures::Ordering::Relaxed)
    }

    /// A record was moved, after the edit that says so.
    pub(crate) fn swing(
        &self,
        moves: &Moves<Arc<Map>>,
        key: &LocatorKey<'_>,
        from: &Place,
        to: Place,
    ) -> Swung {
        let mut live = self.live.lock();
        let swung = moves.swing(key, from, to);
        if swung == Swung::Newest {
            count(&mut live, from, -1);
            count(&mut live, &to, 1);
        }
        swung
    }

    /// Where the newest version of a key stands.
    pub(crate) fn newest_of(&self, key: &LocatorKey<'_>) -> Option<Place> {
        match self.map.lookup(key, SEQ_MAX) {
            Answer::Found(version) => Some(version.place),
            _ => None,
        }
    }

    /// Forgets the keys of a keyspace that was dropped.
    pub(crate) fn forget_keyspace(&self, keyspace: KeyspaceId) {
        self.forget_keyspaces(&|id| id == keyspace);
    }

    /// Forgets the keys of all keyspaces that are gone.
    pub(crate) fn forget_keyspaces(&self, is_gone: &dyn Fn(KeyspaceId) -> bool) {
        let mut live = self.live.lock();
        self.map.forget_keyspaces(is_gone, &mut |place| count(&mut live, place, -1));
    }

    /// Forgets the counts of containers that are gone.
    pub(crate) fn retain(&self, values: &ValueFiles) {
        let is_there = |id: FileId| values.get(id).is_some() || values.container(id).is_some();
        self.live.lock().retain(|&id, live| live.records != 0 || is_there(id));
        self.kept.lock().retain(|&id, _| is_there(id));
    }

    /// What the map holds and has done.
    pub(crate) fn figures(&self) -> Figures {
        self.map.figures()
    }
}

/// A record is the newest of its key at a place, or not any more.
fn count(live: &mut BTreeMap<FileId, Live>, place: &Place, records: i64) {
    let live = live.entry(place.container).or_default();
    live.records += records;
    live.bytes += records * i64::from(place.bytes);
}
