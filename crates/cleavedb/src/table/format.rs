//! Constants and fixed parts of a table file: header, footer, sections and their trailers.
//!
//! Pure functions over bytes, free of I/O. Invariants: F1 every checksum is seeded with the
//! database and the file number and bound to the offset of its bytes. F2 header, blocks, sections
//! and footer tile the file without gaps, so every byte is under a checksum. F3 no length is used
//! before it is compared with what is there.

use crate::base::checksum;
use crate::base::codec::Reader;
use crate::base::compress::{self, Compression};
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::names::FileKind;
use crate::base::planted::planted;

/// First eight bytes of a table.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"CLVTABLE";
/// Last eight bytes of a table.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"CLVTBEND";
/// Version of the format. On disk: raised by every change.
pub(crate) const VERSION: u32 = 2;
/// Oldest version that is read: format 1 has no padding, and is all the same but for that.
pub(crate) const VERSION_MIN: u32 = 1;

/// Offset of the format version in the header.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) const HEADER_VERSION_AT: usize = 8;
/// Offset of the file kind in the header (four bytes; [`FileKind::Table`]).
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) const HEADER_KIND_AT: usize = 12;
/// Offset of the database's uuid in the header.
pub(crate) const HEADER_UUID_AT: usize = 16;
/// Offset of the file number in the header.
pub(crate) const HEADER_FILE_AT: usize = 32;
/// Offset of the keyspace number in the header.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) const HEADER_KEYSPACE_AT: usize = 40;
/// Offset of the header's checksum.
pub(crate) const HEADER_CRC_AT: usize = 44;
/// Length of the header; the first data block starts here.
pub(crate) const HEADER_BYTES: usize = 48;

/// Offset of the format version in the footer, after four (offset, length) pairs.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) const FOOTER_VERSION_AT: usize = 64;
/// Offset of the footer's checksum.
pub(crate) const FOOTER_CRC_AT: usize = 68;
/// Offset of the closing magic in the footer.
pub(crate) const FOOTER_MAGIC_AT: usize = 72;
/// Length of the footer.
pub(crate) const FOOTER_BYTES: usize = 80;

/// Bytes after each block and section: compression byte and CRC.
pub(crate) const TRAILER_BYTES: usize = 5;
/// Set in the compression byte where padding stands before it.
pub(crate) const PADDED: u8 = 0x80;
/// Padding is at most this part of a page: what it costs in space.
const PADDING_DIVISOR: usize = 16;
/// Most bytes of padding: the last one of them says how many there are.
pub(crate) const PADDING_BYTES_MAX: usize = 255;
/// Bytes before a compressed payload: its length when restored.
pub(crate) const RAW_LEN_BYTES: usize = 4;
/// Largest uncompressed block: one entry of the largest key and value, the entry's own header
/// (three varints, tag, seq: under 32 bytes) and one restart point.
pub(crate) const RAW_BLOCK_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + 64;
/// Most entries from one restart point to the next: bounds what walking backward holds to this
/// many keys.
pub(crate) const RESTART_INTERVAL_MAX: usize = 256;
/// A compressed payload restores to at most this many times its length, so that a hostile length
/// cannot cause a huge allocation. The writer stores denser blocks with LZ4 or as they are.
pub(crate) const EXPANSION_MAX: usize = 1024;
/// Smallest table: header, empty sections' trailers and footer.
pub(crate) const TABLE_BYTES_MIN: u64 = (HEADER_BYTES + FOOTER_BYTES + 4 * TRAILER_BYTES) as u64;

const _: () = assert!(RAW_BLOCK_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(PADDING_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(HEADER_CRC_AT + 4 == HEADER_BYTES);
const _: () = assert!(FOOTER_MAGIC_AT + 8 == FOOTER_BYTES);

/// A stretch of the file: a block or section with its trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes, trailer included.
    pub(crate) len: u64,
}

impl Extent {
    /// First byte behind it; saturates on hostile input.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// The file's number.
    pub(crate) file: FileId,
    /// Number of the keyspace.
    pub(crate) keyspace: u32,
}

impl Header {
    /// The seed of every checksum in the file.
    pub(crate) fn seed(&self) -> u32 {
        checksum::file_seed(&self.uuid, self.file.0)
    }

    /// The header's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&HEADER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u32::from(FileKind::Table as u8).to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&self.file.0.to_le_bytes());
        out.extend_from_slice(&self.keyspace.to_le_bytes());
        let crc = checksum::crc_at(self.seed(), 0, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(out.len(), HEADER_BYTES);
        out
    }
}

/// Decodes a header and checks it against its own checksum.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<Header> {
    let mut reader = Reader::new(bytes);
    let covered = reader.take(HEADER_CRC_AT)?;
    let crc = reader.u32()?;
    let mut reader = Reader::new(covered);
    if reader.take(HEADER_MAGIC.len())? != HEADER_MAGIC {
        return Err(Error::corruption("not a table: wrong magic number").at_offset(0));
    }
    let version = reader.u32()?;
    let kind = reader.u32()?;
    let header =
        Header { uuid: reader.uuid()?, file: FileId(reader.u64()?), keyspace: reader.u32()? };
    if checksum::crc_at(header.seed(), 0, covered) != crc {
        return Err(Error::corruption("header checksum mismatch").at_offset(0));
    }
    check_version(version)?;
    if kind != u32::from(FileKind::Table as u8) {
        return Err(Error::corruption(format!("file kind {kind} is not a table")).at_offset(0));
    }
    Ok(header)
}

/// Refuses versions other than ours by name; call only after the checksum agreed.
fn check_version(version: u32) -> Result<()> {
    if (VERSION_MIN..=VERSION).contains(&version) {
        return Ok(());
    }
    let message =
        format!("table format {version}; this build reads formats {VERSION_MIN} to {VERSION}");
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Where the sections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Footer {
    /// The filter over all keys.
    pub(crate) filter: Extent,
    /// The range tombstones.
    pub(crate) tombstones: Extent,
    /// The index of data blocks.
    pub(crate) index: Extent,
    /// The properties.
    pub(crate) properties: Extent,
}

impl Footer {
    fn sections(&self) -> [Extent; 4] {
        [self.filter, self.tombstones, self.index, self.properties]
    }

    /// The footer's bytes, to be written at `offset`.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for extent in self.sections() {
            out.extend_from_slice(&extent.offset.to_le_bytes());
            out.extend_from_slice(&extent.len.to_le_bytes());
        }
        out.extend_from_slice(&VERSION.to_le_bytes());
        let crc = checksum::crc_at(seed, offset, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&FOOTER_MAGIC);
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        out
    }
}

/// Decodes the footer that stands at `offset`: checksum first, then that the sections tile the
/// file from the end of the data blocks to the footer.
pub(crate) fn decode_footer(bytes: &[u8], seed: u32, offset: u64) -> Result<Footer> {
    let bad = |what: &str| Error::corruption(what.to_owned()).at_offset(offset);
    let mut reader = Reader::new(bytes);
    let covered = reader.take(FOOTER_CRC_AT)?;
    let crc = reader.u32()?;
    if reader.take(FOOTER_MAGIC.len())? != FOOTER_MAGIC || !reader.is_empty() {
        return Err(bad("no footer: wrong closing magic number"));
    }
    if checksum::crc_at(seed, offset, covered) != crc {
        return Err(bad("footer checksum mismatch"));
    }
    let mut reader = Reader::new(covered);
    let mut extent = || Ok::<_, Error>(Extent { offset: reader.u64()?, len: reader.u64()? });
    let footer = Footer {
        filter: extent()?,
        tombstones: extent()?,
        index: extent()?,
        properties: extent()?,
    };
    check_version(reader.u32()?)?;
    let mut expected = footer.filter.offset;
    for section in footer.sections() {
        if section.offset != expected || section.len < TRAILER_BYTES as u64 {
            return Err(bad("sections do not follow each other"));
        }
        expected = section.end();
    }
    if expected != offset || footer.filter.offset < HEADER_BYTES as u64 {
        return Err(bad("sections do not fill the file"));
    }
    Ok(footer)
}

/// Most bytes of padding where pages have so many: none below [`PADDING_DIVISOR`].
pub(crate) fn padding_bytes_max(page_bytes: usize) -> usize {
    (page_bytes / PADDING_DIVISOR).min(PADDING_BYTES_MAX)
}

/// Bytes from `offset` to the end of a page with which a block of about `block_bytes` can end: from
/// half of them, if `longer` to half as many again. `None`: there is no such end.
pub(crate) fn bytes_to_page(
    offset: u64,
    block_bytes: usize,
    page_bytes: usize,
    longer: bool,
) -> Option<usize> {
    let reach = offset + block_bytes as u64;
    let beyond = reach.checked_rem(page_bytes as u64)? as usize;
    match block_bytes.checked_sub(beyond)? {
        bytes if bytes >= block_bytes / 2 => Some(bytes),
        bytes => longer.then_some(bytes + page_bytes),
    }
}

/// Padding that lets what would end at `end` end with its page; 0 where that would take too much.
fn padding_to_page(end: u64, page_bytes: usize) -> usize {
    let beyond = end.checked_rem(page_bytes as u64).unwrap_or(0) as usize;
    let missing = if beyond == 0 { 0 } else { page_bytes - beyond };
    if missing <= padding_bytes_max(page_bytes) { missing } else { 0 }
}

/// Appends to `out` the stored form of `raw` that stands at `offset`: payload (compressed where
/// it pays), padding where that lets it end with one of the pages of `page_bytes` (0: never),
/// compression byte, CRC over all. `scratch` is reused between calls.
pub(crate) fn seal(
    out: &mut Vec<u8>,
    raw: &[u8],
    wanted: Compression,
    page_bytes: usize,
    (seed, offset): (u32, u64),
    scratch: &mut Vec<u8>,
) {
    debug_assert!(raw.len() <= RAW_BLOCK_BYTES_MAX || wanted == Compression::None);
    let start = out.len();
    let mut done = compress::compress(wanted, raw, scratch);
    if raw.len() > scratch.len().saturating_mul(EXPANSION_MAX) && done != Compression::None {
        done = compress::compress(Compression::Lz4, raw, scratch);
    }
    if done == Compression::None {
        out.extend_from_slice(raw);
    } else {
        out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
        out.extend_from_slice(scratch);
    }
    let end = offset + (out.len() - start + TRAILER_BYTES) as u64;
    match padding_to_page(end, page_bytes) {
        0 => out.push(done as u8),
        padding => {
            out.resize(out.len() + padding - 1, 0);
            out.extend_from_slice(&[padding as u8, done as u8 | PADDED]);
        }
    }
    let crc = checksum::crc_at(seed, offset, out.get(start..).unwrap_or(&[]));
    out.extend_from_slice(&crc.to_le_bytes());
}

/// A stored block or section taken apart; the checksum agreed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed<'a> {
    /// How the payload is compressed.
    pub(crate) compression: Compression,
    /// The payload as stored, without the restored length.
    pub(crate) payload: &'a [u8],
    /// Its length when restored.
    pub(crate) raw_len: usize,
    /// Bytes of padding behind it.
    pub(crate) padding: usize,
}

/// Checks the stored bytes of a block or section at `offset` and takes them apart.
pub(crate) fn decode_sealed(stored: &[u8], seed: u32, offset: u64) -> Result<Sealed<'_>> {
    let bad = |what: &str| Error::corruption(what.to_owned()).at_offset(offset);
    let Some((covered, crc)) = stored.split_last_chunk::<4>() else {
        return Err(bad("block shorter than its trailer"));
    };
    let agrees = checksum::crc_at(seed, offset, covered) == u32::from_le_bytes(*crc);
    if !agrees && !planted!("table_block_checksum_ignored") {
        return Err(bad("block checksum mismatch"));
    }
    let Some((&how, payload)) = covered.split_last() else {
        return Err(bad("block shorter than its trailer"));
    };
    let padding = match how & PADDED {
        0 => 0,
        _ => usize::from(payload.last().copied().unwrap_or(0)),
    };
    let payload = match payload.len().checked_sub(padding).and_then(|end| payload.get(..end)) {
        Some(payload) if (padding > 0) == (how & PADDED > 0) => payload,
        _ => return Err(bad("block with padding of an impossible length")),
    };
    let compression = Compression::from_u8(how & !PADDED).map_err(|e| e.at_offset(offset))?;
    if compression == Compression::None {
        return Ok(Sealed { compression, payload, raw_len: payload.len(), padding });
    }
    let Some((raw_len, payload)) = payload.split_first_chunk::<RAW_LEN_BYTES>() else {
        return Err(bad("compressed block without its length"));
    };
    let raw_len = u32::from_le_bytes(*raw_len) as usize;
    if raw_len > RAW_BLOCK_BYTES_MAX || raw_len > payload.len().saturating_mul(EXPANSION_MAX) {
        return Err(bad("compressed block claims an impossible length"));
    }
    Ok(Sealed { compression, payload, raw_len, padding })
}

#[cfg(any(test, feature = "sim"))]
/// Checks and restores a section at `offset`.
pub(crate) fn decode_section(stored: &[u8], seed: u32, offset: u64) -> Result<Vec<u8>> {
    let sealed = decode_sealed(stored, seed, offset)?;
    compress::decompress(sealed.compression, sealed.payload, sealed.raw_len)
        .map_err(|e| e.at_offset(offset))
}

#[cfg(test)]
mod tests;
