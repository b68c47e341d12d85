//! Keyspaces whose merge operands are in buckets, seen from outside: what is read is what is read
//! where they are inline, and the files say where they are.

use std::path::Path;

use super::collection::{assert_sound, reclaim, widths};
use super::novkv::{files_of, try_open};
use super::*;
use crate::base::widths::Widths;
use crate::io::disk::Disk;
use crate::io::memory_disk::CrashMode;
use crate::{Deltas, Durability, ErrorKind, IndexKind, StrategyKind};

/// Buckets that a few hundred operands split.
pub(super) fn buckets() -> Widths {
    Widths { bucket_bytes: 2 << 10, buckets_max: 100, ..widths() }
}

pub(super) fn open(disk: &MemoryDisk) -> Db {
    try_open(world(disk), small(), buckets()).unwrap()
}

/// Operands of keys go into buckets, and are joined by commas.
pub(super) fn listing() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator("append:,").deltas(Deltas::Buckets)
}

pub(super) fn lists(db: &Db) -> Keyspace {
    db.keyspace("lists", listing().separate_at(Some(100))).unwrap()
}

pub(super) fn sums(db: &Db, deltas: Deltas) -> Keyspace {
    let options = KeyspaceOptions::new().merge_operator(crate::operators::U64_ADD);
    db.keyspace("sums", options.deltas(deltas)).unwrap()
}

pub(super) fn entries(db: &Db) -> u64 {
    db.stats().keyspaces.iter().map(|keyspace| keyspace.entries).sum()
}

pub(super) fn key(number: u64) -> String {
    format!("key {number:03}")
}

pub(super) fn merge(keyspace: &Keyspace, keys: std::ops::Range<u64>, round: u64) {
    keys.for_each(|number| keyspace.merge(key(number), format!("{round}")).unwrap());
}

/// Merges into these keys and flushes, so many times.
pub(super) fn merge_rounds(
    (db, keyspace): (&Db, &Keyspace),
    keys: std::ops::Range<u64>,
    rounds: std::ops::Range<u64>,
) {
    for round in rounds {
        merge(keyspace, keys.clone(), round);
        db.flush().unwrap();
    }
}

pub(super) fn listed(keyspace: &Keyspace, number: u64) -> Option<String> {
    let value = keyspace.get(key(number)).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// What scans in both directions, gets and a batch of gets show is this.
pub(super) fn assert_shows(keyspace: &Keyspace, wanted: &[(u64, &str)]) {
    let text: Vec<String> =
        wanted.iter().map(|(n, value)| format!("{}={value}", key(*n))).collect();
    assert_eq!(pairs(keyspace.iter()), text);
    let mut back = pairs(keyspace.iter().rev());
    back.reverse();
    assert_eq!(back, text);
    let got = keyspace.multi_get(wanted.iter().map(|(number, _)| key(*number))).unwrap();
    for ((number, value), got) in wanted.iter().zip(got) {
        assert_eq!(listed(keyspace, *number).as_deref(), Some(*value));
        assert_eq!(got.unwrap(), value.as_bytes());
    }
}

#[test]
fn operands_go_into_buckets_and_bases_into_the_index() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..3, 1);
    db.flush().unwrap();
    assert_eq!(entries(&db), 0, "operands alone leave nothing in the index");
    assert_eq!(files_of(&disk, "dlt").len(), 1);
    assert_shows(&keyspace, &[(0, "1"), (1, "1"), (2, "1")]);
    keyspace.put(key(1), "base").unwrap();
    keyspace.put(key(5), "lone").unwrap();
    merge(&keyspace, 1..3, 2);
    let wanted = [(0, "1"), (1, "base,2"), (2, "1,2"), (5, "lone")];
    assert_shows(&keyspace, &wanted);
    db.flush().unwrap();
    assert_eq!(entries(&db), 2);
    assert_shows(&keyspace, &wanted);
    merge(&keyspace, 5..7, 3);
    keyspace.delete(key(0)).unwrap();
    let wanted = [(1, "base,2"), (2, "1,2"), (5, "lone,3"), (6, "3")];
    assert_shows(&keyspace, &wanted);
    db.flush().unwrap();
    db.compact().unwrap();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_shows(&lists(&db), &wanted);
    assert_sound(&db);
}

#[test]
fn a_tombstone_that_is_gone_hides_the_deltas_below_it() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..4, 1);
    db.flush().unwrap();
    keyspace.delete(key(1)).unwrap();
    keyspace.delete_range(key(2)..key(4)).unwrap();
    db.compact().unwrap();
    assert_eq!(entries(&db), 0, "no tombstone is left");
    assert_shows(&keyspace, &[(0, "1")]);
    merge(&keyspace, 1..3, 2);
    db.compact().unwrap();
    assert_shows(&keyspace, &[(0, "1"), (1, "2"), (2, "2")]);
    drop(keyspace);
    db.close().unwrap();
    assert_shows(&lists(&open(&disk)), &[(0, "1"), (1, "2"), (2, "2")]);
}

#[test]
fn snapshots_see_the_operands_of_their_time() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    let mut wanted: Vec<(crate::Snapshot, String)> = Vec::new();
    let mut list = String::new();
    for round in 0..12_u64 {
        if round == 7 {
            keyspace.put(key(0), "p").unwrap();
            list = "p".to_owned();
        } else {
            merge(&keyspace, 0..1, round);
            list = if list.is_empty() { format!("{round}") } else { format!("{list},{round}") };
        }
        wanted.push((db.snapshot(), list.clone()));
        if round % 3 == 1 {
            db.flush().unwrap();
        }
        for (snapshot, list) in &wanted {
            assert_eq!(snapshot.get(&keyspace, key(0)).unwrap().unwrap(), list.as_bytes());
            let pairs = pairs(snapshot.range::<&str>(&keyspace, ..));
            assert_eq!(pairs, [format!("{}={list}", key(0))]);
        }
    }
    db.compact().unwrap();
    for (snapshot, list) in &wanted {
        assert_eq!(snapshot.get(&keyspace, key(0)).unwrap().unwrap(), list.as_bytes());
    }
}

#[test]
fn buckets_split_and_what_nobody_needs_goes_with_them() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge_rounds((&db, &keyspace), 0..200, 0..9);
    db.wait_idle().unwrap();
    assert!(files_of(&disk, "dlt").len() > 4, "{:?}", files_of(&disk, "dlt"));
    let list = "0,1,2,3,4,5,6,7,8";
    let wanted: Vec<(u64, &str)> = (0..200).map(|number| (number, list)).collect();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
    (0..200).for_each(|number| keyspace.put(key(number), "x").unwrap());
    db.flush().unwrap();
    merge(&keyspace, 0..200, 9);
    db.flush().unwrap();
    let wanted: Vec<(u64, &str)> = (0..200).map(|number| (number, "x,9")).collect();
    assert_shows(&keyspace, &wanted);
    assert_sound(&db);
    drop(keyspace);
    db.drop_keyspace("lists").unwrap();
    db.wait_idle().unwrap();
    sums(&db, Deltas::Buckets).merge("n", 1_u64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let left = files_of(&disk, "dlt").len();
    assert!(left <= 2, "{left} buckets of a keyspace that is gone");
    assert_eq!(sums(&db, Deltas::Buckets).get("n").unwrap().unwrap(), 1_u64.to_le_bytes());
}

#[test]
fn each_operand_counts_once_whatever_a_crash_leaves() {
    for mode in CrashMode::ALL {
        let disk = MemoryDisk::new();
        let db = open(&disk);
        let keyspace = sums(&db, Deltas::Buckets);
        let mut sum = 0_u64;
        for round in 0..40_u64 {
            keyspace.merge("n", round.to_le_bytes()).unwrap();
            sum += round;
            if round % 7 == 6 {
                db.flush().unwrap();
            }
        }
        db.sync().unwrap();
        let image = disk.crash_image(mode, 3);
        let db = try_open(world(&image), small(), buckets()).unwrap();
        let keyspace = sums(&db, Deltas::Buckets);
        assert_eq!(keyspace.get("n").unwrap().unwrap(), sum.to_le_bytes(), "{mode:?}");
        keyspace.merge("n", 1_u64.to_le_bytes()).unwrap();
        db.flush().unwrap();
        assert_eq!(keyspace.get("n").unwrap().unwrap(), (sum + 1).to_le_bytes(), "{mode:?}");
        assert_sound(&db);
    }
}

#[test]
fn long_operands_stay_in_order_and_are_folded() {
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), small(), Widths { bucket_bytes: 1 << 10, ..buckets() });
    let db = db.unwrap();
    let keyspace = lists(&db);
    let long = "l".repeat(70 << 10);
    let mut list = String::from("0");
    keyspace.put(key(0), "0").unwrap();
    for round in 1..8 {
        let operand = if round % 3 == 0 { long.clone() } else { format!("{round}") };
        keyspace.merge(key(0), &operand).unwrap();
        list = format!("{list},{operand}");
        if round % 2 == 0 {
            db.flush().unwrap();
        }
        assert_shows(&keyspace, &[(0, &list)]);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.compact().unwrap();
    assert_shows(&keyspace, &[(0, &list)]);
    assert_eq!(entries(&db), 1, "long operands have been applied");
    assert_sound(&db);
}

#[test]
fn collection_of_values_takes_deltas_along() {
    for strategy in [StrategyKind::Wisckey, StrategyKind::Novkv, StrategyKind::Unified] {
        let disk = MemoryDisk::new();
        let options = small().strategy(strategy);
        let db = try_open(world(&disk), options, buckets()).unwrap();
        let keyspace = lists(&db);
        let base = "b".repeat(300);
        for round in 0..6_u64 {
            (0..60).for_each(|number| keyspace.put(key(number), &base).unwrap());
            if round == 2 {
                // Moved values have operands above them in buckets.
                keyspace.put(key(99), &base).unwrap();
                merge(&keyspace, 99..100, 1);
            }
            merge(&keyspace, 0..60, round);
            db.flush().unwrap();
        }
        merge(&keyspace, 99..100, 2);
        db.flush().unwrap();
        reclaim(&db);
        let texts = [format!("{base},5"), format!("{base},1,2")];
        let mut wanted: Vec<(u64, &str)> = (0..60).map(|n| (n, texts[0].as_str())).collect();
        wanted.push((99, &texts[1]));
        assert_shows(&keyspace, &wanted);
        assert_sound(&db);
        db.compact().unwrap();
        reclaim(&db);
        assert_shows(&keyspace, &wanted);
        drop(keyspace);
        db.close().unwrap();
        let db = try_open(world(&disk), small().strategy(strategy), buckets()).unwrap();
        assert_shows(&lists(&db), &wanted);
        assert_sound(&db);
    }
}

#[test]
fn puts_of_keys_without_deltas_touch_no_bucket() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..1, 1);
    db.flush().unwrap();
    let bytes = |disk: &MemoryDisk| {
        let path = files_of(disk, "dlt").remove(0);
        disk.open(&path, crate::io::disk::OpenMode::default()).unwrap().len().unwrap()
    };
    let before = bytes(&disk);
    (1..50).for_each(|number| keyspace.put(key(number), "x").unwrap());
    db.flush().unwrap();
    assert_eq!(bytes(&disk), before);
    keyspace.put(key(0), "x").unwrap();
    db.flush().unwrap();
    assert!(bytes(&disk) > before, "an anchor");
}

#[test]
fn a_checkpoint_has_its_buckets_and_goes_its_own_way() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge(&keyspace, 0..30, 1);
    db.flush().unwrap();
    db.checkpoint(Path::new("/copy")).unwrap();
    merge(&keyspace, 0..30, 2);
    db.flush().unwrap();
    let (one, two): (Vec<_>, Vec<_>) = (0..30).map(|n| ((n, "1"), (n, "1,2"))).unzip();
    assert_shows(&keyspace, &two);
    drop(keyspace);
    db.close().unwrap();
    let settings = small().into_settings();
    let engine = crate::engine::Engine::open(world(&disk), Path::new("/copy"), settings, buckets());
    let handle = crate::db::handle::Handle::new(engine.unwrap(), Durability::Buffered);
    let copy = Db::new(handle);
    assert_shows(&lists(&copy), &one);
    merge(&lists(&copy), 0..30, 3);
    copy.flush().unwrap();
    let three: Vec<(u64, &str)> = (0..30).map(|number| (number, "1,3")).collect();
    assert_shows(&lists(&copy), &three);
    assert_sound(&copy);
    copy.close().unwrap();
    let db = open(&disk);
    assert_shows(&lists(&db), &two);
    assert_sound(&db);
}

#[test]
fn where_deltas_are_is_fixed_at_creation() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    drop(sums(&db, Deltas::Buckets));
    let options = KeyspaceOptions::new().deltas(Deltas::Inline);
    let kind = |options| db.keyspace("sums", options).err().map(|error| error.kind());
    assert_eq!(kind(options), Some(ErrorKind::Mismatch));
    assert_eq!(kind(KeyspaceOptions::new()), None, "nothing was asked for");
    assert_eq!(db.keyspaces()[0].deltas, Deltas::Buckets);
    drop(plain(&db));
    assert_eq!(db.keyspaces()[0].deltas, Deltas::Inline);
    let options = KeyspaceOptions::new().deltas(Deltas::Buckets);
    let error = db.keyspace("plain", options).err();
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Mismatch));
}

#[test]
fn a_new_keyspace_with_an_operator_has_buckets_and_an_old_one_what_it_had() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    drop(sums(&db, Deltas::Inline));
    drop(plain(&db));
    let options = || KeyspaceOptions::new().merge_operator(crate::operators::U64_ADD);
    drop(db.keyspace("new", options()).unwrap());
    drop(db.keyspace("sums", options()).unwrap());
    let wanted = [("new", Deltas::Buckets), ("plain", Deltas::Inline), ("sums", Deltas::Inline)];
    let has_wanted = |db: &Db| {
        let all = db.keyspaces();
        let found: Vec<_> = all.iter().map(|known| (known.name.as_str(), known.deltas)).collect();
        assert_eq!(found, wanted);
    };
    has_wanted(&db);
    db.close().unwrap();
    let db = open(&disk);
    has_wanted(&db);
    drop(db.keyspace("sums", options()).unwrap());
    let asked = db.keyspace("sums", options().deltas(Deltas::Buckets));
    assert_eq!(asked.err().map(|error| error.kind()), Some(ErrorKind::Mismatch));
    // Where nothing is merged, no bucket is begun.
    let keyspace = db.keyspace("new", options()).unwrap();
    (0..100).for_each(|n| keyspace.put(key(n), 1_u64.to_le_bytes()).unwrap());
    db.flush().unwrap();
    assert!(files_of(&disk, "dlt").is_empty());
}

#[test]
fn a_flipped_bit_in_a_bucket_is_an_error_with_file_and_offset() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = lists(&db);
    merge_rounds((&db, &keyspace), 0..20, 0..3);
    drop(keyspace);
    db.close().unwrap();
    let path = files_of(&disk, "dlt").remove(0);
    let length = disk.open(&path, crate::io::disk::OpenMode::default()).unwrap().len().unwrap();
    let (mut found, mut silent) = (0, 0);
    for at in (0..length).step_by(7) {
        let image = disk.crash_image(CrashMode::ALL[0], 1);
        let file = image.open_write(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        drop(file);
        let Ok(db) = try_open(world(&image), small(), buckets()) else { continue };
        let keyspace = lists(&db);
        for number in 0..20 {
            match keyspace.get(key(number)) {
                Ok(value) => assert_eq!(value.unwrap(), b"0,1,2"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    assert!(error.to_string().contains(".dlt"), "{error}");
                }
            }
        }
        match db.verify(&mut |_, _| {}).unwrap().problems.is_empty() {
            true => silent += 1,
            false => found += 1,
        }
    }
    assert_eq!(silent, 0, "of {}", silent + found);
    assert!(found > 20);
}

#[test]
fn either_index_has_buckets_beside_it() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let naive = db.keyspace("naive", listing().index(IndexKind::Naive)).unwrap();
    let inline = counters(&db);
    let keyspace = lists(&db);
    for round in 0..6 {
        merge(&naive, 0..20, round);
        merge(&keyspace, 10..30, round);
        inline.merge("n", 1_u64.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    let wanted: Vec<(u64, &str)> = (0..20).map(|number| (number, "0,1,2,3,4,5")).collect();
    assert_shows(&naive, &wanted);
    let wanted: Vec<(u64, &str)> = (10..30).map(|number| (number, "0,1,2,3,4,5")).collect();
    assert_shows(&keyspace, &wanted);
    assert_eq!(inline.get("n").unwrap().unwrap(), 6_u64.to_le_bytes());
    assert_sound(&db);
}
