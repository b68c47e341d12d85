//! A tree taken apart and put together again: what whoever keeps one on disk knows of its nodes.
//!
//! A [`Part`] holds a node, which nobody changes while it is held, and a [`Trace`] holds its place
//! alone: who changes the node then moves it elsewhere. So identity stands for contents as long as
//! the tree, the part or a trace lives. What is put together is proved: leaves at once, the rest by
//! [`Tree::check`].

use crate::base::error::{Error, Result};
use crate::base::sync::{Arc, Weak};
use crate::index::flex::tree::extent::{Extent, LENGTH_MAX};
use crate::index::flex::tree::leaf::Leaf;
use crate::index::flex::tree::node::{Inner, Node};
use crate::index::flex::tree::{Tree, TreeWidths};

/// Fewest bytes of an extent in a leaf: its first one and one of its length.
pub(crate) const EXTENT_BYTES_MIN: usize = 2;

/// A node, held.
#[derive(Clone, Debug)]
pub(crate) struct Part(Arc<Node>);

/// What is left of a node that nobody need hold: no other node has its identity as long as this is
/// there, though its contents may be gone.
#[derive(Clone, Debug)]
pub(crate) struct Trace(
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its place"))] Weak<Node>,
);

#[cfg(test)]
impl Trace {
    /// Whether the node is there as it was.
    pub(crate) fn is_held(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Part {
    /// Keeps its identity from others, and nothing of what it holds.
    pub(crate) fn trace(&self) -> Trace {
        Trace(Arc::downgrade(&self.0))
    }

    /// The node.
    pub(super) fn node(&self) -> &Node {
        &self.0
    }

    /// What tells this node from all others that are held at the same time.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Bytes of the space that lie below it.
    pub(crate) fn length(&self) -> u64 {
        self.0.length()
    }

    /// A leaf's extents, packed, and how many they are; `None` of an inner node.
    pub(crate) fn packed(&self) -> Option<(&[u8], u32)> {
        match &*self.0 {
            Node::Leaf(leaf) => Some((leaf.packed(), leaf.count() as u32)),
            Node::Inner(_) => None,
        }
    }

    /// The children of an inner node in their order; none of a leaf.
    pub(crate) fn children(&self) -> impl ExactSizeIterator<Item = Self> + '_ {
        let children = match &*self.0 {
            Node::Leaf(_) => [].as_slice(),
            Node::Inner(inner) => &inner.children,
        };
        children.iter().map(|child| Self(Arc::clone(&child.node)))
    }

    /// A leaf of packed extents, each of which is looked at.
    pub(crate) fn leaf(packed: &[u8], count: u32) -> Result<Self> {
        let damaged = |what: &str| Err(Error::corruption(format!("a leaf of extents {what}")));
        if count as usize > packed.len() / EXTENT_BYTES_MIN {
            return damaged("states too many");
        }
        let extents: Vec<Extent> = Leaf::reading(packed).collect();
        if extents.len() != count as usize {
            return damaged("has other extents than it states");
        }
        let mut length = 0u64;
        for extent in &extents {
            if extent.validate().is_err() {
                return damaged("has one that cannot be");
            }
            length = length.saturating_add(extent.length.into());
        }
        if length > LENGTH_MAX {
            return damaged("is longer than a space");
        }
        let leaf = Leaf::of(&extents);
        if leaf.packed() != packed {
            return damaged("is packed in another way than its extents are");
        }
        Ok(Self(Arc::new(Node::Leaf(leaf))))
    }

    /// An inner node of these children.
    pub(crate) fn inner(children: Vec<Self>) -> Result<Self> {
        let sum = children.iter().try_fold(0u64, |sum, child| sum.checked_add(child.length()));
        if sum.is_none_or(|sum| sum > LENGTH_MAX) {
            return Err(Error::corruption("a node of extents is longer than a space"));
        }
        let nodes = children.into_iter().map(|child| child.0);
        Ok(Self(Arc::new(Node::Inner(Inner::of(nodes)))))
    }
}

impl Tree {
    /// The topmost node of a tree that is settled, or as it would be.
    pub(crate) fn root(&self) -> Part {
        match self.run() {
            None => Part(Arc::clone(&self.root)),
            Some(_) => Part(self.settled().root),
        }
    }

    /// Sizes of its nodes.
    pub(crate) fn widths(&self) -> TreeWidths {
        self.widths
    }

    /// The tree below a node, all of which is looked at.
    pub(crate) fn of_root(root: &Part, widths: TreeWidths) -> Result<Self> {
        let root = Arc::clone(&root.0);
        let extents = root.extents();
        let tree = Self { root, extents, ..Self::new(widths)? };
        tree.check()?;
        Ok(tree)
    }
}
