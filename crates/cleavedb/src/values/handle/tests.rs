//! Round trips, bounds, hostile bytes.

use super::*;
use crate::base::codec::put_varint;
use proptest::prelude::*;

fn raw(file: u64, epoch: u64, offset: u64, bytes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for number in [file, epoch, offset, bytes] {
        put_varint(&mut out, number);
    }
    out
}

proptest! {
    #[test]
    fn handles_round_trip(
        file in 1..=FILE_ID_MAX,
        epoch: u32,
        offset in OFFSET_MIN..u64::MAX / 2,
        bytes in SEPARATED_BYTES_MIN as u32..=SEPARATED_BYTES_MAX as u32,
    ) {
        let handle = Handle { file: FileId(file), epoch, offset, bytes };
        let encoded = handle.encode();
        let wanted = raw(file, u64::from(epoch), offset, u64::from(bytes));
        prop_assert_eq!(&encoded[..], &wanted[..]);
        prop_assert_eq!(Handle::decode(&encoded).unwrap(), handle);
        prop_assert_eq!(handle.end(), offset + u64::from(bytes));
        for cut in 0..encoded.len() {
            prop_assert!(Handle::decode(&encoded[..cut]).is_err());
        }
    }

    #[test]
    fn hostile_bytes_are_a_handle_of_one_encoding_or_none(bytes: Vec<u8>) {
        if let Ok(handle) = Handle::decode(&bytes) {
            prop_assert_eq!(&handle.encode()[..], &bytes[..]);
        }
    }
}

#[test]
fn numbers_that_no_record_has_are_refused() {
    let smallest = SEPARATED_BYTES_MIN as u64;
    let decode = |file, epoch, offset, bytes| Handle::decode(&raw(file, epoch, offset, bytes));
    assert!(decode(1, 0, OFFSET_MIN, smallest).is_ok());
    assert!(decode(FILE_ID_MAX, u64::from(u32::MAX), OFFSET_MIN, smallest).is_ok());
    assert!(decode(0, 0, OFFSET_MIN, smallest).is_err(), "file zero");
    assert!(decode(FILE_ID_MAX + 1, 0, OFFSET_MIN, smallest).is_err(), "no such file number");
    assert!(decode(1, 1 << 32, OFFSET_MIN, smallest).is_err(), "epoch beyond 32 bits");
    assert!(decode(1, 0, OFFSET_MIN - 1, smallest).is_err(), "within the headers");
    assert!(decode(1, 0, u64::MAX - 3, smallest).is_err(), "end beyond 64 bits");
    assert!(decode(1, 0, OFFSET_MIN, smallest - 1).is_err(), "shorter than any record");
    let longest = SEPARATED_BYTES_MAX as u64;
    assert!(decode(1, 0, OFFSET_MIN, longest).is_ok());
    assert!(decode(1, 0, OFFSET_MIN, longest + 1).is_err(), "longer than any record");
    let mut extra = raw(1, 0, OFFSET_MIN, smallest);
    extra.push(0);
    assert!(Handle::decode(&extra).is_err(), "a byte behind");
}

#[test]
fn the_longest_handle_fits() {
    let longest = raw(FILE_ID_MAX, u64::from(u32::MAX), u64::MAX / 2, SEPARATED_BYTES_MAX as u64);
    assert!(longest.len() <= HANDLE_BYTES_MAX);
    assert_eq!(&Handle::decode(&longest).unwrap().encode()[..], &longest[..]);
}
