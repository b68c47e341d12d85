//! The reserve: it is in place only if it is as long as it should be, and file and flag change
//! together.

use super::collection::{key, widths};
use super::novkv::try_open;
use super::*;
use crate::ErrorKind;
use crate::base::error::Error;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};

const RESERVE_BYTES: u64 = 1 << 20;

fn open(io: Io) -> (Db, Keyspace) {
    let db = try_open(io, small().reserve_bytes(RESERVE_BYTES), widths()).unwrap();
    let keyspace = plain(&db);
    (db, keyspace)
}

fn reserve_bytes(disk: &MemoryDisk) -> Option<u64> {
    let mut files = disk.files().into_iter();
    files.find(|(path, _)| path.ends_with("RESERVE")).map(|(_, bytes)| bytes)
}

fn full() -> Error {
    Error::new(ErrorKind::NoSpace, "no room")
}

/// As a crash leaves it between making the file and setting its room aside.
#[test]
fn a_reserve_that_is_too_short_is_made_whole() {
    for left in [0, 1, RESERVE_BYTES - 1] {
        let disk = MemoryDisk::new();
        let (db, keyspace) = open(world(&disk));
        (0..400).for_each(|number| keyspace.put(key(number), [1; 100]).unwrap());
        drop(keyspace);
        db.close().unwrap();
        disk.replace("/db/RESERVE", vec![0; left as usize]).unwrap();
        let (_db, keyspace) = open(world(&disk));
        assert_eq!(reserve_bytes(&disk), Some(RESERVE_BYTES), "{left} bytes were left");
        disk.set_capacity(Some(disk.files().iter().map(|(_, bytes)| bytes).sum()));
        let refused = (1000..20_000).find_map(|number| keyspace.put(key(number), [2; 999]).err());
        assert_eq!(refused.unwrap().kind(), ErrorKind::NoSpace);
        assert_eq!(reserve_bytes(&disk), None, "given up");
        // More of them than what the last put has left of the room.
        (0..400).for_each(|number| keyspace.delete(key(number)).unwrap());
    }
}

/// Another thread that tries to restore the reserve holds the last of the room for a moment.
#[test]
fn a_delete_is_tried_again_though_the_reserve_was_given_up_before() {
    let disk = MemoryDisk::new();
    let faults = FaultDisk::over(&disk);
    let (db, keyspace) = open(Io { disk: Arc::new(faults.clone()), ..world(&disk) });
    keyspace.put("a", "a").unwrap();
    let engine = &keyspace.handle.engine;
    assert!(engine.note_full_disk(&full()));
    let plan =
        FaultPlan { kind: Some(CallKind::Write), at: 1, fault: Fault::Enospc, persistent: false };
    faults.set_plan(Some(plan));
    keyspace.delete("a").unwrap();
    assert_eq!(faults.triggered(), 1);
    assert_eq!(keyspace.get("a").unwrap(), None);
    drop(db);
}

/// So nobody takes a file that is not whole yet, or is about to go, for the reserve.
#[test]
fn the_reserve_is_made_and_given_up_under_its_lock() {
    let disk = MemoryDisk::new();
    let (_db, keyspace) = open(world(&disk));
    let engine = Arc::clone(&keyspace.handle.engine);
    let (locked, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let observer = {
        let (engine, locked, calls) = (engine.clone(), locked.clone(), calls.clone());
        move |_: u64, _: &MemoryDisk| {
            calls.fetch_add(1, Ordering::Relaxed);
            locked.fetch_add(u64::from(engine.reserve.is_changing()), Ordering::Relaxed);
        }
    };
    disk.set_observer(Some(Arc::new(observer)));
    assert!(engine.note_full_disk(&full()) && engine.reserve.is_given_up());
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the file is removed");
    assert!(!engine.note_full_disk(&full()), "there is none to give up");
    assert!(engine.restore_reserve() && !engine.reserve.is_given_up());
    disk.set_observer(None);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls >= 3 && locked.load(Ordering::Relaxed) == calls, "{calls} calls");
    assert_eq!(reserve_bytes(&disk), Some(RESERVE_BYTES));
}
