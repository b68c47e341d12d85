//! How nodes split, merge and share, and that they do so where they should.

use super::*;
use crate::index::flex::tree::node::{Lean, sizes};
use crate::io::seeded::Seeded;

#[test]
fn extents_that_go_on_are_one() {
    let mut tree = tree(TINY);
    tree.append(Extent::new(0, 10)).expect("appended");
    tree.append(Extent::new(10, 10)).expect("appended");
    assert_eq!(mapping(&tree), [Extent::new(0, 20)]);
    // Between two that it joins, and which a cut parted.
    tree.insert(10, Extent::new(100, 5)).expect("inserted");
    assert_eq!(mapping(&tree), [Extent::new(0, 10), Extent::new(100, 5), Extent::new(10, 10)]);
    tree.collapse(10..15).expect("collapsed");
    assert_eq!(mapping(&tree), [Extent::new(0, 20)]);
    // To the right alone, and with a tag, which starts an extent.
    tree.insert(0, Extent::new(500, 4)).expect("inserted");
    tree.insert(0, Extent::new(496, 4)).expect("inserted");
    assert_eq!(mapping(&tree), [Extent::new(496, 8), Extent::new(0, 20)]);
    tree.set_tag(4, tag(7)).expect("tagged");
    let (left, right) = (Extent::new(496, 4), Extent::new(500, 4).with_tag(tag(7)));
    assert_eq!(mapping(&tree), [left, right, Extent::new(0, 20)]);
    assert_eq!((tree.tag(4), tree.tag(3), tree.tag(5)), (tag(7), None, None));
    tree.set_tag(4, None).expect("untagged");
    assert_eq!(mapping(&tree), [Extent::new(496, 8), Extent::new(0, 20)]);
}

/// What is put in makes two extents that both are the one that it was put into.
#[test]
fn an_extent_may_come_to_stand_beside_itself() {
    for number in [0, 5, 29] {
        let mut tree = scattered(TINY, 30);
        let (at, old) = (10 * number, apart(number).physical);
        let both = [Extent::new(old + 4, 6), Extent::new(old, 4)];
        tree.update(at + 4..at + 4, &both).expect("inserted");
        tree.check().expect("sound");
        let mut expected: Vec<Extent> = (0..30).map(apart).collect();
        expected.insert(number as usize, apart(number));
        assert_eq!(mapping(&tree), expected);
    }
}

#[test]
fn extents_end_where_windows_do() {
    let mut tree = tree(TINY);
    tree.append(Extent::new(50, 100)).expect("appended");
    let pieces = [Extent::new(50, 14), Extent::new(64, 64), Extent::new(128, 22)];
    assert_eq!(mapping(&tree), pieces);
    // In whatever pieces they come.
    tree.collapse(0..100).expect("collapsed");
    for physical in 50..150 {
        tree.append(Extent::new(physical, 1)).expect("appended");
    }
    assert_eq!(mapping(&tree), pieces);
    tree.check().expect("sound");
}

#[test]
fn neighbours_in_two_leaves_are_joined() {
    let mut tree = scattered(TINY, 40);
    // In each gap, the bytes that make its two sides one.
    for number in (0..39).rev() {
        let at = 10 * (number + 1);
        let between = Extent::new(apart(number).end(), 10);
        tree.insert(at, between).expect("inserted");
        tree.check().expect("joined to the left");
    }
    assert_eq!(tree.extents(), 40);
    // What is taken out brings the two sides of a gap together, in one leaf or two.
    let mut tree = super::tree(TINY);
    for number in 0..40 {
        tree.append(Extent::new(20 * number, 20)).expect("appended");
        tree.append(Extent::new(100_000 + 1000 * number, 5)).expect("appended");
    }
    let heights = tree.check().expect("sound").height;
    for number in (0..40).rev() {
        let at = 25 * number + 20;
        tree.collapse(at..at + 5).expect("collapsed");
        tree.check().expect("joined over the gap");
    }
    assert!(heights > 2 && tree.extents() == 800u64.div_ceil(64), "{:?}", mapping(&tree));
}

#[test]
fn parts_of_a_split_are_neither_too_large_nor_too_small() {
    for max in 4..20usize {
        let min = max.div_ceil(3);
        for count in 1..6 * max {
            for lean in [Lean::Even, Lean::Left] {
                let sizes = sizes(count, max, min, lean);
                assert_eq!(sizes.iter().sum::<usize>(), count, "{max} {count} {lean:?}");
                let fits = sizes.iter().all(|size| (min..=max).contains(size));
                assert!(fits || count <= max && sizes == [count], "{max} {count} {sizes:?}");
            }
        }
    }
}

#[test]
fn what_is_appended_leaves_two_thirds_full_nodes() {
    let tree = scattered(TreeWidths::USUAL, 10_000);
    let shape = tree.check().expect("sound");
    let fill = shape.extents as f64 / (shape.leaves * 128) as f64;
    assert!(fill > 0.66, "{fill}");
}

/// The prototype unlinks only nodes that are quite empty, so that a space of which most was taken
/// out keeps its nodes.
#[test]
fn nodes_are_merged_as_a_space_shrinks() {
    let mut tree = scattered(TINY, 2000);
    let full = tree.check().expect("sound");
    let mut random = Seeded::new(5);
    for left in (0..2000u64).rev() {
        let number = random.below(left + 1);
        tree.collapse(10 * number..10 * number + 10).expect("collapsed");
        let shape = tree.check().expect("sound");
        let most = (left / 2).max(1);
        assert!(shape.leaves <= most, "{} leaves of {left} extents", shape.leaves);
    }
    let empty = tree.check().expect("sound");
    assert!(full.height >= 6 && empty.height == 1 && tree.extents() == 0);
    assert!(tree.memory_bytes() <= 80, "{} bytes of nothing", tree.memory_bytes());
}

#[test]
fn a_range_over_many_nodes_goes_at_once() {
    for (from, to) in [(0, 1000), (0, 999), (1, 1000), (3, 997), (500, 501), (333, 777)] {
        for shift in [0, 3] {
            let mut tree = scattered(TINY, 1000);
            let range = 10 * from + shift..(10 * to).min(10_000 - shift) + shift;
            let (left, right) = (tree.walk(0..range.start), tree.walk(range.end..10_000));
            let extents = left.expect("a range").chain(right.expect("a range"));
            let expected: Vec<Extent> = extents.map(|placed| placed.extent).collect();
            tree.collapse(range.clone()).expect("collapsed");
            assert_eq!(mapping(&tree), expected, "{range:?}");
            tree.check().expect("sound");
        }
    }
}

#[test]
fn one_insertion_may_bring_many_extents() {
    let mut tree = scattered(TINY, 10);
    let many: Vec<Extent> = (0..500).map(|number| apart(5000 + number)).collect();
    tree.update(35..47, &many).expect("updated");
    let shape = tree.check().expect("sound");
    assert_eq!(shape.extents, 500 + 10);
    assert_eq!(tree.length(), 100 - 12 + 5000);
    assert_eq!(tree.physical(35), Some(apart(5000).physical));
    assert_eq!(tree.physical(35 + 5000), Some(apart(4).physical + 7));
    // A single one that is taken apart at windows.
    tree.insert(0, Extent::new(64, 6400)).expect("inserted");
    assert_eq!(tree.check().expect("sound").extents, 510 + 100);
}
