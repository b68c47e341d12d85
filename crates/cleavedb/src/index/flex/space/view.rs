//! Reading a space: a tree and the segments that it leads to, as of one group.
//!
//! A view is a value that nobody changes; it keeps the files that it may read.

use std::ops::Range;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::{Segments, Space};
use crate::index::flex::tree::Tree;
use crate::io::Purpose;

/// Most bytes that room is made for before they are there.
const READ_ROOM_MAX: u64 = 64 << 10;

/// A space as of one group.
#[derive(Clone)]
pub(crate) struct View {
    tree: Tree,
    segments: Arc<Segments>,
}

impl View {
    pub(super) fn new(tree: Tree, segments: Arc<Segments>) -> Self {
        Self { tree, segments }
    }

    /// Where its bytes stand.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// In how many pieces a range stands.
    pub(crate) fn fragments(&self, range: Range<u64>) -> Result<usize> {
        Ok(runs(&self.tree, range)?.len())
    }

    /// The bytes of a range.
    #[cfg(test)]
    pub(crate) fn read(&self, range: Range<u64>, purpose: Purpose) -> Result<Vec<u8>> {
        read(&self.tree, range, purpose, |id| self.segments.get(&id).cloned())
    }

    /// The bytes of each range: all their fragments are asked for at once.
    pub(crate) fn read_many(
        &self,
        ranges: &[Range<u64>],
        purpose: Purpose,
    ) -> Result<Vec<Vec<u8>>> {
        let (mut parts, mut reads) = (Vec::new(), Vec::new());
        for (number, range) in ranges.iter().enumerate() {
            for (physical, bytes) in runs(&self.tree, range.clone())? {
                let (id, position) = place_of(physical);
                let segment = self.segments.get(&id).ok_or_else(|| missing(id))?;
                let read = segment.batched(position, bytes, purpose)?;
                parts.push((number, segment, position, bytes, read.is_some()));
                reads.extend(read);
            }
        }
        match (reads.as_mut_slice(), parts.first()) {
            // A lone read needs no ring.
            ([read], _) => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
            (reads, Some((_, segment, ..))) if !reads.is_empty() => {
                segment.io().disk.read_batch(reads);
                segment.io().meter.batch_submitted();
            }
            _ => {}
        }
        let mut reads = reads.into_iter();
        let room = |range: &Range<u64>| (range.end - range.start).min(READ_ROOM_MAX) as usize;
        let mut out: Vec<Vec<u8>> =
            ranges.iter().map(|range| Vec::with_capacity(room(range))).collect();
        for (number, segment, position, bytes, is_batched) in parts {
            let Some(out) = out.get_mut(number) else { continue };
            match is_batched.then(|| reads.next()).flatten() {
                Some(read) => {
                    segment.take_blocks(read, position, position + bytes, purpose, out)?;
                }
                None => segment.read(position, bytes, purpose, out)?,
            }
        }
        Ok(out)
    }
}

impl Space {
    /// The bytes of a range, those of the group in the making among them.
    pub(crate) fn read(&self, range: Range<u64>, purpose: Purpose) -> Result<Vec<u8>> {
        let find = |id| self.segments.get(&id).map(|state| Arc::clone(&state.segment));
        read(&self.tree, range, purpose, find)
    }
}

/// Reads piece by piece; pieces that stand together come in one read.
fn read(
    tree: &Tree,
    range: Range<u64>,
    purpose: Purpose,
    find: impl Fn(FileId) -> Option<Arc<Segment>>,
) -> Result<Vec<u8>> {
    let room = range.end.saturating_sub(range.start).min(READ_ROOM_MAX);
    let mut out = Vec::with_capacity(room as usize);
    for (physical, bytes) in runs(tree, range)? {
        let (id, position) = place_of(physical);
        let segment = find(id).ok_or_else(|| missing(id))?;
        segment.read(position, bytes, purpose, &mut out)?;
    }
    Ok(out)
}

/// Where a range stands: pieces that stand together are one.
fn runs(tree: &Tree, range: Range<u64>) -> Result<Vec<(u64, u64)>> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for piece in tree.walk(range)? {
        let (physical, length) = (piece.extent.physical, u64::from(piece.extent.length));
        match runs.last_mut() {
            Some((start, bytes))
                if *start + *bytes == physical && place_of(*start).0 == place_of(physical).0 =>
            {
                *bytes += length;
            }
            _ => runs.push((physical, length)),
        }
    }
    Ok(runs)
}

fn missing(id: FileId) -> Error {
    Error::corruption(format!("the space leads to segment {id}, which it does not have"))
}
