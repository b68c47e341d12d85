//! The model itself, against a plain map.

use std::collections::BTreeMap;

use super::{Answer, State, answer, dump_fingerprint, prefix_bounds, slot_name};
use crate::generator::{Generator, Profile};
use crate::operation::{Change, Edge, Move, Operation, Payload, Read, Span, Walk, key_bytes};

fn changes(seed: u64) -> Vec<Change> {
    let list = Generator::list(seed, Profile::crash(400));
    let single = list.into_iter().flat_map(|operation| match operation {
        Operation::Write(change) => vec![change],
        Operation::Batch(changes, _) => changes,
        _ => Vec::new(),
    });
    single.filter(|change| !State::refuses(*change)).collect()
}

/// The plainest model there is.
fn naive(all: &mut BTreeMap<(u8, Vec<u8>), Vec<u8>>, change: Change) {
    match change {
        Change::Put(slot, key, value) => {
            all.insert((slot, key_bytes(key)), value.contents());
        }
        Change::Delete(slot, key) => {
            all.remove(&(slot, key_bytes(key)));
        }
        Change::Merge(slot, key, operand) => {
            let old = all.get(&(slot, key_bytes(key))).cloned();
            let operator = super::slot_operator(slot).unwrap();
            let operand = operand.contents();
            let new = operator.full_merge(b"", old.as_deref(), &[&operand]).unwrap();
            all.insert((slot, key_bytes(key)), new);
        }
        Change::DeleteRange(slot, span) => {
            let (from, to) = span.bounds();
            all.retain(|(s, key), _| {
                use std::ops::RangeBounds as _;
                *s != slot || !(from.clone(), to.clone()).contains(key)
            });
        }
    }
}

#[test]
fn states_agree_with_a_plain_map_and_its_fingerprint() {
    for seed in 0..20 {
        let mut state = State::default();
        (0..4).for_each(|slot| state.create(slot));
        let mut all = BTreeMap::new();
        for change in changes(seed) {
            state.apply(change);
            naive(&mut all, change);
        }
        let dump = state.dump();
        assert_eq!(dump_fingerprint(&dump), state.fingerprint());
        let mut plain = super::Dump::new();
        for ((slot, key), value) in all {
            plain.entry(slot_name(slot)).or_default().push((key, value));
        }
        assert_eq!(plain, dump);
    }
}

#[test]
fn fingerprints_forget_what_is_removed() {
    let mut state = State::default();
    state.create(0);
    state.create(1);
    state.set(0, b"a", Some(b"1".to_vec()));
    let before = state.fingerprint();
    state.set(1, b"a", Some(b"1".to_vec()));
    assert_ne!(before, state.fingerprint());
    state.discard(1);
    assert_eq!(before, state.fingerprint());
    state.set(0, b"a", None);
    assert_eq!(0, state.fingerprint());
}

#[test]
fn prefixes_end_where_the_last_byte_cannot_grow() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    assert_eq!(prefix_bounds(b"ab"), (Included(b"ab".to_vec()), Excluded(b"ac".to_vec())));
    assert_eq!(prefix_bounds(b"a\xff"), (Included(b"a\xff".to_vec()), Excluded(b"b".to_vec())));
    assert_eq!(prefix_bounds(b"\xff\xff"), (Included(b"\xff\xff".to_vec()), Unbounded));
    assert_eq!(prefix_bounds(b""), (Included(Vec::new()), Unbounded));
}

#[test]
fn cursors_stop_at_the_ends_and_stay_there() {
    let mut state = State::default();
    state.create(0);
    for key in [10, 11] {
        state.apply(Change::Put(0, key, Payload { tag: 1, bytes: 1 }));
    }
    let pairs = state.space(0).unwrap().pairs.clone();
    let moves = vec![Move::First, Move::Next, Move::Next, Move::Prev, Move::SeekBack(10)];
    let Answer::Places(places) = answer(&pairs, &Read::Cursor(moves)) else { panic!() };
    let keys: Vec<_> = places.iter().map(|p| p.as_ref().map(|(key, _)| key.clone())).collect();
    let (ten, eleven) = (Some(key_bytes(10)), Some(key_bytes(11)));
    assert_eq!(keys, [ten.clone(), eleven, None, None, ten]);
}

#[test]
fn empty_and_reversed_ranges_hold_nothing() {
    let mut state = State::default();
    state.create(0);
    state.apply(Change::Put(0, 10, Payload { tag: 1, bytes: 1 }));
    let pairs = &state.space(0).unwrap().pairs;
    for (from, to, count) in [
        (Edge::With(10), Edge::With(10), 1),
        (Edge::With(10), Edge::Without(10), 0),
        (Edge::Without(10), Edge::With(10), 0),
        (Edge::With(11), Edge::With(10), 0),
        (Edge::Open, Edge::With(10), 1),
    ] {
        let read = Read::Scan(Span { from, to }, Walk::Forward);
        let Answer::Pairs(found) = answer(pairs, &read) else { panic!() };
        assert_eq!(found.len(), count, "{from:?} to {to:?}");
    }
}
