//! Round trips of runs, and bytes that no engine writes.

use super::*;
use crate::values::drops::subject::FactKind;
use crate::values::drops::testing::{line, long_key};
use proptest::prelude::*;

/// Sorted facts of few and many keys.
pub(crate) fn any_lines() -> impl Strategy<Value = Vec<Line>> {
    let key = prop_oneof![
        (0..40u64).prop_map(|n| format!("k{n}").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..33),
        (0..9u64).prop_map(long_key),
    ];
    let seq = prop_oneof![1..50u64, 1..=SEQ_MAX];
    let fact = (any::<bool>(), key, seq).prop_map(|(moved, key, seq)| {
        line(if moved { FactKind::Moved } else { FactKind::Superseded }, &key, seq)
    });
    proptest::collection::btree_set(fact, 1..60).prop_map(|set| set.into_iter().collect())
}

fn decode(bytes: &[u8]) -> Result<Run> {
    let mut reader = Reader::new(bytes);
    let run = Run::decode(&mut reader)?;
    if reader.is_empty() { Ok(run) } else { Err(Error::corruption("more than a run")) }
}

proptest! {
    #[test]
    fn runs_round_trip(lines in any_lines(), behind: Vec<u8>) {
        let run = Run::new(lines.iter().copied());
        prop_assert_eq!(run.facts(), lines.len() as u64);
        prop_assert_eq!(run.lines().collect::<Vec<_>>(), lines);
        let bytes = [run.bytes(), &behind].concat();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(&Run::decode(&mut reader).unwrap(), &run);
        prop_assert_eq!(reader.rest(), &*behind);
        prop_assert_eq!(&Run::checked(run.bytes()), &run);
    }

    #[test]
    fn a_flipped_bit_is_refused_or_other_facts_in_order(lines in any_lines()) {
        let run = Run::new(lines.iter().copied());
        for at in 0..run.bytes().len() * 8 {
            let mut bytes = run.bytes().to_vec();
            bytes[at / 8] ^= 1 << (at % 8);
            if let Ok(other) = decode(&bytes) {
                let found: Vec<_> = other.lines().collect();
                prop_assert!(found.is_sorted_by(|a, b| a < b));
                prop_assert_ne!(&found, &lines);
                let again = Run::new(found.into_iter());
                prop_assert_eq!(again.bytes(), bytes);
            }
        }
    }
}

/// A run of these fields.
fn raw(facts: u64, smallest: Seq, lines: &[(u8, &[u8], u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, facts);
    put_varint(&mut bytes, smallest);
    for &(shared, tail, delta) in lines {
        bytes.extend_from_slice(&[shared, tail.len() as u8]);
        bytes.extend_from_slice(tail);
        put_varint(&mut bytes, delta);
    }
    bytes
}

#[test]
fn runs_that_no_engine_writes_are_refused() {
    let first: (u8, &[u8], u64) = (0, b"\x04pear", 0);
    let sound = [
        raw(1, 7, &[first]),
        raw(2, 7, &[first, (5, b"", 1)]),
        raw(2, 7, &[first, (4, b"s", 0)]),
        raw(2, 7, &[first, (5, b"s", 0)]),
        raw(1, SEQ_MAX, &[first]),
    ];
    for bytes in &sound {
        assert!(decode(bytes).is_ok(), "{bytes:02x?}");
    }
    let wrong = [
        (raw(0, 7, &[]), "no facts"),
        (raw(2, 7, &[first]), "fewer than it says"),
        (raw(u64::MAX, 7, &[first]), "far fewer than it says"),
        (raw(1, 0, &[first]), "seq zero"),
        (raw(1, SEQ_MAX + 1, &[first]), "a seq out of range"),
        (raw(2, SEQ_MAX, &[first, (5, b"", 1)]), "a seq out of range by its step"),
        (raw(2, 7, &[first, (5, b"", u64::MAX)]), "a step that overflows"),
        (raw(1, 7, &[(0, b"\x04pear", 1)]), "a smallest seq that no fact has"),
        (raw(2, 7, &[first, (5, b"", 0)]), "twice the same"),
        (raw(2, 7, &[(0, b"\x04pear", 1), (5, b"", 0)]), "seqs that descend"),
        (raw(2, 7, &[first, (4, b"q", 0)]), "subjects that descend"),
        (raw(2, 7, &[first, (4, b"r", 1)]), "shared bytes not stated"),
        (raw(2, 7, &[first, (4, b"", 1)]), "a beginning of the subject before"),
        (raw(2, 7, &[first, (6, b"", 1)]), "more shared than there is"),
        (raw(1, 7, &[(0, b"", 0)]), "no subject"),
        (raw(1, 7, &[(1, b"\x04", 0)]), "a first subject that shares"),
        (raw(1, 7, &[(0, b"\x00pear", 0)]), "keyspace zero"),
    ];
    for (bytes, why) in wrong {
        assert!(decode(&bytes).is_err(), "{why}");
    }
}
