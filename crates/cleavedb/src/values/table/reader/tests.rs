//! By place with one read, by key with two or one; every damage is noticed, and no other entry's
//! value ever comes out.

use super::*;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::ErrorKind;
use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
use crate::values::table::testing::{Bench, CONTAINER, Item, item, noise, some_items, sources};
use crate::values::table::writer::WrittenTable;

struct World {
    bench: Bench,
    items: Vec<Item>,
    written: WrittenTable,
    places: Vec<TablePlace>,
}

fn world(group_bytes: u64) -> World {
    let (bench, items) = (Bench::new(), some_items());
    let options = Bench::options(&sources(&items), group_bytes);
    let (written, places) = bench.write(&options, &items).unwrap();
    World { bench, items, written, places }
}

#[test]
fn a_handle_of_the_present_epoch_is_one_read() {
    let World { bench, items, written, places } = world(200);
    let table = bench.open_sealed(&written).unwrap();
    for (item, place) in items.iter().zip(&places) {
        let before = bench.io.meter.read_calls(Purpose::Read);
        let read_before = bench.io.meter.bytes_read(Purpose::Read);
        let value = table.get(&item.wanted(*place), Purpose::Read).unwrap();
        assert!(*value == *item.value);
        assert_eq!(bench.io.meter.read_calls(Purpose::Read), before + 1);
        let read = bench.io.meter.bytes_read(Purpose::Read) - read_before;
        assert_eq!(read, u64::from(place.bytes), "nothing but the record");
    }
    assert_eq!(table.index_memory_bytes(), 0, "the index is not needed for that");
}

#[test]
fn what_is_stored_as_it_is_is_handed_out_without_a_copy() {
    let World { bench, items, written, places } = world(200);
    let table = bench.open_sealed(&written).unwrap();
    let found = table.find(&items[1].wanted(places[1]), Purpose::Read).unwrap().unwrap();
    let value = found.value().unwrap();
    assert!(found.owner.as_ptr_range().contains(&value.as_bytes().as_ptr()));
}

#[test]
fn a_search_is_two_reads_the_first_time_and_one_later() {
    for group_bytes in [16, 200, 4096, 1 << 20] {
        let World { bench, items, written, places } = world(group_bytes);
        let table = bench.open_sealed(&written).unwrap();
        for (number, (item, place)) in items.iter().zip(&places).enumerate() {
            let before = bench.io.meter.read_calls(Purpose::Read);
            // The place of an older epoch says nothing.
            let stale = TablePlace { offset: 7, bytes: 9 };
            let found = table.find(&item.wanted(stale), Purpose::Read).unwrap().unwrap();
            assert_eq!(found.place, *place);
            assert!(*found.value().unwrap() == *item.value);
            let reads = bench.io.meter.read_calls(Purpose::Read) - before;
            assert_eq!(reads, if number == 0 { 2 } else { 1 }, "groups of {group_bytes}");
        }
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    for group_bytes in [16, 200, 4096] {
        let World { bench, items, written, places } = world(group_bytes);
        let table = bench.open_sealed(&written).unwrap();
        for item in &items {
            let changes: [fn(&mut Item); 5] = [
                |item| item.seq += 1000,
                |item| item.file += 100,
                |item| item.keyspace += 1,
                |item| item.key.push(0),
                |item| item.key.push(0xff),
            ];
            for change in changes {
                let mut other = item.clone();
                change(&mut other);
                let found = table.find(&other.wanted(places[0]), Purpose::Read).unwrap();
                assert!(found.is_none(), "{other:?}");
            }
        }
    }
}

#[test]
fn a_place_is_enough_in_what_was_read() {
    let World { bench, items, written, places } = world(200);
    let table = bench.open_sealed(&written).unwrap();
    let whole: SharedBytes = SharedArc::new(bench.bytes()).into();
    for (item, place) in items.iter().zip(&places) {
        let (record, start) = table.record_in(&whole, 0, place.offset).unwrap();
        assert_eq!((start as u64, record.bytes() as u32), (place.offset, place.bytes));
        assert_eq!(record.rank(), item.rank());
        assert!(*shared_value(&record, &whole, start).unwrap() == *item.value);
        // One place further there is no record.
        assert!(table.record_in(&whole, 0, place.offset + PLACE_BYTES).is_err());
    }
    for offset in [0, 112, 129, table.records_end(), written.sealed.bytes, u64::MAX] {
        let error = table.record_in(&whole, 0, offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn the_record_of_another_entry_is_corruption() {
    let World { bench, items, written, places } = world(200);
    let table = bench.open_sealed(&written).unwrap();
    let wanted = items[2].wanted(places[2]);
    table.get(&wanted, Purpose::Read).unwrap();
    let mut others = vec![
        Wanted { keyspace: KeyspaceId(2), ..wanted },
        Wanted { key: b"appl", ..wanted },
        Wanted { seq: wanted.seq + 1, ..wanted },
    ];
    let mut handle = wanted.handle;
    handle.file = FileId(items[2].file + 1);
    others.push(Wanted { handle, ..wanted });
    for change in [16_i64, -16, 8, 1 << 40, -128] {
        let mut handle = wanted.handle;
        handle.offset = handle.offset.saturating_add_signed(change);
        others.push(Wanted { handle, ..wanted });
    }
    for change in [1_i32, -1, 1 << 30] {
        let mut handle = wanted.handle;
        handle.bytes = handle.bytes.saturating_add_signed(change);
        others.push(Wanted { handle, ..wanted });
    }
    for other in others {
        let error = table.get(&other, Purpose::Read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{other:?}");
        assert_eq!(error.file(), Some(Bench::path(CONTAINER).as_path()));
        assert_eq!(error.offset(), Some(other.handle.offset));
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let World { bench, .. } = world(200);
    let bytes = bench.bytes();
    bench.verify_bytes(&bytes).unwrap();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            let error = bench.verify_bytes(&damaged).err();
            let error = error.unwrap_or_else(|| panic!("byte {at} is not noticed"));
            assert!(error.file().is_some() && error.offset().is_some(), "byte {at}: {error}");
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
        }
    }
}

#[test]
fn every_other_length_is_an_error() {
    let World { bench, written, .. } = world(200);
    let bytes = bench.bytes();
    for length in 0..bytes.len() {
        let error = bench.verify_bytes(&bytes[..length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{length} bytes: {error}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(bench.verify_bytes(&longer).is_err());
    assert!(bench.open_sealed(&written).is_err());
    bench.disk.remove(Bench::path(CONTAINER)).unwrap();
    let error = bench.open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn another_table_under_the_same_number_is_refused() {
    let World { bench, items, written, .. } = world(200);
    let sealed = written.sealed;
    for other in [
        Sealed { checksum: sealed.checksum ^ 1, ..sealed },
        Sealed { bytes: sealed.bytes + 1, ..sealed },
        Sealed { id: FileId(18), ..sealed },
    ] {
        let file = bench.file(CONTAINER);
        let opened = TableFile::open(&file, Some(&other), &bench.indexes, Purpose::Read);
        assert_eq!(opened.err().map(|e| e.kind()), Some(ErrorKind::Corruption), "{other:?}");
    }
    // One stored byte of one record makes another checksum of the whole file.
    let mut others = items.clone();
    others[7].value[3] ^= 1;
    let second = Bench::new();
    let options = Bench::options(&sources(&others), 200);
    let (other, _) = second.write(&options, &others).unwrap();
    assert_ne!(other.sealed.checksum, sealed.checksum);
    let table = bench.open_sealed(&written).unwrap();
    assert_eq!(table.sealed(), sealed);
}

#[test]
fn a_damaged_record_is_an_error_for_a_get_and_a_search() {
    let World { bench, items, written, places } = world(200);
    let bytes = bench.bytes();
    for (item, place) in items.iter().zip(&places) {
        for at in [0, 3, u64::from(place.bytes) / 2, u64::from(place.bytes) - 1] {
            let mut damaged = bytes.clone();
            damaged[(place.offset + at) as usize] ^= 0x20;
            bench.disk.replace(Bench::path(CONTAINER), damaged).unwrap();
            let table = bench.open_sealed(&written).unwrap();
            let error = table.get(&item.wanted(*place), Purpose::Read).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(place.offset)));
            // Also where the flip makes the key another one: damage is never "not found".
            let error = table.find(&item.wanted(*place), Purpose::Read).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at} of {item:?}");
        }
    }
}

#[test]
fn every_failing_read_names_file_and_offset() {
    let World { bench, items, written, places } = world(200);
    let faults = FaultDisk::over(&bench.disk);
    let bench = Bench::over(bench.disk.clone(), crate::log::testing::io_over(faults.clone()));
    let work = || -> Result<()> {
        let table = bench.open_sealed(&written)?;
        for (item, place) in items.iter().zip(&places).step_by(5) {
            assert!(*table.get(&item.wanted(*place), Purpose::Read)? == *item.value);
            let found = table.find(&item.wanted(*place), Purpose::Read)?;
            assert!(*found.expect("found").value()? == *item.value);
        }
        Ok(())
    };
    for fault in [Fault::Eio, Fault::ShortRead, Fault::Eintr, Fault::BitFlip] {
        let mut failures = 0;
        for at in 1.. {
            let (kind, before) = (Some(CallKind::Read), faults.triggered());
            faults.set_plan(Some(FaultPlan { kind, at, fault, persistent: false }));
            let outcome = work();
            if faults.triggered() == before {
                outcome.unwrap();
                break;
            }
            match fault {
                Fault::Eio | Fault::BitFlip => {
                    let Err(error) = outcome else {
                        // A flip in what a search read besides its record.
                        assert_eq!(fault, Fault::BitFlip);
                        continue;
                    };
                    let kinds = [ErrorKind::Io, ErrorKind::Corruption];
                    assert_eq!(error.kind(), kinds[usize::from(fault == Fault::BitFlip)]);
                    assert!(error.file().is_some() && error.offset().is_some(), "{error}");
                    failures += 1;
                }
                _ => outcome.unwrap(),
            }
        }
        let fails = matches!(fault, Fault::Eio | Fault::BitFlip);
        assert_eq!(failures > 10, fails, "{fault:?}: {failures}");
    }
}

#[test]
fn indexes_give_way_to_one_another() {
    let bench = Bench::new();
    let items: Vec<_> =
        (0..300_u64).map(|n| item(1, &n.to_be_bytes(), n + 1, 5, b"value")).collect();
    let tables: Vec<_> = (20..25)
        .map(|id| {
            let options = crate::values::table::writer::ValueTableOptions {
                container: FileId(id),
                ..Bench::options(&[5], 64)
            };
            let (written, places) = bench.write(&options, &items).unwrap();
            (written, places)
        })
        .collect();
    let one_bytes = {
        let table = bench.open_sealed(&tables[0].0).unwrap();
        table.find(&items[0].wanted(tables[0].1[0]), Purpose::Read).unwrap().unwrap();
        table.index_memory_bytes()
    };
    let indexes = LoadedIndexes::new(2 * one_bytes + one_bytes / 2);
    let open = |written: &WrittenTable| {
        let file = bench.file(written.sealed.id);
        TableFile::open(&file, Some(&written.sealed), &indexes, Purpose::Read).unwrap()
    };
    let opened: Vec<_> = tables.iter().map(|(written, _)| open(written)).collect();
    for round in 0..3 {
        for (table, (_, places)) in opened.iter().zip(&tables) {
            let number = 100 * round;
            let wanted = items[number].wanted(places[number]);
            table.find(&wanted, Purpose::Read).unwrap().unwrap();
            let loaded = opened.iter().filter(|table| table.index_memory_bytes() > 0).count();
            assert!((1..=2).contains(&loaded), "{loaded} indexes are loaded");
        }
    }
    assert!(opened[4].index_memory_bytes() > 0, "the one loaded last stays");
}

#[test]
fn records_of_every_size_come_back_from_a_real_disk_direct_or_not() {
    use crate::io::context::native_io;
    use crate::values::file::{OpenFiles, ValueContext};
    let mut random = crate::io::seeded::Seeded::new(3);
    let lengths = [0, 1, 100, 4000, 70_000, 1 << 20, (1 << 20) + 5, 8 << 20];
    let mut items: Vec<_> = lengths
        .iter()
        .map(|&length| {
            let key_bytes = [1, 16, 65_535][random.index(3)];
            let (key, value) = (noise(&mut random, key_bytes), noise(&mut random, length));
            item(1, &key, 1 + length as u64, 5, &value)
        })
        .collect();
    items.sort_by(|a, b| a.rank().cmp(&b.rank()));
    for direct in [false, true] {
        let io = native_io(1, 0).unwrap();
        let dir = tempfile::tempdir_in(".").unwrap();
        let context = crate::base::sync::Arc::new(ValueContext {
            io: io.clone(),
            dir: dir.path().to_owned(),
            uuid: crate::log::testing::UUID,
            obsolete: Default::default(),
            hole_block_bytes: 4096,
            table_indexes: LoadedIndexes::new(1 << 20),
            repairs: crate::values::repairs::Repairs::new(1 << 16),
            direct_reads: direct,
            open_files: Arc::new(OpenFiles::new(2)),
            cache: crate::values::cache::ValueCache::new(&crate::base::sync::Arc::new(
                crate::table::BlockCache::new(1 << 20),
            )),
        });
        let file = ValueFile::new(&context, crate::base::names::FileKind::ValueTable, CONTAINER);
        let options = crate::values::table::writer::ValueTableOptions {
            direct,
            ..Bench::options(&[5], crate::values::table::writer::GROUP_BYTES)
        };
        let mut writer =
            crate::values::table::writer::ValueTableWriter::create(&io, file.path(), &options)
                .unwrap();
        let places: Vec<_> = items.iter().map(|item| item.add_to(&mut writer).unwrap()).collect();
        let written = writer.finish().unwrap();
        let indexes = LoadedIndexes::new(1 << 20);
        let table = TableFile::open(&file, Some(&written.sealed), &indexes, Purpose::Read).unwrap();
        for (item, place) in items.iter().zip(&places) {
            assert!(*table.get(&item.wanted(*place), Purpose::Read).unwrap() == *item.value);
            let found = table.find(&item.wanted(*place), Purpose::Read).unwrap().unwrap();
            assert_eq!(found.place, *place);
        }
        let mut seen = 0;
        let mut count = |_: &crate::values::table::scan::ScannedRecord<'_>| {
            seen += 1;
            Ok(())
        };
        crate::values::table::verify::verify(&table, Purpose::Verify, &mut count).unwrap();
        assert_eq!(seen, items.len());
        io.executor.shutdown();
    }
}
