//! Writers and readers beside what goes on in the background: rolls of the journal, stalls,
//! compactions, failures, checkpoints, dropped keyspaces.

use super::*;
use crate::base::error::ErrorKind;
use crate::base::names::{FileKind, parse_file_name};
use crate::base::sync::Mutex;
use crate::engine::commit::{Task, Work};
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;

#[test]
fn shuttle_rolling_the_journal_loses_nothing() {
    check("journal_roll", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Stepped);
        let base = world.base;
        // The disk as a loss of power leaves it at the moment of the acknowledgement.
        let image = Arc::new(Mutex::new(None));
        let taken = Arc::clone(&image);
        let threads = [
            world.spawn(move |world| {
                world.put(0, Durability::Sync).unwrap();
                *taken.lock() = Some(disk.crash_image(CrashMode::None, 0));
                world.put(1, Durability::Buffered).unwrap();
            }),
            world.spawn(|world| {
                world.engine().commit(Work::control(Task::Roll)).unwrap();
                world.put(2, Durability::Buffered).unwrap();
                world.engine().commit(Work::control(Task::Roll)).unwrap();
            }),
            world.spawn(|world| {
                world.engine().sync_logs().unwrap();
                world.db.flush().unwrap();
                world.engine().remove_obsolete();
            }),
        ];
        join(threads);
        world.check_prefix(&[0, 1, 2]);
        world.close();
        let image = image.lock().take().unwrap();
        let again = World::on(Arc::new(image), Steps::Stepped);
        assert!(again.has(0), "acknowledged, then lost");
        again.check_recovered(base, &[0, 1, 2]);
        again.close();
    });
}

#[test]
fn shuttle_stalled_writers_go_on() {
    check("writer_stall", || {
        // One entry fills a memtable, and one memtable may wait.
        let widths = Widths { memtable_bytes: 1, frozen_memtables_max: 1, ..widths() };
        let disk = Arc::new(MemoryDisk::new());
        let world = World::with(disk, Steps::Pool(1), "/db", settings(), widths);
        let threads = [[0u8, 1, 2], [3, 4, 5]].map(|keys| {
            world.spawn(move |world| {
                for key in keys {
                    world.put(key, Durability::Buffered).unwrap();
                }
            })
        });
        join(threads);
        world.check_prefix(&[0, 1, 2, 3, 4, 5]);
        world.close();
    });
}

#[test]
fn shuttle_compactions_beside_flushes() {
    check("compactions_in_pool", || {
        let widths = Widths { level0_runs_trigger: 2, ..widths() };
        let disk = Arc::new(MemoryDisk::new());
        let world = World::with(disk, Steps::Pool(2), "/db", settings(), widths);
        world.put(0, Durability::Buffered).unwrap();
        world.db.flush().unwrap();
        let threads = [
            world.spawn(|world| world.ks.compact().unwrap()),
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                world.db.flush().unwrap();
            }),
            world.spawn(|world| {
                world.check_prefix_by_scan();
                world.check_prefix(&[0, 1]);
            }),
        ];
        join(threads);
        world.db.wait_idle().unwrap();
        world.check_prefix(&[0, 1]);
        let report = world.db.verify(&mut |_, _| {}).unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
        world.close();
    });
}

/// A database whose disk refuses new files from here on.
fn failing_flush(fault: Fault) -> (FaultDisk, World) {
    let faults = FaultDisk::over(&MemoryDisk::new());
    let world = World::on(Arc::new(faults.clone()), Steps::Pool(1));
    world.put(0, Durability::Buffered).unwrap();
    let plan = FaultPlan { kind: Some(CallKind::Create), at: 1, fault, persistent: true };
    faults.set_plan(Some(plan));
    (faults, world)
}

#[test]
fn shuttle_a_failed_flush_reaches_all_who_wait() {
    check("flush_failure", || {
        let (_, world) = failing_flush(Fault::Eio);
        let flush = |world: World| {
            let error = world.db.flush().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Stopped);
        };
        let threads = [
            world.spawn(flush),
            world.spawn(flush),
            world.spawn(|world| {
                if let Err(error) = world.put(1, Durability::Buffered) {
                    assert_eq!(error.kind(), ErrorKind::Stopped);
                }
                assert!(world.has(0), "reads go on");
            }),
        ];
        join(threads);
        assert_eq!(world.put(2, Durability::Buffered).unwrap_err().kind(), ErrorKind::Stopped);
        assert!(world.has(0));
        assert!(world.db.clone().close().is_err());
    });
}

#[test]
fn shuttle_a_full_disk_is_told_and_forgotten() {
    check("flush_on_full_disk", || {
        let (faults, world) = failing_flush(Fault::Enospc);
        let threads = [
            world.spawn(|world| {
                if let Err(error) = world.db.flush() {
                    assert_eq!(error.kind(), ErrorKind::NoSpace);
                }
            }),
            world.spawn(move |_| faults.set_plan(None)),
            world.spawn(|world| {
                if let Err(error) = world.put(1, Durability::Buffered) {
                    assert_eq!(error.kind(), ErrorKind::NoSpace);
                }
            }),
        ];
        join(threads);
        // There is room now.
        world.db.flush().unwrap();
        world.put(2, Durability::Sync).unwrap();
        world.check_prefix(&[0, 1, 2]);
        world.close();
    });
}

#[test]
fn shuttle_a_checkpoint_is_one_moment() {
    check("checkpoint", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Stepped);
        world.put(0, Durability::Buffered).unwrap();
        let base = world.base;
        let threads = [
            world.spawn(|world| world.db.checkpoint("/copy").unwrap()),
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                world.put(2, Durability::Buffered).unwrap();
            }),
            world.spawn(|world| {
                world.db.flush().unwrap();
                world.ks.compact().unwrap();
                world.engine().remove_obsolete();
            }),
        ];
        join(threads);
        world.close();
        // Both are databases of their own, the copy also after a loss of power.
        let image = disk.crash_image(CrashMode::None, 0);
        let copy = World::with(Arc::new(image), Steps::Stepped, "/copy", settings(), widths());
        assert!(copy.has(0), "what was there before is not in the copy");
        copy.check_recovered(base, &[0, 1, 2]);
        copy.close();
        let again = World::on(Arc::new(disk), Steps::Stepped);
        assert_eq!(again.base, base + 3);
        again.close();
    });
}

#[test]
fn shuttle_a_dropped_keyspace_leaves_nothing() {
    check("keyspace_drop", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Stepped);
        let gone = world.db.keyspace("gone", KeyspaceOptions::new()).unwrap();
        gone.put([0], [0]).unwrap();
        let writer = gone.clone();
        let threads = [
            world.spawn(move |world| {
                for key in 1..3u8 {
                    if let Err(error) = writer.put([key], [key]) {
                        assert_eq!(error.kind(), ErrorKind::Closed);
                    }
                }
                world.put(3, Durability::Buffered).unwrap();
            }),
            world.spawn(|world| world.db.drop_keyspace("gone").unwrap()),
            world.spawn(|world| world.db.flush().unwrap()),
        ];
        join(threads);
        assert_eq!(gone.get([0]).unwrap_err().kind(), ErrorKind::Closed);
        drop(gone);
        world.db.flush().unwrap();
        world.engine().remove_obsolete();
        let tables = |disk: &MemoryDisk| {
            let names = disk.files().into_iter().filter_map(|(path, _)| {
                parse_file_name(path.file_name().and_then(|name| name.to_str())?)
            });
            names.filter(|(kind, _)| *kind == FileKind::Table).count()
        };
        let view = world.engine().view.load_full();
        let named: usize = view.indexes.values().map(|index| index.files().len()).sum();
        assert_eq!(tables(&disk), named, "a table of a dropped keyspace stays");
        drop(view);
        assert!(world.has(3));
        world.close();
        let again = World::on(Arc::new(disk), Steps::Stepped);
        assert!(again.db.existing_keyspace("gone").unwrap().is_none() && again.has(3));
        again.close();
    });
}
