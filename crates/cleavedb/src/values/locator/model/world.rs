//! The small simulated store round the locator: containers of records, a log with a durable part,
//! memtables of two keyspaces, an index that is always right, a manifest, views and snapshots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::io::seeded::Seeded;
use crate::values::locator::checkpoint::Site;
use crate::values::locator::guards::Guards;
use crate::values::locator::place::Place;
use crate::values::locator::table::Shape;
use crate::values::locator::{Generation, Locator, LocatorKey, Settings};

use super::Lapse;
use super::tasks::{Collection, Flush};

/// Most keys, half of them in each keyspace.
const KEYS_MAX: u8 = 16;

/// What a run is like, by its seed: some have many keys, so that pages are split and merged, some
/// few, so that each is written often, some many crashes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    pub(super) keys: u8,
    pub(super) crash_percent: u64,
    /// Whether times of many removals come and go.
    removals: bool,
}

const PROFILES: [Profile; 4] = [
    Profile { keys: 16, crash_percent: 10, removals: false },
    Profile { keys: 8, crash_percent: 80, removals: false },
    Profile { keys: 4, crash_percent: 15, removals: false },
    Profile { keys: 16, crash_percent: 3, removals: true },
];

/// Records of a container, so that many containers come and go.
const CONTAINER_RECORDS: u32 = 4;

/// The one file that checkpoints stand in.
pub(super) const SITE: Site = Site { uuid: *b"a model's store.", file: FileId(1), offset: 4096 };

/// What an operation did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Separated(Place),
    Inline,
    Delete,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) seq: Seq,
    pub(super) key: u8,
    pub(super) what: What,
}

/// A separated value's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: u8,
    pub(super) seq: Seq,
}

/// What edits made durable: the versions in the index by key, where each separated one is, which
/// containers there are, and how far each keyspace is flushed.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifest {
    pub(super) index: BTreeMap<u8, Vec<(Seq, bool, bool)>>,
    pub(super) places: BTreeMap<Seq, Place>,
    pub(super) containers: BTreeSet<u64>,
    pub(super) flushed: [Seq; 2],
    pub(super) generation: u64,
}

/// What a reader sees: one version of the manifest, and the memtables at that moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) manifest: Arc<Manifest>,
    pub(super) recent: Vec<Operation>,
}

/// The store.
pub(super) struct World {
    pub(super) random: Seeded,
    pub(super) profile: Profile,
    pub(super) lapse: Option<Lapse>,
    pub(super) locator: Arc<Locator>,
    settings: Settings,
    hashes: Vec<u64>,
    names: Vec<Vec<u8>>,
    /// Every operation that was not cut off, in order.
    pub(super) log: Vec<Operation>,
    pub(super) next_seq: Seq,
    pub(super) durable_seq: Seq,
    pub(super) active: [Vec<Operation>; 2],
    pub(super) frozen: [Vec<Operation>; 2],
    /// Records by container and offset; what views pin is never taken out.
    pub(super) records: BTreeMap<(u64, u64), Record>,
    growing: (u64, u32),
    next_container: u64,
    pub(super) durable: Manifest,
    pub(super) published: Arc<Manifest>,
    /// Edits that wait for their publication, in order.
    pub(super) edits: VecDeque<(u64, Arc<Manifest>)>,
    next_edit: u64,
    pub(super) snapshots: Vec<Seq>,
    pub(super) flushes: [Option<Flush>; 2],
    pub(super) collections: Vec<Collection>,
    pub(super) checkpoints: BTreeMap<usize, Vec<u8>>,
    pub(super) marks: BTreeMap<&'static str, u64>,
}

impl World {
    pub(super) fn new(seed: u64, guards: Guards, lapse: Option<Lapse>) -> Self {
        let mut random = Seeded::new(seed);
        let profile = PROFILES[seed as usize % PROFILES.len()];
        let settings = Settings {
            shard_bits: 1,
            shape: Shape {
                fingerprint_bits: if seed % 8 < 4 { 2 } else { 3 },
                floor_bits: 1,
                page_entries: if profile.removals { 4 } else { 2 },
            },
            window_bits: 5,
            entries_max: if seed.is_multiple_of(7) { 3 } else { usize::MAX },
            side_bytes_max: if seed.is_multiple_of(3) { 100 } else { 300 },
            links_max: 6,
            late_touches_max: if seed.is_multiple_of(5) { 4 } else { 64 },
            guards,
        };
        // Most bits are equal, so that keys share drawers and fingerprints all the time: what
        // differs is the shard, in some runs the first bit of the page, and four bits behind the
        // drawer's.
        let differing = if seed % 8 < 4 { 0x8780 << 48 } else { 0xc780 << 48 };
        let hashes = (0..KEYS_MAX).map(|_| random.next() & differing).collect();
        let mut world = Self {
            random,
            profile,
            lapse,
            locator: Arc::new(Locator::new(settings, Generation(0))),
            settings,
            hashes,
            names: (0..KEYS_MAX).map(|key| vec![b'k', key]).collect(),
            log: Vec::new(),
            next_seq: 1,
            durable_seq: 0,
            active: Default::default(),
            frozen: Default::default(),
            records: BTreeMap::new(),
            growing: (0, 0),
            next_container: 1,
            durable: Manifest::default(),
            published: Arc::default(),
            edits: VecDeque::new(),
            next_edit: 1,
            snapshots: Vec::new(),
            flushes: [None, None],
            collections: Vec::new(),
            checkpoints: BTreeMap::new(),
            marks: BTreeMap::new(),
        };
        world.begin_container();
        world
    }

    pub(super) fn mark(&mut self, name: &'static str) {
        *self.marks.entry(name).or_default() += 1;
    }

    pub(super) fn has(&self, lapse: Lapse) -> bool {
        self.lapse == Some(lapse)
    }

    /// The key as the locator takes it. Borrows nothing of the world.
    pub(super) fn key(&self, key: u8) -> (KeyspaceId, Vec<u8>, u64) {
        let at = usize::from(key);
        (KeyspaceId(1 + u32::from(key % 2)), self.names[at].clone(), self.hashes[at])
    }

    pub(super) fn with_key<T>(&self, key: u8, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
        let (keyspace, name, hash) = self.key(key);
        run(&LocatorKey { keyspace, key: &name, hash })
    }

    /// A container's number that was never given out (rule R17).
    pub(super) fn new_container(&mut self) -> u64 {
        self.next_container += 1;
        self.next_container - 1
    }

    fn begin_container(&mut self) {
        let container = self.new_container();
        self.growing = (container, 0);
        // An edit of its own, which nobody waits for.
        self.durable.containers.insert(container);
        for (_, manifest) in &mut self.edits {
            Arc::make_mut(manifest).containers.insert(container);
        }
        Arc::make_mut(&mut self.published).containers.insert(container);
    }

    /// Writes a record where the lane is.
    pub(super) fn append(&mut self, record: Record) -> Place {
        if self.growing.1 == CONTAINER_RECORDS {
            self.begin_container();
        }
        let (container, number) = self.growing;
        self.growing.1 += 1;
        self.place_record(container, number, record)
    }

    /// Writes a record at a place.
    pub(super) fn place_record(&mut self, container: u64, number: u32, record: Record) -> Place {
        let place = Place::of(FileId(container), u64::from(number) * 1040, 1000).unwrap();
        self.records.insert((container, place.offset()), record);
        place
    }

    pub(super) fn growing(&self) -> u64 {
        self.growing.0
    }

    /// Some key.
    pub(super) fn any_key(&mut self) -> u8 {
        self.random.below(u64::from(self.profile.keys)) as u8
    }

    /// One operation on some key.
    pub(super) fn write(&mut self) {
        let key = self.any_key();
        let seq = self.next_seq;
        self.next_seq += 1;
        let separated = match (self.profile.removals, seq / 40 % 2) {
            (true, 0) => 9,
            (true, _) => 1,
            (false, _) => 6,
        };
        let what = match self.random.below(10) {
            number if number < separated => What::Separated(self.append(Record { key, seq })),
            6 | 7 => What::Inline,
            _ => What::Delete,
        };
        let operation = Operation { seq, key, what };
        self.log.push(operation);
        self.active[usize::from(key % 2)].push(operation);
        if self.random.chance(20) {
            self.durable_seq = seq;
        }
    }

    /// What a view at `snapshot` must see of a key: the seq of a value.
    pub(super) fn truth(&self, key: u8, snapshot: Seq) -> Option<Seq> {
        let newest = self.log.iter().rev().find(|op| op.key == key && op.seq <= snapshot)?;
        (newest.what != What::Delete).then_some(newest.seq)
    }

    pub(super) fn view(&self) -> View {
        let mut recent: Vec<Operation> = self.frozen.iter().flatten().copied().collect();
        recent.extend(self.active.iter().flatten());
        View { manifest: Arc::clone(&self.published), recent }
    }

    /// The record at a place: `None` where the view has no such container.
    pub(super) fn read(&self, view: &View, place: &Place) -> Option<Option<Record>> {
        let container = place.container().0;
        let is_there = view.manifest.containers.contains(&container);
        is_there.then(|| self.records.get(&(container, place.offset())).copied())
    }

    /// Notes an edit for publication; edits are published in this order.
    pub(super) fn edited(&mut self) -> u64 {
        self.drop_hidden();
        self.next_edit += 1;
        self.edits.push_back((self.next_edit, Arc::new(self.durable.clone())));
        self.next_edit
    }

    /// Publishes an edit, if it is its turn.
    pub(super) fn publish(&mut self, edit: u64) -> bool {
        if self.edits.front().is_none_or(|(first, _)| *first != edit) {
            return false;
        }
        if let Some((_, manifest)) = self.edits.pop_front() {
            self.published = manifest;
        }
        true
    }

    /// Drops what no snapshot sees from the durable index (stripe rule).
    fn drop_hidden(&mut self) {
        let snapshots = &self.snapshots;
        for versions in self.durable.index.values_mut() {
            let nexts: Vec<Seq> = versions.iter().skip(1).map(|(seq, ..)| *seq).collect();
            let mut nexts = nexts.into_iter();
            versions.retain(|(seq, ..)| match nexts.next() {
                Some(next) => snapshots.iter().any(|s| (*seq..next).contains(s)),
                None => true,
            });
        }
        let index = &self.durable.index;
        let mut kept = index.values().flatten().map(|(seq, ..)| *seq).collect::<BTreeSet<Seq>>();
        kept.retain(|seq| self.durable.places.contains_key(seq));
        self.durable.places.retain(|seq, _| kept.contains(seq));
    }

    /// The generation as the locator is told it.
    pub(super) fn stamp(&self, manifest: &Manifest) -> Generation {
        if self.has(Lapse::StampIsSeq) {
            return Generation(manifest.flushed[0].max(manifest.flushed[1]));
        }
        Generation(manifest.generation)
    }

    /// Everything in memory is lost, and what was not durable; the store is opened again.
    pub(super) fn crash(&mut self) {
        self.mark_gaps();
        let flushed = self.durable.flushed[0].max(self.durable.flushed[1]);
        let first = self.durable_seq.max(flushed);
        let last = first + self.random.below(self.next_seq - first);
        if last + 1 < self.next_seq {
            self.mark("seqs_reused_after_cut");
        }
        self.log.retain(|op| op.seq <= last);
        self.records.retain(|_, record| record.seq <= last);
        self.next_seq = last + 1;
        self.durable_seq = last;
        self.flushes = [None, None];
        self.collections.clear();
        self.edits.clear();
        self.snapshots.clear();
        self.published = Arc::new(self.durable.clone());
        self.frozen = Default::default();
        self.active = Default::default();
        for op in &self.log {
            let keyspace = usize::from(op.key % 2);
            if op.seq > self.durable.flushed[keyspace] {
                self.active[keyspace].push(*op);
            }
        }
        let stamp = self.stamp(&self.durable);
        let is_restored = self.random.chance(80);
        let locator = if is_restored {
            Locator::restored(self.settings, stamp)
        } else {
            Locator::new(self.settings, stamp)
        };
        self.sum_figures();
        self.locator = Arc::new(locator);
        self.begin_container();
    }

    fn mark_gaps(&mut self) {
        self.mark("crash");
        let stages: Vec<_> = self.flushes.iter().flatten().map(Flush::gap).collect();
        stages.into_iter().flatten().for_each(|gap| self.mark(gap));
        let stages: Vec<_> = self.collections.iter().map(Collection::gap).collect();
        stages.into_iter().flatten().for_each(|gap| self.mark(gap));
    }

    /// Notes what a locator has done before it goes.
    pub(super) fn sum_figures(&mut self) {
        let figures = self.locator.figures();
        for (name, count) in [
            ("window_rolled", figures.rolls),
            ("entry_evicted", figures.evicted[0]),
            ("side_evicted", figures.evicted[1]),
            ("link_evicted", figures.evicted[2]),
            ("entry_dropped_by_split", figures.dropped),
            ("several_matches_touched", figures.several_matches),
        ] {
            *self.marks.entry(name).or_default() += count;
        }
    }

    /// Loads a shard that waits.
    pub(super) fn load(&mut self) {
        let number = self.random.index(self.locator.shards());
        let before = self.locator.figures().waiting;
        let taken = match self.checkpoints.get(&number) {
            Some(bytes) => self.locator.load_section(number, bytes, &SITE).unwrap(),
            None => self.locator.load_shard(number, None),
        };
        if self.locator.figures().waiting == before {
            return;
        }
        self.mark(match (taken, self.checkpoints.contains_key(&number)) {
            (true, _) => "checkpoint_taken",
            (false, true) => "checkpoint_stale",
            (false, false) => "checkpoint_missing",
        });
        if taken && self.next_seq > self.durable.flushed[0].max(self.durable.flushed[1]) + 6 {
            self.mark("checkpoint_taken_late");
        }
    }

    /// Writes the checkpoint of a shard.
    pub(super) fn checkpoint(&mut self) {
        let number = self.random.index(self.locator.shards());
        match self.locator.encode_shard(number, &SITE) {
            Some(bytes) => {
                self.checkpoints.insert(number, bytes);
                self.mark("checkpoint_written");
            }
            None => self.mark("checkpoint_put_off"),
        }
    }
}
