//! Point reads against a sorted vector, and the generators other tests share.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::base::compress::Compression;
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::tombstone::RangeTombstone;
use crate::table::testing::{Bench, Item, expected, get, tombstone};

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Put),
        1 => Just(Kind::PutSeparated),
        1 => Just(Kind::PutBare),
        2 => Just(Kind::Delete),
        3 => Just(Kind::Merge),
        1 => Just(Kind::Relocation),
    ]
}

/// Keys with long common parts, few enough that most have several versions.
pub(crate) fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0u8..3, 0u8..12).prop_map(|(a, b)| format!("user/{a}/name/{b}").into_bytes()),
        4 => prop::collection::vec(prop_oneof![Just(0u8), Just(97), Just(254), Just(255)], 0..5),
        1 => (0usize..3).prop_map(|n| vec![b'k'; 100 + 100 * n]),
    ]
}

pub(crate) fn items() -> impl Strategy<Value = Vec<Item>> {
    let one = (key(), 1u64..60, kind(), prop::collection::vec(any::<u8>(), 0..40), any::<bool>());
    prop::collection::vec(one, 0..120).prop_map(|drawn| {
        let mut seqs = BTreeSet::new();
        let mut items = Vec::new();
        for (key, seq, kind, value, far) in drawn {
            let seq = if far { SEQ_MAX - seq } else { seq };
            if seqs.insert((key.clone(), seq)) {
                items.push(Item { key, seq, kind, value });
            }
        }
        items.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
        items
    })
}

pub(crate) fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    prop::collection::vec((key(), key(), 1 as Seq..60), 0..4).prop_map(|drawn| {
        drawn
            .into_iter()
            .filter(|(a, b, _)| a != b)
            .map(|(a, b, seq)| tombstone(a.as_slice().min(&b), a.as_slice().max(&b), seq))
            .collect()
    })
}

pub(crate) fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn get_agrees_with_a_sorted_vector(
        items in items(),
        tombstones in tombstones(),
        compression in compression(),
        block_bytes in 1usize..300,
        probes in prop::collection::vec((key(), 1u64..60), 20),
    ) {
        let bench = Bench::new();
        let options = Bench::options(5, compression, block_bytes);
        let meta = bench.write(options, &items, &tombstones).unwrap();
        let table = bench.open(&meta).unwrap();
        let own = items.iter().map(|item| (item.key.clone(), item.seq));
        for (key, seq) in own.chain(probes) {
            for snapshot in [seq - 1, seq, SEQ_MAX] {
                let wanted = expected(&items, &tombstones, &key, snapshot);
                prop_assert_eq!(get(&table, &key, snapshot).unwrap(), wanted);
            }
        }
    }
}
