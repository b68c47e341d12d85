//! Both lanes of the log at once: order, durability, value files that come and go.

use super::*;
use crate::engine::commit::{Task, Work};
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;

/// A world whose value segments hold one group each, with a keyspace that separates its values.
fn lanes(disk: &MemoryDisk, steps: Steps) -> (World, Keyspace) {
    #[cfg(feature = "planted")]
    crate::base::planted::plant(std::env::var("CLEAVEDB_TEST_PLANT").ok().as_deref());
    let widths = Widths { value_segment_bytes: 1, value_tail_bytes: 0, ..widths() };
    let world = World::with(Arc::new(disk.clone()), steps, "/db", settings(), widths);
    let options = KeyspaceOptions::new().separate_at(Some(8));
    let apart = world.db.keyspace("apart", options).unwrap();
    (world, apart)
}

fn put(world: &World, keyspace: &Keyspace, key: u8, durability: Durability) {
    let mut batch = world.db.batch();
    batch.put(keyspace, [key], [key; 24]);
    batch.commit(durability).unwrap();
}

/// A snapshot sees every commit up to its own, and none beyond: each put one of `keys`.
fn check_prefix(world: &World, keyspaces: [&Keyspace; 2], keys: &[u8]) {
    let snapshot = world.db.snapshot();
    let has = |keyspace: &Keyspace, key: u8| {
        let value = snapshot.get(keyspace, [key]).unwrap();
        assert!(value.as_ref().is_none_or(|value| *value == [key; 24]), "a foreign value");
        value.is_some()
    };
    let places = keyspaces.into_iter().flat_map(|ks| keys.iter().map(move |key| (ks, *key)));
    let seen = places.filter(|(keyspace, key)| has(keyspace, *key)).count() as u64;
    assert_eq!(world.base + seen, snapshot.seq(), "a commit is missing or too early");
}

#[test]
fn shuttle_both_lanes_become_visible_in_order() {
    check("lanes_order", || {
        let (world, apart) = lanes(&MemoryDisk::new(), Steps::Stepped);
        let mut threads = Vec::new();
        for keys in [[0u8, 1], [2, 3]] {
            let apart = apart.clone();
            threads.push(world.spawn(move |world| {
                put(&world, &apart, keys[0], Durability::Buffered);
                assert!(apart.get([keys[0]]).unwrap().is_some(), "one's own write is not there");
                put(&world, &world.ks, keys[1], Durability::Buffered);
                assert!(world.has(keys[1]), "one's own write is not there");
            }));
        }
        let keyspace = apart.clone();
        threads.push(world.spawn(move |world| {
            // Segments are begun while a view is taken.
            for _ in 0..2 {
                check_prefix(&world, [&world.ks, &keyspace], &[0, 1, 2, 3]);
            }
        }));
        join(threads);
        check_prefix(&world, [&world.ks, &apart], &[0, 1, 2, 3]);
        drop(apart);
        world.close();
    });
}

/// Groups of one segment, each encoded while the one before it is written; the second write fails,
/// so that what comes after it stands elsewhere and has other seqs than was planned.
#[test]
fn shuttle_what_was_encoded_ahead_stands_where_it_says() {
    check("lanes_encoded_ahead", || {
        let disk = MemoryDisk::new();
        let faults = FaultDisk::over(&disk);
        let world = World::on(Arc::new(faults.clone()), Steps::Stepped);
        let options = KeyspaceOptions::new().separate_at(Some(8));
        let apart = world.db.keyspace("apart", options.clone()).unwrap();
        put(&world, &apart, 7, Durability::Buffered);
        let kind = Some(CallKind::Write);
        faults.set_plan(Some(FaultPlan { kind, at: 2, fault: Fault::Eio, persistent: false }));
        let acknowledged = Acknowledged::default();
        let threads = [[0u8, 1], [2, 3], [4, 5]].map(|keys| {
            let (acknowledged, apart) = (acknowledged.clone(), apart.clone());
            world.spawn(move |_| {
                for key in keys {
                    match apart.put([key], [key; 24]) {
                        Ok(()) => acknowledged.add(key),
                        Err(error) => assert_eq!(error.kind(), crate::ErrorKind::Io),
                    }
                }
            })
        });
        join(threads);
        assert_eq!(faults.triggered(), 1);
        acknowledged.add(7);
        world.db.sync().unwrap();
        let image = disk.crash_image(CrashMode::None, 0);
        let again = World::on(Arc::new(image), Steps::Stepped);
        let recovered = again.db.keyspace("apart", options).unwrap();
        for (keyspace, key) in
            [&apart, &recovered].into_iter().flat_map(|k| (0..8).map(move |n| (k, n)))
        {
            let found = keyspace.get([key]).unwrap();
            assert_eq!(found.is_some(), acknowledged.has(key), "{key}");
            assert!(found.is_none_or(|value| value == [key; 24]), "a foreign value");
        }
        drop((apart, recovered));
        world.close();
        again.close();
    });
}

#[test]
fn shuttle_what_is_durable_in_one_lane_has_all_before_it_in_the_other() {
    check("lanes_durability", || {
        let disk = MemoryDisk::new();
        let (world, apart) = lanes(&disk, Steps::Stepped);
        let base = world.base;
        let image = Arc::new(crate::base::sync::Mutex::new(None));
        let (taken, keyspace) = (Arc::clone(&image), apart.clone());
        let threads = [
            world.spawn(move |world| {
                put(&world, &keyspace, 0, Durability::Sync);
                *taken.lock() = Some(disk.crash_image(CrashMode::None, 0));
            }),
            world.spawn(|world| {
                put(&world, &world.ks, 1, Durability::Buffered);
                world.engine().sync_logs().unwrap();
            }),
            world.spawn({
                let apart = apart.clone();
                move |world| {
                    put(&world, &apart, 2, Durability::Buffered);
                    world.engine().commit(Work::control(Task::Roll)).unwrap();
                }
            }),
        ];
        join(threads);
        drop(apart);
        world.close();
        let image = image.lock().take().unwrap();
        let (again, apart) = lanes(&image, Steps::Stepped);
        assert!(apart.get([0]).unwrap().is_some(), "acknowledged, then lost");
        check_prefix(&World { base, ..again.clone() }, [&again.ks, &apart], &[0, 1, 2]);
        drop(apart);
        again.close();
    });
}

#[test]
fn shuttle_value_files_go_away_under_readers() {
    check("lanes_dead_files", || {
        let (world, apart) = lanes(&MemoryDisk::new(), Steps::Stepped);
        put(&world, &apart, 7, Durability::Buffered);
        world.db.flush().unwrap();
        let reader = apart.clone();
        let writer = apart.clone();
        let threads = [
            world.spawn(move |_| {
                for _ in 0..2 {
                    let value = reader.get([7]).unwrap().unwrap();
                    assert!(value == [7; 24] || value == [8; 24], "a foreign value");
                }
            }),
            world.spawn(move |world| {
                writer.put([7], [8; 24]).unwrap();
                world.db.flush().unwrap();
                writer.compact().unwrap();
                world.engine().remove_dead_value_files().unwrap();
                world.engine().remove_obsolete();
            }),
            world.spawn(|world| {
                world.engine().remove_dead_value_files().unwrap();
                world.engine().remove_obsolete();
            }),
        ];
        join(threads);
        assert_eq!(apart.get([7]).unwrap().unwrap(), [8; 24]);
        assert_eq!(world.db.stats().values.entries, 1);
        drop(apart);
        world.close();
    });
}

#[test]
fn shuttle_a_dropped_keyspace_is_counted_off_once() {
    check("lanes_drop", || {
        let (world, apart) = lanes(&MemoryDisk::new(), Steps::Pool(1));
        put(&world, &apart, 0, Durability::Buffered);
        world.db.flush().unwrap();
        put(&world, &apart, 1, Durability::Buffered);
        let threads = [
            world.spawn(|world| world.db.flush().unwrap()),
            world.spawn(|world| world.db.drop_keyspace("apart").unwrap()),
        ];
        join(threads);
        assert_eq!(world.db.stats().values.entries, 0);
        assert!(world.db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
        drop(apart);
        world.close();
    });
}
