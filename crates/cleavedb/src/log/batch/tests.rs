//! Round trips, hostile payloads, and records that no writer writes.

use super::*;
use proptest::prelude::*;

type Owned = (Kind, u32, Vec<u8>, Vec<u8>);

fn record() -> impl Strategy<Value = Owned> {
    let key = proptest::collection::vec(any::<u8>(), 0..40);
    let value = proptest::collection::vec(any::<u8>(), 0..300);
    (0..4, 1..=u32::MAX, key, value).prop_map(|(kind, keyspace, key, value)| match kind {
        0 => (Kind::Put, keyspace, key, value),
        1 => (Kind::Merge, keyspace, key, value),
        2 => (Kind::Delete, keyspace, key, Vec::new()),
        _ => {
            let mut end = key.clone();
            end.push(7);
            (Kind::RangeDelete, keyspace, key, end)
        }
    })
}

fn encode(records: &[Owned]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, keyspace, key, value) in records {
        let before = out.len();
        encode_record(&mut out, *kind, KeyspaceId(*keyspace), key, value);
        let bytes = record_bytes(*kind, KeyspaceId(*keyspace), key, value);
        assert_eq!(out.len() - before, bytes);
        assert!(bytes >= RECORD_BYTES_MIN);
    }
    out
}

fn decode(payload: &[u8], count: u32) -> Result<Vec<Owned>> {
    BatchReader::new(payload, count)
        .map(|record| record.map(|r| (r.kind, r.keyspace.0, r.key.to_vec(), r.value.to_vec())))
        .collect()
}

proptest! {
    #[test]
    fn batches_round_trip(records in proptest::collection::vec(record(), 0..20)) {
        let payload = encode(&records);
        let count = records.len() as u32;
        prop_assert_eq!(decode(&payload, count).unwrap(), records);
        prop_assert!(decode(&payload, count + 1).is_err());
        if count > 0 {
            prop_assert!(decode(&payload, count - 1).is_err());
        }
        for cut in 0..payload.len() {
            prop_assert!(decode(&payload[..cut], count).is_err());
        }
    }

    #[test]
    fn hostile_payloads_end_after_one_error(payload: Vec<u8>, count: u32) {
        let mut reader = BatchReader::new(&payload, count);
        prop_assert!(reader.size_hint().1.unwrap() <= payload.len() + 1);
        let errors = reader.by_ref().filter(Result::is_err).count();
        prop_assert!(errors <= 1);
        prop_assert!(reader.next().is_none());
    }
}

#[test]
fn records_that_no_writer_writes_are_refused() {
    let raw = |kind: u8, keyspace: u64, key: &[u8], value: &[u8]| {
        let mut out = vec![kind];
        put_varint(&mut out, keyspace);
        put_bytes(&mut out, key);
        put_bytes(&mut out, value);
        decode(&out, 1)
    };
    assert!(raw(Kind::Put as u8, 1, b"k", b"v").is_ok());
    assert!(raw(0, 1, b"k", b"v").is_err(), "kind zero");
    assert!(raw(99, 1, b"k", b"v").is_err(), "unknown kind");
    assert!(raw(Kind::PutSeparated as u8, 1, b"k", b"v").is_err(), "kind of another lane");
    assert!(raw(Kind::Relocation as u8, 1, b"k", b"v").is_err(), "kind of another lane");
    assert!(raw(Kind::Put as u8, 0, b"k", b"v").is_err(), "keyspace zero");
    assert!(raw(Kind::Put as u8, 1 << 32, b"k", b"v").is_err(), "keyspace beyond 32 bits");
    assert!(raw(Kind::Put as u8, 1, &vec![1; KEY_BYTES_MAX], b"v").is_ok(), "longest key");
    assert!(raw(Kind::Put as u8, 1, &vec![1; KEY_BYTES_MAX + 1], b"v").is_err(), "longer key");
    assert!(raw(Kind::RangeDelete as u8, 1, b"a", b"b").is_ok());
    assert!(raw(Kind::RangeDelete as u8, 1, b"b", b"b").is_err(), "empty range");
    assert!(raw(Kind::RangeDelete as u8, 1, b"c", b"b").is_err(), "reversed range");
}
