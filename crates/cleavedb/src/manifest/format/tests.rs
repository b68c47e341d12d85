//! Golden manifest and pointer, round trips, damage, unknown sections.

use super::*;
use crate::base::names::FileKind;
use crate::log::format::{FrameKind, FrameRef, SegmentHeader, encode_frame};
use crate::log::testing::{UUID, check_golden, check_page};
use crate::manifest::dump::{dump_current, dump_manifest};
use proptest::prelude::*;

fn section(tag: u16, payload: &[u8]) -> Section {
    Section { tag: SectionTag(tag), payload: payload.to_vec() }
}

fn pointer() -> Pointer {
    Pointer { uuid: UUID, manifest_id: FileId(77) }
}

/// Puts the right checksum into a changed pointer file.
fn mend(bytes: &mut [u8]) {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[pointer_offset::UUID..pointer_offset::MANIFEST_ID]);
    let crc = pointer_crc(&uuid, &bytes[pointer_offset::VERSION..]);
    bytes[pointer_offset::CRC..pointer_offset::VERSION].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn golden_current() {
    let bytes = pointer().encode(PointerKind::Current);
    let mut dump = String::new();
    dump_current(&bytes, &mut dump);
    check_golden("current", FORMAT_VERSION, &bytes, &dump);
}

#[test]
fn golden_manifest() {
    let header = SegmentHeader {
        kind: FileKind::Manifest,
        uuid: UUID,
        id: FileId(77),
        predecessor: None,
        first_seq: 5,
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    let edits = [
        vec![section(1, b"engine"), section(2, b""), section(0x8005, b"later")],
        vec![section(3, &[7; 20])],
    ];
    for (sections, number) in edits.into_iter().zip(5..) {
        let payload = Edit { sections }.encode().unwrap();
        let frame = FrameRef { base_seq: number, count: 1, payload: &payload };
        let offset = bytes.len() as u64;
        encode_frame(FrameKind::Data, frame, number - 1, header.seed(), offset, &mut bytes)
            .unwrap();
    }
    let mut dump = String::new();
    dump_manifest(&bytes, &mut dump);
    check_golden("manifest", FORMAT_VERSION, &bytes, &dump);
}

#[test]
fn the_pages_give_the_offsets_of_the_code() {
    use pointer_offset as p;
    let rows = [
        (p::MAGIC, p::CRC, "magic"),
        (p::CRC, p::VERSION, "checksum"),
        (p::VERSION, p::UUID, "format version"),
        (p::UUID, p::MANIFEST_ID, "database uuid"),
        (p::MANIFEST_ID, p::RESERVED, "manifest's number"),
        (p::RESERVED, p::END, "reserved"),
        (p::END, POINTER_BYTES, "end mark"),
    ];
    check_page("current", &rows.map(|(from, to, meaning)| (from, to - from, meaning)));
    check_page("manifest", &[(0, 2, "tag"), (2, SECTION_HEADER_BYTES - 2, "length")]);
}

#[test]
fn pointers_round_trip_and_every_damage_is_refused() {
    let bytes = pointer().encode(PointerKind::Current);
    assert_eq!(bytes.len(), POINTER_BYTES);
    assert_eq!(Pointer::decode(&bytes, PointerKind::Current).unwrap(), pointer());
    assert!(Pointer::decode(&bytes, PointerKind::Creating).is_err());
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= mask;
            let error = Pointer::decode(&bad, PointerKind::Current).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}");
        }
        assert!(Pointer::decode(&bytes[..at], PointerKind::Current).is_err());
    }
    assert!(Pointer::decode(&[0; POINTER_BYTES], PointerKind::Current).is_err());
    let mut longer = bytes;
    longer.push(0);
    assert!(Pointer::decode(&longer, PointerKind::Current).is_err());
}

#[test]
fn a_newer_or_older_pointer_is_refused_by_name_also_where_it_is_longer() {
    for (version, extra) in [(FORMAT_VERSION - 1, 0), (9, 0), (9, 100)] {
        let mut bytes = pointer().encode(PointerKind::Current);
        bytes[pointer_offset::VERSION] = version as u8;
        mend(&mut bytes);
        bytes.resize(POINTER_BYTES + extra, 3);
        let error = Pointer::decode(&bytes, PointerKind::Current).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("version {version};")), "{error}");
    }
}

#[test]
fn impossible_pointers_with_right_checksums_are_refused() {
    for (at, value) in
        [(pointer_offset::MANIFEST_ID, 0), (pointer_offset::RESERVED, 1), (pointer_offset::END, 1)]
    {
        let mut bytes = pointer().encode(PointerKind::Current);
        bytes[at] = value;
        mend(&mut bytes);
        let error = Pointer::decode(&bytes, PointerKind::Current).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "offset {at}");
    }
}

#[test]
fn unknown_sections_are_refused_by_number_or_kept() {
    let encode = |tag| Edit { sections: vec![section(tag, b"x")] }.encode().unwrap();
    let error = Edit::decode(&encode(0x1234)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("4660"), "{error}");
    let edit = Edit::decode(&encode(0x9234)).unwrap();
    assert_eq!(edit.unknown().collect::<Vec<_>>(), [&section(0x9234, b"x")]);
    for zero in [0, 0x8000] {
        assert_eq!(Edit::decode(&encode(zero)).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

proptest! {
    #[test]
    fn edits_round_trip(
        parts in proptest::collection::vec((1u16..=6, any::<bool>(), any::<Vec<u8>>()), 0..8),
    ) {
        let sections = parts
            .iter()
            .map(|(tag, optional, payload)| section(tag | u16::from(*optional) << 15, payload))
            .collect();
        let edit = Edit { sections };
        let bytes = edit.encode().unwrap();
        prop_assert_eq!(&Edit::decode(&bytes).unwrap(), &edit);
        for cut in 1..bytes.len() {
            // A cut either falls between two sections or is noticed.
            if let Ok(shorter) = Edit::decode(&bytes[..cut]) {
                prop_assert!(edit.sections.starts_with(&shorter.sections));
            }
        }
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes: Vec<u8>) {
        drop(Edit::decode(&bytes));
        drop(Pointer::decode(&bytes, PointerKind::Current));
        bytes.resize(POINTER_BYTES, 1);
        bytes[..8].copy_from_slice(&PointerKind::Current.magic());
        mend(&mut bytes);
        drop(Pointer::decode(&bytes, PointerKind::Current));
        let mut out = String::new();
        dump_current(&bytes, &mut out);
        dump_manifest(&bytes, &mut out);
    }
}
