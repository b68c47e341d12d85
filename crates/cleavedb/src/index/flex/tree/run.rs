//! The run of a tree whose changes are held: the extents of one leaf, unpacked, until a change
//! comes elsewhere.
//!
//! Changes that come together mostly come near each other: what is appended, intervals that a
//! flush goes through from left to right, the records of a log that says what it did. Packed, each
//! would read its leaf from the beginning and copy or mend a path; in a run it moves a few extents
//! in an array. The nodes stay as they were meanwhile; whoever reads the tree finds the run in the
//! place of the leaf that it was taken from, and what is behind it shifted.
//!
//! Owned by its tree; a clone has a copy. Invariants: R-1 the run covers all of one leaf, which the
//! nodes still have; R-2 no change in it reaches what is left or right of it: the byte before the
//! range and the one behind it are in the run, or there are none; R-3 N-4 holds in it and at its
//! ends.

use std::ops::Range;

use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, Placed, push_pieces, widened};
use crate::index::flex::tree::leaf::Leaf;
use crate::index::flex::tree::splice::{Change, splice_root};

/// Leaves of extents in a run before it is packed.
const LEAVES_MAX: usize = 4;

/// Changes in a row in one leaf from which on it is taken out: packing all of it costs about three
/// changes in place.
const CHANGES_MIN: u32 = 3;

/// Extents of one leaf, taken out.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Where it begins in the space.
    start: u64,
    /// Bytes of the leaf that it was taken from.
    covered: u64,
    length: u64,
    extents: Vec<Extent>,
    /// Number and offset of an extent near the last change; 0 and 0 where there is none.
    near: (usize, u64),
    is_changed: bool,
    /// What came last came at its end.
    is_appended_to: bool,
}

/// What a tree whose changes are held has beside its nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    run: Option<Run>,
    /// Where the leaf begins that was changed last, and how often in a row.
    recent: Option<(u64, u32)>,
    /// Memory for the next run.
    spare: Vec<Extent>,
}

impl Run {
    fn of(start: u64, leaf: &Leaf, mut extents: Vec<Extent>) -> Self {
        extents.clear();
        extents.extend(leaf.extents());
        let (covered, near) = (leaf.length(), (0, 0));
        let (is_changed, is_appended_to) = (false, false);
        Self { start, covered, length: covered, extents, near, is_changed, is_appended_to }
    }

    /// Where it begins in the space.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where what follows it begins.
    pub(super) fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Where an offset behind it is, or a length that it is a part of, as the nodes count.
    pub(super) fn shift_back(&self, offset: u64) -> u64 {
        offset - self.length + self.covered
    }

    /// The opposite.
    pub(super) fn shift(&self, offset: u64) -> u64 {
        offset - self.covered + self.length
    }

    /// Its extents from the one that holds a byte of it on, and where in it that one begins.
    pub(super) fn from(&self, offset: u64) -> (u64, &[Extent]) {
        let (number, at) = self.locate(offset);
        (at, self.extents.get(number..).unwrap_or_default())
    }

    /// Bytes allocated.
    #[cfg(any(test, feature = "sim"))]
    fn memory_bytes(&self) -> usize {
        self.extents.capacity() * size_of::<Extent>()
    }

    /// Number and offset of the extent that holds a byte; behind the last one for the end.
    fn locate(&self, offset: u64) -> (usize, u64) {
        if offset >= self.length {
            return (self.extents.len(), self.length);
        }
        let (mut number, mut at) = self.near;
        let (passed, rest) = self.extents.split_at_checked(number).unwrap_or_default();
        if at > offset {
            for extent in passed.iter().rev() {
                (number, at) = (number - 1, at - u64::from(extent.length));
                if at <= offset {
                    break;
                }
            }
            return (number, at);
        }
        for extent in rest {
            let end = at + u64::from(extent.length);
            if end > offset {
                break;
            }
            (number, at) = (number + 1, end);
        }
        (number, at)
    }

    fn placed(&self, number: usize, offset: u64) -> Option<Placed> {
        Some(Placed { offset, extent: *self.extents.get(number)? })
    }

    /// Puts extents in the place of a range of it, cut and joined as a tree does. Returns how many
    /// went and how many came.
    fn replace(&mut self, range: Range<u64>, new: &[Extent], window_bytes: u32) -> (usize, usize) {
        self.is_changed = true;
        let added: u64 = new.iter().map(|extent| u64::from(extent.length)).sum();
        self.is_appended_to = range.start >= self.length;
        if self.is_appended_to {
            let count = self.extents.len();
            if let Some(last) = self.extents.last() {
                self.near = (count - 1, self.length - u64::from(last.length));
            }
            for extent in new {
                push_pieces(&mut self.extents, *extent, window_bytes);
            }
            self.length += added;
            return (0, self.extents.len() - count);
        }
        let before_at = range.start.checked_sub(1).map(|last| self.locate(last));
        let before = before_at.and_then(|(number, offset)| self.placed(number, offset));
        self.near = before_at.unwrap_or_default();
        let (number, offset) = self.locate(range.end);
        let after = self.placed(number, offset);
        let (wide, list) = widened(range.clone(), (before, after), new, window_bytes);
        let is_kept = before.is_some_and(|before| wide.start > before.offset);
        let from = self.near.0 + usize::from(is_kept);
        let goes = after.is_some_and(|after| wide.end > after.offset);
        let to = number + usize::from(goes);
        let (removed, came) = (to.saturating_sub(from), list.len());
        self.extents.splice(from..from + removed, list);
        self.length = self.length - (range.end - range.start) + added;
        (removed, came)
    }
}

impl Held {
    /// Bytes allocated.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn memory_bytes(&self) -> usize {
        let run = self.run.as_ref().map_or(0, Run::memory_bytes);
        run + self.spare.capacity() * size_of::<Extent>()
    }
}

impl Tree {
    /// From now on changes are held: those near each other are gathered, and brought to the nodes
    /// together. It says what it would say without; a clone is dearer.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Brings what is held to the nodes, and holds nothing any more: for trees that are shared.
    pub(crate) fn settle(&mut self) {
        self.put_back();
        self.held = None;
    }

    /// A clone that is settled.
    pub(crate) fn settled(&self) -> Self {
        let mut tree = self.clone();
        tree.settle();
        tree
    }

    /// The run, if there is one.
    #[inline]
    pub(super) fn run(&self) -> Option<&Run> {
        self.held.as_ref().and_then(|held| held.run.as_ref())
    }

    /// Does a change in the run, if it belongs there. Returns whether it did.
    pub(super) fn replace_in_run(&mut self, range: &Range<u64>, new: &[Extent]) -> bool {
        let (length, widths) = (self.length(), self.widths);
        let Some(held) = &mut self.held else { return false };
        let Some(run) = &mut held.run else { return false };
        let is_left = range.start > run.start || run.start == 0;
        let is_right = range.end < run.end() || (run.end() == length && is_left);
        if !is_left || !is_right {
            return false;
        }
        let within = range.start - run.start..range.end - run.start;
        let (removed, added) = run.replace(within, new, widths.window_bytes);
        self.extents = self.extents - removed as u64 + added as u64;
        if run.extents.len() >= LEAVES_MAX * widths.leaf_extents_max {
            self.put_back();
        }
        true
    }

    /// Takes a leaf out that is about to be changed, if more changes of it are likely. There is no
    /// run.
    pub(super) fn begin_run(&mut self, leaf_start: u64, is_append: bool) -> bool {
        let Some(held) = &mut self.held else { return false };
        let changes = match held.recent {
            Some((start, changes)) if start == leaf_start => changes + 1,
            _ => 1,
        };
        held.recent = Some((leaf_start, changes));
        if changes < CHANGES_MIN && !is_append {
            return false;
        }
        let spare = std::mem::take(&mut held.spare);
        let Some((start, leaf)) = self.leaf_at(leaf_start) else { return false };
        let run = Run::of(start, leaf, spare);
        if let Some(held) = &mut self.held {
            held.run = Some(run);
        }
        true
    }

    /// Brings the run to the nodes.
    pub(super) fn put_back(&mut self) {
        let length = self.length();
        let Some(held) = &mut self.held else { return };
        let Some(run) = held.run.take() else { return };
        held.recent = None;
        if run.is_changed {
            let range = run.start..run.start + run.covered;
            let is_at_end = run.is_appended_to && run.end() == length;
            let change = Change { list: &run.extents, is_cut: false, is_at_end };
            splice_root(&mut self.root, range, change, &self.widths);
        }
        held.spare = run.extents;
    }
}
