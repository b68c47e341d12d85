//! Appends to a file in large writes: what tables, flush and compaction write through.
//!
//! Owned by one thread. Bytes gather in a page-aligned buffer and leave in chunks; each chunk
//! takes from the rate limiter (background writers), is metered by purpose and, in a buffered
//! file, is given to the device at once, so that the final sync has little left to wait for.
//!
//! I1: the bytes of the file up to `written` are in the kernel; what follows is in the buffer.
//! I2: in a direct file every write but the padded last one is whole pages at a page boundary.
//! I3: after an error nothing more is accepted.

use std::io;

use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::io::aligned::AlignedBuffer;
use crate::io::context::Io;
use crate::io::disk::{DIRECT_ALIGN, DiskFile};
use crate::io::limiter::RateLimiter;
use crate::io::meter::{Meter, Purpose};

/// Bytes of one write to a buffered file: large enough that the call's cost vanishes, small enough
/// to stay in the processor's cache until the kernel copies it.
const BUFFERED_CHUNK_BYTES: usize = 256 << 10;
/// Bytes of one write to a direct file: the device is waited for, so fewer and larger.
const DIRECT_CHUNK_BYTES: usize = 1 << 20;

/// An append-only writer over one file, from its first byte on.
pub(crate) struct FileWriter {
    file: Arc<dyn DiskFile>,
    meter: Arc<Meter>,
    limiter: Option<Arc<RateLimiter>>,
    purpose: Purpose,
    buffer: AlignedBuffer,
    chunk_bytes: usize,
    written: u64,
    direct: bool,
    failed: bool,
}

impl FileWriter {
    /// A writer over an empty file; `limited` makes it take from the background rate limiter.
    pub(crate) fn new(io: &Io, file: Arc<dyn DiskFile>, purpose: Purpose, limited: bool) -> Self {
        let direct = file.is_direct();
        Self {
            meter: io.meter.clone(),
            limiter: limited.then(|| io.limiter.clone()),
            purpose,
            buffer: AlignedBuffer::new(),
            chunk_bytes: if direct { DIRECT_CHUNK_BYTES } else { BUFFERED_CHUNK_BYTES },
            written: 0,
            direct,
            failed: false,
            file,
        }
    }

    /// Bytes appended so far: where the next byte will lie.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Memory of the buffer.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Those of the write; the writer is of no use afterwards.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.failed {
                return Err(io::Error::other("an earlier write to this file failed"));
            }
            if self.buffer.is_empty() && !self.direct && rest.len() >= self.chunk_bytes {
                // Whole chunks need no copy through the buffer.
                let (chunk, after) = rest.split_at_checked(self.chunk_bytes).unwrap_or((rest, &[]));
                self.write(chunk)?;
                rest = after;
                continue;
            }
            let room = self.chunk_bytes - self.buffer.len();
            let (part, after) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.buffer.extend_from_slice(part);
            rest = after;
            if self.buffer.len() == self.chunk_bytes {
                self.write_buffer()?;
            }
        }
        Ok(())
    }

    /// Writes out what is left and makes contents and length durable.
    ///
    /// # Errors
    /// Those of the write and of the sync, which is not retried.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        if planted!("file_writer_skips_sync") {
            return Ok(());
        }
        self.file.sync_data()
    }

    /// Writes out what is left; neither contents nor length are durable yet.
    ///
    /// # Errors
    /// Those of the write.
    pub(crate) fn finish_unsynced(mut self) -> io::Result<()> {
        self.flush()
    }

    /// Writes out what is left without a sync; nothing may be appended afterwards.
    fn flush(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this file failed"));
        }
        let len = self.position();
        let padded = if self.direct { self.buffer.len().next_multiple_of(DIRECT_ALIGN) } else { 0 };
        let pads = padded > self.buffer.len();
        if pads {
            self.buffer.resize(padded);
        }
        if !self.buffer.is_empty() {
            self.write_buffer()?;
        }
        if pads { self.file.set_len(len) } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        outcome
    }

    fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        let len = chunk.len() as u64;
        if let Some(limiter) = &self.limiter {
            limiter.acquire(len);
        }
        if let Err(e) = self.file.write_all_at(chunk, self.written) {
            self.failed = true;
            return Err(e);
        }
        self.meter.wrote(self.purpose, len);
        if !self.direct {
            self.file.start_write_back(self.written, len);
        }
        self.written += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
