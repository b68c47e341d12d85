//! Random changes beside a list of entries: several versions, snapshots, merges, range deletes,
//! jobs, changes that are dropped, views, reopening, and crashes at any call of the disk.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::base::entry::KeyspaceId;
use crate::base::sync::Mutex;
use crate::index::testing::world::multi_get;
use crate::index::testing::{naive_read, reading_points};
use crate::index::{Dead, JobContext, ListenerFactory, Mended};
use crate::io::memory_disk::{CrashMode, MemoryDisk};
use crate::io::seeded::Seeded;

/// All that was ever flushed.
#[derive(Clone, Default)]
struct Twin {
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
}

#[derive(Debug, Default)]
struct Met {
    flushes: u64,
    dropped: u64,
    reopened: u64,
    crash_states: u64,
    jobs: BTreeMap<String, u64>,
    intervals_max: usize,
}

fn key(random: &mut Seeded) -> Vec<u8> {
    format!("{:03}", random.below(160)).into_bytes()
}

/// Reads everything at every point that somebody may read at.
fn check(view: &dyn IndexView, twin: &Twin, snapshots: &[Seq], what: &str) {
    let all: BTreeSet<Vec<u8>> = twin.entries.iter().map(|entry| entry.key.clone()).collect();
    let all: Vec<Vec<u8>> = all.into_iter().collect();
    for point in reading_points(snapshots) {
        let wanted: Vec<_> =
            all.iter().map(|key| naive_read(&twin.entries, &twin.tombstones, key, point)).collect();
        for (key, wanted) in all.iter().zip(&wanted) {
            let found = get(view, key, point).unwrap();
            assert_eq!(found, *wanted, "{what}: {} at {point}", key.escape_ascii());
        }
        assert_eq!(multi_get(view, &all, point), wanted, "{what}: at {point}");
    }
    // What a walk meets is of what came in, or was made of it.
    let met = entries_of(view, KeyRange::default());
    assert!(met.iter().all(|entry| all.contains(&entry.key)), "{what}");
    assert_eq!(met.len() as u64, view.space().entries, "{what}");
}

fn batch(random: &mut Seeded, seq: &mut Seq) -> Twin {
    let mut twin = Twin::default();
    let count = if random.chance(10) { 150 } else { 1 + random.below(25) };
    let at = random.below(160);
    let is_near = random.chance(40);
    for _ in 0..count {
        *seq += 1;
        let key = if is_near { format!("{:03}", at + random.below(9)).into() } else { key(random) };
        let value = vec![b'a' + random.below(26) as u8; random.below(40) as usize];
        let (kind, value) = match random.below(10) {
            0 | 1 => (Kind::Delete, Vec::new()),
            2 => (Kind::Merge, value),
            _ => (Kind::Put, value),
        };
        twin.entries.push(Entry { key, seq: *seq, kind, value });
    }
    if random.chance(25) {
        *seq += 1;
        let (a, b) = (key(random), key(random));
        let (start, end) = (a.clone().min(b.clone()).into(), a.max(b).into());
        twin.tombstones.push(RangeTombstone { start, end, seq: *seq });
        twin.tombstones.retain(|tombstone| tombstone.start < tombstone.end);
    }
    twin
}

/// Images of crashes at some of the calls that a run makes.
fn crashes<T>(disk: &MemoryDisk, seed: u64, run: impl FnOnce() -> T) -> (T, Vec<MemoryDisk>) {
    let images = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&images);
    disk.set_observer(Some(Arc::new(move |call, disk: &MemoryDisk| {
        let mut random = Seeded::new(seed ^ call);
        if random.chance(30) {
            let mode = CrashMode::ALL[random.index(CrashMode::ALL.len())];
            let image = disk.crash_image(mode, random.next());
            kept.lock().push(image);
        }
    })));
    let done = run();
    disk.set_observer(None);
    let images = std::mem::take(&mut *images.lock());
    (done, images)
}

/// Notes what dies in a change that may come to nothing.
#[derive(Clone, Default)]
struct Deaths(Arc<Mutex<Vec<(Seq, Kind)>>>);

impl Listener for Deaths {
    fn dead(&mut self, dead: Dead<'_>) {
        assert!(dead.seq <= dead.superseded_by);
        self.0.lock().push((dead.seq, dead.kind));
    }
    fn survivor(&mut self, _key: &[u8], _seq: Seq, _handle: &[u8]) -> Option<Mended> {
        None
    }
    fn keeps_tombstone(&mut self, _key: &[u8], _seq: Seq) -> bool {
        false
    }
    fn finish(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }
}

impl ListenerFactory for Deaths {
    fn listener(&self, _keyspace: KeyspaceId) -> Box<dyn Listener> {
        Box::new(self.clone())
    }
}

struct Run {
    /// Seqs of all that has died.
    dead: BTreeSet<Seq>,
    world: World,
    disk: MemoryDisk,
    index: Arc<FlexIndex>,
    durable: Vec<Section>,
    twin: Twin,
    snapshots: Vec<Seq>,
    random: Seeded,
    what: String,
}

impl Run {
    /// The state that is named must open from each image, with all that is in it.
    fn check_images(&self, images: Vec<MemoryDisk>, met: &mut Met) {
        for image in images {
            met.crash_states += 1;
            let world = World::on(Arc::new(image));
            let index = recover(&world, &self.durable);
            check(&*index.view(), &self.twin, &self.snapshots, &self.what);
        }
    }

    fn flush(&mut self, seq: &mut Seq, met: &mut Met) {
        let more = batch(&mut self.random, seq);
        let draw = self.random.next();
        let index = Arc::clone(&self.index);
        let deaths = Deaths::default();
        let (prepared, images) = crashes(&self.disk, draw, || {
            let input = input(more.entries.clone(), more.tombstones.clone(), &self.snapshots);
            let deaths = deaths.clone();
            let listeners = Box::new(move || Box::new(deaths.clone()) as Box<dyn Listener>);
            index.apply_flush(FlushInput { listeners, ..input }).unwrap()
        });
        if self.random.chance(20) {
            self.check_images(images, met);
        }
        if self.random.chance(15) {
            met.dropped += 1;
            drop(prepared);
            return;
        }
        self.durable = prepared.sections.clone();
        self.twin.entries.extend(more.entries);
        self.twin.tombstones.extend(more.tombstones);
        self.index.install(prepared.change).unwrap();
        self.bury(&deaths);
        met.flushes += 1;
    }

    /// What dies, dies once; and what did not, is there.
    fn bury(&mut self, deaths: &Deaths) {
        for (seq, kind) in deaths.0.lock().drain(..) {
            // A range delete may have been cut, as the tables of an LSM-tree cut it.
            let is_first = self.dead.insert(seq) || kind == Kind::RangeDelete;
            assert!(is_first, "{}: {seq} has died before", self.what);
        }
        let view = self.index.view();
        let entries = entries_of(&*view, KeyRange::default());
        let tombstones = view.tombstones().unwrap().tombstones();
        let there = entries.iter().map(|entry| entry.seq);
        let there: BTreeSet<Seq> = there.chain(tombstones.iter().map(|t| t.seq)).collect();
        let came = self.twin.entries.iter().map(|entry| entry.seq);
        let came = came.chain(self.twin.tombstones.iter().map(|tombstone| tombstone.seq));
        let wanted: BTreeSet<Seq> = came.filter(|seq| !self.dead.contains(seq)).collect();
        assert_eq!(there, wanted, "{}", self.what);
    }

    fn job(&mut self, met: &mut Met) {
        let Some(mut job) = self.index.pick_job() else { return };
        let draw = self.random.next();
        let deaths = Deaths::default();
        let context =
            JobContext { listeners: Arc::new(deaths.clone()), ..job_context(&self.snapshots) };
        let (prepared, images) = crashes(&self.disk, draw, || job.run(&context).unwrap());
        if self.random.chance(30) {
            self.check_images(images, met);
        }
        if self.random.chance(10) {
            met.dropped += 1;
            return;
        }
        let name = format!("{}: {}", prepared.report.kind, prepared.report.reason);
        *met.jobs.entry(name).or_default() += 1;
        if !prepared.sections.is_empty() {
            self.durable = prepared.sections.clone();
        }
        self.index.install(prepared.change).unwrap();
        self.bury(&deaths);
    }

    fn reopen(&mut self, met: &mut Met) {
        let mode = CrashMode::ALL[self.random.index(CrashMode::ALL.len())];
        self.disk = self.disk.crash_image(mode, self.random.next());
        let ids = self.world.context().file_ids.peek();
        self.world = World::on(Arc::new(self.disk.clone()));
        self.world.context().file_ids.at_least(ids);
        self.index = recover(&self.world, &self.durable);
        remove_strays(&self.world, &self.index);
        met.reopened += 1;
    }
}

fn run(seed: u64, rounds: u64, met: &mut Met) {
    let disk = MemoryDisk::new();
    let world = World::on(Arc::new(disk.clone()));
    let index = recover(&world, &[]);
    let (durable, twin, snapshots) = (Vec::new(), Twin::default(), Vec::new());
    let (random, what) = (Seeded::new(seed), String::new());
    let dead = BTreeSet::new();
    let mut run = Run { dead, world, disk, index, durable, twin, snapshots, random, what };
    let mut seq = 0;
    let mut views: Vec<(Arc<dyn IndexView>, Twin, Vec<Seq>)> = Vec::new();
    for round in 0..rounds {
        run.what = format!("seed {seed}, round {round}");
        match run.random.below(10) {
            0..6 => run.flush(&mut seq, met),
            6 | 7 => (0..4).for_each(|_| run.job(met)),
            8 => drop(run.index.request_compaction(KeyRange::default(), false)),
            _ => {
                views.clear();
                run.reopen(met);
            }
        }
        if run.random.chance(15) && seq > 0 {
            run.snapshots.push(seq);
        } else if run.random.chance(15) && !run.snapshots.is_empty() {
            run.snapshots.remove(0);
        }
        // Snapshots of one seq are one.
        run.snapshots.dedup();
        let view = run.index.view();
        check(&*view, &run.twin, &run.snapshots, &run.what);
        verify(&*view);
        met.intervals_max = met.intervals_max.max(run.index.shared.current().source.anchors.len());
        for (view, twin, snapshots) in &views {
            check(&**view, twin, snapshots, &format!("{}, a view", run.what));
        }
        if run.random.chance(10) {
            views.push((view, run.twin.clone(), run.snapshots.clone()));
        } else if views.len() > 1 {
            views.remove(0);
        }
        run.world.sweep();
    }
}

#[test]
fn every_state_is_what_the_list_of_entries_says() {
    let mut met = Met::default();
    (0..6).for_each(|seed| run(seed, 60, &mut met));
    println!("flex index: {met:?}");
    assert!(met.flushes > 100 && met.dropped > 10 && met.reopened > 10, "{met:?}");
    assert!(met.crash_states > 50 && met.intervals_max > 16, "{met:?}");
    for kind in ["checkpoint: logical log", "reclaim: garbage", "compaction: manual"] {
        assert!(met.jobs.get(kind).is_some_and(|count| *count > 3), "{kind}: {met:?}");
    }
    for kind in ["compaction: range delete", "compaction: read in fragments"] {
        assert!(met.jobs.contains_key(kind), "{kind}: {met:?}");
    }
}
