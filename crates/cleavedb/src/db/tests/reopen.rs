//! What opening writes, and what it does not.

use std::path::Path;

use super::*;
use crate::Durability;
use crate::base::sync::Arc;
use crate::io::fault_disk::{CallKind, FaultDisk};
use crate::io::memory_disk::CrashMode;

/// Calls of one kind that opening (and closing again) makes on a disk, and the pairs it finds.
fn open_and_count(disk: &MemoryDisk, kind: CallKind) -> (u64, usize) {
    let faults = FaultDisk::over(disk);
    let io = Io::simulated(Arc::new(faults.clone()));
    let db = Options::new().reserve_bytes(0).open_in(io, Path::new("/db")).unwrap();
    let calls = faults.calls_of(kind);
    (calls, plain(&db).iter().count())
}

/// A database with a megabyte in its journal; each half is more than one piece of a rewrite.
fn journaled(disk: &MemoryDisk) -> Db {
    let db = Options::new().reserve_bytes(0).open_in(world(disk), Path::new("/db")).unwrap();
    for number in 0..1_000_u64 {
        plain(&db).put(number.to_be_bytes(), vec![7; 1_000]).unwrap();
    }
    db
}

/// A closed segment is named as sealed, after a sync that did not fail: it is whole on the device,
/// so it is read and not written. After a crash nobody knows what a sync may have lost.
#[test]
fn a_journal_that_was_closed_is_not_written_again() {
    let disk = MemoryDisk::new();
    let empty = Options::new().reserve_bytes(0).open_in(world(&disk), Path::new("/db")).unwrap();
    drop(plain(&empty));
    drop(empty);
    let (usual, _) = open_and_count(&disk, CallKind::Write);
    let db = journaled(&disk);
    let crashed = disk.crash_image(CrashMode::All, 0);
    db.close().unwrap();
    assert_eq!(open_and_count(&disk, CallKind::Write), (usual, 1_000));
    let (writes, found) = open_and_count(&crashed, CallKind::Write);
    assert_eq!(found, 1_000);
    assert!(writes >= usual + 4, "{writes} writes after a crash, {usual} after closing");
}

/// The seal is as good as the sync before it: closing after a failed sync seals nothing.
#[test]
fn a_journal_whose_sync_failed_is_written_again() {
    use crate::io::fault_disk::{Fault, FaultPlan};
    let disk = MemoryDisk::new();
    let faults = FaultDisk::over(&disk);
    let io = Io::simulated(Arc::new(faults.clone()));
    let db = Options::new().reserve_bytes(0).open_in(io, Path::new("/db")).unwrap();
    let ks = plain(&db);
    for number in 0..1_000_u64 {
        ks.put(number.to_be_bytes(), vec![7; 1_000]).unwrap();
    }
    let plan =
        FaultPlan { kind: Some(CallKind::Sync), at: 1, fault: Fault::Eio, persistent: false };
    faults.set_plan(Some(plan));
    db.sync().unwrap_err();
    drop(ks);
    db.close().unwrap_err();
    // The kernel still shows what the device will never get.
    let (_, found) = open_and_count(&disk, CallKind::Write);
    assert_eq!(found, 1_000);
    let (_, found) = open_and_count(&disk.crash_image(CrashMode::None, 0), CallKind::Write);
    assert_eq!(found, 1_000, "what an open has shown is durable");
}

#[test]
fn missing_folders_are_created_and_survive_a_crash() {
    let disk = MemoryDisk::new();
    let at = Path::new("/one/two/three/db");
    let db = small().open_in(world(&disk), at).unwrap();
    plain(&db).put("k", "v").unwrap();
    let mut batch = db.batch();
    batch.put(&plain(&db), "k", "v");
    batch.commit(Durability::Sync).unwrap();
    let image = disk.crash_image(CrashMode::None, 0);
    let again = small().create_if_missing(false).open_in(world(&image), at).unwrap();
    assert_eq!(pairs(plain(&again).iter()), ["k=v"]);
}

/// An attempt that ended between creating a folder and syncing its name leaves that to the next.
#[test]
fn folders_of_an_attempt_that_failed_are_synced_by_the_next() {
    use crate::io::fault_disk::{Fault, FaultPlan};
    let at = Path::new("/one/two/three/db");
    let mut failed = 0;
    for kind in [CallKind::SyncDir, CallKind::CreateDir, CallKind::Lock] {
        for index in 1..12 {
            let disk = MemoryDisk::new();
            let faults = FaultDisk::over(&disk);
            let plan =
                FaultPlan { kind: Some(kind), at: index, fault: Fault::Eio, persistent: false };
            faults.set_plan(Some(plan));
            let first = small().open_in(Io::simulated(Arc::new(faults.clone())), at);
            failed += u64::from(first.is_err());
            drop(first);
            drop(small().open_in(world(&disk), at).unwrap());
            let image = disk.crash_image(CrashMode::None, 0);
            let again = small().create_if_missing(false).open_in(world(&image), at);
            assert!(again.is_ok(), "{kind:?} {index}: {:?}", again.err());
        }
    }
    assert!(failed >= 8, "{failed} attempts failed");
}

/// Every crash of a creation leaves nothing, an unfinished creation, or a database.
#[test]
fn creation_with_folders_is_atomic() {
    let at = Path::new("/one/two/db");
    let disk = MemoryDisk::new();
    let seen = Arc::new(crate::base::sync::Mutex::new((0, 0)));
    let counted = Arc::clone(&seen);
    disk.set_observer(Some(Arc::new(move |call, disk| {
        for mode in CrashMode::ALL {
            let image = disk.crash_image(mode, call);
            drop(small().open_in(world(&image), at).unwrap());
            let durable = image.crash_image(CrashMode::None, 0);
            drop(small().create_if_missing(false).open_in(world(&durable), at).unwrap());
            counted.lock().0 += 1;
        }
        counted.lock().1 += 1;
    })));
    drop(small().open_in(world(&disk), at).unwrap());
    disk.set_observer(None);
    let (images, calls) = *seen.lock();
    assert!(calls > 15 && images == calls * 8, "{images} images of {calls} calls");
}

#[test]
fn missing_folders_are_created_on_a_real_disk() {
    let (guard, _) = scratch();
    let path = guard.path().join("one/two/db");
    drop(plain(&small().open(&path).unwrap()).put("k", "v"));
    assert_eq!(pairs(plain(&small().open(&path).unwrap()).iter()), ["k=v"]);
    let file = guard.path().join("one/two/db/LOCK/db");
    assert!(small().open(&file).is_err(), "a file is no folder");
    let absent = guard.path().join("no/such/db");
    assert!(small().create_if_missing(false).open(&absent).is_err());
    assert!(!guard.path().join("no").exists(), "nothing is made where nothing may be");
}

/// A log of several batches, of which one is inserted while the next is read: both lanes, versions
/// of a key in several batches, and a memtable that is full in between.
#[test]
fn a_long_log_is_inserted_while_it_is_read() {
    use std::collections::BTreeMap;
    for memory_budget in [8_u64 << 20, 256 << 20] {
        let disk = MemoryDisk::new();
        let options = || Options::new().reserve_bytes(0).memory_budget(memory_budget);
        let db = options().open_in(world(&disk), Path::new("/db")).unwrap();
        let keyspace = plain(&db);
        let mut model = BTreeMap::new();
        for number in 0..14_000_u64 {
            let key = (number * 7919 % 9_000).to_be_bytes();
            // One in three is kept apart.
            let value = vec![number as u8; if number % 3 == 0 { 1_500 } else { 700 }];
            keyspace.put(key, &value).unwrap();
            model.insert(key.to_vec(), value);
        }
        for number in (0..9_000_u64).step_by(10) {
            keyspace.delete(number.to_be_bytes()).unwrap();
            model.remove(number.to_be_bytes().as_slice());
        }
        let crashed = disk.crash_image(CrashMode::All, 0);
        let db = options().open_in(world(&crashed), Path::new("/db")).unwrap();
        let found: BTreeMap<Vec<u8>, Vec<u8>> = plain(&db)
            .iter()
            .map(|pair| pair.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert!(found == model, "{} and {} pairs", found.len(), model.len());
    }
}
