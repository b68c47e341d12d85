//! A table whose checksums all hold and that still says what is not so is refused.

use super::*;
use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::put_varint;
use crate::base::error::ErrorKind;
use crate::log::testing::UUID;
use crate::values::table::format::{HEADER_BYTES, TRAILER_BYTES, Trailer};
use crate::values::table::testing::{Bench, CONTAINER, some_items, sources};

/// A table in parts, to be put together with right checksums.
struct Parts {
    /// Header and records.
    front: Vec<u8>,
    index: Vec<u8>,
    properties: Vec<u8>,
    trailer: Trailer,
}

fn parts(group_bytes: u64) -> (Bench, Parts) {
    let (bench, items) = (Bench::new(), some_items());
    bench.write(&Bench::options(&sources(&items), group_bytes), &items).unwrap();
    let bytes = bench.bytes();
    let offset = bytes.len() - TRAILER_BYTES;
    let seed = file_seed(&UUID, CONTAINER.0);
    let (trailer, _) = Trailer::decode(&bytes[offset..], seed, offset as u64).unwrap();
    let (records_end, properties_at) =
        (trailer.records_end as usize, trailer.properties_offset() as usize);
    let parts = Parts {
        front: bytes[..records_end].to_vec(),
        index: bytes[records_end..properties_at].to_vec(),
        properties: bytes[properties_at..offset].to_vec(),
        trailer,
    };
    (bench, parts)
}

fn joined(parts: &Parts) -> Vec<u8> {
    let seed = file_seed(&UUID, CONTAINER.0);
    let mut trailer = parts.trailer;
    trailer.records_end = parts.front.len() as u64;
    trailer.index_bytes = parts.index.len() as u64;
    trailer.properties_bytes = parts.properties.len() as u64;
    trailer.index_checksum = crc_at(seed, trailer.records_end, &parts.index);
    trailer.properties_checksum = crc_at(seed, trailer.properties_offset(), &parts.properties);
    let bytes = trailer.encode(seed, trailer.offset()).0;
    [parts.front.as_slice(), &parts.index, &parts.properties, &bytes].concat()
}

fn refused(bench: &Bench, parts: &Parts, what: &str) {
    let error = bench.verify_bytes(&joined(parts)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains(what), "{error}");
    assert!(error.file().is_some() && error.offset().is_some(), "{error}");
}

#[test]
fn what_was_taken_apart_is_put_together() {
    let (bench, parts) = parts(200);
    let bytes = bench.bytes();
    assert!(joined(&parts) == bytes);
    bench.verify_bytes(&bytes).unwrap();
}

#[test]
fn an_index_that_leads_elsewhere_is_refused() {
    let (bench, mut wrong) = parts(200);
    let (_, other) = parts(400);
    wrong.index = other.index;
    bench.verify_bytes(&joined(&wrong)).unwrap_or_else(|e| panic!("other groups are fine: {e}"));
    // One group over everything, whose bound does not reach the end, or is that of a group before.
    let (bench, mut wrong) = parts(200);
    let places = (wrong.front.len() - HEADER_BYTES) as u64 / 16;
    for key in [&b"key 008"[..], b"apple"] {
        let mut index = vec![1, 0xac, 2, 0, key.len() as u8];
        index.extend_from_slice(key);
        index.push(0);
        put_varint(&mut index, places);
        wrong.index = index;
        refused(&bench, &wrong, "does not lead to a record");
    }
}

#[test]
fn a_group_that_begins_too_late_is_refused() {
    let (bench, mut wrong) = parts(200);
    // Two groups: the first one's bound is beyond the first record of the second.
    let places = (wrong.front.len() - HEADER_BYTES) as u64 / 16;
    let mut index = vec![2, 1, 0, 5];
    index.extend_from_slice(b"zebra");
    // The first record takes 64 bytes, the second one is under "apple".
    index.extend_from_slice(&[0, 4, 0xac, 2, 0, 1, b'z', 0]);
    put_varint(&mut index, places - 4);
    wrong.index = index;
    refused(&bench, &wrong, "does not lead to a record");
}

#[test]
fn properties_of_another_table_are_refused() {
    let (bench, parts) = parts(200);
    let stated = Properties::decode(&parts.properties, u64::MAX).err();
    assert!(stated.is_some(), "the region is compared");
    let region_bytes = parts.front.len() as u64 - HEADER_BYTES as u64;
    let stated = Properties::decode(&parts.properties, region_bytes).unwrap();
    let changes: [fn(&mut Properties); 6] = [
        |properties| properties.totals.key_bytes -= 1,
        |properties| properties.totals.value_bytes += 1,
        |properties| properties.totals.largest_seq += 1,
        |properties| properties.totals.smallest_seq -= 1,
        |properties| {
            properties.sources[0].records += 1;
            properties.sources[1].records -= 1;
        },
        |properties| {
            if let Some((_, last)) = &mut properties.edges {
                last.key = b"zebra".as_slice().into();
            }
        },
    ];
    for change in changes {
        let mut changed = stated.clone();
        change(&mut changed);
        let wrong = Parts {
            front: parts.front.clone(),
            index: parts.index.clone(),
            properties: changed.encode(),
            trailer: parts.trailer,
        };
        refused(&bench, &wrong, "properties are those of another");
    }
    let mut changed = stated.clone();
    changed.sources.remove(0);
    changed.sources[0].records += stated.sources[0].records;
    changed.sources[0].bytes += stated.sources[0].bytes;
    let (front, index) = (parts.front.clone(), parts.index.clone());
    let wrong = Parts { front, index, properties: changed.encode(), trailer: parts.trailer };
    refused(&bench, &wrong, "a record of a file that the table does not name");
}

#[test]
fn the_trailer_of_other_records_is_refused() {
    let (bench, mut wrong) = parts(200);
    wrong.trailer.records_checksum ^= 1;
    refused(&bench, &wrong, "trailer is that of another");
}

#[test]
fn records_that_do_not_ascend_are_refused() {
    let (bench, mut wrong) = parts(1 << 20);
    // The last record twice: the second time bound to its place.
    let seed = file_seed(&UUID, CONTAINER.0);
    let table = bench.open().unwrap();
    let mut scan = TableScan::new(&table, 4096, Purpose::Verify).unwrap();
    let mut last = Vec::new();
    while let Some(scanned) = scan.next_record().unwrap() {
        let at = wrong.front.len() as u64;
        let inner = scanned.record.record;
        last.clear();
        let place = (seed, at);
        crate::values::table::format::encode_front(
            &mut last,
            scanned.record.file,
            &inner,
            scanned.body,
            place,
        );
        last.extend_from_slice(inner.stored);
    }
    last.resize(padded(last.len() as u64) as usize, 0);
    wrong.front.extend_from_slice(&last);
    let region_bytes = wrong.front.len() as u64 - HEADER_BYTES as u64;
    let mut stated =
        Properties::decode(&wrong.properties, region_bytes - last.len() as u64).unwrap();
    let bytes = crate::values::table::format::stated_bytes(&last).unwrap();
    stated.totals.records += 1;
    stated.totals.record_bytes += bytes;
    stated.sources[1].records += 1;
    stated.sources[1].bytes += bytes;
    wrong.properties = stated.encode();
    let mut index = vec![1, 0xac, 2, 0, 1, b'z', 0];
    put_varint(&mut index, region_bytes / 16);
    wrong.index = index;
    refused(&bench, &wrong, "do not ascend");
}
