//! More faults of the public prototype of the paper about FlexDB, each as a test of a whole
//! database that it would fail: those about who waits for whom, and a cursor that skipped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;

use super::*;
use crate::Durability;
use crate::IndexKind;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::clock::SystemClock;
use crate::io::executor::{Executor, Priority, SharedExecutor, Step};
use crate::io::memory_disk::CrashMode;
use crate::io::threads::ThreadPool;

fn open(io: Io) -> Db {
    let engine = Engine::open(io, Path::new("/db"), small().into_settings(), tiny()).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

fn flex(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    db.keyspace("flex", options).unwrap()
}

fn threaded(disk: &MemoryDisk, executor: SharedExecutor) -> Io {
    Io::new(Arc::new(disk.clone()), Arc::new(SystemClock), executor, 0)
}

/// FX10: a sync that came while the worker was about to say that it was done took what the worker
/// had begun before for its own, and returned with nothing flushed.
#[test]
fn a_sync_or_a_flush_returns_after_what_was_written_before_it_is_safe() {
    let disk = MemoryDisk::new();
    let db = open(threaded(&disk, ThreadPool::new(2).unwrap()));
    let keyspace = flex(&db);
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let (db, keyspace, disk) = (&db, &keyspace, &disk);
            scope.spawn(move || {
                for round in 0..12_u64 {
                    let key = format!("{writer} {round}");
                    keyspace.put(&key, [7; 100]).unwrap();
                    if (writer + round) % 2 == 0 {
                        db.sync().unwrap();
                    } else {
                        let written = db.stats().last_seq;
                        db.flush().unwrap();
                        // All of it is in the index, what others had written by then as well.
                        assert!(keyspace.handle.engine.flushed.load(Ordering::Acquire) >= written);
                        db.sync().unwrap();
                    }
                    // The power goes: whatever was not synced is lost.
                    let image = disk.crash_image(CrashMode::None, writer * 100 + round);
                    let found = flex(&open(world(&image))).get(&key).unwrap();
                    assert!(found.is_some(), "{key}");
                }
            });
        }
    });
    assert_eq!(keyspace.iter().count(), 48);
}

/// Threads whose steps are kept back until they are let go.
struct Held {
    inner: SharedExecutor,
    steps: Mutex<Option<Vec<(Priority, Step)>>>,
}

impl Held {
    fn release(&self) {
        let steps = self.steps.lock().take();
        for (priority, step) in steps.into_iter().flatten() {
            self.inner.submit(priority, step);
        }
    }
}

impl Executor for Held {
    fn submit(&self, priority: Priority, step: Step) {
        match &mut *self.steps.lock() {
            Some(steps) => steps.push((priority, step)),
            None => self.inner.submit(priority, step),
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

/// Whether the system says that a thread of this process sleeps.
fn is_asleep(task: &Path) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(task).join("stat")).unwrap();
    let (_, behind) = stat.rsplit_once(") ").expect("a name in parentheses");
    behind.starts_with('S')
}

/// FX10: who waited for a flush, for room in memory or for a load to end asked again and again for
/// as long as it took.
#[test]
fn who_waits_sleeps() {
    /// Looks in a row that find a thread asleep: one that asks over and over is never met so.
    const ASLEEP: usize = 200;
    const LOOKS_MAX: usize = 5_000_000;
    let disk = MemoryDisk::new();
    let inner: SharedExecutor = ThreadPool::new(2).unwrap();
    let held = Arc::new(Held { inner, steps: Mutex::new(Some(Vec::new())) });
    let db = open(threaded(&disk, held.clone()));
    let keyspace = flex(&db);
    keyspace.put("first", "value").unwrap();
    let flushes = || db.flush().unwrap();
    let loads = || {
        // More than may be in memory: its rest waits for a flush.
        (0..600_u32).for_each(|number| keyspace.put(number.to_be_bytes(), [7; 100]).unwrap());
    };
    let idles = || db.wait_idle().unwrap();
    let waits: [&(dyn Fn() + Sync); 3] = [&flushes, &loads, &idles];
    std::thread::scope(|scope| {
        let (told, tasks) = mpsc::channel();
        for wait in waits {
            let told = told.clone();
            scope.spawn(move || {
                told.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
                wait();
            });
        }
        let is_held = || held.steps.lock().as_ref().is_some_and(|steps| !steps.is_empty());
        for task in tasks.iter().take(waits.len()) {
            let (mut in_a_row, mut looks) = (0, 0);
            while in_a_row < ASLEEP && looks < LOOKS_MAX {
                in_a_row = if is_held() && is_asleep(&task) { in_a_row + 1 } else { 0 };
                looks += 1;
            }
            // Whoever fails lets the others end.
            if in_a_row < ASLEEP {
                held.release();
            }
            assert_eq!(in_a_row, ASLEEP, "{} is awake", task.display());
        }
        held.release();
    });
    assert_eq!(keyspace.iter().count(), 601);
}

/// FX9: a cursor that was moved back skipped an extent; here a value overwritten in its middle, and
/// entries put between others, are extents of their own.
#[test]
fn a_cursor_that_turns_skips_nothing() {
    let disk = MemoryDisk::new();
    let db = open(world(&disk));
    let keyspace = flex(&db);
    let mut model = BTreeMap::new();
    for round in 0..6_u32 {
        for number in (0..150_u32).filter(|number| number % 6 <= round) {
            let (key, value) = (format!("key {number:04}"), format!("{round} {number}"));
            keyspace.put(&key, &value).unwrap();
            model.insert(key.into_bytes(), value.into_bytes());
        }
        db.flush().unwrap();
    }
    let all: Vec<_> = model.into_iter().collect();
    let mut cursor = keyspace.cursor().unwrap();
    // Forwards to each, a few back from there, and on again.
    for turn in 0..all.len() {
        cursor.seek(&all[turn].0).unwrap();
        let mut at = turn;
        for step in 0..8 {
            let found = cursor.key().zip(cursor.value());
            let (key, value) = &all[at];
            assert_eq!(found, Some((&**key, &**value)), "turn {turn} step {step}");
            match step {
                0..3 if at > 0 => {
                    cursor.prev().unwrap();
                    at -= 1;
                }
                3.. if at + 1 < all.len() => {
                    cursor.next().unwrap();
                    at += 1;
                }
                _ => {}
            }
        }
    }
    cursor.seek_last().unwrap();
    for (key, _) in all.iter().rev() {
        assert_eq!(cursor.key(), Some(&**key));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
}
