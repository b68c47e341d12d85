//! The exact map of the strategy `wayfinder`: from every key whose newest flushed version is
//! separated to that version's seq and place, with full keys, so that the index needs neither value
//! nor handle and a get needs one read.
//!
//! Owned by the engine; any thread. A lookup is one lock for reading, one probe, no allocation.
//! Where the locator may be wrong by omission, the map never is: an entry of the index without
//! handle (*bare*) is in the map, table or chains, for as long as somebody may see it, or the key
//! was refused for want of room and has its handle in the index. The caller computes
//! [`LocatorKey::hash`] once, with the database's `KeyedHash`.
//!
//! Invariants, with those of the shards (MH-1 to MH-3):
//! MM-1 for each live snapshot S and each key of which the index has a bare entry as its newest
//!      base at or below S, a lookup at S finds exactly that version, from the moment on that the
//!      index is published, unless the shard waits;
//! MM-2 what a lookup at S finds is the newest flushed version at or below S; what it does not find
//!      is not bare in any index that S may be asked of, but where a memtable decides;
//! MM-3 a version named at a place stands there, or the map names another place by the time that
//!      its container is gone;
//! MM-4 a checkpoint holds all touches and swings of the edits up to its generation and no others.
//!
//! Duties of the callers, which nothing here can check:
//! MO-1 a flush freezes its memtable, asks for the live snapshots after that (rule R4), syncs both
//!      lanes through its last seq (R10), then touches every key that has a put or a delete, with
//!      all of them, then commits its edit, then publishes the index, then
//!      [`FlushTouches::publish`]; of a key that was [taken](Touched::Taken), separated versions go
//!      bare into the index, of one without room with their handles. One that fails goes on with
//!      [`FlushTouches::again`];
//! MO-2 a read registers its snapshot before it takes its view (R12), asks the view's memtables,
//!      then the map, then, told [`Answer::Absent`], the view's index. A place whose container is
//!      gone is looked up again;
//! MO-3 numbers of containers are never reused (R17);
//! MO-4 each manifest edit with touches, moves or forgets raises the [`Generation`] by one; edits
//!      are published in the manifest's order;
//! MO-5 GC takes a container only if all of it is flushed (R9), and if it is not the target of
//!      moves that are not published. It asks [`Map::holds`] of each record, begins its [`Moves`]
//!      before its edit, swings each record after that, and lets go of the old containers at last;
//! MO-6 whatever else takes a key's newest version away (range deletes, filters) forgets it between
//!      its edit and the publication of its index, under [`Moves`]; until then, who is told of a
//!      version compares its seq with range tombstones, and with merge operands in the index. The
//!      edit of a drop is one that forgets;
//! MO-7 a rebuild scans the index as it was opened, before anything is flushed into it, and shadows
//!      every key of which the replayed log has a put or delete.

pub(crate) mod checkpoint;
mod guards;
#[cfg(test)]
mod model;
mod page;
pub(crate) mod place;
pub(crate) mod rebuild;
mod shard;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
pub(crate) mod table;

use std::ops::Deref;

use crossbeam_utils::CachePadded;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::sync::RwLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::guards::{Guard, Guards};
use crate::values::map::place::{Place, Snapshots, Version};
use crate::values::map::shard::{Image, Shard};
use crate::values::map::table::{Hashing, Shape};

/// Most shards: a flush notes in one word which it has touched.
const SHARD_BITS_MAX: u32 = 6;

/// Sizes of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Shards, as a power of two: 1 to 6.
    pub(crate) shard_bits: u32,
    /// Sizes of the tables.
    pub(crate) shape: Shape,
    /// Bytes of a shard beyond which it takes no new keys. What it has to take, it takes: new
    /// places of keys that are there, versions that snapshots need, what is loaded.
    pub(crate) bytes_max: usize,
    /// Which rules hold.
    pub(crate) guards: Guards,
}

impl Settings {
    /// What a database uses that gives its map so many bytes.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn for_budget(bytes_max: u64) -> Self {
        Self::for_shards(bytes_max, SHARD_BITS_MAX)
    }

    /// So many bytes for so many shards, as a power of two.
    pub(crate) fn for_shards(bytes_max: u64, shard_bits: u32) -> Self {
        let shard_bits = shard_bits.clamp(1, SHARD_BITS_MAX);
        let shard_bytes = usize::try_from(bytes_max >> shard_bits).unwrap_or(usize::MAX);
        Self {
            shard_bits,
            shape: Shape::USUAL,
            bytes_max: shard_bytes.saturating_sub(size_of::<CachePadded<RwLock<Shard>>>()),
            guards: Guards::default(),
        }
    }
}

/// What the map says of a key at a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The newest flushed version at or below it.
    Found(Version),
    /// Nothing is in the map, so the index is to be asked. From `since` on the key has had no bare
    /// version: an entry of the index that decides it there is not older than that.
    Absent {
        /// 0: nothing is known of.
        since: Seq,
    },
    /// The shard is not loaded yet.
    Waiting,
}

/// A put or delete of a key in a memtable that is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Where its separated value stands; `None` for all else.
    pub(crate) place: Option<Place>,
}

/// How the flush is to write the key's separated versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a key that was not taken needs its handles in the index"]
pub(crate) enum Touched {
    /// Bare: the map has them.
    Taken,
    /// With their handles: the map has no room for a new key.
    NoRoom,
}

/// A version that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// Where its record stands.
    pub(crate) place: Place,
    /// Whether it was its key's newest one.
    pub(crate) is_newest: bool,
}

/// What named a record that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swung {
    /// Its key's newest version.
    Newest,
    /// A superseded version only.
    Superseded,
    /// Nothing: the record is dead.
    Nothing,
}

/// What a record is to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The key's newest flushed version.
    Newest,
    /// A version that was superseded, and may be needed.
    Superseded {
        /// Its seq.
        seq: Seq,
        /// The seq that superseded it.
        until: Seq,
    },
    /// Nothing: dead, unless the index has its handle.
    Not,
    /// Not known: the shard is not loaded yet.
    Waiting,
}

/// The map.
pub(crate) struct Map {
    shards: Vec<CachePadded<RwLock<Shard>>>,
    settings: Settings,
    hashing: Hashing,
    opened: Generation,
    published: AtomicU64,
    /// Moves that are not published (MM-4).
    open_moves: AtomicU64,
}

/// What a map holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Keys in it.
    pub(crate) keys: u64,
    /// Bytes of these.
    pub(crate) key_bytes: u64,
    /// Superseded versions in chains.
    pub(crate) links: u64,
    /// Pages of the tables.
    pub(crate) pages: u64,
    /// Bytes that it has allocated, exactly.
    pub(crate) bytes: u64,
    /// Shards that are not loaded yet.
    pub(crate) waiting: u64,
    /// New keys refused for want of room.
    pub(crate) refused: u64,
}

impl Figures {
    /// Bytes that a key takes on average, with everything, beyond its own.
    pub(crate) fn overhead_bytes(&self) -> f64 {
        self.bytes.saturating_sub(self.key_bytes) as f64 / self.keys.max(1) as f64
    }
}

impl Map {
    /// The empty map of a database that has no bare entries and is at this generation.
    pub(crate) fn new(settings: Settings, hash: KeyedHash, generation: Generation) -> Self {
        Self::with_shards(settings, hash, generation, false)
    }

    /// The map of a database that was opened at this generation: every shard waits for its
    /// checkpoint ([`Map::load_section`]) or a rebuild ([`rebuild::Rebuild`]).
    pub(crate) fn restored(settings: Settings, hash: KeyedHash, generation: Generation) -> Self {
        Self::with_shards(settings, hash, generation, true)
    }

    fn with_shards(
        settings: Settings,
        keyed: KeyedHash,
        opened: Generation,
        is_waiting: bool,
    ) -> Self {
        debug_assert!((1..=SHARD_BITS_MAX).contains(&settings.shard_bits));
        let hashing = Hashing { keyed, shard_bits: settings.shard_bits };
        let shard = |_| CachePadded::new(RwLock::new(Shard::new(&settings, hashing, is_waiting)));
        let shards = (0..1usize << settings.shard_bits).map(shard).collect();
        let (published, open_moves) = (AtomicU64::new(opened.0), AtomicU64::new(0));
        Self { shards, settings, hashing, opened, published, open_moves }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    #[inline]
    fn shard(&self, hash: u64) -> (&RwLock<Shard>, usize) {
        let number = self.hashing.shard(hash);
        #[expect(clippy::indexing_slicing, reason = "there are 2^shard_bits shards")]
        (&self.shards[number], number)
    }

    /// The newest flushed version of a key that a snapshot sees, which must be registered (MO-2).
    #[inline]
    pub(crate) fn lookup(&self, key: &LocatorKey<'_>, snapshot: Seq) -> Answer {
        self.shard(key.hash).0.read().lookup(key, snapshot, self.settings.guards)
    }

    /// Begins the touches of a flush; these are the snapshots that were live after its memtable
    /// was frozen (MO-1).
    pub(crate) fn begin_flush(&self, snapshots: Snapshots) -> FlushTouches<&Self> {
        FlushTouches::begin(self, snapshots)
    }

    /// Begins to move or forget versions, before the edit that says so; `None` while a shard waits.
    pub(crate) fn begin_moves(&self) -> Option<Moves<&Self>> {
        Moves::begin(self)
    }

    /// Whether a record of a key is still needed (MO-5): as its newest version, or as one that a
    /// live snapshot sees. `snapshots` is asked for these after the map has been looked into
    /// (rule R23): one that is older and is registered only then was not needed before.
    pub(crate) fn holds(
        &self,
        key: &LocatorKey<'_>,
        place: &Place,
        snapshots: impl FnOnce() -> Snapshots,
    ) -> Held {
        if !self.settings.guards.hold(Guard::SnapshotsAfterMap) {
            let early = snapshots();
            return self.held(key, place).unless(|seq, until| !early.need(seq, until));
        }
        let held = self.held(key, place);
        held.unless(|seq, until| !snapshots().need(seq, until))
    }

    fn held(&self, key: &LocatorKey<'_>, place: &Place) -> Held {
        self.shard(key.hash).0.read().held(key, place)
    }

    /// Forgets the keys of keyspaces that are gone; tells where their newest versions stand.
    pub(crate) fn forget_keyspaces(
        &self,
        is_gone: &dyn Fn(KeyspaceId) -> bool,
        gone: &mut dyn FnMut(&Place),
    ) {
        self.shards.iter().for_each(|shard| shard.write().forget_keyspaces(is_gone, gone));
    }

    /// Tells where the newest version of every key stands.
    pub(crate) fn each_newest(&self, seen: &mut dyn FnMut(&Place)) {
        for shard in &self.shards {
            shard.read().table().iter().for_each(|entry| seen(&entry.value.place));
        }
    }

    /// Drops superseded versions that no live snapshot needs: only their memory is at stake.
    pub(crate) fn prune_chains(&self, snapshots: &Snapshots) {
        self.shards.iter().for_each(|shard| shard.write().prune(snapshots));
    }

    /// Ends a shard's wait with the table of a rebuild or a checkpoint, if that is of the
    /// generation that the database was opened at. Returns whether it was.
    pub(crate) fn load_shard(&self, number: usize, image: Image) -> bool {
        let Some(shard) = self.shards.get(number) else { return false };
        shard.write().load(image, self.opened, self.settings.guards)
    }

    /// Whether some shard is not loaded yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.shards.iter().any(|shard| shard.read().is_waiting())
    }

    /// Bytes that it has allocated.
    pub(crate) fn bytes(&self) -> u64 {
        self.figures().bytes
    }

    /// What it holds and has done.
    pub(crate) fn figures(&self) -> Figures {
        let own = self.shards.capacity() * size_of::<CachePadded<RwLock<Shard>>>();
        let mut sum = Figures { bytes: own as u64, ..Figures::default() };
        for shard in &self.shards {
            let shard = shard.read();
            sum.keys += shard.table().len() as u64;
            sum.key_bytes += shard.table().key_bytes() as u64;
            sum.links += shard.chains().len() as u64;
            sum.pages += shard.table().pages() as u64;
            sum.bytes += shard.bytes() as u64;
            sum.waiting += u64::from(shard.is_waiting());
            sum.refused += shard.refused();
        }
        sum
    }

    fn publish(&self, generation: Generation) {
        self.published.fetch_max(generation.0, Ordering::AcqRel);
    }
}

impl Held {
    /// Nothing, if it is superseded and this says that it is not needed.
    fn unless(self, is_needless: impl FnOnce(Seq, Seq) -> bool) -> Self {
        match self {
            Self::Superseded { seq, until } if is_needless(seq, until) => Self::Not,
            held => held,
        }
    }
}

/// A flush's touches, from the first one until its index is published (MO-1). Dropped before that,
/// the shards that it touched go into no checkpoint any more. `M` borrows the map or shares it.
pub(crate) struct FlushTouches<M: Deref<Target = Map>> {
    map: M,
    /// Shards touched, one bit each.
    touched: u64,
    snapshots: Snapshots,
}

impl<M: Deref<Target = Map>> FlushTouches<M> {
    /// [`Map::begin_flush`] for whoever keeps the touches beside the map.
    pub(crate) fn begin(map: M, snapshots: Snapshots) -> Self {
        Self { map, touched: 0, snapshots }
    }

    /// The flush failed, and all of it is done again: every key of its memtable.
    pub(crate) fn again(&mut self, snapshots: Snapshots) {
        self.snapshots = snapshots;
    }

    /// Puts a key's versions, ascending by seq, in the place of what the map has of it; the last
    /// one is its newest from here on. Merge operands are no versions. The place of what was
    /// the newest is added to `replaced`: a record that is garbage but for snapshots.
    pub(crate) fn touch(
        &mut self,
        key: &LocatorKey<'_>,
        versions: &[Flushed],
        replaced: &mut Vec<Place>,
    ) -> Touched {
        debug_assert!(versions.is_sorted_by(|a, b| a.seq < b.seq), "ascending");
        let settings = &self.map.settings;
        let (shard, number) = self.map.shard(key.hash);
        let mut shard = shard.write();
        if self.touched >> number & 1 == 0 {
            self.touched |= 1 << number;
            shard.open();
        }
        shard.touch(key, versions, &self.snapshots, settings, replaced)
    }

    /// The flush's index is published, by the edit that made this generation.
    pub(crate) fn publish(self, generation: Generation) {
        self.map.publish(generation);
        for (number, shard) in self.map.shards.iter().enumerate() {
            if self.touched >> number & 1 == 1 {
                shard.write().close();
            }
        }
    }
}

/// Moves of records and versions forgotten, of one edit (MO-5, MO-6). Dropped before they are
/// published, nothing goes into a checkpoint any more. `M` borrows the map or shares it.
pub(crate) struct Moves<M: Deref<Target = Map>> {
    map: M,
}

impl<M: Deref<Target = Map>> Moves<M> {
    /// [`Map::begin_moves`] for whoever keeps them beside the map.
    pub(crate) fn begin(map: M) -> Option<Self> {
        if map.is_waiting() {
            return None;
        }
        map.open_moves.fetch_add(1, Ordering::AcqRel);
        Some(Self { map })
    }

    /// A record was moved, after the edit that says so: what names exactly the old place names the
    /// new one.
    pub(crate) fn swing(&self, key: &LocatorKey<'_>, old: &Place, new: Place) -> Swung {
        let shard = self.map.shard(key.hash).0;
        shard.write().swing(key, old, new, self.map.settings.guards)
    }

    /// The key's version of that seq goes without a successor, and nobody sees it (MO-6).
    pub(crate) fn forget(&self, key: &LocatorKey<'_>, seq: Seq) -> Option<Forgotten> {
        self.map.shard(key.hash).0.write().forget(key, seq)
    }

    /// Every record of the edit that made this generation was swung, every version forgotten.
    pub(crate) fn publish(self, generation: Generation) {
        self.map.publish(generation);
        self.map.open_moves.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
