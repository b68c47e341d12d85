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

/// Ends of the last extents; 0 before the first one.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    ring: [u64; BASES],
    newest: usize,
}

impl Ends {
    /// The end of the last extent for base 0, of the one before it for base 1, and so on.
    #[inline(always)]
    fn get(&self, base: usize) -> u64 {
        #[expect(clippy::indexing_slicing, reason = "masked to the ring's length")]
        self.ring[(self.newest + base) % BASES]
    }

    #[inline(always)]
    fn push(&mut self, end: u64) {
        self.newest = (self.newest + BASES - 1) % BASES;
        #[expect(clippy::indexing_slicing, reason = "masked to the ring's length")]
        let newest = &mut self.ring[self.newest];
        *newest = end;
    }
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
        Extents { rest: &self.bytes, ends: Ends::default(), at: 0 }
    }

    /// The extent that holds the byte of this offset, and where it begins.
    pub(super) fn find(&self, offset: u64) -> Option<(u64, Extent)> {
        let mut reading = self.extents();
        reading.skip_to(offset);
        Some((reading.at, reading.next()?))
    }

    /// Puts extents in the place of others; the range begins and ends where extents do. Returns how
    /// many went. Only what is new is encoded, and the few behind it that told their addresses from
    /// what is gone; the rest is moved as it stands.
    pub(super) fn splice(&mut self, range: Range<u64>, list: &[Extent]) -> usize {
        let mut reading = self.extents();
        reading.skip_to(range.start);
        debug_assert_eq!(reading.at, range.start, "a splice begins where an extent does");
        let (from, mut ends) = (self.bytes.len() - reading.rest.len(), reading.ends);
        let mut removed = 0;
        while reading.at < range.end && reading.next().is_some() {
            removed += 1;
        }
        debug_assert_eq!(reading.at, range.end, "a splice ends where an extent does");
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
    let (mut base, mut nearest) = (0, u64::MAX);
    for number in 0..BASES {
        let distance = extent.physical.abs_diff(ends.get(number));
        if distance < nearest {
            (base, nearest) = (number, distance);
        }
    }
    let tag = extent.tag.map_or(0, |_| TAG_BIT);
    put_varint(out, u64::from(extent.length) << HEAD_BITS | tag | base as u64);
    put_signed(out, extent.physical.wrapping_sub(ends.get(base)).cast_signed());
    if let Some(tag) = extent.tag {
        put_varint(out, u64::from(tag.0.get()));
    }
    ends.push(extent.end());
}

/// Takes a varint off the front.
#[inline(always)]
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    // What nearly every number takes.
    match *rest {
        [byte @ 0..0x80, behind @ ..] => {
            *rest = behind;
            Some(u64::from(*byte))
        }
        [low, byte @ 0..0x80, behind @ ..] => {
            *rest = behind;
            Some(u64::from(*byte) << 7 | u64::from(low & 0x7f))
        }
        _ => take_long_varint(rest),
    }
}

fn take_long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (number, byte) in rest.iter().enumerate() {
        let shift = 7 * number as u32;
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if *byte < 0x80 {
            *rest = rest.get(number + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Reads the extents of a leaf in order. Bytes that are none end it, which [`Leaf`]'s counts tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents<'a> {
    rest: &'a [u8],
    ends: Ends,
    at: u64,
}

impl Extents<'_> {
    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Where in its leaf the next extent begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Passes over the extents that end at or before an offset: most of what a look-up does.
    pub(super) fn skip_to(&mut self, offset: u64) {
        let Self { mut rest, mut ends, mut at } = *self;
        loop {
            let mut behind = rest;
            let Some(head) = take_varint(&mut behind) else { break };
            let end = at.wrapping_add(head >> HEAD_BITS);
            if end > offset {
                break;
            }
            let Some(physical) = take_physical(head, &ends, &mut behind) else { break };
            if head & TAG_BIT != 0 && take_varint(&mut behind).is_none() {
                break;
            }
            ends.push(physical.wrapping_add(head >> HEAD_BITS));
            (rest, at) = (behind, end);
        }
        *self = Self { rest, ends, at };
    }
}

#[inline(always)]
fn take_physical(head: u64, ends: &Ends, rest: &mut &[u8]) -> Option<u64> {
    let difference = take_varint(rest)?;
    let difference = (difference >> 1) ^ (difference & 1).wrapping_neg();
    Some(ends.get((head & BASE_MASK) as usize).wrapping_add(difference))
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let head = take_varint(&mut self.rest)?;
        let physical = take_physical(head, &self.ends, &mut self.rest)?;
        let tag = if head & TAG_BIT == 0 {
            None
        } else {
            Tag::new(u16::try_from(take_varint(&mut self.rest)?).ok()?)
        };
        let length = u32::try_from(head >> HEAD_BITS).ok()?;
        let extent = Extent { physical, length, tag };
        self.ends.push(extent.end());
        self.at = self.at.wrapping_add(u64::from(length));
        Some(extent)
    }
}
