//! Background work on real threads and a real directory: facts that the statistics count, met by
//! loading on until they are seen. Nothing here depends on how long anything takes.

use super::*;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::context::native_io;
use crate::io::executor::{Executor, Priority, SharedExecutor, Step};
use crate::{Durability, Stats};

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

/// Counts the steps that somebody waits for.
struct CountsAwaited {
    inner: SharedExecutor,
    awaited: Arc<AtomicUsize>,
}

impl Executor for CountsAwaited {
    fn submit(&self, priority: Priority, step: Step) {
        self.awaited.fetch_add(usize::from(priority == Priority::Awaited), Ordering::SeqCst);
        self.inner.submit(priority, step);
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

/// A database in which nothing but reads and calls makes compaction due, with some runs in
/// level 0, and the count of compactions that were handed to workers of the usual priority.
fn with_runs(path: &std::path::Path) -> (Db, Arc<AtomicUsize>) {
    let widths = Widths {
        level0_runs_trigger: 1_000,
        read_compaction_nanos_min: 0,
        ..Widths::for_budget(16 << 20)
    };
    let interval = std::time::Duration::from_millis(5);
    let options = Options::new().memory_budget(16 << 20).reserve_bytes(0).sync_interval(interval);
    let mut io = native_io(2, 0).unwrap();
    let awaited = Arc::new(AtomicUsize::new(0));
    let inner = io.executor.clone();
    io.executor = Arc::new(CountsAwaited { inner, awaited: awaited.clone() });
    let engine = Engine::open(io, path, options.into_settings(), widths).unwrap();
    let db = Db::new(Handle::new(engine, Durability::Buffered));
    for run in 0..5_u64 {
        for key in 0..50_u64 {
            plain(&db).put((key * 5 + run).to_be_bytes(), [7; 50]).unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    assert_eq!(level0_files(&db), 5);
    assert_eq!(awaited.load(Ordering::SeqCst), 0, "nothing was due");
    (db, awaited)
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
        let (db, awaited) = with_runs(&path);
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
        assert_eq!(awaited.load(Ordering::SeqCst), 1, "scans: {scans}");
        assert_eq!(ks.iter().count(), 250);
    }
}

#[test]
fn a_compaction_that_a_caller_waits_for_has_the_usual_priority() {
    let (_guard, path) = scratch();
    let (db, awaited) = with_runs(&path);
    db.compact().unwrap();
    assert_eq!(level0_files(&db), 0);
    assert_eq!(tables_on_disk(&db), tables_named(&db));
    assert!(awaited.load(Ordering::SeqCst) > 0);
    assert_eq!(plain(&db).iter().count(), 250);
}
