//! Changes that are held: a tree says after each what the sorted array says, whoever has a clone
//! sees nothing of what comes later, and the nodes are in order once it is settled.

use std::collections::BTreeSet;
use std::ops::Range;

use super::oracles::SortedArray;
use super::shared::all_nodes;
use super::*;
use crate::io::seeded::Seeded;

/// A tree, what it must say, and a place that changes come near to.
struct Held {
    random: Seeded,
    tree: Tree,
    array: SortedArray,
    place: u64,
    fresh: u64,
    views: Vec<(Tree, Vec<Placed>)>,
    met: BTreeSet<&'static str>,
}

impl Held {
    fn new(widths: TreeWidths, seed: u64) -> Self {
        Self {
            random: Seeded::new(seed),
            tree: tree(widths),
            array: SortedArray::new(widths.window_bytes),
            place: 0,
            fresh: 1000,
            views: Vec::new(),
            met: BTreeSet::new(),
        }
    }

    /// New bytes, or such as continue what stands before an offset.
    fn extent(&mut self, offset: u64) -> Extent {
        let length = 1 + self.random.below(9);
        let before = offset.checked_sub(1).and_then(|last| self.array.find(last));
        if let Some(before) = before.filter(|_| self.random.chance(20)) {
            let physical = before.extent.physical + (offset - before.offset);
            return Extent::new(physical, length as u32);
        }
        self.fresh += length + self.random.below(30);
        let number = if self.random.chance(20) { tag(7) } else { None };
        Extent::new(self.fresh - length, length as u32).with_tag(number)
    }

    /// A range a little behind the place, or before it.
    fn range(&mut self, length_max: u64) -> Range<u64> {
        let end = self.array.length();
        let from = (self.place + self.random.below(12)).saturating_sub(3).min(end);
        let snapped = self.array.find(from).map_or(from, |placed| placed.offset);
        let from = if self.random.chance(50) { snapped } else { from };
        from..(from + self.random.below(length_max + 1)).min(end)
    }

    fn change(&mut self) {
        let shrinks = self.random.below(3000) < self.array.length();
        match self.random.below(10) {
            0..=3 => {
                let offset = self.range(0).start;
                let list: Vec<_> =
                    (0..1 + self.random.below(3)).map(|_| self.extent(offset)).collect();
                self.update(offset..offset, &list);
            }
            4..=5 => {
                let range = self.range(if shrinks { 40 } else { 10 });
                let count = if self.random.chance(5) { 40 } else { self.random.below(3) };
                let list: Vec<_> = (0..count).map(|_| self.extent(range.start)).collect();
                self.update(range, &list);
            }
            6 => {
                let range = self.range(if shrinks { 60 } else { 8 });
                self.update(range, &[]);
            }
            7 => self.set_tag(),
            8 => self.relocate(),
            _ => {
                let end = self.array.length();
                let extent = self.extent(end);
                self.update(end..end, &[extent]);
            }
        }
    }

    fn update(&mut self, range: Range<u64>, list: &[Extent]) {
        self.tree.update(range.clone(), list).expect("updated");
        let mut list = list.to_vec();
        let kept = self.array.find(range.start).filter(|placed| placed.offset == range.start);
        if let (Some(first), Some(kept), false) = (list.first_mut(), kept, range.is_empty()) {
            first.tag = first.tag.or(kept.extent.tag);
        }
        self.place = range.start + list.iter().map(|extent| u64::from(extent.length)).sum::<u64>();
        self.array.replace(range, &list);
    }

    fn set_tag(&mut self) {
        let offset = self.range(0).start;
        let number = Tag::new(self.random.below(3) as u16);
        let done = self.tree.set_tag(offset, number);
        let Some(placed) = self.array.find(offset) else { return assert!(done.is_err()) };
        done.expect("tagged");
        let rest = placed.clip(offset, placed.end()).extent.with_tag(number);
        self.array.replace(offset..placed.end(), &[rest]);
    }

    fn relocate(&mut self) {
        let at = self.range(0).start;
        let Some(placed) = self.array.find(at) else { return };
        let rest = placed.clip(at, placed.end());
        let new = self.random.below(1 << 40);
        let (range, old) = (at..rest.end(), rest.extent.physical);
        assert!(!self.tree.relocate(range.clone(), old + 1, new).expect("elsewhere"));
        assert!(self.tree.relocate(range.clone(), old, new).expect("moved"));
        self.array.replace(range, &[Extent { physical: new, ..rest.extent }]);
    }

    /// One look at everything, some of it through what finds one byte.
    fn compare(&mut self) {
        assert_eq!(self.tree.length(), self.array.length());
        assert_eq!(self.tree.extents(), self.array.extents.len() as u64);
        assert_eq!(all(&self.tree), self.array.extents);
        let length = self.array.length();
        for _ in 0..3 {
            let near = (self.place + self.random.below(20)).min(length);
            for offset in [self.random.below(length + 1), near] {
                assert_eq!(self.tree.find(offset), self.array.find(offset));
                let range = offset..(offset + self.random.below(50)).min(length);
                let walk = || self.tree.walk(range.clone()).expect("in bounds");
                let expected = self.array.pieces(range.clone());
                assert_eq!(walk().collect::<Vec<_>>(), expected);
                assert!(walk().rev().eq(expected.into_iter().rev()), "{range:?} backwards");
            }
        }
    }

    /// Changes that are held together, and refused ones among them.
    fn batch(&mut self) {
        self.place = self.random.below(self.array.length() + 1);
        self.tree.hold();
        for number in 0..self.random.below(60) {
            if self.random.chance(5) {
                self.place = self.random.below(self.array.length() + 1);
            }
            self.change();
            self.compare();
            if self.tree.run().is_some() {
                self.met.insert("a run");
            }
            if number % 13 == 0 {
                // Of a tree in the middle of a batch.
                self.views.push((self.tree.clone(), self.array.extents.clone()));
                self.tree.check().expect("sound when it would be settled");
                let end = self.array.length();
                assert!(self.tree.collapse(end..end + 1).is_err());
            }
        }
        let ended = self.tree.run().is_some();
        self.met.insert(if ended { "settled with a run" } else { "settled without" });
        self.tree.settle();
        self.compare();
        self.tree.check().expect("sound");
        self.views.push((self.tree.clone(), self.array.extents.clone()));
        while self.views.len() > 6 {
            let number = self.random.index(self.views.len());
            let (view, expected) = self.views.swap_remove(number);
            assert_eq!(all(&view), expected, "a view changed");
            view.check().expect("a view is sound");
        }
    }
}

#[test]
fn held_changes_say_what_the_array_says() {
    let mut met = BTreeSet::new();
    let mut height = 0;
    for seed in 1..=6 {
        let widths = match seed % 3 {
            0 => TINY,
            1 => TreeWidths { leaf_extents_max: 5, children_max: 4, window_bytes: 7 },
            _ => TreeWidths { leaf_extents_max: 16, children_max: 5, window_bytes: 1 << 20 },
        };
        println!("seed {seed} {widths:?}");
        let mut held = Held::new(widths, seed);
        for _ in 0..60 {
            held.batch();
            height = height.max(held.tree.check().expect("sound").height);
        }
        met.extend(held.met);
    }
    assert!(height >= 5, "only {height} levels");
    let wanted = ["a run", "settled with a run", "settled without"];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), wanted);
}

/// Also in the nodes: what is read from disk and done again to is packed as what was written.
#[test]
fn held_appends_are_what_appends_are() {
    let mut held = tree(TreeWidths::USUAL);
    held.hold();
    for number in 0..10_000 {
        held.append(apart(number)).expect("appended");
        assert_eq!(held.physical(10 * number + 9), Some(apart(number).physical + 9));
    }
    held.settle();
    assert_eq!(mapping(&held), mapping(&scattered(TreeWidths::USUAL, 10_000)));
    let shape = held.check().expect("sound");
    let fill = shape.extents as f64 / (shape.leaves * 128) as f64;
    assert!(fill > 0.9, "leaves that go together are full: {fill}");
}

/// What a view shares is copied once, and for a run when it goes to the nodes.
#[test]
fn a_run_copies_one_path_and_a_view_keeps_the_other() {
    let mut tree = scattered(TreeWidths::USUAL, 20_000);
    let height = tree.check().expect("sound").height;
    let view = tree.clone();
    let (old, expected) = (all_nodes(&view), all(&view));
    tree.hold();
    for number in 0..50 {
        tree.overwrite(100_000 + 10 * (number % 7), apart(1_000_000 + number)).expect("done");
    }
    tree.settle();
    let is_old = |node: &Arc<Node>| old.iter().any(|old| Arc::ptr_eq(old, node));
    assert_eq!(all_nodes(&tree).iter().filter(|node| !is_old(node)).count(), height);
    assert_eq!(all(&view), expected);
}

/// A tree of which all goes while changes are held, run and nodes, and which begins anew.
#[test]
fn a_held_tree_may_become_empty() {
    let mut tree = scattered(TINY, 100);
    tree.hold();
    tree.append(apart(100)).expect("appended");
    assert!(tree.run().is_some());
    tree.collapse(0..tree.length()).expect("all of it");
    assert_eq!((tree.length(), tree.extents(), tree.find(0)), (0, 0, None));
    tree.append(apart(3)).expect("begun anew");
    tree.collapse(0..10).expect("all of the run");
    assert_eq!((tree.length(), tree.extents(), all(&tree)), (0, 0, vec![]));
    tree.check().expect("sound");
    tree.settle();
    assert_eq!(tree.check().expect("sound").leaves, 1);
    assert!(tree.memory_bytes() <= 80, "{} bytes of nothing", tree.memory_bytes());
}
