//! Collection by facts, seen from outside: value files are rewritten in key order under their
//! numbers, the index is neither asked nor written, and nobody who may see a value misses it.

use std::path::{Path, PathBuf};

use super::collection::{
    Model, apart, assert_shows, assert_sound, key, put, reclaim, value, widths,
};
use super::values::assert_reads;
use super::*;
use crate::base::sync::atomic::Ordering;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::{Compression, Durability, StrategyKind};

pub(super) fn try_open(io: Io, options: Options, widths: Widths) -> crate::Result<Db> {
    let engine = Engine::open(io, Path::new("/db"), options.into_settings(), widths)?;
    Ok(Db::new(Handle::new(engine, Durability::Buffered)))
}

/// The options of most tests here.
pub(super) fn options() -> Options {
    small().strategy(StrategyKind::Novkv)
}

pub(super) fn open(disk: &MemoryDisk) -> Db {
    try_open(world(disk), options(), widths()).unwrap()
}

pub(super) fn engine_of(db: &Db) -> Arc<Engine> {
    Arc::clone(&apart(db).handle.engine)
}

/// Files of this extension.
pub(super) fn files_of(disk: &MemoryDisk, extension: &str) -> Vec<PathBuf> {
    let all = disk.files().into_iter().map(|(path, _)| path);
    all.filter(|path| path.starts_with("/db") && path.extension().is_some_and(|e| e == extension))
        .collect()
}

/// Containers in force, and the largest epoch of a file that entries name: above 0, reads of it are
/// searches.
pub(super) fn containers(db: &Db) -> (usize, u32) {
    let view = engine_of(db).view.load_full();
    let epochs = view.values.moved().filter(|file| file.refs > 0).map(|file| file.epoch);
    (view.values.containers().count(), epochs.max().unwrap_or(0))
}

/// Nothing was asked of an index, and nothing written to one; no file was left alone.
pub(super) fn assert_goes_by_facts(db: &Db) {
    let engine = engine_of(db);
    let figures = &engine.metrics.collection;
    assert_eq!(figures.index_reads.load(Ordering::Relaxed), 0);
    assert_eq!(figures.index_writes.load(Ordering::Relaxed), 0);
    let refused = figures.refused.load(Ordering::Relaxed);
    assert_eq!(refused, 0, "{:?}", db.stats().collection);
}

/// What is on disk of containers is what is in force.
pub(super) fn assert_no_stray(db: &Db, disk: &MemoryDisk) {
    // What waits for housekeeping is no stray.
    engine_of(db).remove_obsolete();
    let view = engine_of(db).view.load_full();
    let paths = view.values.containers().map(|entry| entry.container.file().path().to_owned());
    assert_eq!(files_of(disk, "vtb"), paths.collect::<Vec<_>>());
}

/// Bytes of value files by bytes of what a user would say is in them.
pub(super) fn amplification(db: &Db, model: &Model) -> f64 {
    let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    db.stats().values.file_bytes as f64 / live as f64
}

/// Segments of 8 KiB, and values of all lengths around theirs.
fn wider() -> Widths {
    Widths { value_segment_bytes: 8 << 10, ..widths() }
}

fn sized(number: u32, round: u32) -> String {
    let lengths = [1, 9, 60, 300, 1200, 300, 60, 9000];
    let length = lengths[(number.wrapping_mul(7) + round) as usize % lengths.len()];
    let mut state = u64::from(number) << 20 | u64::from(round);
    let mut text = format!("{number} in round {round}: ");
    while text.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text.truncate(length.max(3));
    text
}

fn expected(model: &Model) -> Vec<(String, String)> {
    model.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn what_was_overwritten_goes_without_asking_the_index() {
    for (is_skewed, how) in [(false, Compression::None), (true, Compression::Zstd)] {
        let disk = MemoryDisk::new();
        let db = try_open(world(&disk), options(), wider()).unwrap();
        let sizes = KeyspaceOptions::new().separate_at(Some(8)).value_compression(how);
        let keyspace = db.keyspace("sizes", sizes).unwrap();
        let mut model = Model::new();
        let (mut state, mut space_max) = (5_u64, 0.0_f64);
        for round in 0..14 {
            for step in 0..400 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let drawn = (state >> 33) as f64 / (1_u64 << 31) as f64;
                let number = match (round, is_skewed) {
                    (0, _) => step,
                    (_, false) => (drawn * 400.0) as u32,
                    (_, true) => (drawn * drawn * drawn * 400.0) as u32,
                };
                let text = sized(number, round);
                keyspace.put(key(number), &text).unwrap();
                model.insert(key(number), text);
            }
            db.wait_idle().unwrap();
            if how == Compression::None {
                space_max = space_max.max(amplification(&db, &model));
            }
        }
        assert_reads(&keyspace, &expected(&model));
        assert_sound(&db);
        assert!(space_max < 1.5, "{space_max} of 1.25 and what small files add");
        let (containers, epoch) = containers(&db);
        assert!(containers > 3 && epoch > 1, "{containers} containers, epoch {epoch}");
        assert_goes_by_facts(&db);
        assert_no_stray(&db, &disk);
        let collection = db.stats().collection;
        assert!(collection.records_dead > 500, "{collection:?}");
        drop(keyspace);
        db.close().unwrap();
        let db = try_open(world(&disk), options(), wider()).unwrap();
        let keyspace = db.existing_keyspace("sizes").unwrap().unwrap();
        assert_reads(&keyspace, &expected(&model));
        assert_sound(&db);
    }
}

#[test]
fn collection_comes_to_rest_by_itself() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..8 {
        for number in (0..200).filter(|number| round == 0 || number % 5 != round % 5) {
            put(&keyspace, &mut model, number, round);
        }
        db.wait_idle().unwrap();
    }
    let work = |db: &Db| (db.stats().collection, db.stats().bytes_written.clone());
    let before = work(&db);
    for _ in 0..5 {
        db.wait_idle().unwrap();
    }
    assert_eq!(format!("{:?}", work(&db)), format!("{before:?}"), "at rest");
    assert!(amplification(&db, &model) < 2.1, "{}", amplification(&db, &model));
    assert_shows(&keyspace, &model);
    assert_goes_by_facts(&db);
    reclaim(&db);
    let moved = db.stats().collection.bytes_moved;
    for _ in 0..3 {
        reclaim(&db);
    }
    assert_eq!(db.stats().collection.bytes_moved, moved, "nothing is left to be asked for");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}

/// Records that are as small as can be: what a table adds to each must not look like garbage.
#[test]
fn small_records_come_to_rest() {
    for length in [0, 1, 7] {
        let disk = MemoryDisk::new();
        let db = open(&disk);
        let options = KeyspaceOptions::new().separate_at(Some(0));
        let keyspace = db.keyspace("small", options).unwrap();
        for round in 0..3 {
            for number in (0..500_u32).filter(|number| round == 0 || number % 3 == round) {
                let text = format!("{round}").repeat(length);
                keyspace.put(number.to_be_bytes(), text).unwrap();
            }
            db.wait_idle().unwrap();
        }
        reclaim(&db);
        let collection = db.stats().collection;
        for _ in 0..3 {
            reclaim(&db);
        }
        assert_eq!(db.stats().collection.bytes_moved, collection.bytes_moved, "{collection:?}");
        assert_goes_by_facts(&db);
        for number in 0..500_u32 {
            let round = if number % 3 == 0 { 0 } else { number % 3 };
            let found = keyspace.get(number.to_be_bytes()).unwrap().unwrap();
            assert_eq!(found, format!("{round}").repeat(length).as_bytes());
        }
        assert_sound(&db);
    }
}

/// What the timer does some times over, and what it has queued.
pub(super) fn let_time_pass(db: &Db) {
    let engine = engine_of(db);
    for _ in 0..6 {
        let visible = engine.visible.load(Ordering::Acquire);
        if engine.gc.is_quiet_since_last_look(visible) {
            engine.schedule();
        }
        while engine.io.executor.help() {}
    }
}

fn deleted(how: &str, is_collected: bool, wait: impl Fn(&Db)) {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..400).for_each(|number| put(&keyspace, &mut model, number, 0));
    if is_collected {
        (0..400).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 1));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(!is_collected || containers(&db).0 > 0);
    // Made before, so that it is no write after the last one.
    let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
    other.put("k", "short").unwrap();
    let full = db.stats().values.file_bytes;
    match how {
        "one by one" => (0..400).for_each(|number| keyspace.delete(key(number)).unwrap()),
        "a range" => keyspace.delete_range("key "..).unwrap(),
        _ => db.drop_keyspace("apart").unwrap(),
    }
    drop(keyspace);
    wait(&db);
    let rest = db.stats().values.file_bytes;
    let how = format!("{how}, collected: {is_collected}");
    assert!(rest * 20 < full, "{how}: {rest} of {full}, {:?}", db.stats().collection);
    let keyspaces = db.stats().keyspaces;
    let entries: u64 = keyspaces.iter().map(|keyspace| keyspace.entries).sum();
    assert!(entries <= 1, "{how}: the index keeps {entries} entries that lead nowhere");
    assert_sound(&db);
    db.close().unwrap();
    let db = open(&disk);
    assert_shows(&apart(&db), &Model::new());
    assert_sound(&db);
}

#[test]
fn deleting_everything_gives_everything_back() {
    for how in ["one by one", "a range", "the keyspace"] {
        for is_collected in [false, true] {
            deleted(how, is_collected, |db| db.wait_idle().unwrap());
        }
    }
}

#[test]
fn what_was_deleted_last_does_not_wait_for_the_next_write() {
    for how in ["one by one", "a range"] {
        deleted(how, true, let_time_pass);
    }
}

#[test]
fn a_snapshot_reads_its_values_through_any_number_of_rewrites() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    let first = (db.snapshot(), model.clone());
    let mut second = None;
    for round in 1..9 {
        (0..100).for_each(|number| put(&keyspace, &mut model, number, round));
        db.wait_idle().unwrap();
        reclaim(&db);
        if round == 4 {
            second = Some((db.snapshot(), model.clone()));
        }
        for (snapshot, seen) in [Some(&first), second.as_ref()].into_iter().flatten() {
            let seen: Vec<String> = seen.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(pairs(snapshot.range::<&str>(&keyspace, ..)), seen);
            let one = snapshot.get(&keyspace, key(7)).unwrap().unwrap();
            assert_eq!(format!("{}={}", key(7), String::from_utf8_lossy(&one)), seen[7]);
        }
        assert_sound(&db);
    }
    assert!(containers(&db).1 > 0);
    assert_shows(&keyspace, &model);
    let held = db.stats().values.file_bytes;
    drop(first);
    reclaim(&db);
    let (snapshot, seen) = second.unwrap();
    for (key, value) in &seen {
        assert_eq!(snapshot.get(&keyspace, key).unwrap().unwrap(), value.as_bytes());
    }
    assert_sound(&db);
    drop(snapshot);
    reclaim(&db);
    let free = db.stats().values.file_bytes;
    assert!(free * 2 < held, "{free} of {held}");
    assert!(amplification(&db, &model) < 2.0, "{}", amplification(&db, &model));
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}

#[test]
fn two_versions_of_a_key_in_one_segment() {
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), options(), wider()).unwrap();
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..20).for_each(|number| put(&keyspace, &mut model, number, 0));
    let snapshot = db.snapshot();
    let old = model.clone();
    // Of some keys a third one, which hides the second.
    (0..20).for_each(|number| put(&keyspace, &mut model, number, 1));
    (0..20).filter(|n| n % 3 == 0).for_each(|n| put(&keyspace, &mut model, n, 2));
    (20..80).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    for round in 3..8 {
        (20..80).for_each(|number| put(&keyspace, &mut model, number, round));
        reclaim(&db);
        for (key, value) in &old {
            assert_eq!(snapshot.get(&keyspace, key).unwrap().unwrap(), value.as_bytes());
        }
        assert_shows(&keyspace, &model);
        assert_sound(&db);
    }
    assert!(containers(&db).1 > 0);
    drop(snapshot);
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}

#[test]
fn iterators_and_views_read_what_they_began_with() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    db.flush().unwrap();
    let mut held = Vec::new();
    for round in 1..6 {
        let seen: Vec<String> = model.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (mut iterator, mut backward) = (keyspace.iter(), keyspace.iter().rev());
        assert_eq!(pairs(iterator.by_ref().take(1)), seen[..1]);
        assert_eq!(pairs(backward.by_ref().take(1)), seen[99..]);
        held.push((iterator, backward, seen));
        let changed = |number: &u32| round % 2 == 0 || !number.is_multiple_of(3);
        (0..100).filter(changed).for_each(|number| put(&keyspace, &mut model, number, round));
        db.wait_idle().unwrap();
        reclaim(&db);
    }
    assert!(files_of(&disk, "vtb").len() > containers(&db).0, "views hold on to old ones");
    for (iterator, backward, seen) in held {
        assert_eq!(pairs(iterator), seen[1..]);
        let mut backward = pairs(backward);
        backward.reverse();
        assert_eq!(backward, seen[..99]);
    }
    reclaim(&db);
    assert_no_stray(&db, &disk);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}

#[test]
fn small_entries_of_a_batch_are_no_part_of_what_is_rewritten() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..4 {
        for number in 0..60 {
            let mut batch = db.batch();
            batch.put(&keyspace, format!("small {number:03}"), format!("s{round}"));
            model.insert(format!("small {number:03}"), format!("s{round}"));
            if number % 4 != round {
                batch.put(&keyspace, key(number), value(number, round));
                model.insert(key(number), value(number, round));
            } else {
                batch.delete(&keyspace, key(number));
                model.remove(&key(number));
            }
            batch.commit(Durability::Buffered).unwrap();
        }
        db.wait_idle().unwrap();
        assert_shows(&keyspace, &model);
    }
    reclaim(&db);
    assert!(containers(&db).0 > 0);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    let live: usize = model.values().map(String::len).sum();
    assert!(db.stats().values.file_bytes < 2 * live as u64 + (8 << 10), "{live}");
    assert_goes_by_facts(&db);
}

#[test]
fn operands_over_values_that_are_rewritten() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..100).for_each(|number| put(&keyspace, &mut model, number, 0));
    for round in 1..5 {
        for number in (0..100).filter(|number| number % 2 == round % 2) {
            keyspace.merge(key(number), format!("+{round}")).unwrap();
            model.get_mut(&key(number)).unwrap().push_str(&format!("+{round}"));
        }
        (0..100).filter(|n| n % 5 == round).for_each(|n| put(&keyspace, &mut model, n, round));
        db.wait_idle().unwrap();
        reclaim(&db);
        assert_shows(&keyspace, &model);
    }
    db.compact().unwrap();
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}

/// Records of a keyspace that is gone are not those of the next one of its name.
#[test]
fn a_keyspace_dropped_and_made_anew_in_the_midst_of_a_rewrite() {
    let mut met = 0;
    for steps in 1..40 {
        let disk = MemoryDisk::new();
        let io = world(&disk);
        let db = try_open(io.clone(), options(), widths()).unwrap();
        let keyspace = apart(&db);
        let mut model = Model::new();
        (0..200).for_each(|number| put(&keyspace, &mut model, number, 0));
        (0..200).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 1));
        db.flush().unwrap();
        let engine = engine_of(&db);
        (0..steps).for_each(|_| {
            io.executor.help();
        });
        met += usize::from(engine.gc.is_rewriting());
        db.drop_keyspace("apart").unwrap();
        let again = apart(&db);
        let mut model = Model::new();
        (100..150).for_each(|number| put(&again, &mut model, number, 2));
        db.wait_idle().unwrap();
        assert_shows(&again, &model);
        (100..150).filter(|n| n % 2 == 0).for_each(|n| put(&again, &mut model, n, 3));
        reclaim(&db);
        assert!(keyspace.get(key(1)).is_err(), "it is gone");
        assert_shows(&again, &model);
        assert_sound(&db);
        assert!(amplification(&db, &model) < 2.5, "{}", amplification(&db, &model));
        assert_goes_by_facts(&db);
    }
    assert!(met > 0, "no rewrite was met");
}

#[test]
fn large_values_come_and_go() {
    use super::large::{self, keyspaces, long};
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), options(), large::widths()).unwrap();
    let [keyspace, within] = keyspaces(&db);
    let mut expected = std::collections::BTreeMap::new();
    for round in 0..8_u8 {
        for number in 0..20_u8 {
            let length = [40, 299, 300, 301, 700, 1500][usize::from(number + round) % 6];
            let bytes = long(number ^ round, length);
            keyspace.put(format!("k{number:02}"), &bytes).unwrap();
            expected.insert(format!("k{number:02}"), bytes);
        }
        within.put("k", long(round, 1000)).unwrap();
        db.wait_idle().unwrap();
    }
    let large = expected.values().filter(|value| value.len() > 300).count() + 1;
    assert_eq!(large::large_files(&disk).len(), large);
    let expected: Vec<_> = expected.into_iter().collect();
    large::assert_reads(&keyspace, &expected);
    large::assert_reads(&within, &[("k".to_owned(), long(7, 1000))]);
    assert_sound(&db);
    let snapshot = db.snapshot();
    keyspace.delete_range("k"..).unwrap();
    reclaim(&db);
    for (key, value) in &expected {
        assert!(snapshot.get(&keyspace, key).unwrap().unwrap() == value.as_slice());
    }
    drop(snapshot);
    reclaim(&db);
    assert_eq!(large::large_files(&disk).len(), 1);
    assert_sound(&db);
    assert_goes_by_facts(&db);
}
