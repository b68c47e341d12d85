//! Closing while others write, read and close.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::memory_disk::CrashMode;

/// Commits one key; whether it was acknowledged.
fn try_put(world: &World, key: u8, durability: Durability) -> bool {
    match world.put(key, durability) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Closed);
            false
        }
    }
}

#[test]
fn shuttle_close_keeps_what_was_acknowledged() {
    check("close", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Pool(1));
        let acknowledged = Acknowledged::default();
        let writer = |keys: [u8; 2], durability| {
            let acknowledged = acknowledged.clone();
            world.spawn(move |world| {
                for key in keys {
                    if !try_put(&world, key, durability) {
                        // Refused once, refused for ever.
                        assert!(!try_put(&world, key, durability), "accepted after a refusal");
                        return;
                    }
                    acknowledged.add(key);
                }
            })
        };
        let threads = [
            writer([0, 1], Durability::Buffered),
            writer([2, 3], Durability::Sync),
            world.spawn(|world| match world.ks.get([0]) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
            }),
        ];
        let base = world.base;
        world.close();
        // Closed: what is acknowledged survives a loss of power, and no more comes.
        let image = disk.crash_image(CrashMode::None, 0);
        let told = [0, 1, 2, 3].map(|key| acknowledged.has(key));
        join(threads);
        let again = World::on(Arc::new(image), Steps::Stepped);
        for key in 0..4u8 {
            assert!(again.has(key) || !told[usize::from(key)], "acknowledged, then lost");
            assert!(again.has(key) || !acknowledged.has(key), "acknowledged after closing");
        }
        again.check_recovered(base, &[0, 1, 2, 3]);
        again.close();
    });
}

#[test]
fn shuttle_close_ends_background_work() {
    check("close_with_background_work", || {
        let disk = MemoryDisk::new();
        // With a timer: it never ticks here, but must be stopped.
        let settings = Settings { sync_interval: Duration::from_secs(1), ..settings() };
        let shared = Arc::new(disk.clone());
        let world = World::with(shared, Steps::Pool(1), "/db", settings, widths());
        world.put(0, Durability::Buffered).unwrap();
        let threads = [
            world.spawn(|world| {
                if let Err(error) = world.db.flush() {
                    assert_eq!(error.kind(), ErrorKind::Closed);
                }
            }),
            // The second one to close returns at once.
            world.spawn(|world| world.db.clone().close().unwrap()),
        ];
        world.close();
        join(threads);
        let again = World::on(Arc::new(disk), Steps::Stepped);
        assert!(again.has(0));
        again.close();
    });
}

#[test]
fn shuttle_the_last_handle_closes() {
    check("close_by_drop", || {
        let disk = MemoryDisk::new();
        let world = World::on(Arc::new(disk.clone()), Steps::Pool(1));
        let base = world.base;
        let threads = [
            world.spawn(|world| world.put(0, Durability::Buffered).unwrap()),
            world.spawn(|world| {
                world.put(1, Durability::Buffered).unwrap();
                let mut pairs = world.ks.iter();
                drop(world);
                assert!(pairs.next().unwrap().is_ok(), "an iterator keeps the database open");
            }),
            world.spawn(|world| world.db.flush().unwrap()),
        ];
        drop(world);
        join(threads);
        // The lock is free again, and all that was acknowledged is durable.
        let image = disk.crash_image(CrashMode::None, 0);
        for disk in [disk, image] {
            let again = World::on(Arc::new(disk), Steps::Stepped);
            again.check_recovered(base, &[0, 1]);
            assert_eq!(again.base, base + 2);
            again.close();
        }
    });
}
