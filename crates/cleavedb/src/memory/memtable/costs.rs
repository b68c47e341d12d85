//! The hot operations, each in a function of its own, so that callgrind can count instructions:
//!
//! `valgrind --tool=callgrind --toggle-collect='*costs::get_all*' TEST_BINARY costs` with `COUNT`
//! entries, divided by `COUNT`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code")]

use super::*;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// 16-byte keys with a common prefix, in order or spread by an odd factor.
fn key(i: u64, factor: u64) -> [u8; 16] {
    let mut key = *b"user------------";
    let spread = i.wrapping_mul(factor);
    for (byte, shift) in key.iter_mut().skip(4).zip((0..12).rev().map(|digit| 4 * digit)) {
        *byte = b"0123456789abcdef"[(spread >> shift) as usize & 15];
    }
    key
}

#[inline(never)]
fn insert_in_order(memtable: &Memtable, keys: &[[u8; 16]], value: &[u8]) {
    for (key, seq) in keys.iter().zip(1..) {
        memtable.insert(KeyspaceId(2), key, seq, Kind::Put, value);
    }
}

#[inline(never)]
fn insert_spread(memtable: &Memtable, keys: &[[u8; 16]], value: &[u8]) {
    for (key, seq) in keys.iter().zip(1..) {
        memtable.insert(KEYSPACE, key, seq, Kind::Put, value);
    }
}

#[inline(never)]
fn get_all(memtable: &Memtable, keys: &[[u8; 16]]) -> usize {
    let found = |key: &&[u8; 16]| memtable.get(KEYSPACE, *key, &mut Lookup::new(SEQ_MAX));
    keys.iter().filter(found).count()
}

#[inline(never)]
fn get_missing(memtable: &Memtable, keys: &[[u8; 16]]) -> usize {
    let other = KeyspaceId(3);
    let found = |key: &&[u8; 16]| memtable.get(other, *key, &mut Lookup::new(SEQ_MAX));
    keys.iter().filter(found).count()
}

#[inline(never)]
fn walk_forwards(memtable: &Arc<Memtable>) -> usize {
    let mut cursor = memtable.cursor(KEYSPACE);
    let mut count = 0;
    cursor.seek_first().unwrap();
    while cursor.valid() {
        count += cursor.value().len();
        cursor.next().unwrap();
    }
    count
}

#[inline(never)]
fn walk_backwards(memtable: &Arc<Memtable>) -> usize {
    let mut cursor = memtable.cursor(KeyspaceId(2));
    let mut count = 0;
    cursor.seek_last().unwrap();
    while cursor.valid() {
        count += cursor.value().len();
        cursor.prev().unwrap();
    }
    count
}

#[test]
fn costs() {
    let count: u64 = std::env::var("COUNT").ok().and_then(|c| c.parse().ok()).unwrap_or(200);
    let sequential: Vec<_> = (0..count).map(|i| key(i, 1)).collect();
    let spread: Vec<_> = (0..count).map(|i| key(i, 0x9e37_79b9_7f4a_7c15)).collect();
    let value = [7u8; 100];
    let in_order = Memtable::new(1, 64 << 20);
    insert_in_order(&in_order, &sequential, &value);
    let memtable = Memtable::new(2, 64 << 20);
    insert_spread(&memtable, &spread, &value);
    assert_eq!(get_all(&memtable, &spread) as u64, count);
    assert_eq!(get_missing(&memtable, &spread), 0);
    assert_eq!(walk_forwards(&memtable), value.len() * spread.len());
    assert_eq!(walk_backwards(&in_order), value.len() * sequential.len());
    println!("entries={count} bytes_per_entry={}", memtable.memory_bytes() / count);
}
