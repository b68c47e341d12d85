//! Tests of batched reads against single ones.

use proptest::prelude::*;

use super::*;
use crate::base::checksum::key_hash;
use crate::base::entry::SEQ_MAX;
use crate::table::reader::tests::{compression, items, key, tombstones};
use crate::table::testing::{Bench, expected, outcome};

/// A key, the snapshot and which table to ask.
fn request() -> impl Strategy<Value = (Vec<u8>, u64, bool)> {
    (key(), prop_oneof![1u64..60, Just(SEQ_MAX)], any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn many_gets_answer_as_single_ones_do(
        first in items(),
        second in items(),
        tombstones in tombstones(),
        compression in compression(),
        block_bytes in 1usize..200,
        keys in prop::collection::vec(request(), 1..40),
        cache_bytes in prop_oneof![Just(0u64), Just(1 << 20)],
    ) {
        let bench = Bench::with_cache(cache_bytes);
        let mut tables = Vec::new();
        for (number, items) in [&first, &second].into_iter().enumerate() {
            let options = Bench::options(1 + number as u64, compression, block_bytes);
            let meta = bench.write(options, items, &tombstones).unwrap();
            tables.push(bench.open(&meta).unwrap());
        }
        // The second round finds what the first one cached.
        for _ in 0..2 {
            let mut lookups: Vec<Lookup> =
                keys.iter().map(|&(_, snapshot, _)| Lookup::new(snapshot)).collect();
            let mut requests: Vec<TableRequest<'_>> = keys
                .iter()
                .zip(&mut lookups)
                .map(|((key, _, which), lookup)| TableRequest {
                    table: &tables[usize::from(*which)],
                    key,
                    hash: key_hash(key),
                    lookup,
                })
                .collect();
            get_many(&bench.io, &mut requests, Purpose::Read).unwrap();
            for ((key, snapshot, which), lookup) in keys.iter().zip(&lookups) {
                let items = if *which { &second } else { &first };
                let wanted = expected(items, &tombstones, key, *snapshot);
                prop_assert_eq!(outcome(lookup), wanted);
            }
        }
    }
}

#[test]
fn a_block_is_read_once_for_all_its_keys() {
    let bench = Bench::new();
    let items: Vec<_> = (0..100u8)
        .map(|n| crate::table::testing::item(&[n], 5, crate::base::entry::Kind::Put, b"value"))
        .collect();
    let options = Bench::options(3, crate::base::compress::Compression::None, 4096);
    let meta = bench.write(options, &items, &[]).unwrap();
    let table = bench.open(&meta).unwrap();
    let before = bench.io.meter.read_calls(Purpose::Read);
    let mut lookups: Vec<Lookup> = items.iter().map(|_| Lookup::new(9)).collect();
    let mut requests: Vec<TableRequest<'_>> = items
        .iter()
        .zip(&mut lookups)
        .map(|(item, lookup)| {
            let (key, hash) = (item.key.as_slice(), key_hash(&item.key));
            TableRequest { table: &table, key, hash, lookup }
        })
        .collect();
    get_many(&bench.io, &mut requests, Purpose::Read).unwrap();
    assert!(lookups.iter().all(|lookup| lookup.found.is_some()));
    assert_eq!(bench.io.meter.read_calls(Purpose::Read) - before, 1);
}
