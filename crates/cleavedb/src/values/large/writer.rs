//! Writes a large value's file from beginning to end, a chunk at a time.
//!
//! Owned by one thread. Invariants: LW-1 no more of the value is in memory than one chunk and what
//! the file's writer gathers. LW-2 the trailer comes last, so a file with one was wholly given to
//! the kernel. LW-3 a writer that is dropped before its end leaves a file that nothing names.

use std::io;

use crate::base::checksum::{Rolling, crc_at, file_seed};
use crate::base::entry::FileId;
use crate::base::sync::Arc;
use crate::io::writer::FileWriter;
use crate::io::{DiskFile, Io, Purpose};
use crate::values::large::format::{LargeHeader, Layout, Trailer};

/// A file in the making.
pub(crate) struct LargeWriter {
    writer: FileWriter,
    file: Arc<dyn DiskFile>,
    header: LargeHeader,
    seed: u32,
    value_bytes: u64,
    checksums: Rolling,
}

/// A file that is complete; nothing of it need be durable.
pub(crate) struct Written {
    /// The open file.
    pub(crate) file: Arc<dyn DiskFile>,
    /// Bytes of the value.
    pub(crate) value_bytes: u64,
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
    /// The trailer's checksum of checksums.
    pub(crate) checksum: u32,
}

impl LargeWriter {
    /// A writer into this empty file.
    ///
    /// # Errors
    /// Those of the write.
    pub(crate) fn new(
        io: &Io,
        file: Arc<dyn DiskFile>,
        uuid: &[u8; 16],
        id: FileId,
        header: LargeHeader,
    ) -> io::Result<Self> {
        let mut writer = FileWriter::new(io, Arc::clone(&file), Purpose::Values, false);
        writer.append(&header.encode(uuid, id))?;
        let seed = file_seed(uuid, id.0);
        let checksums = Rolling::new(seed);
        Ok(Self { writer, file, header, seed, value_bytes: 0, checksums })
    }

    /// Bytes of the value so far.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Appends the next chunk: as long as the header says, the last one excepted; never empty.
    ///
    /// # Errors
    /// Those of the write.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(!bytes.is_empty() && bytes.len() <= self.header.chunk_bytes as usize);
        let crc = crc_at(self.seed, self.writer.position(), bytes).to_le_bytes();
        self.checksums.update(&crc);
        self.writer.append(bytes)?;
        self.writer.append(&crc)?;
        self.value_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Ends the file; it is not synced.
    ///
    /// # Errors
    /// Those of the write.
    pub(crate) fn finish(mut self) -> io::Result<Written> {
        let layout = Layout::new(&self.header, self.value_bytes);
        let offset = self.writer.position();
        debug_assert_eq!(offset, layout.trailer_offset());
        let checksum = self.checksums.value();
        let trailer =
            Trailer { value_bytes: self.value_bytes, chunks: layout.chunks() as u32, checksum };
        self.writer.append(&trailer.encode(self.seed, offset))?;
        self.writer.finish_unsynced()?;
        let (value_bytes, file_bytes) = (self.value_bytes, layout.file_bytes());
        Ok(Written { file: self.file, value_bytes, file_bytes, checksum })
    }
}
