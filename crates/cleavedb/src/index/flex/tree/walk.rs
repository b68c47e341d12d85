//! Walks over what a range maps to, forwards and backwards.
//!
//! Each borrows its tree, which nobody can change meanwhile: a reader walks a clone. Forwards,
//! extents are read as they come; backwards, a leaf is unpacked at a time. From leaf to leaf is one
//! way down from the root, for nodes that are shared have no neighbours to point to.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::Placed;
use crate::index::flex::tree::leaf::Extents;

/// The pieces of a range: extents, the first and the last cut to it.
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    /// What was not handed out yet.
    range: Range<u64>,
    ahead: Extents<'a>,
    /// Where the leaf of `ahead` begins.
    ahead_start: u64,
    /// What a leaf holds before the end of `range`, from its first extent on.
    behind: Vec<Placed>,
}

impl<'a> Walk<'a> {
    /// A walk over a range of a tree.
    pub(super) fn new(tree: &'a Tree, range: Range<u64>) -> Self {
        Self { tree, range, ahead: Extents::default(), ahead_start: 0, behind: Vec::new() }
    }

    /// Bytes that were not handed out yet.
    #[cfg(test)]
    pub(crate) fn rest(&self) -> Range<u64> {
        self.range.clone()
    }
}

impl Iterator for Walk<'_> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        if self.range.is_empty() {
            return None;
        }
        if self.ahead.is_empty() {
            let (start, leaf) = self.tree.leaf_at(self.range.start)?;
            (self.ahead, self.ahead_start) = (leaf.extents(), start);
            self.ahead.skip_to(self.range.start - start);
        }
        let offset = self.ahead_start + self.ahead.at();
        let placed = Placed { offset, extent: self.ahead.next()? };
        let piece = placed.clip(self.range.start, self.range.end);
        self.range.start = piece.end();
        Some(piece)
    }
}

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<Placed> {
        if self.range.is_empty() {
            return None;
        }
        if self.behind.is_empty() {
            let (mut at, leaf) = self.tree.leaf_at(self.range.end - 1)?;
            for extent in leaf.extents() {
                if at >= self.range.end {
                    break;
                }
                let placed = Placed { offset: at, extent };
                at = placed.end();
                self.behind.push(placed);
            }
        }
        let piece = self.behind.pop()?.clip(self.range.start, self.range.end);
        self.range.end = piece.offset;
        Some(piece)
    }
}

impl FusedIterator for Walk<'_> {}
