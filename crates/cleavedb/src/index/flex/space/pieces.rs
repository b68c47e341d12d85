//! Reading many parts of segments at once, in the order in which they stand on disk.
//!
//! What belongs together in a space is apart on disk, and what was written at one time is together:
//! neighbours in the space that one flush has met, whatever random writes have left in a segment.
//! So parts that stand near each other come in one read, and a block is proved once, however many
//! parts it holds.

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::{DATA_BYTES, SPAN_BYTES};
use crate::io::Purpose;
use crate::io::disk::BatchRead;

/// Bytes of reads that are under way together.
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// Which parts come in one read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    /// Blocks between two of them that nobody asked for.
    gap_blocks_max: u64,
    /// Blocks of them all.
    blocks_max: u64,
}

impl Joining {
    /// For who waits: a block more takes a device about as long as one read more of many.
    pub(super) const FOR_READS: Self = Self { gap_blocks_max: 1, blocks_max: 16 };

    /// For who takes in most of a segment: to read over such a gap takes no longer than to begin
    /// anew, and reads of this length go as fast as the device transfers.
    pub(super) const FOR_SWEEPS: Self = Self { gap_blocks_max: 4, blocks_max: 64 };

    fn joins(self, first: &Part<'_>, last: &Part<'_>, next: &Part<'_>) -> bool {
        first.segment.id() == next.segment.id()
            && next.position / DATA_BYTES <= last.last_block() + 1 + self.gap_blocks_max
            && next.last_block() - first.position / DATA_BYTES < self.blocks_max
    }
}

/// A part of a segment, and where its bytes go.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) segment: &'a Arc<Segment>,
    /// Position of its first byte.
    pub(super) position: u64,
    pub(super) bytes: u64,
    /// Number of the buffer, and the place there.
    pub(super) place: (usize, usize),
}

impl Part<'_> {
    /// Position behind its last byte.
    pub(super) fn end(&self) -> u64 {
        self.position.saturating_add(self.bytes)
    }

    fn last_block(&self) -> u64 {
        self.end().saturating_sub(1).max(self.position) / DATA_BYTES
    }
}

/// Reads parts into buffers, which are as long as the parts of each reach.
///
/// # Errors
/// Those of the disk, and of blocks that are not what was written.
pub(super) fn read_parts(
    mut parts: Vec<Part<'_>>,
    buffers: usize,
    joining: Joining,
    purpose: Purpose,
) -> Result<Vec<Vec<u8>>> {
    parts.sort_unstable_by_key(|part| (part.segment.id(), part.position));
    let mut out = buffers_for(&parts, buffers)?;
    let (mut batch, mut rest) = (Batch::default(), parts.as_slice());
    while let Some(first) = rest.first() {
        let joined = |pair: &&[Part<'_>]| match pair {
            [last, next] => joining.joins(first, last, next),
            _ => false,
        };
        let count = 1 + rest.windows(2).take_while(joined).count();
        let (stretch, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        batch.add(stretch, purpose)?;
        rest = behind;
        if batch.bytes >= BATCH_BYTES_MAX {
            std::mem::take(&mut batch).take(purpose, &mut out)?;
        }
    }
    batch.take(purpose, &mut out)?;
    Ok(out)
}

/// Room for parts in order of their segments. None of their bytes counts twice, so that more than
/// all of these segments hold is a tree that cannot be.
fn buffers_for(parts: &[Part<'_>], buffers: usize) -> Result<Vec<Vec<u8>>> {
    let mut sizes = vec![0usize; buffers];
    for part in parts {
        let end = part.place.1.saturating_add(part.bytes as usize);
        if let Some(size) = sizes.get_mut(part.place.0) {
            *size = end.max(*size);
        }
    }
    let segments = parts.chunk_by(|a, b| a.segment.id() == b.segment.id()).count();
    let bytes = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size as u64));
    if bytes > SPAN_BYTES.saturating_mul(segments as u64) {
        return Err(Error::corruption("a space that maps more bytes than its segments hold"));
    }
    Ok(sizes.into_iter().map(|size| vec![0; size]).collect())
}

/// Reads that are under way together.
#[derive(Default)]
struct Batch<'p, 'a> {
    /// Parts that come in one read each; those without one are in memory still, some or all.
    stretches: Vec<(&'p [Part<'a>], bool)>,
    reads: Vec<BatchRead>,
    bytes: u64,
}

impl<'p, 'a> Batch<'p, 'a> {
    fn add(&mut self, parts: &'p [Part<'a>], purpose: Purpose) -> Result<()> {
        let Some(first) = parts.first() else { return Ok(()) };
        let end = parts.iter().map(Part::end).max().unwrap_or(first.position);
        let read = first.segment.batched(first.position, end - first.position, purpose)?;
        self.bytes += read.as_ref().map_or(0, |read| read.buffer.len() as u64);
        self.stretches.push((parts, read.is_some()));
        self.reads.extend(read);
        Ok(())
    }

    /// Reads, and brings every part to its place.
    fn take(mut self, purpose: Purpose, out: &mut [Vec<u8>]) -> Result<()> {
        match (self.reads.as_mut_slice(), self.stretches.first()) {
            // A lone read needs no ring.
            ([read], _) => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
            (reads, Some(([part, ..], _))) if !reads.is_empty() => {
                part.segment.io().disk.read_batch(reads);
                part.segment.io().meter.batch_submitted();
            }
            _ => {}
        }
        let mut reads = self.reads.into_iter();
        for (parts, is_read) in self.stretches {
            if let Some(read) = is_read.then(|| reads.next()).flatten() {
                if let Some(first) = parts.first() {
                    first.segment.take_parts(read, parts, purpose, out)?;
                }
                continue;
            }
            for part in parts {
                Segment::read_part(*part, purpose, out)?;
            }
        }
        Ok(())
    }
}

/// Brings bytes to a place that there is room for.
pub(super) fn put(bytes: &[u8], out: &mut [Vec<u8>], (number, at): (usize, usize)) -> Result<()> {
    let room = out.get_mut(number).and_then(|buffer| buffer.get_mut(at..at + bytes.len()));
    let room = room.ok_or_else(|| Error::corruption("a part of a segment that has no room"))?;
    room.copy_from_slice(bytes);
    Ok(())
}
