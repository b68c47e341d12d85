//! The tree of extents: what each byte of a space that can be cut and filled anywhere maps to.
//!
//! A B+-tree whose offsets are relative at every level, so that bytes put in or taken out anywhere
//! shift all that follows for the price of one path. A [`Tree`] is a value: a clone costs nothing
//! and stays as it is for ever, which makes it the view of readers, while whoever has the original
//! goes on; what both share is copied when it is first changed, and changed in place from then on.
//!
//! Owned by whoever made it; any thread may read a clone. No operation changes anything if it
//! returns an error, and [`Tree::batch`] makes several of them one. Whoever is to do many asks that
//! they be held ([`Tree::hold`]) until they are settled: those near each other are done to extents
//! that are unpacked once, and go to the nodes together ([`run`]). What a space maps to decides
//! how its extents are cut: at tags, at windows of physical addresses, and where addresses do not
//! go on ([`extent`]). Invariants: those of leaves (L-1, L-2) and nodes (N-1 to N-4), which
//! [`Tree::check`] looks at.

pub(crate) mod check;
mod edit;
pub(crate) mod extent;
mod leaf;
mod node;
pub(crate) mod parts;
mod run;
mod splice;
mod walk;

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::tree::extent::{Placed, Tag};
use crate::index::flex::tree::leaf::Leaf;
use crate::index::flex::tree::node::Node;
use crate::index::flex::tree::run::{Held, Run};

pub(crate) use node::TreeWidths;
pub(crate) use walk::Walk;

/// A space and what its bytes map to.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Arc<Node>,
    extents: u64,
    widths: TreeWidths,
    /// Where changes are held.
    held: Option<Held>,
}

/// Extents that are found together.
enum Stretch<'a> {
    Leaf(&'a Leaf),
    Run(&'a Run),
}

impl Tree {
    /// An empty space.
    pub(crate) fn new(widths: TreeWidths) -> Result<Self> {
        if !widths.are_valid() {
            return Err(Error::invalid(format!("no tree has these widths: {widths:?}")));
        }
        Ok(Self { root: Arc::new(Node::Leaf(Leaf::default())), extents: 0, widths, held: None })
    }

    /// Bytes of the space.
    pub(crate) fn length(&self) -> u64 {
        let of_nodes = self.root.length();
        self.run().map_or(of_nodes, |run| run.shift(of_nodes))
    }

    /// How many extents it is made of.
    pub(crate) fn extents(&self) -> u64 {
        self.extents
    }

    /// Bytes allocated for it, what it shares with others included.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.root.memory_bytes() + self.held.as_ref().map_or(0, Held::memory_bytes)
    }

    /// The extent that holds a byte; `None` at the end and beyond.
    pub(crate) fn find(&self, offset: u64) -> Option<Placed> {
        let (start, stretch) = self.stretch_at(offset)?;
        let placed = match stretch {
            Stretch::Leaf(leaf) => leaf.find(offset - start)?,
            Stretch::Run(run) => {
                let (within, extents) = run.from(offset - start);
                Placed { offset: within, extent: *extents.first()? }
            }
        };
        Some(Placed { offset: start + placed.offset, ..placed })
    }

    /// Where a byte stands.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn physical(&self, offset: u64) -> Option<u64> {
        let placed = self.find(offset)?;
        Some(placed.extent.physical + (offset - placed.offset))
    }

    /// The tag of a byte.
    pub(crate) fn tag(&self, offset: u64) -> Option<Tag> {
        let placed = self.find(offset)?;
        placed.extent.tag.filter(|_| placed.offset == offset)
    }

    /// What a range maps to, in pieces from either end.
    pub(crate) fn walk(&self, range: Range<u64>) -> Result<Walk<'_>> {
        self.validate(&range)?;
        Ok(Walk::new(self, range))
    }

    /// What holds a byte, and where it begins.
    #[inline]
    fn stretch_at(&self, offset: u64) -> Option<(u64, Stretch<'_>)> {
        let of_leaf = |(start, leaf)| (start, Stretch::Leaf(leaf));
        match self.run() {
            Some(run) if offset >= run.start() => {
                if offset < run.end() || run.end() == self.length() {
                    return Some((run.start(), Stretch::Run(run)));
                }
                let (start, leaf) = self.leaf_at(run.shift_back(offset))?;
                Some((run.shift(start), Stretch::Leaf(leaf)))
            }
            _ => self.leaf_at(offset).map(of_leaf),
        }
    }

    /// The leaf that the nodes have for a byte, and where they have it begin.
    fn leaf_at(&self, offset: u64) -> Option<(u64, &Leaf)> {
        let (mut node, mut start) = (&*self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return Some((start, leaf)),
                Node::Inner(inner) => {
                    let child = inner.children.get(inner.index_at(offset - start))?;
                    (node, start) = (&*child.node, start + child.shift);
                }
            }
        }
    }

    fn validate(&self, range: &Range<u64>) -> Result<()> {
        let length = self.length();
        if range.start > range.end || range.end > length {
            return Err(Error::invalid(format!("{range:?} is no range of {length} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
