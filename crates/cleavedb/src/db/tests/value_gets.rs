//! Gets of separated values: how often the device is read for them, and what stays in memory.

use super::scans::{apart, filled, key, long, open, open_with};
use super::*;
use crate::StrategyKind;

/// A store of so many values, opened anew, with its index in memory and no value.
fn cold(disk: &MemoryDisk, count: u64) -> (Db, Keyspace) {
    let db = open(disk);
    let model = filled(&apart(&db), count);
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(disk);
    let keyspace = apart(&db);
    assert!(model.keys().all(|key| keyspace.contains(key).unwrap()));
    (db, keyspace)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reads {
    calls: u64,
    bytes: u64,
    batches: u64,
    hits: u64,
    misses: u64,
}

fn reads(db: &Db) -> Reads {
    let stats = db.stats();
    Reads {
        calls: stats.reads["read"],
        bytes: stats.bytes_read["read"],
        batches: stats.read_batches,
        hits: stats.values.cache_hits,
        misses: stats.values.cache_misses,
    }
}

#[test]
fn a_cold_get_is_one_read_and_a_multi_get_one_batch() {
    let disk = MemoryDisk::new();
    let (db, keyspace) = cold(&disk, 2000);
    let before = reads(&db);
    for number in 0..1000 {
        assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), long(number, 0));
    }
    let after = reads(&db);
    assert_eq!(after.calls - before.calls, 1000, "one read each");
    assert!(after.bytes - before.bytes <= 1000 * (120 + 40), "of the record alone");
    assert_eq!((after.hits, after.misses), (0, 1000));
    let keys: Vec<_> = (1000..1032).map(key).collect();
    for (number, value) in (1000..).zip(keyspace.multi_get(&keys).unwrap()) {
        assert_eq!(value.unwrap(), long(number, 0));
    }
    let last = reads(&db);
    assert_eq!(last.batches - after.batches, 1, "one batch");
    assert!(last.calls - after.calls <= 32);
}

#[test]
fn many_reads_go_in_waves() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    // Too far apart to be read in one piece.
    for number in 0..66 {
        apart(&db).put(key(number), long(number, 0)).unwrap();
        apart(&db).put(format!("between {number}"), vec![7; 70 << 10]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = apart(&db);
    assert!((0..66).all(|number| keyspace.contains(key(number)).unwrap()), "reads the index");
    let mut first = 0;
    for (count, batches) in [(2, 1), (8, 1), (16, 2), (40, 4)] {
        let numbers = first..first + count;
        first += count;
        let keys: Vec<_> = numbers.clone().map(key).collect();
        let before = reads(&db);
        for (number, value) in numbers.zip(keyspace.multi_get(&keys).unwrap()) {
            assert_eq!(value.unwrap(), long(number, 0));
        }
        let after = reads(&db);
        let misses = after.misses - before.misses;
        assert_eq!((after.calls - before.calls, misses), (count, count), "one read each");
        assert_eq!(after.batches - before.batches, batches, "of {count} reads");
    }
}

#[test]
fn what_was_read_stays_in_memory() {
    let disk = MemoryDisk::new();
    let (db, keyspace) = cold(&disk, 1000);
    let cached = db.stats().cache.bytes;
    let keys: Vec<_> = (500..1000).map(key).collect();
    let mut before = None;
    for _ in 0..2 {
        for number in 0..500 {
            assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), long(number, 0));
        }
        for (number, value) in (500..).zip(keyspace.multi_get(&keys).unwrap()) {
            assert_eq!(value.unwrap(), long(number, 0));
        }
        let now = reads(&db);
        if let Some(before) = before.replace(now) {
            let expected = Reads { hits: 1000, ..before };
            assert_eq!(now, expected, "the second round reads nothing");
        }
    }
    let stats = db.stats();
    let added = stats.cache.bytes - cached;
    assert!((1000 * 120..1000 * 500).contains(&added), "{added} bytes for what is kept alone");
    // A scan takes what is there.
    let before = reads(&db);
    assert_eq!(keyspace.iter().count(), 1000);
    assert_eq!(keyspace.iter().prefetch(false).count(), 1000);
    assert_eq!(reads(&db), before);
    // A newer value stands elsewhere, and the older one is still found.
    let snapshot = db.snapshot();
    keyspace.put(key(1), long(1, 1)).unwrap();
    keyspace.delete(key(2)).unwrap();
    assert_eq!(keyspace.get(key(1)).unwrap().unwrap(), long(1, 1));
    assert!(keyspace.get(key(2)).unwrap().is_none());
    assert_eq!(snapshot.get(&keyspace, key(1)).unwrap().unwrap(), long(1, 0));
    assert_eq!(snapshot.get(&keyspace, key(2)).unwrap().unwrap(), long(2, 0));
}

/// Past the page cache; what that keeps is not kept twice.
#[test]
fn what_short_scans_read_again_is_kept() {
    for direct in [true, false] {
        short_scans_again(direct);
    }
}

fn short_scans_again(direct: bool) {
    let disk = MemoryDisk::new();
    let open = || open_with(&disk, Options::new().direct_reads(direct));
    let db = open();
    let value = |number: u64| vec![number as u8; 1000];
    (0..2000).for_each(|number| apart(&db).put(key(number), value(number)).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    let keyspace = apart(&db);
    assert_eq!(keyspace.iter().keys().count(), 2000, "brings all blocks into memory");
    let walk = |from: u64, count: u64| {
        let before = reads(&db).calls;
        for (number, pair) in (from..).zip(keyspace.range(key(from)..).take(count as usize)) {
            assert_eq!(pair.unwrap(), (key(number).into(), value(number).into()));
        }
        reads(&db).calls - before
    };
    // How far scans go is learned first, elsewhere.
    (0..32).for_each(|number| assert!(walk(1000 + number * 20, 40) > 0));
    let bytes = db.stats().cache.bytes;
    assert!(walk(100, 40) > 0);
    assert_eq!(db.stats().cache.bytes, bytes, "once is not enough");
    assert!(walk(100, 40) > 0);
    let kept = db.stats().cache.bytes - bytes;
    assert!(if direct { kept > 20_000 } else { kept == 0 }, "{kept} bytes");
    let third = walk(100, 40);
    assert!(if direct { third <= 1 } else { third > 0 }, "{third} reads");
    // A long one leaves the cache alone but for its beginning.
    let bytes = db.stats().cache.bytes;
    (0..3).for_each(|_| assert!(walk(0, 2000) > 0));
    assert!(db.stats().cache.bytes < bytes + 400_000);
}

#[test]
fn scans_and_large_values_leave_the_cache_alone() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let large = vec![7; 100 << 10];
    apart(&db).put("large", &large).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let (db, keyspace) = cold(&disk, 500);
    assert_eq!(keyspace.iter().keys().count(), 501, "brings all blocks into memory");
    assert!(keyspace.contains("large").unwrap());
    let bytes = db.stats().cache.bytes;
    assert_eq!(keyspace.iter().count(), 501);
    assert_eq!(keyspace.iter().prefetch(false).rev().count(), 501);
    for guard in keyspace.iter().guards() {
        assert!(guard.unwrap().value().unwrap().len() >= 120);
    }
    // The first one tells the locator, the second one proves the file by its footer, once for all.
    for _ in 0..2 {
        assert_eq!(keyspace.get("large").unwrap().unwrap(), large);
    }
    let before = reads(&db);
    assert_eq!(keyspace.get("large").unwrap().unwrap(), large);
    assert_eq!(keyspace.multi_get(["large"]).unwrap()[0].as_deref(), Some(&*large));
    let after = reads(&db);
    assert_eq!((after.calls - before.calls, after.hits), (2, 0));
    assert_eq!(db.stats().cache.bytes, bytes);
}

/// Values read together come in one piece; each is kept by itself, and a compressed one as it was.
#[test]
fn compressed_values_are_kept_as_the_user_gave_them() {
    let disk = MemoryDisk::new();
    let make = |db: &Db| {
        let options = KeyspaceOptions::new().separate_at(Some(64));
        db.keyspace("dense", options.value_compression(crate::Compression::Zstd)).unwrap()
    };
    let text = |number: u64| format!("{number} again and again ").repeat(50).into_bytes();
    let db = open(&disk);
    for number in 0..50 {
        make(&db).put(key(number), text(number)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = make(&db);
    let keys: Vec<_> = (0..50).map(key).collect();
    for _ in 0..2 {
        for (number, value) in (0..).zip(keyspace.multi_get(&keys).unwrap()) {
            assert_eq!(value.unwrap(), text(number));
            assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), text(number));
        }
    }
    assert_eq!(db.stats().values.cache_misses, 50);
    assert_eq!(db.stats().values.cache_hits, 150);
}

/// What a flush supersedes is in nobody's way: the cache holds the newest versions that gets have
/// read, and keeps what was not written again.
#[test]
fn the_cache_lets_go_of_what_a_flush_supersedes() {
    for strategy in [StrategyKind::Unified, StrategyKind::Wayfinder] {
        let disk = MemoryDisk::new();
        let db = open_with(&disk, Options::new().strategy(strategy));
        let keyspace = apart(&db);
        let write = |version| {
            for number in (0..200).filter(|number| version == 0 || number % 2 == 0) {
                // Behind a delete it is another's value: nothing of the cache goes over to it.
                keyspace.delete(key(number)).unwrap();
                keyspace.put(key(number), long(number, version)).unwrap();
            }
            db.flush().unwrap();
        };
        let read = |version| {
            for number in 0..200 {
                let wanted = long(number, if number % 2 == 0 { version } else { 0 });
                assert_eq!(keyspace.get(key(number)).unwrap().unwrap(), wanted);
            }
        };
        // The log's tail is in memory anyway; what is written behind it pushes it out.
        let settle = || {
            keyspace.put("tail", vec![1; 4 << 10]).unwrap();
            db.flush().unwrap();
        };
        write(0);
        settle();
        read(0);
        let held = db.stats().cache.bytes;
        for version in 1..=5 {
            write(version);
            settle();
            let before = reads(&db);
            read(version);
            let after = reads(&db);
            assert_eq!(after.hits - before.hits, 100, "{strategy:?}: what was not written again");
            assert_eq!(after.misses - before.misses, 100, "{strategy:?}");
        }
        let now = db.stats().cache.bytes;
        assert!(now < held + held / 4, "{strategy:?}: {held} bytes at first, {now} in the end");
    }
}

/// What the cache has of a key goes over to its new version: at once where locator, map or memtable
/// know where the one before stands.
#[test]
fn the_cache_goes_over_to_new_versions() {
    for (strategy, first_misses) in [
        (StrategyKind::Unified, 0),
        (StrategyKind::Wayfinder, 0),
        (StrategyKind::Novkv, 200),
        (StrategyKind::Wisckey, 200),
    ] {
        let disk = MemoryDisk::new();
        let db = open_with(&disk, Options::new().strategy(strategy));
        let keyspace = apart(&db);
        let write = |version| {
            for number in 0..200 {
                keyspace.put(key(number), long(number, version)).unwrap();
            }
            // The log's tail is in memory anyway; what is written behind it pushes it out.
            keyspace.put("tail", vec![1; 4 << 10]).unwrap();
        };
        let misses_of = |version| {
            let before = reads(&db).misses;
            for number in 0..200 {
                let value = keyspace.get(key(number)).unwrap().unwrap();
                assert_eq!(value, long(number, version), "{strategy:?}");
            }
            reads(&db).misses - before
        };
        write(0);
        db.flush().unwrap();
        assert_eq!(misses_of(0), 200);
        let held = db.stats().cache.bytes;
        let snapshot = db.snapshot();
        for version in 1..5 {
            write(version);
            let expected = if version == 1 { first_misses } else { 0 };
            // After many puts in vain the first few are not asked for.
            let misses = misses_of(version);
            let is_right = (expected..expected.max(16) + 1).contains(&misses);
            assert!(is_right, "{strategy:?}, version {version}: {misses} misses");
        }
        let now = db.stats().cache.bytes;
        let old = if first_misses == 0 { 0 } else { held };
        assert!(now < held + old + held / 4, "{strategy:?}: {held} bytes at first, then {now}");
        for number in 0..200 {
            let value = snapshot.get(&keyspace, key(number)).unwrap().unwrap();
            assert_eq!(value, long(number, 0), "{strategy:?}: the snapshot sees its own");
        }
    }
}

/// Neither a value that was deleted meanwhile comes back, nor one that was compressed as it lies.
#[test]
fn what_is_carried_over_is_what_was_put() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let options = KeyspaceOptions::new().separate_at(Some(64));
    let dense = options.value_compression(crate::Compression::Zstd);
    let keyspace = db.keyspace("dense", dense).unwrap();
    let text = |round: u64| format!("{round} again and again ").repeat(50).into_bytes();
    for round in 0..40 {
        keyspace.put("k", text(round)).unwrap();
        keyspace.put("tail", vec![1; 4 << 10]).unwrap();
        if round % 3 == 0 {
            db.flush().unwrap();
        }
        assert_eq!(keyspace.get("k").unwrap().unwrap(), text(round));
        if round % 5 == 0 {
            keyspace.delete("k").unwrap();
            assert_eq!(keyspace.get("k").unwrap(), None);
        }
    }
    let stats = db.stats();
    assert!(stats.values.cache_misses < 20, "{} reads", stats.values.cache_misses);
}
