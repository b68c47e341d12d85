//! One segment of a space: how it is read, also what is not written yet, and the pin that keeps its
//! file on disk.
//!
//! Shared by views and the writer. Invariants: SG-1 a file that a durable edit no longer needs, or
//! that none ever named, is queued for removal when its last holder goes away (rule F7). SG-2 no
//! byte leaves here that was not proved by the checksum of its block, or that is not in memory
//! still. SG-3 what was written is written once: the tail begins where a block does, and leaves in
//! whole blocks.

pub(crate) mod dump;
pub(crate) mod format;
mod verify;
pub(crate) mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc as SlotArc;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::recycled::{self, Recycled};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, ArcSwap, Mutex};
use crate::index::flex::space::SpaceContext;
use crate::index::flex::space::pieces::{Part, put};
use crate::index::flex::space::segment::format::{
    BLOCK_BYTES, DATA_BYTES, HEADER_BYTES, TRAILER_BYTES, block_offset, check_block, check_header,
    decode_summary, summary_bytes,
};
use crate::io::disk::{BatchRead, OpenMode};
use crate::io::{DiskFile, Io, Purpose};
use crate::values::file::Slot;

pub(super) use verify::Used;

/// Data that is not written yet.
#[derive(Debug, Default)]
struct Tail {
    /// Position of its first byte.
    start: u64,
    bytes: Vec<u8>,
}

/// A segment. Starts out doomed: it goes away with its last holder unless a durable edit names it.
pub(crate) struct Segment {
    id: FileId,
    /// Tells it from one of the same number in another copy of the store.
    birth: u64,
    path: PathBuf,
    context: Arc<SpaceContext>,
    handle: SlotArc<Slot>,
    doomed: AtomicBool,
    /// Of a segment that is being written; elsewhere everything is on disk.
    tail: Mutex<Option<Tail>>,
}

impl Segment {
    /// The segment of this number and birth; opens nothing.
    pub(super) fn new(context: &Arc<SpaceContext>, id: FileId, birth: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            birth,
            path: context.dir.join(file_name(FileKind::FlexSegment, id)),
            context: Arc::clone(context),
            handle: SlotArc::new(ArcSwap::from_pointee(None)),
            doomed: AtomicBool::new(true),
            tail: Mutex::new(None),
        })
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Its birth.
    pub(crate) fn birth(&self) -> u64 {
        self.birth
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is read from.
    pub(crate) fn io(&self) -> &Io {
        &self.context.io
    }

    /// Brings a part to its place, some or all of which may not be written yet.
    pub(super) fn read_part(part: Part<'_>, purpose: Purpose, out: &mut [Vec<u8>]) -> Result<()> {
        let segment = part.segment;
        let mut late = Vec::new();
        let written_end = {
            let tail = segment.tail.lock();
            match tail.as_ref().filter(|tail| tail.start < part.end()) {
                None => part.end(),
                Some(tail) => {
                    let from = part.position.saturating_sub(tail.start) as usize;
                    let to = (part.end() - tail.start) as usize;
                    late.extend_from_slice(tail.bytes.get(from..to).ok_or_else(|| {
                        let error = Error::corruption("bytes that were never written");
                        segment.damaged(block_offset(part.position), error)
                    })?);
                    tail.start
                }
            }
        };
        let written = Part { bytes: written_end.saturating_sub(part.position), ..part };
        if written.bytes > 0 {
            let mut read = segment.blocks_of(part.position, written_end, purpose)?;
            read.result = read.file.read_exact_at(&mut read.buffer, read.offset);
            segment.take_parts(read, &[written], purpose, out)?;
        }
        put(&late, out, (part.place.0, part.place.1 + written.bytes as usize))
    }

    /// The read that brings these bytes, for a batch; `None` where some are not written yet.
    pub(crate) fn batched(
        &self,
        position: u64,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<Option<BatchRead>> {
        let end = position.saturating_add(bytes);
        if bytes == 0 || self.tail.lock().as_ref().is_some_and(|tail| tail.start < end) {
            return Ok(None);
        }
        self.blocks_of(position, end, purpose).map(Some)
    }

    /// The read of the blocks that these bytes lie in.
    fn blocks_of(&self, from: u64, to: u64, purpose: Purpose) -> Result<BatchRead> {
        let (offset, last) = (block_offset(from), block_offset(to - 1));
        let buffer = recycled::take((last + BLOCK_BYTES - offset) as usize);
        Ok(BatchRead { file: self.disk_file(purpose)?, offset, buffer, result: Ok(()) })
    }

    /// Brings parts, in order of their positions, to their places, out of a read of all the blocks
    /// that they lie in; those blocks are proved, each once.
    pub(super) fn take_parts(
        &self,
        read: BatchRead,
        parts: &[Part<'_>],
        purpose: Purpose,
        out: &mut [Vec<u8>],
    ) -> Result<()> {
        self.context.io.meter.read(purpose, read.buffer.len() as u64);
        let (offset_read, read_bytes) = (read.offset, Recycled::new(read.buffer));
        read.result.map_err(|e| self.unread(e, offset_read))?;
        let mut proved: (u64, &[u8]) = (0, &[]);
        for part in parts {
            let (mut position, (number, mut at)) = (part.position, part.place);
            while position < part.end() {
                let offset = block_offset(position);
                if offset != proved.0 {
                    proved = (offset, self.proved_block(&read_bytes, offset_read, offset)?);
                }
                let within = position % DATA_BYTES;
                let end = (within + part.end() - position).min(DATA_BYTES);
                let bytes = proved.1.get(within as usize..end as usize).unwrap_or_default();
                put(bytes, out, (number, at))?;
                (position, at) = (position + end - within, at + (end - within) as usize);
            }
        }
        Ok(())
    }

    /// The data of one of the blocks that were read from `start` on.
    fn proved_block<'a>(&self, read: &'a [u8], start: u64, offset: u64) -> Result<&'a [u8]> {
        let from = (offset - start) as usize;
        let block = read.get(from..from + BLOCK_BYTES as usize).unwrap_or_default();
        check_block(block, &self.context.owner, self.id, offset)
            .map_err(|e| self.damaged(offset, e))
    }

    /// Whose data is in it; `None` where nobody knows, for it was never ended.
    pub(crate) fn owners(&self, purpose: Purpose) -> Result<Option<BTreeSet<u64>>> {
        let file = self.disk_file(purpose)?;
        let bytes = file.len().map_err(|e| Error::io("measuring a segment", &self.path, e))?;
        let read = |offset: u64, bytes: u64| {
            let mut buffer = vec![0; bytes as usize];
            let read = file.read_exact_at(&mut buffer, offset);
            self.context.io.meter.read(purpose, bytes);
            read.map(|()| buffer).map_err(|e| self.unread(e, offset))
        };
        let Some(trailer_at) = bytes.checked_sub(TRAILER_BYTES) else { return Ok(None) };
        let stated = summary_bytes(&read(trailer_at, TRAILER_BYTES)?).ok();
        let Some((offset, length)) =
            stated.and_then(|length| Some((bytes.checked_sub(length)?, length)))
        else {
            return Ok(None);
        };
        let summary = read(offset, length)?;
        Ok(decode_summary(&summary, &self.context.owner, self.id, offset).ok())
    }

    /// Bytes of data that it has room for on disk, as long as it is.
    pub(super) fn data_bytes(&self, purpose: Purpose) -> Result<u64> {
        let file = self.disk_file(purpose)?;
        let bytes = file.len().map_err(|e| Error::io("measuring a segment", &self.path, e))?;
        Ok((bytes / BLOCK_BYTES).saturating_sub(1) * DATA_BYTES)
    }

    /// The open file, its header proved when it is opened.
    fn disk_file(&self, purpose: Purpose) -> Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.handle.load().as_ref() {
            return Ok(Arc::clone(file));
        }
        // Two threads may both open it; one descriptor is closed again.
        let mode = OpenMode { direct: self.context.direct_reads, random: true };
        let file = self.context.io.disk.open(&self.path, mode).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                return Error::corruption("a segment is missing").in_file(&self.path);
            }
            Error::io("opening a segment", &self.path, e)
        })?;
        self.prove_header(&*file, purpose)?;
        self.handle.store(Arc::new(Some(Arc::clone(&file))));
        self.context.open_files.opened(&self.handle);
        Ok(file)
    }

    /// Reads the header: it must be that of this segment, and of this history.
    fn prove_header(&self, file: &dyn DiskFile, purpose: Purpose) -> Result<()> {
        let mut header = vec![0; HEADER_BYTES];
        let read = file.read_exact_at(&mut header, 0);
        self.context.io.meter.read(purpose, HEADER_BYTES as u64);
        read.map_err(|e| self.unread(e, 0))?;
        match check_header(&header, &self.context.owner, self.id) {
            Ok(birth) if birth == self.birth => Ok(()),
            Ok(_) => {
                let error = Error::corruption("a segment of another history of the store");
                Err(self.damaged(0, error))
            }
            Err(error) => Err(self.damaged(0, error)),
        }
    }

    /// What a failed read of bytes that were written means.
    fn unread(&self, e: std::io::Error, offset: u64) -> Error {
        if e.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.damaged(offset, Error::corruption("a segment ends too early"));
        }
        Error::io("reading a segment", &self.path, e).at_offset(offset)
    }

    fn damaged(&self, offset: u64, error: Error) -> Error {
        error.in_file(&self.path).at_offset(offset)
    }

    /// A durable edit names the file.
    pub(super) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// No durable edit needs the file any more: it goes away with its last holder.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            self.context.obsolete.push(FileKind::FlexSegment, self.id);
        }
    }
}

#[cfg(test)]
mod tests;
