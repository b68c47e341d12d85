//! What readers see while memtables are frozen, flushed, and tables merged and removed.

use super::*;
use crate::engine::commit::{Task, Work};
use crate::io::fault_disk::{CallKind, FaultDisk};

#[test]
fn shuttle_freezing_hides_nothing() {
    check("memtable_switch", || {
        let world = World::new(Steps::Stepped);
        let acknowledged = Acknowledged::default();
        let mut threads: Vec<_> = [[0u8, 1], [2, 3]]
            .into_iter()
            .map(|keys| {
                let acknowledged = acknowledged.clone();
                world.spawn(move |world| {
                    for key in keys {
                        world.put(key, Durability::Buffered).unwrap();
                        acknowledged.add(key);
                    }
                })
            })
            .collect();
        threads.push(world.spawn(|world| {
            for _ in 0..2 {
                world.engine().commit(Work::control(Task::Freeze)).unwrap();
            }
        }));
        let seen = acknowledged.clone();
        threads.push(world.spawn(move |world| {
            for key in 0..4 {
                seen.check(&world, key);
            }
            world.check_prefix(&[0, 1, 2, 3]);
            world.check_prefix_by_scan();
        }));
        join(threads);
        world.db.flush().unwrap();
        assert!(world.engine().view.load().frozen.is_empty());
        world.check_prefix(&[0, 1, 2, 3]);
        assert_eq!(world.db.snapshot().seq(), world.base + 4);
        world.close();
    });
}

#[test]
fn shuttle_a_flush_hides_nothing() {
    check("flush_hand_over", || {
        let world = World::new(Steps::Pool(1));
        world.put(0, Durability::Buffered).unwrap();
        let threads = [
            world.spawn(|world| world.db.flush().unwrap()),
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                // A freeze that meets the end of the flush.
                world.engine().commit(Work::control(Task::Freeze)).unwrap();
                assert!(world.has(1), "one's own write is not there");
            }),
            world.spawn(|world| {
                for _ in 0..3 {
                    assert!(world.has(0), "neither in memtable nor in table");
                }
                world.check_prefix(&[0, 1]);
                world.check_prefix_by_scan();
            }),
        ];
        join(threads);
        world.check_prefix(&[0, 1]);
        world.db.flush().unwrap();
        world.check_prefix(&[0, 1]);
        world.close();
    });
}

/// Whether every table that a view names is on disk.
fn all_there(world: &World, view: &crate::engine::view::View) -> bool {
    let engine = world.engine();
    view.indexes.values().flat_map(|index| index.files()).all(|file| {
        let name = crate::base::names::file_name(file.kind, file.id);
        engine.io.disk.exists(&engine.dir.join(name)).unwrap()
    })
}

#[test]
fn shuttle_files_go_when_nobody_reads_them() {
    check("version_pinning", || {
        let faults = FaultDisk::over(&MemoryDisk::new());
        let world = World::on(Arc::new(faults.clone()), Steps::Stepped);
        for key in [0, 1] {
            world.put(key, Durability::Buffered).unwrap();
            world.db.flush().unwrap();
        }
        world.engine().remove_obsolete();
        let removals = faults.calls_of(CallKind::Remove);
        let before = world.engine().view.load().indexes.values().flat_map(|i| i.files()).count();
        assert_eq!(before, 2);
        let threads = [
            world.spawn(|world| world.ks.compact().unwrap()),
            world.spawn(|world| world.engine().remove_obsolete()),
            world.spawn(|world| {
                let view = world.engine().view.load_full();
                let mut pairs = world.ks.iter();
                let first = pairs.next().unwrap().unwrap();
                assert_eq!(first.0, [0]);
                assert!(all_there(&world, &view), "a table went while a view names it");
                assert_eq!(pairs.count(), 1, "a table went while an iterator reads it");
                assert!(all_there(&world, &view), "a table went while a view names it");
            }),
        ];
        join(threads);
        // Nobody reads the old ones any more: both go, once each.
        world.engine().remove_obsolete();
        assert_eq!(faults.calls_of(CallKind::Remove), removals + before as u64);
        let view = world.engine().view.load_full();
        assert!(all_there(&world, &view), "a table in force is gone");
        assert!(world.has(0) && world.has(1));
        drop(view);
        world.close();
    });
}

#[test]
fn shuttle_a_snapshot_keeps_its_versions() {
    check("snapshot_against_flush", || {
        let world = World::new(Steps::Stepped);
        world.ks.put(b"k", [0]).unwrap();
        let threads = [
            world.spawn(|world| {
                for version in [1, 2] {
                    world.ks.put(b"k", [version]).unwrap();
                }
            }),
            world.spawn(|world| {
                world.db.flush().unwrap();
                world.ks.compact().unwrap();
            }),
            world.spawn(|world| {
                for _ in 0..2 {
                    assert!(world.ks.get(b"k").unwrap().is_some(), "a version that a read sees");
                    let snapshot = world.db.snapshot();
                    // Version n is the n-th commit after the first.
                    let wanted = [(snapshot.seq() - world.base - 1) as u8];
                    for _ in 0..2 {
                        let value = snapshot.get(&world.ks, b"k").unwrap();
                        assert_eq!(value.unwrap(), wanted, "a version that a snapshot sees");
                    }
                }
            }),
        ];
        join(threads);
        assert_eq!(world.ks.get(b"k").unwrap().unwrap(), [2]);
        world.close();
    });
}

#[test]
fn shuttle_one_keyspace_of_a_name() {
    check("keyspace_creation", || {
        let world = World::new(Steps::Stepped);
        let create = |key: u8| {
            world.spawn(move |world| {
                let created = world.db.keyspace("new", KeyspaceOptions::new()).unwrap();
                created.put([key], b"v").unwrap();
                assert_eq!(created.get([key]).unwrap().unwrap(), b"v");
            })
        };
        join([create(1), create(2), world.spawn(|world| world.db.flush().unwrap())]);
        assert_eq!(world.db.keyspaces().len(), 2);
        // Both wrote to the one that the name stands for.
        let created = world.db.existing_keyspace("new").unwrap().unwrap();
        assert_eq!(created.iter().count(), 2);
        drop(created);
        world.close();
    });
}
