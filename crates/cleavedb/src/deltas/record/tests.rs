//! Groups round trip, have one encoding, and nothing else is taken for one.

use super::*;
use crate::base::error::ErrorKind;
use proptest::prelude::*;

/// Seq, kind, operand.
type Line = (Seq, DeltaKind, Vec<u8>);

fn any_records() -> impl Strategy<Value = Vec<Line>> {
    let operand = proptest::collection::vec(any::<u8>(), 0..9);
    let what = prop_oneof![
        operand.prop_map(|operand| (DeltaKind::Delta, operand)),
        Just((DeltaKind::Anchor, Vec::new())),
        Just((DeltaKind::Elsewhere, Vec::new())),
    ];
    proptest::collection::btree_map(1..=SEQ_MAX, what, 1..5).prop_map(|records| {
        records.into_iter().rev().map(|(seq, (kind, operand))| (seq, kind, operand)).collect()
    })
}

type Keys = std::collections::BTreeMap<(u32, Vec<u8>), Vec<Line>>;

fn any_keys() -> impl Strategy<Value = Keys> {
    let key = (1..4u32, proptest::collection::vec(any::<u8>(), 0..4));
    proptest::collection::btree_map(key, any_records(), 0..6)
}

fn record((seq, kind, operand): &Line) -> Record<'_> {
    Record { seq: *seq, kind: *kind, operand }
}

fn encoded(keys: &Keys) -> Vec<u8> {
    let mut out = Vec::new();
    for ((keyspace, key), records) in keys {
        let bound = Bound { keyspace: KeyspaceId(*keyspace), key };
        let before = out.len();
        encode_group(&mut out, bound, records.iter().map(record));
        assert_eq!(out.len() - before, group_bytes(bound, records.iter().map(record)));
    }
    out
}

fn decoded(bytes: &[u8]) -> Result<Keys> {
    let (mut keys, mut groups) = (Keys::new(), Groups::new(bytes));
    while let Some(group) = groups.next_group()? {
        let (mut all, mut records) = (Vec::new(), group.records());
        while let Some(Record { seq, kind, operand }) = records.next_record()? {
            all.push((seq, kind, operand.to_vec()));
        }
        keys.insert((group.bound.keyspace.0, group.bound.key.to_vec()), all);
    }
    Ok(keys)
}

proptest! {
    #[test]
    fn groups_round_trip(keys in any_keys()) {
        let bytes = encoded(&keys);
        prop_assert_eq!(decoded(&bytes).unwrap(), keys.clone());
        let totals = GroupTotals::of(&bytes, |_| Ok(())).unwrap();
        let seqs = keys.values().flatten().map(|record| record.0);
        let (smallest, largest) = (seqs.clone().min(), seqs.clone().max());
        prop_assert_eq!(totals, GroupTotals {
            groups: keys.len() as u64,
            records: seqs.count() as u64,
            first_seq: smallest.unwrap_or(0),
            last_seq: largest.unwrap_or(0),
        });
        for ((keyspace, key), records) in &keys {
            let bound = Bound { keyspace: KeyspaceId(*keyspace), key };
            let group = Groups::new(&bytes).find(bound).unwrap().unwrap();
            let newest = group.records().next_record().unwrap();
            prop_assert_eq!(newest, records.first().map(record));
            let longer = [key, &b"\0absent"[..]].concat();
            let absent = Bound { keyspace: KeyspaceId(*keyspace), key: &longer };
            prop_assert!(Groups::new(&bytes).find(absent).unwrap().is_none());
        }
    }

    #[test]
    fn what_decodes_has_one_encoding(keys in any_keys(), at: prop::sample::Index, bit in 0..8_u8) {
        let mut bytes = encoded(&keys);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(other) = decoded(&bytes) {
                prop_assert_eq!(encoded(&other), bytes);
                prop_assert_ne!(other, keys);
            }
        }
    }

    #[test]
    fn hostile_bytes_have_one_encoding_or_none(bytes: Vec<u8>) {
        if let Ok(keys) = decoded(&bytes) {
            prop_assert_eq!(encoded(&keys), bytes);
        }
    }
}

#[test]
fn what_no_bucket_takes_is_refused() {
    let bound = |keyspace, key| Bound { keyspace: KeyspaceId(keyspace), key };
    let delta = |seq, operand| Record { seq, kind: DeltaKind::Delta, operand };
    let long = vec![7; KEY_BYTES_MAX + 1];
    let operand = vec![7; OPERAND_BYTES_MAX + 1];
    check_record(bound(1, &long[1..]), &delta(1, &operand[1..])).unwrap();
    for (bound, record) in [
        (bound(0, b"k"), delta(1, b"")),
        (bound(1, &long), delta(1, b"")),
        (bound(1, b"k"), delta(1, &operand)),
        (bound(1, b"k"), delta(0, b"")),
        (bound(1, b"k"), delta(SEQ_MAX + 1, b"")),
        (bound(1, b"k"), Record { seq: 1, kind: DeltaKind::Anchor, operand: b"x" }),
    ] {
        let error = check_record(bound, &record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let mut bytes = Vec::new();
        encode_group(&mut bytes, bound, std::iter::once(record));
        let is_anchor = record.kind == DeltaKind::Anchor;
        assert_eq!(decoded(&bytes).is_ok(), is_anchor, "an anchor has no room for an operand");
    }
}
