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
    prop_oneof![Just(Readahead::None), Just(Readahead::Growing), Just(Readahead::Full)]
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
