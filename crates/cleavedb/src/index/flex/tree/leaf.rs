//! Leaves: extents as lengths and differences of addresses, in a few bytes each.
//!
//! Owned by one node, which readers share and a writer changes only while it is alone with it. An
//! extent is a byte that says how it is written, its length, the signed difference of its address
//! to the end of one of the four extents before it, and its tag if it has one; lengths and
//! differences have as many bytes as they need, little-endian. What follows a record that was
//! overwritten in the middle of old bytes stands near the end of the extent before the record, and
//! the record near the one that was written before it: so mostly one byte or none tells an address,
//! where a whole one takes five or six. Lengths are added up while reading, so an insertion shifts
//! what follows in its leaf without touching it.
//!
//! Invariants: L-1 `length` is the sum of the lengths, `count` their number, and nothing follows
//! them; L-2 the bytes are those that [`Leaf::of`] makes of the same extents.

use std::ops::Range;

use crate::index::flex::tree::extent::{Extent, Tag};

/// Ends of how many extents an address may be told from: two bits of the first byte.
const BASES: usize = 4;

/// Bits of an extent's first byte: bytes of its length less one; bytes of the difference, where 7
/// stands for 8; whether there is a tag; the base.
const DIFFERENCE_SHIFT: u32 = 2;
const TAG_SHIFT: u32 = 5;
const BASE_SHIFT: u32 = 6;

/// Most bytes of an extent: its first one, 4 of the length, 8 of the difference, 2 of the tag.
const EXTENT_BYTES_MAX: usize = 16;

/// How an extent is written, by its first byte.
#[derive(Clone, Copy)]
struct Form {
    length_mask: u32,
    difference_mask: u64,
    difference_shift: u8,
    tag_mask: u16,
    tag_shift: u8,
    base: u8,
    bytes: u8,
}

impl Form {
    const fn of(first: u8) -> Self {
        let length_bytes = (first & 3) + 1;
        let number = first >> DIFFERENCE_SHIFT & 7;
        let difference_bytes = if number == 7 { 8 } else { number };
        let tag_bytes = (first >> TAG_SHIFT & 1) * 2;
        Self {
            length_mask: u32::MAX >> (32 - 8 * length_bytes as u32),
            difference_mask: (u64::MAX as u128 >> (64 - 8 * difference_bytes as u32)) as u64,
            difference_shift: 8 + 8 * length_bytes,
            tag_mask: if tag_bytes > 0 { u16::MAX } else { 0 },
            tag_shift: 8 + 8 * length_bytes + 8 * difference_bytes,
            base: first >> BASE_SHIFT,
            bytes: 1 + length_bytes + difference_bytes + tag_bytes,
        }
    }
}

/// The form of each first byte.
static FORMS: [Form; 256] = {
    let mut forms = [Form::of(0); 256];
    let mut first = 1;
    while first < forms.len() {
        #[expect(clippy::indexing_slicing, reason = "counted up to its length, by the compiler")]
        let form = &mut forms[first];
        *form = Form::of(first as u8);
        first += 1;
    }
    forms
};

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
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The extents as they are written.
    pub(super) fn packed(&self) -> &[u8] {
        &self.bytes
    }

    /// The extents from the first on.
    pub(super) fn extents(&self) -> Extents<'_> {
        Self::reading(&self.bytes)
    }

    /// The extents of a leaf that is written like this, as far as there are any.
    pub(super) fn reading(packed: &[u8]) -> Extents<'_> {
        Extents { rest: packed, ends: Ends::default(), at: 0 }
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
    let difference = extent.physical.wrapping_sub(ends.get(base)).cast_signed();
    let difference = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
    let length_bytes = bytes_of(extent.length.into()).max(1);
    let number = bytes_of(difference).min(7);
    let difference_bytes = if number == 7 { 8 } else { number };
    let first = (length_bytes - 1)
        | number << DIFFERENCE_SHIFT
        | usize::from(extent.tag.is_some()) << TAG_SHIFT
        | base << BASE_SHIFT;
    out.push(first as u8);
    out.extend(extent.length.to_le_bytes().iter().take(length_bytes));
    out.extend(difference.to_le_bytes().iter().take(difference_bytes));
    if let Some(tag) = extent.tag {
        out.extend(tag.0.get().to_le_bytes());
    }
    ends.push(extent.end());
}

/// Bytes that a number needs.
fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// An extent as it is written.
struct Written {
    length: u32,
    difference: u64,
    tag: u16,
    base: usize,
    bytes: usize,
}

impl Written {
    /// The extent at the front. Nearly always one load; no branches but at the end of a leaf.
    #[inline(always)]
    fn read(rest: &[u8]) -> Option<Self> {
        let word = match rest.first_chunk::<EXTENT_BYTES_MAX>() {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => last_word(rest)?,
        };
        #[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
        let form = &FORMS[usize::from(word as u8)];
        let written = Self {
            length: (word >> 8) as u32 & form.length_mask,
            difference: (word >> form.difference_shift) as u64 & form.difference_mask,
            tag: (word >> form.tag_shift) as u16 & form.tag_mask,
            base: usize::from(form.base),
            bytes: usize::from(form.bytes),
        };
        (written.bytes <= rest.len()).then_some(written)
    }

    #[inline(always)]
    fn physical(&self, ends: &Ends) -> u64 {
        let difference = (self.difference >> 1) ^ (self.difference & 1).wrapping_neg();
        ends.get(self.base).wrapping_add(difference)
    }
}

/// The same with zeros behind the last byte.
fn last_word(rest: &[u8]) -> Option<u128> {
    let bytes = rest.iter().rev();
    (!rest.is_empty()).then(|| bytes.fold(0, |word, byte| word << 8 | u128::from(*byte)))
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
        while let Some(written) = Written::read(rest) {
            let end = at.wrapping_add(u64::from(written.length));
            let Some(behind) = rest.get(written.bytes..).filter(|_| end <= offset) else { break };
            ends.push(written.physical(&ends).wrapping_add(u64::from(written.length)));
            (rest, at) = (behind, end);
        }
        *self = Self { rest, ends, at };
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let written = Written::read(self.rest)?;
        let physical = written.physical(&self.ends);
        let extent = Extent { physical, length: written.length, tag: Tag::new(written.tag) };
        self.rest = self.rest.get(written.bytes..)?;
        self.ends.push(physical.wrapping_add(u64::from(written.length)));
        self.at = self.at.wrapping_add(u64::from(written.length));
        Some(extent)
    }
}
