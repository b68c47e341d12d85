//! What can be done to a space. Each operation says what a range maps to from now on; where that
//! meets what is left and right of it, extents are cut and joined before the nodes are touched.
//!
//! The caller sees to it that physical bytes are what it says; what a range mapped to before, a
//! walk tells.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{
    Extent, LENGTH_MAX, PHYSICAL_END, Placed, Tag, push_joined, push_pieces,
};
use crate::index::flex::tree::splice::splice_root;

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
        let added = new.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.length.into()));
        let kept = self.length() - (range.end - range.start);
        if added.and_then(|added| added.checked_add(kept)).is_none_or(|sum| sum > LENGTH_MAX) {
            return Err(Error::invalid(format!("a space of {kept} bytes cannot take that much")));
        }
        let (range, list) = self.with_neighbours(range, new);
        if range.is_empty() && list.is_empty() {
            return Ok(());
        }
        let removed = splice_root(&mut self.root, range, &list, &self.widths);
        self.extents = self.extents - removed + list.len() as u64;
        Ok(())
    }

    /// The extents of the byte before a range and of the one behind it.
    fn around(&self, range: &Range<u64>) -> (Option<Placed>, Option<Placed>) {
        let last = range.start.checked_sub(1);
        let Some((last, (start, leaf))) = last.and_then(|last| Some((last, self.leaf_at(last)?)))
        else {
            return (None, self.find(range.end));
        };
        let mut reading = leaf.extents();
        let mut find = |offset: u64| {
            reading.skip_to(offset - start);
            Some(Placed { offset: start + reading.at(), extent: reading.next()? })
        };
        let before = find(last);
        if before.is_some_and(|before| before.end() > range.end) {
            (before, before)
        } else if range.end - start < leaf.length() {
            (before, find(range.end))
        } else {
            (before, self.find(range.end))
        }
    }

    /// Widens a range to whole extents, and the list that comes in its place by what these keep,
    /// joined with their neighbours; extents at either side that stay as they are are left out.
    fn with_neighbours(&self, range: Range<u64>, new: &[Extent]) -> (Range<u64>, Vec<Extent>) {
        let window_bytes = self.widths.window_bytes;
        let (before, after) = self.around(&range);
        let mut list = Vec::with_capacity(new.len() + 2);
        let mut wide = range.clone();
        if let Some(before) = before {
            let kept = before.clip(before.offset, range.start);
            list.push(kept.extent);
            wide.start = before.offset;
        }
        for extent in new {
            push_pieces(&mut list, *extent, window_bytes);
        }
        if let Some(after) = after {
            let kept = after.clip(range.end, after.end());
            push_joined(&mut list, kept.extent, window_bytes);
            wide.end = after.end();
        }
        if let Some(before) = before
            && list.first() == Some(&before.extent)
        {
            list.remove(0);
            wide.start = before.end();
        }
        if let Some(after) = after
            && after.offset >= wide.start
            && list.last() == Some(&after.extent)
        {
            list.pop();
            wide.end = after.offset;
        }
        (wide, list)
    }
}
