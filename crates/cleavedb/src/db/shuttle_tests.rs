//! Whole databases, through their public face, under a scheduler that may switch threads at every
//! lock, atomic, wait and load of a view: only disk, clock and threads are not the real ones.

mod background;
mod closing;
mod collection;
mod commits;
mod flex;
mod values;
mod views;

use std::path::Path;
use std::time::Duration;

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::schedules::check;
use crate::base::sync::{Arc, thread};
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::db::{Db, Durability, Keyspace, KeyspaceOptions, Snapshot};
use crate::engine::Engine;
use crate::engine::settings::Settings;
use crate::io::Io;
use crate::io::clock::Clock;
use crate::io::disk::Disk;
use crate::io::executor::SharedExecutor;
use crate::io::memory_disk::MemoryDisk;
use crate::io::stepper::Stepper;
use crate::io::threads::ThreadPool;

/// A clock that stands still; whoever sleeps lets others run.
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) {
        thread::yield_now();
    }
}

/// Where background steps run.
#[derive(Clone, Copy)]
enum Steps {
    /// In whatever thread waits for them.
    Stepped,
    /// In a pool that runs so many compactions at once and has two threads more.
    Pool(usize),
}

impl Steps {
    fn executor(self) -> SharedExecutor {
        match self {
            Self::Stepped => Stepper::new(0).attach(),
            Self::Pool(threads) => ThreadPool::new(threads).unwrap(),
        }
    }
}

fn settings() -> Settings {
    Settings {
        create_if_missing: true,
        error_if_exists: false,
        read_only: false,
        // No timer: it would never tick.
        sync_interval: Duration::ZERO,
        write_timeout: None,
        memory_budget: 1 << 16,
        direct_reads: false,
        direct_writes: false,
        open_files_max: 8,
        reserve_bytes: 0,
        strategy: None,
        space_amplification_max: 1.25,
        operators: Vec::new(),
    }
}

/// Nothing happens by itself: memtables are frozen, tables merged, when a model asks.
fn widths() -> Widths {
    Widths { journal_segment_bytes: 1 << 12, ..Widths::for_budget(1 << 20) }
}

/// A database of one keyspace. Clones are the same one.
#[derive(Clone)]
struct World {
    db: Db,
    ks: Keyspace,
    /// Commits before the model begins.
    base: u64,
}

impl World {
    /// A new database on an empty disk.
    fn new(steps: Steps) -> Self {
        Self::on(Arc::new(MemoryDisk::new()), steps)
    }

    /// The database on a disk, made where there is none.
    fn on(disk: Arc<dyn Disk>, steps: Steps) -> Self {
        Self::with(disk, steps, "/db", settings(), widths())
    }

    fn with(
        disk: Arc<dyn Disk>,
        steps: Steps,
        path: &str,
        settings: Settings,
        widths: Widths,
    ) -> Self {
        let io = Io::new(disk, Arc::new(Still), steps.executor(), 0);
        let engine = Engine::open(io, Path::new(path), settings, widths).unwrap();
        let db = Db::new(Handle::new(engine, Durability::Buffered));
        let ks = db.keyspace("k", KeyspaceOptions::new()).unwrap();
        let base = db.snapshot().seq();
        Self { db, ks, base }
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.ks.handle.engine
    }

    /// Starts a thread of the model with handles of its own.
    fn spawn(&self, run: impl FnOnce(World) + Send + 'static) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn("model", move || run(world)).unwrap()
    }

    fn put(&self, key: u8, durability: Durability) -> crate::Result<()> {
        let mut batch = self.db.batch();
        batch.put(&self.ks, [key], [key; 24]);
        batch.commit(durability)
    }

    /// Whether `key` has its value; another value than [`World::put`] gives is an error.
    fn has(&self, key: u8) -> bool {
        let value = self.ks.get([key]).unwrap();
        assert!(value.as_ref().is_none_or(|value| *value == [key; 24]), "a foreign value");
        value.is_some()
    }

    fn has_at(&self, snapshot: &Snapshot, key: u8) -> bool {
        snapshot.get(&self.ks, [key]).unwrap().is_some()
    }

    /// A snapshot sees every commit up to its own, and none beyond: each put one of `keys`.
    fn check_prefix(&self, keys: &[u8]) {
        let snapshot = self.db.snapshot();
        let seen = keys.iter().filter(|key| self.has_at(&snapshot, **key)).count() as u64;
        assert_eq!(self.base + seen, snapshot.seq(), "a commit is missing or too early");
        let again = keys.iter().filter(|key| self.has_at(&snapshot, **key)).count() as u64;
        assert_eq!(again, seen, "a snapshot has changed");
    }

    /// After reopening: of `keys`, those that are there are a prefix of the commits since `base`.
    fn check_recovered(&self, base: u64, keys: &[u8]) {
        let there = keys.iter().filter(|key| self.has(**key)).count() as u64;
        assert_eq!(base + there, self.base, "not a prefix of history");
    }

    /// The same by an iterator.
    fn check_prefix_by_scan(&self) {
        let snapshot = self.db.snapshot();
        let seen = snapshot.range::<&[u8]>(&self.ks, ..).map(Result::unwrap).count() as u64;
        assert_eq!(self.base + seen, snapshot.seq(), "a commit is missing or too early");
    }

    fn close(self) {
        self.db.clone().close().unwrap();
    }
}

/// Waits for threads; their failures are the model's.
fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// What was acknowledged, key by key.
#[derive(Clone, Default)]
struct Acknowledged(Arc<[AtomicBool; 8]>);

impl Acknowledged {
    fn add(&self, key: u8) {
        self.0[usize::from(key)].store(true, Ordering::SeqCst);
    }

    fn has(&self, key: u8) -> bool {
        self.0[usize::from(key)].load(Ordering::SeqCst)
    }

    /// What is acknowledged is there.
    fn check(&self, world: &World, key: u8) {
        let acknowledged = self.has(key);
        assert!(world.has(key) || !acknowledged, "acknowledged and not there");
    }
}
