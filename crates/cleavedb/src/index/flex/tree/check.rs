//! Every invariant of a tree, looked at: for tests, and for whoever has read one from disk, as a
//! whole or node by node.

use crate::base::error::{Error, Result};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, LENGTH_MAX};
use crate::index::flex::tree::leaf::Leaf;
use crate::index::flex::tree::node::{Inner, Node, TreeWidths};
use crate::index::flex::tree::parts::Part;

/// What a tree is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Levels of nodes.
    pub(crate) height: usize,
    /// Inner nodes.
    pub(crate) inner_nodes: u64,
    /// Leaves.
    pub(crate) leaves: u64,
    /// Extents.
    pub(crate) extents: u64,
    /// Extents with a tag.
    pub(crate) tagged: u64,
}

/// Looks at nodes in the order of the space.
pub(crate) struct Checker<'a> {
    widths: &'a TreeWidths,
    shape: Shape,
    last: Option<Extent>,
}

impl Tree {
    /// Looks at all of it; an error names the first invariant that does not hold.
    pub(crate) fn check(&self) -> Result<Shape> {
        if self.run().is_some() {
            return self.settled().check();
        }
        let mut checker = Checker::new(&self.widths);
        let length = checker.node(&self.root, 1)?;
        let shape = checker.shape;
        if shape.extents != self.extents {
            return broken("count", format!("{} of {} extents", shape.extents, self.extents));
        }
        if length > LENGTH_MAX {
            return broken("length", format!("{length} bytes"));
        }
        Ok(shape)
    }
}

fn broken<T>(invariant: &str, what: impl Into<String>) -> Result<T> {
    Err(Error::corruption(format!("tree of extents, {invariant}: {}", what.into())))
}

impl<'a> Checker<'a> {
    /// Nothing looked at.
    pub(crate) fn new(widths: &'a TreeWidths) -> Self {
        Self { widths, shape: Shape::default(), last: None }
    }

    /// What it has seen.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Looks at a leaf of a tree that is nowhere as a whole, at its depth, the root's being 1.
    pub(crate) fn lone_leaf(&mut self, part: &Part, depth: usize) -> Result<()> {
        self.node(part.node(), depth).map(drop)
    }

    /// Looks at how many children an inner node of such a tree has.
    pub(crate) fn lone_inner(&mut self, children: usize, depth: usize) -> Result<()> {
        self.shape.inner_nodes += 1;
        let min = if depth > 1 { self.widths.children_min().max(2) } else { 2 };
        if children < min || children > self.widths.children_max {
            return broken("N-3", format!("{children} children at depth {depth}"));
        }
        Ok(())
    }

    /// What comes next is missing: what is behind it is not compared with what is before it.
    pub(crate) fn pass_over(&mut self) {
        self.last = None;
    }

    /// Returns the length that its extents add up to.
    fn node(&mut self, node: &Node, depth: usize) -> Result<u64> {
        if depth > 1 && node.is_underfull(self.widths) {
            return broken("N-3", format!("too little at depth {depth}: {node:?}"));
        }
        match node {
            Node::Leaf(leaf) => self.leaf(leaf, depth),
            Node::Inner(inner) => self.inner(inner, depth),
        }
    }

    fn inner(&mut self, inner: &Inner, depth: usize) -> Result<u64> {
        self.shape.inner_nodes += 1;
        let children = inner.children.len();
        if children < 2 || children > self.widths.children_max {
            return broken("N-3", format!("{children} children at depth {depth}"));
        }
        let mut length = 0;
        for (number, child) in inner.children.iter().enumerate() {
            if child.shift != length {
                let found = child.shift;
                return broken("N-2", format!("child {number} begins at {found}, not {length}"));
            }
            let of_child = self.node(&child.node, depth + 1)?;
            if of_child == 0 {
                return broken("N-2", format!("child {number} is empty"));
            }
            length += of_child;
        }
        if length != inner.length {
            return broken("N-2", format!("{} bytes instead of {length}", inner.length));
        }
        Ok(length)
    }

    fn leaf(&mut self, leaf: &Leaf, depth: usize) -> Result<u64> {
        if self.shape.leaves > 0 && depth != self.shape.height {
            return broken("N-1", format!("a leaf at depth {depth}, not {}", self.shape.height));
        }
        self.shape.height = depth;
        self.shape.leaves += 1;
        if leaf.count() > self.widths.leaf_extents_max {
            return broken("N-3", format!("{} extents in a leaf", leaf.count()));
        }
        let extents: Vec<Extent> = leaf.extents().collect();
        if extents.len() != leaf.count() {
            return broken("L-1", format!("{} extents of {}", extents.len(), leaf.count()));
        }
        let mut length = 0;
        for extent in &extents {
            self.extent(extent)?;
            length += u64::from(extent.length);
        }
        if length != leaf.length() {
            return broken("L-1", format!("{} bytes instead of {length}", leaf.length()));
        }
        if *leaf != Leaf::of(&extents) {
            return broken("L-2", "packed in another way than its extents are");
        }
        Ok(length)
    }

    fn extent(&mut self, extent: &Extent) -> Result<()> {
        extent.validate().or_else(|error| broken("extent", error.message()))?;
        let window = u64::from(self.widths.window_bytes);
        if extent.physical / window != (extent.end() - 1) / window {
            return broken("N-4", format!("{extent:?} lies in two windows"));
        }
        if let Some(last) = self.last
            && last.is_continued_by(extent, self.widths.window_bytes)
        {
            return broken("N-4", format!("{last:?} and {extent:?} are one"));
        }
        self.last = Some(*extent);
        self.shape.extents += 1;
        self.shape.tagged += u64::from(extent.tag.is_some());
        Ok(())
    }
}
