//! Damage of every byte and length: found, and never a wrong value.

use proptest::prelude::*;

use super::*;
use crate::base::compress::Compression;
use crate::base::cursor::Cursor as _;
use crate::base::entry::{Kind, SEQ_MAX};
use crate::base::error::ErrorKind;
use crate::base::tombstone::RangeTombstone;
use crate::table::cursor::{Readahead, TableCursorOptions};
use crate::table::meta::TableMeta;
use crate::table::reader::tests::{compression, items, tombstones};
use crate::table::testing::{Bench, Item, expected, get, item, tombstone};

/// Checked bytes and findings.
fn verify(table: &TableReader) -> (u64, Vec<Error>) {
    let (mut bytes, mut problems) = (0, Vec::new());
    table.verify(&mut |event| match event {
        VerifyEvent::Checked(more) => bytes += more,
        VerifyEvent::Problem(error) => problems.push(error),
    });
    (bytes, problems)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_sound_table_passes_with_every_byte_checked(
        items in items(),
        tombstones in tombstones(),
        compression in compression(),
        block_bytes in 1usize..300,
    ) {
        let bench = Bench::new();
        let options = Bench::options(5, compression, block_bytes);
        let meta = bench.write(options, &items, &tombstones).unwrap();
        let (checked, problems) = verify(&bench.open(&meta).unwrap());
        prop_assert!(problems.is_empty(), "{problems:?}");
        prop_assert_eq!(checked, meta.bytes);
    }
}

/// A small table with every kind of part: several blocks, a key split over blocks, tombstones.
fn small(bench: &Bench, compression: Compression) -> (TableMeta, Vec<Item>, Vec<RangeTombstone>) {
    let mut items = vec![item(b"aaaa", 3, Kind::Put, b"first"), item(b"aab", 4, Kind::Delete, b"")];
    for seq in (10..22).rev() {
        items.push(item(b"counter", seq, Kind::Merge, b"operand-operand"));
    }
    items.push(item(b"counter", 9, Kind::Put, b"zero"));
    items.push(item(b"data", 30, Kind::PutSeparated, b"handle"));
    items.push(item(b"eels", 31, Kind::Put, &[b'v'; 90]));
    let tombstones = vec![tombstone(b"aab", b"b", 2), tombstone(b"d", b"e", 40)];
    let options = Bench::options(9, compression, 80);
    let meta = bench.write(options, &items, &tombstones).unwrap();
    (meta, items, tombstones)
}

/// Reads everything; `Err` where the damage showed, `Ok` where every answer was right.
fn read_all(
    bench: &Bench,
    meta: &TableMeta,
    items: &[Item],
    tombstones: &[RangeTombstone],
) -> Result<()> {
    let table = bench.open(meta)?;
    let mut damage = Ok(());
    for item in items {
        for snapshot in [item.seq, SEQ_MAX] {
            match get(&table, &item.key, snapshot) {
                Ok(found) => {
                    assert_eq!(found, expected(items, tombstones, &item.key, snapshot));
                }
                Err(error) => damage = Err(error),
            }
        }
    }
    let options = TableCursorOptions {
        purpose: Purpose::Read,
        fill_cache: false,
        readahead: Readahead::Full,
    };
    let mut cursor = table.cursor(options);
    let mut at = 0;
    let mut outcome = cursor.seek_first();
    while outcome.is_ok() && cursor.valid() {
        assert_eq!(cursor.key(), items[at].key);
        assert_eq!((cursor.seq(), cursor.value()), (items[at].seq, items[at].value.as_slice()));
        at += 1;
        outcome = cursor.next();
    }
    assert!(outcome.is_err() || at == items.len());
    let (_, problems) = verify(&table);
    outcome.and(damage)?;
    match problems.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[test]
fn every_flipped_byte_is_found_and_no_wrong_value_comes_out() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bench = Bench::with_cache(0);
        let (meta, items, tombstones) = small(&bench, compression);
        read_all(&bench, &meta, &items, &tombstones).unwrap();
        let sound = bench.bytes(9);
        for at in 0..sound.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] ^= mask;
                bench.set_bytes(9, bytes);
                let error = read_all(&bench, &meta, &items, &tombstones).unwrap_err();
                assert!(error.file().is_some(), "byte {at}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            }
        }
    }
}

#[test]
fn every_truncation_is_found_at_open() {
    let bench = Bench::new();
    let (meta, ..) = small(&bench, Compression::None);
    let sound = bench.bytes(9);
    for length in 0..sound.len() {
        bench.set_bytes(9, sound[..length].to_vec());
        assert_eq!(bench.open(&meta).err().unwrap().kind(), ErrorKind::Corruption);
        // A manifest that agrees about the wrong length must not help.
        let lying = TableMeta { bytes: length as u64, ..meta.clone() };
        assert_eq!(bench.open(&lying).err().unwrap().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn damage_in_one_block_leaves_the_others_readable() {
    let bench = Bench::with_cache(0);
    let (meta, items, tombstones) = small(&bench, Compression::None);
    let mut bytes = bench.bytes(9);
    bytes[HEADER_BYTES + 3] ^= 4;
    bench.set_bytes(9, bytes);
    let table = bench.open(&meta).unwrap();
    assert!(get(&table, b"aaaa", SEQ_MAX).is_err());
    let wanted = expected(&items, &tombstones, b"eels", SEQ_MAX);
    assert_eq!(get(&table, b"eels", SEQ_MAX).unwrap(), wanted);
    let (checked, problems) = verify(&table);
    assert_eq!(checked, meta.bytes);
    assert!(problems.iter().any(|error| error.offset() == Some(HEADER_BYTES as u64)));
}

#[test]
fn a_table_in_another_tables_place_is_refused() {
    let bench = Bench::new();
    let (meta, items, _) = small(&bench, Compression::None);
    let other = bench.write(Bench::options(10, Compression::None, 80), &items, &[]).unwrap();
    bench.set_bytes(10, bench.bytes(9));
    let misplaced = TableMeta { file: other.file, ..meta };
    assert_eq!(bench.open(&misplaced).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn a_block_of_another_offset_is_refused() {
    // Two blocks of equal length, exchanged: each is sound by itself.
    let bench = Bench::with_cache(0);
    let items: Vec<_> = (0..4u8).map(|n| item(&[b'k', n], 5, Kind::Put, &[b'v'; 60])).collect();
    let meta = bench.write(Bench::options(9, Compression::None, 64), &items, &[]).unwrap();
    let table = bench.open(&meta).unwrap();
    let (a, b) = (table.handle(1).unwrap().extent, table.handle(2).unwrap().extent);
    assert_eq!(a.len, b.len);
    let mut bytes = bench.bytes(9);
    let len = a.len as usize;
    let (low, high) = bytes.split_at_mut(b.offset as usize);
    low[a.offset as usize..][..len].swap_with_slice(&mut high[..len]);
    bench.set_bytes(9, bytes);
    for item in &items[1..3] {
        assert!(get(&bench.open(&meta).unwrap(), &item.key, SEQ_MAX).is_err());
    }
}
