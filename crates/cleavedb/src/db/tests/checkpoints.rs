//! Checkpoints where the disk does not do as it should.

use std::path::Path;

use super::collection::{apart, assert_shows, assert_sound, put_twice, widths};
use super::novkv::try_open;
use super::*;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::disk::Disk;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::{Durability, ErrorKind};

const COPY: &str = "/copy";

fn plan(kind: CallKind, at: u64, fault: Fault, persistent: bool) -> Option<FaultPlan> {
    Some(FaultPlan { kind: Some(kind), at, fault, persistent })
}

#[test]
fn a_file_system_without_links_gets_copies() {
    let disk = MemoryDisk::new();
    let faults = FaultDisk::over(&disk);
    let db = try_open(Io::simulated(Arc::new(faults.clone())), small(), widths()).unwrap();
    let keyspace = apart(&db);
    let model = put_twice(&db, &keyspace);
    faults.set_plan(plan(CallKind::Link, 1, Fault::Unsupported, true));
    db.checkpoint(COPY).unwrap();
    assert!(faults.triggered() > 0, "nothing was to be linked");
    faults.set_plan(None);
    keyspace.delete_range::<&str>(..).unwrap();
    db.close().unwrap();
    let settings = small().into_settings();
    let engine = Engine::open(world(&disk), Path::new(COPY), settings, widths()).unwrap();
    let copy = Db::new(Handle::new(engine, Durability::Buffered));
    assert_shows(&apart(&copy), &model);
    assert_sound(&copy);
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing() {
    for (kind, fault) in [
        (CallKind::Link, Fault::Eio),
        (CallKind::Create, Fault::Enospc),
        (CallKind::SyncDir, Fault::Eio),
        (CallKind::Lock, Fault::Eio),
    ] {
        let mut failures = 0;
        for at in 1..12 {
            let disk = MemoryDisk::new();
            let faults = FaultDisk::over(&disk);
            let io = Io::simulated(Arc::new(faults.clone()));
            let db = try_open(io, small(), widths()).unwrap();
            let keyspace = apart(&db);
            let model = put_twice(&db, &keyspace);
            db.wait_idle().unwrap();
            faults.set_plan(plan(kind, at, fault, false));
            let outcome = db.checkpoint(COPY);
            faults.set_plan(None);
            if let Err(error) = outcome {
                failures += 1;
                let at_fault = [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Stopped];
                assert!(at_fault.contains(&error.kind()), "{error}");
                assert!(!disk.exists(Path::new(COPY)).unwrap(), "{kind:?} {at}: {error}");
                // A failed sync of the log's own directory stops the database; nothing else does.
                if keyspace.put("after", "1").is_ok() {
                    keyspace.delete("after").unwrap();
                    db.checkpoint(COPY).unwrap();
                }
            }
            assert_shows(&keyspace, &model);
        }
        assert!(failures > 0, "no call of kind {kind:?} failed");
    }
}
