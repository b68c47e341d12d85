//! What a flush does with operands before they go anywhere.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::collection::assert_sound;
use super::deltas::{assert_shows, buckets, entries, key, lists, merge, merge_rounds, open};
use super::novkv::{files_of, try_open};
use super::*;
use crate::base::widths::Widths;
use crate::io::executor::{Executor, Priority, SharedExecutor, Step, WAITS_MAX};

#[test]
fn operands_upon_a_put_of_the_same_memtable_leave_no_delta() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    (0..40).for_each(|number| keyspace.put(key(number), "p").unwrap());
    merge(&keyspace, 0..40, 1);
    merge(&keyspace, 0..40, 2);
    keyspace.delete(key(7)).unwrap();
    merge(&keyspace, 7..8, 3);
    let text = |number| if number == 7 { "3" } else { "p,1,2" };
    let wanted: Vec<(u64, &str)> = (0..40).map(|number| (number, text(number))).collect();
    assert_shows(&keyspace, &wanted);
    db.flush().unwrap();
    assert!(files_of(&disk, "dlt").is_empty(), "no delta was written");
    assert_eq!(entries(&db), 40, "a put each");
    assert_shows(&keyspace, &wanted);
    assert_eq!(db.stats().deltas.gets, 0, "and none is looked for");
    // What comes later goes into buckets, above the puts.
    merge(&keyspace, 0..40, 4);
    db.flush().unwrap();
    assert!(!files_of(&disk, "dlt").is_empty());
    let text = |number| if number == 7 { "3,4" } else { "p,1,2,4" };
    let wanted: Vec<(u64, &str)> = (0..40).map(|number| (number, text(number))).collect();
    assert_shows(&keyspace, &wanted);
    db.compact().unwrap();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    assert_shows(&lists(&open(&disk)), &wanted);
}

#[test]
fn a_value_that_is_applied_at_a_flush_hides_older_deltas() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..4, 1);
    db.flush().unwrap();
    keyspace.put(key(1), "p").unwrap();
    keyspace.put(key(2), "p").unwrap();
    keyspace.delete_range(key(2)..key(3)).unwrap();
    merge(&keyspace, 1..3, 2);
    let wanted = [(0, "1"), (1, "p,2"), (2, "2"), (3, "1")];
    assert_shows(&keyspace, &wanted);
    db.flush().unwrap();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_shows(&lists(&db), &wanted);
    merge(&lists(&db), 0..4, 3);
    db.compact().unwrap();
    assert_shows(&lists(&db), &[(0, "1,3"), (1, "p,2,3"), (2, "2,3"), (3, "1,3")]);
}

#[test]
fn a_snapshot_between_put_and_merge_keeps_them_apart() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    keyspace.put(key(0), "p").unwrap();
    merge(&keyspace, 0..1, 1);
    let snapshot = db.snapshot();
    merge(&keyspace, 0..1, 2);
    merge(&keyspace, 0..1, 3);
    db.flush().unwrap();
    assert_eq!(entries(&db), 1);
    assert_eq!(files_of(&disk, "dlt").len(), 1, "what the snapshot does not see is a delta");
    assert_eq!(snapshot.get(&keyspace, key(0)).unwrap().unwrap(), b"p,1");
    assert_eq!(pairs(snapshot.range::<&str>(&keyspace, ..)), [format!("{}=p,1", key(0))]);
    assert_shows(&keyspace, &[(0, "p,1,2,3")]);
    drop(snapshot);
    db.compact().unwrap();
    assert_shows(&keyspace, &[(0, "p,1,2,3")]);
    assert_sound(&db);
}

/// Counts into how many parts work was divided.
struct Dividing {
    inner: SharedExecutor,
    most: std::sync::Arc<AtomicUsize>,
    most_waits: std::sync::Arc<AtomicUsize>,
}

impl Executor for Dividing {
    fn submit(&self, priority: Priority, step: Step) {
        self.inner.submit(priority, step);
    }
    fn help(&self) -> bool {
        self.inner.help()
    }
    fn is_stepper(&self) -> bool {
        self.inner.is_stepper()
    }
    fn fork_join<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        self.most.fetch_max(parts.len(), Ordering::Relaxed);
        at_once(parts);
    }
    fn fork_join_waits<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        self.most_waits.fetch_max(parts.len(), Ordering::Relaxed);
        at_once(parts);
    }
    fn parallelism(&self) -> usize {
        4
    }
    fn shutdown(&self) {
        self.inner.shutdown();
    }
}

/// At the same time, as threads would.
fn at_once<'a>(parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(part);
        }
    });
}

#[test]
fn buckets_are_written_side_by_side() {
    let disk = MemoryDisk::new();
    let mut io = world(&disk);
    let (most, most_waits) =
        <(std::sync::Arc<AtomicUsize>, std::sync::Arc<AtomicUsize>)>::default();
    let inner = io.executor.clone();
    let dividing = Dividing { inner, most: most.clone(), most_waits: most_waits.clone() };
    io.executor = Arc::new(dividing);
    let db = try_open(io, small(), buckets()).unwrap();
    let keyspace = lists(&db);
    merge_rounds((&db, &keyspace), 0..300, 0..9);
    db.wait_idle().unwrap();
    assert_eq!(most.load(Ordering::Relaxed), 4, "as many at a time as there are threads");
    assert_eq!(most_waits.load(Ordering::Relaxed), WAITS_MAX, "more wait for the device");
    assert!(files_of(&disk, "dlt").len() > 8);
    let wanted: Vec<(u64, &str)> = (0..300).map(|number| (number, "0,1,2,3,4,5,6,7,8")).collect();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
}

#[test]
fn the_log_of_operands_is_bounded_by_flushes() {
    let disk = MemoryDisk::new();
    let bound = 16_u64 << 10;
    let widths = Widths {
        memtable_bytes: 1 << 30,
        journal_segment_bytes: 4 << 10,
        replay_bytes_max: bound,
        ..buckets()
    };
    let db = try_open(world(&disk), small(), widths).unwrap();
    let keyspace = lists(&db);
    let mut most = 0;
    for round in 0..40 {
        merge(&keyspace, 0..100, round);
        db.wait_idle().unwrap();
        let logs = disk.files().into_iter();
        let logs = logs.filter(|(path, _)| path.extension().is_some_and(|e| e == "log"));
        let bytes: u64 = logs.map(|(path, _)| disk.contents(&path).len() as u64).sum();
        most = most.max(bytes);
    }
    let stats = db.stats();
    let logged = stats.bytes_written.get("journal").copied().unwrap_or(0);
    println!("{logged} bytes logged, {most} of them there at a time");
    assert!(stats.events.flushes >= logged / bound / 2, "{} flushes", stats.events.flushes);
    assert!(logged > 5 * bound && most < 3 * bound, "{most} bytes of log, bound {bound}");
    let rounds: Vec<String> = (0..40).map(|round| round.to_string()).collect();
    let all = rounds.join(",");
    assert_shows(&keyspace, &(0..100).map(|number| (number, all.as_str())).collect::<Vec<_>>());
    assert_sound(&db);
}

#[test]
fn compacting_a_range_collects_its_buckets() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge_rounds((&db, &keyspace), 0..200, 0..3);
    let wanted: Vec<(u64, &str)> = (0..200).map(|number| (number, "0,1,2")).collect();
    assert_shows(&keyspace, &wanted);
    let bytes = || db.stats().deltas.bytes;
    let before = bytes();
    keyspace.compact_range(key(0)..key(100)).unwrap();
    let half = bytes();
    assert_shows(&keyspace, &wanted);
    keyspace.compact().unwrap();
    let all = bytes();
    assert!(all < half && half < before, "{before} bytes, then {half}, then {all}");
    // Nothing is left to collect, and nothing is written.
    let written = db.stats().bytes_written;
    keyspace.compact().unwrap();
    assert_eq!(db.stats().bytes_written, written);
    assert_eq!(bytes(), all);
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
}

#[test]
fn what_a_scan_holds_of_a_bucket_is_counted() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..100, 1);
    db.flush().unwrap();
    let held = || db.memory_usage().get("iterators").copied().unwrap_or(0);
    assert_eq!(held(), 0);
    let mut scan = keyspace.iter();
    scan.next().unwrap().unwrap();
    let bucket = db.stats().deltas.bytes / db.stats().deltas.buckets;
    assert!(held() > bucket, "{} bytes held of {bucket}", held());
    drop(scan);
    assert_eq!(held(), 0);
}
