//! Holes in value segments, seen from outside: dead records go in place, live ones stay where they
//! are, and nobody who may see a record finds a hole in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::base::runs::{Run, run_at};
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::disk::OpenMode;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;
use crate::{Durability, ErrorKind, Reclaimed, StrategyKind};

const VALUE_BYTES: usize = 64 << 10;

/// Value segments of a MiB, of some 16 values.
fn widths() -> Widths {
    Widths {
        value_segment_bytes: 1 << 20,
        value_tail_bytes: 1 << 10,
        // What is not in the index yet is not collected.
        replay_bytes_max: 2 << 20,
        ..Widths::for_budget(1 << 20)
    }
}

/// Only what is moved by way of the index can leave holes.
fn wisckey() -> Options {
    small().strategy(StrategyKind::Wisckey)
}

fn open_on(io: Io) -> Db {
    let engine = Engine::open(io, Path::new("/db"), wisckey().into_settings(), widths()).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

fn open(disk: &MemoryDisk) -> Db {
    open_on(world(disk))
}

fn apart(db: &Db) -> Keyspace {
    db.keyspace("apart", KeyspaceOptions::new().separate_at(Some(1024))).unwrap()
}

fn key(number: u32) -> String {
    format!("key {number:04}")
}

fn value(number: u32, round: u32) -> Vec<u8> {
    let mut state = u64::from(number) << 32 | u64::from(round) | 1 << 63;
    let mut bytes = format!("value {number} of round {round}").into_bytes();
    while bytes.len() < VALUE_BYTES {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(VALUE_BYTES);
    bytes
}

type Model = BTreeMap<u32, u32>;

fn put(keyspace: &Keyspace, model: &mut Model, number: u32, round: u32) {
    keyspace.put(key(number), value(number, round)).unwrap();
    model.insert(number, round);
}

fn assert_shows(keyspace: &Keyspace, model: &Model) {
    let mut pairs = keyspace.iter();
    for (&number, &round) in model {
        let (found, bytes) = pairs.next().unwrap().unwrap();
        assert_eq!(found, key(number).as_bytes());
        assert!(bytes == value(number, round), "key {number}");
        assert!(keyspace.get(key(number)).unwrap().unwrap() == value(number, round));
    }
    assert!(pairs.next().is_none());
}

fn problems(db: &Db) -> Vec<crate::Problem> {
    db.verify(&mut |_, _| {}).unwrap().problems
}

fn assert_sound(db: &Db) {
    let problems = problems(db);
    assert!(problems.is_empty(), "{problems:?}");
}

fn reclaim(db: &Db) -> Reclaimed {
    let reclaimed = db.reclaim(None, &mut |_| {}).unwrap();
    assert!(reclaimed.is_complete, "{reclaimed:?}");
    reclaimed
}

/// Ninety values, and every third written again behind them.
fn with_garbage(db: &Db) -> (Keyspace, Model) {
    let keyspace = apart(db);
    let mut model = Model::new();
    (0..90).for_each(|number| put(&keyspace, &mut model, number, 0));
    (0..90).filter(|n| n % 3 == 0).for_each(|number| put(&keyspace, &mut model, number, 1));
    db.flush().unwrap();
    (keyspace, model)
}

fn engine_of(db: &Db) -> Arc<Engine> {
    Arc::clone(&apart(db).handle.engine)
}

/// Files with their runs.
fn runs_of(db: &Db) -> Vec<(PathBuf, Vec<Run>)> {
    let view = engine_of(db).view.load_full();
    let of = |entry: &crate::values::file_table::TableEntry| {
        let runs = entry.punched.as_ref().map_or(Vec::new(), |punched| punched.runs.to_vec());
        (entry.file.path().to_owned(), runs)
    };
    view.values.iter().map(of).filter(|(_, runs)| !runs.is_empty()).collect()
}

/// Whether all whole blocks of all runs read as zeros.
fn are_given_back(disk: &MemoryDisk, files: &[(PathBuf, Vec<Run>)]) -> bool {
    files.iter().all(|(path, runs)| {
        let bytes = disk.contents(path);
        let blocks = runs.iter().filter_map(|run| run.whole_blocks(4096));
        blocks
            .into_iter()
            .all(|run| bytes[run.start as usize..run.end as usize].iter().all(|&byte| byte == 0))
    })
}

#[test]
fn dead_values_of_many_blocks_go_and_nothing_is_moved() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (keyspace, model) = with_garbage(&db);
    let before = db.stats();
    let reclaimed = reclaim(&db);
    let after = db.stats();
    assert_eq!(reclaimed.bytes_moved, 0, "{reclaimed:?}");
    assert!(reclaimed.bytes_punched > 25 * VALUE_BYTES as u64, "{reclaimed:?}");
    assert!(after.collection.files_punched >= 4, "{:?}", after.collection);
    assert_eq!(after.values.hole_bytes, reclaimed.bytes_punched);
    assert_eq!(after.values.file_bytes + after.values.hole_bytes, before.values.file_bytes);
    assert!(after.disk_bytes < before.disk_bytes - 24 * VALUE_BYTES as u64);
    assert!(after.set_aside_bytes < (2 << 20) + before.set_aside_bytes);
    let live = 90 * VALUE_BYTES as u64;
    assert!((live..live * 11 / 10).contains(&after.values.live_bytes), "{:?}", after.values);
    assert!(after.values.file_bytes < live * 12 / 10, "{:?}", after.values);
    assert!(are_given_back(&disk, &runs_of(&db)));
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    // There is nothing left to do.
    let again = reclaim(&db);
    assert_eq!((again.bytes_punched, again.bytes_moved, again.files), (0, 0, 0));
    let runs = runs_of(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(runs_of(&db), runs);
    db.wait_idle().unwrap();
    db.compact().unwrap();
    assert_shows(&apart(&db), &model);
    assert_sound(&db);
    assert_eq!(db.stats().values.hole_bytes, after.values.hole_bytes, "known after reopening, too");
}

#[test]
fn holes_grow_and_what_little_is_left_moves() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (keyspace, mut model) = with_garbage(&db);
    reclaim(&db);
    let first = runs_of(&db);
    (0..90).filter(|n| n % 3 == 1).for_each(|number| put(&keyspace, &mut model, number, 2));
    let second = reclaim(&db);
    assert_eq!(second.bytes_moved, 0, "{second:?}");
    for (path, runs) in runs_of(&db) {
        let before = first.iter().find(|(other, _)| *other == path);
        let before = before.map_or(&[][..], |(_, runs)| runs);
        assert!(crate::base::runs::are_within(before, &runs), "{path:?}");
    }
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    // Of the oldest files one value is left each.
    (0..90).filter(|n| n % 15 != 2).for_each(|number| put(&keyspace, &mut model, number, 3));
    let third = reclaim(&db);
    assert!(third.bytes_moved > 0 && third.files >= 4, "{third:?}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open(&disk);
    assert_shows(&apart(&db), &model);
    assert_sound(&db);
}

#[test]
fn a_snapshot_keeps_what_it_sees_and_a_view_what_it_reads() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..60).for_each(|number| put(&keyspace, &mut model, number, 0));
    let snapshot = db.snapshot();
    let mut iterator = keyspace.iter();
    assert!(iterator.next().unwrap().unwrap().1 == value(0, 0));
    (0..60).filter(|n| n % 2 == 0).for_each(|number| put(&keyspace, &mut model, number, 1));
    let waiting = reclaim(&db);
    assert_eq!((waiting.bytes_punched, runs_of(&db)), (0, vec![]), "{waiting:?}");
    assert!(waiting.files_waiting > 0, "{waiting:?}");
    for number in 0..60 {
        let found = snapshot.get(&keyspace, key(number)).unwrap().unwrap();
        assert!(found == value(number, 0), "key {number}");
    }
    drop(snapshot);
    db.wait_idle().unwrap();
    reclaim(&db);
    let runs = runs_of(&db);
    assert!(!runs.is_empty(), "no snapshot sees them");
    let rest: Vec<_> = iterator.by_ref().map(|pair| pair.unwrap().1).collect();
    assert!(rest.iter().zip(1..).all(|(bytes, number)| *bytes == value(number, 0)));
    assert_eq!(rest.len(), 59);
    assert!(!are_given_back(&disk, &runs), "an iterator reads them");
    drop(iterator);
    reclaim(&db);
    assert!(are_given_back(&disk, &runs), "nobody reads them");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
}

#[test]
fn a_checkpoint_keeps_every_byte_of_its_moment() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (keyspace, mut model) = with_garbage(&db);
    let old = model.clone();
    db.checkpoint("/older").unwrap();
    let refused = reclaim(&db);
    assert_eq!(refused.bytes_punched, 0, "its links would show the holes: {refused:?}");
    assert!(refused.bytes_moved > 0, "{refused:?}");
    (0..90).filter(|n| n % 3 == 1).for_each(|number| put(&keyspace, &mut model, number, 2));
    assert!(reclaim(&db).bytes_punched > 0, "newer files have one name");
    let runs = runs_of(&db);
    db.checkpoint("/newer").unwrap();
    let newer = model.clone();
    put(&keyspace, &mut model, 5, 9);
    assert_shows(&keyspace, &model);
    db.close().unwrap();
    for (path, model) in [("/older", old), ("/newer", newer)] {
        let engine =
            Engine::open(world(&disk), Path::new(path), wisckey().into_settings(), widths());
        let copy = Db::new(Handle::new(engine.unwrap(), Durability::Buffered));
        assert_shows(&apart(&copy), &model);
        assert_sound(&copy);
        assert_eq!(runs_of(&copy).len(), if path == "/newer" { runs.len() } else { 0 });
    }
}

#[test]
fn a_disk_that_punches_no_holes_costs_nothing_but_moving() {
    for fault in [Fault::Unsupported, Fault::Eio, Fault::Enospc] {
        let disk = MemoryDisk::new();
        let faults = FaultDisk::over(&disk);
        let io = Io { disk: Arc::new(faults.clone()), ..world(&disk) };
        let db = open_on(io);
        let (keyspace, model) = with_garbage(&db);
        let kind = Some(CallKind::Punch);
        faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: true }));
        let first = reclaim(&db);
        assert_eq!(first.bytes_punched, 0, "{fault:?}: {first:?}");
        assert!(faults.triggered() > 0, "{fault:?}");
        assert_shows(&keyspace, &model);
        assert_sound(&db);
        let second = reclaim(&db);
        assert!(first.bytes_moved + second.bytes_moved > 0, "{fault:?}: {second:?}");
        assert_eq!(db.stats().values.hole_bytes, 0);
        let live = 90 * VALUE_BYTES as u64;
        let values = db.stats().values;
        assert!(values.file_bytes < live * 14 / 10, "{fault:?}: {values:?}");
        assert_shows(&keyspace, &model);
        assert_sound(&db);
        faults.set_plan(None);
        db.close().unwrap();
        let db = open(&disk);
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        let left = runs_of(&db);
        db.wait_idle().unwrap();
        assert!(are_given_back(&disk, &left), "the next open has it done");
    }
}

#[test]
fn a_crash_at_any_call_of_a_punch_loses_nothing() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (_keyspace, model) = with_garbage(&db);
    db.sync().unwrap();
    let images = Arc::new(std::sync::Mutex::new(Vec::new()));
    let taken = images.clone();
    disk.set_observer(Some(std::sync::Arc::new(move |call, disk: &MemoryDisk| {
        for mode in [CrashMode::None, CrashMode::All, CrashMode::Sectors, CrashMode::PrefixByFile] {
            taken.lock().unwrap().push((call, mode, disk.crash_image(mode, call)));
        }
    })));
    let reclaimed = reclaim(&db);
    assert!(reclaimed.bytes_punched > 0);
    disk.set_observer(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 40, "{}", images.len());
    for (call, mode, image) in images {
        let db = open(&image);
        let keyspace = apart(&db);
        for (&number, &round) in model.iter().step_by(7) {
            let found = keyspace.get(key(number)).unwrap().unwrap();
            assert!(found == value(number, round), "call {call} {mode:?} key {number}");
        }
        assert_sound(&db);
        db.wait_idle().unwrap();
        let runs = runs_of(&db);
        assert!(are_given_back(&image, &runs), "call {call} {mode:?}: open has it done");
        assert_sound(&db);
    }
}

#[test]
fn bytes_in_a_hole_do_not_matter_and_all_others_do() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (keyspace, _) = with_garbage(&db);
    reclaim(&db);
    let files = runs_of(&db);
    drop(keyspace);
    let (path, runs) = files.first().unwrap();
    let bytes = disk.contents(path);
    let edges = runs.iter().flat_map(|run| [run.start, run.start + 1, run.end - 1, run.end]);
    let around = runs.iter().map(|run| run.start - 1);
    let spread = (0..bytes.len() as u64).step_by(30_011);
    let (mut in_hole, mut outside) = (0, 0);
    for at in edges.chain(around).chain(spread).chain([0, bytes.len() as u64 - 1]) {
        let mut changed = bytes.clone();
        changed[at as usize] ^= 0x20;
        disk.replace(path, changed).unwrap();
        let is_seen = problems(&db).iter().any(|problem| problem.file.as_ref() == Some(path));
        let is_in_hole = run_at(runs, at).is_some();
        assert_eq!(is_seen, !is_in_hole, "byte {at}");
        in_hole += u32::from(is_in_hole);
        outside += u32::from(!is_in_hole);
    }
    assert!(in_hole > 10 && outside > 10, "{in_hole} {outside}");
    disk.replace(path, bytes).unwrap();
    assert_sound(&db);
}

#[test]
fn a_handle_into_a_hole_is_corruption_and_not_zeros() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let (_keyspace, _) = with_garbage(&db);
    reclaim(&db);
    let engine = engine_of(&db);
    let view = engine.view.load_full();
    let entry = view.values.iter().find(|entry| entry.punched.is_some()).unwrap();
    let offset = entry.punched.as_ref().unwrap().runs[0].start + 40;
    let file = entry.file.id();
    let handle = crate::values::handle::Handle { file, epoch: 0, offset, bytes: 65_600 };
    let keyspace = crate::base::entry::KeyspaceId(1);
    let wanted = crate::values::reader::Wanted { handle, keyspace, key: b"key 0000", seq: 1 };
    let reader = engine.value_reader(&view.values);
    for error in [
        reader.get(&wanted).unwrap_err(),
        reader.read_many(&[wanted], crate::io::Purpose::Read).remove(0).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("hole"), "{error}");
        assert_eq!(error.offset(), Some(offset));
    }
}

/// An update-heavy load under its space limit: what is written for it, and the largest part of the
/// limit that the files took.
fn written_for_updates(io: Io) -> (f64, f64, Db) {
    const KEYS: u64 = 160;
    let db = open_on(io);
    let keyspace = apart(&db);
    let mut model = Model::new();
    let (mut state, mut space_max) = (7u64, 0.0f64);
    for round in 0..1600u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = if round < KEYS as u32 { round } else { ((state >> 33) % KEYS) as u32 };
        put(&keyspace, &mut model, number, round);
        if round % 8 == 7 {
            db.wait_idle().unwrap();
            let values = db.stats().values;
            if round > 2 * KEYS as u32 {
                let live = KEYS * VALUE_BYTES as u64;
                space_max = space_max.max(values.file_bytes as f64 / live as f64);
            }
        }
    }
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    let collected = db.stats().collection;
    let user = 1600.0 * VALUE_BYTES as f64;
    let amplification = 1.0 + collected.bytes_moved as f64 / user;
    (amplification, space_max, db)
}

#[test]
fn updates_of_many_blocks_cost_less_with_holes_than_with_moving() {
    let with_holes = {
        let (written, space, db) = written_for_updates(world(&MemoryDisk::new()));
        assert!(db.stats().collection.bytes_punched > 0);
        (written, space)
    };
    let disk = MemoryDisk::new();
    let faults = FaultDisk::over(&disk);
    let (kind, fault) = (Some(CallKind::Punch), Fault::Unsupported);
    faults.set_plan(Some(FaultPlan { kind, at: 1, fault, persistent: true }));
    let io = Io { disk: Arc::new(faults), ..world(&disk) };
    let (written, space, _) = written_for_updates(io);
    println!("holes: {with_holes:?}; moving: {written:.2}, {space:.2}");
    assert!(with_holes.0 < 1.25, "{with_holes:?}, moving {written}");
    assert!(written > with_holes.0 * 1.3, "{with_holes:?}, moving {written}");
    assert!(with_holes.1 < 2.0 && with_holes.1 < space * 1.15, "{with_holes:?}, moving {space}");
}

#[test]
fn a_real_disk_takes_its_blocks_back() {
    // In the crate's directory: not in a file system in memory.
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("db");
    let open = || {
        let io = crate::io::context::native_io(1, 0).unwrap();
        let engine = Engine::open(io, &path, wisckey().into_settings(), widths()).unwrap();
        Db::new(Handle::new(engine, Durability::Buffered))
    };
    // Of each file by itself: the next segment's is made, blank and at its full size, whenever the
    // background comes to it, and the open one is cut when it is sealed.
    let hole_bytes = || -> u64 {
        let io = crate::io::context::native_io(1, 0).unwrap();
        let entries = io.disk.read_dir(&path).unwrap().into_iter();
        let values = entries.filter(|entry| entry.name.ends_with(".val"));
        values
            .map(|entry| {
                let file = io.disk.open(&path.join(entry.name), OpenMode::default()).unwrap();
                entry.len.saturating_sub(file.footprint().unwrap().allocated_bytes)
            })
            .sum()
    };
    let db = open();
    let (keyspace, model) = with_garbage(&db);
    db.sync().unwrap();
    let reclaimed = reclaim(&db);
    if reclaimed.bytes_punched == 0 {
        println!("skipped: the file system of {} punches no holes", path.display());
        return;
    }
    let holes = hole_bytes();
    // The file system counts what it keeps of a file as blocks of it, too.
    assert!(holes + (256 << 10) > reclaimed.bytes_punched, "{holes} {reclaimed:?}");
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    let db = open();
    db.wait_idle().unwrap();
    assert_shows(&apart(&db), &model);
    assert_sound(&db);
    db.close().unwrap();
}
