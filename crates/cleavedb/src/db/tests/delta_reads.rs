//! What reads of merged keys take: counts of reads, bytes and operands, none of them timed.

use std::sync::atomic::Ordering;

use super::appending::{self, Appending};
use super::collection::{assert_sound, widths};
use super::deltas::listing;
use super::novkv::{files_of, try_open};
use super::*;
use crate::base::widths::Widths;
use crate::{Deltas, StrategyKind, operators};

pub(super) fn key(number: u64) -> String {
    format!("key {number:06}")
}

/// The reads that one call took: of value records, loads of filters, pages of sorted parts,
/// unsorted parts; and bytes of all that was read for users.
fn reads_of(db: &Db, call: impl FnOnce()) -> ([u64; 4], u64) {
    let counts = || {
        let stats = db.stats();
        let deltas = stats.deltas;
        let counts =
            [stats.values.cache_misses, deltas.loads, deltas.page_reads, deltas.unsorted_reads];
        (counts, stats.bytes_read.get("read").copied().unwrap_or(0))
    };
    let (before, bytes_before) = counts();
    call();
    let (mut after, bytes) = counts();
    after.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
    (after, bytes - bytes_before)
}

#[test]
fn a_get_reads_a_base_record_a_page_and_an_unsorted_part_at_most() {
    let widths = Widths { bucket_bytes: 32 << 10, ..widths() };
    for strategy in [StrategyKind::Unified, StrategyKind::Wisckey, StrategyKind::Novkv] {
        let disk = MemoryDisk::new();
        let open = || try_open(world(&disk), small().strategy(strategy), widths.clone()).unwrap();
        let lists = |db: &Db| db.keyspace("lists", listing().separate_at(Some(100))).unwrap();
        let db = open();
        let keyspace = lists(&db);
        let keys = 0..300;
        keys.clone().for_each(|number| keyspace.put(key(number), "b".repeat(200)).unwrap());
        db.flush().unwrap();
        // Enough for sorted parts of several pages, and then for unsorted ones.
        let operand = |number: u64, round: u64| format!("{number}-{round}-{}", "m".repeat(60));
        for round in 0..7 {
            let merge = |number| keyspace.merge(key(number), operand(number, round)).unwrap();
            keys.clone().filter(|number| round < 5 || number % 3 == 0).for_each(merge);
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        drop(keyspace);
        db.close().unwrap();
        let db = open();
        let keyspace = lists(&db);
        let mut most = [0; 4];
        for number in keys {
            let rounds = if number % 3 == 0 { 0..7 } else { 0..5 };
            let operands: Vec<String> = rounds.map(|round| operand(number, round)).collect();
            let wanted = format!("{},{}", "b".repeat(200), operands.join(","));
            let (reads, _) = reads_of(&db, || {
                assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), wanted.as_bytes());
            });
            most.iter_mut().zip(reads).for_each(|(most, read)| *most = read.max(*most));
        }
        // The bound of the design allows two pages of the sorted part.
        assert_eq!(most, [1, 1, 1, 1], "{strategy:?}");
        assert!(files_of(&disk, "dlt").len() > 1);
        assert_sound(&db);
    }
}

/// A store of memtables of 1 MiB, with the operator that counts.
fn counting(disk: &MemoryDisk, operator: &std::sync::Arc<Appending>) -> Db {
    let options = Options::new().memory_budget(8 << 20).reserve_bytes(0);
    let options = options.merge_operator(operator.clone());
    try_open(world(disk), options, Widths::for_budget(8 << 20)).unwrap()
}

/// Appends of 100 bytes to one key: so many thousands, then a get from a store just opened. What
/// the get read, and what combining wrote, by the bytes that were appended.
fn appended(thousands: u64) -> (f64, f64, u64) {
    let disk = MemoryDisk::new();
    let operator = std::sync::Arc::new(Appending::default());
    let lists = |db: &Db| {
        let options = KeyspaceOptions::new().merge_operator(appending::NAME);
        db.keyspace("lists", options.deltas(Deltas::Buckets)).unwrap()
    };
    let db = counting(&disk, &operator);
    let keyspace = lists(&db);
    let part = "p".repeat(100);
    (0..1_000 * thousands).for_each(|_| keyspace.merge("long", &part).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let combined = operator.combined_bytes.load(Ordering::Relaxed);
    drop(keyspace);
    db.close().unwrap();
    let db = counting(&disk, &operator);
    let keyspace = lists(&db);
    let before = operator.applied.load(Ordering::Relaxed);
    let appended = 100_000 * thousands;
    let (_, read) = reads_of(&db, || {
        assert_eq!(keyspace.get("long").unwrap().unwrap().len() as u64, appended);
    });
    let applied = operator.applied.load(Ordering::Relaxed) - before;
    assert_sound(&db);
    (read as f64 / appended as f64, combined as f64 / appended as f64, applied)
}

#[test]
fn a_key_with_fifty_thousand_appends_is_read_in_little_more_than_its_bytes() {
    for thousands in [10, 50] {
        let (read, combined, applied) = appended(thousands);
        println!(
            "{thousands}000 appends: a get reads {read:.2} and applies {applied} operands; \
             {combined:.2} bytes combined a byte appended"
        );
        assert!(read <= 1.5, "{read} bytes read for each appended");
        // Ten doublings up to the longest operand of a bucket.
        assert!(combined <= 15.0, "{combined} bytes combined for each appended");
        assert!(applied <= 40 * thousands, "{applied} operands applied by one get");
    }
}

#[test]
fn a_counter_with_very_many_increments_among_many_keys_is_a_few_reads() {
    let disk = MemoryDisk::new();
    let options = || Options::new().memory_budget(8 << 20).reserve_bytes(0);
    let widths = || Widths { memtable_bytes: 256 << 10, ..Widths::for_budget(8 << 20) };
    let open = || try_open(world(&disk), options(), widths()).unwrap();
    let sums = |db: &Db| {
        let options = KeyspaceOptions::new().merge_operator(operators::U64_ADD);
        db.keyspace("sums", options.deltas(Deltas::Buckets)).unwrap()
    };
    let db = open();
    let keyspace = sums(&db);
    let (increments, others) = (40_000_u64, 4_000);
    for number in 0..increments {
        keyspace.merge("hot", 1_u64.to_le_bytes()).unwrap();
        if number % 10 == 0 {
            keyspace.merge(key(number % others), 1_u64.to_le_bytes()).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    let entries: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.entries).sum();
    assert_eq!(entries, 0, "no increment stays in the index");
    assert!(stats.events.flushes > 4, "{} flushes", stats.events.flushes);
    drop(keyspace);
    db.close().unwrap();
    let db = open();
    let keyspace = sums(&db);
    let (reads, bytes) = reads_of(&db, || {
        assert_eq!(keyspace.get("hot").unwrap().unwrap(), increments.to_le_bytes());
    });
    println!("a cold get of {increments} increments: {reads:?} reads, {bytes} bytes");
    assert!(reads.iter().zip([0, 1, 1, 1]).all(|(read, most)| *read <= most), "{reads:?}");
    assert!(bytes <= 300 << 10, "{bytes} bytes: no more than a bucket and a page");
}

#[test]
fn what_is_pending_of_many_keys_takes_up_to_a_third_of_what_caches_have() {
    let (disk, budget) = (MemoryDisk::new(), 8 << 20);
    let options = Options::new().memory_budget(budget).reserve_bytes(0);
    let db = try_open(world(&disk), options, Widths::for_budget(budget)).unwrap();
    let keyspace = db.keyspace("lists", listing()).unwrap();
    // More than twice a sixteenth of the budget, and less than a third of what is left of it.
    let keys = 0..2_000;
    keys.clone().for_each(|number| keyspace.merge(key(number), "m".repeat(500)).unwrap());
    db.flush().unwrap();
    let get_all = || {
        for number in keys.clone() {
            assert_eq!(keyspace.get(key(number)).unwrap().unwrap().len(), 500);
        }
    };
    let held = || db.stats().memory_bytes;
    let before = held()["deltas"];
    for _ in 0..8 {
        get_all();
        // Memory is shared out anew after a job.
        keyspace.put("other", "value").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert!(held()["total"] <= budget, "{:?}", held());
    }
    let ([.., pages, unsorted], _) = reads_of(&db, get_all);
    assert_eq!((pages, unsorted), (0, 0), "all of it is held: {:?}", held());
    assert!(held()["deltas"] - before > budget / 8, "{:?}", held());
    assert_sound(&db);
}
