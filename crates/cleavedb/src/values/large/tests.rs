//! Format, writer and reader of large values' files.

use crate::base::checksum::{crc_at, file_seed};
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::ErrorKind;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::io::Purpose;
use crate::io::disk::OpenMode;
use crate::log::format::FORMAT_VERSION;
use crate::log::testing::{check_golden, disk, io};
use crate::values::file::ValueFile;
use crate::values::handle::Handle;
use crate::values::large::dump::dump_large;
use crate::values::large::format::{CHUNK_BYTES_MAX, LargeHeader, Layout, TRAILER_BYTES, Trailer};
use crate::values::large::reader::LargeFile;
use crate::values::large::writer::{LargeWriter, Written};
use crate::values::testing::context;

const KEY: &[u8] = b"a key";

fn header(chunk_bytes: u32) -> LargeHeader {
    LargeHeader { keyspace: KeyspaceId(3), key: KEY.to_vec(), chunk_bytes }
}

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(37) ^ (at / 256) as u8).collect()
}

/// The file of a value of this length, as a reader gets it.
fn written(chunk_bytes: u32, value: &[u8]) -> (Arc<ValueFile>, Written, Vec<u8>) {
    let disk = disk();
    let io = io(&disk);
    let context = context(&io, false);
    let file = ValueFile::new(&context, FileKind::Large, FileId(16));
    let open = io.disk.create(file.path(), OpenMode::default()).unwrap();
    let mut writer =
        LargeWriter::new(&io, open, &context.uuid, FileId(16), header(chunk_bytes)).unwrap();
    for chunk in value.chunks(chunk_bytes as usize) {
        writer.chunk(chunk).unwrap();
    }
    let written = writer.finish().unwrap();
    let bytes = disk.contents(file.path());
    (file, written, bytes)
}

#[test]
fn what_was_written_is_read_whatever_the_lengths() {
    for (chunk_bytes, length) in
        [(1, 17), (7, 20), (7, 21), (7, 22), (100, 50), (100, 100), (4096, 100_000)]
    {
        let value = value(length);
        let (file, written, bytes) = written(chunk_bytes, &value);
        assert_eq!((written.value_bytes, written.file_bytes), (length as u64, bytes.len() as u64));
        let large = LargeFile::open(&file, length as u64, Purpose::Read).unwrap();
        assert_eq!(large.header(), &header(chunk_bytes));
        assert_eq!(large.trailer().checksum, written.checksum);
        let mut read = Vec::new();
        for number in 0..large.layout().chunks() {
            large.read_chunk(number, &mut read).unwrap();
        }
        assert!(read == value);
        let mut seen = Vec::new();
        let mut gather = |_, chunk: &[u8], _| {
            seen.extend_from_slice(chunk);
            Ok(())
        };
        large.check(&mut gather).unwrap();
        assert!(seen == value);
        let stated = LargeFile::open_stated(&file, Purpose::Verify).unwrap();
        assert_eq!(stated.value_bytes(), length as u64);
        for wrong in [length as u64 - 1, length as u64 + 1] {
            let error = LargeFile::open(&file, wrong, Purpose::Read).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
        assert!(large.check_key(KeyspaceId(3), KEY).is_ok());
        assert!(large.check_key(KeyspaceId(4), KEY).is_err());
        assert!(large.check_key(KeyspaceId(3), b"another").is_err());
    }
}

#[test]
fn places_follow_from_lengths() {
    let layout = Layout::new(&header(10), 25);
    assert_eq!(layout.chunks(), 3);
    let places: Vec<_> = (0..4).map(|number| layout.chunk(number)).collect();
    assert_eq!(places, [(69, 10), (83, 10), (97, 5), (111, 0)]);
    assert_eq!((layout.trailer_offset(), layout.file_bytes()), (106, 106 + 32));
    assert_eq!([0, 9, 10, 24].map(|at| layout.place_of(at)), [(0, 0), (0, 9), (1, 0), (2, 4)]);
}

#[test]
fn headers_and_trailers_prove_identity_and_place() {
    let (uuid, id) = ([7; 16], FileId(16));
    let bytes = header(10).encode(&uuid, id);
    assert_eq!(LargeHeader::decode(&bytes, &uuid, id).unwrap(), header(10));
    assert!(LargeHeader::decode(&bytes, &[8; 16], id).is_err());
    assert!(LargeHeader::decode(&bytes, &uuid, FileId(17)).is_err());
    for length in 0..bytes.len() {
        assert!(LargeHeader::decode(&bytes[..length], &uuid, id).is_err());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(LargeHeader::decode(&damaged, &uuid, id).is_err(), "byte {at}");
    }
    let trailer = Trailer { value_bytes: 25, chunks: 3, checksum: 5 };
    let bytes = trailer.encode(9, 106);
    assert_eq!(Trailer::decode(&bytes, 9, 106).unwrap(), trailer);
    assert!(Trailer::decode(&bytes, 9, 107).is_err());
    assert!(Trailer::decode(&bytes, 8, 106).is_err());
    for at in 0..TRAILER_BYTES {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        assert!(Trailer::decode(&damaged, 9, 106).is_err(), "byte {at}");
    }
    const { assert!(CHUNK_BYTES_MAX <= 4 << 20, "a stream holds one") };
}

#[test]
fn golden() {
    let (_, _, bytes) = written(16, b"forty bytes, in pieces of sixteen bytes.");
    let mut dump = String::new();
    dump_large(&bytes, &mut dump);
    check_golden("large-value", FORMAT_VERSION, &bytes, &dump);
}

#[test]
fn another_version_is_refused_by_name() {
    let (uuid, id) = ([7; 16], FileId(16));
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let mut bytes = header(10).encode(&uuid, id);
        bytes[12..16].copy_from_slice(&version.to_le_bytes());
        let crc = crc_at(file_seed(&uuid, id.0), 12, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let error = LargeHeader::decode(&bytes, &uuid, id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(&format!("version {version};")), "{error}");
    }
}

#[test]
fn the_longest_value_fits_everywhere() {
    let length = u64::from(u32::MAX);
    let chunk_bytes = CHUNK_BYTES_MAX as u64;
    let layout = Layout::new(&header(CHUNK_BYTES_MAX as u32), length);
    assert_eq!(layout.chunks(), 4096);
    assert_eq!(layout.chunk(4095), (69 + 4095 * (chunk_bytes + 4), CHUNK_BYTES_MAX - 1));
    assert_eq!(layout.place_of(length - 1), (4095, CHUNK_BYTES_MAX - 2));
    assert_eq!(layout.file_bytes(), 69 + length + 4 * 4096 + 32);
    let trailer = Trailer { value_bytes: length, chunks: 4096, checksum: 5 };
    assert_eq!(Trailer::decode(&trailer.encode(9, 106), 9, 106).unwrap(), trailer);
    let longer = Trailer { value_bytes: length + 1, ..trailer };
    assert!(Trailer::decode(&longer.encode(9, 106), 9, 106).is_err());
    let handle = Handle::of_large(FileId(16), u32::MAX);
    assert_eq!(Handle::decode(&handle.encode()).unwrap(), handle);
}
