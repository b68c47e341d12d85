//! The commit queue: groups, leaders, syncs, failures, conditions.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;

#[test]
fn shuttle_commits_become_visible_in_order() {
    check("commit_order", || {
        let world = World::new(Steps::Stepped);
        let mut threads: Vec<_> = [[0u8, 1], [2, 3], [4, 5]]
            .into_iter()
            .map(|keys| {
                world.spawn(move |world| {
                    for key in keys {
                        world.put(key, Durability::Buffered).unwrap();
                        assert!(world.has(key), "one's own write is not there");
                    }
                })
            })
            .collect();
        threads.push(world.spawn(|world| {
            world.check_prefix(&[0, 1, 2, 3, 4, 5]);
            world.check_prefix(&[0, 1, 2, 3, 4, 5]);
        }));
        join(threads);
        world.check_prefix(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(world.db.snapshot().seq(), world.base + 6);
        world.close();
    });
}

/// A database on a disk that fails once armed.
fn failing(kind: CallKind) -> (FaultDisk, World) {
    let faults = FaultDisk::over(&MemoryDisk::new());
    let world = World::on(Arc::new(faults.clone()), Steps::Stepped);
    let plan = FaultPlan { kind: Some(kind), at: 1, fault: Fault::Eio, persistent: false };
    faults.set_plan(Some(plan));
    (faults, world)
}

#[test]
fn shuttle_a_failed_append_fails_its_group_alone() {
    check("commit_failed_append", || {
        let (faults, world) = failing(CallKind::Write);
        let acknowledged = Acknowledged::default();
        let threads = [[0u8, 1], [2, 3], [4, 5]].map(|keys| {
            let acknowledged = acknowledged.clone();
            world.spawn(move |world| {
                for key in keys {
                    match world.put(key, Durability::Buffered) {
                        Ok(()) => acknowledged.add(key),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Io),
                    }
                }
            })
        });
        join(threads);
        assert_eq!(faults.triggered(), 1);
        let there = (0..6).filter(|key| world.has(*key)).count();
        assert!(there < 6, "what was not written is there");
        assert!((0..6).all(|key| world.has(key) == acknowledged.has(key)));
        // What failed took no seq, and writes go on.
        world.check_prefix(&[0, 1, 2, 3, 4, 5]);
        world.put(6, Durability::Sync).unwrap();
        world.close();
    });
}

#[test]
fn shuttle_a_failed_sync_stops_all_writes() {
    check("commit_failed_sync", || {
        let (_, world) = failing(CallKind::Sync);
        let acknowledged = Acknowledged::default();
        let durabilities = [Durability::Sync, Durability::Buffered, Durability::Sync];
        let threads = [0u8, 1, 2].map(|key| {
            let durability = durabilities[usize::from(key)];
            let acknowledged = acknowledged.clone();
            world.spawn(move |world| {
                match world.put(key, durability) {
                    Ok(()) => acknowledged.add(key),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Stopped));
                        // Whoever was told so finds all writes stopped.
                        let next = world.put(key + 4, Durability::Buffered);
                        assert_eq!(next.unwrap_err().kind(), ErrorKind::Stopped);
                    }
                }
            })
        });
        join(threads);
        // One sync served both, or the first failed and the second never began.
        assert!(!acknowledged.has(0) && !acknowledged.has(2), "a failed sync was acknowledged");
        for key in 0..3 {
            acknowledged.check(&world, key);
        }
        assert_eq!(world.put(3, Durability::Buffered).unwrap_err().kind(), ErrorKind::Stopped);
        assert!(world.db.clone().close().is_err());
    });
}

/// Whether the disk would still have a key's value after a loss of power.
fn is_durable(disk: &MemoryDisk, key: u8) -> bool {
    let image = disk.crash_image(CrashMode::None, 0);
    image.files().into_iter().any(|(path, _)| {
        path.extension().is_some_and(|extension| extension == "log")
            && image.contents(path).windows(24).any(|bytes| *bytes == [key; 24])
    })
}

#[test]
fn shuttle_a_sync_is_acknowledged_when_it_is_durable() {
    check("commit_sync", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Stepped);
        let synced = |key| {
            let disk = disk.clone();
            world.spawn(move |world| {
                world.put(key, Durability::Sync).unwrap();
                assert!(is_durable(&disk, key), "acknowledged before it was durable");
            })
        };
        let mut threads = vec![synced(1), synced(2)];
        let buffered = disk.clone();
        threads.push(world.spawn(move |world| {
            world.put(3, Durability::Buffered).unwrap();
            world.db.sync().unwrap();
            assert!(is_durable(&buffered, 3), "a sync left out what came before it");
        }));
        join(threads);
        world.close();
    });
}

#[test]
fn shuttle_a_frozen_memtable_is_durable_before_it_is_flushed() {
    check("commit_sync_in_background", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Stepped);
        let threads = [
            world.spawn(|world| world.put(1, Durability::Buffered).unwrap()),
            world.spawn(|world| world.engine().sync_logs().unwrap()),
            world.spawn(|world| world.put(2, Durability::Sync).unwrap()),
        ];
        join(threads);
        // What the lane calls durable is.
        let synced = world.engine().logs.synced_seq() - world.base;
        let durable = [1, 2].into_iter().filter(|key| is_durable(&disk, *key)).count() as u64;
        assert!(durable >= synced && is_durable(&disk, 2), "{synced} of {durable} are durable");
        world.close();
    });
}

#[test]
fn shuttle_of_two_swaps_one_wins() {
    check("compare_and_swap", || {
        let world = World::new(Steps::Stepped);
        world.ks.put(b"n", [0]).unwrap();
        let wins = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let mut threads: Vec<_> = [0u8, 1]
            .into_iter()
            .map(|racer| {
                let wins = Arc::clone(&wins);
                world.spawn(move |world| {
                    let new = [racer + 1];
                    if world.ks.compare_and_swap(b"n", Some(&[0]), Some(&new)).unwrap() {
                        wins[usize::from(racer)].store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        // Neighbours, and the key moving from memtable to table, must not matter.
        threads.push(world.spawn(|world| {
            world.put(3, Durability::Buffered).unwrap();
            world.db.flush().unwrap();
        }));
        join(threads);
        let won = [0, 1].map(|racer| wins[racer].load(Ordering::SeqCst));
        assert!(won[0] != won[1], "both or none have won: {won:?}");
        let winner = if won[0] { [1] } else { [2] };
        assert_eq!(world.ks.get(b"n").unwrap().unwrap(), winner);
        world.close();
    });
}

#[test]
fn shuttle_an_empty_commit_takes_nothing_back() {
    check("commit_empty", || {
        let world = World::new(Steps::Stepped);
        let threads = [
            world.spawn(|world| world.db.sync().unwrap()),
            world.spawn(|world| {
                for key in [0, 1] {
                    world.put(key, Durability::Buffered).unwrap();
                    assert!(world.has(key), "one's own write is not there");
                }
            }),
            world.spawn(|world| {
                let mut newest = 0;
                for _ in 0..4 {
                    let seq = world.db.snapshot().seq();
                    assert!(seq >= newest, "what was visible is not any more");
                    newest = seq;
                }
            }),
        ];
        join(threads);
        world.put(2, Durability::Buffered).unwrap();
        world.check_prefix(&[0, 1, 2]);
        world.close();
    });
}
