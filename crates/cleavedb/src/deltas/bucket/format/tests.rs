//! Header, meta and chunks prove themselves, and the page shows their offsets.

use super::*;
use crate::base::error::ErrorKind;
use crate::deltas::testing::{KEYSPACE, Line, anchor, bound, delta, groups, range, start};
use crate::log::testing::{UUID, check_page};

const FILE: FileId = FileId(18);

fn header() -> Header {
    Header { pages_end: 200, sorted_bytes: 333 }
}

#[test]
fn a_header_proves_database_and_file() {
    let bytes = header().encode(&UUID, FILE);
    assert_eq!(Header::decode(&bytes, &UUID, FILE).unwrap(), header());
    assert!(Header::decode(&bytes, &[8; 16], FILE).is_err());
    assert!(Header::decode(&bytes, &UUID, FileId(19)).is_err());
    for length in 0..bytes.len() {
        assert!(Header::decode(&bytes[..length], &UUID, FILE).is_err());
    }
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[at / 8] ^= 1 << (at % 8);
        assert!(Header::decode(&damaged, &UUID, FILE).is_err(), "bit {at}");
    }
    for wrong in [
        Header { pages_end: 63, ..header() },
        Header { sorted_bytes: 200, ..header() },
        Header { sorted_bytes: BUCKET_BYTES_MAX as u32 + 1, ..header() },
    ] {
        assert!(Header::decode(&wrong.encode(&UUID, FILE), &UUID, FILE).is_err(), "{wrong:?}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let mut bytes = header().encode(&UUID, FILE);
        bytes[12..16].copy_from_slice(&version.to_le_bytes());
        let crc = crc_at(file_seed(&UUID, FILE.0), 12, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let error = Header::decode(&bytes, &UUID, FILE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("version {version};")), "{error}");
    }
}

#[test]
fn pages_are_separated_by_short_bounds() {
    let separated = |last: &[u8], first: &[u8]| separator(Some(bound(last)), bound(first));
    assert_eq!(separated(b"apple", b"apricot"), start(b"apr"));
    assert_eq!(separated(b"apple", b"apples"), start(b"apples"));
    assert_eq!(separated(b"", b"b"), start(b"b"));
    let other = Bound { keyspace: KeyspaceId(1), key: b"zebra" };
    assert_eq!(separator(Some(other), bound(b"apple")), start(b""));
    assert!(separator(None, bound(b"")).as_ref() < bound(b""), "before all keys");
}

fn meta() -> Meta {
    let page = |offset, bytes, bound| Page { offset, bytes, checksum: 7 + offset, bound };
    Meta {
        applied_seq: 44,
        keys: 5,
        records: 9,
        pages: vec![
            page(64, 30, separator(None, bound(b"a"))),
            page(94, 90, start(b"b")),
            page(184, 16, start(b"f")),
        ],
        filter: filter_of(vec![1, 2, 3, 4, 5]),
        ranges: vec![range(b"a", b"c", 40)],
        checksum: 0,
    }
}

#[test]
fn a_meta_proves_itself_and_covers_the_pages() {
    let bytes = meta().encode(9, 200);
    let decoded = Meta::decode(&bytes, 9, 200).unwrap();
    assert_eq!(decoded.pages, meta().pages);
    assert_eq!((decoded.applied_seq, decoded.keys, decoded.records), (44, 5, 9));
    assert_eq!(decoded.ranges, meta().ranges);
    assert_eq!(decoded.encode(9, 200), bytes, "one encoding");
    for (key, page) in [("", Some(64)), ("a", Some(64)), ("b", Some(94)), ("zz", Some(184))] {
        let found =
            page_of(&decoded.pages, bound(key.as_bytes())).map(|page| decoded.pages[page].offset);
        assert_eq!(found, page, "{key}");
    }
    assert!(Meta::decode(&bytes, 8, 200).is_err());
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        assert!(Meta::decode(&damaged, 9, 200).is_err(), "bit {at}");
        // With a right checksum: nothing else than what it encodes to.
        seal(&mut damaged, 9, 200);
        if let Ok(other) = Meta::decode(&damaged, 9, 200) {
            assert_eq!(other.encode(9, 200), damaged, "bit {at}");
        }
    }
    let wrong: [fn(&mut Meta); 9] = [
        |meta| meta.keys = 10,
        |meta| meta.keys = 2,
        |meta| meta.records = 201,
        |meta| meta.applied_seq = 39,
        |meta| meta.applied_seq = SEQ_MAX + 1,
        |meta| meta.pages[0].bytes = 0,
        |meta| meta.pages[2].bytes += 1,
        |meta| meta.pages[2].bound = start(b"b"),
        |meta| meta.pages[0].bound = start(b"a"),
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut meta = meta();
        change(&mut meta);
        assert!(Meta::decode(&meta.encode(9, 200), 9, 200).is_err(), "change {number}");
    }
}

fn chunk_lines() -> Vec<Line> {
    vec![
        (b"apple", vec![delta(40, b"forty"), anchor(31)]),
        (b"banana", vec![delta(35, &[b'x'; 40])]),
    ]
}

#[test]
fn a_chunk_proves_itself_and_what_is_before() {
    let hash = KeyedHash::new(&UUID);
    let reading = Reading { hash, piece_bytes: 16 };
    let ranges = [range(b"b", b"c", 33)];
    let place = (9, 333, 0xabad_cafe);
    let (bytes, chunk) =
        Chunk::encode(place, groups(&chunk_lines()).bytes(), &ranges, reading).unwrap();
    assert_eq!((chunk.end(), chunk.ranges.len()), (333 + bytes.len() as u64, 1));
    let totals = GroupTotals { groups: 2, records: 4, first_seq: 31, last_seq: 40 };
    assert_eq!(chunk.totals, totals);
    assert!(chunk.filter.may_contain(hash.hash(KEYSPACE, b"apple")));
    // A key of each has a piece of its own, which proves itself.
    assert_eq!(chunk.pieces.len(), 2);
    assert_eq!(chunk.pieces[0].offset, 333 + chunk.groups_at);
    assert_eq!(u64::from(chunk.pieces[1].offset + chunk.pieces[1].bytes), chunk.end());
    for (key, number) in [("a", 0), ("apple", 0), ("az", 0), ("b", 1), ("banana", 1), ("z", 1)] {
        let bound = bound(key.as_bytes());
        assert_eq!(chunk.piece_of(bound), Some(number), "{key}");
        let piece = &chunk.pieces[number];
        let at = (piece.offset - 333) as usize;
        let part = &bytes[at..at + piece.bytes as usize];
        piece.check(9, part).unwrap();
        assert!(piece.check(9, &part[1..]).is_err());
        let group = Groups::new(part).find(bound).unwrap();
        assert_eq!(group.is_some(), ["apple", "banana"].contains(&key), "{key}");
    }
    let wide = Reading { hash, piece_bytes: 1 << 20 };
    assert_eq!(Chunk::decode(&bytes, place, wide).unwrap().pieces.len(), 1);
    for wrong in [(8, 333, 0xabad_cafe), (9, 334, 0xabad_cafe), (9, 333, 0xabad_caff)] {
        assert!(Chunk::decode(&bytes, wrong, reading).is_err(), "{wrong:?}");
    }
    let mut longer = bytes.clone();
    longer.extend_from_slice(b"what follows");
    assert_eq!(Chunk::decode(&longer, place, reading).unwrap().checksum, chunk.checksum);
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        assert!(Chunk::decode(&damaged, place, reading).is_err(), "bit {at}");
        seal(&mut damaged, 9, 333);
        if let Ok(other) = Chunk::decode(&damaged, place, reading) {
            let groups = &damaged[other.groups_at as usize..other.bytes as usize];
            let again = Chunk::encode(place, groups, &other.ranges, reading).unwrap().0;
            assert_eq!(again, damaged, "bit {at}");
        }
    }
    for length in 0..bytes.len() {
        assert!(Chunk::decode(&bytes[..length], place, reading).is_err(), "{length} bytes");
    }
    assert!(Chunk::encode(place, &[], &[], reading).is_err(), "a chunk of nothing");
}

#[test]
fn the_page_has_these_offsets() {
    check_page(
        "bucket",
        &[
            (0, HEADER_CRC_AT, "magic"),
            (HEADER_CRC_AT, 4, "checksum of the header"),
            (HEADER_UUID_AT, 16, "database uuid"),
            (32, 8, "file number"),
            (HEADER_PAGES_END_AT, 4, "pages end"),
            (HEADER_PAGES_END_AT + 4, 4, "sorted part ends"),
            (48, HEADER_ZEROS, "zero"),
            (0, CRC_BYTES, "checksum of the chunk"),
            (CRC_BYTES, 4, "length"),
            (8, CHUNK_FIXED_BYTES - 8, "link"),
        ],
    );
}
