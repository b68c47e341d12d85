//! What a rewrite holds, whatever it rewrites.

use super::*;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::values::table::writer::GROUP_BYTES;

/// Most that is held at any write, any question and any end of a smallest step.
fn held_max(world: &World, disk: &crate::io::memory_disk::MemoryDisk, memory: u64) -> u64 {
    let (meter, at_writes) = (Arc::clone(&world.io.meter), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&at_writes);
    disk.set_observer(Some(Arc::new(move |_, _: &crate::io::memory_disk::MemoryDisk| {
        seen.fetch_max(meter.bytes_held(Purpose::Collection), Ordering::Relaxed);
    })));
    let mut keeper = Keeper::new(world, &two_thirds);
    let rewritten = world.rewrite(memory, 1, &mut keeper).unwrap();
    disk.set_observer(None);
    world.check(&rewritten, &two_thirds);
    world.check_asked(&keeper);
    assert_eq!(world.io.meter.bytes_held(Purpose::Collection), 0);
    world.io.disk.remove_file(&world.path(FileKind::ValueTable, NEW)).unwrap();
    keeper.held_max.max(at_writes.load(Ordering::Relaxed))
}

fn add_many(world: &mut World, id: u64, records: u64) {
    let mut random = Seeded::new(id);
    let frames: Vec<_> = (0..records)
        .map(|_| vec![put(&random.next().to_be_bytes(), &noise(&mut random, 1000))])
        .collect();
    world.segment(id, 1, &frames);
}

#[test]
fn many_small_records_take_no_more_than_is_given() {
    let (mut world, disk) = World::new();
    world.group_bytes = GROUP_BYTES;
    add_many(&mut world, 15, 9000);
    add_many(&mut world, 16, 3000);
    for memory in [1 << 20, 2 << 20, 4 << 20, 32 << 20] {
        let held = held_max(&world, &disk, memory);
        assert!(held <= memory + 1100, "{held} bytes held of {memory}");
        assert!(held >= memory.min(6 << 20) / 2, "{held} bytes held of {memory}: little used");
    }
}

#[test]
fn tables_share_what_is_given() {
    let (mut world, disk) = World::new();
    add_many(&mut world, 15, 3000);
    for id in 20..25 {
        let mut random = Seeded::new(id);
        let items = (0..800)
            .map(|n| item(1, &random.next().to_be_bytes(), n + 1, id, &noise(&mut random, 1000)))
            .collect();
        world.table(id, items);
    }
    for memory in [1 << 20, 2 << 20, 4 << 20] {
        let held = held_max(&world, &disk, memory);
        assert!(held <= memory + 1100, "{held} bytes held of {memory}");
    }
    world.made.remove(0);
    world.items.remove(0);
    for memory in [1 << 20, 4 << 20] {
        let held = held_max(&world, &disk, memory);
        assert!(held <= memory + 1100, "{held} bytes held of {memory}");
        assert!(held >= memory / 4, "{held} bytes held of {memory}: little used");
    }
}

#[test]
fn a_huge_record_takes_its_own_length_more() {
    let (mut world, disk) = World::new();
    let huge = noise(&mut Seeded::new(1), 8 << 20);
    let mut frames: Vec<_> =
        (0..2000_u64).map(|n| vec![put(&n.to_le_bytes(), &[n as u8; 1000])]).collect();
    frames.insert(700, vec![put(b"huge", &huge)]);
    frames.insert(900, vec![put(b"huge", &huge)]);
    world.segment(15, 1, &frames);
    let long: Vec<_> = (0..30_u64).map(|n| vec![put(&n.to_le_bytes(), &huge[..1 << 20])]).collect();
    world.segment(16, 1, &[long, vec![vec![put(b"hugf", &huge)]]].concat());
    for memory in [1 << 20, 4 << 20] {
        let held = held_max(&world, &disk, memory);
        assert!(held <= memory + (8 << 20) + 1000, "{held} bytes held of {memory}");
    }
    world.table(30, vec![item(1, b"huge", 7, 30, &huge), item(1, b"hugg", 7, 30, b"small")]);
    let held = held_max(&world, &disk, 1 << 20);
    assert!(held <= (1 << 20) + (16 << 20) + 1000, "{held} bytes held, one record of each source");
}

#[test]
fn verdicts_are_kept_in_their_order() {
    let mut verdicts = Verdicts::default();
    let wanted: Vec<bool> = (0..300_u64).map(|number| number * number % 7 < 3).collect();
    wanted.iter().for_each(|&is_kept| verdicts.push(is_kept));
    let found: Vec<_> = (0..300).map(|number| verdicts.get(number).unwrap()).collect();
    assert!(found == wanted);
    assert!(verdicts.get(300).is_err(), "of a record that was not judged");
}
