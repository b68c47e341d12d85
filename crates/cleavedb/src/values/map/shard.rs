//! One shard of the map: the newest flushed versions, the chains of those that were superseded, and
//! what flushes did before the shard was loaded.
//!
//! Owned by the map, each under its own lock. Invariants:
//! MH-1 a key has at most one entry in the table: its newest flushed version, if that is one that
//!      the map may answer for;
//! MH-2 links of a key are disjoint intervals [seq, until), none beyond the table's version;
//! MH-3 a shard that waits is right about the keys in `late`, from the seq there on, and about
//!      every version that it has; of all else it says that it waits.

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::planted::planted;
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::guards::{Guard, Guards};
use crate::values::map::place::{Link, Place, Since, Snapshots, Version};
use crate::values::map::table::{Hashing, Table};
use crate::values::map::{Answer, Flushed, Forgotten, Held, Settings, Swung, Touched};

/// Links of a shard's chains while [`Guard::ExactChain`] is off.
const LINKS_MAX_WITHOUT_GUARD: usize = 2;

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    table: Table<Version>,
    chains: Table<Link>,
    /// Keys touched since the database was opened, while the shard waits.
    late: Option<Table<Since>>,
    /// Flushes that touched it and are not published.
    open_flushes: u32,
    refused: u64,
}

/// The table of a checkpoint or a rebuild.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Edits with touches or swings before it.
    pub(crate) generation: Generation,
    /// Its entries.
    pub(crate) table: Table<Version>,
}

impl Shard {
    /// An empty shard; one that waits to be loaded, where so said.
    pub(crate) fn new(settings: &Settings, hashing: Hashing, is_waiting: bool) -> Self {
        let shape = settings.shape;
        Self {
            table: Table::new(shape, hashing),
            chains: Table::new(shape, hashing),
            late: is_waiting.then(|| Table::new(shape, hashing)),
            open_flushes: 0,
            refused: 0,
        }
    }

    /// The newest flushed versions.
    pub(crate) fn table(&self) -> &Table<Version> {
        &self.table
    }

    /// The superseded ones.
    pub(crate) fn chains(&self) -> &Table<Link> {
        &self.chains
    }

    /// New keys refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether it is to be loaded.
    pub(crate) fn is_waiting(&self) -> bool {
        self.late.is_some()
    }

    /// Whether a flush that touched it is not published.
    pub(crate) fn is_open(&self) -> bool {
        self.open_flushes > 0
    }

    /// A flush that is to be published later touches it for the first time.
    pub(crate) fn open(&mut self) {
        self.open_flushes = self.open_flushes.saturating_add(1);
    }

    /// One of those was published.
    pub(crate) fn close(&mut self) {
        self.open_flushes = self.open_flushes.saturating_sub(1);
    }

    /// Bytes of all its parts.
    pub(crate) fn bytes(&self) -> usize {
        let late = self.late.as_ref().map_or(0, Table::bytes);
        self.table.bytes() + self.chains.bytes() + late
    }

    /// What a snapshot sees of a key.
    #[inline]
    pub(crate) fn lookup(&self, key: &LocatorKey<'_>, snapshot: Seq, guards: Guards) -> Answer {
        match self.table.find(key) {
            Some(version) if version.seq <= snapshot => Answer::Found(version),
            _ if self.chains.is_empty() && self.late.is_none() => Answer::Absent { since: 0 },
            _ => self.lookup_before(key, snapshot, guards),
        }
    }

    /// What a snapshot sees of a key whose newest version it does not see, or that has none.
    fn lookup_before(&self, key: &LocatorKey<'_>, snapshot: Seq, guards: Guards) -> Answer {
        let mut since = 0;
        for Link { version, until } in self.chains.matches(key) {
            let is_before = snapshot < until || !guards.hold(Guard::ChainInterval);
            if version.seq <= snapshot && is_before {
                return Answer::Found(version);
            }
            since = if until <= snapshot { until.max(since) } else { since };
        }
        let known = self.late.as_ref().map(|late| late.find(key));
        match known {
            None => Answer::Absent { since },
            Some(Some(Since(known))) if known <= snapshot => {
                Answer::Absent { since: since.max(known) }
            }
            Some(_) => Answer::Waiting,
        }
    }

    /// A flush puts the versions of a key, ascending, in the place of what is there.
    pub(crate) fn touch(
        &mut self,
        key: &LocatorKey<'_>,
        versions: &[Flushed],
        snapshots: &Snapshots,
        settings: &Settings,
        replaced: &mut Vec<Place>,
    ) -> Touched {
        let guards = settings.guards;
        let [Flushed { seq: first, .. }, ..] = *versions else { return Touched::Taken };
        let Some(last) = versions.last() else { return Touched::Taken };
        let removes = guards.hold(Guard::RemoveTouches) && !planted!("map_removal_not_touched");
        if last.place.is_none() && !removes {
            return Touched::Taken;
        }
        if let Some(late) = &mut self.late
            && late.find(key).is_none()
        {
            late.insert(key, &Since(first));
        }
        let before = self.table.find(key);
        if before.is_none() && last.place.is_some() && !self.has_room(key, settings) {
            self.refused += 1;
            return Touched::NoRoom;
        }
        // Else it is the flush's own, which failed and is done again.
        if let Some(version) = before.filter(|version| version.seq < first) {
            replaced.push(version.place);
            let is_smallest = guards.hold(Guard::SmallestSuperseding);
            let until = if is_smallest { first } else { last.seq };
            self.supersede(key, Link { version, until }, snapshots, guards);
        }
        for pair in versions.windows(2) {
            let [Flushed { seq, place: Some(place) }, next] = *pair else { continue };
            if guards.hold(Guard::HiddenVersions) {
                let version = Version { seq, place };
                self.supersede(key, Link { version, until: next.seq }, snapshots, guards);
            }
        }
        match (last.place, before) {
            (Some(place), None) => self.table.insert(key, &Version { seq: last.seq, place }),
            (Some(place), Some(_)) => {
                let version = Version { seq: last.seq, place };
                self.table.change(key, |_| Some(version));
            }
            (None, _) => {
                self.table.remove(key, |_| true);
            }
        }
        Touched::Taken
    }

    fn has_room(&self, key: &LocatorKey<'_>, settings: &Settings) -> bool {
        self.bytes() + self.table.growth_max(key.key.len()) <= settings.bytes_max
    }

    /// Notes a version that was superseded, if a snapshot needs it.
    fn supersede(
        &mut self,
        key: &LocatorKey<'_>,
        link: Link,
        snapshots: &Snapshots,
        guards: Guards,
    ) {
        let Link { version, until } = link;
        let is_there = || self.chains.matches(key).any(|link| link.version.seq == version.seq);
        let holds = guards.hold(Guard::Versions) && !planted!("map_version_for_snapshot_dropped");
        let is_needed = snapshots.need(version.seq, until) && holds;
        if !is_needed || is_there() {
            return;
        }
        if !guards.hold(Guard::ExactChain) && self.chains.len() >= LINKS_MAX_WITHOUT_GUARD {
            self.chains.retain(|_, _| false);
        }
        self.chains.insert(key, &link);
    }

    /// A record was moved: what names exactly the old place names the new one.
    pub(crate) fn swing(
        &mut self,
        key: &LocatorKey<'_>,
        old: &Place,
        new: Place,
        guards: Guards,
    ) -> Swung {
        debug_assert!(!self.is_waiting(), "nothing is collected before the map is there");
        let is_exact = guards.hold(Guard::ExactSwing);
        let moved = |version: &Version| Version { place: new, ..*version };
        let is_old = |version: &Version| version.place == *old || !is_exact;
        let newest = self.table.change(key, |found| is_old(found).then(|| moved(found)));
        let mut links = 0;
        if !self.chains.is_empty() && guards.hold(Guard::SwingChains) {
            links = self.chains.change(key, |link| {
                let version = moved(&link.version);
                (link.version.place == *old).then_some(Link { version, ..*link })
            });
        }
        match (newest, links) {
            (0, 0) => Swung::Nothing,
            (0, _) => Swung::Superseded,
            _ => Swung::Newest,
        }
    }

    /// Whether a record is a version of the key, by its place.
    pub(crate) fn held(&self, key: &LocatorKey<'_>, place: &Place) -> Held {
        if self.table.find(key).is_some_and(|version| version.place == *place) {
            return Held::Newest;
        }
        match self.chains.matches(key).find(|link| link.version.place == *place) {
            Some(Link { version, until }) => Held::Superseded { seq: version.seq, until },
            None if self.is_waiting() => Held::Waiting,
            None => Held::Not,
        }
    }

    /// Forgets the version of that seq, if the key has it: nobody sees it, and nothing superseded
    /// it.
    pub(crate) fn forget(&mut self, key: &LocatorKey<'_>, seq: Seq) -> Option<Forgotten> {
        debug_assert!(!self.is_waiting(), "nothing is forgotten before the map is there");
        let newest = self.table.remove(key, |version| version.seq == seq);
        if let Some(Version { place, .. }) = newest {
            return Some(Forgotten { place, is_newest: true });
        }
        let link = self.chains.remove(key, |link| link.version.seq == seq)?;
        Some(Forgotten { place: link.version.place, is_newest: false })
    }

    /// Forgets all keys of the keyspaces that are gone; tells where their newest versions stand.
    pub(crate) fn forget_keyspaces(
        &mut self,
        is_gone: &dyn Fn(KeyspaceId) -> bool,
        gone: &mut dyn FnMut(&Place),
    ) {
        // To look costs less than to pack every page anew.
        if self.table.iter().any(|entry| is_gone(entry.keyspace)) {
            self.table.retain(|of, version| {
                if is_gone(of) {
                    gone(&version.place);
                }
                !is_gone(of)
            });
        }
        if self.chains.iter().any(|entry| is_gone(entry.keyspace)) {
            self.chains.retain(|of, _| !is_gone(of));
        }
    }

    /// Drops the links that no live snapshot needs.
    pub(crate) fn prune(&mut self, snapshots: &Snapshots) {
        if !self.chains.is_empty() {
            self.chains.retain(|_, link| snapshots.need(link.version.seq, link.until));
        }
    }

    /// Ends the wait with a table that is as of when the database was opened; what was touched
    /// since stands above it. What that superseded goes to the chains: nobody knows any more
    /// which snapshots there were. Returns whether the table was taken.
    pub(crate) fn load(&mut self, image: Image, opened: Generation, guards: Guards) -> bool {
        let Some(late) = &self.late else { return false };
        if image.generation != opened && guards.hold(Guard::FreshCheckpoint) {
            return false;
        }
        let mut table = image.table;
        let repeats =
            guards.hold(Guard::RepeatTouches) && !planted!("map_replay_not_above_rebuilt");
        if repeats {
            for entry in late.iter() {
                let (key, Since(until)) = (table.key_of(&entry), entry.value);
                let version = table.remove(&key, |_| true);
                if let Some(version) = version.filter(|version| version.seq < until) {
                    self.chains.insert(&key, &Link { version, until });
                }
            }
        }
        for entry in self.table.iter() {
            let key = table.key_of(&entry);
            table.remove(&key, |_| true);
            table.insert(&key, &entry.value);
        }
        self.table = table;
        self.late = None;
        true
    }
}
