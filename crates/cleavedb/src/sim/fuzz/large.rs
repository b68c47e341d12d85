//! The files of large values, on arbitrary bytes.

use crate::base::checksum::{Rolling, crc_at};
use crate::base::entry::KeyspaceId;
use crate::base::error::Result;
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::FileKind;
use crate::io::Purpose;
use crate::io::disk::OpenMode;
use crate::values::file::ValueFile;
use crate::values::large::format::{
    CHUNK_BYTES_MAX, CHUNK_CRC_BYTES, HEADER_BYTES, LargeHeader, Layout, TRAILER_BYTES, Trailer,
};
use crate::values::large::reader::LargeFile;
use crate::values::large::writer::LargeWriter;

use super::values::context_of;
use super::{FILE, Identity, OURS, UUID, array_at, overwrite, world};

/// Where the header states keyspace, length of the key, and length of a chunk.
const KEYSPACE_AT: usize = 40;
const KEY_BYTES_AT: usize = 44;
const CHUNK_BYTES_AT: usize = 48;

/// The file of a large value: read whole, as it is and with right checksums. What holds is written
/// again and must be the same.
pub fn large_value(data: &[u8]) -> bool {
    let accepted = is_whole(data);
    let mut mended = data.to_vec();
    mend_large(&mut mended, OURS);
    is_whole(&mended) || accepted
}

fn is_whole(bytes: &[u8]) -> bool {
    let (io, _, path) = world(FileKind::Large, Some(bytes));
    let file = ValueFile::new(&context_of(io, &path), FileKind::Large, FILE);
    file.keep();
    let mut chunks = Vec::new();
    let whole = LargeFile::open_stated(&file, Purpose::Recovery).and_then(|large| {
        large.check(&mut |_, chunk, _| {
            chunks.push(chunk.to_vec());
            Ok(())
        })?;
        Ok(large)
    });
    let Ok(large) = whole else { return false };
    let length: usize = chunks.iter().map(Vec::len).sum();
    assert_eq!(large.value_bytes(), length as u64, "a value of another length");
    let again = written(large.header(), &chunks);
    assert!(again.is_ok_and(|again| again == bytes), "a large value has one encoding only");
    true
}

/// The file that the engine writes of this.
pub(super) fn written(header: &LargeHeader, chunks: &[Vec<u8>]) -> Result<Vec<u8>> {
    let (io, disk, path) = world(FileKind::Large, None);
    let failed = |cause| crate::base::error::Error::io("writing", &path, cause);
    let file = io.disk.create(&path, OpenMode::default()).map_err(failed)?;
    let mut writer = LargeWriter::new(&io, file, &UUID, FILE, header.clone()).map_err(failed)?;
    for chunk in chunks {
        writer.chunk(chunk).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(disk.contents(&path))
}

/// Makes header, checksums and trailer right where the lengths allow it.
pub(super) fn mend_large(bytes: &mut [u8], identity: Identity) {
    let Some(room) = bytes.len().checked_sub(HEADER_BYTES + TRAILER_BYTES) else { return };
    let field = |at: usize| u32::from_le_bytes(array_at(bytes, at));
    let key_bytes = (field(KEY_BYTES_AT) as usize).min(KEY_BYTES_MAX).min(room);
    let key = bytes.get(HEADER_BYTES..HEADER_BYTES + key_bytes).unwrap_or_default().to_vec();
    let keyspace = KeyspaceId(field(KEYSPACE_AT).max(1));
    let chunk_bytes = field(CHUNK_BYTES_AT).clamp(1, CHUNK_BYTES_MAX as u32);
    let header = LargeHeader { keyspace, key, chunk_bytes };
    overwrite(bytes, 0, &header.encode(&identity.uuid, identity.file));
    // What is left for chunks with their checksums says how long the value is.
    let left = room - key_bytes;
    let pieces = left.div_ceil(chunk_bytes as usize + CHUNK_CRC_BYTES);
    let Some(value_bytes) = left.checked_sub(pieces * CHUNK_CRC_BYTES) else { return };
    let layout = Layout::new(&header, value_bytes as u64);
    if layout.file_bytes() != bytes.len() as u64 {
        return;
    }
    let mut checksums = Rolling::new(identity.seed());
    for number in 0..layout.chunks() {
        let (offset, length) = layout.chunk(number);
        let start = offset as usize;
        let chunk = bytes.get(start..start + length).unwrap_or_default();
        let crc = crc_at(identity.seed(), offset, chunk).to_le_bytes();
        checksums.update(&crc);
        overwrite(bytes, start + length, &crc);
    }
    let offset = layout.trailer_offset();
    let chunks = layout.chunks() as u32;
    let trailer = Trailer { value_bytes: value_bytes as u64, chunks, checksum: checksums.value() };
    overwrite(bytes, offset as usize, &trailer.encode(identity.seed(), offset));
}
