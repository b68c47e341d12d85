//! Tests of the properties section.

use proptest::prelude::*;

use super::*;

fn sample() -> Properties {
    Properties {
        blocks: 3,
        kinds: KindCounts { counts: [5, 4, 3, 2, 1, 9] },
        range_tombstones: 7,
        smallest_seq: 2,
        largest_seq: 1 << 50,
        raw_key_bytes: 1000,
        raw_value_bytes: 20000,
        level: 6,
        compression: Compression::Zstd,
        smallest: (*b"a").into(),
        largest: (*b"z").into(),
        largest_exclusive: true,
        created_by: "somebody".to_owned(),
    }
}

#[test]
fn properties_come_back_and_unknown_ones_are_skipped() {
    let mut bytes = sample().encode();
    assert_eq!(decode_properties(&bytes).unwrap(), sample());
    put_varint(&mut bytes, 1000);
    put_bytes(&mut bytes, b"from the future");
    assert_eq!(decode_properties(&bytes).unwrap(), sample());
    put_varint(&mut bytes, 999);
    put_bytes(&mut bytes, b"out of order");
    assert!(decode_properties(&bytes).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode_properties(&bytes);
    }

    #[test]
    fn cut_bytes_never_panic(cut in any::<prop::sample::Index>()) {
        let bytes = sample().encode();
        let _ = decode_properties(&bytes[..cut.index(bytes.len())]);
    }
}
