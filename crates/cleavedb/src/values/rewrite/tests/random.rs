//! Any sources, any judge, any memory: against the sorted list of all records.

use super::*;
use crate::base::checksum::key_hash;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An operation as it is drawn: keyspace, key, length of the value, how it is stored, and what else
/// is to be known of it, by source.
type Drawn = (u8, u8, u16, u8, u8);

/// Whether it is a table; the first seq; which frames are given back; the operations.
type DrawnSource = (bool, u8, u64, Vec<Drawn>);

fn key_of(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![b'l'; 3000],
        2 => vec![b'l'; 65_535],
        3..=5 => format!("key {}", "l".repeat(usize::from(number))).into_bytes(),
        _ => vec![number],
    }
}

fn value_of(length: u16, seed: u8) -> Vec<u8> {
    let length = match length {
        0..=600 => usize::from(length % 200),
        601..=640 => usize::from(length) * 50,
        641 => 1 << 20,
        _ => usize::from(length),
    };
    match seed % 2 {
        0 => vec![seed; length],
        _ => noise(&mut Seeded::new(u64::from(seed)), length),
    }
}

fn how_of(number: u8) -> Compression {
    [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd]
        [usize::from(number % 4)]
}

fn add_drawn(
    world: &mut World,
    disk: &crate::io::memory_disk::MemoryDisk,
    number: u64,
    source: &DrawnSource,
) {
    let (is_table, first_seq, gone, drawn) = source;
    if *is_table {
        let mut items = BTreeMap::new();
        for &(keyspace, key, length, how, other) in drawn {
            let (key, value) = (key_of(key), value_of(length, other));
            let (seq, file) = (1 + u64::from(other % 30), 200 + 10 * number + u64::from(how % 3));
            let keyspace = 1 + u32::from(keyspace);
            let made = Item { how: how_of(how), ..item(keyspace, &key, seq, file, &value) };
            items.insert((keyspace, key, seq, file), made);
        }
        world.table(40 + number, items.into_values().collect());
        return;
    }
    let mut frames: Vec<Vec<Put>> = Vec::new();
    for &(keyspace, key, length, how, other) in drawn {
        let (key, value) = (key_of(key), value_of(length, other));
        let is_inline = other % 9 == 1;
        let put =
            Put { keyspace: 1 + u32::from(keyspace), key, value, how: how_of(how), is_inline };
        match frames.last_mut().filter(|_| other % 3 == 0) {
            Some(frame) => frame.push(put),
            None => frames.push(vec![put]),
        }
    }
    world.segment(10 + number, 1 + u64::from(*first_seq), &frames);
    if gone & 1 == 1 {
        world.punch(disk, &|number| gone >> (1 + number % 63) & 1 == 1);
    }
}

fn any_source() -> impl Strategy<Value = DrawnSource> {
    let length = prop_oneof![40 => 0..600_u16, 1 => 600..642_u16, 1 => 642..5000_u16];
    let long = prop_oneof![1 => 0..300_u16, 3 => 601..641_u16];
    let key = prop_oneof![30 => 3..14_u8, 1 => 0..3_u8];
    let drawn = |length| (0..2_u8, key.clone(), length, 0..12_u8, any::<u8>());
    let short = proptest::collection::vec(drawn(length.boxed()), 0..60);
    let long = proptest::collection::vec(drawn(long.boxed()), 0..12);
    let drawn = prop_oneof![4 => short, 1 => long];
    (any::<bool>(), 0..20_u8, any::<u64>(), drawn)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_rewrite_is_the_sorted_list_of_what_survives(
        sources in proptest::collection::vec(any_source(), 0..5),
        memory in prop_oneof![0..4000_u64, 4000..200_000_u64, Just(1 << 20), Just(64 << 20)],
        step_bytes in prop_oneof![Just(1), 1..100_000_u64, Just(STEP_BYTES)],
        (kept_share, judge) in (prop_oneof![Just(0), Just(100), 0..100_u64], any::<u64>()),
        dropped_after in 0..40_u64,
    ) {
        let (mut world, disk) = World::new();
        for (number, source) in (0..).zip(&sources) {
            add_drawn(&mut world, &disk, number, source);
        }
        let keeps = |rank: &Rank<'_>| {
            let number = judge ^ rank.seq << 32 ^ rank.file.0 << 16 ^ u64::from(rank.keyspace.0);
            Seeded::new(number ^ key_hash(rank.key)).chance(kept_share)
        };
        let digest = disk.digest();
        // Some steps of one that is dropped.
        let mut keeper = Keeper::new(&world, &keeps);
        let mut rewrite = world.begin(memory).unwrap();
        rewrite.step_bytes = 1;
        let mut has_ended = false;
        for _ in 0..dropped_after {
            has_ended = has_ended || rewrite.step(&mut keeper).unwrap().is_some();
        }
        drop(rewrite);
        if has_ended {
            let _ = disk.remove(world.path(FileKind::ValueTable, NEW));
        }
        prop_assert_eq!(disk.digest(), digest);
        let mut keeper = Keeper::new(&world, &keeps);
        let rewritten = world.rewrite(memory, step_bytes, &mut keeper).unwrap();
        world.check(&rewritten, &keeps);
        world.check_asked(&keeper);
        let longest = world.items.iter().map(|items| {
            let bytes = |item: &Item| (item.value.len() + 2 * item.key.len() + 100) as u64;
            items.iter().map(bytes).max().unwrap_or(0)
        });
        // A frame has several records here, and a growing buffer twice its bytes.
        let beside = READER_AND_WRITER_BYTES + 40 * CHUNK_BYTES_MIN + longest.sum::<u64>() * 8;
        prop_assert!(keeper.held_max <= memory + beside);
        prop_assert_eq!(world.io.meter.bytes_held(Purpose::Collection), 0);
    }
}
