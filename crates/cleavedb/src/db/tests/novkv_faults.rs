//! Rewrites of containers that end too early: by a full disk, a call that fails, a crash, or the
//! store's end. Nothing is lost, nothing half-made is left, and the work is done later.

use std::path::Path;

use super::collection::{Model, apart, assert_shows, assert_sound, key, put, reclaim, widths};
use super::novkv::{amplification, assert_no_stray, engine_of, files_of, open, options, try_open};
use super::*;
use crate::ErrorKind;
use crate::base::sync::Mutex;
use crate::base::widths::Widths;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;

/// A closed store in which a rewrite is due as soon as it is opened: segments, and a container.
fn due() -> (MemoryDisk, Model) {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..2 {
        (0..60).for_each(|number| put(&keyspace, &mut model, number, round));
        (0..60).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, round + 10));
        reclaim(&db);
    }
    drop(keyspace);
    db.close().unwrap();
    assert!(!files_of(&disk, "vtb").is_empty());
    let lazy = options().space_amplification_max(1000.0);
    let db = try_open(world(&disk), lazy, widths()).unwrap();
    let keyspace = apart(&db);
    (0..60).filter(|n| n % 3 > 0).for_each(|n| put(&keyspace, &mut model, n, 20));
    (0..60).filter(|n| n % 6 == 1).for_each(|n| put(&keyspace, &mut model, n, 21));
    keyspace.compact().unwrap();
    drop(keyspace);
    db.close().unwrap();
    (disk, model)
}

/// After all troubles: everything is there, and what was due is done.
fn assert_done(disk: &MemoryDisk, db: &Db, model: &Model) {
    db.wait_idle().unwrap();
    reclaim(db);
    assert_shows(&apart(db), model);
    assert_sound(db);
    assert_no_stray(db, disk);
    let after = amplification(db, model);
    assert!(after < 2.2, "{after}");
}

#[test]
fn a_full_disk_in_the_midst_of_a_rewrite_loses_nothing() {
    let (start, model) = due();
    let mut went_on = 0;
    // The disk is full from one step of the background work on.
    for steps in 0..6 {
        let disk = start.deep_clone();
        let io = world(&disk);
        let db = try_open(io.clone(), options(), widths()).unwrap();
        let engine = engine_of(&db);
        engine.gc.look_anew();
        engine.schedule();
        for _ in 0..steps {
            io.executor.help();
        }
        let room = format!("full after {steps} steps");
        disk.set_capacity(Some(0));
        if let Err(error) = db.wait_idle() {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{room}: {error:?}");
        }
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        assert_no_stray(&db, &disk);
        let before = db.stats().values.file_bytes;
        disk.set_capacity(None);
        // As the timer does.
        engine.retry_after_full_disk();
        db.wait_idle().unwrap();
        let after = db.stats().values.file_bytes;
        println!("{room}: {before} bytes, {after} with room again");
        went_on += usize::from(after < before);
        assert_done(&disk, &db, &model);
    }
    assert!(went_on > 0, "no rewrite met the full disk");
}

/// Every call of a rewrite fails, once or for good.
fn failing_calls(kind: Option<CallKind>, fault: Fault) -> (u64, u64) {
    let (start, model) = due();
    let (mut at, mut triggered, mut stopped) = (1, 0, 0);
    loop {
        let mut calls = 0;
        for persistent in [false, true] {
            let disk = start.deep_clone();
            let faults = FaultDisk::over(&disk);
            let io = Io { disk: Arc::new(faults.clone()), ..world(&disk) };
            let db = try_open(io, options(), widths()).unwrap();
            let keyspace = apart(&db);
            let of = |kind: Option<CallKind>| kind.map_or(faults.calls(), |k| faults.calls_of(k));
            let before = of(kind);
            faults.set_plan(Some(FaultPlan { kind, at, fault, persistent }));
            let outcome = db.wait_idle();
            triggered += faults.triggered();
            faults.set_plan(None);
            calls = of(kind) - before;
            println!("{fault:?} at {at}, persistent: {persistent}, {outcome:?}");
            assert_shows(&keyspace, &model);
            if engine_of(&db).health.is_stopped() {
                stopped += 1;
                drop((keyspace, db));
                let db = open(&disk);
                assert_shows(&apart(&db), &model);
                assert_done(&disk, &db, &model);
                continue;
            }
            assert_sound(&db);
            // Whatever was left alone is tried again when somebody asks; what could not be removed
            // goes when the store is opened the next time.
            reclaim(&db);
            assert_shows(&keyspace, &model);
            drop(keyspace);
            db.close().unwrap();
            let db = open(&disk);
            assert_done(&disk, &db, &model);
        }
        if calls < at {
            assert!(triggered > 4, "{fault:?}: {triggered} calls of {at}");
            return (triggered, stopped);
        }
        at += 1;
    }
}

#[test]
fn any_call_of_a_rewrite_may_fail() {
    for fault in [Fault::Eio, Fault::Enospc, Fault::Emfile, Fault::Eintr] {
        let (triggered, stopped) = failing_calls(None, fault);
        println!("{fault:?}: {triggered} failed, {stopped} stopped the store");
        // An edit whose remains cannot be cut off stops it, whatever the reason.
        assert!(stopped < triggered, "{fault:?} always stops the store");
    }
}

#[test]
fn any_read_of_a_rewrite_may_bring_something_else() {
    for fault in [Fault::BitFlip, Fault::ShortRead] {
        let (triggered, stopped) = failing_calls(Some(CallKind::Read), fault);
        println!("{fault:?}: {triggered} failed, {stopped} stopped the store");
    }
}

#[test]
fn a_crash_at_any_call_of_a_rewrite_loses_nothing() {
    let (disk, model) = due();
    let db = open(&disk);
    db.sync().unwrap();
    let images: Arc<Mutex<Vec<MemoryDisk>>> = Arc::default();
    let taken = Arc::clone(&images);
    disk.set_observer(Some(Arc::new(move |call, disk| {
        for mode in CrashMode::ALL {
            taken.lock().push(disk.crash_image(mode, call));
        }
    })));
    db.wait_idle().unwrap();
    disk.set_observer(None);
    assert_shows(&apart(&db), &model);
    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() > 100, "{}", images.len());
    for image in images {
        let db = open(&image);
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        assert_no_stray(&db, &image);
        assert_done(&image, &db, &model);
    }
}

#[test]
fn closing_at_any_step_of_a_rewrite_loses_nothing() {
    let (start, model) = due();
    let mut met = 0;
    for steps in 0..30 {
        let disk = start.deep_clone();
        let io = world(&disk);
        let db = try_open(io.clone(), options(), widths()).unwrap();
        let engine = engine_of(&db);
        engine.gc.look_anew();
        engine.schedule();
        for _ in 0..steps {
            io.executor.help();
        }
        met += usize::from(engine.gc.is_rewriting());
        drop(engine);
        db.close().unwrap();
        let db = open(&disk);
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        assert_no_stray(&db, &disk);
        assert_done(&disk, &db, &model);
    }
    assert!(met > 2, "{met}");
}

/// Rewrites of more than one step each: a table that is half written when the store is closed.
#[test]
fn a_half_written_table_is_gone_when_the_store_is_closed() {
    const VALUE_BYTES: usize = 256 << 10;
    let widths = || Widths { value_segment_bytes: 64 << 20, ..Widths::for_budget(1 << 20) };
    let text = |number: u32| {
        let mut bytes = vec![number as u8; VALUE_BYTES];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), options(), widths()).unwrap();
    let keyspace = apart(&db);
    (0..120).for_each(|number| keyspace.put(key(number), text(number)).unwrap());
    drop(keyspace);
    db.close().unwrap();
    // Short ones take the place of most.
    let is_short = |number: &u32| !number.is_multiple_of(5);
    let db = try_open(world(&disk), options(), widths()).unwrap();
    let keyspace = apart(&db);
    (0..120).filter(is_short).for_each(|number| keyspace.put(key(number), "short").unwrap());
    drop(keyspace);
    db.close().unwrap();
    let mut half_written = 0;
    for steps in 1..40 {
        let image = disk.deep_clone();
        let io = world(&image);
        let db = try_open(io.clone(), options(), widths()).unwrap();
        let engine = engine_of(&db);
        engine.gc.look_anew();
        engine.schedule();
        for _ in 0..steps {
            io.executor.help();
        }
        let is_half = engine.gc.is_rewriting() && !files_of(&image, "vtb").is_empty();
        drop(engine);
        db.close().unwrap();
        if !is_half {
            continue;
        }
        half_written += 1;
        assert!(files_of(&image, "vtb").is_empty(), "it is gone");
        let db = try_open(world(&image), options(), widths()).unwrap();
        let keyspace = apart(&db);
        for number in 0..120 {
            let expected = if is_short(&number) { b"short".to_vec() } else { text(number) };
            assert!(keyspace.get(key(number)).unwrap().unwrap() == expected.as_slice());
        }
        assert_sound(&db);
    }
    assert!(half_written > 0, "none was met");
    assert!(Path::new("/db").is_absolute());
}
