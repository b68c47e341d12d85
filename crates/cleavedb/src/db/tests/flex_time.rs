//! Checkpoints of a Flex tree that are due for the age of its log, on a clock that stands still
//! until it is told to go on.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::IndexKind;
use crate::index::flex::space::LOG_AGE_MAX;
use crate::io::clock::SimulatedClock;
use crate::io::context::native_io;
use crate::io::stepper::Stepper;

fn flex(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    db.keyspace("flex", options).unwrap()
}

/// Files with this ending.
fn count(disk: &MemoryDisk, ending: &str) -> usize {
    let all = disk.files().into_iter();
    all.filter(|(path, _)| path.extension().is_some_and(|found| found == ending)).count()
}

#[test]
fn a_log_that_is_old_makes_a_checkpoint_due_however_short_it_is() {
    let (disk, clock) = (MemoryDisk::new(), SimulatedClock::new());
    let open = || {
        let executor = Stepper::new(0).attach();
        let io = Io::new(Arc::new(disk.clone()), Arc::new(clock.clone()), executor, 0);
        small().open_in(io, Path::new("/db")).unwrap()
    };
    let second = Duration::from_secs(1);
    let mut db = open();
    let flushed = |db: &Db, key: &str| {
        flex(db).put(key, "value").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
    };
    flushed(&db, "one");
    let is_due = |db: &Db| flex(db).handle.engine.note_time();
    assert!(!is_due(&db) && (count(&disk, "fxl"), count(&disk, "fxp")) == (1, 0));
    clock.advance(LOG_AGE_MAX - second);
    assert!(!is_due(&db));
    // What comes to a log does not make it younger.
    flushed(&db, "two");
    assert!(!is_due(&db));
    clock.advance(second);
    assert!(is_due(&db));
    db.wait_idle().unwrap();
    assert_eq!((count(&disk, "fxl"), count(&disk, "fxp")), (0, 1), "the tree took its place");
    // Without a log there is nothing to do, whatever the clock says.
    clock.advance(LOG_AGE_MAX * 3);
    assert!(!is_due(&db));
    // After an open the log that it found is as old as the open.
    flushed(&db, "three");
    db.close().unwrap();
    clock.advance(LOG_AGE_MAX);
    db = open();
    // What nobody writes to any more may be worth being got back now.
    db.wait_idle().unwrap();
    assert!(!is_due(&db) && count(&disk, "fxl") > 0);
    clock.advance(LOG_AGE_MAX);
    assert!(is_due(&db));
    db.wait_idle().unwrap();
    assert_eq!(count(&disk, "fxl"), 0);
    let keyspace = flex(&db);
    assert_eq!(keyspace.iter().count(), 3);
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}

/// Nobody writes, reads or calls: the timer looks at the clock.
#[test]
fn the_timer_sees_that_a_log_is_old() {
    let (_guard, path) = scratch();
    let clock = SimulatedClock::new();
    let mut io = native_io(2, 0).unwrap();
    io.clock = Arc::new(clock.clone());
    let db = small().sync_interval(Duration::from_millis(5)).open_in(io, &path).unwrap();
    flex(&db).put("key", "value").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let engine = flex(&db).handle.engine.clone();
    let logs = || {
        let entries = engine.io.disk.read_dir(&engine.dir).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".fxl")).count()
    };
    assert_eq!(logs(), 1);
    clock.advance(LOG_AGE_MAX);
    while logs() > 0 {
        std::thread::yield_now();
    }
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}
