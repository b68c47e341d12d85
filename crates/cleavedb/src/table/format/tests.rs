//! Tests of header, footer and trailers, sound and damaged.

use proptest::prelude::*;

use super::*;

const SEED: u32 = 77;

fn sealed(raw: &[u8], compression: Compression, page_bytes: usize, offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    seal(&mut out, raw, compression, page_bytes, (SEED, offset), &mut Vec::new());
    out
}

proptest! {
    #[test]
    fn what_is_sealed_comes_back(
        raw: Vec<u8>,
        offset in 0..u64::MAX / 2,
        repeat in 1usize..50,
        page_bytes in prop_oneof![Just(0), 1usize..5000],
    ) {
        let raw = raw.repeat(repeat);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let plain = sealed(&raw, compression, 0, offset);
            let stored = sealed(&raw, compression, page_bytes, offset);
            let padding = stored.len() - plain.len();
            prop_assert!(padding <= padding_bytes_max(page_bytes));
            let end = offset + stored.len() as u64;
            prop_assert!(padding == 0 || end.is_multiple_of(page_bytes as u64));
            prop_assert_eq!(decode_sealed(&stored, SEED, offset).unwrap().padding, padding);
            prop_assert_eq!(&decode_section(&stored, SEED, offset).unwrap(), &raw);
            prop_assert!(decode_sealed(&stored, SEED, offset ^ 1).is_err());
            prop_assert!(decode_sealed(&stored, SEED ^ 1, offset).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, offset: u64) {
        let _ = decode_header(&bytes);
        let _ = decode_footer(&bytes, SEED, offset);
        let _ = decode_section(&bytes, SEED, offset);
    }
}

#[test]
fn an_impossible_length_is_refused_though_its_checksum_is_right() {
    for (raw_len, compression) in [(u32::MAX, 2u8), (1 << 20, 3), (1 << 20, 2)] {
        let mut stored = raw_len.to_le_bytes().to_vec();
        stored.extend_from_slice(b"four");
        stored.push(compression);
        let crc = checksum::crc_at(SEED, 5, &stored);
        stored.extend_from_slice(&crc.to_le_bytes());
        assert!(decode_sealed(&stored, SEED, 5).is_err());
    }
}

#[test]
fn padding_of_an_impossible_length_is_refused_though_its_checksum_is_right() {
    for (payload, how) in [(&b"four\x06"[..], 1), (b"four\x00", 1), (b"", 1), (b"four\x06", 2)] {
        let mut stored = payload.to_vec();
        stored.push(how | PADDED);
        let crc = checksum::crc_at(SEED, 5, &stored);
        stored.extend_from_slice(&crc.to_le_bytes());
        assert!(decode_sealed(&stored, SEED, 5).is_err(), "{payload:?}");
    }
}

#[test]
fn a_block_may_end_with_a_page_if_it_has_half_of_its_bytes_there() {
    for (offset, bytes, longer) in [
        (0, Some(4096), Some(4096)),
        (8192, Some(4096), Some(4096)),
        (8192 + 48, Some(4048), Some(4048)),
        (8192 + 2048, Some(2048), Some(2048)),
        (8192 + 2049, None, Some(2047 + 4096)),
        (12_287, None, Some(4097)),
    ] {
        assert_eq!(bytes_to_page(offset, 4096, 4096, false), bytes, "at {offset}");
        assert_eq!(bytes_to_page(offset, 4096, 4096, true), longer, "at {offset}");
    }
    assert_eq!(bytes_to_page(100, 4096, 0, true), None);
    assert_eq!(bytes_to_page(4096 + 7, 16_384, 4096, false), Some(16_384 - 7));
    assert_eq!(bytes_to_page(4096 + 4090, 16_384, 4096, false), Some(12_288 + 6));
}

#[test]
fn a_block_that_compresses_beyond_measure_is_stored_within_it() {
    let raw = vec![0; 8 << 20];
    let stored = sealed(&raw, Compression::Zstd, 0, 9);
    assert_eq!(decode_section(&stored, SEED, 9).unwrap(), raw);
    assert!(stored.len() >= raw.len() / EXPANSION_MAX);
}

fn header() -> Header {
    Header { uuid: *b"0123456789abcdef", file: FileId(9), keyspace: 3 }
}

#[test]
fn header_and_footer_come_back() {
    let bytes = header().encode();
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(decode_header(&bytes).unwrap(), header());
    let extent = |offset, len| Extent { offset, len };
    let footer = Footer {
        filter: extent(100, 20),
        tombstones: extent(120, 6),
        index: extent(126, 50),
        properties: extent(176, 24),
    };
    let bytes = footer.encode(SEED, 200);
    assert_eq!(decode_footer(&bytes, SEED, 200).unwrap(), footer);
    assert!(decode_footer(&bytes, SEED, 201).is_err());
    let gap = Footer { index: extent(127, 49), ..footer };
    assert!(decode_footer(&gap.encode(SEED, 200), SEED, 200).is_err());
    let short = Footer { properties: extent(176, 23), ..footer };
    assert!(decode_footer(&short.encode(SEED, 200), SEED, 200).is_err());
}

#[test]
fn another_version_is_refused_by_name_and_damage_as_damage() {
    let mut bytes = header().encode();
    bytes[HEADER_VERSION_AT] = 3;
    assert_eq!(decode_header(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    let crc = checksum::crc_at(header().seed(), 0, &bytes[..HEADER_CRC_AT]);
    bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    let error = decode_header(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("format 3"));
}
