//! A walk meets every record, in order and at its place, whatever the chunks; it reads ahead, and
//! holds little.

use std::collections::BTreeMap;

use super::*;
use crate::base::compress::Compression;
use crate::base::error::ErrorKind;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::io::seeded::Seeded;
use crate::values::table::testing::{Bench, CONTAINER, Item, item, noise, some_items, sources};
use crate::values::table::verify::verify;
use crate::values::table::writer::{TablePlace, ValueTableOptions};

/// All records, as items, with their offsets.
fn walk(table: &TableFile, chunk_bytes: u64) -> Result<Vec<(Item, u64)>> {
    let mut scan = TableScan::new(table, chunk_bytes, Purpose::Collection)?;
    let mut seen = Vec::new();
    while let Some(ScannedRecord { offset, record, body }) = scan.next_record()? {
        assert_eq!(body, record.record.body());
        let rank = record.rank();
        let value = record.record.value()?;
        let how = record.record.compression()?;
        let item = item(rank.keyspace.0, rank.key, rank.seq, rank.file.0, &value);
        seen.push((Item { how, ..item }, offset));
    }
    assert!(scan.next_record()?.is_none(), "the end stays the end");
    Ok(seen)
}

#[test]
fn a_walk_meets_every_record_at_its_place_whatever_the_chunks() {
    let (bench, items) = (Bench::new(), some_items());
    let options = Bench::options(&sources(&items), 200);
    let (written, places) = bench.write(&options, &items).unwrap();
    let table = bench.open_sealed(&written).unwrap();
    for chunk_bytes in [1, 16, 100, 128, 1000, 4096, CHUNK_BYTES] {
        let seen = walk(&table, chunk_bytes).unwrap();
        assert_eq!(seen.len(), items.len());
        for ((seen, offset), (item, place)) in seen.iter().zip(items.iter().zip(&places)) {
            let packs = item.how != Compression::None && seen.how == item.how;
            assert!(packs || seen.how == Compression::None);
            assert_eq!((seen.rank(), *offset), (item.rank(), place.offset));
            assert!(seen.value == item.value);
        }
    }
}

/// What was collected once is collected again, and comes to the same.
#[test]
fn a_table_moves_into_the_next_one() {
    let (bench, items) = (Bench::new(), some_items());
    let options = Bench::options(&sources(&items), 200);
    let (written, _) = bench.write(&options, &items).unwrap();
    let table = bench.open_sealed(&written).unwrap();
    let next = ValueTableOptions { container: FileId(18), ..options };
    let mut writer = bench.create(&next).unwrap();
    let mut scan = TableScan::new(&table, 300, Purpose::Collection).unwrap();
    while let Some(ScannedRecord { record, body, .. }) = scan.next_record().unwrap() {
        // Every second version goes.
        if record.record.seq % 2 == 0 {
            writer.add(record.file, &record.record, body).unwrap();
        }
    }
    let moved = writer.finish().unwrap();
    assert_ne!(moved.sealed.checksum, written.sealed.checksum);
    let table = bench.open_sealed(&moved).unwrap();
    verify(&table, Purpose::Verify, &mut |_| Ok(())).unwrap();
    let left: Vec<_> = walk(&table, 300).unwrap().into_iter().map(|(item, _)| item.value).collect();
    let wanted: Vec<_> =
        items.iter().filter(|item| item.seq % 2 == 0).map(|item| item.value.clone()).collect();
    assert!(left == wanted);
    // The file of the old container is not taken for the new one.
    bench.disk.replace(Bench::path(FileId(18)), bench.bytes()).unwrap();
    assert!(bench.open_sealed(&moved).is_err());
}

#[test]
fn a_walk_reads_each_byte_once_and_holds_little() {
    let bench = Bench::new();
    let value = vec![b'v'; 1000];
    let items: Vec<_> =
        (0..2000_u64).map(|n| item(1, &n.to_be_bytes(), n + 1, 5, &value)).collect();
    let (written, _) = bench.write(&Bench::options(&[5], 8192), &items).unwrap();
    let table = bench.open_sealed(&written).unwrap();
    let chunk_bytes = 64 << 10;
    let mut scan = TableScan::new(&table, chunk_bytes, Purpose::Collection).unwrap();
    let (mut records, mut held_max) = (0, 0);
    while scan.next_record().unwrap().is_some() {
        records += 1;
        held_max = held_max.max(scan.memory_bytes());
    }
    assert_eq!(records, 2000);
    assert!(held_max <= 4 * chunk_bytes as usize, "{held_max} bytes held");
    let read = bench.io.meter.bytes_read(Purpose::Collection);
    assert_eq!(read, table.trailer.records_end - HEADER_BYTES as u64);
    let calls = bench.io.meter.read_calls(Purpose::Collection);
    assert!(calls <= read / chunk_bytes + 2, "{calls} reads of {read} bytes");
}

#[test]
fn the_next_chunk_is_read_while_one_is_used() {
    let bench = Bench::new();
    let items: Vec<_> = (0..100_u64).map(|n| item(1, &[n as u8], n + 1, 5, &[1; 1000])).collect();
    let (written, _) = bench.write(&Bench::options(&[5], 8192), &items).unwrap();
    let faults = FaultDisk::over(&bench.disk);
    let bench = Bench::over(bench.disk.clone(), crate::log::testing::io_over(faults.clone()));
    let table = bench.open_sealed(&written).unwrap();
    let mut scan = TableScan::new(&table, 80 << 10, Purpose::Collection).unwrap();
    let before = faults.calls_of(CallKind::Read);
    scan.next_record().unwrap().unwrap();
    assert_eq!(faults.calls_of(CallKind::Read) - before, 2, "one chunk, and the one behind it");
}

#[test]
fn a_failing_read_ends_the_walk_with_its_place() {
    let bench = Bench::new();
    let items: Vec<_> = (0..100_u64).map(|n| item(1, &[n as u8], n + 1, 5, &[1; 1000])).collect();
    let (written, _) = bench.write(&Bench::options(&[5], 8192), &items).unwrap();
    let faults = FaultDisk::over(&bench.disk);
    let bench = Bench::over(bench.disk.clone(), crate::log::testing::io_over(faults.clone()));
    let table = bench.open_sealed(&written).unwrap();
    for (fault, kind) in [(Fault::Eio, ErrorKind::Io), (Fault::BitFlip, ErrorKind::Corruption)] {
        let mut failures = 0;
        for at in 1.. {
            let plan = FaultPlan { kind: Some(CallKind::Read), at, fault, persistent: false };
            let before = faults.triggered();
            faults.set_plan(Some(plan));
            let outcome = walk(&table, 8 << 10).map(|seen| seen.len());
            if faults.triggered() == before {
                assert_eq!(outcome.unwrap(), 100);
                break;
            }
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.file(), Some(Bench::path(CONTAINER).as_path()));
            assert!(error.offset().is_some());
            failures += 1;
        }
        assert!(failures > 10, "{failures} reads could be made to fail");
    }
}

/// Any version of any key, by seed: now and then a long key, or a value of more than a megabyte.
fn random_items(random: &mut Seeded) -> Vec<Item> {
    let keys: Vec<Vec<u8>> = (0..1 + random.below(12))
        .map(|_| {
            let length = match random.below(20) {
                0 => 65_535,
                1 => 60_000 + random.index(5000),
                2 => 0,
                _ => random.index(12),
            };
            let tail = noise(random, length % 7);
            [vec![b'k'; length - tail.len()], tail].concat()
        })
        .collect();
    let mut items = BTreeMap::new();
    for _ in 0..random.below(120) {
        let length = match random.below(60) {
            0 => (1 << 20) + random.index(1 << 20),
            1..=5 => random.index(30_000),
            _ => random.index(400),
        };
        let value = match random.chance(50) {
            true => noise(random, length),
            false => vec![random.next() as u8; length],
        };
        let key = &keys[random.index(keys.len())];
        let keyspace = [1, 2, 200, u32::MAX][random.index(4)];
        let (seq, file) = (1 + random.below(40), [1, 5, 1 << 40][random.index(3)]);
        let how = [Compression::None, Compression::Lz4, Compression::Zstd][random.index(3)];
        let found = Item { how, ..item(keyspace, key, seq, file, &value) };
        items.insert((keyspace, key.clone(), std::cmp::Reverse(seq), file), found);
    }
    items.into_values().collect()
}

/// A table against the sorted map that it was made of.
#[test]
fn a_table_is_the_sorted_map_of_its_records() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    for seed in seed.map_or(0..60, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        let mut random = Seeded::new(seed);
        let items = random_items(&mut random);
        let absent = random_items(&mut random);
        let group_bytes = [16, 200, 8192, 1 << 20][random.index(4)];
        let bench = Bench::new();
        let options = Bench::options(&[1, 5, 1 << 40], group_bytes);
        let (written, places) = bench.write(&options, &items).unwrap();
        let table = bench.open_sealed(&written).unwrap();
        verify(&table, Purpose::Verify, &mut |_| Ok(())).unwrap();
        let seen = walk(&table, 1 + random.below(CHUNK_BYTES)).unwrap();
        assert!(seen.iter().map(|(item, _)| item.rank()).eq(items.iter().map(Item::rank)));
        for (number, item) in items.iter().enumerate() {
            assert!(seen[number].0.value == item.value);
            let wanted = item.wanted(places[number]);
            assert!(*table.get(&wanted, Purpose::Read).unwrap() == *item.value);
            let stale = item.wanted(TablePlace { offset: 300, bytes: 30 });
            let found = table.find(&stale, Purpose::Read).unwrap().unwrap();
            assert_eq!(found.place, places[number]);
            assert!(*found.value().unwrap() == *item.value);
        }
        for item in &absent {
            let there = items.iter().any(|other| other.rank() == item.rank());
            let wanted = item.wanted(TablePlace { offset: 300, bytes: 30 });
            assert_eq!(table.find(&wanted, Purpose::Read).unwrap().is_some(), there);
        }
    }
}
