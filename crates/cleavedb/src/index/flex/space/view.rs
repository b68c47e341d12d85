//! Reading a space: a tree and the segments that it leads to, as of one group.
//!
//! A view is a value that nobody changes; it keeps the files that it may read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::slice;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::pieces::{Joining, Part, read_parts};
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::{Making, Segments};
use crate::index::flex::tree::Tree;
use crate::io::Purpose;

/// A space as of one group.
#[derive(Clone)]
pub(crate) struct View {
    tree: Tree,
    pub(super) segments: Arc<Segments>,
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
        let mut count = 0;
        each_run(&self.tree, range, |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Whose data is in these segments; `None` where one of them does not tell.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn owners(&self, segments: &BTreeSet<FileId>) -> Result<Option<BTreeSet<u64>>> {
        let mut owners = BTreeSet::new();
        for id in segments {
            let segment = self.segments.get(id).ok_or_else(|| missing(*id))?;
            let Some(of_it) = segment.owners(Purpose::Collection)? else { return Ok(None) };
            owners.extend(of_it);
        }
        Ok(Some(owners))
    }

    /// The bytes of a range.
    #[cfg(test)]
    pub(crate) fn read(&self, range: Range<u64>, purpose: Purpose) -> Result<Vec<u8>> {
        Ok(self.read_many(slice::from_ref(&range), purpose)?.pop().unwrap_or_default())
    }

    /// The bytes of each range: all their fragments are asked for at once.
    pub(crate) fn read_many(
        &self,
        ranges: &[Range<u64>],
        purpose: Purpose,
    ) -> Result<Vec<Vec<u8>>> {
        read_many(&self.tree, ranges, purpose, |id| self.segments.get(&id))
    }
}

impl Making {
    /// The bytes of a range, those of its operations among them: all their fragments are asked for
    /// at once.
    pub(crate) fn read(&self, range: Range<u64>, purpose: Purpose) -> Result<Vec<u8>> {
        let find = |id| {
            let written = self.written.get(&id).map(|(segment, _)| segment);
            written.or_else(|| self.table.get(&id))
        };
        let mut read = read_many(&self.tree, slice::from_ref(&range), purpose, find)?;
        Ok(read.pop().unwrap_or_default())
    }
}

/// Reads ranges, all their fragments at once.
fn read_many<'a>(
    tree: &Tree,
    ranges: &[Range<u64>],
    purpose: Purpose,
    find: impl Fn(FileId) -> Option<&'a Arc<Segment>>,
) -> Result<Vec<Vec<u8>>> {
    let mut parts = Vec::with_capacity(2 * ranges.len());
    for (number, range) in ranges.iter().enumerate() {
        let mut at = 0;
        each_run(tree, range.clone(), |physical, bytes| {
            let (id, position) = place_of(physical);
            let segment = find(id).ok_or_else(|| missing(id))?;
            parts.push(Part { segment, position, bytes, place: (number, at) });
            at += bytes as usize;
            Ok(())
        })?;
    }
    read_parts(parts, ranges.len(), Joining::FOR_READS, purpose)
}

/// Takes where a range stands, run by run: pieces that stand together are one.
fn each_run(
    tree: &Tree,
    range: Range<u64>,
    mut take: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let mut run: Option<(u64, u64)> = None;
    for piece in tree.walk(range)? {
        let (physical, length) = (piece.extent.physical, u64::from(piece.extent.length));
        match &mut run {
            Some((start, bytes))
                if *start + *bytes == physical && place_of(*start).0 == place_of(physical).0 =>
            {
                *bytes += length;
            }
            _ => {
                if let Some((start, bytes)) = run.replace((physical, length)) {
                    take(start, bytes)?;
                }
            }
        }
    }
    run.map_or(Ok(()), |(start, bytes)| take(start, bytes))
}

pub(super) fn missing(id: FileId) -> Error {
    Error::corruption(format!("the space leads to segment {id}, which it does not have"))
}
