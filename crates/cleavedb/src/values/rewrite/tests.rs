//! What comes out of a rewrite, what it reads, what it holds, and what it leaves behind.

use super::testing::{Keeper, Made, NEW, Put, STEP_BYTES, World, put, run};
use super::*;
use crate::base::compress::Compression;
use crate::base::error::ErrorKind;
use crate::io::fault_disk::{CallKind, FaultDisk};
use crate::io::seeded::Seeded;
use crate::log::testing::io_over;
use crate::values::table::format::Rank;
use crate::values::table::testing::{Item, item, noise};

mod damage;
mod memory;
mod random;

/// One record in three dies.
fn two_thirds(rank: &Rank<'_>) -> bool {
    !rank.seq.is_multiple_of(3)
}

/// A segment of keys in no order, several versions of each, some in one frame.
pub(super) fn add_segment(world: &mut World, id: u64, first_seq: Seq, records: u64) {
    let mut random = Seeded::new(id);
    let mut frames: Vec<Vec<Put>> = Vec::new();
    for number in 0..records {
        let key = format!("key {:03}", random.below(records / 2 + 1));
        let length = random.index(900);
        let mut put = put(key.as_bytes(), &noise(&mut random, length));
        put.keyspace = [1, 300][random.index(2)];
        put.how = [Compression::None, Compression::Zstd][random.index(2)];
        put.is_inline = number % 7 == 5;
        match frames.last_mut().filter(|_| number % 3 != 0) {
            Some(frame) => frame.push(put),
            None => frames.push(vec![put]),
        }
    }
    world.segment(id, first_seq, &frames);
}

pub(super) fn add_table(world: &mut World, id: u64, records: u64) {
    let mut random = Seeded::new(id);
    let mut items = std::collections::BTreeMap::new();
    for number in 0..records {
        let key = format!("key {:03}", random.below(records / 2 + 1));
        let (length, file) = (random.index(700), 100 * id + number % 3);
        let keyspace = [1, 300][random.index(2)];
        let seq = 1 + random.below(200);
        let made = item(keyspace, key.as_bytes(), seq, file, &noise(&mut random, length));
        items.insert((keyspace, key, seq, file), made);
    }
    world.table(id, items.into_values().collect());
}

/// Whatever the memory, and however small the steps.
fn check_all_ways(world: &World) {
    for memory_bytes_max in [0, 3000, 20_000, 100_000, 1 << 20, 64 << 20] {
        for step_bytes in [1, 10_000, STEP_BYTES] {
            let mut keeper = Keeper::new(world, &two_thirds);
            let rewritten = world.rewrite(memory_bytes_max, step_bytes, &mut keeper).unwrap();
            world.check(&rewritten, &two_thirds);
            world.check_asked(&keeper);
            assert_eq!(world.io.meter.bytes_held(Purpose::Collection), 0);
            world.io.disk.remove_file(&world.path(FileKind::ValueTable, NEW)).unwrap();
        }
    }
}

#[test]
fn a_segment_becomes_a_table_in_order() {
    let (mut world, _) = World::new();
    add_segment(&mut world, 15, 1, 200);
    check_all_ways(&world);
}

#[test]
fn a_table_becomes_the_next_one() {
    let (mut world, _) = World::new();
    add_table(&mut world, 17, 200);
    check_all_ways(&world);
}

#[test]
fn segments_and_tables_become_one_table() {
    let (mut world, _) = World::new();
    add_segment(&mut world, 15, 1, 120);
    add_table(&mut world, 17, 90);
    // The same seqs once more, as moved copies have them.
    add_segment(&mut world, 16, 1, 120);
    add_table(&mut world, 18, 90);
    add_table(&mut world, 19, 1);
    add_segment(&mut world, 20, 500, 50);
    let items = world.items.concat();
    let twin = |left: &Item, right: &Item| {
        left.keyspace == right.keyspace && left.key == right.key && left.file != right.file
    };
    let has_twin = |item: &Item| items.iter().any(|other| twin(item, other));
    assert!(items.iter().filter(|item| has_twin(item)).count() > 100, "keys of several sources");
    check_all_ways(&world);
}

#[test]
fn nothing_that_survives_is_no_file() {
    let (mut world, disk) = World::new();
    add_segment(&mut world, 15, 1, 50);
    add_table(&mut world, 17, 50);
    let faults = FaultDisk::over(&disk);
    let world = world.over(&io_over(faults.clone()));
    let nothing = |_: &Rank<'_>| false;
    let mut keeper = Keeper::new(&world, &nothing);
    let rewritten = world.rewrite(0, 1, &mut keeper).unwrap();
    assert_eq!((rewritten.written.is_none(), rewritten.records_kept), (true, 0));
    world.check(&rewritten, &nothing);
    world.check_asked(&keeper);
    assert_eq!(faults.calls_of(CallKind::Create), 0);
    assert_eq!(disk.files().len(), 2);
}

#[test]
fn sources_without_records_and_no_sources_are_no_file() {
    let (mut world, _) = World::new();
    let small = Put { is_inline: true, ..put(b"k", b"small") };
    world.segment(15, 1, &[vec![small]]);
    world.segment(16, 1, &[]);
    world.table(17, Vec::new());
    let mut keeper = Keeper::new(&world, &|_| true);
    let read = world.io.meter.bytes_read(Purpose::Collection);
    let rewritten = world.rewrite(1 << 20, 1, &mut keeper).unwrap();
    assert_eq!(rewritten.written, None);
    assert_eq!(keeper.asked.len(), 0);
    assert_eq!(world.io.meter.bytes_read(Purpose::Collection), read, "there is nothing to read");
    let (empty, _) = World::new();
    let mut keeper = Keeper::new(&empty, &|_| true);
    assert_eq!(empty.rewrite(1 << 20, 1, &mut keeper).unwrap().written, None);
}

#[test]
fn a_punched_segment_is_read_around_its_holes() {
    for gone in [&[0_usize, 1, 5, 9][..], &[3], &[66], &[0, 66]] {
        let (mut world, disk) = World::new();
        add_segment(&mut world, 15, 1, 200);
        world.punch(&disk, &|number| gone.contains(&number));
        assert!(matches!(&world.made[0], Made::Segment { punched: Some(_), .. }));
        check_all_ways(&world);
    }
}

#[test]
fn a_segment_that_is_one_hole_is_not_read() {
    let (mut world, disk) = World::new();
    add_segment(&mut world, 15, 1, 30);
    world.punch(&disk, &|_| true);
    let mut keeper = Keeper::new(&world, &|_| true);
    let rewritten = world.rewrite(1 << 20, 1, &mut keeper).unwrap();
    assert_eq!((rewritten.written, keeper.asked.len()), (None, 0));
    assert_eq!(world.io.meter.bytes_read(Purpose::Collection), 0);
}

/// Where most of the bytes are in long values, only heads are read, and what survives.
fn add_long(world: &mut World, id: u64, records: u64) {
    let mut random = Seeded::new(id);
    let mut frames = Vec::new();
    for number in 0..records {
        let length = [40_000, 70_000, 300, 100_000, 1 << 20][random.index(5)];
        let mut key = random.next().to_be_bytes().to_vec();
        if number % 9 == 4 {
            key.resize(3000, b'k');
        }
        frames.push(vec![put(&key, &noise(&mut random, length))]);
        if number % 4 == 0 {
            frames.push(vec![put(b"beside", b"a small one"), put(&key, &[9; 20_000])]);
        }
    }
    world.segment(id, 1, &frames);
}

#[test]
fn long_records_and_short_ones_side_by_side() {
    let (mut world, disk) = World::new();
    add_long(&mut world, 15, 30);
    add_segment(&mut world, 16, 1, 40);
    add_table(&mut world, 17, 40);
    check_all_ways(&world);
    let (mut world, _) = (World::at(&world.io, world.context.dir.clone(), false), ());
    add_long(&mut world, 25, 30);
    world.punch(&disk, &|number| number % 3 == 1);
    check_all_ways(&world);
}

#[test]
fn long_records_that_die_are_not_read() {
    let (mut world, _) = World::new();
    add_long(&mut world, 15, 40);
    let one = |rank: &Rank<'_>| rank.seq == 7;
    let mut keeper = Keeper::new(&world, &one);
    let rewritten = world.rewrite(1 << 20, STEP_BYTES, &mut keeper).unwrap();
    world.check(&rewritten, &one);
    world.check_asked(&keeper);
    let Made::Segment { sealed, .. } = &world.made[0] else { panic!("a segment") };
    let read = world.io.meter.bytes_read(Purpose::Collection);
    let records = world.items[0].len() as u64;
    assert!(sealed.sealed.bytes > 5 << 20);
    // A second and longer look at the few that have long keys.
    let most = rewritten.bytes_kept + records * 600 + 8 * (66 << 10);
    assert!(read < most, "{read} bytes read of {}", sealed.sealed.bytes);
}

#[test]
fn what_fits_in_memory_is_read_once() {
    let (mut world, _) = World::new();
    add_segment(&mut world, 15, 1, 3000);
    add_segment(&mut world, 16, 1, 3000);
    let bytes: u64 = world.paths().iter().map(|path| length(&world, path)).sum();
    let mut keeper = Keeper::new(&world, &two_thirds);
    let rewritten = world.rewrite(16 << 20, STEP_BYTES, &mut keeper).unwrap();
    world.check(&rewritten, &two_thirds);
    assert_eq!(world.io.meter.bytes_read(Purpose::Collection), bytes);
    let written = rewritten.written.unwrap().sealed.bytes;
    assert_eq!(world.io.meter.bytes_written(Purpose::Collection), written);
}

fn bytes_read(world: &World, memory: u64, keeps: super::testing::Keeps<'_>) -> u64 {
    let before = world.io.meter.bytes_read(Purpose::Collection);
    let mut keeper = Keeper::new(world, keeps);
    let rewritten = world.rewrite(memory, STEP_BYTES, &mut keeper).unwrap();
    world.check(&rewritten, keeps);
    world.io.disk.remove_file(&world.path(FileKind::ValueTable, NEW)).unwrap();
    world.io.meter.bytes_read(Purpose::Collection) - before
}

/// The keys fit, the values do not.
#[test]
fn values_without_room_are_read_in_batches() {
    let (mut world, _) = World::new();
    add_segment(&mut world, 15, 1, 6000);
    let bytes = length(&world, &world.paths()[0]);
    // Half of it is the window, and a quarter of the values fit there at a time.
    let read = bytes_read(&world, 2 << 20, &|_| true);
    assert!(read > 2 * bytes && read <= 6 * bytes, "{read} of {bytes}");
    assert_eq!(bytes_read(&world, 2 << 20, &|rank| rank.seq % 20 == 0), bytes, "they do fit");
    let (mut world, _) = World::new();
    let frames: Vec<_> = (0..1000_u64)
        .map(|n| vec![put(&(n * 7919 % 1000).to_be_bytes(), &[n as u8; 10_000])])
        .collect();
    world.segment(15, 1, &frames);
    let bytes = length(&world, &world.paths()[0]);
    let read = bytes_read(&world, 300_000, &|rank| rank.seq % 20 == 0);
    assert!((50..60).contains(&((read - bytes) / 10_000)), "{read} of {bytes}: survivors twice");
}

fn length(world: &World, path: &std::path::Path) -> u64 {
    world.io.disk.open(path, Default::default()).unwrap().len().unwrap()
}

#[test]
fn a_step_ends_soon() {
    let (mut world, _) = World::new();
    let values: Vec<_> = (0..3000_u64)
        .map(|number| vec![put(&number.to_le_bytes(), &[number as u8; 10_000])])
        .collect();
    world.segment(15, 1, &values);
    let mut keeper = Keeper::new(&world, &|_| true);
    let mut rewrite = world.begin(64 << 20).unwrap();
    let mut steps = 0;
    loop {
        let meter = &world.io.meter;
        let moved =
            || meter.bytes_read(Purpose::Collection) + meter.bytes_written(Purpose::Collection);
        let before = moved();
        let done = rewrite.step(&mut keeper).unwrap();
        steps += 1;
        // A read and a write of the next bytes, too.
        assert!(moved() - before <= STEP_BYTES + (2 << 20), "step {steps}");
        if let Some(rewritten) = done {
            world.check(&rewritten, &|_| true);
            break;
        }
    }
    assert!(steps >= 12, "{steps} steps of 60 MiB");
}

#[test]
fn a_rewrite_that_is_dropped_leaves_nothing() {
    let (mut world, disk) = World::new();
    add_segment(&mut world, 15, 1, 60);
    add_table(&mut world, 17, 60);
    let digest = disk.digest();
    let mut was_there = 0;
    for steps in 0.. {
        let mut keeper = Keeper::new(&world, &two_thirds);
        let mut rewrite = world.begin(3000).unwrap();
        rewrite.step_bytes = 1;
        let mut done = None;
        for _ in 0..steps {
            done = rewrite.step(&mut keeper).unwrap();
        }
        was_there += u64::from(disk.files().len() == 3);
        if let Some(rewritten) = done {
            drop(rewrite);
            world.check(&rewritten, &two_thirds);
            break;
        }
        drop(rewrite);
        assert_eq!(disk.digest(), digest, "after {steps} steps");
        assert_eq!(world.io.meter.bytes_held(Purpose::Collection), 0);
    }
    assert!(was_there > 20, "the table was begun {was_there} times");
}

#[test]
fn a_judge_that_fails_ends_the_rewrite() {
    let (mut world, disk) = World::new();
    add_segment(&mut world, 15, 1, 30);
    add_table(&mut world, 17, 30);
    let records = world.items.concat().len() as u64;
    let digest = disk.digest();
    for fails_after in [1, 20, records - 3, records] {
        let mut keeper = Keeper::new(&world, &two_thirds);
        keeper.fails_after = Some(fails_after);
        let mut rewrite = world.begin(1 << 20).unwrap();
        let error = run(&mut rewrite, &mut keeper).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Closed, "enough"));
        assert_eq!(disk.digest(), digest, "it leaves nothing, at once");
        let error = rewrite.step(&mut keeper).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn two_records_of_one_rank_are_an_error() {
    let (mut world, disk) = World::new();
    let twin = |value: &[u8]| item(1, b"k", 9, 5, value);
    world.table(17, vec![twin(b"one")]);
    world.table(18, vec![twin(b"two")]);
    let digest = disk.digest();
    let mut keeper = Keeper::new(&world, &|_| true);
    let error = world.rewrite(1 << 20, 1, &mut keeper).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(disk.digest(), digest);
}

#[test]
fn a_rewrite_that_cannot_be_is_refused() {
    let (mut world, _) = World::new();
    add_segment(&mut world, 15, 1, 30);
    add_table(&mut world, 17, 30);
    let context = || RewriteContext {
        io: world.io.clone(),
        directory: world.context.dir.clone(),
        uuid: crate::log::testing::UUID,
        group_bytes: 300,
        step_bytes: STEP_BYTES,
        direct: false,
        limited: false,
        memory_bytes_max: 1 << 20,
    };
    let begin = |container, files| {
        Rewrite::begin(&context(), world.sources().unwrap(), FileId(container), files).map(|_| ())
    };
    begin(99, world.files()).unwrap();
    for container in [0, 15, 17] {
        let error = begin(container, world.files()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let without = |gone| world.files().into_iter().filter(|file| file.0 != gone).collect();
    assert!(begin(99, without(15)).is_err(), "a segment that is not named");
    assert!(begin(99, [world.files(), vec![FileId(0)]].concat()).is_err());
}

#[test]
fn real_files_are_rewritten_direct_or_not() {
    for direct in [false, true] {
        let io = crate::io::context::native_io(1, 0).unwrap();
        let dir = tempfile::tempdir_in(".").unwrap();
        let mut world = World::at(&io, dir.path().to_owned(), direct);
        add_segment(&mut world, 15, 1, 2000);
        add_long(&mut world, 16, 20);
        add_table(&mut world, 17, 1000);
        for memory_bytes_max in [20_000, 500_000, 64 << 20] {
            let mut keeper = Keeper::new(&world, &two_thirds);
            let mut rewrite = world.begin_with(memory_bytes_max, direct).unwrap();
            let rewritten = run(&mut rewrite, &mut keeper).unwrap();
            world.check(&rewritten, &two_thirds);
            world.check_asked(&keeper);
            io.disk.remove_file(&world.path(FileKind::ValueTable, NEW)).unwrap();
            drop(world.begin_with(memory_bytes_max, direct).unwrap());
        }
        io.executor.shutdown();
    }
}
