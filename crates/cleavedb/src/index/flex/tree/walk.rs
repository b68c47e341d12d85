//! Walks over what a range maps to, forwards and backwards.
//!
//! Each borrows its tree, which nobody can change meanwhile: a reader walks a clone. Forwards,
//! extents are read as they come; backwards, a leaf is unpacked at a time. From leaf to leaf is one
//! way down from the root, for nodes that are shared have no neighbours to point to.

use std::iter::FusedIterator;
use std::ops::Range;
use std::slice;

use crate::index::flex::tree::extent::{Extent, Placed};
use crate::index::flex::tree::leaf::Extents;
use crate::index::flex::tree::{Stretch, Tree};

/// What comes next of a leaf, or of the run: where in it, too.
enum Ahead<'a> {
    Packed(Extents<'a>),
    Plain(u64, slice::Iter<'a, Extent>),
}

impl<'a> Ahead<'a> {
    /// From the extent on that holds a byte.
    fn of(stretch: Stretch<'a>, offset: u64) -> Self {
        match stretch {
            Stretch::Leaf(leaf) => {
                let mut extents = leaf.extents();
                extents.skip_to(offset);
                Self::Packed(extents)
            }
            Stretch::Run(run) => {
                let (at, extents) = run.from(offset);
                Self::Plain(at, extents.iter())
            }
        }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Placed> {
        match self {
            Self::Packed(extents) => extents.placed(),
            Self::Plain(at, extents) => {
                let placed = Placed { offset: *at, extent: *extents.next()? };
                *at = placed.end();
                Some(placed)
            }
        }
    }
}

/// The pieces of a range: extents, the first and the last cut to it.
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    /// What was not handed out yet.
    range: Range<u64>,
    ahead: Ahead<'a>,
    /// Where the leaf of `ahead` begins, or the run.
    ahead_start: u64,
    /// What a leaf holds before the end of `range`, from its first extent on.
    behind: Vec<Placed>,
}

impl<'a> Walk<'a> {
    /// A walk over a range of a tree.
    pub(super) fn new(tree: &'a Tree, range: Range<u64>) -> Self {
        Self { tree, range, ahead: Ahead::Plain(0, [].iter()), ahead_start: 0, behind: Vec::new() }
    }

    /// Goes on in what holds the next byte.
    #[cold]
    fn turn(&mut self) -> Option<()> {
        let (start, stretch) = self.tree.stretch_at(self.range.start)?;
        self.ahead = Ahead::of(stretch, self.range.start - start);
        self.ahead_start = start;
        Some(())
    }

    /// Bytes that were not handed out yet.
    #[cfg(test)]
    pub(crate) fn rest(&self) -> Range<u64> {
        self.range.clone()
    }
}

impl Iterator for Walk<'_> {
    type Item = Placed;

    #[inline]
    fn next(&mut self) -> Option<Placed> {
        if self.range.is_empty() {
            return None;
        }
        let found = match self.ahead.next() {
            Some(found) => found,
            None => {
                self.turn()?;
                self.ahead.next()?
            }
        };
        let placed = Placed { offset: self.ahead_start + found.offset, ..found };
        let is_whole = placed.offset >= self.range.start && placed.end() <= self.range.end;
        let piece = if is_whole { placed } else { placed.clip(self.range.start, self.range.end) };
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
            let (start, stretch) = self.tree.stretch_at(self.range.end - 1)?;
            let mut ahead = Ahead::of(stretch, 0);
            while let Some(found) = ahead.next() {
                let placed = Placed { offset: start + found.offset, ..found };
                if placed.offset >= self.range.end {
                    break;
                }
                self.behind.push(placed);
            }
        }
        let piece = self.behind.pop()?.clip(self.range.start, self.range.end);
        self.range.end = piece.offset;
        Some(piece)
    }
}

impl FusedIterator for Walk<'_> {}
