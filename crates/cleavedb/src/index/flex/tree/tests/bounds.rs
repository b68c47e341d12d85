//! The ends of a space, of addresses and of numbers: an error of kind `InvalidArgument` beyond
//! them, with nothing changed.

use super::*;
use crate::base::error::ErrorKind;
use crate::index::flex::tree::extent::{LENGTH_MAX, PHYSICAL_END};

fn is_refused<T: std::fmt::Debug>(done: Result<T>) {
    let error = done.expect_err("out of bounds");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn an_empty_space_has_no_bytes() {
    let mut tree = tree(TINY);
    assert_eq!((tree.length(), tree.extents()), (0, 0));
    assert_eq!((tree.find(0), tree.physical(0), tree.tag(0)), (None, None, None));
    assert_eq!(all(&tree), []);
    tree.collapse(0..0).expect("nothing");
    tree.update(0..0, &[]).expect("nothing");
    assert!(tree.relocate(0..0, 5, 9).expect("nothing"));
    is_refused(tree.set_tag(0, tag(1)));
    is_refused(tree.collapse(0..1));
    is_refused(tree.insert(1, Extent::new(0, 1)));
    is_refused(tree.walk(0..1).map(Iterator::count));
    tree.check().expect("sound");
}

#[test]
fn the_first_byte_and_the_end() {
    let mut tree = scattered(TINY, 30);
    tree.insert(0, Extent::new(7, 1)).expect("before all");
    tree.insert(301, Extent::new(9, 2)).expect("behind all");
    assert_eq!(tree.find(0).map(|placed| placed.extent), Some(Extent::new(7, 1)));
    assert_eq!(tree.physical(302), Some(10));
    assert_eq!((tree.find(303), tree.length()), (None, 303));
    is_refused(tree.insert(304, Extent::new(9, 2)));
    is_refused(tree.overwrite(302, Extent::new(9, 2)));
    is_refused(tree.set_tag(303, tag(1)));
    is_refused(tree.collapse(300..304));
    #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
    is_refused(tree.collapse(4..3));
    is_refused(tree.walk(303..304).map(Iterator::count));
    assert_eq!(tree.walk(303..303).expect("no bytes").count(), 0);
    let (first, last) = (all(&tree)[0], *all(&tree).last().expect("extents"));
    assert_eq!(tree.walk(0..303).expect("all").next_back(), Some(last));
    assert_eq!(tree.walk(0..303).expect("all").next(), Some(first));
    tree.collapse(0..303).expect("all of it");
    assert_eq!((tree.length(), all(&tree)), (0, vec![]));
    tree.append(Extent::new(1, 1)).expect("goes on");
    tree.check().expect("sound");
}

#[test]
fn addresses_end() {
    let mut tree = scattered(TINY, 3);
    let last = Extent::new(PHYSICAL_END - 10, 10);
    tree.insert(5, last).expect("the last bytes that there are");
    assert_eq!(tree.physical(14), Some(PHYSICAL_END - 1));
    let before = all(&tree);
    for physical in [PHYSICAL_END - 9, PHYSICAL_END, u64::MAX - 9, u64::MAX] {
        let beyond = Extent::new(physical, 10);
        is_refused(tree.insert(5, beyond));
        is_refused(tree.append(beyond));
        is_refused(tree.overwrite(5, beyond));
        is_refused(tree.update(0..20, &[Extent::new(3, 3), beyond]));
        is_refused(tree.relocate(5..15, PHYSICAL_END - 10, physical));
    }
    is_refused(tree.append(Extent::new(5, 0)));
    is_refused(tree.update(0..40, &[Extent::new(5, 1), Extent::new(9, 0)]));
    assert_eq!(all(&tree), before, "an error changes nothing");
    tree.check().expect("sound");
}

#[test]
fn offsets_end() {
    // Windows of 2^31 bytes, so that a long space has few extents.
    let widths = TreeWidths { window_bytes: 1 << 31, ..TINY };
    let mut tree = tree(widths);
    let length = 1u32 << 31;
    let batch: Vec<Extent> =
        (0..64).map(|number| Extent::new(u64::from(length) * 2 * number, length)).collect();
    for _ in 0..64 {
        tree.update(0..0, &batch).expect("43 bits");
    }
    assert_eq!(tree.length(), 1 << 43);
    assert_eq!(tree.physical((1 << 43) - 1), Some((1 << 32) * 63 + (1 << 31) - 1));
    for offset in [(1 << 43) + 1, 1 << 48, LENGTH_MAX, u64::MAX] {
        is_refused(tree.insert(offset, Extent::new(0, 1)));
        is_refused(tree.overwrite(offset, Extent::new(0, u32::MAX)));
        is_refused(tree.collapse(0..offset));
        is_refused(tree.update(offset..offset, &[]));
        is_refused(tree.walk(1..offset).map(Iterator::count));
        is_refused(tree.set_tag(offset, tag(1)));
        is_refused(tree.relocate(0..offset, 0, 0));
        assert_eq!((tree.find(offset), tree.tag(offset)), (None, None));
    }
    tree.check().expect("sound");
    tree.collapse(0..1 << 43).expect("all of it");
    assert_eq!(tree.length(), 0);
}

#[test]
fn the_longest_extents_and_largest_numbers_come_back() {
    let widths = TreeWidths { window_bytes: u32::MAX, ..TINY };
    let mut tree = tree(widths);
    let mut expected = Vec::new();
    for bits in 1..60 {
        let physical = (1u64 << bits) - 1;
        let extent = Extent::new(physical, 1 << (bits % 32)).with_tag(tag(u16::MAX - bits));
        tree.append(extent).expect("appended");
        expected.push(extent);
    }
    let tags = tree.check().expect("sound").tagged;
    let first: Vec<Extent> = mapping(&tree).into_iter().filter(|e| e.tag.is_some()).collect();
    assert_eq!((tags, first.len()), (59, 59));
    for (found, put) in first.iter().zip(&expected) {
        assert_eq!((found.physical, found.tag), (put.physical, put.tag));
    }
}

#[test]
fn a_space_does_not_grow_beyond_its_longest() {
    let mut tree = tree(TreeWidths { window_bytes: u32::MAX, ..TINY });
    // As if all but ten bytes of it were there.
    tree.append(Extent::new(0, 100)).expect("appended");
    let length = LENGTH_MAX - 10;
    tree.root = Arc::new(Node::Inner(node::Inner {
        children: vec![node::Child { shift: 0, node: Arc::clone(&tree.root) }],
        length,
    }));
    is_refused(tree.insert(5, Extent::new(7, 11)));
    is_refused(tree.update(0..10, &[Extent::new(7, 15), Extent::new(9, 6)]));
    is_refused(tree.update(0..10, &[Extent::new(7, u32::MAX)]));
}

#[test]
fn widths_that_no_tree_has() {
    let usual = TreeWidths::USUAL;
    is_refused(Tree::new(TreeWidths { leaf_extents_max: 3, ..usual }));
    is_refused(Tree::new(TreeWidths { children_max: 3, ..usual }));
    is_refused(Tree::new(TreeWidths { window_bytes: 0, ..usual }));
}
