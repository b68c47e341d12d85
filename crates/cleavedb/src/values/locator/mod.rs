//! The compact locator: from key to the place of its newest flushed separated version, in 8 bytes
//! an entry, without keys.
//!
//! Owned by the engine; any thread. It is an accelerator: it may be wrong by omission, never by
//! answer. What it hands out are *candidates*; the reader takes one only if the record at that
//! place proves to be of the keyspace and key asked for, and of a seq that its view sees. Whatever
//! is missing, the index knows. The caller computes [`LocatorKey::hash`] once.
//!
//! Duties of the callers, which nothing here can check:
//! LO-1 a flush touches *every* key of its memtable that has a put or a delete, before its index
//!      is published, and [`FlushTouches::publish`] comes after that. One that fails repeats all
//!      its touches before its memtable goes;
//! LO-2 a reader takes its [`Note`] before its view, and offers the newest *flushed* version of its
//!      view, not the one that its snapshot sees;
//! LO-3 numbers of containers are never reused, and ascend (rule R17);
//! LO-4 each manifest edit with touches raises the [`Generation`] by one; edits are published in
//!      the manifest's order;
//! LO-5 whatever else takes a key's newest version away (range deletes, filters) does so by a
//!      touch, or by a [`Locator::swing`] to nothing and a raised generation.

mod chain;
pub(crate) mod checkpoint;
pub(crate) mod dump;
mod guards;
#[cfg(test)]
mod model;
pub(crate) mod place;
mod shard;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod side;
pub(crate) mod table;

use std::ops::Deref;

use crossbeam_utils::CachePadded;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::sync::RwLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::values::locator::guards::{Guard, Guards};
use crate::values::locator::place::{Place, WINDOW_BITS};
use crate::values::locator::shard::{Image, Shard, Touch};
use crate::values::locator::table::Shape;

/// Most shards: a flush notes in one word which it has touched.
const SHARD_BITS_MAX: u32 = 6;

/// Candidates handed out for a key; more matches than that are as good as none.
const CANDIDATES_MAX: usize = 4;

/// Sizes of a locator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Shards, as a power of two: 1 to 6.
    pub(crate) shard_bits: u32,
    /// Sizes of the tables.
    pub(crate) shape: Shape,
    /// Bits of a container's number in its window: at most 20.
    pub(crate) window_bits: u32,
    /// Most entries of a shard; from then on each new one pushes another one out.
    pub(crate) entries_max: usize,
    /// Most bytes of a shard's side map.
    pub(crate) side_bytes_max: usize,
    /// Most links of a shard's chains.
    pub(crate) links_max: usize,
    /// Most touches that a shard keeps while it waits for its checkpoint.
    pub(crate) late_touches_max: usize,
    /// Which rules hold.
    pub(crate) guards: Guards,
}

impl Settings {
    /// What a database uses that gives its locator so many bytes: nine tenths for entries, at what
    /// they take on average with everything, the rest for what goes beside them.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn for_budget(bytes_max: u64) -> Self {
        Self::for_shards(bytes_max, SHARD_BITS_MAX)
    }

    /// The same with fewer shards.
    pub(crate) fn for_shards(bytes_max: u64, shard_bits: u32) -> Self {
        let shard_bytes = usize::try_from(bytes_max >> shard_bits).unwrap_or(usize::MAX);
        let shard_bytes = shard_bytes.saturating_sub(size_of::<CachePadded<Slot>>());
        let beside_bytes = shard_bytes / 30;
        Self {
            shard_bits,
            shape: Shape::USUAL,
            window_bits: WINDOW_BITS,
            entries_max: shard_bytes / 10,
            side_bytes_max: beside_bytes,
            links_max: beside_bytes / 192,
            // A third: as long as they are kept there is no table.
            late_touches_max: shard_bytes / 96,
            guards: Guards::default(),
        }
    }
}

/// How many edits with touches of the locator there have been. A checkpoint counts these, not
/// seqs: keyspaces are flushed apart, so an edit may have smaller seqs than the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(pub(crate) u64);

/// A key as the locator takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatorKey<'a> {
    /// Where the key lives.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// `KeyedHash` of both.
    pub(crate) hash: u64,
}

/// A shard's version before a reader took its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note(u64);

/// What a reader found at a candidate's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its view has no such container any more.
    Gone,
    /// The record of another key.
    OtherKey,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// In the table, where nothing matched.
    Inserted,
    /// In the place of what the reader met and found gone.
    OverGone,
    /// In the side map, for what matches is another key's.
    Beside,
    /// Not taken.
    Refused(Refusal),
}

/// Why an offer was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A flush had touched the shard and was not published when the reader took its note.
    Odd,
    /// A flush touched the shard since.
    Changed,
    /// The shard waits for its checkpoint.
    Waiting,
    /// Something matches that the reader did not read.
    Unverified,
    /// What the reader takes for gone is of a newer container than what it offers.
    Newer,
    /// The side map holds the key.
    HasHome,
    /// Nothing can name the place, or the side map is too small.
    NoRoom,
}

/// Places at which a key's record may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidates {
    places: [Option<Place>; CANDIDATES_MAX],
}

impl Candidates {
    fn push(&mut self, place: Place) {
        if let Some(free) = self.places.iter_mut().find(|free| free.is_none()) {
            *free = Some(place);
        }
    }

    /// The places; none, as a rule one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Place> {
        self.places.iter().copied().flatten()
    }
}

struct Slot {
    /// The shard's version (LH-2), changed under its lock.
    version: AtomicU64,
    shard: RwLock<Shard>,
}

/// The locator.
pub(crate) struct Locator {
    slots: Vec<CachePadded<Slot>>,
    settings: Settings,
    opened: Generation,
    published: AtomicU64,
}

/// What a locator holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Entries of the tables.
    pub(crate) entries: u64,
    /// Pages of the tables.
    pub(crate) pages: u64,
    /// Keys in side maps.
    pub(crate) beside: u64,
    /// Links of chains.
    pub(crate) links: u64,
    /// Bytes of it all.
    pub(crate) bytes: u64,
    /// Shards that wait for their checkpoint.
    pub(crate) waiting: u64,
    /// Entries dropped because too few bits of their hash were known.
    pub(crate) dropped: u64,
    /// Entries, keys beside and links that went for others.
    pub(crate) evicted: [u64; 3],
    /// Windows of container numbers used up, counted by shard.
    pub(crate) rolls: u64,
    /// Touches with more than one match.
    pub(crate) several_matches: u64,
}

impl Locator {
    /// An empty locator of a database that is at this generation.
    pub(crate) fn new(settings: Settings, generation: Generation) -> Self {
        Self::with_shards(settings, generation, false)
    }

    /// The locator of a database that was opened at this generation: every shard waits for its
    /// checkpoint ([`Locator::load_shard`]) and misses until then.
    pub(crate) fn restored(settings: Settings, generation: Generation) -> Self {
        Self::with_shards(settings, generation, true)
    }

    fn with_shards(settings: Settings, opened: Generation, is_waiting: bool) -> Self {
        debug_assert!((1..=SHARD_BITS_MAX).contains(&settings.shard_bits));
        let slot = |_| {
            let shard = RwLock::new(Shard::new(&settings, is_waiting));
            CachePadded::new(Slot { version: AtomicU64::new(0), shard })
        };
        let slots = (0..1usize << settings.shard_bits).map(slot).collect();
        Self { slots, settings, opened, published: AtomicU64::new(opened.0) }
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a hash, its number, and the bits of the hash that its table goes by.
    #[inline]
    fn slot(&self, hash: u64) -> (&Slot, usize, u64) {
        let number = (hash >> (64 - self.settings.shard_bits)) as usize;
        #[expect(clippy::indexing_slicing, reason = "there are 2^shard_bits slots")]
        (&self.slots[number], number, hash << self.settings.shard_bits)
    }

    /// Where the key's newest flushed separated version may be.
    #[inline]
    pub(crate) fn lookup(&self, key: &LocatorKey<'_>) -> Candidates {
        let (slot, _, hash) = self.slot(key.hash);
        slot.shard.read().candidates(key, hash)
    }

    /// Where the version may be that a snapshot sees, if that one was superseded meanwhile: the
    /// record's seq must not be above the snapshot.
    pub(crate) fn links(&self, key: &LocatorKey<'_>, snapshot: Seq) -> Candidates {
        self.slot(key.hash).0.shard.read().links(key, snapshot, &self.settings)
    }

    /// What a reader that may offer something takes before its view (LO-2).
    ///
    /// What a look-up reads is on its way from here on.
    #[inline]
    pub(crate) fn note(&self, key: &LocatorKey<'_>) -> Note {
        let (slot, _, hash) = self.slot(key.hash);
        let note = Note(slot.version.load(Ordering::Acquire));
        if let Some(shard) = slot.shard.try_read() {
            shard.table.prefetch(hash);
        }
        note
    }

    /// Takes in where the index of the reader's view has the newest flushed version of a key, if
    /// that is certain to be so still. `met` are the candidates that the reader was given and did
    /// not find to be the key's.
    pub(crate) fn offer(
        &self,
        key: &LocatorKey<'_>,
        note: Note,
        place: Place,
        met: &[(Place, Verdict)],
    ) -> Offer {
        let (slot, _, hash) = self.slot(key.hash);
        let mut shard = slot.shard.write();
        if self.settings.guards.hold(Guard::ShardVersion) {
            if note.0 % 2 == 1 {
                return Offer::Refused(Refusal::Odd);
            }
            if note.0 != slot.version.load(Ordering::Acquire) {
                return Offer::Refused(Refusal::Changed);
            }
        }
        shard.offer(key, hash, place, met, &self.settings)
    }

    /// A record was moved, after the edit that says so: what names exactly the old place names the
    /// new one; nothing, if an entry cannot name that. Returns whether anything did.
    pub(crate) fn swing(&self, key: &LocatorKey<'_>, old: &Place, new: Option<Place>) -> bool {
        let (slot, _, hash) = self.slot(key.hash);
        slot.shard.write().swing(key, hash, old, new, &self.settings)
    }

    /// Begins the touches of a flush whose memtable was frozen before the oldest live snapshot was
    /// asked for (rule R4).
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn begin_flush(&self, oldest_snapshot: Option<Seq>) -> FlushTouches<&Self> {
        FlushTouches::begin(self, oldest_snapshot)
    }

    /// Drops the links of chains that no live snapshot needs.
    pub(crate) fn prune_chains(&self, oldest_snapshot: Option<Seq>) {
        for slot in &self.slots {
            slot.shard.write().chains().prune(oldest_snapshot);
        }
    }

    /// Forgets everything, also what is waited for.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            slot.shard.write().clear();
        }
    }

    /// Ends a shard's wait: with this checkpoint, if it is valid, or without one. What flushes
    /// touched meanwhile is repeated. Returns whether the checkpoint was taken.
    pub(crate) fn load_shard(&self, number: usize, image: Option<Image>) -> bool {
        let Some(slot) = self.slots.get(number) else { return false };
        slot.shard.write().load(image, self.opened, &self.settings)
    }

    /// What it holds and has done.
    pub(crate) fn figures(&self) -> Figures {
        let mut sum = Figures::default();
        for slot in &self.slots {
            let mut shard = slot.shard.write();
            let counts = shard.counts();
            sum.entries += shard.table.len() as u64;
            sum.pages += shard.table.pages() as u64;
            sum.dropped += shard.table.dropped();
            sum.beside += shard.side().len() as u64;
            sum.waiting += u64::from(shard.is_waiting());
            sum.bytes += (shard.bytes() + size_of::<CachePadded<Slot>>()) as u64;
            sum.rolls += counts.rolls;
            sum.several_matches += counts.several_matches;
            let beside = shard.side().evicted();
            let chains = shard.chains();
            sum.links += chains.len() as u64;
            let evicted = [counts.evicted, beside, chains.evicted()];
            sum.evicted.iter_mut().zip(evicted).for_each(|(sum, more)| *sum += more);
        }
        sum
    }

    /// A flush that touches a shard begins, or ends.
    fn turn(slot: &Slot, shard: &mut Shard, is_begin: bool) {
        let version = slot.version.load(Ordering::Relaxed);
        slot.version.store(shard.turn(version, is_begin), Ordering::Release);
    }
}

/// A flush's touches, from the first one until its index is published (LO-1). Dropped before that,
/// the flush has failed: its places stay, for they hold what its memtable holds. `L` borrows the
/// locator or shares it.
pub(crate) struct FlushTouches<L: Deref<Target = Locator>> {
    locator: L,
    /// Shards touched, one bit each.
    touched: u64,
    oldest_snapshot: Option<Seq>,
}

impl<L: Deref<Target = Locator>> FlushTouches<L> {
    /// [`Locator::begin_flush`] for whoever keeps the touches beside the locator.
    pub(crate) fn begin(locator: L, oldest_snapshot: Option<Seq>) -> Self {
        Self { locator, touched: 0, oldest_snapshot }
    }

    /// Replaces what may be the key's with the place of its separated value, or takes it out, for
    /// an inline value, a delete, and a place that an entry cannot name. `superseding` is the
    /// smallest seq of the key in the flush. What was replaced is added to `replaced`: versions of
    /// the key in these containers are superseded by that seq, which is true even if none is there.
    pub(crate) fn touch(
        &mut self,
        key: &LocatorKey<'_>,
        place: Option<Place>,
        superseding: Seq,
        replaced: &mut Vec<Place>,
    ) {
        let settings = &self.locator.settings;
        if place.is_none() && !settings.guards.hold(Guard::RemoveTouches) {
            return;
        }
        let (slot, number, hash) = self.locator.slot(key.hash);
        let mut shard = slot.shard.write();
        if self.touched >> number & 1 == 0 {
            self.touched |= 1 << number;
            Locator::turn(slot, &mut shard, true);
        }
        let has_older_snapshot = self.oldest_snapshot.is_some_and(|oldest| oldest < superseding);
        let touch = Touch { place, superseding, has_older_snapshot };
        shard.touch(key, hash, touch, settings, replaced);
        if !settings.guards.hold(Guard::OddUntilPublished) {
            self.touched = 0;
            Locator::turn(slot, &mut shard, false);
        }
    }

    /// The flush's index is published, by the edit that made this generation.
    pub(crate) fn publish(self, generation: Generation) {
        self.locator.published.fetch_max(generation.0, Ordering::AcqRel);
    }
}

impl<L: Deref<Target = Locator>> Drop for FlushTouches<L> {
    fn drop(&mut self) {
        for (number, slot) in self.locator.slots.iter().enumerate() {
            if self.touched >> number & 1 == 1 {
                Locator::turn(slot, &mut slot.shard.write(), false);
            }
        }
    }
}

#[cfg(test)]
mod tests;
