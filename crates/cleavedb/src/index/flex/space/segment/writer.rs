//! Writes one segment: data gathers in its tail, leaves in whole blocks, and is synced at a commit.
//!
//! Owned by the space's one writer. What a commit ends in the middle of a block is filled up with
//! zeros: a block is written once (rule F9), and commits are of many blocks.

use std::collections::BTreeSet;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::SpaceContext;
use crate::index::flex::space::segment::format::{
    BLOCK_BYTES, BLOCKS_MAX, DATA_BYTES, SEGMENT_ID_MAX, block_offset, encode_blocks,
    encode_header, encode_summary, physical_of,
};
use crate::index::flex::space::segment::{Segment, Tail};
use crate::io::aligned::AlignedBuffer;
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Purpose};

/// Bytes of the tail that are written before a commit asks for it.
const CHUNK_BYTES: u64 = 64 * DATA_BYTES;

/// A segment in the making.
pub(crate) struct SegmentWriter {
    segment: Arc<Segment>,
    disk_file: Arc<dyn DiskFile>,
    /// Position of the next byte.
    position: u64,
    /// Whose data is in it.
    owners: BTreeSet<u64>,
    /// Whether something is not durable.
    is_behind: bool,
}

impl SegmentWriter {
    /// Makes a file with a header; its name is not durable yet.
    pub(crate) fn create(context: &Arc<SpaceContext>, purpose: Purpose) -> Result<Self> {
        let id = context.ids.next();
        if id.0 > SEGMENT_ID_MAX {
            return Err(Error::new(ErrorKind::Unsupported, "no addresses are left for a segment"));
        }
        let segment = Segment::new(context, id, context.birth);
        let disk_file = context
            .io
            .disk
            .create(segment.path(), OpenMode { direct: context.direct_writes, random: false })
            .map_err(|e| Error::io("creating a segment", segment.path(), e))?;
        disk_file
            .write_all_at(&encode_header(&context.owner, id, context.birth), 0)
            .map_err(|e| Error::io("writing a segment", segment.path(), e))?;
        context.io.meter.wrote(purpose, BLOCK_BYTES);
        *segment.tail.lock() = Some(Tail::default());
        Ok(Self { segment, disk_file, position: 0, owners: BTreeSet::new(), is_behind: false })
    }

    /// What it writes.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Bytes of data so far, zeros that filled up blocks included.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether it writes past the page cache.
    #[cfg(test)]
    pub(crate) fn is_direct(&self) -> bool {
        self.disk_file.is_direct()
    }

    /// Whether a sync would make anything durable.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Bytes that it still has room for.
    pub(crate) fn room(&self) -> u64 {
        let blocks = self.segment.context.limits.segment_blocks.clamp(1, BLOCKS_MAX);
        (blocks * DATA_BYTES).saturating_sub(self.position)
    }

    /// Appends as much as there is room for; returns its physical address and how much that was.
    pub(crate) fn append(
        &mut self,
        bytes: &[u8],
        owner: u64,
        purpose: Purpose,
    ) -> Result<(u64, usize)> {
        let count = (bytes.len() as u64).min(self.room()) as usize;
        let waiting = {
            let mut tail = self.segment.tail.lock();
            let tail = tail.get_or_insert_with(Tail::default);
            tail.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default());
            tail.bytes.len() as u64
        };
        let physical = physical_of(self.segment.id, self.position);
        self.position += count as u64;
        if count > 0 {
            self.is_behind = true;
            self.owners.insert(owner);
        }
        if waiting >= CHUNK_BYTES {
            self.write_blocks(purpose)?;
        }
        Ok((physical, count))
    }

    /// Writes the whole blocks of the tail. Readers find bytes in the tail until they are on disk.
    fn write_blocks(&mut self, purpose: Purpose) -> Result<()> {
        let context = Arc::clone(&self.segment.context);
        let (start, blocks, data_bytes) = {
            let tail = self.segment.tail.lock();
            let Some(tail) = tail.as_ref() else { return Ok(()) };
            let data_bytes = tail.bytes.len() - tail.bytes.len() % DATA_BYTES as usize;
            let data = tail.bytes.get(..data_bytes).unwrap_or_default();
            let blocks = encode_blocks(&context.owner, self.segment.id, tail.start, data);
            (tail.start, blocks, data_bytes)
        };
        if blocks.is_empty() {
            return Ok(());
        }
        let (offset, bytes) = (block_offset(start), blocks.len() as u64);
        context.io.limiter.acquire(bytes);
        let written = match self.disk_file.is_direct() {
            true => self.disk_file.write_all_at(&AlignedBuffer::copy_of(&blocks), offset),
            false => self.disk_file.write_all_at(&blocks, offset),
        };
        written.map_err(|e| Error::io("writing a segment", self.segment.path(), e))?;
        context.io.meter.wrote(purpose, bytes);
        self.disk_file.start_write_back(offset, bytes);
        if let Some(tail) = self.segment.tail.lock().as_mut() {
            tail.start += data_bytes as u64;
            tail.bytes.drain(..data_bytes.min(tail.bytes.len()));
        }
        Ok(())
    }

    /// Makes all of it durable; the rest of the last block stays empty.
    pub(crate) fn sync(&mut self, purpose: Purpose) -> Result<()> {
        let filled = self.position.next_multiple_of(DATA_BYTES);
        if let Some(tail) = self.segment.tail.lock().as_mut() {
            tail.bytes.resize(tail.bytes.len() + (filled - self.position) as usize, 0);
        }
        self.position = filled;
        self.write_blocks(purpose)?;
        let synced = self.disk_file.sync_data();
        synced.map_err(|e| Error::io("syncing a segment", self.segment.path(), e))?;
        self.is_behind = false;
        Ok(())
    }

    /// Ends it: everything is durable, and whose data is in it stands at its end.
    pub(crate) fn finish(mut self, purpose: Purpose) -> Result<Arc<Segment>> {
        self.sync(purpose)?;
        let context = &self.segment.context;
        let offset = block_offset(self.position);
        let summary = encode_summary(&self.owners, &context.owner, self.segment.id, offset);
        self.disk_file
            .write_all_at(&summary, offset)
            .map_err(|e| Error::io("writing a segment", self.segment.path(), e))?;
        context.io.meter.wrote(purpose, summary.len() as u64);
        *self.segment.tail.lock() = None;
        Ok(self.segment)
    }
}
