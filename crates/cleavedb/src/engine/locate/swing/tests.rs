//! What was noted is read again, in few bytes.

use proptest::prelude::*;

use super::Moved;
use crate::base::entry::{FileId, KeyspaceId};
use crate::values::locator::place::Place;

type Record = (u32, Vec<u8>, Option<Place>, Option<Place>);

fn noted(moved: &mut Moved, records: &[Record]) -> Vec<Record> {
    for (keyspace, key, from, to) in records {
        moved.note(KeyspaceId(*keyspace), key, *from, *to);
    }
    let mut read = Vec::new();
    moved
        .each(|keyspace, key, from, to| read.push((keyspace.0, key.to_vec(), Some(*from), to)))
        .expect("what was noted can be read");
    read
}

fn place() -> impl Strategy<Value = Option<Place>> {
    // Behind 64 MiB there is no place.
    let offset = 0..80u64 << 20;
    (1..u64::MAX, offset, 20..1u32 << 20)
        .prop_map(|(container, offset, bytes)| Place::of(FileId(container), offset, bytes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_that_is_noted_is_read_again(
        records in proptest::collection::vec(
            (any::<u32>(), proptest::collection::vec(0u8..3, 0..20), place(), place()),
            0..60,
        )
    ) {
        let known: Vec<_> =
            records.iter().filter(|(_, _, from, _)| from.is_some()).cloned().collect();
        prop_assert_eq!(noted(&mut Moved::new(1 << 20), &records), known);
    }
}

#[test]
fn records_in_order_take_some_bytes_each_and_the_bound_holds() {
    let record = |number: u64| {
        let key = format!("{:016}", number * 7).into_bytes();
        // Old places in any order, new ones side by side.
        let from = Place::of(FileId(10 + number * 31 % 16), number * 37 % 60_000 * 1060, 1060);
        let to = Place::of(FileId(100 + number / 60_000), number % 60_000 * 1060, 1060);
        (1, key, from, to)
    };
    let records: Vec<Record> = (0..100_000).map(record).collect();
    let mut moved = Moved::new(64 << 20);
    assert_eq!(noted(&mut moved, &records).len(), records.len());
    assert!(moved.memory_bytes() <= 16 * records.len(), "{}", moved.memory_bytes());
    let mut few = Moved::new(100_000);
    let kept = noted(&mut few, &records);
    assert_eq!(kept, records[..kept.len()]);
    assert!(kept.len() > 100_000 / 17, "{} fit", kept.len());
    assert!(few.memory_bytes() <= 100_000 + 64, "{}", few.memory_bytes());
}
