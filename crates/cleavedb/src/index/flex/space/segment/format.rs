//! The bytes of segments: a header, then blocks with a checksum each, then whose data they hold.
//! Encoding and decoding only; no I/O, no state, any thread.
//!
//! Invariants: FG-1 every checksum is seeded with database and file number and bound to its offset
//! (rule F1). FG-2 where a byte stands in its file follows from its physical address alone.

use std::collections::BTreeSet;

use crate::base::checksum::crc_at;
use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::FileKind;
use crate::index::flex::pages::format::Owner;
use crate::index::flex::tree::extent::PHYSICAL_END;
use crate::log::format::{FORMAT_VERSION, unsupported_version};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"CLVFLEXS";
/// Bytes of the header that mean something; zeros follow to the end of its block.
pub(crate) const HEADER_BYTES: usize = 64;
/// Where the birth stands in the header.
pub(crate) const BIRTH_AT: usize = 44;
/// Where the header's checksum begins to count: behind itself.
const COVERED_FROM: usize = 12;
/// Last byte of the header.
const END: u8 = 0xE7;
/// Bytes of a block, the header's included: a page of the file system, so that one read gets it.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Bytes of data in a block; its checksum follows them.
pub(crate) const DATA_BYTES: u64 = BLOCK_BYTES - CRC_BYTES;
/// Bytes of a checksum.
const CRC_BYTES: u64 = 4;
/// Physical addresses that a segment has, more than its data takes: a file's number times this is
/// the address of its first byte.
pub(crate) const SPAN_BYTES: u64 = 4 << 20;
/// Most blocks of data in a segment.
pub(crate) const BLOCKS_MAX: u64 = 1024;
/// Largest number of a file that is a segment.
pub(crate) const SEGMENT_ID_MAX: u64 = PHYSICAL_END / SPAN_BYTES - 1;
/// Bytes at the end of a segment with a summary.
pub(crate) const TRAILER_BYTES: u64 = 24;
/// First bytes of the trailer.
const TRAILER_MAGIC: [u8; 8] = *b"CLVFXSUM";

const _: () = assert!(BLOCKS_MAX * DATA_BYTES <= SPAN_BYTES);

/// The segment of a physical address, and the position in its data.
pub(crate) fn place_of(physical: u64) -> (FileId, u64) {
    (FileId(physical / SPAN_BYTES), physical % SPAN_BYTES)
}

/// Physical address of a position in a segment's data.
pub(crate) fn physical_of(segment: FileId, position: u64) -> u64 {
    segment.0.saturating_mul(SPAN_BYTES).saturating_add(position)
}

/// Offset of the block that holds a position of the data.
pub(crate) fn block_offset(position: u64) -> u64 {
    (position / DATA_BYTES + 1) * BLOCK_BYTES
}

/// The first block of a segment: its header.
pub(crate) fn encode_header(owner: &Owner, id: FileId, birth: u64) -> Vec<u8> {
    let mut covered = Vec::with_capacity(BLOCK_BYTES as usize);
    covered.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    covered.extend_from_slice(&owner.uuid);
    covered.extend_from_slice(&id.0.to_le_bytes());
    covered.extend_from_slice(&owner.keyspace.0.to_le_bytes());
    covered.extend_from_slice(&birth.to_le_bytes());
    covered.extend_from_slice(&[0; 10]);
    covered.extend_from_slice(&[FileKind::FlexSegment as u8, END]);
    let crc = crc_at(owner.seed(id), COVERED_FROM as u64, &covered);
    let mut bytes = Vec::with_capacity(BLOCK_BYTES as usize);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.append(&mut covered);
    bytes.resize(BLOCK_BYTES as usize, 0);
    bytes
}

/// Proves the header of a segment: its first [`HEADER_BYTES`]. Returns the birth that it states.
pub(crate) fn check_header(bytes: &[u8], owner: &Owner, id: FileId) -> Result<u64> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not a segment of a flexible space"));
    }
    let crc = reader.u32()?;
    if crc != crc_at(owner.seed(id), COVERED_FROM as u64, reader.rest()) {
        return Err(Error::corruption("a segment's header is damaged, or of another file"));
    }
    let version = reader.u32()?;
    if version != FORMAT_VERSION {
        return Err(unsupported_version(version));
    }
    let stated = bytes.get(BIRTH_AT..).and_then(<[u8]>::first_chunk);
    let birth = stated.map_or(0, |stated| u64::from_le_bytes(*stated));
    if encode_header(owner, id, birth).get(..HEADER_BYTES) != Some(bytes) {
        return Err(Error::corruption("a segment's header states what cannot be"));
    }
    Ok(birth)
}

/// Appends the blocks of data that begins at a position where a block does; the last one is filled
/// up with zeros.
pub(crate) fn encode_blocks(owner: &Owner, id: FileId, position: u64, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + data.len() / 512 + BLOCK_BYTES as usize);
    for (number, part) in (0u64..).zip(data.chunks(DATA_BYTES as usize)) {
        let offset = block_offset(position + number * DATA_BYTES);
        let start = out.len();
        out.extend_from_slice(part);
        out.resize(start + DATA_BYTES as usize, 0);
        let crc = crc_at(owner.seed(id), offset, out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_le_bytes());
    }
    out
}

/// The data of a block that stands at an offset, proved.
pub(crate) fn check_block<'a>(
    block: &'a [u8],
    owner: &Owner,
    id: FileId,
    offset: u64,
) -> Result<&'a [u8]> {
    let (data, crc) = block.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
    if data.len() as u64 != DATA_BYTES || *crc != crc_at(owner.seed(id), offset, data).to_le_bytes()
    {
        return Err(Error::corruption("checksum of a block of a segment"));
    }
    Ok(data)
}

/// Whose data a segment holds, as it stands behind the last block: derived, and missing where the
/// segment was never ended.
pub(crate) fn encode_summary(
    owners: &BTreeSet<u64>,
    owner: &Owner,
    id: FileId,
    offset: u64,
) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), 0);
    for number in owners {
        put_varint(&mut out, number - last);
        last = *number;
    }
    let bytes = out.len() as u64;
    out.extend_from_slice(&TRAILER_MAGIC);
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&(owners.len() as u32).to_le_bytes());
    let crc = crc_at(owner.seed(id), offset, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Bytes of the summary that ends with this trailer, the trailer included; proves nothing.
pub(crate) fn summary_bytes(trailer: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(trailer);
    if reader.take(TRAILER_MAGIC.len())? != TRAILER_MAGIC {
        return Err(Error::corruption("a segment without a summary"));
    }
    Ok(reader.u64()?.saturating_add(TRAILER_BYTES))
}

/// Decodes and proves the summary that stands at an offset.
pub(crate) fn decode_summary(
    bytes: &[u8],
    owner: &Owner,
    id: FileId,
    offset: u64,
) -> Result<BTreeSet<u64>> {
    let damaged = || Error::corruption("a segment's summary is damaged");
    let (covered, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if *crc != crc_at(owner.seed(id), offset, covered).to_le_bytes() {
        return Err(damaged());
    }
    let list_bytes = bytes.len().checked_sub(TRAILER_BYTES as usize).ok_or_else(damaged)?;
    let (list, trailer) = covered.split_at_checked(list_bytes).ok_or_else(damaged)?;
    let mut trailer = Reader::new(trailer);
    let is_sound =
        trailer.take(TRAILER_MAGIC.len())? == TRAILER_MAGIC && trailer.u64()? == list_bytes as u64;
    let count = trailer.u32()?;
    let (mut reader, mut owners, mut last) = (Reader::new(list), BTreeSet::new(), 0u64);
    while !reader.is_empty() {
        last = last.checked_add(reader.varint()?).ok_or_else(damaged)?;
        if !owners.insert(last) {
            return Err(damaged());
        }
    }
    if !is_sound || owners.len() != count as usize {
        return Err(damaged());
    }
    Ok(owners)
}

#[cfg(test)]
mod tests;
