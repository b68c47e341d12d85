//! Random operations, on tiny nodes and on usual ones, after each of which the tree says what the
//! oracles say, with views of earlier states held on to.
//!
//! `TREE_STEPS` makes the runs longer, `SEED` gives another one.

use std::collections::BTreeSet;
use std::ops::Range;

use super::oracles::{SingleBytes, SortedArray};
use super::*;
use crate::io::seeded::Seeded;

fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// One tree and what it must say.
struct Run {
    widths: TreeWidths,
    random: Seeded,
    tree: Tree,
    array: SortedArray,
    /// Only where the space is small.
    bytes: Option<SingleBytes>,
    views: Vec<(Tree, Vec<Placed>)>,
    fresh: u64,
    /// Longest extent that is put in.
    length_max: u64,
    /// Length that the space is kept about.
    goal: u64,
    met: BTreeSet<&'static str>,
}

impl Run {
    fn new(widths: TreeWidths, seed: u64, length_max: u64, goal: u64, with_bytes: bool) -> Self {
        Self {
            widths,
            random: Seeded::new(seed),
            tree: tree(widths),
            array: SortedArray::new(widths.window_bytes),
            bytes: with_bytes.then(SingleBytes::default),
            views: Vec::new(),
            fresh: 1000,
            length_max,
            goal,
            met: BTreeSet::new(),
        }
    }

    /// An offset up to the end, often where an extent begins.
    fn offset(&mut self) -> u64 {
        let offset = match self.random.below(10) {
            0 => 0,
            1 => self.array.length(),
            _ => self.random.below(self.array.length() + 1),
        };
        let snaps = self.random.chance(40);
        self.array.find(offset).filter(|_| snaps).map_or(offset, |placed| placed.offset)
    }

    fn range(&mut self, length_max: u64) -> Range<u64> {
        let (start, length) = (self.offset(), self.random.below(length_max + 1));
        let mut end = (start + length).min(self.array.length());
        if self.random.chance(40)
            && let Some(placed) = self.array.find(end)
        {
            end = placed.offset.max(start);
        }
        start..end
    }

    /// An extent to put in at an offset: of new bytes, or of such as continue what is there.
    fn extent(&mut self, offset: u64) -> Extent {
        let length = 1 + self.random.below(self.length_max);
        let neighbour = |offset: Option<u64>| offset.and_then(|offset| self.array.find(offset));
        let bits = 1 + self.random.below(59);
        let (before, after) = (neighbour(offset.checked_sub(1)), neighbour(Some(offset)));
        let physical = match (self.random.below(8), before, after) {
            (0, Some(before), _) => before.extent.physical + (offset - before.offset),
            (1, _, Some(after)) => {
                (after.extent.physical + (offset - after.offset)).saturating_sub(length)
            }
            (2, ..) => self.random.below(1 << bits),
            (3, ..) => self.random.below(self.fresh),
            _ => {
                self.fresh += length + u64::from(self.random.chance(30)) * self.random.below(50);
                self.fresh - length
            }
        };
        let tag =
            if self.random.chance(15) { tag(1 + self.random.below(65_535) as u16) } else { None };
        Extent { physical, length: length as u32, tag }
    }

    fn model(&mut self, range: Range<u64>, list: &[Extent]) {
        self.array.replace(range.clone(), list);
        if let Some(bytes) = &mut self.bytes {
            bytes.replace(range, list);
        }
    }

    fn step(&mut self) {
        // Above its goal it shrinks, below it grows.
        let grows = self.random.below(2 * self.goal) >= self.array.length();
        match self.random.below(12) {
            0..=3 if grows => self.insert(),
            4 if grows => self.append(),
            0..=4 => {
                let length_max = self.length_max * if self.random.chance(10) { 20 } else { 2 };
                let range = self.range(length_max);
                self.tree.collapse(range.clone()).expect("collapsed");
                self.model(range, &[]);
            }
            5..=6 => self.update(),
            7 => self.overwrite(),
            8 => self.set_tag(),
            9 => self.relocate(),
            10 => self.batch(),
            _ => self.views(),
        }
        if self.random.below(2000) == 0 {
            self.met.insert("whole collapse");
            let all = 0..self.array.length();
            self.tree.collapse(all.clone()).expect("all of it");
            self.model(all, &[]);
        }
    }

    fn insert(&mut self) {
        let offset = self.offset();
        let extent = self.extent(offset);
        self.tree.insert(offset, extent).expect("inserted");
        self.model(offset..offset, &[extent]);
    }

    fn append(&mut self) {
        let end = self.array.length();
        let extent = self.extent(end);
        self.tree.append(extent).expect("appended");
        self.model(end..end, &[extent]);
    }

    fn update(&mut self) {
        let range = self.range(3 * self.length_max);
        let count = self.random.index(self.widths.leaf_extents_max / 2 + 4);
        let mut list: Vec<Extent> = (0..count).map(|_| self.extent(range.start)).collect();
        self.tree.update(range.clone(), &list).expect("updated");
        let kept = self.array.find(range.start).filter(|placed| placed.offset == range.start);
        if let (Some(first), Some(kept), false) = (list.first_mut(), kept, range.is_empty()) {
            first.tag = first.tag.or(kept.extent.tag);
            self.met.insert("tag kept by an update");
        }
        self.model(range, &list);
    }

    fn overwrite(&mut self) {
        let offset = self.offset();
        let mut extent = self.extent(offset);
        let end = offset + u64::from(extent.length);
        let done = self.tree.overwrite(offset, extent);
        assert_eq!(done.is_ok(), end <= self.array.length());
        if done.is_ok() {
            let there = self.array.find(offset).filter(|placed| placed.offset == offset);
            extent.tag = extent.tag.or(there.and_then(|placed| placed.extent.tag));
            self.model(offset..end, &[extent]);
        }
    }

    fn set_tag(&mut self) {
        let offset = self.offset();
        let number = self.random.below(4) as u16;
        let done = self.tree.set_tag(offset, Tag::new(number));
        let Some(placed) = self.array.find(offset) else {
            return assert!(done.is_err(), "there is no byte at the end");
        };
        done.expect("tagged");
        let rest = placed.clip(offset, placed.end()).extent.with_tag(Tag::new(number));
        self.model(offset..placed.end(), &[rest]);
    }

    /// Moves what a range maps to, as far as it stands in one piece.
    fn relocate(&mut self) {
        let range = self.range(2 * self.length_max);
        let Some(first) = self.array.find(range.start) else { return };
        let old = first.extent.physical + (range.start - first.offset);
        let new = self.random.below(1 << 40);
        let pieces = self.array.pieces(range.clone());
        let is_one = pieces.iter().all(|placed| {
            placed.extent.physical.checked_sub(placed.offset - range.start) == Some(old)
        });
        let moved = self.tree.relocate(range.clone(), old, new).expect("in bounds");
        assert_eq!(moved, is_one, "{range:?}");
        if is_one {
            self.met.insert(if pieces.len() > 1 { "several moved" } else { "one moved" });
            let list: Vec<Extent> = pieces
                .iter()
                .map(|placed| Extent {
                    physical: new + (placed.offset - range.start),
                    ..placed.extent
                })
                .collect();
            self.model(range, &list);
        }
    }

    /// Some operations as one, which may fail at last.
    fn batch(&mut self) {
        let offset = self.offset();
        let extents: Vec<Extent> = (0..3).map(|_| self.extent(offset)).collect();
        let fails = self.random.chance(50);
        let done = self.tree.batch(|tree| {
            extents.iter().try_for_each(|extent| tree.insert(offset, *extent))?;
            if fails { tree.collapse(0..u64::MAX) } else { Ok(()) }
        });
        assert_eq!(done.is_err(), fails);
        self.met.insert(if fails { "batch failed" } else { "batch done" });
        if !fails {
            extents.iter().for_each(|extent| self.model(offset..offset, &[*extent]));
        }
    }

    fn views(&mut self) {
        if self.views.len() == 4 {
            let (view, expected) = self.views.swap_remove(self.random.index(4));
            assert_eq!(all(&view), expected, "a view changed");
            self.met.insert("view compared");
            return;
        }
        self.views.push((self.tree.clone(), self.array.extents.clone()));
    }

    fn read(&mut self) {
        let offset = self.offset();
        let expected = self.array.find(offset);
        assert_eq!(self.tree.find(offset), expected);
        assert_eq!(self.tree.length(), self.array.length());
        assert_eq!(self.tree.extents(), self.array.extents.len() as u64);
        let tag = expected.filter(|placed| placed.offset == offset).and_then(|p| p.extent.tag);
        assert_eq!(self.tree.tag(offset), tag);
        let physical = expected.map(|p| p.extent.physical + (offset - p.offset));
        assert_eq!(self.tree.physical(offset), physical);
        let range = self.range(8 * self.length_max);
        let expected = self.array.pieces(range.clone());
        let walk = || self.tree.walk(range.clone()).expect("in bounds");
        assert_eq!(walk().collect::<Vec<_>>(), expected, "{range:?}");
        let mut backwards: Vec<Placed> = walk().rev().collect();
        backwards.reverse();
        assert_eq!(backwards, expected, "{range:?} backwards");
        let (mut left, mut right, mut walk) = (Vec::new(), Vec::new(), walk());
        loop {
            let from_left = self.random.chance(50);
            let Some(next) = (if from_left { walk.next() } else { walk.next_back() }) else {
                break;
            };
            if from_left { left.push(next) } else { right.push(next) }
        }
        left.extend(right.into_iter().rev());
        assert_eq!(left, expected, "{range:?} from both ends");
        assert!(walk.rest().is_empty());
    }

    fn compare(&mut self) -> Shape {
        assert_eq!(all(&self.tree), self.array.extents);
        if let Some(bytes) = &self.bytes {
            assert_eq!(self.array.extents, bytes.extents(self.widths.window_bytes));
        }
        self.tree.check().expect("all invariants hold")
    }
}

#[test]
fn tiny_nodes_say_what_the_oracles_say() {
    let first = variable("SEED", 1);
    let mut met = BTreeSet::new();
    let mut height = 0;
    for seed in first..first + 12 {
        let widths = match seed % 3 {
            0 => TINY,
            1 => TreeWidths { leaf_extents_max: 5, children_max: 4, window_bytes: 7 },
            _ => TreeWidths { leaf_extents_max: 7, children_max: 5, window_bytes: 1 << 20 },
        };
        println!("SEED={seed} {widths:?}");
        let goal = [100, 700, 3000][seed as usize / 3 % 3];
        let mut run = Run::new(widths, seed, 20, goal, true);
        for _ in 0..variable("TREE_STEPS", 1500) {
            run.step();
            run.read();
            height = height.max(run.compare().height);
        }
        met.extend(run.met);
    }
    assert!(height >= 5, "only {height} levels");
    let wanted = [
        "batch done",
        "batch failed",
        "one moved",
        "several moved",
        "tag kept by an update",
        "view compared",
        "whole collapse",
    ];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), wanted);
}

#[test]
fn usual_nodes_say_what_the_array_says() {
    larger_nodes(TreeWidths::USUAL, 2);
}

#[test]
fn middling_nodes_say_what_the_array_says() {
    let widths = TreeWidths { leaf_extents_max: 16, children_max: 7, ..TreeWidths::USUAL };
    larger_nodes(widths, 4);
}

fn larger_nodes(widths: TreeWidths, height_min: usize) {
    let seed = variable("SEED", 1);
    println!("SEED={seed} {widths:?}");
    let mut run = Run::new(widths, seed, 300, 1_500_000, false);
    let mut height = 0;
    for step in 0..variable("TREE_STEPS", 40_000) {
        run.step();
        if step % 10 == 0 {
            run.read();
        }
        if step % 1000 == 0 {
            height = height.max(run.compare().height);
        }
    }
    let shape = run.compare();
    println!("{shape:?}");
    assert!(height >= height_min, "{shape:?}");
}
