//! Tests of the filter: nothing denied, few let in, damage kept in bounds.

use proptest::prelude::*;

use super::*;
use crate::base::checksum::key_hash;

proptest! {
    #[test]
    fn no_hash_that_was_put_in_is_denied(mut hashes: Vec<u64>) {
        let kept = hashes.clone();
        let filter = Filter::build(&mut hashes);
        let decoded = decode_filter(&filter.encode()).unwrap();
        for hash in kept {
            prop_assert!(filter.may_contain(hash) && decoded.may_contain(hash));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes: Vec<u8>, kind: bool, probes: [u64; 8]) {
        if kind && let Some(first) = bytes.first_mut() {
            *first = 2;
        }
        if let Ok(filter) = decode_filter(&bytes) {
            probes.iter().for_each(|&hash| {
                filter.may_contain(hash);
            });
        }
    }

    #[test]
    fn damaged_fields_never_lead_outside_the_fingerprints(
        at in 0usize..20,
        byte: u8,
        probes in prop::collection::vec(any::<u64>(), 50),
    ) {
        let mut bytes = Filter::build(&mut (0..500).collect()).encode();
        bytes[at] = byte;
        if let Ok(filter) = decode_filter(&bytes) {
            probes.iter().for_each(|&hash| {
                filter.may_contain(hash);
            });
        }
    }
}

#[test]
fn few_false_positives_and_nine_bits_a_key() {
    let mut hashes: Vec<u64> = (0..20_000u32).map(|n| key_hash(&n.to_be_bytes())).collect();
    let filter = Filter::build(&mut hashes);
    let absent = (20_000..120_000u32).map(|n| key_hash(&n.to_be_bytes()));
    let positives = absent.filter(|&hash| filter.may_contain(hash)).count();
    assert!(positives < 600, "{positives} false positives in 100,000");
    assert!(filter.memory_bytes() < 20_000 * 10 / 8);
}

#[test]
fn the_empty_filter_holds_nothing_and_duplicates_are_dropped() {
    assert!(!Filter::build(&mut Vec::new()).may_contain(0));
    let Filter::Fuse(_, count) = Filter::build(&mut vec![5; 100]) else { panic!("no filter") };
    assert_eq!(count, 1);
}
