//! The delta store against a history: random puts, deletes, range deletes and merges, flushes,
//! collections, folds, snapshots, views, reopening and crashes between any two steps. Around it
//! stands as little of an engine as it takes: a memtable, an index of bases in a map, edits that
//! are durable as a whole.

use std::collections::BTreeMap;

use crate::base::cursor::Cursor;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::merge_operator::{MergeOperator, SharedOperator, full_merge, operators};
use crate::base::names::parse_file_name;
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::deltas::bucket::writer::{Append, sync_names};
use crate::deltas::cache::DeltaCache;
use crate::deltas::collect::survivors::{Fate, OwnedRecord, Rule, survivors};
use crate::deltas::collect::write::{WritePlan, write};
use crate::deltas::collect::{Limits, outcome, pick_merge};
use crate::deltas::cursor::DeltaCursor;
use crate::deltas::directory::{Directory, Position};
use crate::deltas::edit::DeltasEdit;
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, DeltaKind, OwnedBound, Record};
use crate::deltas::route::{BucketBatch, Router};
use crate::deltas::testing::Bench;
use crate::io::Purpose;
use crate::io::disk::Disk;
use crate::io::memory_disk::CrashMode;
use crate::io::seeded::Seeded;
use crate::log::testing::DIR;

mod world;

use world::{History, Index, Op, Operation, Shown};

/// Sizes that make buckets split, merge and fold within a few flushes.
const LIMITS: Limits = Limits::of(1500, 7);

/// What happened, so that the test can show that it did.
#[derive(Debug, Default)]
struct Met {
    appends: u64,
    closed: u64,
    full: u64,
    splits: u64,
    merges: u64,
    folded: u64,
    crashes: u64,
    lost_appends: u64,
    views: u64,
    errors: u64,
}

/// What a crash leaves: the manifest, the index and how far they go.
#[derive(Clone, Default)]
struct Durable {
    sections: Vec<Vec<u8>>,
    index: Index,
    flushed: Seq,
}

/// A view: what a reader holds.
struct View {
    directory: Directory,
    index: Index,
    flushed: Seq,
    snapshot: Seq,
}

struct World {
    bench: Bench,
    random: Seeded,
    history: History,
    durable: Durable,
    directory: Directory,
    snapshots: Vec<Seq>,
    views: Vec<View>,
    /// Keys with more operands than they should have.
    to_fold: Vec<OwnedBound>,
    cache: DeltaCache,
    next_id: u64,
    met: Met,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            bench: Bench::new(),
            random: Seeded::new(seed),
            history: History::default(),
            durable: Durable::default(),
            directory: Directory::default(),
            snapshots: Vec::new(),
            views: Vec::new(),
            to_fold: Vec::new(),
            cache: DeltaCache::new(1 << 16),
            next_id: 1,
            met: Met::default(),
        }
    }

    fn live_snapshots(&self) -> Vec<Seq> {
        let views = self.views.iter().map(|view| view.snapshot);
        let mut all: Vec<Seq> = self.snapshots.iter().copied().chain(views).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn view(&self, snapshot: Seq) -> View {
        View {
            directory: self.directory.clone(),
            index: self.durable.index.clone(),
            flushed: self.durable.flushed,
            snapshot,
        }
    }

    /// Flushes everything that is not flushed; `stop` is where a crash cuts it off.
    fn flush(&mut self, stop: Option<u64>) {
        let snapshots = self.live_snapshots();
        let flushed = self.history.last_seq();
        let fate_of = |keyspace| world::fate_of(keyspace);
        let rule = Rule { snapshots: &snapshots, fate_of: &fate_of };
        let memtable = self.history.since(self.durable.flushed);
        let mut index = self.durable.index.clone();
        let (by_key, ranges) = sorted_out(&memtable, &mut index);
        if self.random.chance(50) {
            // A flush may look into buckets that are not in memory, or write anchors blindly.
            self.directory.iter().for_each(|bucket| {
                bucket.load(Purpose::Flush).unwrap();
            });
        }
        let directory = self.directory.clone();
        let mut router = Router::new(&directory, self.bench.context.hash, &rule, ranges);
        for (bound, records) in &by_key {
            let records = records.iter().copied().map(OwnedRecord::from).collect();
            router.add(bound.as_ref(), records);
        }
        let batches = router.finish();
        let (mut edits, mut made) = (Vec::new(), Vec::new());
        for (number, (position, batch)) in batches.iter().enumerate() {
            if batch.is_empty() {
                continue;
            }
            if stop == Some(number as u64) {
                return;
            }
            let bucket = position.and_then(|position| directory.at(position)).cloned();
            let (groups, purpose) = (batch.groups().unwrap(), Purpose::Flush);
            let capacity_bytes = LIMITS.capacity_bytes;
            let append = Append { groups: &groups, ranges: &batch.ranges, capacity_bytes, purpose };
            let appended = bucket.as_ref().map(|bucket| bucket.append(&append).unwrap());
            match (bucket, appended) {
                (Some(bucket), Some(Ok(unsynced))) => {
                    let next = unsynced.sync().unwrap();
                    edits.push(DeltasEdit::appended(bucket.info(), next.info()));
                    made.push(next);
                    self.met.appends += 1;
                }
                (_, refused) => {
                    use crate::deltas::bucket::writer::Refused;
                    let why = refused.and_then(|refused| refused.err());
                    self.met.closed += u64::from(why == Some(Refused::Closed));
                    self.met.full += u64::from(why == Some(Refused::Full));
                    let replaced: Vec<_> = position.iter().copied().collect();
                    let others = directory.len() + edits.len() - replaced.len();
                    self.collect(&directory, &replaced, batch, others, &mut edits, &mut made);
                }
            }
        }
        sync_names(&self.bench.context).unwrap();
        if stop.is_some() {
            // Everything is synced, and no edit names it.
            self.met.lost_appends += made.len() as u64;
            return;
        }
        self.commit(edits, made, index, flushed);
    }

    /// Rewrites buckets together with a batch.
    fn collect(
        &mut self,
        directory: &Directory,
        replaced: &[Position],
        batch: &BucketBatch,
        others: usize,
        edits: &mut Vec<DeltasEdit>,
        made: &mut Vec<Arc<crate::deltas::bucket::Bucket>>,
    ) {
        let snapshots = self.live_snapshots();
        let fate_of = |keyspace| world::fate_of(keyspace);
        let rule = Rule { snapshots: &snapshots, fate_of: &fate_of };
        let buckets: Vec<_> =
            replaced.iter().map(|position| directory.at(*position).unwrap().clone()).collect();
        let whole: Vec<_> =
            buckets.iter().map(|bucket| bucket.read_whole(Purpose::Compaction).unwrap()).collect();
        let living = survivors(&whole, &batch.keys, &batch.ranges, &rule);
        let sizes: Vec<u64> = living.keys.iter().map(|key| key.bytes()).collect();
        let long = outcome(&sizes, others, &LIMITS, true).fold;
        self.to_fold.extend(long.iter().map(|number| living.keys[*number].bound.clone()));
        let outcome = outcome(&sizes, others, &LIMITS, false);
        let applied = buckets.iter().map(|bucket| bucket.info().applied_seq).max().unwrap_or(0);
        let mut next_id = self.next_id;
        let mut plan = WritePlan {
            replaced: &buckets,
            may_vanish: replaced.first() != directory.first().as_ref(),
            applied_seq: applied.max(batch.last_seq()),
            capacity_bytes: LIMITS.capacity_bytes,
            purpose: Purpose::Compaction,
            next_id: &mut || {
                next_id += 1;
                FileId(next_id)
            },
        };
        let written = write(&self.bench.context, &living, &outcome, &mut plan).unwrap();
        self.next_id = next_id;
        let (new, edit) = written.sync().unwrap();
        self.met.splits += u64::from(buckets.len() == 1 && new.len() > 1);
        self.met.merges += u64::from(buckets.len() == 2);
        for bucket in &new {
            bucket.verify(Purpose::Verify).unwrap();
        }
        edits.extend(edit);
        made.extend(new);
    }

    /// Puts what the operands of keys make, as the engine does where nobody is in between.
    fn fold(&mut self) {
        for bound in std::mem::take(&mut self.to_fold) {
            self.met.folded += u64::from(self.history.fold(bound));
        }
    }

    /// Collects one bucket, or merges two, in a step of its own.
    fn collect_some(&mut self) {
        let directory = self.directory.clone();
        let sizes: Vec<u64> = directory.iter().map(|b| u64::from(b.info().bytes)).collect();
        let mut positions: Vec<Position> = Vec::new();
        let mut next = directory.first();
        while let Some(position) = next {
            positions.push(position);
            next = directory.next(position);
        }
        if positions.is_empty() {
            return;
        }
        let limits = Limits { capacity_bytes: LIMITS.capacity_bytes * 3, ..LIMITS };
        let from = pick_merge(&sizes, |_| false, &limits);
        let count = if from.is_some() { 2 } else { 1 };
        let from = from.unwrap_or_else(|| self.random.index(positions.len()));
        let (index, mut edits, mut made) = (self.durable.index.clone(), Vec::new(), Vec::new());
        let replaced = &positions[from..from + count];
        let others = directory.len() - count;
        let nothing = BucketBatch::default();
        self.collect(&directory, replaced, &nothing, others.max(1), &mut edits, &mut made);
        sync_names(&self.bench.context).unwrap();
        let flushed = self.durable.flushed;
        self.commit(edits, made, index, flushed);
    }

    fn commit(
        &mut self,
        edits: Vec<DeltasEdit>,
        made: Vec<Arc<crate::deltas::bucket::Bucket>>,
        index: Index,
        flushed: Seq,
    ) {
        let section = DeltasEdit::encode(&edits);
        let edits = DeltasEdit::decode(&section.payload).unwrap();
        let changed = self.directory.apply(&self.bench.context, &edits, &made).unwrap();
        self.durable.sections.push(section.payload);
        self.durable.index = index;
        self.durable.flushed = flushed;
        self.directory = changed.settle();
        drop(made);
        self.unlink();
        for bucket in self.directory.iter() {
            let is_one_key = || bucket.load(Purpose::Verify).unwrap().meta.keys <= 1;
            let fits = u64::from(bucket.info().bytes) <= LIMITS.capacity_bytes;
            assert!(fits || is_one_key(), "capacity");
        }
    }

    /// Removes files that nobody holds.
    fn unlink(&mut self) {
        for (_, id) in self.bench.context.obsolete.take() {
            let _ = self.bench.disk.remove_file(&Bench::path(id.0));
        }
    }

    /// Opens what is durable; `image` is the disk that a crash left.
    fn reopen(&mut self, image: Option<crate::io::memory_disk::MemoryDisk>) {
        self.views.clear();
        self.snapshots.clear();
        if let Some(image) = image {
            self.bench = Bench::over(image);
        }
        let mut directory = Directory::default();
        if self.random.chance(30) {
            // A manifest that was rolled: one snapshot.
            let edits: Vec<_> = self.directory_edits();
            let rolled = Directory::default().apply(&self.bench.context, &edits, &[]).unwrap();
            let rolled = rolled.settle();
            let section = DeltasEdit::encode(&rolled.snapshot());
            self.durable.sections = vec![section.payload];
        }
        let edits = self.directory_edits();
        let changed = directory.apply(&self.bench.context, &edits, &[]).unwrap();
        changed.directory().check().unwrap();
        directory = changed.settle();
        self.directory = directory;
        self.cache = DeltaCache::new(1 << 16);
        let _ = self.bench.context.obsolete.take();
        let named: Vec<FileId> = self.directory.iter().map(|bucket| bucket.info().id).collect();
        for entry in self.bench.disk.read_dir(std::path::Path::new(DIR)).unwrap() {
            let (_, id) = parse_file_name(&entry.name).unwrap();
            // Numbers are never used again, whether a crash left the file or not.
            self.next_id = self.next_id.max(id.0);
            if !named.contains(&id) {
                self.bench.disk.remove_file(&Bench::path(id.0)).unwrap();
            }
        }
    }

    fn directory_edits(&self) -> Vec<DeltasEdit> {
        let sections = self.durable.sections.iter();
        sections.flat_map(|payload| DeltasEdit::decode(payload).unwrap()).collect()
    }

    fn crash(&mut self) {
        self.met.crashes += 1;
        let stop = self.random.below(8);
        if self.random.chance(70) {
            self.flush(Some(stop));
        }
        let mode = CrashMode::ALL[self.random.index(CrashMode::ALL.len())];
        let image = self.bench.disk.crash_image(mode, self.random.next());
        self.reopen(Some(image));
    }

    /// What a view shows of a key: value, or that the operator fails.
    fn read(&mut self, view: &View, bound: Bound<'_>) -> Shown {
        let asked = crate::deltas::bucket::reader::Asked {
            bound,
            hash: self.bench.context.hash.hash(bound.keyspace, bound.key),
            snapshot: view.snapshot,
        };
        let operator = world::operator_of(bound.keyspace);
        let deltas = view.directory.find(bound).map(|bucket| {
            match self.random.chance(50) {
                true => self.cache.get(bucket, &asked, operator.as_ref(), Purpose::Read),
                false => bucket.get(&asked, Purpose::Read),
            }
            .unwrap()
        });
        let deltas = deltas.unwrap_or_default();
        let (mut base, mut value) = view.index.base_at(bound, view.snapshot);
        let own = deltas.operands.iter().map(|(seq, operand)| (*seq, operand.to_vec()));
        let mut operands: Vec<(Seq, Vec<u8>)> = own.collect();
        if deltas.anchor > base {
            (base, value) = (deltas.anchor, None);
        }
        let unflushed = self.history.since(view.flushed);
        for operation in &unflushed {
            let covers = operation.touches(bound) && operation.seq <= view.snapshot;
            match &operation.op {
                _ if !covers => {}
                Op::Merge(operand) => operands.push((operation.seq, operand.clone())),
                Op::Put(put) => (base, value) = (operation.seq, Some(put)),
                Op::Delete | Op::DeleteRange(_) => (base, value) = (operation.seq, None),
            }
        }
        operands.retain(|(seq, _)| *seq > base);
        operands.sort_unstable();
        assert!(operands.windows(2).all(|pair| pair[0].0 < pair[1].0), "a delta twice");
        let operands: Vec<&[u8]> = operands.iter().map(|(_, operand)| &**operand).collect();
        world::shown(operator.as_ref(), bound.key, value.map(Vec::as_slice), &operands)
    }

    fn check(&mut self, view: &View, seed: u64) {
        for bound in world::all_keys() {
            let wanted = self.history.shown(bound.as_ref(), view.snapshot);
            let found = self.read(view, bound.as_ref());
            self.met.errors += u64::from(found.is_err());
            assert_eq!(found, wanted, "seed {seed}: {bound:?} at {}", view.snapshot);
        }
        for keyspace in world::KEYSPACES {
            self.check_cursor(view, keyspace);
        }
    }

    /// A walk shows what gets do.
    fn check_cursor(&mut self, view: &View, keyspace: KeyspaceId) {
        let buckets = (&view.directory, &self.bench.context.io.meter);
        let mut cursor = DeltaCursor::new(buckets, keyspace, view.snapshot, Purpose::Read);
        let mut walked = Vec::new();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            walked.push((cursor.key().to_vec(), cursor.seq(), cursor.value().to_vec()));
            cursor.next().unwrap();
        }
        let mut got = Vec::new();
        for bound in world::all_keys().filter(|bound| bound.keyspace == keyspace) {
            let hash = self.bench.context.hash.hash(keyspace, &bound.key);
            let (bound, snapshot) = (bound.as_ref(), view.snapshot);
            let asked = crate::deltas::bucket::reader::Asked { bound, hash, snapshot };
            let Some(bucket) = view.directory.find(bound) else { continue };
            let found = bucket.get(&asked, Purpose::Read).unwrap();
            let operands = found.operands.iter();
            got.extend(operands.map(|(seq, operand)| (bound.key.to_vec(), *seq, operand.to_vec())));
        }
        assert_eq!(walked, got);
    }

    fn step(&mut self, seed: u64) {
        match self.random.below(100) {
            0..60 => self.history.operate(&mut self.random),
            60..62 => self.fold(),
            62..74 => self.flush(None),
            74..78 => self.collect_some(),
            78..82 => {
                let snapshots = self.live_snapshots();
                self.durable.index.compact(&snapshots);
            }
            82..86 => self.snapshots.push(self.history.last_seq()),
            86..89 => drop(self.snapshots.pop()),
            89..92 => {
                let view = self.view(self.history.last_seq());
                self.views.push(view);
            }
            92..94 if !self.views.is_empty() => {
                let at = self.random.index(self.views.len());
                let view = self.views.swap_remove(at);
                self.met.views += 1;
                self.check(&view, seed);
                drop(view);
                self.unlink();
            }
            94..96 => self.crash(),
            96 => self.reopen(None),
            _ => {
                let mut snapshots = self.live_snapshots();
                snapshots.push(self.history.last_seq());
                let snapshot = snapshots[self.random.index(snapshots.len())];
                let view = self.view(snapshot);
                self.check(&view, seed);
            }
        }
    }
}

/// What a memtable has for buckets, by key; bases go into the index.
fn sorted_out<'a>(
    memtable: &'a [Operation],
    index: &mut Index,
) -> (BTreeMap<OwnedBound, Vec<Record<'a>>>, Vec<RangeAnchor>) {
    let mut by_key: BTreeMap<OwnedBound, Vec<Record<'a>>> = BTreeMap::new();
    let mut ranges = Vec::new();
    for operation in memtable.iter().rev() {
        let Operation { seq, bound, op } = operation;
        let record = |kind, operand| Record { seq: *seq, kind, operand };
        let record = match op {
            Op::Merge(operand) => record(DeltaKind::Delta, operand.as_slice()),
            Op::DeleteRange(end) => {
                let (start, end) = (bound.key.clone(), end.clone());
                let range = RangeTombstone { start, end, seq: *seq };
                ranges.push(RangeAnchor { keyspace: bound.keyspace, range });
                index.delete_range(operation);
                continue;
            }
            _ => {
                index.put(operation);
                record(DeltaKind::Anchor, [].as_slice())
            }
        };
        by_key.entry(bound.clone()).or_default().push(record);
    }
    (by_key, ranges)
}

#[test]
fn agrees_with_the_history() {
    let mut all = Met::default();
    let seeds = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seeds = seeds.map_or(0..60, |seed: u64| seed..seed + 1);
    let is_whole = seeds.end - seeds.start > 1;
    for seed in seeds {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step(seed);
        }
        let view = world.view(world.history.last_seq());
        world.check(&view, seed);
        let met = &world.met;
        all.appends += met.appends;
        all.closed += met.closed;
        all.full += met.full;
        all.splits += met.splits;
        all.merges += met.merges;
        all.folded += met.folded;
        all.crashes += met.crashes;
        all.lost_appends += met.lost_appends;
        all.views += met.views;
        all.errors += met.errors;
    }
    println!("{all:?}");
    let counts = [
        all.appends,
        all.closed,
        all.full,
        all.splits,
        all.merges,
        all.folded,
        all.crashes,
        all.lost_appends,
        all.views,
        all.errors,
    ];
    assert!(!is_whole || counts.iter().all(|count| *count > 10), "{all:?}");
}
