//! Flex indexes: flushes that change the tree in force, rewrites and checkpoints of it, beside who
//! reads, and beside an LSM-tree that shares journal and memtable.

use super::*;
use crate::IndexKind;
use crate::io::memory_disk::CrashMode;

/// A database whose keyspace has a Flex index; that of the other kind is in it, too.
fn flex_on(disk: &MemoryDisk) -> (World, Keyspace) {
    let World { db, ks: lsm, .. } = World::on(Arc::new(disk.clone()), Steps::Pool(1));
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    let ks = db.keyspace("flex", options).unwrap();
    let base = db.snapshot().seq();
    (World { db, ks, base }, lsm)
}

fn assert_sound(world: &World) {
    let report = world.db.verify(&mut |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
}

/// All of `keys` are there, now and after the database is opened again.
fn assert_stay(disk: &MemoryDisk, world: World, keys: &[u8]) {
    world.check_prefix(keys);
    assert_sound(&world);
    world.close();
    let (again, _) = flex_on(disk);
    assert!(keys.iter().all(|key| again.has(*key)), "a key is lost");
    assert_sound(&again);
    again.close();
}

#[test]
fn shuttle_a_flush_into_flex_hides_nothing() {
    check("flex_flush_hand_over", || {
        let disk = MemoryDisk::new();
        let (world, _) = flex_on(&disk);
        world.put(0, Durability::Buffered).unwrap();
        world.db.flush().unwrap();
        let threads = [
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                world.db.flush().unwrap();
                world.put(2, Durability::Buffered).unwrap();
            }),
            world.spawn(|world| {
                world.check_prefix_by_scan();
                world.check_prefix(&[0, 1, 2]);
            }),
            world.spawn(|world| world.db.flush().unwrap()),
        ];
        join(threads);
        assert_stay(&disk, world, &[0, 1, 2]);
    });
}

#[test]
fn shuttle_flex_is_rewritten_under_readers() {
    check("flex_rewrite", || {
        let disk = MemoryDisk::new();
        let (world, _) = flex_on(&disk);
        for key in [0, 1] {
            world.put(key, Durability::Buffered).unwrap();
            world.db.flush().unwrap();
        }
        let threads = [
            world.spawn(|world| {
                world.ks.compact().unwrap();
                world.engine().remove_obsolete();
            }),
            world.spawn(|world| {
                world.put(2, Durability::Buffered).unwrap();
                world.db.flush().unwrap();
            }),
            world.spawn(|world| {
                let mut pairs = world.ks.iter();
                assert_eq!(pairs.next().unwrap().unwrap().0, [0]);
                assert!(world.has(0) && world.has(1));
                let rest = pairs.map(Result::unwrap).count();
                assert!((1..=2).contains(&rest), "{rest} pairs more");
            }),
        ];
        join(threads);
        assert_stay(&disk, world, &[0, 1, 2]);
    });
}

#[test]
fn shuttle_a_flex_checkpoint_loses_no_flush() {
    check("flex_checkpoint", || {
        let disk = MemoryDisk::new();
        let (world, _) = flex_on(&disk);
        world.put(0, Durability::Buffered).unwrap();
        world.db.flush().unwrap();
        let threads = [
            world.spawn(|world| world.ks.compact().unwrap()),
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                world.db.flush().unwrap();
            }),
        ];
        join(threads);
        // The power fails: what was flushed is there.
        let image = disk.crash_image(CrashMode::None, 0);
        let (again, _) = flex_on(&image);
        assert!(again.has(0) && again.has(1), "flushed, then lost");
        assert_sound(&again);
        again.close();
        assert_stay(&disk, world, &[0, 1]);
    });
}

#[test]
fn shuttle_a_batch_over_both_kinds_is_one() {
    check("flex_beside_lsm", || {
        let disk = MemoryDisk::new();
        let (world, lsm) = flex_on(&disk);
        let reader = lsm.clone();
        let threads = [
            world.spawn(move |world| {
                for version in [1, 2] {
                    let mut batch = world.db.batch();
                    batch.put(&lsm, b"k", [version]);
                    batch.put(&world.ks, b"k", [version]);
                    batch.commit(Durability::Buffered).unwrap();
                }
            }),
            world.spawn(|world| world.db.flush().unwrap()),
            world.spawn(move |world| {
                for _ in 0..2 {
                    let snapshot = world.db.snapshot();
                    let of = |ks| snapshot.get(ks, b"k").unwrap().map(|value| value.to_vec());
                    assert_eq!(of(&reader), of(&world.ks), "half of a batch");
                }
            }),
        ];
        join(threads);
        assert_eq!(world.ks.get(b"k").unwrap().unwrap(), [2]);
        assert_sound(&world);
        world.close();
    });
}
