//! Separated puts: round trips, proof of place, seq, key and value, hostile bytes, limits.

use super::*;
use crate::base::checksum::{KeyedHash, file_seed, key_hash};
use crate::log::batch::{BatchReader, encode_record};
use crate::log::testing::UUID;
use proptest::prelude::*;

const FILE: u64 = 15;

fn seed() -> u32 {
    file_seed(&UUID, FILE)
}

fn put<'a>(key: &'a [u8], value: &'a [u8], compression: Compression) -> SeparatedPut<'a> {
    let keyspace = KeyspaceId(300);
    let hash = KeyedHash::new(&UUID).hash(keyspace, key);
    SeparatedPut { keyspace, key, value, compression, hash }
}

/// One record alone, bound to offset 120 with seq 41.
fn bound(key: &[u8], value: &[u8], compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    let slot = encode_separated(&mut out, 0, &put(key, value, compression), &mut Vec::new());
    let place = Binding { seed: seed(), payload_offset: 120, base_seq: 41 };
    bind(&mut out, &[slot], place).unwrap();
    out
}

fn any_compression() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)]
}

/// Values of which some compress.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..400);
    prop_oneof![noise, (any::<u8>(), 0..5000usize).prop_map(|(byte, len)| vec![byte; len])]
}

proptest! {
    #[test]
    fn records_round_trip_and_prove_their_place(
        key in proptest::collection::vec(any::<u8>(), 0..40),
        value in any_value(),
        compression in any_compression(),
    ) {
        let bytes = bound(&key, &value, compression);
        let record = SeparatedRecord::decode(&bytes).unwrap();
        prop_assert_eq!((record.keyspace, record.key, record.seq), (KeyspaceId(300), &key[..], 41));
        prop_assert_eq!(record.bytes(), bytes.len());
        prop_assert!(bytes.len() >= SEPARATED_BYTES_MIN);
        prop_assert_eq!(&bytes[record.stored_range()], record.stored);
        prop_assert_eq!(record.value_bytes as usize, value.len());
        prop_assert_eq!(&record.value().unwrap()[..], &value[..]);
        if record.compression().unwrap() != Compression::None {
            prop_assert!(record.stored.len() <= value.len() - value.len() / 8, "saves 12 %");
        }
        prop_assert!(record.holds_at(seed(), 120));
        prop_assert!(!record.holds_at(seed(), 121), "another place");
        prop_assert!(!record.holds_at(file_seed(&UUID, FILE + 1), 120), "another file");
        prop_assert!(!record.holds_at(file_seed(&[7; 16], FILE), 120), "another database");
        for cut in 0..bytes.len().min(60) {
            prop_assert!(SeparatedRecord::decode(&bytes[..cut]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(SeparatedRecord::decode(&longer).is_err());
    }

    #[test]
    fn hostile_records_are_refused_or_restored_from(mut bytes: Vec<u8>) {
        for _ in 0..2 {
            if let Ok(record) = SeparatedRecord::decode(&bytes) {
                prop_assert_eq!(record.bytes(), bytes.len());
            }
            if let Some(first) = bytes.first_mut() {
                *first = Kind::PutSeparated as u8;
            }
        }
    }
}

#[test]
fn every_flip_is_noticed() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let value: Vec<u8> = (0..200).map(|i| i / 9).collect();
        let bytes = bound(b"apple", &value, compression);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let holds = SeparatedRecord::decode(&bad).is_ok_and(|r| r.holds_at(seed(), 120));
            assert!(!holds, "bit {bit} of {compression:?}");
        }
    }
}

#[test]
fn what_does_not_compress_well_stays_as_it_is() {
    let noise: Vec<u8> =
        (0u32..250).flat_map(|i| (key_hash(&i.to_le_bytes()) as u32).to_le_bytes()).collect();
    for compression in [Compression::Lz4, Compression::Zstd] {
        let bytes = bound(b"k", &noise, compression);
        let record = SeparatedRecord::decode(&bytes).unwrap();
        assert_eq!(record.compression().unwrap(), Compression::None);
        let bytes = bound(b"k", &[5; 1000], compression);
        let record = SeparatedRecord::decode(&bytes).unwrap();
        assert_eq!(record.compression().unwrap(), compression);
    }
}

#[test]
fn a_record_is_bound_once() {
    let mut out = vec![0xaa; 7];
    let slot = encode_separated(&mut out, 3, &put(b"k", b"v", Compression::None), &mut Vec::new());
    assert_eq!((slot.start, slot.key_bytes, slot.value_bytes), (7, 1, 1));
    let place = Binding { seed: seed(), payload_offset: 500, base_seq: 41 };
    assert!(bind(&mut out[..20], &[slot], place).is_err(), "outside of the payload");
    bind(&mut out, &[slot], place).unwrap();
    let record = SeparatedRecord::decode(&out[7..]).unwrap();
    assert_eq!(record.seq, 44);
    assert!(record.holds_at(seed(), 507));
    assert!(bind(&mut out, &[slot], place).is_err(), "its body is gone");
}

/// A record with these fields, unbound.
fn raw(kind: u8, keyspace: u64, key: &[u8], how: u8, lengths: &[u64], stored: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    put_varint(&mut out, keyspace);
    put_bytes(&mut out, key);
    out.push(how);
    for &length in lengths {
        put_varint(&mut out, length);
    }
    out.extend_from_slice(&[0; BOUND_BYTES]);
    out.extend_from_slice(stored);
    out
}

#[test]
fn records_that_no_writer_writes_are_refused() {
    let decode = |bytes: Vec<u8>| SeparatedRecord::decode(&bytes).map(|_| ()).map_err(|e| e.kind());
    let corrupt = Err(ErrorKind::Corruption);
    assert_eq!(decode(raw(2, 1, b"k", 0, &[2], b"vv")), Ok(()));
    assert_eq!(decode(raw(2, 1, b"k", 1, &[2, 3], b"vv")), Ok(()));
    assert_eq!(decode(raw(1, 1, b"k", 0, &[2], b"vv")), corrupt, "an inline put");
    assert_eq!(decode(raw(2, 0, b"k", 0, &[2], b"vv")), corrupt, "keyspace zero");
    assert_eq!(decode(raw(2, 1 << 32, b"k", 0, &[2], b"vv")), corrupt, "keyspace of 33 bits");
    let long = vec![1; KEY_BYTES_MAX + 1];
    assert_eq!(decode(raw(2, 1, &long[1..], 0, &[2], b"vv")), Ok(()), "longest key");
    assert_eq!(decode(raw(2, 1, &long, 0, &[2], b"vv")), corrupt, "longer key");
    assert_eq!(decode(raw(2, 1, b"k", 0, &[3], b"vv")), corrupt, "more than there is");
    assert_eq!(decode(raw(2, 1, b"k", 0, &[1], b"vv")), corrupt, "less than there is");
    assert_eq!(decode(raw(2, 1, b"k", 1, &[2, 2], b"vv")), corrupt, "compressed in vain");
    let huge = VALUE_BYTES_MAX as u64;
    assert_eq!(decode(raw(2, 1, b"k", 2, &[2, huge], b"vv")), Ok(()), "largest value");
    assert_eq!(decode(raw(2, 1, b"k", 2, &[2, huge + 1], b"vv")), corrupt, "larger value");
    let mut far = raw(2, 1, b"k", 0, &[2], b"vv");
    far[6 + 7] = 1; // the highest byte of the seq
    assert_eq!(decode(far), corrupt, "a seq beyond all seqs");
}

/// Only what proves itself can be a later build's: a flipped bit is damage.
#[test]
fn an_unknown_compression_is_unsupported() {
    let bytes = raw(2, 1, b"k", 3, &[2, 3], b"vv");
    let record = SeparatedRecord::decode(&bytes).unwrap();
    assert_eq!(record.compression().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(record.value().unwrap_err().kind(), ErrorKind::Unsupported);
    let place = Binding { seed: seed(), payload_offset: 120, base_seq: 0 };
    let kind = |place| BatchReader::of_values(&bytes, 1, place).next().unwrap().unwrap_err().kind();
    assert_eq!(kind(None), ErrorKind::Unsupported);
    assert_eq!(kind(Some(place)), ErrorKind::Corruption);
}

/// A batch of four operations, of which the first and the third are separated.
fn mixed() -> (Vec<u8>, Vec<Slot>) {
    let mut out = Vec::new();
    let mut scratch = Vec::new();
    let first =
        encode_separated(&mut out, 0, &put(b"a", &[1; 90], Compression::None), &mut scratch);
    encode_record(&mut out, Kind::Put, KeyspaceId(1), b"b", b"small");
    let third =
        encode_separated(&mut out, 2, &put(b"c", &[3; 900], Compression::Lz4), &mut scratch);
    encode_record(&mut out, Kind::Delete, KeyspaceId(1), b"d", b"");
    (out, vec![first, third])
}

#[test]
fn a_batch_of_the_value_lane_yields_its_separated_records() {
    let (mut payload, slots) = mixed();
    let place = Binding { seed: seed(), payload_offset: 700, base_seq: 41 };
    let kinds = |payload: &[u8], place| -> Result<Vec<Kind>> {
        BatchReader::of_values(payload, 4, place).map(|record| record.map(|r| r.kind)).collect()
    };
    let wanted = [Kind::PutSeparated, Kind::Put, Kind::PutSeparated, Kind::Delete];
    assert_eq!(kinds(&payload, None).unwrap(), wanted, "before it has a place");
    assert!(kinds(&payload, Some(place)).is_err(), "it has no place yet");
    bind(&mut payload, &slots, place).unwrap();
    assert_eq!(kinds(&payload, Some(place)).unwrap(), wanted);
    let records: Vec<_> =
        BatchReader::of_values(&payload, 4, Some(place)).map(|r| r.unwrap().separated).collect();
    for (number, slot) in [(0, slots[0]), (2, slots[1])] {
        let found = records[number].unwrap();
        assert_eq!((found.start, found.record.bytes()), (slot.start as usize, slot.bytes as usize));
        assert_eq!(found.record.seq, 41 + number as u64);
    }
    assert!(records[1].is_none() && records[3].is_none());
    assert!(kinds(&payload, Some(Binding { base_seq: 42, ..place })).is_err(), "other seqs");
    assert!(kinds(&payload, Some(Binding { payload_offset: 701, ..place })).is_err(), "elsewhere");
    assert!(BatchReader::of_values(&payload, 3, Some(place)).any(|r| r.is_err()), "one too many");
}

#[test]
fn a_journal_holds_no_separated_records() {
    let (payload, _) = mixed();
    assert!(BatchReader::new(&payload, 4).next().unwrap().is_err());
}
