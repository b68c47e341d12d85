//! Background work on real threads and a real directory: facts that the statistics count, met by
//! loading on until they are seen. Nothing here depends on how long anything takes.

use super::*;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::context::native_io;
use crate::io::executor::{Executor, Priority, SharedExecutor, Step};
use crate::{Durability, IndexKind, Stats};

/// Writes until then; on any machine the facts come within a small part of it.
const WRITES_MAX: u64 = 3_000_000;
/// Writes between two looks at the statistics.
const WRITES_A_LOOK: u64 = 2_000;
const KEYS: u64 = 40_000;

/// A database with so small memtables, tables and levels that it compacts all the time.
fn compacting(path: &std::path::Path, subcompaction_bytes_min: u64) -> Db {
    let widths = Widths {
        memtable_bytes: 64 << 10,
        table_bytes: 32 << 10,
        level0_runs_trigger: 2,
        level_base_bytes_min: 128 << 10,
        level_ratio: 4,
        subcompaction_bytes_min,
        ..Widths::for_budget(16 << 20)
    };
    let options = Options::new().memory_budget(16 << 20).reserve_bytes(0);
    let io = native_io(4, 0).unwrap();
    let engine = Engine::open(io, path, options.into_settings(), widths).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

/// Loads until the statistics show what is wanted; then checks the contents.
fn load_until(db: &Db, seen: impl Fn(&Stats) -> bool) -> Stats {
    let ks = plain(db);
    let mut written = 0;
    loop {
        for _ in 0..WRITES_A_LOOK {
            // All keys are met, in an order that spreads each memtable over all of them.
            let key = written * 7_919 % KEYS;
            ks.put(key.to_be_bytes(), [written.to_be_bytes(); 12].concat()).unwrap();
            written += 1;
        }
        let stats = db.stats();
        if seen(&stats) || written >= WRITES_MAX {
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_eq!(ks.iter().count() as u64, written.min(KEYS));
            assert_eq!(tables_on_disk(db), tables_named(db), "superfluous ones stayed");
            let problems = db.verify(&mut |_, _| {}).unwrap().problems;
            assert!(problems.is_empty(), "{problems:?}");
            return stats;
        }
    }
}

fn tables_named(db: &Db) -> usize {
    let keyspaces = db.stats().keyspaces.into_iter();
    keyspaces.flat_map(|keyspace| keyspace.levels).map(|level| level.files).sum()
}

fn tables_on_disk(db: &Db) -> usize {
    let engine = &plain(db).handle.engine;
    let entries = engine.io.disk.read_dir(&engine.dir).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".tbl")).count()
}

#[test]
fn compactions_run_beside_each_other() {
    let (_guard, path) = scratch();
    let db = compacting(&path, u64::MAX);
    let stats = load_until(&db, |stats| stats.events.concurrent_compactions_max >= 2);
    assert!(stats.events.concurrent_compactions_max >= 2, "{:?}", stats.events);
    assert_eq!(stats.events.parallel_parts, 0, "none was large enough to be split");
}

#[test]
fn large_compactions_run_in_parts() {
    let (_guard, path) = scratch();
    let db = compacting(&path, 64 << 10);
    let stats = load_until(&db, |stats| stats.events.parallel_parts >= 2);
    assert!(stats.events.parallel_parts >= 2, "{:?}", stats.events);
}

/// Counts the steps that somebody waits for, and keeps compactions back where that is asked for.
struct Watched {
    inner: SharedExecutor,
    awaited: AtomicUsize,
    /// Compactions kept back; `None` once they may run.
    held: Mutex<Option<Vec<Step>>>,
}

impl Watched {
    fn awaited(&self) -> usize {
        self.awaited.load(Ordering::SeqCst)
    }

    /// Lets the compactions run that were kept back, and all to come.
    fn release(&self) {
        let held = self.held.lock().take();
        for step in held.into_iter().flatten() {
            self.inner.submit(Priority::Compaction, step);
        }
    }
}

impl Executor for Watched {
    fn submit(&self, priority: Priority, step: Step) {
        self.awaited.fetch_add(usize::from(priority == Priority::Awaited), Ordering::SeqCst);
        match &mut *self.held.lock() {
            Some(held) if priority == Priority::Compaction => held.push(step),
            _ => self.inner.submit(priority, step),
        }
    }
    fn help(&self) -> bool {
        self.inner.help()
    }
    fn is_stepper(&self) -> bool {
        self.inner.is_stepper()
    }
    fn fork_join<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        self.inner.fork_join(parts);
    }
    fn parallelism(&self) -> usize {
        self.inner.parallelism()
    }
    fn shutdown(&self) {
        self.inner.shutdown();
    }
}

/// A database with so many runs in level 0, and what watches its background work. Compactions wait
/// for [`Watched::release`].
fn with_runs(path: &std::path::Path, runs: u64, widths: Widths) -> (Db, Arc<Watched>) {
    let interval = std::time::Duration::from_millis(5);
    let options = Options::new().memory_budget(16 << 20).reserve_bytes(0).sync_interval(interval);
    let mut io = native_io(2, 0).unwrap();
    let watched = Arc::new(Watched {
        inner: io.executor.clone(),
        awaited: AtomicUsize::new(0),
        held: Mutex::new(Some(Vec::new())),
    });
    io.executor = watched.clone();
    let engine = Engine::open(io, path, options.into_settings(), widths).unwrap();
    let db = Db::new(Handle::new(engine, Durability::Buffered));
    for run in 0..runs {
        for key in 0..50_u64 {
            plain(&db).put((key * runs + run).to_be_bytes(), [7; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    assert_eq!(level0_files(&db) as u64, runs);
    assert_eq!(watched.awaited(), 0);
    (db, watched)
}

/// Five runs, in a database in which nothing but reads and calls makes compaction due.
fn not_due(path: &std::path::Path) -> (Db, Arc<Watched>) {
    let widths = Widths {
        level0_runs_trigger: 1_000,
        read_compaction_nanos_min: 0,
        ..Widths::for_budget(16 << 20)
    };
    let (db, watched) = with_runs(path, 5, widths);
    watched.release();
    db.wait_idle().unwrap();
    assert_eq!((level0_files(&db), watched.awaited()), (5, 0), "nothing was due");
    (db, watched)
}

fn level0_files(db: &Db) -> usize {
    let levels = db.stats().keyspaces.into_iter().flat_map(|keyspace| keyspace.levels);
    levels.filter(|level| level.level == 0).map(|level| level.files).sum()
}

/// Nobody writes, so nothing but the timer can find out that it is due.
#[test]
fn runs_that_reads_have_paid_for_become_one_at_the_usual_priority() {
    for scans in [true, false] {
        let (_guard, path) = scratch();
        let (db, watched) = not_due(&path);
        let ks = plain(&db);
        let mut reads = 0_u64;
        // Whoever has to give up here has read for what hundreds of merges cost.
        while level0_files(&db) > 1 && reads < 2_000_000 {
            if scans {
                assert_eq!(ks.iter().take(20).count(), 20);
            } else {
                let key = (reads % 250).to_be_bytes();
                assert!(ks.get(key).unwrap().is_some());
            }
            reads += 1;
        }
        assert_eq!(level0_files(&db), 1, "scans: {scans}, {reads} reads");
        assert_eq!(watched.awaited(), 1, "scans: {scans}");
        assert_eq!(ks.iter().count(), 250);
    }
}

#[test]
fn a_compaction_that_a_caller_waits_for_has_the_usual_priority() {
    let (_guard, path) = scratch();
    let (db, watched) = not_due(&path);
    db.compact().unwrap();
    assert_eq!(level0_files(&db), 0);
    assert_eq!(tables_on_disk(&db), tables_named(&db));
    assert!(watched.awaited() > 0);
    assert_eq!(plain(&db).iter().count(), 250);
}

#[test]
fn compactions_that_writers_are_held_back_for_have_the_usual_priority() {
    // Writers are held back for more than eight runs, and stop at twelve.
    for (runs, are_held_back) in [(7, false), (8, false), (9, true), (11, true)] {
        let (_guard, path) = scratch();
        let widths = Widths { level0_runs_trigger: 2, ..Widths::for_budget(16 << 20) };
        let (db, watched) = with_runs(&path, runs, widths);
        let engine = &plain(&db).handle.engine;
        // The last flush tells of its run after it is done.
        while engine.waits_for_compaction() != are_held_back {
            std::thread::yield_now();
        }
        watched.release();
        // Whoever called for it to be idle would be waited for, too.
        while level0_files(&db) >= 2 {
            std::thread::yield_now();
        }
        assert_eq!(watched.awaited() > 0, are_held_back, "{runs} runs");
        assert_eq!(plain(&db).iter().count() as u64, 50 * runs);
    }
}

/// Nobody writes, reads or calls: the timer finds that out.
#[test]
fn intervals_in_fragments_are_written_in_one_piece_while_nobody_writes() {
    let (_guard, path) = scratch();
    let interval = std::time::Duration::from_millis(5);
    let options = Options::new().memory_budget(16 << 20).reserve_bytes(0).sync_interval(interval);
    let widths = Widths { block_bytes: 256, ..Widths::for_budget(16 << 20) };
    let io = native_io(2, 0).unwrap();
    let engine = Engine::open(io, &path, options.into_settings(), widths).unwrap();
    let db = Db::new(Handle::new(engine, Durability::Buffered));
    let of_flex = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    let ks = db.keyspace("flex", of_flex).unwrap();
    for round in 0..4_u8 {
        for key in 0..100_u64 {
            // All of it first, then a little at a time.
            if round == 0 || key % 20 == u64::from(round) % 2 {
                ks.put(key.to_be_bytes(), [round; 40]).unwrap();
            }
        }
        db.flush().unwrap();
    }
    while db.stats().events.compactions == 0 {
        std::thread::yield_now();
    }
    db.wait_idle().unwrap();
    assert_eq!(ks.iter().count(), 100);
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}
