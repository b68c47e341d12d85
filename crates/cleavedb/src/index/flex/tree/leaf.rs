//! Leaves: extents as lengths and differences of addresses, in a few bytes each.
//!
//! Owned by one node, which readers share and a writer changes only while it is alone with it. An
//! extent is a varint (length, whether there is a tag, which of the four extents before it the
//! address is told from), the signed difference to the end of that one, and the tag. What follows a
//! record that was overwritten in the middle of old bytes stands near the end of the extent before
//! the record, and the record near the one that was written before it: so mostly one or two bytes
//! tell an address, where a whole one takes five or six. Lengths are added up while reading, so an
//! insertion shifts what follows in its leaf without touching it.
//!
//! Invariants: L-1 `length` is the sum of the lengths, `count` their number, and nothing follows
//! them; L-2 the bytes are those that [`Leaf::of`] makes of the same extents.

use std::ops::Range;

use crate::base::codec::{put_signed, put_varint};
use crate::index::flex::tree::extent::{Extent, Tag};

/// Ends of how many extents an address may be told from: two bits of the head.
const BASES: usize = 4;

/// Bits of the head below the length: the base, and whether there is a tag.
const HEAD_BITS: u32 = 3;
const TAG_BIT: u64 = 1 << 2;
const BASE_MASK: u64 = BASES as u64 - 1;

/// Bytes that a leaf grows and shrinks by: what the allocator rounds to in any case.
const STEP_BYTES: usize = 16;

/// Ends of the last extents, newest first; 0 before the first one.
type Ends = [u64; BASES];

fn push_end(ends: &mut Ends, end: u64) {
    let [first, second, third, _] = *ends;
    *ends = [end, first, second, third];
}

/// Extents packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    bytes: Vec<u8>,
    length: u64,
    count: u32,
}

impl Leaf {
    /// A leaf of these extents.
    pub(super) fn of(extents: &[Extent]) -> Self {
        let (mut bytes, mut ends, mut length) = (Vec::new(), Ends::default(), 0);
        for extent in extents {
            encode(extent, &mut ends, &mut bytes);
            length += u64::from(extent.length);
        }
        bytes.shrink_to_fit();
        Self { bytes, length, count: extents.len() as u32 }
    }

    /// Bytes of the space that its extents cover.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// How many extents there are.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The extents from the first on.
    pub(super) fn extents(&self) -> Extents<'_> {
        Extents { rest: &self.bytes, ends: Ends::default() }
    }

    /// The extent that holds the byte of this offset, and where it begins.
    pub(super) fn find(&self, offset: u64) -> Option<(u64, Extent)> {
        let mut start = 0u64;
        for extent in self.extents() {
            let end = start + u64::from(extent.length);
            if offset < end {
                return Some((start, extent));
            }
            start = end;
        }
        None
    }

    /// Puts extents in the place of others; the range begins and ends where extents do. Returns how
    /// many went. Only what is new is encoded, and the few behind it that told their addresses from
    /// what is gone; the rest is moved as it stands.
    pub(super) fn splice(&mut self, range: Range<u64>, list: &[Extent]) -> usize {
        let mut reading = self.extents();
        let mut at = 0u64;
        while at < range.start
            && let Some(extent) = reading.next()
        {
            at += u64::from(extent.length);
        }
        debug_assert_eq!(at, range.start, "a splice begins where an extent does");
        let (from, mut ends) = (self.bytes.len() - reading.rest.len(), reading.ends);
        let mut removed = 0;
        while at < range.end
            && let Some(extent) = reading.next()
        {
            at += u64::from(extent.length);
            removed += 1;
        }
        debug_assert_eq!(at, range.end, "a splice ends where an extent does");
        let mut new = Vec::with_capacity((list.len() + BASES) * 8);
        let mut added = 0;
        for extent in list {
            encode(extent, &mut ends, &mut new);
            added += u64::from(extent.length);
        }
        for extent in reading.by_ref().take(BASES) {
            encode(&extent, &mut ends, &mut new);
        }
        let to = self.bytes.len() - reading.rest.len();
        self.replace_bytes(from..to, &new);
        self.length = self.length - (range.end - range.start) + added;
        self.count = self.count + list.len() as u32 - removed as u32;
        removed
    }

    /// Puts bytes in the place of others, with little room to spare.
    fn replace_bytes(&mut self, range: Range<usize>, new: &[u8]) {
        let length = self.bytes.len() - range.len() + new.len();
        if length > self.bytes.capacity() {
            self.bytes.reserve_exact(length.next_multiple_of(STEP_BYTES) - self.bytes.len());
        }
        self.bytes.splice(range, new.iter().copied());
        if self.bytes.capacity() - length >= 2 * STEP_BYTES {
            self.bytes.shrink_to(length.next_multiple_of(STEP_BYTES));
        }
    }
}

fn encode(extent: &Extent, ends: &mut Ends, out: &mut Vec<u8>) {
    let distance = |end: u64| extent.physical.abs_diff(end);
    let (mut base, mut nearest) = (0, u64::MAX);
    for (number, end) in ends.iter().enumerate() {
        if distance(*end) < nearest {
            (base, nearest) = (number as u64, distance(*end));
        }
    }
    let end = ends.get(base as usize).copied().unwrap_or_default();
    let tag = extent.tag.map_or(0, |_| TAG_BIT);
    put_varint(out, u64::from(extent.length) << HEAD_BITS | tag | base);
    put_signed(out, extent.physical.wrapping_sub(end).cast_signed());
    if let Some(tag) = extent.tag {
        put_varint(out, u64::from(tag.0.get()));
    }
    push_end(ends, extent.end());
}

/// Reads the extents of a leaf in order. Bytes that are none end it, which [`Leaf`]'s counts tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents<'a> {
    rest: &'a [u8],
    ends: Ends,
}

impl Extents<'_> {
    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // What nearly every number takes.
        match self.rest {
            [byte @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                return Some(u64::from(*byte));
            }
            [low, byte @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                return Some(u64::from(*byte) << 7 | u64::from(low & 0x7f));
            }
            _ => {}
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (number, byte) in self.rest.iter().enumerate() {
            let shift = 7 * number as u32;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if *byte < 0x80 {
                self.rest = self.rest.get(number + 1..)?;
                return Some(value);
            }
        }
        None
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let head = self.varint()?;
        let difference = self.varint()?;
        let difference = (difference >> 1) ^ (difference & 1).wrapping_neg();
        let tag =
            if head & TAG_BIT == 0 { None } else { Tag::new(u16::try_from(self.varint()?).ok()?) };
        let base = self.ends.get((head & BASE_MASK) as usize)?;
        let length = u32::try_from(head >> HEAD_BITS).ok()?;
        let extent = Extent { physical: base.wrapping_add(difference), length, tag };
        push_end(&mut self.ends, extent.end());
        Some(extent)
    }
}
