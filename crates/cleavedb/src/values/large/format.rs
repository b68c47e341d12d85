//! The bytes of a large value's file: header, chunks, trailer. Encoding and decoding only; no I/O,
//! no state, any thread.
//!
//! Invariants: LF-1 every checksum is seeded with database and file number and bound to its offset
//! (rule F1). LF-2 where each chunk stands follows from header and length of the value alone, and
//! the length of the file from them, too: no byte is without meaning. LF-3 no length is trusted
//! before its checksum holds, and no chunk is longer than a stream may hold (rules F2 and F8).

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::Reader;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::{Error, Result};
use crate::base::limits::{KEY_BYTES_MAX, LARGE_VALUE_BYTES_MAX};
use crate::base::names::FileKind;
use crate::log::format::{FORMAT_VERSION, unsupported_version};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"CLVLARGE";
/// First bytes of the trailer.
const TRAILER_MAGIC: [u8; 8] = *b"CLVLEND\n";
/// Bytes of the header in front of the key.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 32;
/// Last byte of the fixed part of the header, and of the file.
const END: u8 = 0xE7;
/// Where the checksum of the header begins to count: behind itself.
const COVERED_FROM: usize = 12;
/// Bytes of the trailer that its checksum covers.
const TRAILER_COVERED: usize = 24;
/// Bytes of a chunk's checksum, which follows it.
pub(crate) const CHUNK_CRC_BYTES: usize = 4;
/// Longest chunk: what a reader must be ready to hold.
pub(crate) const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Shortest value with a file of its own: as long as the shortest record, so that counts of bytes
/// mean the same for both.
pub(crate) const LARGE_BYTES_MIN: u64 = 17;

/// What the header of a file says: whose value it is, and how it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargeHeader {
    /// Where the key lives; never zero.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Vec<u8>,
    /// Bytes of every chunk but the last one.
    pub(crate) chunk_bytes: u32,
}

impl LargeHeader {
    /// The header's bytes.
    pub(crate) fn encode(&self, uuid: &[u8; 16], id: FileId) -> Vec<u8> {
        debug_assert!(self.keyspace.0 != 0 && self.key.len() <= KEY_BYTES_MAX);
        debug_assert!((1..=CHUNK_BYTES_MAX as u32).contains(&self.chunk_bytes));
        let mut covered = Vec::with_capacity(HEADER_BYTES + self.key.len());
        covered.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        covered.extend_from_slice(uuid);
        covered.extend_from_slice(&id.0.to_le_bytes());
        covered.extend_from_slice(&self.keyspace.0.to_le_bytes());
        covered.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        covered.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        covered.extend_from_slice(&[0; 10]);
        covered.extend_from_slice(&[FileKind::Large as u8, END]);
        covered.extend_from_slice(&self.key);
        let crc = crc_at(file_seed(uuid, id.0), COVERED_FROM as u64, &covered);
        let mut bytes = Vec::with_capacity(COVERED_FROM + covered.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.append(&mut covered);
        bytes
    }

    /// Bytes of the header of this file's first [`HEADER_BYTES`], key included; proves nothing.
    pub(crate) fn stated_bytes(fixed: &[u8]) -> Result<usize> {
        let mut reader = Reader::new(fixed);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("not the file of a large value"));
        }
        reader.take(4 + 4 + 16 + 8 + 4)?;
        let key_bytes = reader.u32()? as usize;
        if key_bytes > KEY_BYTES_MAX {
            return Err(Error::corruption("a large value's file states too long a key"));
        }
        Ok(HEADER_BYTES + key_bytes)
    }

    /// Decodes and proves a header, key included.
    pub(crate) fn decode(bytes: &[u8], uuid: &[u8; 16], id: FileId) -> Result<Self> {
        if bytes.len() != Self::stated_bytes(bytes)? {
            return Err(Error::corruption("a large value's header is cut short"));
        }
        let mut reader = Reader::new(bytes);
        reader.take(MAGIC.len())?;
        let crc = reader.u32()?;
        if crc != crc_at(file_seed(uuid, id.0), COVERED_FROM as u64, reader.rest()) {
            let message = "a large value's header is damaged, or of another file";
            return Err(Error::corruption(message));
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(unsupported_version(version));
        }
        let is_ours = reader.take(16)? == uuid && reader.u64()? == id.0;
        let keyspace = KeyspaceId(reader.u32()?);
        reader.u32()?;
        let chunk_bytes = reader.u32()?;
        let is_sound = reader.take(10)? == [0; 10]
            && reader.take(2)? == [FileKind::Large as u8, END]
            && keyspace.0 != 0
            && (1..=CHUNK_BYTES_MAX as u32).contains(&chunk_bytes);
        if !is_ours || !is_sound {
            return Err(Error::corruption("a large value's header states what cannot be"));
        }
        Ok(Self { keyspace, key: reader.rest().to_vec(), chunk_bytes })
    }
}

/// Where everything stands in the file of a value of known length (LF-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    header_bytes: u64,
    chunk_bytes: u64,
    value_bytes: u64,
}

impl Layout {
    /// The layout of a value of `value_bytes` behind this header.
    pub(crate) fn new(header: &LargeHeader, value_bytes: u64) -> Self {
        Self {
            header_bytes: (HEADER_BYTES + header.key.len()) as u64,
            chunk_bytes: u64::from(header.chunk_bytes),
            value_bytes,
        }
    }

    /// Bytes of the value.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Chunks of the value.
    pub(crate) fn chunks(&self) -> u64 {
        self.value_bytes.div_ceil(self.chunk_bytes.max(1))
    }

    /// The chunk that holds the value's byte at `position`, and where in it.
    pub(crate) fn place_of(&self, position: u64) -> (u64, usize) {
        let chunk_bytes = self.chunk_bytes.max(1);
        (position / chunk_bytes, (position % chunk_bytes) as usize)
    }

    /// Offset of a chunk, and its bytes without checksum; none behind the last one.
    pub(crate) fn chunk(&self, number: u64) -> (u64, usize) {
        let start = number.saturating_mul(self.chunk_bytes);
        let bytes = self.value_bytes.saturating_sub(start).min(self.chunk_bytes);
        let offset = self.header_bytes + start + number * CHUNK_CRC_BYTES as u64;
        (offset, bytes as usize)
    }

    /// Offset of the trailer.
    pub(crate) fn trailer_offset(&self) -> u64 {
        self.header_bytes + self.value_bytes + self.chunks() * CHUNK_CRC_BYTES as u64
    }

    /// Bytes of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.trailer_offset() + TRAILER_BYTES as u64
    }
}

/// What the trailer says: that the file is complete, and what all of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Bytes of the value.
    pub(crate) value_bytes: u64,
    /// Chunks.
    pub(crate) chunks: u32,
    /// Checksum of the chunks' checksums in their order.
    pub(crate) checksum: u32,
}

impl Trailer {
    /// The trailer's bytes where it stands at `offset`.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> [u8; TRAILER_BYTES] {
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&TRAILER_MAGIC);
        bytes.extend_from_slice(&self.value_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.chunks.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        let crc = crc_at(seed, offset, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, END]);
        let mut out = [0; TRAILER_BYTES];
        out.copy_from_slice(&bytes);
        out
    }

    /// Decodes and proves the trailer that stands at `offset`.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(TRAILER_MAGIC.len())?;
        let trailer =
            Self { value_bytes: reader.u64()?, chunks: reader.u32()?, checksum: reader.u32()? };
        let crc = reader.u32()?;
        let covered = bytes.get(..TRAILER_COVERED).unwrap_or_default();
        let is_sound = magic == TRAILER_MAGIC
            && crc == crc_at(seed, offset, covered)
            && reader.rest() == [0, 0, 0, END]
            && (LARGE_BYTES_MIN..=LARGE_VALUE_BYTES_MAX).contains(&trailer.value_bytes);
        if !is_sound {
            return Err(Error::corruption("a large value's file does not end with its trailer"));
        }
        Ok(trailer)
    }
}
