//! The annotated dump of a large value's file: what its header and trailer say, and which chunks
//! hold. Pure functions over the bytes of one file.

use std::fmt::Write;

use crate::base::checksum::{Rolling, crc_at, file_seed};
use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::values::large::format::{
    CHUNK_CRC_BYTES, HEADER_BYTES, LargeHeader, Layout, TRAILER_BYTES, Trailer,
};

/// Offset of the identity of the database.
const UUID_AT: usize = 16;

/// Dumps the file of a large value.
pub(crate) fn dump_large(bytes: &[u8], out: &mut String) {
    if let Err(error) = dump_parts(bytes, out) {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(out, "damaged: {error}");
    }
}

fn dump_parts(bytes: &[u8], out: &mut String) -> Result<()> {
    let mut stated = Reader::new(bytes.get(UUID_AT..).unwrap_or_default());
    let (uuid, id) = (stated.uuid()?, FileId(stated.u64()?));
    let seed = file_seed(&uuid, id.0);
    let header_bytes = LargeHeader::stated_bytes(bytes.get(..HEADER_BYTES).unwrap_or(bytes))?;
    let header = LargeHeader::decode(bytes.get(..header_bytes).unwrap_or(bytes), &uuid, id)?;
    let key = header.key.escape_ascii();
    let (keyspace, chunk_bytes) = (header.keyspace.0, header.chunk_bytes);
    let _ = writeln!(out, "# large value {id} of keyspace {keyspace}, key \"{key}\"");
    let _ = writeln!(out, "000000: header of {header_bytes} bytes, chunks of {chunk_bytes}");
    let offset = bytes.len().saturating_sub(TRAILER_BYTES);
    let tail = bytes.get(offset..).unwrap_or_default();
    let trailer = Trailer::decode(tail, seed, offset as u64)?;
    let layout = Layout::new(&header, trailer.value_bytes);
    let mut checksums = Rolling::new(seed);
    for number in 0..layout.chunks() {
        let (at, length) = layout.chunk(number);
        let place = at as usize..(at as usize + length + CHUNK_CRC_BYTES);
        let (chunk, crc) = bytes
            .get(place)
            .and_then(|bytes| bytes.split_last_chunk::<CHUNK_CRC_BYTES>())
            .unwrap_or((&[], &[0; CHUNK_CRC_BYTES]));
        checksums.update(crc);
        let crc = u32::from_le_bytes(*crc);
        let verdict = if crc == crc_at(seed, at, chunk) { "holds" } else { "DAMAGED" };
        let _ = writeln!(out, "{at:06}: chunk {number} of {length} bytes, {crc:08x} {verdict}");
    }
    let holds = checksums.value() == trailer.checksum && layout.trailer_offset() == offset as u64;
    let verdict = if holds { "holds" } else { "DAMAGED" };
    let (total, chunks) = (trailer.value_bytes, trailer.chunks);
    let _ = writeln!(out, "{offset:06}: trailer: {total} bytes in {chunks} chunks, {verdict}");
    let _ = writeln!(out, "{:06}: # end of file", bytes.len());
    Ok(())
}
