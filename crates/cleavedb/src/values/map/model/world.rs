//! The small simulated store round the map: containers of records, a log with a durable part, one
//! memtable, an index of bare entries and handles, a manifest, views and snapshots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::io::seeded::Seeded;
use crate::values::locator::checkpoint::Site;
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::guards::Guards;
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::rebuild::Rebuild;
use crate::values::map::table::Shape;
use crate::values::map::{Map, Settings};

use super::tasks::{Collection, Flush};
use super::{Lapse, Marks};

/// Keys, half of them in each keyspace, with the same names.
const KEYS: u8 = 8;

/// Records of a container, so that many containers come and go.
const CONTAINER_RECORDS: u32 = 4;

/// The one file that checkpoints stand in.
const SITE: Site = Site { uuid: *b"a model's store.", file: FileId(1), offset: 4096 };

/// What an operation did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Separated(Place),
    Inline,
    Delete,
}

/// One operation; `id` tells it from one of the same seq that was cut off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) seq: Seq,
    pub(super) key: u8,
    pub(super) what: What,
}

/// A separated value's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) id: u64,
    pub(super) key: u8,
    pub(super) seq: Seq,
}

/// How the index has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Inline,
    Deleted,
    Bare,
    Handle,
}

/// A version in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    pub(super) id: u64,
    pub(super) seq: Seq,
    pub(super) form: Form,
}

/// What edits made durable: the versions in the index by key, where those with handles are, which
/// containers there are, how far all is flushed, and edits with touches or moves.
#[derive(Clone, Debug, Default)]
pub(super) struct Manifest {
    pub(super) index: BTreeMap<u8, Vec<Indexed>>,
    pub(super) handles: BTreeMap<u64, Place>,
    pub(super) containers: BTreeSet<u64>,
    pub(super) flushed: Seq,
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
    lapse: Option<Lapse>,
    pub(super) map: Arc<Map>,
    settings: Settings,
    keyed: KeyedHash,
    /// Every operation that was not cut off, in order.
    pub(super) log: Vec<Operation>,
    next_id: u64,
    pub(super) next_seq: Seq,
    pub(super) durable_seq: Seq,
    pub(super) active: Vec<Operation>,
    pub(super) frozen: Vec<Operation>,
    /// Records by container and offset, those of containers that are gone, too.
    pub(super) records: BTreeMap<(u64, u64), Record>,
    growing: (u64, u32),
    next_container: u64,
    pub(super) durable: Manifest,
    published: Arc<Manifest>,
    /// Edits that wait for their publication, in order.
    edits: VecDeque<(u64, Arc<Manifest>)>,
    next_edit: u64,
    /// The manifest as it was opened: what a rebuild goes by.
    opened: Manifest,
    /// Keys of the log that was replayed then.
    replayed: BTreeSet<u8>,
    /// Containers that can be read.
    pub(super) open: BTreeSet<u64>,
    pub(super) snapshots: Vec<Seq>,
    /// Whether nothing is written while others ask.
    pub(super) is_calm: bool,
    pub(super) reads: Vec<(u64, Seq)>,
    pub(super) flush: Option<Flush>,
    pub(super) collections: Vec<Collection>,
    checkpoints: BTreeMap<usize, Vec<u8>>,
    pub(super) marks: Marks,
}

impl World {
    pub(super) fn new(seed: u64, guards: Guards, lapse: Option<Lapse>) -> Self {
        let settings = Settings {
            shard_bits: 1,
            shape: Shape { page_entries: 2, page_bytes: 1 << 20 },
            bytes_max: if seed.is_multiple_of(3) { 700 } else { usize::MAX },
            guards,
        };
        let keyed = KeyedHash::new(&SITE.uuid);
        let mut world = Self {
            random: Seeded::new(seed),
            lapse,
            map: Arc::new(Map::new(settings, keyed, Generation(0))),
            settings,
            keyed,
            log: Vec::new(),
            next_id: 1,
            next_seq: 1,
            durable_seq: 0,
            active: Vec::new(),
            frozen: Vec::new(),
            records: BTreeMap::new(),
            growing: (0, 0),
            next_container: 1,
            durable: Manifest::default(),
            published: Arc::default(),
            edits: VecDeque::new(),
            next_edit: 1,
            opened: Manifest::default(),
            replayed: BTreeSet::new(),
            open: BTreeSet::new(),
            snapshots: Vec::new(),
            is_calm: false,
            reads: Vec::new(),
            flush: None,
            collections: Vec::new(),
            checkpoints: BTreeMap::new(),
            marks: Marks::new(),
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

    pub(super) fn any_key(&mut self) -> u8 {
        self.random.below(u64::from(KEYS)) as u8
    }

    /// The key as the map takes it.
    pub(super) fn with_key<T>(&self, key: u8, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
        let (keyspace, name) = (KeyspaceId(1 + u32::from(key % 2)), [b'k', key / 2]);
        run(&LocatorKey { keyspace, key: &name, hash: self.keyed.hash(keyspace, &name) })
    }

    /// Snapshots and reads that are registered.
    pub(super) fn live(&self) -> Snapshots {
        let reads = self.reads.iter().map(|(_, seq)| *seq);
        Snapshots::new(self.snapshots.iter().copied().chain(reads).collect())
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
        self.open.insert(container);
        for (_, manifest) in &mut self.edits {
            Arc::make_mut(manifest).containers.insert(container);
        }
        Arc::make_mut(&mut self.published).containers.insert(container);
    }

    pub(super) fn growing(&self) -> u64 {
        self.growing.0
    }

    /// Writes a record at a place.
    pub(super) fn place_record(&mut self, container: u64, number: u32, record: Record) -> Place {
        let offset = 24 + u64::from(number) * 1040;
        self.records.insert((container, offset), record);
        let container = FileId(container);
        Place { container, file: container, offset, bytes: 1000 }
    }

    /// The record at a place, if its container can be read.
    pub(super) fn read(&self, place: &Place) -> Option<Record> {
        let is_open = self.open.contains(&place.container.0);
        is_open.then(|| self.records.get(&(place.container.0, place.offset)).copied())?
    }

    /// One operation on a key.
    pub(super) fn write(&mut self, key: u8) {
        let (id, seq) = (self.next_id, self.next_seq);
        self.next_id += 1;
        self.next_seq += 1;
        let what = match self.random.below(10) {
            0..=6 => {
                if self.growing.1 == CONTAINER_RECORDS {
                    self.begin_container();
                }
                let (container, number) = self.growing;
                self.growing.1 += 1;
                What::Separated(self.place_record(container, number, Record { id, key, seq }))
            }
            7 => What::Inline,
            _ => What::Delete,
        };
        let operation = Operation { id, seq, key, what };
        self.log.push(operation);
        self.active.push(operation);
        if self.random.chance(20) {
            self.durable_seq = seq;
        }
    }

    /// What a view at `snapshot` must see of a key: the operation that made its value.
    pub(super) fn truth(&self, key: u8, snapshot: Seq) -> Option<u64> {
        let newest = self.log.iter().rev().find(|op| op.key == key && op.seq <= snapshot)?;
        (newest.what != What::Delete).then_some(newest.id)
    }

    pub(super) fn view(&self) -> View {
        let recent = self.frozen.iter().chain(&self.active).copied().collect();
        View { manifest: Arc::clone(&self.published), recent }
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
        let live = self.live();
        for versions in self.durable.index.values_mut() {
            let nexts: Vec<Seq> = versions.iter().skip(1).map(|version| version.seq).collect();
            let mut nexts = nexts.into_iter();
            versions.retain(|version| nexts.next().is_none_or(|next| live.need(version.seq, next)));
        }
        let all = self.durable.index.values().flatten();
        let with_handle = all.filter(|version| version.form == Form::Handle);
        let kept: BTreeSet<u64> = with_handle.map(|version| version.id).collect();
        self.durable.handles.retain(|id, _| kept.contains(id));
    }

    /// Everything in memory is lost, and what was not durable; the store is opened again.
    pub(super) fn crash(&mut self) {
        self.mark("crash");
        let gaps = self.flush.iter().map(Flush::gap);
        let gaps: Vec<_> = gaps.chain(self.collections.iter().map(Collection::gap)).collect();
        gaps.into_iter().flatten().for_each(|gap| self.mark(gap));
        let first = self.durable_seq.max(self.durable.flushed);
        let first = if self.has(Lapse::TouchBeforeSync) { self.durable.flushed } else { first };
        let last = first + self.random.below(self.next_seq - first);
        if last + 1 < self.next_seq {
            self.mark("seqs_reused_after_cut");
        }
        self.log.retain(|op| op.seq <= last);
        self.records.retain(|_, record| record.seq <= last);
        self.next_seq = last + 1;
        self.durable_seq = last;
        self.flush = None;
        self.collections.clear();
        self.edits.clear();
        self.snapshots.clear();
        self.reads.clear();
        self.frozen.clear();
        self.published = Arc::new(self.durable.clone());
        self.opened = self.durable.clone();
        self.open = self.durable.containers.clone();
        let flushed = self.durable.flushed;
        let is_replayed =
            |op: &&Operation| op.seq > flushed || self.lapse == Some(Lapse::ReplayFlushed);
        self.active = self.log.iter().filter(is_replayed).copied().collect();
        self.replayed = self.active.iter().map(|op| op.key).collect();
        let generation = Generation(self.durable.generation);
        self.map = Arc::new(Map::restored(self.settings, self.keyed, generation));
        self.begin_container();
    }

    /// Loads a shard that waits, from its checkpoint or anew.
    pub(super) fn load(&mut self, number: usize) -> Result<(), String> {
        let map = Arc::clone(&self.map);
        let waiting = map.figures().waiting;
        let checkpoint = self.checkpoints.get(&number).filter(|_| waiting > 0);
        let is_taken = match checkpoint {
            Some(bytes) => map.load_section(number, bytes, &SITE).map_err(|e| e.to_string())?,
            None => false,
        };
        if is_taken {
            self.mark("checkpoint_taken");
        } else if checkpoint.is_some() && map.figures().waiting > 0 {
            self.mark("checkpoint_stale");
        }
        if is_taken || waiting == 0 || self.random.chance(50) {
            return Ok(());
        }
        let manifest = if self.has(Lapse::LateScan) { &self.published } else { &self.opened };
        let rebuild = Rebuild::new(&map);
        for (key, versions) in &manifest.index {
            match versions.last() {
                Some(Indexed { seq, form: Form::Bare, .. }) => {
                    self.with_key(*key, |key| rebuild.expect(key, *seq));
                }
                _ => continue,
            }
        }
        if !self.has(Lapse::NoShadows) {
            for key in &self.replayed {
                self.with_key(*key, |key| rebuild.shadow(key));
            }
        }
        let is_there = |container: &u64| manifest.containers.contains(container);
        for ((container, offset), record) in &self.records {
            if is_there(container) {
                let container = FileId(*container);
                let (file, offset) = (container, *offset);
                let place = Place { container, file, offset, bytes: 1000 };
                self.with_key(record.key, |key| rebuild.insert_exact(key.hash, record.seq, place));
            }
        }
        let is_loaded = rebuild.load_shard(&map, number).map_err(|error| error.to_string())?;
        if is_loaded {
            self.mark("rebuilt");
            if self.durable.generation > self.opened.generation {
                self.mark("rebuilt_after_a_flush");
            }
        }
        Ok(())
    }

    /// Writes the checkpoint of a shard.
    pub(super) fn checkpoint(&mut self, number: usize) {
        match self.map.encode_shard(number, &SITE) {
            Some(bytes) => {
                self.checkpoints.insert(number, bytes);
                self.mark("checkpoint_written");
            }
            None => self.mark("checkpoint_put_off"),
        }
    }

    /// Whether a record must stay: the index has its handle, or the map needs it.
    pub(super) fn has_handle(&self, record: &Record, place: &Place) -> bool {
        self.durable.handles.get(&record.id) == Some(place)
    }
}
