//! Header, trailer and records prove identity and place, and nothing else is taken for them.

use super::*;
use crate::base::checksum::crc_at;
use crate::base::error::ErrorKind;
use crate::log::testing::{UUID, check_page};
use crate::values::table::testing::{CONTAINER, item};

#[test]
fn a_header_proves_database_and_container() {
    let bytes = encode_header(&UUID, CONTAINER);
    check_header(&bytes, &UUID, CONTAINER).unwrap();
    assert!(check_header(&bytes, &[8; 16], CONTAINER).is_err());
    assert!(check_header(&bytes, &UUID, FileId(18)).is_err());
    for length in 0..bytes.len() {
        assert!(check_header(&bytes[..length], &UUID, CONTAINER).is_err());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        assert!(check_header(&damaged, &UUID, CONTAINER).is_err(), "byte {at}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let mut bytes = encode_header(&UUID, CONTAINER);
        bytes[12..16].copy_from_slice(&version.to_le_bytes());
        let crc = crc_at(file_seed(&UUID, CONTAINER.0), 12, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let error = check_header(&bytes, &UUID, CONTAINER).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("version {version};")), "{error}");
        let (mut bytes, _) = trailer().encode(9, trailer().offset());
        bytes[44..48].copy_from_slice(&version.to_le_bytes());
        let crc = crc_at(9, trailer().offset(), &bytes[..48]);
        bytes[48..52].copy_from_slice(&crc.to_le_bytes());
        let error = Trailer::decode(&bytes, 9, trailer().offset()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

fn trailer() -> Trailer {
    Trailer {
        records_end: 4096,
        index_bytes: 33,
        properties_bytes: 44,
        records_checksum: 5,
        index_checksum: 6,
        properties_checksum: 7,
    }
}

#[test]
fn a_trailer_proves_itself_and_tiles_the_file() {
    let offset = trailer().offset();
    assert_eq!(offset, 4096 + 33 + 44);
    let (bytes, crc) = trailer().encode(9, offset);
    assert_eq!(Trailer::decode(&bytes, 9, offset).unwrap(), (trailer(), crc));
    assert!(Trailer::decode(&bytes, 8, offset).is_err());
    assert!(Trailer::decode(&bytes, 9, offset + 1).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        assert!(Trailer::decode(&damaged, 9, offset).is_err(), "byte {at}");
    }
    for wrong in [
        Trailer { records_end: 4095, index_bytes: 34, ..trailer() },
        Trailer { records_end: 112, index_bytes: 33 + 4096 - 112, ..trailer() },
        Trailer { records_end: 4112, ..trailer() },
        Trailer { index_bytes: u64::MAX, ..trailer() },
        Trailer { properties_bytes: u64::MAX - 4096 - 32, ..trailer() },
    ] {
        let (bytes, _) = wrong.encode(9, offset);
        assert!(Trailer::decode(&bytes, 9, offset).is_err(), "{wrong:?}");
    }
}

/// A record at `offset` of the container with seed 9.
fn encoded(offset: u64) -> Vec<u8> {
    let segment = item(3, b"apple", 41, 300, b"a value").segment_bytes();
    let record = SeparatedRecord::decode(&segment).unwrap();
    let mut out = Vec::new();
    encode_front(&mut out, FileId(300), &record, record.body(), (9, offset));
    out.extend_from_slice(record.stored);
    out
}

#[test]
fn a_record_proves_container_place_and_file() {
    let bytes = encoded(160);
    let record = TableRecord::decode_first(&bytes).unwrap();
    assert_eq!((record.bytes(), stated_bytes(&bytes).unwrap()), (bytes.len(), bytes.len() as u64));
    assert_eq!(&bytes[record.stored_range()], b"a value");
    let wanted = Rank { keyspace: KeyspaceId(3), key: b"apple", seq: 41, file: FileId(300) };
    assert_eq!(record.rank(), wanted);
    assert_eq!(record.proven_body(9, 160), Some(record.record.body()));
    assert_eq!(record.proven_body(9, 176), None);
    assert_eq!(record.proven_body(8, 160), None);
    assert_eq!(TableRecord { file: FileId(301), ..record }.proven_body(9, 160), None);
    // A place of the segment that it came from proves nothing here, nor the other way round.
    assert_eq!(record.record.proven_body(9, 160), None);
}

#[test]
fn any_flip_in_a_record_is_noticed() {
    let bytes = encoded(160);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let holds = TableRecord::decode_first(&damaged)
                .is_ok_and(|record| record.proven_body(9, 160).is_some());
            assert!(!holds, "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn no_part_of_a_record_is_one() {
    let bytes = encoded(160);
    for length in 0..bytes.len() {
        assert!(TableRecord::decode_first(&bytes[..length]).is_err(), "{length} bytes");
        let _ = stated_bytes(&bytes[..length]);
    }
    assert!(TableRecord::decode_first(&[0; 100]).is_err());
    assert!(stated_bytes(&[0; 100]).is_err());
}

#[test]
fn records_stand_in_the_order_of_keys_then_from_new_to_old() {
    let rank = |keyspace, key, seq, file| Rank {
        keyspace: KeyspaceId(keyspace),
        key,
        seq,
        file: FileId(file),
    };
    let ranks: [Rank<'_>; 7] = [
        rank(1, b"a", 9, 5),
        rank(1, b"a", 8, 4),
        rank(1, b"a", 8, 5),
        rank(1, b"a\0", 20, 1),
        rank(1, b"b", 1, 1),
        rank(2, b"", 7, 1),
        rank(256, b"", 7, 1),
    ];
    assert!(ranks.is_sorted_by(|a, b| a < b));
}

#[test]
fn the_page_has_these_offsets() {
    check_page(
        "value-table",
        &[
            (0, HEADER_CRC_AT, "magic"),
            (HEADER_CRC_AT, 4, "checksum of the header"),
            (HEADER_UUID_AT, 16, "database uuid"),
            (32, 8, "container"),
            (40, HEADER_BYTES - 42, "zero"),
            (8, 8, "records end"),
            (TRAILER_CRC_AT, 4, "checksum of the trailer"),
            (TRAILER_CRC_AT + 4, TRAILER_BYTES - TRAILER_CRC_AT - 6, "zero"),
        ],
    );
}
