//! Codecs: what is written is read back, and hostile lengths are refused.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn varints_round_trip(
        value: u64,
        shift in 0u32..64,
        behind in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let value = value >> shift;
        let mut out = Vec::new();
        put_varint(&mut out, value);
        prop_assert_eq!(out.len(), varint_len(value));
        out.extend_from_slice(&behind);
        let mut reader = Reader::new(&out);
        prop_assert_eq!(reader.varint().unwrap(), value);
        prop_assert_eq!(reader.rest(), behind.as_slice());
    }

    /// Whether many bytes follow or few changes nothing.
    #[test]
    fn varints_are_read_alike_wherever_they_stand(mut bytes in prop::collection::vec(
        prop_oneof![Just(0u8), Just(0x80), Just(0xff), any::<u8>()], 1..12,
    )) {
        let short = Reader::new(&bytes).varint().ok();
        let length = bytes.len();
        bytes.extend([0x80; 8]);
        let mut reader = Reader::new(&bytes);
        let long = reader.varint().ok().filter(|_| bytes.len() - reader.rest().len() <= length);
        prop_assert_eq!(short, long);
    }

    #[test]
    fn signed_numbers_round_trip(value: i64, small in -64..64i64) {
        for value in [value, small, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.signed().unwrap(), value);
            prop_assert!(reader.is_empty());
            prop_assert!(out.len() == 1 || !(-64..64).contains(&value), "small ones are short");
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let mut reader = Reader::new(&bytes);
        while reader.bytes().is_ok() && !reader.is_empty() {}
        let mut reader = Reader::new(&bytes);
        while reader.varint().is_ok() && !reader.is_empty() {}
    }
}

#[test]
fn overlong_varint_is_refused() {
    let mut reader = Reader::new(&[0xff; 10]);
    assert!(reader.varint().is_err());
    let mut max = vec![0xff; 9];
    max.push(1);
    assert_eq!(Reader::new(&max).varint().unwrap(), u64::MAX);
    assert!(Reader::new(&[0xc1, 0]).varint().is_err());
    assert_eq!(Reader::new(&[0]).varint().unwrap(), 0);
}

#[test]
fn a_length_beyond_the_end_is_refused() {
    let mut out = Vec::new();
    put_varint(&mut out, u64::MAX);
    assert!(Reader::new(&out).bytes().is_err());
}
