//! Any moves of a cursor against a sorted vector.

use proptest::prelude::*;

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::compare_entries;
use crate::table::reader::tests::{compression, items, key};
use crate::table::testing::{Bench, Item, item};

#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(Vec<u8>, Seq),
    SeekBefore(Vec<u8>, Seq),
    Next(usize),
    Prev(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        3 => (key(), 0u64..70).prop_map(|(key, seq)| Move::Seek(key, seq)),
        3 => (key(), 0u64..70).prop_map(|(key, seq)| Move::SeekBefore(key, seq)),
        4 => (1usize..30).prop_map(Move::Next),
        4 => (1usize..30).prop_map(Move::Prev),
    ];
    prop::collection::vec(one, 1..40)
}

fn readahead() -> impl Strategy<Value = Readahead> {
    prop_oneof![
        Just(Readahead::None),
        Just(Readahead::Growing),
        Just(Readahead::Usual),
        Just(Readahead::Full)
    ]
}

fn check(cursor: &TableCursor, items: &[Item], at: Option<usize>) {
    let Some(item) = at.and_then(|at| items.get(at)) else {
        assert!(!cursor.valid());
        return;
    };
    assert!(cursor.valid());
    assert_eq!(cursor.key(), item.key);
    assert_eq!((cursor.seq(), cursor.kind()), (item.seq, item.kind));
    assert_eq!(cursor.value(), item.value);
    assert_eq!(cursor.value_owned(), item.value);
}

fn before(items: &[Item], key: &[u8], seq: Seq) -> usize {
    items.partition_point(|item| compare_entries((&item.key, item.seq), (key, seq)).is_lt())
}

/// Makes a move in the twin; `None` is "on nothing".
fn twin(items: &[Item], at: Option<usize>, step: &Move) -> Option<usize> {
    let at = match step {
        Move::First => Some(0),
        Move::Last => items.len().checked_sub(1),
        Move::Seek(key, seq) => Some(before(items, key, *seq)),
        Move::SeekBefore(key, seq) => before(items, key, *seq).checked_sub(1),
        Move::Next(_) => at.map(|at| at + 1),
        Move::Prev(_) => at.and_then(|at| at.checked_sub(1)),
    };
    at.filter(|&at| at < items.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_moves_agree_with_a_sorted_vector(
        items in items(),
        compression in compression(),
        block_bytes in 1usize..300,
        moves in moves(),
        fill_cache: bool,
        readahead in readahead(),
    ) {
        let bench = Bench::new();
        let meta = bench.write(Bench::options(5, compression, block_bytes), &items, &[]).unwrap();
        let table = bench.open(&meta).unwrap();
        let options = TableCursorOptions { purpose: Purpose::Read, fill_cache, readahead };
        let mut cursor = table.cursor(options);
        let mut at = None;
        for step in &moves {
            let times = match step {
                Move::Next(times) | Move::Prev(times) => *times,
                _ => 1,
            };
            for _ in 0..times {
                match step {
                    Move::First => cursor.seek_first(),
                    Move::Last => cursor.seek_last(),
                    Move::Seek(key, seq) => cursor.seek(key, *seq),
                    Move::SeekBefore(key, seq) => cursor.seek_before(key, *seq),
                    Move::Next(_) => cursor.next(),
                    Move::Prev(_) => cursor.prev(),
                }
                .unwrap();
                at = twin(&items, at, step);
                check(&cursor, &items, at);
            }
        }
    }
}

#[test]
fn what_is_read_ahead_is_counted_as_memory() {
    let bench = Bench::new();
    let items: Vec<_> =
        (0..2_000u32).map(|n| item(&n.to_be_bytes(), 5, Kind::Put, &[7; 200])).collect();
    let meta = bench.write(Bench::options(5, Compression::None, 4_000), &items, &[]).unwrap();
    let table = bench.open(&meta).unwrap();
    let held = || bench.io.meter.bytes_held(Purpose::Read);
    let options = TableCursorOptions {
        purpose: Purpose::Read,
        fill_cache: false,
        readahead: Readahead::Growing,
    };
    let mut cursors = [table.cursor(options), table.cursor(options)];
    assert_eq!(held(), 0);
    for cursor in &mut cursors {
        cursor.seek_first().unwrap();
        while cursor.valid() {
            cursor.next().unwrap();
        }
    }
    // 440 KB: the readahead has grown to its most in each.
    assert!((300_000..=2 * READAHEAD_BYTES_MAX).contains(&held()), "{} bytes", held());
    drop(cursors);
    assert_eq!(held(), 0);
}

/// A table of 200 blocks with 20 entries each, and how a user's scan reads it.
fn blocks_of_20() -> (Bench, Arc<TableReader>, TableCursorOptions) {
    let bench = Bench::new();
    let items: Vec<_> =
        (0..4_000u32).map(|n| item(&n.to_be_bytes(), 5, Kind::Put, &[7; 190])).collect();
    let meta = bench.write(Bench::options(5, Compression::None, 4096), &items, &[]).unwrap();
    let table = bench.open(&meta).unwrap();
    assert!((198..=202).contains(&table.index.len()), "{} blocks", table.index.len());
    let options = TableCursorOptions {
        purpose: Purpose::Read,
        fill_cache: false,
        readahead: Readahead::Usual,
    };
    (bench, table, options)
}

/// Calls that a scan of `pairs` from entry `n` takes, and blocks that they bring.
fn scan(
    bench: &Bench,
    table: &Arc<TableReader>,
    options: TableCursorOptions,
    n: u32,
    pairs: i32,
) -> (u64, u64) {
    let read =
        || (bench.io.meter.read_calls(Purpose::Read), bench.io.meter.bytes_read(Purpose::Read));
    let before = read();
    let mut cursor = table.cursor(options);
    let seek = if pairs < 0 { Cursor::seek_before } else { Cursor::seek };
    seek(&mut cursor, &n.to_be_bytes(), 5).unwrap();
    for _ in 1..pairs.unsigned_abs() {
        assert!(cursor.valid());
        if pairs < 0 { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    let after = read();
    (after.0 - before.0, (after.1 - before.1 + 2_000) / 4_200)
}

#[test]
fn a_walk_begins_with_the_blocks_that_walks_usually_take() {
    let (bench, table, options) = blocks_of_20();
    // 50 entries from the middle of a block on: three blocks or four. Nothing is known at first.
    let (calls, _) = scan(&bench, &table, options, 110, 50);
    assert!(calls >= 2, "{calls} calls");
    for n in 0..40 {
        scan(&bench, &table, options, 90 * n + 10, 50);
    }
    for pairs in [50, -50] {
        let (calls, blocks) = scan(&bench, &table, options, 1_910, pairs);
        assert_eq!(calls, 1, "{pairs} pairs");
        assert!((3..=4).contains(&blocks), "{blocks} blocks for {pairs} pairs");
    }
    // Longer than usual: it goes on from there.
    let (calls, blocks) = scan(&bench, &table, options, 1_910, 400);
    assert!((3..=5).contains(&calls) && blocks <= 45, "{calls} calls, {blocks} blocks");
}

#[test]
fn looks_for_one_key_read_one_block_again_once_they_are_usual() {
    let (bench, table, options) = blocks_of_20();
    for n in 0..40 {
        scan(&bench, &table, options, 90 * n + 10, 50);
    }
    for n in 0..40 {
        scan(&bench, &table, options, 90 * n + 7, 1);
    }
    assert_eq!(scan(&bench, &table, options, 1_907, 1), (1, 1));
}

#[test]
fn walks_of_compactions_say_nothing_of_what_users_take() {
    let (bench, table, options) = blocks_of_20();
    for _ in 0..10 {
        let whole = TableCursorOptions { readahead: Readahead::Growing, ..options };
        scan(&bench, &table, whole, 0, 4_000);
    }
    assert_eq!(table.usual_walk.expected(), None);
    assert_eq!(scan(&bench, &table, options, 1_907, 1), (1, 1));
}

#[test]
fn blocks_in_the_cache_end_what_a_walk_begins_with() {
    let (bench, table, options) = blocks_of_20();
    let filling = TableCursorOptions { fill_cache: true, ..options };
    for n in 0..40 {
        scan(&bench, &table, options, 90 * n + 10, 50);
    }
    // The third block and those behind it come from the cache.
    let third = table.index.locate(&1_950u32.to_be_bytes(), 5).unwrap();
    for number in third..third + 3 {
        let handle = table.handle(number).unwrap();
        table.block(handle.extent, Purpose::Read).unwrap();
    }
    let (calls, blocks) = scan(&bench, &table, filling, 1_910, 50);
    assert_eq!((calls, blocks), (1, 2));
}
