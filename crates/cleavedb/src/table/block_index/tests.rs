//! Tests of separators and of the index against a search through all.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(97), Just(254), Just(255)];
    (prop_oneof![Just(""), Just("common/prefix/")], prop::collection::vec(byte, 0..12))
        .prop_map(|(prefix, rest)| [prefix.as_bytes(), &rest].concat())
}

proptest! {
    #[test]
    fn a_separator_separates_and_is_no_longer_than_the_last_key(a in key(), b in key()) {
        prop_assume!(a != b);
        let (last, next) = if a < b { (a, b) } else { (b, a) };
        let mut out = Vec::new();
        separator(&last, &next, &mut out);
        prop_assert!(last <= out && out < next, "{last:?} {out:?} {next:?}");
        prop_assert!(out.len() <= last.len().max(1));
    }

    #[test]
    fn locate_agrees_with_a_search_through_all(
        keys in prop::collection::btree_set(key(), 0..40),
        splits in prop::collection::btree_set(0usize..40, 0..10),
        probes in prop::collection::vec((key(), 0u64..12), 20),
    ) {
        // Where a key is split, its separator stands twice: for seqs down to 5, and for the rest.
        let mut blocks: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            if splits.contains(&number) {
                blocks.push((key.clone(), Some(5)));
            }
            blocks.push((key.clone(), None));
        }
        let mut builder = IndexBuilder::default();
        for (number, (key, split)) in blocks.iter().enumerate() {
            builder.add(key, *split, 100 + number as u64);
        }
        let lengths = |count: usize| (0..count as u64).map(|n| 100 + n).sum::<u64>();
        let sum = |count: usize| HEADER_BYTES as u64 + lengths(count);
        let index = decode_index(&builder.finish(), sum(blocks.len())).unwrap();
        prop_assert_eq!(index.len(), blocks.len());
        for (number, (key, split)) in blocks.iter().enumerate() {
            prop_assert_eq!(index.separator(number), key.as_slice());
            prop_assert_eq!(index.split(number), *split);
            let extent = Extent { offset: sum(number), len: 100 + number as u64 };
            prop_assert_eq!(index.extent(number), Some(extent));
        }
        let own = blocks.iter().map(|(key, _)| (key.clone(), 5));
        for (key, seq) in own.chain(probes) {
            let wanted = blocks.iter().position(|(separator, split)| {
                *separator > key || (*separator == key && split.is_none_or(|split| split <= seq))
            });
            prop_assert_eq!(index.locate(&key, seq), wanted, "{:?} at {}", key, seq);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, end: u64) {
        if let Ok(index) = decode_index(&bytes, end) {
            index.locate(b"key", 4);
        }
    }

    #[test]
    fn damaged_bytes_never_panic(
        keys in prop::collection::btree_set(key(), 1..10),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut builder = IndexBuilder::default();
        keys.iter().for_each(|key| builder.add(key, None, 50));
        let mut bytes = builder.finish();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(index) = decode_index(&bytes, 48 + 50 * keys.len() as u64) {
            let ascending: BTreeSet<_> = (0..index.len()).map(|n| index.separator(n)).collect();
            prop_assert_eq!(ascending.len(), index.len());
        }
    }
}

#[test]
fn a_count_beyond_the_bytes_is_refused_before_anything_is_allocated() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 1 << 60);
    assert!(decode_index(&bytes, 1 << 62).is_err());
}

#[test]
fn keys_that_do_not_ascend_are_refused() {
    let twice = |splits: [Option<Seq>; 2]| {
        let mut builder = IndexBuilder::default();
        builder.add(b"same", splits[0], 60);
        builder.add(b"same", splits[1], 60);
        decode_index(&builder.finish(), 48 + 120)
    };
    assert!(twice([None, None]).is_err());
    assert!(twice([None, Some(4)]).is_err());
    assert!(twice([Some(4), Some(4)]).is_err());
    assert!(twice([Some(4), Some(3)]).is_ok());
    assert!(twice([Some(4), None]).is_ok());
}

#[test]
fn the_shortest_separators() {
    let mut out = Vec::new();
    for (last, next, wanted) in [
        ("apple", "banana", "b"),
        ("apple", "azure", "aq"),
        ("user/1/name", "user/2/name", "user/2"),
        ("a", "ab", "a"),
        ("a~~x", "b", "a\u{7f}"),
        ("abc", "abd", "abc"),
    ] {
        separator(last.as_bytes(), next.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), wanted, "{last} {next}");
    }
}
