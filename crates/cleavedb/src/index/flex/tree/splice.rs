//! The one change a tree knows: whole extents in the place of others.
//!
//! Run by the writer on nodes that it may have to itself. One walk down to the two ends of what
//! goes; on the way back shifts are mended, and nodes that hold too much or too little are split,
//! merged or share with a neighbour.

use std::ops::Range;

use crate::base::sync::Arc;
use crate::index::flex::tree::extent::Extent;
use crate::index::flex::tree::node::{Inner, Lean, Node, TreeWidths, gather, split_leaf};

/// What became of a node.
struct Spliced {
    /// What it could not hold, to stand to its right.
    others: Vec<Arc<Node>>,
    /// How many extents went.
    removed: u64,
}

/// Puts `list` in the place of what a range maps to. The range begins and ends where extents do,
/// and nothing in the list is continued by what follows it. Returns how many extents went.
pub(super) fn splice_root(
    root: &mut Arc<Node>,
    range: Range<u64>,
    list: &[Extent],
    widths: &TreeWidths,
) -> u64 {
    let lean = lean(root, &range);
    let Spliced { others, removed } = splice(root, range, list, widths);
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
    removed
}

/// More is likely to come behind what is put at the end.
fn lean(node: &Node, range: &Range<u64>) -> Lean {
    if range.start >= node.length() && range.start > 0 { Lean::Left } else { Lean::Even }
}

fn splice(
    node: &mut Arc<Node>,
    range: Range<u64>,
    list: &[Extent],
    widths: &TreeWidths,
) -> Spliced {
    let lean = lean(node, &range);
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            let removed = leaf.splice(range, list) as u64;
            Spliced { others: split_leaf(leaf, widths, lean), removed }
        }
        Node::Inner(inner) => {
            let removed = splice_inner(inner, range, list, widths);
            Spliced { others: inner.split(widths, lean), removed }
        }
    }
}

fn splice_inner(inner: &mut Inner, range: Range<u64>, list: &[Extent], widths: &TreeWidths) -> u64 {
    let last = inner.index_before(range.end);
    // Nothing to take out: what comes between two children goes to the left one, as an append.
    let first = if range.is_empty() { last } else { inner.index_at(range.start) };
    let (start, end) = (inner.shift(first), inner.shift(first + 1));
    if first < last {
        return splice_several(inner, first, last, range, list, widths);
    }
    let Some(child) = inner.children.get_mut(first) else { return 0 };
    let within = range.start - start..range.end - start;
    let Spliced { others, removed } = splice(&mut child.node, within, list, widths);
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
    removed
}

/// The same where the range ends in another child than it begins in: those in between go unread.
fn splice_several(
    inner: &mut Inner,
    first: usize,
    last: usize,
    range: Range<u64>,
    list: &[Extent],
    widths: &TreeWidths,
) -> u64 {
    let (first_shift, last_shift) = (inner.shift(first), inner.shift(last));
    let mut removed = 0;
    let edit = |run: Vec<Arc<Node>>| {
        let count = run.len();
        let mut left = Vec::with_capacity(2);
        for (number, mut node) in run.into_iter().enumerate() {
            let length = node.length();
            if number == 0 {
                let within = range.start - first_shift..length;
                let spliced = splice(&mut node, within, list, widths);
                left.push(node);
                left.extend(spliced.others);
                removed += spliced.removed;
            } else if number + 1 == count && range.end - last_shift < length {
                // Nothing is put here, so nothing can be too much.
                removed += splice(&mut node, 0..range.end - last_shift, &[], widths).removed;
                left.push(node);
            } else {
                removed += node.extents();
            }
        }
        left
    };
    inner.replace(first, last - first + 1, edit, widths);
    removed
}
