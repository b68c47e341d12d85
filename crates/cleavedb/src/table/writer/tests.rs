//! Tests of the writer: what it reports, refuses, makes durable and cleans up.

use proptest::prelude::*;

use super::*;
use crate::base::codec::Reader;
use crate::base::sync::Arc;
use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;
use crate::table::reader::BlockHandle;
use crate::table::reader::tests::{compression, items, tombstones};
use crate::table::testing::{Bench, Item, item, tombstone};
use crate::table::verify::VerifyEvent;

proptest! {
    #[test]
    fn the_meta_tells_what_was_written(
        items in items(),
        tombstones in tombstones(),
        compression in compression(),
    ) {
        let bench = Bench::new();
        let meta = bench.write(Bench::options(4, compression, 100), &items, &tombstones).unwrap();
        let count = |kind| items.iter().filter(|item| item.kind == kind).count() as u64;
        prop_assert_eq!(meta.bytes, bench.bytes(4).len() as u64);
        prop_assert_eq!(meta.entries, items.len() as u64);
        prop_assert_eq!(meta.tombstones, count(Kind::Delete));
        prop_assert_eq!(meta.merges, count(Kind::Merge));
        let mut checksum = Rolling::new(checksum::file_seed(&crate::table::testing::UUID, 4));
        checksum.update(&bench.bytes(4));
        prop_assert_eq!(meta.checksum, checksum.value());
        for Item { key, seq, .. } in &items {
            prop_assert!(meta.contains(key));
            prop_assert!((meta.smallest_seq..=meta.largest_seq).contains(seq));
        }
        for tombstone in &tombstones {
            prop_assert!(meta.contains(&tombstone.start));
            prop_assert!(tombstone.end <= meta.largest);
        }
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(TableMeta::decode(&mut reader).unwrap(), meta);
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn arbitrary_bytes_are_no_meta_but_never_panic(bytes: Vec<u8>) {
        let _ = TableMeta::decode(&mut Reader::new(&bytes));
    }
}

#[test]
fn entries_out_of_order_are_refused() {
    let a = |seq| item(b"a", seq, Kind::Put, b"");
    for pair in [[a(3), a(3)], [a(3), a(4)], [item(b"b", 1, Kind::Put, b""), a(9)]] {
        let bench = Bench::new();
        assert!(bench.write(Bench::options(4, Compression::None, 100), &pair, &[]).is_err());
        assert!(bench.disk.files().is_empty(), "the unfinished table is still there");
    }
}

#[test]
fn bounds_of_a_table_of_range_tombstones_only() {
    let bench = Bench::new();
    let tombstones = [tombstone(b"m", b"p", 7), tombstone(b"c", b"d", 9)];
    let meta = bench.write(Bench::options(4, Compression::None, 100), &[], &tombstones).unwrap();
    assert_eq!((&*meta.smallest, &*meta.largest), (&b"c"[..], &b"p"[..]));
    assert!(meta.largest_exclusive && meta.contains(b"o") && !meta.contains(b"p"));
    assert_eq!((meta.smallest_seq, meta.largest_seq, meta.entries), (7, 9, 0));
    let table = bench.open(&meta).unwrap();
    assert_eq!(table.tombstones().cover_seq(b"n", 100), 7);
}

#[test]
fn a_finished_table_survives_the_loss_of_everything_unsynced() {
    let bench = Bench::new();
    let items: Vec<_> = (0..200u8).map(|n| item(&[n], 5, Kind::Put, &[n; 30])).collect();
    let meta = bench.write(Bench::options(4, Compression::Lz4, 500), &items, &[]).unwrap();
    let bytes = bench.bytes(4);
    for mode in CrashMode::ALL {
        for seed in 0..5 {
            let image = bench.disk.crash_image(mode, seed);
            assert!(image.contents(Bench::path(4)) == bytes, "{mode:?}, seed {seed}");
        }
    }
    assert_eq!(bytes.len() as u64, meta.bytes);
}

#[test]
fn large_values_make_large_blocks() {
    let bench = Bench::new();
    let items = [
        item(b"a", 5, Kind::Put, b"small"),
        item(b"b", 5, Kind::Put, &vec![b'v'; 3 << 20]),
        item(&[b'c'; 60_000], 5, Kind::Put, b"small"),
    ];
    for compression in [Compression::None, Compression::Zstd] {
        let bench_options = Bench::options(4, compression, 4096);
        let meta = bench.write(bench_options, &items, &[]).unwrap();
        let table = bench.open(&meta).unwrap();
        for item in &items {
            let found = crate::table::testing::get(&table, &item.key, 9).unwrap().1.unwrap();
            assert!(found.2 == item.value);
        }
        bench.disk.remove(Bench::path(4)).unwrap();
    }
}

/// Pages that the blocks of a table of such values lie on, and its bytes by those it would take.
fn pages_of_blocks(value_bytes: impl Fn(u64) -> usize) -> (Vec<u64>, f64) {
    let bench = Bench::new();
    let item = |number: u64| {
        let value = vec![b'v'; value_bytes(number)];
        item(format!("key/{number:012}").as_bytes(), 1000 + number, Kind::Put, &value)
    };
    let items: Vec<_> = (0..3000).map(item).collect();
    let meta = bench.write(Bench::options(4, Compression::None, 4096), &items, &[]).unwrap();
    let table = bench.open(&meta).unwrap();
    table.verify(&mut |event| assert!(!matches!(event, VerifyEvent::Problem(_)), "{event:?}"));
    let extents: Vec<_> = (0..).map_while(|number| table.handle(number)).collect();
    let pages = |at: &BlockHandle| (at.extent.end() - 1) / 4096 - at.extent.offset / 4096 + 1;
    let padding = |at: &BlockHandle| {
        let stored = &bench.bytes(4)[at.extent.offset as usize..at.extent.end() as usize];
        format::decode_sealed(stored, table.seed, at.extent.offset).unwrap().padding as u64
    };
    let padded: u64 = extents.iter().map(padding).sum();
    (extents.iter().map(pages).collect(), meta.bytes as f64 / (meta.bytes - padded) as f64)
}

#[test]
fn blocks_end_with_pages_where_little_is_lost_by_it() {
    let (pages, grown) = pages_of_blocks(|_| 100);
    assert!(pages.iter().all(|&pages| pages == 1), "{pages:?}");
    assert!((1.001..1.03).contains(&grown), "{grown}");
    // Of mixed lengths, few ends of pages are missed.
    let (pages, grown) = pages_of_blocks(|number| (number * 7919 % 400) as usize);
    let whole = pages.iter().filter(|&&pages| pages == 1).count();
    assert!(10 * whole > 8 * pages.len(), "{whole} of {}", pages.len());
    assert!((1.001..1.06).contains(&grown), "{grown}");
    // Three of such values fill three quarters of a page: the last quarter is not given away.
    let (pages, grown) = pages_of_blocks(|_| 1024);
    assert!(pages.contains(&2) && grown < 1.01, "{grown}");
}

/// Every call of a table's life fails once: an error comes out, and no file stays behind that was
/// not finished.
#[test]
fn every_failing_call_is_reported() {
    let items: Vec<_> = (0..50u8).map(|n| item(&[n], 5, Kind::Put, &[n; 30])).collect();
    let mut failures = 0;
    for call in 1.. {
        let mut bench = Bench::new();
        let faults = FaultDisk::over(&bench.disk);
        let plan = FaultPlan { kind: None, at: call, fault: Fault::Eio, persistent: false };
        faults.set_plan(Some(plan));
        bench.io = Io::simulated(Arc::new(faults.clone()));
        let outcome = bench.write(Bench::options(4, Compression::None, 200), &items, &[]);
        if faults.triggered() == 0 {
            assert!(outcome.is_ok());
            break;
        }
        failures += 1;
        assert!(outcome.is_err(), "call {call} failed without notice");
    }
    assert!(failures >= 4, "only {failures} calls could be made to fail");
}

#[test]
fn the_memory_of_a_table_in_the_making_is_counted() {
    const KEYS: u32 = 10_000;
    let bench = Bench::new();
    let held = || bench.io.meter.bytes_held(Purpose::Flush);
    let unfinished = || {
        let options = Bench::options(4, Compression::None, 400);
        let mut writer = TableWriter::create(&bench.io, &Bench::path(4), options).unwrap();
        for number in 0..KEYS {
            writer.add(&number.to_be_bytes(), 5, Kind::Put, b"").unwrap();
        }
        writer
    };
    let writer = unfinished();
    assert!(held() >= 8 * u64::from(KEYS), "{} bytes", held());
    drop(writer);
    assert_eq!(held(), 0);
    let writer = unfinished();
    let other = {
        let options = Bench::options(5, Compression::None, 400);
        TableWriter::create(&bench.io, &Bench::path(5), options).unwrap()
    };
    writer.finish().unwrap();
    drop(other);
    assert_eq!(held(), 0);
}
