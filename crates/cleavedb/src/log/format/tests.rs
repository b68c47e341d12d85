//! Golden segment, flips, tears and lost sectors of headers and frames.

use super::*;
use crate::log::dump::dump_segment;
use crate::log::testing::{UUID, check_golden, check_page};
use proptest::prelude::*;

const SEED: u32 = 0x1234_5678;

fn header() -> SegmentHeader {
    SegmentHeader {
        kind: FileKind::Journal,
        uuid: UUID,
        id: FileId(12),
        predecessor: Some(Sealed { id: FileId(9), bytes: 777, checksum: 0xdead_beef }),
        first_seq: 41,
    }
}

fn encoded(header: &SegmentHeader) -> Vec<u8> {
    let mut out = Vec::new();
    header.encode(&mut out);
    out
}

fn frame(offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let frame = FrameRef { base_seq: 7, count: 2, payload };
    encode_frame(FrameKind::Data, frame, 6, SEED, offset, &mut out).unwrap();
    out
}

/// Puts the right checksum into a changed header.
fn mend(bytes: &mut [u8], id: u64) {
    let crc = segment_header_crc(&UUID, FileId(id), bytes);
    patch(bytes, segment_offset::CRC, crc);
}

#[test]
fn golden_journal() {
    let header = header();
    let mut bytes = encoded(&header);
    let mut payload = Vec::new();
    use crate::base::entry::{KeyspaceId, Kind};
    use crate::log::batch::encode_record;
    encode_record(&mut payload, Kind::Put, KeyspaceId(1), b"apple", b"red");
    encode_record(&mut payload, Kind::Delete, KeyspaceId(1), b"pear", b"");
    encode_record(&mut payload, Kind::Merge, KeyspaceId(300), b"n", &1u64.to_le_bytes());
    encode_record(&mut payload, Kind::RangeDelete, KeyspaceId(1), b"a", b"b");
    for (kind, base_seq, count, payload, durable) in
        [(FrameKind::Data, 41, 4, &payload[..], 40), (FrameKind::Synced, 45, 0, &[][..], 44)]
    {
        let frame = FrameRef { base_seq, count, payload };
        let offset = bytes.len() as u64;
        encode_frame(kind, frame, durable, header.seed(), offset, &mut bytes).unwrap();
    }
    let mut dump = String::new();
    dump_segment(&bytes, &mut dump);
    check_golden("journal", FORMAT_VERSION, &bytes, &dump);
}

#[test]
fn the_page_gives_the_offsets_of_the_code() {
    use {frame_offset as f, segment_offset as s};
    let segment = [
        (s::MAGIC, s::CRC, "magic"),
        (s::CRC, s::VERSION, "checksum"),
        (s::VERSION, s::UUID, "format version"),
        (s::UUID, s::FILE_ID, "database uuid"),
        (s::FILE_ID, s::PREDECESSOR_ID, "file number"),
        (s::PREDECESSOR_ID, s::PREDECESSOR_BYTES, "predecessor's number"),
        (s::PREDECESSOR_BYTES, s::PREDECESSOR_CHECKSUM, "predecessor's length"),
        (s::PREDECESSOR_CHECKSUM, s::RESERVED, "predecessor's checksum"),
        (s::RESERVED, s::FIRST_SEQ, "reserved"),
        (s::FIRST_SEQ, s::RESERVED_TAIL, "first seq"),
        (s::RESERVED_TAIL, s::KIND, "reserved"),
        (s::KIND, s::END, "kind of file"),
        (s::END, SEGMENT_HEADER_BYTES, "end mark"),
        (f::MAGIC, f::CRC, "magic"),
        (f::CRC, f::PAYLOAD_BYTES, "header checksum"),
        (f::PAYLOAD_BYTES, f::COUNT, "payload length"),
        (f::COUNT, f::BASE_SEQ, "count"),
        (f::BASE_SEQ, f::DURABLE_SEQ, "base seq"),
        (f::DURABLE_SEQ, f::PAYLOAD_CRC, "durable seq"),
        (f::PAYLOAD_CRC, f::ZERO_SECTORS, "payload checksum"),
        (f::ZERO_SECTORS, f::KIND, "zero sectors"),
        (f::KIND, FRAME_HEADER_BYTES, "kind of frame"),
    ];
    check_page("journal", &segment.map(|(from, to, meaning)| (from, to - from, meaning)));
}

#[test]
fn segment_header_round_trips_and_every_flip_is_refused() {
    let header = header();
    let bytes = encoded(&header);
    assert_eq!(bytes.len(), SEGMENT_HEADER_BYTES);
    let decode = |bytes: &[u8]| SegmentHeader::decode(bytes, FileKind::Journal, &UUID, FileId(12));
    assert_eq!(decode(&bytes).unwrap(), header);
    assert_eq!(SegmentHeader::decode_any(&bytes).unwrap(), header);
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            assert_eq!(decode(&bad).unwrap_err().kind(), ErrorKind::Corruption, "byte {at}");
        }
        assert_eq!(decode(&bytes[..at]).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_header_from_elsewhere_is_named_as_such() {
    let bytes = encoded(&header());
    let decode = |uuid, id| {
        SegmentHeader::decode(&bytes, FileKind::Journal, uuid, FileId(id)).unwrap_err().to_string()
    };
    assert!(decode(&[7; 16], 12).contains("another database"));
    assert!(decode(&UUID, 13).contains("number 000012, not 000013"));
    let wrong_kind = SegmentHeader::decode(&bytes, FileKind::Manifest, &UUID, FileId(12));
    assert!(wrong_kind.is_err());
}

#[test]
fn a_newer_or_older_segment_is_refused_by_name() {
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1, 200] {
        let mut bytes = encoded(&header());
        bytes[segment_offset::VERSION] = version as u8;
        mend(&mut bytes, 12);
        let decoded = SegmentHeader::decode(&bytes, FileKind::Journal, &UUID, FileId(12));
        let error = decoded.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("version {version};")), "{error}");
    }
}

#[test]
fn impossible_headers_with_right_checksums_are_refused() {
    for (at, value) in [
        (segment_offset::RESERVED, 1),
        (segment_offset::RESERVED_TAIL, 1),
        (segment_offset::KIND, 99),
        (segment_offset::END, 1),
        (segment_offset::PREDECESSOR_ID, 12),
        (segment_offset::PREDECESSOR_ID, 0),
        (segment_offset::FIRST_SEQ + 7, 0xff),
    ] {
        let mut bytes = encoded(&header());
        bytes[at] = value;
        mend(&mut bytes, 12);
        let decoded = SegmentHeader::decode(&bytes, FileKind::Journal, &UUID, FileId(12));
        assert_eq!(decoded.unwrap_err().kind(), ErrorKind::Corruption, "offset {at}");
    }
}

#[test]
fn a_frame_holds_only_at_its_place_in_its_file() {
    let bytes = frame(100, b"payload");
    let header = FrameHeader::decode(&bytes, SEED, 100).unwrap();
    assert_eq!(header.frame_bytes(), bytes.len() as u64);
    assert!(header.payload_matches(SEED, 140, b"payload"));
    assert!(!header.payload_matches(SEED, 141, b"payload"));
    assert!(!header.payload_matches(SEED + 1, 140, b"payload"));
    assert!(FrameHeader::decode(&bytes, SEED, 101).is_err());
    assert!(FrameHeader::decode(&bytes, SEED + 1, 100).is_err());
}

#[test]
fn every_flip_of_a_frame_header_is_refused() {
    let bytes = frame(100, b"payload");
    for bit in 0..FRAME_HEADER_BYTES * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(FrameHeader::decode(&bad, SEED, 100).is_err(), "bit {bit}");
        assert!(!header_may_be_torn(100, &bad), "bit {bit} taken for a tear");
    }
}

/// What a crash can leave of a header is recognised wherever the header lies in its sectors.
#[test]
fn every_tear_of_a_header_may_be_one() {
    for offset in (0..SECTOR_BYTES as u64).chain([5 * SECTOR_BYTES as u64 - 20]) {
        let bytes = frame(offset, &[0xaa; 2000]);
        let seen_bytes = header_sector_bytes(offset);
        let end_of_sector = (offset as usize + seen_bytes) % SECTOR_BYTES;
        assert_eq!(end_of_sector, 0, "the view ends with a sector");
        for cut in 0..FRAME_HEADER_BYTES {
            let mut torn = bytes[..seen_bytes].to_vec();
            assert!(header_may_be_torn(offset, &torn[..cut]), "file ends at {cut}");
            torn[cut..].fill(0);
            assert!(header_may_be_torn(offset, &torn), "offset {offset}, torn at {cut}");
        }
        let room = SECTOR_BYTES - offset as usize % SECTOR_BYTES;
        if room < FRAME_HEADER_BYTES {
            let mut first_lost = bytes[..seen_bytes].to_vec();
            first_lost[..room].fill(0);
            assert!(header_may_be_torn(offset, &first_lost), "offset {offset}: first sector lost");
        }
    }
}

/// Loss of any sector of a body is recognised, also where the payload holds zeros by nature.
#[test]
fn every_lost_sector_of_a_body_may_be_a_tear() {
    for offset in [0u64, 1, 471, 472, 473, 511, 700] {
        let mut payload = vec![0xaa; 3000];
        payload[600..2000].fill(0);
        let bytes = frame(offset, &payload);
        let header = FrameHeader::decode(&bytes, SEED, offset).unwrap();
        let body_offset = offset + FRAME_HEADER_BYTES as u64;
        let body = &bytes[FRAME_HEADER_BYTES..];
        assert!(!body_may_be_torn(&header, body_offset, body));
        let first_whole = body_offset.next_multiple_of(SECTOR_BYTES as u64);
        let end = body_offset + body.len() as u64;
        for sector in (first_whole..end).step_by(SECTOR_BYTES) {
            let from = (sector - body_offset) as usize;
            let mut lost = body.to_vec();
            let to = (from + SECTOR_BYTES).min(lost.len());
            let by_nature = is_zero(&lost[from..to]);
            lost[from..to].fill(0);
            let may_be = body_may_be_torn(&header, body_offset, &lost);
            assert_eq!(may_be, !by_nature, "offset {offset}, sector at {sector}");
        }
        for cut in 0..body.len() {
            let mut torn = body.to_vec();
            torn[cut..].fill(0);
            assert!(body_may_be_torn(&header, body_offset, &torn), "torn at {cut}");
        }
        for at in 0..body.len() {
            let mut rotten = body.to_vec();
            rotten[at] ^= 0x10;
            assert!(!body_may_be_torn(&header, body_offset, &rotten), "rot at {at}");
        }
    }
}

#[test]
fn frames_out_of_range_are_refused() {
    let encode = |kind, base_seq, count, payload: &[u8], durable| {
        let mut out = Vec::new();
        let frame = FrameRef { base_seq, count, payload };
        encode_frame(kind, frame, durable, SEED, 0, &mut out).unwrap();
        FrameHeader::decode(&out, SEED, 0)
    };
    assert!(encode(FrameKind::Data, SEQ_MAX, 1, b"", 0).is_ok());
    assert!(encode(FrameKind::Data, SEQ_MAX, 2, b"", 0).is_err());
    assert!(encode(FrameKind::Data, u64::MAX, 2, b"", 0).is_err());
    assert!(encode(FrameKind::Data, 1, 1, b"", SEQ_MAX + 1).is_err());
    assert!(encode(FrameKind::Synced, 1, 0, b"", 0).is_ok());
    assert!(encode(FrameKind::Synced, 1, 1, b"", 0).is_err());
    assert!(encode(FrameKind::Synced, 1, 0, b"x", 0).is_err());
}

proptest! {
    #[test]
    fn frames_round_trip(
        offset in 0u64..10_000,
        payload: Vec<u8>,
        base_seq in 1..SEQ_MAX / 2,
        count: u32,
        durable_seq in 0..SEQ_MAX,
    ) {
        let mut out = vec![9; 3];
        let frame = FrameRef { base_seq, count, payload: &payload };
        encode_frame(FrameKind::Data, frame, durable_seq, SEED, offset, &mut out).unwrap();
        let header = FrameHeader::decode(&out[3..], SEED, offset).unwrap();
        prop_assert_eq!(
            (header.base_seq, header.count, header.durable_seq),
            (base_seq, count, durable_seq)
        );
        let body = &out[3 + FRAME_HEADER_BYTES..];
        prop_assert_eq!(&body[..payload.len()], &payload[..]);
        prop_assert_eq!(&body[payload.len()..], &[FRAME_END][..]);
        prop_assert!(header.payload_matches(SEED, offset + 40, &payload));
    }

    #[test]
    fn hostile_headers_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        drop(SegmentHeader::decode(&bytes, FileKind::Journal, &UUID, FileId(12)));
        let _ = FrameHeader::decode(&bytes, SEED, 9);
        // Past the checksum, too.
        if bytes.len() >= SEGMENT_HEADER_BYTES {
            bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
            mend(&mut bytes, 12);
            drop(SegmentHeader::decode(&bytes, FileKind::Journal, &UUID, FileId(12)));
        }
        if bytes.len() >= FRAME_HEADER_BYTES {
            bytes[..4].copy_from_slice(&FRAME_MAGIC);
            let crc = frame_header_crc(SEED, 9, &bytes);
            patch(&mut bytes, frame_offset::CRC, crc);
            let _ = FrameHeader::decode(&bytes, SEED, 9);
        }
    }
}
