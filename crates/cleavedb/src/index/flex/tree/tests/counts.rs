//! What an operation touches, counted: one path of the tree, where an array is touched from the
//! place of the operation to its end.
//!
//! The functions that no compiler may build into others are there to be counted under callgrind,
//! one by one (`--toggle-collect='*counts::tree_inserts*'`).

use std::collections::BTreeMap;
use std::hint::black_box;

use super::oracles::SortedArray;
use super::shared::all_nodes;
use super::*;
use crate::io::seeded::Seeded;

const EXTENTS: u64 = 100_000;
const OPERATIONS: u64 = 1000;
const RANGE: u64 = 50;

/// Offsets that operations go to, and what is put there.
fn places(length: u64) -> Vec<(u64, Extent)> {
    let mut random = Seeded::new(11);
    let place = |number| (random.below(length / 10) * 10, apart((1 << 30) + number));
    (0..OPERATIONS).map(place).collect()
}

#[inline(never)]
fn tree_inserts(tree: &mut Tree, places: &[(u64, Extent)]) {
    places.iter().for_each(|(offset, extent)| tree.insert(*offset, *extent).expect("inserted"));
}

#[inline(never)]
fn array_inserts(array: &mut SortedArray, places: &[(u64, Extent)]) {
    places.iter().for_each(|(offset, extent)| array.replace(*offset..*offset, &[*extent]));
}

#[inline(never)]
fn tree_finds(tree: &Tree, places: &[(u64, Extent)]) -> u64 {
    places.iter().filter_map(|(offset, _)| tree.physical(*offset)).sum()
}

#[inline(never)]
fn array_finds(array: &SortedArray, places: &[(u64, Extent)]) -> u64 {
    let find = |offset: u64| array.find(offset).map(|p| p.extent.physical + (offset - p.offset));
    places.iter().filter_map(|(offset, _)| find(*offset)).sum()
}

#[inline(never)]
fn tree_ranges(tree: &Tree, places: &[(u64, Extent)]) -> u64 {
    let sum = |offset: u64| {
        let walk = tree.walk(offset..tree.length()).expect("a range");
        walk.take(RANGE as usize).map(|placed| placed.extent.physical).sum::<u64>()
    };
    places.iter().map(|(offset, _)| sum(*offset)).sum()
}

#[inline(never)]
fn array_ranges(array: &SortedArray, places: &[(u64, Extent)]) -> u64 {
    let sum = |offset: u64| {
        let rest = &array.extents[array.position(offset)..];
        rest.iter().take(RANGE as usize).map(|placed| placed.extent.physical).sum::<u64>()
    };
    places.iter().map(|(offset, _)| sum(*offset)).sum()
}

#[inline(never)]
fn tree_appends(tree: &mut Tree, places: &[(u64, Extent)]) {
    places.iter().for_each(|(_, extent)| tree.append(*extent).expect("appended"));
}

#[test]
fn both_say_the_same_whatever_it_takes() {
    let mut tree = scattered(TreeWidths::USUAL, EXTENTS);
    let mut array = SortedArray::new(TreeWidths::USUAL.window_bytes);
    array.replace(0..0, &mapping(&tree));
    let places = places(tree.length());
    tree_inserts(&mut tree, &places);
    array_inserts(&mut array, &places);
    assert_eq!(tree_finds(&tree, &places), array_finds(&array, &places));
    assert_eq!(black_box(tree_ranges(&tree, &places)), array_ranges(&array, &places));
    assert_eq!(all(&tree), array.extents);
    tree_appends(&mut tree, &places);
    tree.check().expect("sound");
}

/// Shifts and bytes of nodes.
fn parts(tree: &Tree) -> BTreeMap<*const Node, (Arc<Node>, u64)> {
    let size = |node: &Node| match node {
        Node::Leaf(leaf) => leaf.count() as u64,
        Node::Inner(inner) => inner.children.len() as u64,
    };
    let nodes = all_nodes(tree).into_iter();
    nodes.map(|node| (Arc::as_ptr(&node), (Arc::clone(&node), size(&node)))).collect()
}

/// An insertion into 100,000 extents leaves all nodes alone but for one path: an array shifts half
/// of its extents for it.
#[test]
fn an_insertion_touches_one_path() {
    let mut tree = scattered(TreeWidths::USUAL, EXTENTS);
    let height = tree.check().expect("sound").height as u64;
    let (mut nodes, mut entries, mut shifted) = (0, 0, 0);
    let places = places(tree.length());
    let some: Vec<_> = places.iter().step_by(20).collect();
    for (offset, extent) in &some {
        let view = tree.clone();
        let old = parts(&view);
        tree.insert(*offset, *extent).expect("inserted");
        let new: Vec<u64> = parts(&tree)
            .into_iter()
            .filter(|(address, _)| !old.contains_key(address))
            .map(|(_, (_, size))| size)
            .collect();
        assert!(new.len() as u64 <= 2 * height, "{} nodes of {height} levels", new.len());
        nodes += new.len() as u64;
        entries += new.iter().sum::<u64>();
        shifted += (tree.length() - offset) / 10;
    }
    let count = some.len() as u64;
    println!(
        "tree_counts extents={EXTENTS} height={height} nodes={:.2} entries={} array_entries={} \
         ratio={:.0}",
        nodes as f64 / count as f64,
        entries / count,
        shifted / count,
        shifted as f64 / entries as f64
    );
    assert!(entries / count <= height * 128);
    assert!(shifted > 100 * entries);
}
