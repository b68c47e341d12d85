//! Round trips of pages and addresses, the golden file, and what the page of the format says.

use super::*;
use crate::index::flex::pages::dump::dump_pages;
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, Tag};
use crate::log::testing::{UUID, check_golden, check_page};

const OWNER: Owner = Owner { uuid: UUID, keyspace: KeyspaceId(3) };
const FILE: FileId = FileId(20);

fn address(offset: u64) -> PageAddress {
    PageAddress { file: FILE, offset, bytes: 100, checksum: 0xabad_cafe }
}

#[test]
fn addresses_round_trip() {
    let far = PageAddress { file: FileId(1 << 40), offset: 1 << 50, bytes: 1 << 26, checksum: 0 };
    for wanted in [address(64), far] {
        let mut bytes = Vec::new();
        wanted.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(PageAddress::decode(&mut reader).unwrap(), wanted);
        assert!(reader.is_empty());
        for end in 0..bytes.len() {
            assert!(PageAddress::decode(&mut Reader::new(&bytes[..end])).is_err());
        }
    }
    for wrong in [
        PageAddress { file: FileId(0), ..address(64) },
        PageAddress { file: FileId(u64::MAX), ..address(64) },
        PageAddress { bytes: 39, ..address(64) },
        PageAddress { bytes: u32::MAX, ..address(64) },
        address(63),
        address(u64::MAX),
    ] {
        let mut bytes = Vec::new();
        wrong.encode(&mut bytes);
        assert!(PageAddress::decode(&mut Reader::new(&bytes)).is_err(), "{wrong:?}");
    }
}

#[test]
fn headers_prove_identity() {
    let bytes = encode_header(&OWNER, FILE);
    assert_eq!(bytes.len() as u64, HEADER_BYTES);
    check_header(&bytes, &OWNER, FILE).unwrap();
    assert!(check_header(&bytes, &OWNER, FileId(21)).is_err());
    assert!(check_header(&bytes, &Owner { keyspace: KeyspaceId(4), ..OWNER }, FILE).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(check_header(&damaged, &OWNER, FILE).is_err(), "byte {at}");
        assert!(check_header(&bytes[..at], &OWNER, FILE).is_err(), "{at} bytes");
    }
    let mut newer = bytes;
    newer[HEADER_COVERED_FROM..16].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc_at(OWNER.seed(FILE), 12, &newer[HEADER_COVERED_FROM..]);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    let error = check_header(&newer, &OWNER, FILE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_page_of_another_version_is_unsupported() {
    let stamp = Stamp { keyspace: OWNER.keyspace, checkpoint: 1 };
    let mut page = stamp.leaf(&[], 0, 0);
    let bytes = page.len() as u32;
    page[PAGE_COVERED_FROM] = PAGE_VERSION + 1;
    let checksum = seal(&mut page, OWNER.seed(FILE), 64);
    let address = PageAddress { file: FILE, offset: 64, bytes, checksum };
    let error = Page::open(&page, &OWNER, &address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(PageKind::from_u8(0).or(PageKind::from_u8(4)), None);
}

/// A file of two leaves, their parent and a root.
fn golden() -> Vec<u8> {
    let stamp = Stamp { keyspace: OWNER.keyspace, checkpoint: 5 };
    let mut bytes = encode_header(&OWNER, FILE);
    let mut put = |mut page: Vec<u8>| {
        let offset = bytes.len() as u64;
        let checksum = seal(&mut page, OWNER.seed(FILE), offset);
        bytes.extend_from_slice(&page);
        PageAddress { file: FILE, offset, bytes: page.len() as u32, checksum }
    };
    let widths = TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 4096 };
    let mut tree = Tree::new(widths).unwrap();
    for number in 0..5 {
        let extent = Extent::new(10_000 + 156 * (number ^ 1), 156);
        tree.append(extent.with_tag(Tag::new(number as u16 % 3))).unwrap();
    }
    let mut children = Vec::new();
    for leaf in tree.root().children() {
        let (packed, count) = leaf.packed().unwrap();
        children.push((leaf.length(), put(stamp.leaf(packed, count, leaf.length()))));
    }
    let top = put(stamp.inner(&children));
    let live_bytes = top.end() - HEADER_BYTES;
    let root = RootPage {
        widths,
        length: tree.length(),
        extents: tree.extents(),
        height: 2,
        top,
        files: vec![FileLine { id: FILE, end: top.end(), live_bytes }],
        attached: b"of the owner".to_vec(),
    };
    put(stamp.root(&root));
    bytes
}

#[test]
fn golden_pages() {
    let bytes = golden();
    let mut dump = String::new();
    dump_pages(&bytes, &mut dump);
    assert!(!dump.contains("DAMAGED") && !dump.contains("not understood"), "{dump}");
    check_golden("flex-pages", FORMAT_VERSION, &bytes, &dump);
    check_page("flex-pages", &[(8, 4, "checksum"), (32, 8, "file number"), (40, 4, "keyspace")]);
    let rows = [
        (0, 4, "magic `FXPG`"),
        (PAGE_CHECKSUM_AT, 4, "checksum"),
        (12, 4, "bytes of the whole page"),
        (24, 8, "number of the checkpoint"),
        (32, 8, "bytes of the space"),
    ];
    check_page("flex-pages", &rows);
    assert_eq!(PAGE_HEADER_BYTES, 32 + 8);
}

#[test]
fn damaged_files_are_dumped_as_far_as_they_go() {
    let bytes = golden();
    for end in 0..bytes.len() {
        let mut dump = String::new();
        dump_pages(&bytes[..end], &mut dump);
        assert!(dump.contains("end of file"));
    }
    for at in 64..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let mut dump = String::new();
        dump_pages(&damaged, &mut dump);
        assert!(dump.contains("DAMAGED") || dump.contains("not understood"), "byte {at}");
    }
}
