//! Extents: runs of bytes that stand together physically, and when two of them are one.
//!
//! Plain values. Joining depends on nothing but the two extents that meet, so that what a space
//! maps to decides where its extents begin, whatever the order of the operations was.

use std::num::NonZeroU16;
use std::ops::Range;

use crate::base::error::{Error, Result};

/// End of the physical addresses. None is ever used twice, so they count the bytes ever written: at
/// one GiB a second this lasts for 34 years, and the difference of two fits a signed number.
pub(crate) const PHYSICAL_END: u64 = 1 << 60;

/// Longest space, so that no sum of two offsets can overflow.
pub(crate) const LENGTH_MAX: u64 = 1 << 60;

/// A mark on the first byte of an extent. It moves with that byte and goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(pub(crate) NonZeroU16);

impl Tag {
    /// The tag of this number; there is none of number 0.
    pub(crate) fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }
}

/// Bytes that stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where the first one stands.
    pub(crate) physical: u64,
    /// How many there are; never 0 in a tree.
    pub(crate) length: u32,
    /// The tag of the first one.
    pub(crate) tag: Option<Tag>,
}

impl Extent {
    /// An extent without a tag.
    pub(crate) fn new(physical: u64, length: u32) -> Self {
        Self { physical, length, tag: None }
    }

    /// The same extent with this tag.
    pub(crate) fn with_tag(self, tag: Option<Tag>) -> Self {
        Self { tag, ..self }
    }

    /// Address of the byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.physical.saturating_add(u64::from(self.length))
    }

    /// The bytes from one to another, which must lie in it; the tag stays with the first byte.
    pub(super) fn cut(&self, from: u64, to: u64) -> Self {
        debug_assert!(from <= to && to <= u64::from(self.length), "{from}..{to} of {self:?}");
        let length = to.saturating_sub(from).min(u64::from(self.length)) as u32;
        let tag = self.tag.filter(|_| from == 0);
        Self { physical: self.physical.saturating_add(from), length, tag }
    }

    /// Whether `next` is the rest of this one: it follows physically, has no tag, and does not
    /// begin a window. So no extent is longer than a window, and none crosses from one to the next.
    pub(super) fn is_continued_by(&self, next: &Self, window_bytes: u32) -> bool {
        self.end() == next.physical
            && next.tag.is_none()
            && !next.physical.is_multiple_of(u64::from(window_bytes))
    }

    /// An error where no tree may hold it.
    pub(super) fn validate(&self) -> Result<()> {
        if self.length == 0 {
            return Err(Error::invalid("an extent of no bytes"));
        }
        match self.physical.checked_add(u64::from(self.length)) {
            Some(end) if end <= PHYSICAL_END => Ok(()),
            _ => Err(Error::invalid(format!(
                "an extent of {} bytes at {} ends beyond the largest address",
                self.length, self.physical
            ))),
        }
    }
}

/// An extent where it lies in the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// What is there.
    pub(crate) extent: Extent,
}

impl Placed {
    /// Offset of the byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.extent.length))
    }

    /// What of it lies between two offsets, which must meet it.
    pub(super) fn clip(&self, from: u64, to: u64) -> Self {
        let (from, to) = (from.max(self.offset), to.min(self.end()));
        Self { offset: from, extent: self.extent.cut(from - self.offset, to - self.offset) }
    }
}

/// Adds an extent of no window's bounds to a list, joined with the last one where it continues it.
pub(super) fn push_joined(list: &mut Vec<Extent>, extent: Extent, window_bytes: u32) {
    match list.last_mut() {
        _ if extent.length == 0 => {}
        Some(last) if last.is_continued_by(&extent, window_bytes) => last.length += extent.length,
        _ => list.push(extent),
    }
}

/// Adds an extent of any length: taken apart where windows begin, and joined.
pub(super) fn push_pieces(list: &mut Vec<Extent>, extent: Extent, window_bytes: u32) {
    let (window, length) = (u64::from(window_bytes), u64::from(extent.length));
    let mut at = 0;
    while at < length {
        let room = window - (extent.physical + at) % window;
        let next = (at + room).min(length);
        push_joined(list, extent.cut(at, next), window_bytes);
        at = next;
    }
}

/// Widens a range to whole extents, and the list that comes in its place by what these keep, joined
/// with their neighbours: the extents of the byte before the range and of the one behind it. Of
/// these, what stays as it is is left out.
pub(super) fn widened(
    range: Range<u64>,
    (before, after): (Option<Placed>, Option<Placed>),
    new: &[Extent],
    window_bytes: u32,
) -> (Range<u64>, Vec<Extent>) {
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
