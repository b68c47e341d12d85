//! Damaged sources and failing calls: a typed error that names the file, or the right table.

use super::*;
use crate::io::fault_disk::{Fault, FaultPlan};
use crate::io::memory_disk::MemoryDisk;

/// Two small sources: a segment and a table.
fn small() -> (World, MemoryDisk) {
    let (mut world, disk) = World::new();
    let some = |number: u64| {
        let mut put = put(format!("key {}", number % 5).as_bytes(), &[number as u8; 60]);
        put.is_inline = number % 4 == 3;
        vec![put]
    };
    world.segment(15, 1, &(0..8).map(some).collect::<Vec<_>>());
    let of_table =
        |n: u64| item(1, format!("key {n}").as_bytes(), 90 + n, 41 + n % 2, &[n as u8; 70]);
    world.table(17, (0..7).map(of_table).collect());
    (world, disk)
}

/// Rewrites with the byte of a source changed; whether that was seen.
fn flipped(world: &World, disk: &MemoryDisk, source: usize, at: usize, memory: u64) -> bool {
    let path = &world.paths()[source];
    let good = disk.contents(path);
    let mut bad = good.clone();
    bad[at] ^= 0x20;
    disk.replace(path, bad).unwrap();
    let digest = disk.digest();
    let world = world.over(&crate::log::testing::io(disk));
    let mut keeper = Keeper::new(&world, &two_thirds);
    let outcome = world.rewrite(memory, STEP_BYTES, &mut keeper);
    match &outcome {
        Ok(rewritten) => {
            disk.replace(path, good).unwrap();
            world.check(rewritten, &two_thirds);
            disk.remove(world.path(FileKind::ValueTable, NEW)).unwrap();
        }
        Err(error) => {
            let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
            assert_eq!(error.file(), Some(path.as_path()), "byte {at}: {error}");
            assert!(error.offset().is_some(), "byte {at}: {error}");
            assert_eq!(disk.digest(), digest, "nothing is left behind, sources are untouched");
            disk.replace(path, good).unwrap();
        }
    }
    outcome.is_err()
}

#[test]
fn every_changed_byte_of_a_segment_is_seen() {
    let (world, disk) = small();
    for memory in [0, 1 << 20] {
        for at in 0..disk.contents(&world.paths()[0]).len() {
            assert!(flipped(&world, &disk, 0, at, memory), "byte {at}");
        }
    }
}

/// What is not records of a table has been proved when it was opened, or is not asked for.
#[test]
fn every_changed_byte_of_a_tables_records_is_seen() {
    let (world, disk) = small();
    let bytes = disk.contents(&world.paths()[1]).len();
    let seen = (0..bytes).filter(|&at| flipped(&world, &disk, 1, at, 1 << 20)).count();
    assert!(seen >= 7 * 100 && seen < bytes, "{seen} of {bytes}");
}

#[test]
fn changed_bytes_of_long_records_are_seen_where_they_survive() {
    let (mut world, disk) = World::new();
    let frames: Vec<_> =
        (0..9_u64).map(|n| vec![put(&[n as u8 ^ 5], &[n as u8; 17_000])]).collect();
    world.segment(15, 1, &frames);
    let bytes = disk.contents(&world.paths()[0]).len();
    let places = (0..bytes).filter(|at| at % 97 == 0 || at % 17_058 < 130 || at + 300 > bytes);
    let (mut seen, mut looked_at) = (0, 0);
    for at in places {
        looked_at += 1;
        seen += usize::from(flipped(&world, &disk, 0, at, 1 << 20));
    }
    // One record in three dies and is not read; headers of frames are not, either.
    let share = seen * 100 / looked_at;
    assert!((40..80).contains(&share), "{seen} of {looked_at}");
}

/// Bytes that are good when the record is judged, and are not when it is moved.
#[test]
fn a_value_that_is_damaged_behind_the_first_look_is_not_moved() {
    let (mut world, disk) = World::new();
    let frames: Vec<_> = (0..40_u64).map(|n| vec![put(&[n as u8], &[n as u8; 900])]).collect();
    world.segment(15, 1, &frames);
    let path = &world.paths()[0];
    let mut bytes = disk.contents(path);
    let sealed_bytes = bytes.len();
    let at = sealed_bytes / 2;
    let keep = |_: &Rank<'_>| true;
    let mut keeper = Keeper::new(&world, &keep);
    let mut rewrite = world.begin(40_000).unwrap();
    rewrite.step_bytes = 1;
    while keeper.asked.len() < 40 {
        assert!(rewrite.step(&mut keeper).unwrap().is_none());
    }
    bytes[at] ^= 1;
    disk.replace(path, bytes).unwrap();
    let error = run(&mut rewrite, &mut keeper).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(path.as_path()));
    assert!((at - 950..=at).contains(&(error.offset().unwrap() as usize)), "{error}");
    assert_eq!(disk.files().len(), 1);
}

/// A key that was read wrongly must not make a live record a dead one.
#[test]
fn a_damaged_key_of_a_long_record_does_not_kill_it() {
    let (mut world, disk) = World::new();
    let frames: Vec<_> = (0..9_u64).map(|n| vec![put(&[n as u8; 8], &[7; 17_000])]).collect();
    world.segment(15, 1, &frames);
    let path = &world.paths()[0];
    let good = disk.contents(path);
    let at = good.windows(8).position(|window| window == [4; 8]).unwrap();
    let mut bad = good.clone();
    bad[at + 3] ^= 0x20;
    for (bytes, survives) in [(good, true), (bad, false)] {
        disk.replace(path, bytes).unwrap();
        let keeps = |rank: &Rank<'_>| rank.key == [4; 8];
        let mut keeper = Keeper::new(&world, &keeps);
        let outcome = world.rewrite(1 << 20, STEP_BYTES, &mut keeper);
        assert_eq!(outcome.as_ref().is_ok_and(|done| done.records_kept == 1), survives);
        if let Err(error) = outcome {
            assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&**path)));
            break;
        }
        disk.remove(world.path(FileKind::ValueTable, NEW)).unwrap();
        assert!(survives, "the record is lost");
    }
}

/// A record that proves its place but is another one than its key says: of the same segment, at
/// the place of another.
#[test]
fn a_record_of_another_place_is_not_taken_for_it() {
    let (mut world, disk) = World::new();
    let frames: Vec<_> = (0..9_u64).map(|n| vec![put(&[n as u8], &[7; 17_000])]).collect();
    world.segment(15, 1, &frames);
    let Made::Segment { frames, .. } = &world.made[0] else { panic!("a segment") };
    let path = &world.paths()[0];
    let mut bytes = disk.contents(path);
    let range = |number: usize| frames[number].start as usize + 40..frames[number].end as usize;
    bytes.copy_within(range(3), frames[4].start as usize + 40);
    disk.replace(path, bytes).unwrap();
    let mut keeper = Keeper::new(&world, &|_| true);
    let error = world.rewrite(1 << 20, STEP_BYTES, &mut keeper).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path.as_path())));
}

/// A footer that proves itself, but not as what the manifest says of the segment.
#[test]
fn a_footer_of_other_records_is_refused() {
    let (mut world, _) = World::new();
    let frames: Vec<_> = (0..9_u64).map(|n| vec![put(&[n as u8], &[7; 17_000])]).collect();
    world.segment(15, 1, &frames);
    let Made::Segment { sealed, .. } = &mut world.made[0] else { panic!("a segment") };
    sealed.totals.value_bytes += 1;
    let mut keeper = Keeper::new(&world, &|_| true);
    let error = world.rewrite(1 << 20, STEP_BYTES, &mut keeper).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(world.paths()[0].as_path()));
    assert!(error.offset().is_some() && keeper.asked.is_empty());
}

/// Every call fails once, in every way: an error that names a file, or the right table.
fn fail_every_call(world: &World, disk: &MemoryDisk, memory: u64) {
    let (digest, files) = (disk.digest(), disk.files());
    for fault in Fault::ALL {
        let mut failures = 0;
        for at in 1.. {
            let faults = FaultDisk::over(disk);
            let world = world.over(&io_over(faults.clone()));
            let mut rewrite = world.begin(memory).unwrap();
            faults.set_plan(Some(FaultPlan { kind: None, at, fault, persistent: false }));
            let calls = faults.calls();
            let mut keeper = Keeper::new(&world, &two_thirds);
            let outcome = run(&mut rewrite, &mut keeper);
            drop(rewrite);
            let (triggered, calls) = (faults.triggered(), faults.calls() - calls);
            faults.set_plan(None);
            failures += triggered;
            match &outcome {
                Ok(rewritten) => {
                    world.check(rewritten, &two_thirds);
                    world.check_asked(&keeper);
                    disk.remove(world.path(FileKind::ValueTable, NEW)).unwrap();
                    assert!(triggered == 0 || fault != Fault::Eio, "call {at} is swallowed");
                }
                Err(error) => {
                    assert!(triggered > 0, "{error}");
                    assert!(error.file().is_some(), "{fault:?} at {at}: {error}");
                    assert!(![Fault::Eintr, Fault::ShortRead, Fault::ShortWrite].contains(&fault));
                }
            }
            assert_eq!(disk.files(), files, "{fault:?} at {at} leaves a file behind");
            if at > calls && outcome.is_ok() {
                break;
            }
        }
        assert!(failures > 0 || fault == Fault::Unsupported, "{fault:?} never came");
    }
    assert_eq!(disk.digest(), digest, "sources are untouched");
}

#[test]
fn every_failing_call_is_reported_and_leaves_nothing() {
    let (world, disk) = small();
    fail_every_call(&world, &disk, 1 << 20);
    // Several walks, several batches.
    fail_every_call(&world, &disk, 1500);
}

#[test]
fn every_failing_call_of_long_records_is_reported() {
    let (mut world, disk) = World::new();
    let long = |n: u64| {
        let key = vec![n as u8 ^ 5; if n == 4 { 700 } else { 3 }];
        vec![put(&key, &[n as u8; 17_000])]
    };
    world.segment(15, 1, &(0..9).map(long).collect::<Vec<_>>());
    add_table(&mut world, 17, 30);
    fail_every_call(&world, &disk, 100_000);
}

/// The disk is full: what was begun goes away.
#[test]
fn no_space_leaves_nothing() {
    let (mut world, disk) = World::new();
    let frames: Vec<_> = (0..900_u64).map(|n| vec![put(&[n as u8; 9], &[7; 1000])]).collect();
    world.segment(15, 1, &frames);
    let digest = disk.digest();
    let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
    disk.set_capacity(Some(used + 300_000));
    let mut keeper = Keeper::new(&world, &two_thirds);
    let error = world.rewrite(1 << 20, STEP_BYTES, &mut keeper).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(disk.digest(), digest);
}
