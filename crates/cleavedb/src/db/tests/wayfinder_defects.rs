//! What went wrong with the map: keyspaces that are dropped, snapshots that are gone, and reads
//! while a rewrite is in force and the map does not know of it.

use super::collection::{Model, apart, assert_sound, put, reclaim, widths};
use super::novkv::{files_of, try_open};
use super::wayfinder::{assert_finds_all, bare, filled, map, open};
use super::*;
use crate::StrategyKind;
use crate::base::entry::FileId;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::widths::Widths;
use crate::engine::mapping::touching::MapTouching;

/// Two keyspaces, of which the second one has four fifths of all there is.
fn two(db: &Db) -> (Keyspace, Model) {
    let (first, second) = (bare(db), apart(db));
    let (mut model, mut other) = (Model::new(), Model::new());
    (0..100).for_each(|number| put(&first, &mut model, number, 0));
    (0..400).for_each(|number| put(&second, &mut other, number, 0));
    (first, model)
}

#[test]
fn a_dropped_keyspace_does_not_come_back_with_the_checkpoint_of_the_map() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (first, model) = two(&db);
    db.flush().unwrap();
    reclaim(&db);
    drop(first);
    db.close().unwrap();
    let before = files_of(&disk, "loc");
    assert_eq!(before.len(), 1);
    let db = open(&disk);
    assert_eq!(map(&db).keys, 500);
    db.drop_keyspace("apart").unwrap();
    assert_eq!(map(&db).keys, 100);
    db.close().unwrap();
    let after = files_of(&disk, "loc");
    assert!(after.len() == 1 && after != before, "saved anew: {after:?}");
    let db = open(&disk);
    assert_eq!(map(&db).keys, 100);
    reclaim(&db);
    db.wait_idle().unwrap();
    let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    let bytes = db.stats().values.file_bytes;
    assert!(bytes < 2 * live as u64, "{bytes} for {live}");
    assert_finds_all(&bare(&db), &model);
    assert_sound(&db);
}

/// A checkpoint from before a drop counted as one: what it has of the keyspace is forgotten.
#[test]
fn what_a_checkpoint_has_of_a_keyspace_that_is_not_there_is_forgotten() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (first, model) = two(&db);
    db.flush().unwrap();
    let engine = Arc::clone(&first.handle.engine);
    let mapping = engine.mapping.clone().unwrap();
    // The keyspace goes, and the map is not told.
    let apart = engine.catalogue.lock().remove("apart").unwrap();
    engine.load_map();
    drop(apart);
    assert_eq!(mapping.figures().keys, 500, "no checkpoint, nothing to forget");
    engine.forget_dropped_in_map();
    assert_eq!(mapping.figures().keys, 100);
    assert_finds_all(&first, &model);
}

/// The drop came between the flush's look at the catalogue and its touch of the last key; the
/// flush then failed, and is done again.
#[test]
fn a_keyspace_dropped_while_the_map_is_touched_leaves_nothing_in_it() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (first, model) = two(&db);
    let engine = Arc::clone(&first.handle.engine);
    let mapping = engine.mapping.clone().unwrap();
    assert!(engine.freeze_memtable());
    let view = engine.view.load_full();
    let table = Arc::clone(&view.frozen.last().unwrap().table);
    let keyspaces = table.keyspaces();
    assert_eq!(keyspaces.len(), 2);
    db.drop_keyspace("apart").unwrap();
    let (values, strategy) = (&engine.value_context, &*engine.strategy);
    let touching = MapTouching::of_flush(&mapping, values, &[], strategy, &table, &keyspaces);
    drop(touching.unwrap());
    assert_eq!(map(&db).keys, 500, "the touches of what is gone");
    db.flush().unwrap();
    assert_eq!(map(&db).keys, 100);
    let live = mapping.live().bytes;
    assert_finds_all(&first, &model);
    mapping.count_anew();
    assert_eq!((mapping.live().records, mapping.live().bytes), (100, live));
    assert_sound(&db);
}

#[test]
fn what_was_kept_for_snapshots_is_garbage_once_one_of_them_is_gone() {
    let disk = MemoryDisk::new();
    let (db, keyspace, _) = filled(&disk, bare);
    let mapping = keyspace.handle.engine.mapping.clone().unwrap();
    let container = FileId(1 << 20);
    // They went away between the judge's look and the end of the collection.
    mapping.kept_for(container, 10, Vec::new());
    assert_eq!(mapping.kept_in(container, &[]), 0);
    assert_eq!(mapping.kept_in(container, &[7]), 0);
    mapping.kept_for(container, 10, vec![5, 7]);
    assert_eq!(mapping.kept_in(container, &[5, 7, 9]), 10);
    assert_eq!(mapping.kept_in(container, &[7, 9]), 0);
    drop(db);
}

/// Each edit makes a new manifest after its view is published: that is when the reads come.
#[test]
fn reads_find_what_a_rewrite_in_force_has_before_the_map_is_told() {
    let disk = MemoryDisk::new();
    let widths = Widths { locator_shard_bits: 1, manifest_bytes_max: 1, ..widths() };
    let options = small().strategy(StrategyKind::Wayfinder);
    let db = try_open(world(&disk), options, widths).unwrap();
    let keyspace = bare(&db);
    let mut model = Model::new();
    for round in 0..2 {
        (0..300).for_each(|number| put(&keyspace, &mut model, number, round));
        db.flush().unwrap();
    }
    reclaim(&db);
    (0..300).filter(|n| n % 3 == 0).for_each(|n| put(&keyspace, &mut model, n, 2));
    db.flush().unwrap();
    let (windows, is_reading) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let observer = {
        let (windows, keyspace, model) = (windows.clone(), keyspace.clone(), model.clone());
        move |_: u64, _: &MemoryDisk| {
            let engine = &keyspace.handle.engine;
            let view = engine.view.load_full();
            let mapping = engine.mapping.as_ref().unwrap();
            let is_untold = |container: FileId| {
                mapping.is_arriving(container)
                    && view.values.files_in(container).any(|file| file.epoch > 1)
            };
            let mut containers = view.values.containers().map(|entry| entry.container.id());
            if containers.any(is_untold) && !is_reading.swap(true, Ordering::Relaxed) {
                assert_finds_all(&keyspace, &model);
                windows.fetch_add(1, Ordering::Relaxed);
                is_reading.store(false, Ordering::Relaxed);
            }
        }
    };
    disk.set_observer(Some(Arc::new(observer)));
    reclaim(&db);
    disk.set_observer(None);
    assert!(windows.load(Ordering::Relaxed) > 0, "no second rewrite of a file");
    assert_finds_all(&keyspace, &model);
    assert_sound(&db);
}
