//! The bytes of a value table's fixed parts and of its records. Encoding and decoding only; no I/O,
//! no state, any thread.
//!
//! Invariants: VT-1 every checksum is seeded with the database and the container's number and bound
//! to its offset (rule F1), so that a record proves the container it is read from (rule R21). VT-2
//! header, records with their padding, sections and trailer tile the file: no byte is without
//! meaning. VT-3 no length is trusted before it is compared with what is there (rule F8).

use std::ops::Range;

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::{Reader, put_varint, varint_len};
use crate::base::entry::{FileId, KeyspaceId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::{FILE_ID_MAX, FileKind};
use crate::log::format::{FORMAT_VERSION, unsupported_version};
use crate::log::separated::{
    BOUND_BYTES, SEPARATED_BYTES_MAX, SEPARATED_BYTES_MIN, SeparatedRecord,
};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"CLVVTABL";
/// First bytes of the trailer.
const TRAILER_MAGIC: [u8; 8] = *b"CLVVTEND";
/// Bytes of the header: whole places, and no fewer than lie in front of a segment's first record,
/// so that a handle cannot name an offset that no record has in either.
pub(crate) const HEADER_BYTES: usize = 128;
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 64;
/// Offset of the header's checksum, which covers what is behind it.
pub(crate) const HEADER_CRC_AT: usize = 8;
/// Offset of the uuid in the header; the file number follows.
pub(crate) const HEADER_UUID_AT: usize = 16;
/// Where the checksum of the header begins to count.
const COVERED_FROM: usize = 12;
/// Offset of the trailer's checksum, which covers what is in front of it.
pub(crate) const TRAILER_CRC_AT: usize = 48;
/// Last byte of header and trailer.
const END: u8 = 0xEB;

/// Every record begins at a multiple of this: a locator counts places in it.
pub(crate) const PLACE_BYTES: u64 = 16;
/// Bytes of the shortest record: a file's number in front of the shortest one of a segment.
pub(crate) const RECORD_BYTES_MIN: usize = 1 + SEPARATED_BYTES_MIN;
/// Bytes of the longest record.
pub(crate) const RECORD_BYTES_MAX: usize = FILE_BYTES_MAX + SEPARATED_BYTES_MAX;
/// Most bytes of a record in front of its seq: what tells how long it is.
pub(crate) const RECORD_HEAD_BYTES_MAX: usize = FILE_BYTES_MAX + 1 + 5 + 3 + KEY_BYTES_MAX + 11;
/// Most bytes of a file's number.
const FILE_BYTES_MAX: usize = 9;

const _: () = assert!((HEADER_BYTES as u64).is_multiple_of(PLACE_BYTES));
const _: () = assert!(RECORD_BYTES_MAX < u32::MAX as usize - PLACE_BYTES as usize);

/// The header's bytes: all follow from whose container it is.
pub(crate) fn encode_header(uuid: &[u8; 16], container: FileId) -> [u8; HEADER_BYTES] {
    let mut covered = Vec::with_capacity(HEADER_BYTES);
    covered.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    covered.extend_from_slice(uuid);
    covered.extend_from_slice(&container.0.to_le_bytes());
    covered.resize(HEADER_BYTES - COVERED_FROM - 2, 0);
    covered.extend_from_slice(&[FileKind::ValueTable as u8, END]);
    let crc = crc_at(file_seed(uuid, container.0), COVERED_FROM as u64, &covered);
    let mut out = [0; HEADER_BYTES];
    let parts = MAGIC.iter().chain(&crc.to_le_bytes()).chain(&covered).copied().collect::<Vec<_>>();
    out.copy_from_slice(&parts);
    out
}

/// Proves the header of a container.
pub(crate) fn check_header(bytes: &[u8], uuid: &[u8; 16], container: FileId) -> Result<()> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not a value table: wrong magic number"));
    }
    let crc = reader.u32()?;
    if crc != crc_at(file_seed(uuid, container.0), COVERED_FROM as u64, reader.rest()) {
        let message = "a value table's header is damaged, or of another file";
        return Err(Error::corruption(message));
    }
    let version = reader.u32()?;
    if version != FORMAT_VERSION {
        return Err(unsupported_version(version));
    }
    if bytes != encode_header(uuid, container) {
        return Err(Error::corruption("a value table's header states what cannot be"));
    }
    Ok(())
}

/// Bytes of a record with the zeros behind it.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(PLACE_BYTES)
}

/// Where a record belongs in the order of a container: keyspace, key, seq downwards, file. Only
/// files of one container make two records of one seq: a moved copy beside what it was made of,
/// until the next collection kills one of them (rule R7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank<'a> {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// The seq.
    pub(crate) seq: Seq,
    /// The file.
    pub(crate) file: FileId,
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.keyspace.cmp(&other.keyspace))
            .then_with(|| self.key.cmp(other.key))
            .then_with(|| other.seq.cmp(&self.seq))
            .then_with(|| self.file.cmp(&other.file))
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A record as it stands in a value table: the file it belongs to, and behind that a record as
/// segments have it, whose checksum covers the file, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRecord<'a> {
    /// The value file that it came from: the number that handles and facts name.
    pub(crate) file: FileId,
    /// The record.
    pub(crate) record: SeparatedRecord<'a>,
}

impl<'a> TableRecord<'a> {
    /// Decodes the record that begins `bytes`; proves nothing yet.
    pub(crate) fn decode_first(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let file = decode_file(&mut reader)?;
        let inner = reader.rest();
        check_kind(&mut reader)?;
        let record = SeparatedRecord::decode_after_kind(inner, &mut reader)?;
        if record.seq == 0 {
            return Err(Error::corruption("a value's record without its seq"));
        }
        Ok(Self { file, record })
    }

    /// Bytes of the whole record, without padding.
    pub(crate) fn bytes(&self) -> usize {
        varint_len(self.file.0) + self.record.bytes()
    }

    /// Where in the record the stored bytes are.
    pub(crate) fn stored_range(&self) -> Range<usize> {
        let Range { start, end } = self.record.stored_range();
        let before = varint_len(self.file.0);
        before + start..before + end
    }

    /// Its place in the order of the container.
    pub(crate) fn rank(&self) -> Rank<'a> {
        let SeparatedRecord { keyspace, key, seq, .. } = self.record;
        Rank { keyspace, key, seq, file: self.file }
    }

    /// What proves that the record was written at `offset` of the container with this seed; none
    /// where it was not. Whoever moves it needs no second pass over the value.
    pub(crate) fn proven_body(&self, seed: u32, offset: u64) -> Option<u32> {
        let body = self.record.body();
        let wanted = bound_checksum(seed, offset, body, self.record.seq, self.file);
        (wanted == self.record.checksum()).then_some(body)
    }
}

fn decode_file(reader: &mut Reader<'_>) -> Result<FileId> {
    let file = FileId(reader.varint()?);
    if !(1..=FILE_ID_MAX).contains(&file.0) {
        return Err(Error::corruption("a value's record names no file"));
    }
    Ok(file)
}

fn check_kind(reader: &mut Reader<'_>) -> Result<()> {
    match reader.u8()? {
        kind if kind == Kind::PutSeparated as u8 => Ok(()),
        kind => Err(Error::corruption(format!("a record of kind {kind}, not a value"))),
    }
}

/// Bytes of the record that begins `bytes`, without padding, as it states itself. Proves nothing;
/// `bytes` must hold [`RECORD_HEAD_BYTES_MAX`], or all there is.
pub(crate) fn stated_bytes(bytes: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(bytes);
    decode_file(&mut reader)?;
    check_kind(&mut reader)?;
    reader.varint_u32()?;
    if reader.bytes()?.len() > KEY_BYTES_MAX {
        return Err(Error::corruption("a value's record states too long a key"));
    }
    let how = reader.u8()?;
    let stored_bytes = reader.varint_u32()?;
    if how != 0 {
        reader.varint_u32()?;
    }
    let head_bytes = bytes.len() - reader.rest().len();
    Ok((head_bytes + BOUND_BYTES) as u64 + u64::from(stored_bytes))
}

/// Appends what stands in front of the stored bytes of a record at `offset`: file, head, seq and
/// checksum. `body` is the record's own ([`SeparatedRecord::body`]): twenty bytes are summed, not
/// the value. Returns the checksum.
pub(crate) fn encode_front(
    out: &mut Vec<u8>,
    file: FileId,
    record: &SeparatedRecord<'_>,
    body: u32,
    (seed, offset): (u32, u64),
) -> u32 {
    debug_assert_eq!(body, record.body());
    let checksum = bound_checksum(seed, offset, body, record.seq, file);
    put_varint(out, file.0);
    out.extend_from_slice(record.head());
    out.extend_from_slice(&record.seq.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The checksum of a record whose body is known.
pub(crate) fn bound_checksum(seed: u32, offset: u64, body: u32, seq: Seq, file: FileId) -> u32 {
    let parts = [body, seq as u32, (seq >> 32) as u32, file.0 as u32, (file.0 >> 32) as u32];
    let mut bytes = [[0; 4]; 5];
    bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from.to_le_bytes());
    crc_at(seed, offset, bytes.as_flattened())
}

/// What the trailer says: where everything is, and what all of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Offset of the index, just behind the last record.
    pub(crate) records_end: u64,
    /// Bytes of the index.
    pub(crate) index_bytes: u64,
    /// Bytes of the properties, which follow it.
    pub(crate) properties_bytes: u64,
    /// Checksum of the records' checksums, four bytes each, in their order.
    pub(crate) records_checksum: u32,
    /// Checksum of the index.
    pub(crate) index_checksum: u32,
    /// Checksum of the properties.
    pub(crate) properties_checksum: u32,
}

impl Trailer {
    /// The trailer's bytes where it stands at `offset`, and its own checksum: by way of those in it
    /// that of the whole file.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> ([u8; TRAILER_BYTES], u32) {
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&TRAILER_MAGIC);
        for number in [self.records_end, self.index_bytes, self.properties_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in
            [self.records_checksum, self.index_checksum, self.properties_checksum, FORMAT_VERSION]
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        debug_assert_eq!(bytes.len(), TRAILER_CRC_AT);
        let crc = crc_at(seed, offset, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(TRAILER_BYTES - 2, 0);
        bytes.extend_from_slice(&[FileKind::ValueTable as u8, END]);
        let mut out = [0; TRAILER_BYTES];
        out.copy_from_slice(&bytes);
        (out, crc)
    }

    /// Decodes and proves the trailer that stands at `offset`; also hands out its checksum.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<(Self, u32)> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(TRAILER_MAGIC.len())?;
        let trailer = Self {
            records_end: reader.u64()?,
            index_bytes: reader.u64()?,
            properties_bytes: reader.u64()?,
            records_checksum: reader.u32()?,
            index_checksum: reader.u32()?,
            properties_checksum: reader.u32()?,
        };
        let version = reader.u32()?;
        let crc = reader.u32()?;
        let covered = bytes.get(..TRAILER_CRC_AT).unwrap_or_default();
        if magic != TRAILER_MAGIC || crc != crc_at(seed, offset, covered) {
            return Err(Error::corruption("a value table does not end with its trailer"));
        }
        if version != FORMAT_VERSION {
            return Err(unsupported_version(version));
        }
        let end = trailer.records_end.checked_add(trailer.index_bytes);
        let end = end.and_then(|end| end.checked_add(trailer.properties_bytes));
        let tiles = end == Some(offset)
            && trailer.records_end >= HEADER_BYTES as u64
            && trailer.records_end.is_multiple_of(PLACE_BYTES);
        if !tiles || bytes != trailer.encode(seed, offset).0 {
            return Err(Error::corruption("a value table's trailer states what cannot be"));
        }
        Ok((trailer, crc))
    }

    /// Offset of the properties.
    pub(crate) fn properties_offset(&self) -> u64 {
        self.records_end + self.index_bytes
    }

    /// Offset of the trailer.
    pub(crate) fn offset(&self) -> u64 {
        self.properties_offset() + self.properties_bytes
    }

    /// Bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.offset() + TRAILER_BYTES as u64
    }
}

#[cfg(test)]
mod tests;
