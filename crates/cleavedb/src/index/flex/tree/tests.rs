//! The tree against two oracles: an array of extents, and one byte after another.

use super::*;
use crate::index::flex::tree::check::Shape;
use crate::index::flex::tree::extent::Extent;

mod bounds;
mod counts;
mod defects;
mod fragments;
mod held;
mod oracles;
mod random;
mod shapes;
mod shared;

/// Nodes so small that a few dozen extents make a tree of four levels, and windows that a run of
/// bytes crosses.
const TINY: TreeWidths = TreeWidths { leaf_extents_max: 4, children_max: 4, window_bytes: 64 };

fn tree(widths: TreeWidths) -> Tree {
    Tree::new(widths).expect("valid widths")
}

/// A tree of so many extents of 10 bytes, none of which continues the one before.
fn scattered(widths: TreeWidths, count: u64) -> Tree {
    let mut tree = tree(widths);
    for number in 0..count {
        tree.append(apart(number)).expect("appended");
    }
    tree
}

/// The n-th of extents that do not continue each other, 10 bytes in the middle of a window.
fn apart(number: u64) -> Extent {
    Extent::new(1024 * number + 10, 10)
}

fn tag(number: u16) -> Option<Tag> {
    Some(Tag::new(number).expect("not 0"))
}

/// All of a tree, walked over.
fn all(tree: &Tree) -> Vec<Placed> {
    tree.walk(0..tree.length()).expect("all of it").collect()
}

/// The extents alone.
fn mapping(tree: &Tree) -> Vec<Extent> {
    all(tree).into_iter().map(|placed| placed.extent).collect()
}
