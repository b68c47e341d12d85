//! Parts of segments that stand together come in one read, and each goes to its place.

use std::ops::Range;

use super::*;

/// Two neighbours in the space that `flushes` have met together, one after the other.
fn neighbours(context: &Arc<SpaceContext>, flushes: u8) -> (Space, Range<u64>, Range<u64>) {
    let mut space = Space::new(context).unwrap();
    let mut length = 0;
    for number in 0..flushes {
        space.insert(length, &[number; 60], 1).unwrap();
        space.insert(2 * length + 60, &[number + 100; 60], 2).unwrap();
        length += 60;
        commit(&mut space);
    }
    (space, 0..length, length..2 * length)
}

/// What each of them has: a piece of each flush.
fn expected(flushes: u8) -> Vec<Vec<u8>> {
    let of = |from: u8| (from..from + flushes).flat_map(|number| [number; 60]).collect();
    vec![of(0), of(100)]
}

#[test]
fn neighbours_that_flushes_have_met_are_read_together() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let (space, left, right) = neighbours(&context, 20);
    assert_eq!(space.view().fragments(left.clone()).unwrap(), 20);
    let meter = &context.io.meter;
    let calls = || meter.read_calls(Purpose::Read);
    let (view, before) = (space.view(), calls());
    let read = view.read_many(&[left.clone(), right.clone()], Purpose::Read).unwrap();
    assert_eq!(read, expected(20));
    assert_eq!(calls() - before, 5, "40 pieces in 20 blocks of five segments");
    // In whatever order they are asked for, and some bytes twice.
    let read = view.read_many(&[right.clone(), left.start + 30..left.end], Purpose::Read).unwrap();
    assert_eq!(read, [expected(20)[1].clone(), expected(20)[0][30..].to_vec()]);
    let read = view.read_many(&[left.clone(), left, 7..7, right], Purpose::Read).unwrap();
    assert_eq!((&read[0], &read[1], read[2].len()), (&expected(20)[0], &expected(20)[0], 0));
    assert_eq!(read[3], expected(20)[1]);
}

#[test]
fn what_is_in_memory_still_is_read_with_what_is_not() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let (mut space, left, right) = neighbours(&context, 5);
    space.insert(right.end, &[9; 50], 2).unwrap();
    let all = space.read(0..right.end + 50, Purpose::Read).unwrap();
    assert_eq!(all, [expected(5).concat(), vec![9; 50]].concat());
    space.collapse(left.start..left.end).unwrap();
    commit(&mut space);
    let all = space.read(0..space.tree().length(), Purpose::Read).unwrap();
    assert_eq!(all, [expected(5)[1].clone(), vec![9; 50]].concat());
}

#[test]
fn a_reclaim_reads_a_segment_in_stretches_and_not_piece_by_piece() {
    let disk = disk();
    let limits = SpaceLimits { segment_blocks: 9, garbage_percent_max: 1, ..SMALL };
    let context = context(&disk, limits);
    let mut space = Space::new(&context).unwrap();
    // Twelve segments of pieces of 100 bytes, every other of which is written again.
    let pieces = 4000u64;
    for number in 0..pieces {
        space.insert(100 * number, &[number as u8; 100], 1 + number / 100).unwrap();
    }
    commit(&mut space);
    for number in (0..pieces).filter(|number| number % 2 == 0) {
        space.update(100 * number..100 * number + 100, &[7; 100], 1 + number / 100).unwrap();
    }
    commit(&mut space);
    let before = all(&space);
    let calls = || context.io.meter.read_calls(Purpose::Collection);
    let find = |owner: u64| Some(10_000 * (owner - 1)..10_000 * owner);
    let reclaimed = space.reclaim(u64::MAX, &find).unwrap();
    assert!(reclaimed.moved_bytes >= 100 * 1000, "{reclaimed:?}");
    // One stretch of eight blocks, a header and what tells of the owners for each segment.
    assert!(calls() <= 6 * reclaimed.segments, "{} reads: {reclaimed:?}", calls());
    assert_eq!(all(&space), before);
    commit(&mut space);
    assert_eq!(all(&space), before);
}

#[test]
fn a_damaged_block_names_the_file_and_one_between_that_nobody_asked_for_does_not_matter() {
    let disk = disk();
    let context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    for number in 0..3u8 {
        space.insert(4092 * u64::from(number), &[number; 4092], 1).unwrap();
    }
    let state = commit(&mut space);
    let (id, _) = space.segments().next().unwrap();
    let segment = path(FileKind::FlexSegment, id);
    let mut bytes = disk.contents(&segment);
    // The second of three blocks behind the header.
    bytes[2 * 4096 + 1000] ^= 1;
    disk.replace(&segment, bytes).unwrap();
    drop(space);
    let space = Space::open(&super::context(&disk, SMALL), state).unwrap();
    let outer = [0..4092, 8184..12_276];
    let read = space.view().read_many(&outer, Purpose::Read).unwrap();
    assert_eq!(read, [vec![0; 4092], vec![2; 4092]]);
    let error = space.view().read(4000..9000, Purpose::Read).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(segment.as_path())));
}
