//! The one change a tree knows: whole extents in the place of others.
//!
//! Run by the writer on nodes that it may have to itself. One walk down to the two ends of what
//! goes; on the way back shifts are mended, and nodes that hold too much or too little are split,
//! merged or share with a neighbour.

use std::ops::Range;

use crate::base::sync::Arc;
use crate::index::flex::tree::extent::Extent;
use crate::index::flex::tree::node::{
    Inner, Lean, Node, TreeWidths, gather, leaves_of, split_leaf,
};

/// What comes in the place of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) list: &'a [Extent],
    /// Whether the leaf cuts and joins: all that the range meets lies in one. Else the range begins
    /// and ends where extents do, and nothing in the list is continued by what follows it.
    pub(super) is_cut: bool,
    /// Whether more is likely to come behind it, though it takes the place of something.
    pub(super) is_at_end: bool,
}

/// What became of a node.
struct Spliced {
    /// What it could not hold, to stand to its right.
    others: Vec<Arc<Node>>,
    counts: Counts,
}

/// How many extents went and how many came.
type Counts = (u64, u64);

/// Makes a change. Returns how many extents went and how many came.
pub(super) fn splice_root(
    root: &mut Arc<Node>,
    range: Range<u64>,
    change: Change<'_>,
    widths: &TreeWidths,
) -> Counts {
    let lean = lean(root, &range, change);
    let Spliced { others, counts } = splice(root, range, change, widths);
    if !others.is_empty() {
        let mut nodes = vec![Arc::clone(root)];
        nodes.extend(others);
        *root = gather(nodes, widths, lean);
    }
    // A root with a single child is none.
    while let Node::Inner(inner) = &**root
        && inner.children.len() < 2
    {
        let only = inner.children.first().map(|child| Arc::clone(&child.node));
        *root = only.unwrap_or_else(|| gather(Vec::new(), widths, lean));
    }
    counts
}

/// More is likely to come behind what is put at the end.
fn lean(node: &Node, range: &Range<u64>, change: Change<'_>) -> Lean {
    let is_append = range.start >= node.length() && range.start > 0;
    let is_at_end = change.is_at_end && range.end >= node.length();
    if is_append || is_at_end { Lean::Left } else { Lean::Even }
}

fn splice(
    node: &mut Arc<Node>,
    range: Range<u64>,
    change: Change<'_>,
    widths: &TreeWidths,
) -> Spliced {
    let lean = lean(node, &range, change);
    if let Node::Leaf(leaf) = &**node
        && range == (0..leaf.length())
        && !change.is_cut
    {
        return replace_leaf(node, leaf.count(), change, (widths, lean));
    }
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            let (removed, added) = match change.is_cut {
                true => leaf.replace(range, change.list, widths.window_bytes),
                false => (leaf.splice(range, change.list), change.list.len()),
            };
            let counts = (removed as u64, added as u64);
            Spliced { others: split_leaf(leaf, widths, lean), counts }
        }
        Node::Inner(inner) => {
            let counts = splice_inner(inner, range, change, widths);
            Spliced { others: inner.split(widths, lean), counts }
        }
    }
}

/// Puts leaves in the place of one, of which nothing is needed.
fn replace_leaf(
    node: &mut Arc<Node>,
    removed: usize,
    change: Change<'_>,
    (widths, lean): (&TreeWidths, Lean),
) -> Spliced {
    let mut leaves = leaves_of(change.list, widths, lean).into_iter();
    let first = Node::Leaf(leaves.next().unwrap_or_default());
    match Arc::get_mut(node) {
        Some(node) => *node = first,
        None => *node = Arc::new(first),
    }
    let others = leaves.map(|leaf| Arc::new(Node::Leaf(leaf))).collect();
    Spliced { others, counts: (removed as u64, change.list.len() as u64) }
}

fn splice_inner(
    inner: &mut Inner,
    range: Range<u64>,
    change: Change<'_>,
    widths: &TreeWidths,
) -> Counts {
    let last = inner.index_before(range.end);
    // Nothing to take out: what comes between two children goes to the left one, as an append.
    let first = if range.is_empty() { last } else { inner.index_at(range.start) };
    let (start, end) = (inner.shift(first), inner.shift(first + 1));
    if first < last {
        return splice_several(inner, first..last, range, change, widths);
    }
    let Some(child) = inner.children.get_mut(first) else { return (0, 0) };
    let within = range.start - start..range.end - start;
    let Spliced { others, counts } = splice(&mut child.node, within, change, widths);
    let length = child.node.length();
    if others.is_empty() && length > 0 && !child.node.is_underfull(widths) {
        inner.shift_from(first + 1, end, start + length);
    } else {
        let with_others = |mut run: Vec<_>| {
            run.extend(others);
            run
        };
        inner.replace(first, 1, with_others, widths);
    }
    counts
}

/// The same where the range ends in another child than it begins in: those in between go unread.
fn splice_several(
    inner: &mut Inner,
    Range { start: first, end: last }: Range<usize>,
    range: Range<u64>,
    change: Change<'_>,
    widths: &TreeWidths,
) -> Counts {
    let (first_shift, last_shift) = (inner.shift(first), inner.shift(last));
    let mut removed = 0;
    let edit = |run: Vec<Arc<Node>>| {
        let count = run.len();
        let mut left = Vec::with_capacity(2);
        for (number, mut node) in run.into_iter().enumerate() {
            let length = node.length();
            if number == 0 {
                let within = range.start - first_shift..length;
                let spliced = splice(&mut node, within, change, widths);
                left.push(node);
                left.extend(spliced.others);
                removed += spliced.counts.0;
            } else if number + 1 == count && range.end - last_shift < length {
                // Nothing is put here, so nothing can be too much.
                let nothing = Change { list: &[], ..change };
                removed += splice(&mut node, 0..range.end - last_shift, nothing, widths).counts.0;
                left.push(node);
            } else {
                removed += node.extents();
            }
        }
        left
    };
    inner.replace(first, last - first + 1, edit, widths);
    (removed, change.list.len() as u64)
}
