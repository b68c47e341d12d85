//! What can be done to a space. Each operation says what a range maps to from now on; where that
//! meets what is left and right of it, extents are cut and joined: in the run, if changes are held
//! and it belongs there; else in the one leaf that all of it lies in; else before the nodes are
//! touched.
//!
//! The caller sees to it that physical bytes are what it says; what a range mapped to before, a
//! walk tells.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, LENGTH_MAX, PHYSICAL_END, Placed, Tag, widened};
use crate::index::flex::tree::splice::{Change, splice_root};

impl Tree {
    /// Does several operations or, if one of them fails, none: whoever has a clone of the tree sees
    /// all of them or nothing.
    #[cfg(test)]
    pub(crate) fn batch<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let mut next = self.clone();
        let done = run(&mut next)?;
        *self = next;
        Ok(done)
    }

    /// Puts an extent in, at an offset up to the end; what follows is shifted.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn insert(&mut self, offset: u64, extent: Extent) -> Result<()> {
        self.replace(offset..offset, &[extent])
    }

    /// Puts an extent at the end.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn append(&mut self, extent: Extent) -> Result<()> {
        let end = self.length();
        self.replace(end..end, &[extent])
    }

    /// Takes a range out, and its tags with it; what follows is shifted back.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn collapse(&mut self, range: Range<u64>) -> Result<()> {
        self.replace(range, &[])
    }

    /// Puts extents, of whatever length in sum, in the place of a range. The tag of the range's
    /// first byte goes to the first byte of what comes, unless that has one of its own or nothing
    /// comes; other tags in the range are gone.
    pub(crate) fn update(&mut self, range: Range<u64>, list: &[Extent]) -> Result<()> {
        let tag = if range.is_empty() { None } else { self.tag(range.start) };
        match list {
            [first, rest @ ..] if first.tag.is_none() && tag.is_some() => {
                let mut list = vec![first.with_tag(tag)];
                list.extend_from_slice(rest);
                self.replace(range, &list)
            }
            _ => self.replace(range, list),
        }
    }

    /// Maps as many bytes as the extent has, from an offset on, to it: an update that shifts
    /// nothing.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn overwrite(&mut self, offset: u64, extent: Extent) -> Result<()> {
        let end = offset.saturating_add(u64::from(extent.length));
        self.update(offset..end, &[extent])
    }

    /// Tags a byte, or takes its tag.
    pub(crate) fn set_tag(&mut self, offset: u64, tag: Option<Tag>) -> Result<()> {
        let Some(placed) = self.find(offset) else {
            let length = self.length();
            return Err(Error::invalid(format!("no byte at {offset} of {length} to tag")));
        };
        let rest = placed.clip(offset, placed.end());
        self.replace(offset..placed.end(), &[rest.extent.with_tag(tag)])
    }

    /// Maps a range to another place if it still maps to the bytes from `old` on, all of it; tags
    /// stay. Returns whether it did: for whoever has moved bytes without holding up writers.
    pub(crate) fn relocate(&mut self, range: Range<u64>, old: u64, new: u64) -> Result<bool> {
        let length = range.end.saturating_sub(range.start);
        if new.checked_add(length).is_none_or(|end| end > PHYSICAL_END) {
            return Err(Error::invalid(format!("{length} bytes at {new} are out of bounds")));
        }
        let (mut list, mut at) = (Vec::new(), 0);
        for placed in self.walk(range.clone())? {
            if placed.extent.physical.checked_sub(at) != Some(old) {
                return Ok(false);
            }
            list.push(Extent { physical: new + at, ..placed.extent });
            at += u64::from(placed.extent.length);
        }
        self.replace(range, &list)?;
        Ok(true)
    }

    /// All that the operations are made of.
    fn replace(&mut self, range: Range<u64>, new: &[Extent]) -> Result<()> {
        self.validate(&range)?;
        new.iter().try_for_each(Extent::validate)?;
        let length = self.length();
        let added = new.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.length.into()));
        let kept = length - (range.end - range.start);
        if added.and_then(|added| added.checked_add(kept)).is_none_or(|sum| sum > LENGTH_MAX) {
            return Err(Error::invalid(format!("a space of {kept} bytes cannot take that much")));
        }
        if (range.is_empty() && new.is_empty()) || self.replace_in_run(&range, new) {
            return Ok(());
        }
        self.put_back();
        let leaf = self.leaf_around(&range);
        let is_append = range.start == length;
        if leaf.is_some_and(|start| self.begin_run(start, is_append))
            && self.replace_in_run(&range, new)
        {
            return Ok(());
        }
        if leaf.is_some() {
            self.splice(range, Change { list: new, is_cut: true, is_at_end: false });
            return Ok(());
        }
        let around = self.around(&range);
        let (range, list) = widened(range, around, new, self.widths.window_bytes);
        if !range.is_empty() || !list.is_empty() {
            self.splice(range, Change { list: &list, is_cut: false, is_at_end: false });
        }
        Ok(())
    }

    fn splice(&mut self, range: Range<u64>, change: Change<'_>) {
        let (removed, added) = splice_root(&mut self.root, range, change, &self.widths);
        self.extents = self.extents - removed + added;
    }

    /// Where the leaf begins that holds the byte before a range and the one behind it, as far as
    /// there are such: a change of the range has to do with nothing else. There is no run.
    fn leaf_around(&self, range: &Range<u64>) -> Option<u64> {
        let (start, leaf) = self.leaf_at(range.start.saturating_sub(1))?;
        let end = start + leaf.length();
        (range.end < end || end == self.root.length()).then_some(start)
    }

    /// The extents of the byte before a range and of the one behind it.
    fn around(&self, range: &Range<u64>) -> (Option<Placed>, Option<Placed>) {
        let before = range.start.checked_sub(1).and_then(|last| self.find(last));
        (before, self.find(range.end))
    }
}
