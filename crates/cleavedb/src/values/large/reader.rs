//! Reads a large value's file, a chunk at a time.
//!
//! Any thread. Invariants: LR-1 nothing of a chunk is handed out before its checksum held, and no
//! chunk before the header proved keyspace, key and file and the trailer that the file is whole.
//! LR-2 an error names file and offset.

use crate::base::checksum::{Rolling, crc_at};
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::io::meter::Meter;
use crate::io::{DiskFile, Purpose};
use crate::values::file::ValueFile;
use crate::values::large::format::{
    CHUNK_CRC_BYTES, HEADER_BYTES, LargeHeader, Layout, TRAILER_BYTES, Trailer,
};

/// Gets a chunk's offset in the file, its bytes and its checksum.
pub(crate) type Seen<'a> = dyn FnMut(u64, &[u8], u32) -> Result<()> + 'a;

/// A file whose header and trailer have been proved.
#[derive(Clone)]
pub(crate) struct LargeFile {
    /// Pins the file.
    file: Arc<ValueFile>,
    disk_file: Arc<dyn DiskFile>,
    meter: Arc<Meter>,
    purpose: Purpose,
    header: LargeHeader,
    layout: Layout,
    trailer: Trailer,
}

impl LargeFile {
    /// Opens a file that holds a value of `value_bytes`.
    pub(crate) fn open(file: &Arc<ValueFile>, value_bytes: u64, purpose: Purpose) -> Result<Self> {
        let disk_file = file.disk_file()?;
        let (header, length) = read_header(file, &*disk_file)?;
        let layout = Layout::new(&header, value_bytes);
        if layout.file_bytes() != length {
            let expected = layout.file_bytes();
            let message = format!("a large value's file of {length} bytes, not {expected}");
            return Err(damaged(file, length.min(expected), Error::corruption(message)));
        }
        let offset = layout.trailer_offset();
        let mut bytes = [0; TRAILER_BYTES];
        read(file, &*disk_file, &mut bytes, offset)?;
        let trailer = Trailer::decode(&bytes, file.seed(), offset)
            .and_then(|trailer| match (trailer.value_bytes, u64::from(trailer.chunks)) {
                (bytes, chunks) if bytes == value_bytes && chunks == layout.chunks() => Ok(trailer),
                _ => Err(Error::corruption("a large value's trailer states another length")),
            })
            .map_err(|error| damaged(file, offset, error))?;
        let meter = Arc::clone(&file.io().meter);
        meter.read(purpose, (HEADER_BYTES + header.key.len() + TRAILER_BYTES) as u64);
        let file = Arc::clone(file);
        Ok(Self { file, disk_file, meter, purpose, header, layout, trailer })
    }

    /// Opens a file whose trailer says how long its value is.
    pub(crate) fn open_stated(file: &Arc<ValueFile>, purpose: Purpose) -> Result<Self> {
        let disk_file = file.disk_file()?;
        let (_, length) = read_header(file, &*disk_file)?;
        let offset = length.saturating_sub(TRAILER_BYTES as u64);
        let mut bytes = [0; TRAILER_BYTES];
        read(file, &*disk_file, &mut bytes, offset)?;
        let trailer = Trailer::decode(&bytes, file.seed(), offset);
        let trailer = trailer.map_err(|error| damaged(file, offset, error))?;
        Self::open(file, trailer.value_bytes, purpose)
    }

    /// The header.
    pub(crate) fn header(&self) -> &LargeHeader {
        &self.header
    }

    /// Where everything stands.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of the value.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.layout.value_bytes()
    }

    /// Refuses the file of another key.
    pub(crate) fn check_key(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
        if self.header.keyspace == keyspace && self.header.key == key {
            return Ok(());
        }
        let error = Error::corruption("the large value is that of another key");
        Err(damaged(&self.file, 0, error))
    }

    /// Appends a chunk of the value to `out`, and hands out its checksum.
    pub(crate) fn read_chunk(&self, number: u64, out: &mut Vec<u8>) -> Result<u32> {
        let (offset, bytes) = self.layout.chunk(number);
        let start = out.len();
        out.resize(start + bytes + CHUNK_CRC_BYTES, 0);
        let outcome = self.fill(out.get_mut(start..).unwrap_or_default(), offset);
        out.truncate(start + if outcome.is_ok() { bytes } else { 0 });
        outcome
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<u32> {
        read(&self.file, &*self.disk_file, buffer, offset)?;
        self.meter.read(self.purpose, buffer.len() as u64);
        let (bytes, crc) = buffer
            .split_last_chunk::<CHUNK_CRC_BYTES>()
            .ok_or_else(|| Error::invalid("a chunk without room for its checksum"))?;
        let crc = u32::from_le_bytes(*crc);
        if crc != crc_at(self.file.seed(), offset, bytes) {
            let error = Error::corruption("a part of a large value does not match its checksum");
            return Err(damaged(&self.file, offset, error));
        }
        Ok(crc)
    }

    /// Reads all of the file; what `seen` gets are its chunks, with their checksums, and their
    /// offsets in the file.
    pub(crate) fn check(&self, seen: &mut Seen<'_>) -> Result<()> {
        let mut checksums = Rolling::new(self.file.seed());
        let mut chunk = Vec::new();
        for number in 0..self.layout.chunks() {
            chunk.clear();
            let crc = self.read_chunk(number, &mut chunk)?;
            checksums.update(&crc.to_le_bytes());
            seen(self.layout.chunk(number).0, &chunk, crc)?;
        }
        if checksums.value() != self.trailer.checksum {
            let error = Error::corruption("a large value's trailer is that of another value");
            return Err(damaged(&self.file, self.layout.trailer_offset(), error));
        }
        Ok(())
    }

    /// The trailer.
    pub(crate) fn trailer(&self) -> &Trailer {
        &self.trailer
    }
}

/// The header of a file that holds whatever value, and the file's length.
pub(crate) fn read_header(
    file: &ValueFile,
    disk_file: &dyn DiskFile,
) -> Result<(LargeHeader, u64)> {
    let length = disk_file
        .len()
        .map_err(|cause| Error::io("reading a large value's length", file.path(), cause))?;
    let mut bytes = vec![0; HEADER_BYTES];
    read(file, disk_file, &mut bytes, 0)?;
    let stated = LargeHeader::stated_bytes(&bytes).map_err(|error| damaged(file, 0, error))?;
    bytes.resize(stated, 0);
    read(file, disk_file, bytes.get_mut(HEADER_BYTES..).unwrap_or_default(), HEADER_BYTES as u64)?;
    let header = LargeHeader::decode(&bytes, file.uuid(), file.id());
    Ok((header.map_err(|error| damaged(file, 0, error))?, length))
}

fn read(file: &ValueFile, disk: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> Result<()> {
    disk.read_exact_at(buffer, offset).map_err(|cause| {
        if cause.kind() == std::io::ErrorKind::UnexpectedEof {
            return damaged(file, offset, Error::corruption("a large value's file ends early"));
        }
        Error::io("reading a large value", file.path(), cause).at_offset(offset)
    })
}

fn damaged(file: &ValueFile, offset: u64, error: Error) -> Error {
    mark!("large_value_damaged");
    error.in_file(file.path()).at_offset(offset)
}
