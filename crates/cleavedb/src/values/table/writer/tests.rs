//! What a writer refuses, what it leaves behind, and what it takes.

use super::*;
use crate::base::error::ErrorKind;
use crate::io::fault_disk::{Fault, FaultDisk, FaultPlan};
use crate::io::memory_disk::CrashMode;
use crate::log::testing::disk;
use crate::values::table::testing::{Bench, CONTAINER, Item, item, some_items, sources};

#[test]
fn the_same_records_make_the_same_bytes() {
    let items = some_items();
    let options = Bench::options(&sources(&items), 200);
    let bytes = [(); 2].map(|()| {
        let bench = Bench::new();
        bench.write(&options, &items).unwrap();
        bench.bytes()
    });
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn what_is_written_is_stated() {
    let items = some_items();
    let bench = Bench::new();
    let options = Bench::options(&[8, 5, 6, 7, 5], 200);
    let (written, places) = bench.write(&options, &items).unwrap();
    assert_eq!(written.sealed.bytes, bench.bytes().len() as u64);
    assert_eq!(written.sealed.id, CONTAINER);
    let Properties { totals, edges, sources } = &written.properties;
    assert_eq!(totals.records, items.len() as u64);
    assert_eq!(totals.record_bytes, places.iter().map(|place| u64::from(place.bytes)).sum::<u64>());
    assert_eq!(totals.key_bytes, items.iter().map(|item| item.key.len() as u64).sum::<u64>());
    assert_eq!(totals.value_bytes, items.iter().map(|item| item.value.len() as u64).sum::<u64>());
    assert_eq!((totals.smallest_seq, totals.largest_seq), (3, 100));
    let (first, last) = edges.as_ref().unwrap();
    assert_eq!((first.keyspace.0, &*first.key), (1, &b""[..]));
    assert_eq!((last.keyspace.0, &*last.key), (300, &b"key 009"[..]));
    let by_file: Vec<_> = sources.iter().map(|source| (source.file.0, source.records)).collect();
    assert_eq!(by_file, [(5, 12), (6, 12), (7, 0), (8, 2)]);
    for places in places.windows(2) {
        let end = places[0].offset + padded(u64::from(places[0].bytes));
        assert_eq!(places[1].offset, end);
        assert_eq!(end % PLACE_BYTES, 0);
    }
    assert_eq!(places[0].offset, HEADER_BYTES as u64);
}

#[test]
fn records_out_of_order_and_of_other_files_are_refused() {
    let base = item(2, b"m", 50, 5, b"value");
    let changes: [fn(&mut Item); 5] = [
        |_| {},
        |item| item.keyspace = 1,
        |item| item.key = b"l".to_vec(),
        |item| item.seq = 51,
        |item| item.file = 4,
    ];
    for change in changes {
        let bench = Bench::new();
        let mut writer = bench.create(&Bench::options(&[4, 5], 200)).unwrap();
        base.add_to(&mut writer).unwrap();
        let mut next = base.clone();
        change(&mut next);
        let error = next.add_to(&mut writer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.file(), Some(Bench::path(CONTAINER).as_path()));
        assert!(error.offset().is_some());
    }
    let bench = Bench::new();
    let mut writer = bench.create(&Bench::options(&[4], 200)).unwrap();
    let error = base.add_to(&mut writer).unwrap_err();
    assert!(error.message().contains("not merged here"), "{error}");
    assert!(bench.create(&Bench::options(&[], 200)).is_err());
    assert!(bench.create(&Bench::options(&[0, 5], 200)).is_err());
}

#[test]
fn a_moved_copy_and_its_origin_may_stand_side_by_side() {
    let bench = Bench::new();
    let items = [item(1, b"k", 9, 4, b"value"), item(1, b"k", 9, 5, b"value")];
    let (written, places) = bench.write(&Bench::options(&[4, 5], 16), &items).unwrap();
    let table = bench.open_sealed(&written).unwrap();
    for (item, place) in items.iter().zip(&places) {
        let found = table.find(&item.wanted(*place), Purpose::Read).unwrap().unwrap();
        assert_eq!((found.place, found.record().unwrap().file.0), (*place, item.file));
    }
}

#[test]
fn a_table_of_no_records_is_one() {
    let bench = Bench::new();
    let (written, _) = bench.write(&Bench::options(&[4, 5], 200), &[]).unwrap();
    bench.verify_bytes(&bench.bytes()).unwrap();
    let table = bench.open_sealed(&written).unwrap();
    assert_eq!(table.properties().sources.len(), 2);
    let absent = item(1, b"k", 9, 4, b"");
    let place = TablePlace { offset: 128, bytes: 32 };
    assert!(table.find(&absent.wanted(place), Purpose::Read).unwrap().is_none());
    assert!(table.get(&absent.wanted(place), Purpose::Read).is_err());
}

#[test]
fn an_unfinished_table_goes_away() {
    let bench = Bench::new();
    let mut writer = bench.create(&Bench::options(&[5], 200)).unwrap();
    item(2, b"m", 50, 5, b"value").add_to(&mut writer).unwrap();
    assert_eq!(bench.disk.files().len(), 1);
    drop(writer);
    assert_eq!(bench.disk.files().len(), 0);
    assert_eq!(bench.io.meter.bytes_held(Purpose::Collection), 0);
}

#[test]
fn a_finished_table_survives_the_loss_of_everything_unsynced() {
    let bench = Bench::new();
    let items = some_items();
    bench.write(&Bench::options(&sources(&items), 200), &items).unwrap();
    let bytes = bench.bytes();
    for mode in CrashMode::ALL {
        for seed in 0..5 {
            let image = bench.disk.crash_image(mode, seed);
            assert!(image.contents(Bench::path(CONTAINER)) == bytes, "{mode:?}, seed {seed}");
        }
    }
}

/// Every call of a table's life fails once: an error comes out that names the file, and nothing
/// stays behind that was not finished.
#[test]
fn every_failing_call_is_reported() {
    let items: Vec<_> =
        (0..50_u64).map(|n| item(1, &[n as u8], n + 1, 5, &[b'v'; 30_000])).collect();
    let mut failures = 0;
    for call in 1.. {
        let disk = disk();
        let faults = FaultDisk::over(&disk);
        let bench = Bench::over(disk, crate::log::testing::io_over(faults.clone()));
        let plan = FaultPlan { kind: None, at: call, fault: Fault::Eio, persistent: false };
        faults.set_plan(Some(plan));
        let outcome = bench.write(&Bench::options(&[5], 4096), &items);
        if faults.triggered() == 0 {
            assert!(outcome.is_ok());
            break;
        }
        failures += 1;
        let error = outcome.expect_err("a failing call is reported");
        assert!(error.file().is_some(), "{error}");
        assert_eq!(bench.disk.files().len(), 0, "call {call} leaves a file behind");
    }
    assert!(failures >= 9, "only {failures} calls could be made to fail");
}

#[test]
fn memory_stays_bounded_whatever_is_written() {
    let bench = Bench::new();
    let mut writer = bench.create(&Bench::options(&[5], GROUP_BYTES)).unwrap();
    let value = vec![b'v'; 3 << 20];
    let mut held_max = 0;
    for number in 0..24_u64 {
        item(1, &number.to_be_bytes(), number + 1, 5, &value).add_to(&mut writer).unwrap();
        held_max = held_max.max(bench.io.meter.bytes_held(Purpose::Collection));
        assert!(writer.estimated_bytes() >= (number + 1) * (3 << 20));
    }
    assert!(held_max < 1 << 20, "{held_max} bytes held for values of 3 MiB");
    let written = writer.finish().unwrap();
    assert_eq!(bench.io.meter.bytes_written(Purpose::Collection), written.sealed.bytes);
    assert_eq!(bench.io.meter.bytes_held(Purpose::Collection), 0);
}

#[test]
fn a_body_that_is_wrong_is_found_by_the_next_reader() {
    // In builds that check it where it comes in, that is earlier.
    let original = item(1, b"k", 9, 5, b"value").segment_bytes();
    let record = SeparatedRecord::decode(&original).unwrap();
    let mut out = Vec::new();
    encode_front(&mut out, FileId(5), &record, record.body(), (9, 128));
    out.extend_from_slice(b"other");
    let found = crate::values::table::format::TableRecord::decode_first(&out).unwrap();
    assert_eq!(found.proven_body(9, 128), None);
}
