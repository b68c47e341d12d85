//! One shard of the locator: table, side map, chains, and what a flush has touched before the
//! shard's checkpoint was loaded.
//!
//! Owned by the locator, each under its own lock. Invariants (rules R14 to R18):
//! LH-1 a key has at most one home, table or side map; in the table, whatever matches it is removed
//!      when it is touched, so what is found for a key and proves to be its is its newest flushed
//!      version;
//! LH-2 the version is odd while a flush that touched the shard is not published, and changes with
//!      each that begins or ends;
//! LH-3 a shard that waits for its checkpoint finds nothing, takes no offer, and keeps every touch;
//! LH-4 all entries of the table are of one window of container numbers.

use crate::base::entry::{FileId, Seq};
use crate::values::locator::chain::Chains;
use crate::values::locator::guards::Guard;
use crate::values::locator::place::Place;
use crate::values::locator::side::Side;
use crate::values::locator::table::Table;
use crate::values::locator::{
    Candidates, Generation, LocatorKey, Offer, Refusal, Settings, Verdict,
};

/// A flush's touch of a shard that waits: hash of the key, and its new place, if any.
type LateTouch = (u64, Option<Place>);

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) table: Table,
    /// Containers' numbers in entries count from here.
    window_base: u64,
    side: Side,
    chains: Chains,
    /// Touches since the database was opened, while the checkpoint is not loaded.
    late: Option<Vec<LateTouch>>,
    /// Flushes that touched the shard and are not published.
    open_flushes: u32,
    counts: Counts,
}

/// What happened in a shard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Windows of container numbers that were used up.
    pub(crate) rolls: u64,
    /// Entries that went for others.
    pub(crate) evicted: u64,
    /// Touches with more than one match.
    pub(crate) several_matches: u64,
}

/// What the table of a checkpoint is of.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Touching edits before it.
    pub(crate) generation: Generation,
    /// Base of its window.
    pub(crate) window_base: u64,
    /// Its entries.
    pub(crate) table: Table,
}

/// What a flush does to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// Where the key's separated value is now; `None` for all else.
    pub(crate) place: Option<Place>,
    /// Smallest seq of the key in the flush.
    pub(crate) superseding: Seq,
    /// Whether a live snapshot is older than that.
    pub(crate) has_older_snapshot: bool,
}

impl Shard {
    /// An empty shard; one that waits for its checkpoint, where so said.
    pub(crate) fn new(settings: &Settings, is_waiting: bool) -> Self {
        Self {
            table: Table::new(settings.shape),
            window_base: 0,
            side: Side::default(),
            chains: Chains::default(),
            late: is_waiting.then(Vec::new),
            open_flushes: 0,
            counts: Counts::default(),
        }
    }

    /// Base of the table's window.
    pub(crate) fn window_base(&self) -> u64 {
        self.window_base
    }

    /// Whether its checkpoint is awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        self.late.is_some()
    }

    /// Whether a flush that touched it is not published.
    pub(crate) fn is_odd(&self) -> bool {
        self.open_flushes > 0
    }

    /// What happened so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The side map.
    pub(crate) fn side(&self) -> &Side {
        &self.side
    }

    /// The chains.
    pub(crate) fn chains(&mut self) -> &mut Chains {
        &mut self.chains
    }

    /// Bytes of all its parts.
    pub(crate) fn bytes(&self) -> usize {
        let late = self.late.as_ref().map_or(0, Vec::capacity) * size_of::<LateTouch>();
        self.table.bytes() + self.side.bytes() + self.chains.bytes() + late
    }

    /// Forgets everything, also what it waits for.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.side.clear();
        self.chains.clear();
        self.late = None;
    }

    /// What may be the key's record.
    #[inline]
    pub(crate) fn candidates(&self, key: &LocatorKey<'_>, hash: u64) -> Candidates {
        let mut found = Candidates::default();
        if let Some(place) = self.side.get(key) {
            found.push(place);
            return found;
        }
        for entry in self.table.matches(hash) {
            found.push(Place::unpack(entry, self.window_base));
        }
        found
    }

    /// What may be the record that a snapshot sees.
    pub(crate) fn links(
        &self,
        key: &LocatorKey<'_>,
        snapshot: Seq,
        settings: &Settings,
    ) -> Candidates {
        let mut found = Candidates::default();
        for place in self.chains.at(key, snapshot, settings.guards) {
            found.push(place);
        }
        found
    }

    /// A flush that touches the shard begins, or one is published; returns the version after it.
    pub(crate) fn turn(&mut self, version: u64, is_begin: bool) -> u64 {
        let before = self.open_flushes;
        self.open_flushes =
            if is_begin { before.saturating_add(1) } else { before.saturating_sub(1) };
        // Odd if and only if a flush is open.
        let changes_parity = (before > 0) != (self.open_flushes > 0);
        version.wrapping_add(if changes_parity { 1 } else { 2 })
    }

    /// Replaces, or takes out, what may be the key's; that goes to `replaced`.
    pub(crate) fn touch(
        &mut self,
        key: &LocatorKey<'_>,
        hash: u64,
        touch: Touch,
        settings: &Settings,
        replaced: &mut Vec<Place>,
    ) {
        if let Some(late) = &mut self.late {
            let is_removal = touch.place.is_none();
            if is_removal && !settings.guards.hold(Guard::RepeatRemovals) {
                return;
            }
            if late.len() < settings.late_touches_max {
                late.push((hash, touch.place));
                return;
            }
            // Without all its touches the checkpoint is worth nothing.
            self.late = None;
        }
        let first = replaced.len();
        match self.side.get(key) {
            Some(place) => {
                replaced.push(place);
                self.side.set(key, touch.place);
            }
            None => self.touch_table(hash, touch.place, settings, replaced),
        }
        if touch.has_older_snapshot {
            for place in replaced.get(first..).unwrap_or_default() {
                self.chains.push(key, touch.superseding, *place, settings.links_max);
            }
        }
    }

    fn touch_table(
        &mut self,
        hash: u64,
        place: Option<Place>,
        settings: &Settings,
        replaced: &mut Vec<Place>,
    ) {
        let (first, base) = (replaced.len(), self.window_base);
        let takes_all = settings.guards.hold(Guard::TouchEveryMatch);
        self.table.remove(hash, |entry| {
            if takes_all || replaced.len() == first {
                replaced.push(Place::unpack(entry, base));
                return true;
            }
            false
        });
        self.counts.several_matches += u64::from(replaced.len() > first + 1);
        if let Some(place) = place {
            self.insert(hash, place, settings);
        }
    }

    /// Adds an entry to the table, unless its container is older than the window; one that is
    /// newer begins a new window.
    fn insert(&mut self, hash: u64, place: Place, settings: &Settings) -> bool {
        let Some(payload) = self.pack(place, settings) else { return false };
        let has_evicted = self.table.insert(hash, payload, settings.entries_max);
        self.counts.evicted += u64::from(has_evicted);
        true
    }

    fn pack(&mut self, place: Place, settings: &Settings) -> Option<u64> {
        let FileId(container) = place.container();
        let window_end = 1 << settings.window_bits;
        let in_window = container.checked_sub(self.window_base)?;
        if in_window == 0 {
            return None;
        }
        if in_window < window_end {
            return Some(place.pack(in_window));
        }
        if !settings.guards.hold(Guard::WindowRoll) {
            return Some(place.pack((in_window % window_end).max(1)));
        }
        // An entry cannot say which window it is of, so that none of the old one may stay (R17).
        // Half of the new one is for containers that are there already.
        self.counts.rolls += u64::from(self.table.len() > 0);
        self.table.clear();
        self.window_base = container.saturating_sub(window_end / 2);
        Some(place.pack(container - self.window_base))
    }

    /// A record was moved, or its key's newest version is gone without a successor (`new` is
    /// nothing): changes what names exactly the old place (rule R17).
    pub(crate) fn swing(
        &mut self,
        key: &LocatorKey<'_>,
        hash: u64,
        old: &Place,
        new: Option<Place>,
        settings: &Settings,
    ) -> bool {
        self.chains.swing(key, old, new);
        let is_exact = settings.guards.hold(Guard::ExactSwing);
        if let Some(place) = self.side.get(key) {
            let is_there = place.is_at(old) || !is_exact;
            if is_there {
                self.side.set(key, new);
            }
            return is_there;
        }
        let base = self.window_base;
        let names_old = |entry: u64| Place::unpack(entry, base).is_at(old) || !is_exact;
        if !self.table.matches(hash).any(names_old) {
            return false;
        }
        let payload = new.and_then(|new| self.pack(new, settings));
        match payload {
            // The table is empty if this began a window.
            Some(payload) => {
                self.table.change(hash, |entry| names_old(entry).then_some(payload));
            }
            None => self.table.remove(hash, names_old),
        }
        true
    }

    /// Takes in the place that a reader found by way of the index (rule R15).
    pub(crate) fn offer(
        &mut self,
        key: &LocatorKey<'_>,
        hash: u64,
        place: Place,
        met: &[(Place, Verdict)],
        settings: &Settings,
    ) -> Offer {
        if self.is_waiting() {
            return Offer::Refused(Refusal::Waiting);
        }
        let guards = settings.guards;
        let verdict_on = |found: &Place| {
            met.iter().find(|(place, _)| place.is_at(found)).map(|(_, verdict)| *verdict)
        };
        let is_older = |found: &Place| {
            place.container() < found.container() && guards.hold(Guard::NewerContainer)
        };
        if let Some(found) = self.side.get(key)
            && guards.hold(Guard::OneHome)
        {
            return match verdict_on(&found) {
                Some(Verdict::Gone) if is_older(&found) => Offer::Refused(Refusal::Newer),
                Some(Verdict::Gone) => {
                    self.side.set(key, Some(place));
                    Offer::OverGone
                }
                _ => Offer::Refused(Refusal::HasHome),
            };
        }
        let (mut is_beside, mut is_over) = (false, false);
        for entry in self.table.matches(hash) {
            let found = Place::unpack(entry, self.window_base);
            match verdict_on(&found) {
                Some(Verdict::Gone) if is_older(&found) => return Offer::Refused(Refusal::Newer),
                Some(Verdict::Gone) => is_over = true,
                Some(Verdict::OtherKey) => is_beside = true,
                None if guards.hold(Guard::VerifiedSide) => {
                    return Offer::Refused(Refusal::Unverified);
                }
                None => is_beside = true,
            }
        }
        let base = self.window_base;
        if is_over {
            let is_gone = |entry| verdict_on(&Place::unpack(entry, base)) == Some(Verdict::Gone);
            self.table.remove(hash, is_gone);
        }
        if is_beside {
            let is_in = self.side.insert(key, place, settings.side_bytes_max);
            return if is_in { Offer::Beside } else { Offer::Refused(Refusal::NoRoom) };
        }
        match self.insert(hash, place, settings) {
            false => Offer::Refused(Refusal::NoRoom),
            true if is_over => Offer::OverGone,
            true => Offer::Inserted,
        }
    }

    /// Ends the wait: with the checkpoint's table if it is of the generation that the database was
    /// opened at, else with an empty one; then repeats what was touched meanwhile (rule R18).
    pub(crate) fn load(
        &mut self,
        image: Option<Image>,
        opened: Generation,
        settings: &Settings,
    ) -> bool {
        let Some(late) = self.late.take() else { return false };
        let is_fresh = |image: &Image| {
            image.generation == opened || !settings.guards.hold(Guard::FreshCheckpoint)
        };
        let image = image.filter(is_fresh);
        let is_taken = image.is_some();
        if let Some(Image { window_base, table, .. }) = image {
            self.window_base = window_base;
            self.table = table;
        }
        if settings.guards.hold(Guard::RepeatTouches) {
            let mut replaced = Vec::new();
            for (hash, place) in late {
                self.touch_table(hash, place, settings, &mut replaced);
                replaced.clear();
            }
        }
        is_taken
    }
}
