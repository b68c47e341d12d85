//! Blocks, headers and summaries prove themselves; addresses; the golden file.

use super::*;
use crate::base::entry::KeyspaceId;
use crate::base::error::ErrorKind;
use crate::index::flex::space::segment::dump::dump_space_segment;
use crate::log::testing::{UUID, check_golden, check_page};

const OWNER: Owner = Owner { uuid: UUID, keyspace: KeyspaceId(3) };
const ID: FileId = FileId(21);
const BIRTH: u64 = 0x0123_4567_89ab_cdef;

#[test]
fn addresses_say_where_a_byte_stands() {
    for (id, position) in [(1, 0), (21, 4091), (SEGMENT_ID_MAX, BLOCKS_MAX * DATA_BYTES - 1)] {
        let physical = physical_of(FileId(id), position);
        assert!(physical < PHYSICAL_END);
        assert_eq!(place_of(physical), (FileId(id), position));
    }
    let offsets = [0, 4091, 4092, 8184].map(block_offset);
    assert_eq!(offsets, [4096, 4096, 8192, 12288]);
}

#[test]
fn headers_prove_identity() {
    let bytes = encode_header(&OWNER, ID, BIRTH);
    assert_eq!(bytes.len() as u64, BLOCK_BYTES);
    let bytes = bytes[..HEADER_BYTES].to_vec();
    assert_eq!(check_header(&bytes, &OWNER, ID).unwrap(), BIRTH);
    assert!(check_header(&bytes, &OWNER, FileId(22)).is_err());
    assert!(check_header(&bytes, &Owner { keyspace: KeyspaceId(4), ..OWNER }, ID).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(check_header(&damaged, &OWNER, ID).is_err(), "byte {at}");
        assert!(check_header(&bytes[..at], &OWNER, ID).is_err(), "{at} bytes");
    }
    let mut newer = bytes;
    newer[COVERED_FROM..16].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc_at(OWNER.seed(ID), 12, &newer[COVERED_FROM..]);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    let error = check_header(&newer, &OWNER, ID).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn blocks_hold_where_they_stand_only() {
    let data: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    let bytes = encode_blocks(&OWNER, ID, 4092, &data);
    assert_eq!(bytes.len(), 8192);
    let first = check_block(&bytes[..4096], &OWNER, ID, 8192).unwrap();
    let second = check_block(&bytes[4096..], &OWNER, ID, 12288).unwrap();
    assert_eq!([first, &second[..5000 - 4092]].concat(), data);
    assert!(second[5000 - 4092..].iter().all(|byte| *byte == 0));
    assert!(check_block(&bytes[..4096], &OWNER, ID, 4096).is_err());
    assert!(check_block(&bytes[..4096], &OWNER, FileId(22), 8192).is_err());
    assert!(check_block(&bytes[..4095], &OWNER, ID, 8192).is_err());
    assert!(check_block(&[], &OWNER, ID, 8192).is_err());
    for at in 0..4096 {
        let mut damaged = bytes[..4096].to_vec();
        damaged[at] ^= 0x20;
        assert!(check_block(&damaged, &OWNER, ID, 8192).is_err(), "byte {at}");
    }
}

#[test]
fn summaries_round_trip_or_are_none() {
    for owners in [vec![], vec![0], vec![3, 4, 1000, u64::MAX]] {
        let owners: BTreeSet<u64> = owners.into_iter().collect();
        let bytes = encode_summary(&owners, &OWNER, ID, 8192);
        let trailer = &bytes[bytes.len() - TRAILER_BYTES as usize..];
        assert_eq!(summary_bytes(trailer).unwrap(), bytes.len() as u64);
        assert_eq!(decode_summary(&bytes, &OWNER, ID, 8192).unwrap(), owners);
        assert!(decode_summary(&bytes, &OWNER, ID, 4096).is_err());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode_summary(&damaged, &OWNER, ID, 8192).is_err(), "byte {at}");
            assert!(decode_summary(&bytes[at + 1..], &OWNER, ID, 8192).is_err());
        }
    }
    assert!(summary_bytes(&[0; 24]).is_err());
}

/// A segment of two blocks that was finished.
fn golden() -> Vec<u8> {
    let mut bytes = encode_header(&OWNER, ID, BIRTH);
    bytes.extend(encode_blocks(&OWNER, ID, 0, &[7; 5000]));
    let offset = bytes.len() as u64;
    bytes.extend(encode_summary(&BTreeSet::from([5, 300]), &OWNER, ID, offset));
    bytes
}

#[test]
fn golden_segment() {
    let bytes = golden();
    let mut dump = String::new();
    dump_space_segment(&bytes, &mut dump);
    assert!(!dump.contains("DAMAGED") && !dump.contains("not understood"), "{dump}");
    check_golden("flex-segment", FORMAT_VERSION, &bytes, &dump);
    let rows = [(8, 4, "checksum"), (32, 8, "file number"), (40, 4, "keyspace"), (44, 8, "birth")];
    check_page("flex-segment", &rows);
    check_page("flex-segment", &[(4092, 4, "checksum")]);
}

#[test]
fn damaged_segments_are_dumped_as_far_as_they_go() {
    let bytes = golden();
    for end in (0..bytes.len()).step_by(61) {
        let mut dump = String::new();
        dump_space_segment(&bytes[..end], &mut dump);
        assert!(dump.contains("end of file"));
    }
    for at in (BLOCK_BYTES as usize..bytes.len()).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let mut dump = String::new();
        dump_space_segment(&damaged, &mut dump);
        assert!(dump.contains("DAMAGED") || dump.contains("not understood"), "byte {at}: {dump}");
    }
}
