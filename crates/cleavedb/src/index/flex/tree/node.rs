//! Nodes: leaves of packed extents, and inner nodes that place each child by a shift.
//!
//! Owned by trees, which share them through `Arc`; a node is changed only through
//! [`Arc::make_mut`], hence in place while one tree alone has it and the way to it, else as a copy,
//! or moved to another place where a trace of it is left (`parts`).
//! Every offset below a child counts from the child's own beginning, so its shift is both what is
//! added on the way down and where to turn on the way: an insertion changes the shifts of the
//! children to the right of its path and nothing below them.
//!
//! Invariants: N-1 all leaves are at one depth; N-2 the first shift is 0, each other one is the one
//! before plus the length of that child, and the node's length is the end of the last child; no
//! child is empty; N-3 but for the root, a node holds at least a third of what it may hold, and an
//! inner root has two children; N-4 no extent is continued by the next one, over leaves as well.

use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::index::flex::tree::extent::Extent;
use crate::index::flex::tree::leaf::Leaf;

/// Sizes of a tree; they stay as they are while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeWidths {
    /// Most extents of a leaf, at least 4.
    pub(crate) leaf_extents_max: usize,
    /// Most children of an inner node, at least 4.
    pub(crate) children_max: usize,
    /// Bytes of a window of physical addresses; no extent lies in two. So it is the longest extent,
    /// and where segments are whole windows, none lies in two segments.
    pub(crate) window_bytes: u32,
}

impl TreeWidths {
    /// What a database uses: leaves of a few hundred bytes, of which a look-up reads half; copying
    /// a path of inner nodes costs a few KiB.
    pub(crate) const USUAL: Self =
        Self { leaf_extents_max: 128, children_max: 64, window_bytes: 128 << 10 };

    /// Fewest extents of a leaf that has siblings. A third, so that halves of a split and what is
    /// left of a merge are both some way from it.
    pub(super) fn leaf_extents_min(&self) -> usize {
        self.leaf_extents_max.div_ceil(3)
    }

    /// Fewest children of an inner node that has siblings.
    pub(super) fn children_min(&self) -> usize {
        self.children_max.div_ceil(3)
    }

    pub(super) fn are_valid(&self) -> bool {
        self.leaf_extents_max >= 4 && self.children_max >= 4 && self.window_bytes > 0
    }
}

/// A node of a tree.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// A child and where it begins in its parent.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) shift: u64,
    pub(super) node: Arc<Node>,
}

/// A node of children.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    pub(super) children: Vec<Child>,
    pub(super) length: u64,
}

/// Children that an inner node makes room for at a time.
const STEP_CHILDREN: usize = 4;

impl Node {
    /// Bytes of the space that lie below it.
    #[inline]
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.length(),
            Self::Inner(inner) => inner.length,
        }
    }

    /// How many extents lie below it.
    pub(super) fn extents(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.count() as u64,
            Self::Inner(inner) => inner.children.iter().map(|child| child.node.extents()).sum(),
        }
    }

    /// Whether it holds less than a node with siblings has to (N-3).
    pub(super) fn is_underfull(&self, widths: &TreeWidths) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.count() < widths.leaf_extents_min(),
            Self::Inner(inner) => inner.children.len() < widths.children_min(),
        }
    }

    /// Bytes allocated for it, and for all below it: what `Arc` puts before a node (two counters),
    /// the node, what it points to.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn memory_bytes(&self) -> usize {
        let own = size_of::<Self>() + 2 * size_of::<usize>();
        match self {
            Self::Leaf(leaf) => own + leaf.memory_bytes(),
            Self::Inner(inner) => {
                let below: usize =
                    inner.children.iter().map(|child| child.node.memory_bytes()).sum();
                own + inner.children.capacity() * size_of::<Child>() + below
            }
        }
    }
}

impl Inner {
    /// A node of these.
    pub(super) fn of(nodes: impl IntoIterator<Item = Arc<Node>>) -> Self {
        let mut inner = Self::default();
        let nodes = nodes.into_iter();
        inner.children.reserve_exact(nodes.size_hint().0);
        for node in nodes {
            inner.push(node);
        }
        inner
    }

    fn push(&mut self, node: Arc<Node>) {
        let shift = self.length;
        self.length += node.length();
        self.children.push(Child { shift, node });
    }

    /// Number of the child that holds the byte of this offset; the last one for the end.
    #[inline]
    pub(super) fn index_at(&self, offset: u64) -> usize {
        self.children.partition_point(|child| child.shift <= offset).saturating_sub(1)
    }

    /// Number of the child that holds the byte before this offset; the first one for 0.
    pub(super) fn index_before(&self, offset: u64) -> usize {
        self.children.partition_point(|child| child.shift < offset).saturating_sub(1)
    }

    /// Where a child begins; the node's length for the one behind the last.
    pub(super) fn shift(&self, index: usize) -> u64 {
        self.children.get(index).map_or(self.length, |child| child.shift)
    }

    /// Shifts everything from a child on, from where it began to where it begins now.
    pub(super) fn shift_from(&mut self, index: usize, before: u64, after: u64) {
        let shifted = |shift: u64| shift - before + after;
        for child in self.children.iter_mut().skip(index) {
            child.shift = shifted(child.shift);
        }
        self.length = shifted(self.length);
    }

    /// Takes children out; those behind them stay shifted as they are until
    /// [`Inner::put`] closes the gap. Returns where the gap begins and ends.
    fn take(&mut self, first: usize, count: usize) -> (Vec<Arc<Node>>, (u64, u64)) {
        let gap = (self.shift(first), self.shift(first + count));
        let end = (first + count).min(self.children.len());
        (self.children.drain(first..end).map(|child| child.node).collect(), gap)
    }

    /// Puts nodes where others were taken out.
    fn put(&mut self, first: usize, nodes: Vec<Arc<Node>>, gap: (u64, u64)) {
        let wanted = self.children.len() + nodes.len();
        if wanted > self.children.capacity() {
            let room = wanted.next_multiple_of(STEP_CHILDREN);
            self.children.reserve_exact(room - self.children.len());
        }
        let (mut shift, count) = (gap.0, nodes.len());
        let children = nodes.into_iter().map(|node| {
            let child = Child { shift, node };
            shift += child.node.length();
            child
        });
        self.children.splice(first..first, children);
        match count > 1 && planted!("flex_tree_split_shifts_nothing") {
            true => self.length = self.length - gap.1 + shift,
            false => self.shift_from(first + count, gap.1, shift),
        }
        if self.children.capacity() - wanted >= 2 * STEP_CHILDREN {
            self.children.shrink_to(wanted.next_multiple_of(STEP_CHILDREN));
        }
    }

    /// Puts what became of some children in their place, `count` of them from `first` on: empty
    /// ones go, and those with too little are merged with their neighbours or share with them.
    pub(super) fn replace(
        &mut self,
        first: usize,
        count: usize,
        become_of: impl FnOnce(Vec<Arc<Node>>) -> Vec<Arc<Node>>,
        widths: &TreeWidths,
    ) {
        let (taken, (mut start, mut end)) = self.take(first, count);
        let mut run = become_of(taken);
        // Merging would see to these as well, with copies.
        run.retain(|node| node.length() > 0);
        let mut first = first;
        while let Some(index) = run.iter().position(|node| node.is_underfull(widths)) {
            if run.len() == 1 {
                // Nobody to share with but who stands beside the gap, if anybody does.
                if first > 0 {
                    first -= 1;
                    let (left, gap) = self.take(first, 1);
                    start = gap.0;
                    run.splice(0..0, left);
                } else if first < self.children.len() {
                    let behind = self.shift(first + 1);
                    run.extend(self.take(first, 1).0);
                    end = behind;
                } else {
                    break;
                }
                continue;
            }
            let left = index.saturating_sub(1);
            let right = run.remove(left + 1);
            let rest = run.get_mut(left).and_then(|left| combine(left, right, widths));
            run.splice(left + 1..left + 1, rest);
        }
        self.put(first, run, (start, end));
    }

    /// Merges a child that has too little with a neighbour.
    fn settle(&mut self, index: usize, widths: &TreeWidths) {
        let is_wanting =
            self.children.get(index).is_some_and(|child| child.node.is_underfull(widths));
        if is_wanting && self.children.len() > 1 {
            self.replace(index, 1, |same| same, widths);
        }
    }

    /// Keeps as many children as a node may have and hands out the others, in nodes of their own.
    pub(super) fn split(&mut self, widths: &TreeWidths, lean: Lean) -> Vec<Arc<Node>> {
        let count = self.children.len();
        if count <= widths.children_max {
            return Vec::new();
        }
        let sizes = sizes(count, widths.children_max, widths.children_min(), lean);
        let all = std::mem::take(self);
        let mut nodes = all.children.into_iter().map(|child| child.node);
        let mut parts = sizes.into_iter().map(|size| Self::of(nodes.by_ref().take(size)));
        *self = parts.next().unwrap_or_default();
        parts.map(|part| Arc::new(Node::Inner(part))).collect()
    }
}

/// Makes one node of two neighbours at the same depth, or, where that would hold too much, two of
/// about the same size, the second of which is returned.
fn combine(left: &mut Arc<Node>, right: Arc<Node>, widths: &TreeWidths) -> Option<Arc<Node>> {
    match (Arc::make_mut(left), Arc::unwrap_or_clone(right)) {
        (Node::Leaf(left), Node::Leaf(right)) => {
            let more: Vec<Extent> = right.extents().collect();
            left.splice(left.length()..left.length(), &more);
            split_leaf(left, widths, Lean::Even).pop()
        }
        (Node::Inner(left), Node::Inner(right)) => {
            let (ours, theirs) = (left.children.len(), right.children.len());
            left.children.reserve_exact(theirs);
            right.children.into_iter().for_each(|child| left.push(child.node));
            // Only a node with a single child may have one that is underfull.
            if theirs == 1 {
                left.settle(ours, widths);
            }
            if ours == 1 {
                left.settle(0, widths);
            }
            left.split(widths, Lean::Even).pop()
        }
        // N-1: neighbours are of one kind.
        (_, other) => Some(Arc::new(other)),
    }
}

/// Keeps as many extents as a leaf may have and hands out the others, in leaves of their own.
pub(super) fn split_leaf(leaf: &mut Leaf, widths: &TreeWidths, lean: Lean) -> Vec<Arc<Node>> {
    let count = leaf.count();
    if count <= widths.leaf_extents_max {
        return Vec::new();
    }
    let all: Vec<Extent> = leaf.extents().collect();
    let mut leaves = leaves_of(&all, widths, lean).into_iter();
    *leaf = leaves.next().unwrap_or_default();
    leaves.map(|leaf| Arc::new(Node::Leaf(leaf))).collect()
}

/// As many leaves as it takes for these extents, at least one.
pub(super) fn leaves_of(extents: &[Extent], widths: &TreeWidths, lean: Lean) -> Vec<Leaf> {
    let (max, min) = (widths.leaf_extents_max, widths.leaf_extents_min());
    let (mut rest, mut packing) = (extents, Vec::new());
    let leaf = |size| {
        let (part, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        rest = behind;
        Leaf::packed_in(&mut packing, part)
    };
    sizes(extents.len(), max, min, lean).into_iter().map(leaf).collect()
}

/// How a node that is too large is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lean {
    /// Into parts of about the same size.
    Even,
    /// As full as can be from the left: more is likely to come at the right end, and what stays
    /// behind there would remain half empty.
    Left,
}

/// Sizes of the parts that so many are split into, each from `min` to `max`. A sum of `max + 1`
/// must be enough for two of `min`.
pub(super) fn sizes(count: usize, max: usize, min: usize, lean: Lean) -> Vec<usize> {
    let parts = count.div_ceil(max).max(1);
    let mut sizes = Vec::with_capacity(parts);
    let mut rest = count;
    for number in 0..parts {
        let behind = parts - number - 1;
        let size = match lean {
            Lean::Even => rest.div_ceil(behind + 1),
            Lean::Left => max.min(rest - behind * min),
        };
        sizes.push(size);
        rest -= size;
    }
    sizes
}

/// One node over these: levels of inner nodes until a single one is left.
pub(super) fn gather(mut nodes: Vec<Arc<Node>>, widths: &TreeWidths, lean: Lean) -> Arc<Node> {
    while nodes.len() > 1 {
        let mut inner = Inner::of(nodes);
        let others = inner.split(widths, lean);
        nodes = vec![Arc::new(Node::Inner(inner))];
        nodes.extend(others);
    }
    nodes.pop().unwrap_or_else(|| Arc::new(Node::Leaf(Leaf::default())))
}
