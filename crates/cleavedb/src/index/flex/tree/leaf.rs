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

use crate::index::flex::tree::extent::{Extent, Placed, Tag, widened};

/// Ends of how many extents an address may be told from: two bits of the first byte.
const BASES: usize = 4;

/// Bits of an extent's first byte: bytes of its length less one; bytes of the difference, where 7
/// stands for 8; whether there is a tag; the base.
const DIFFERENCE_SHIFT: u32 = 2;
const TAG_SHIFT: u32 = 5;
const BASE_SHIFT: u32 = 6;

/// Most bytes of an extent: its first one, 4 of the length, 8 of the difference, 2 of the tag.
const EXTENT_BYTES_MAX: usize = 16;

const TAG_BYTES: usize = 2;

/// Bytes of an extent that there is room for before it is packed.
const EXTENT_BYTES_USUAL: usize = 8;

/// How an extent is written, by its first byte: 16 bytes, so that a look-up in the table is a shift
/// and a load.
#[derive(Clone, Copy)]
struct Form {
    difference_mask: u64,
    length_mask: u32,
    difference_at: u8,
    has_tag: bool,
    base: u8,
    bytes: u8,
}

impl Form {
    const fn of(first: u8) -> Self {
        let length_bytes = (first & 3) + 1;
        let number = first >> DIFFERENCE_SHIFT & 7;
        let difference_bytes = if number == 7 { 8 } else { number };
        let has_tag = first >> TAG_SHIFT & 1 > 0;
        let tag_bytes = if has_tag { TAG_BYTES as u8 } else { 0 };
        Self {
            difference_mask: (u64::MAX as u128 >> (64 - 8 * difference_bytes as u32)) as u64,
            length_mask: u32::MAX >> (32 - 8 * length_bytes as u32),
            difference_at: 1 + length_bytes,
            has_tag,
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
        Self::packed_in(&mut Vec::new(), extents)
    }

    /// The same; what is left in `packing` is memory for the next one.
    pub(super) fn packed_in(packing: &mut Vec<u8>, extents: &[Extent]) -> Self {
        packing.clear();
        packing.reserve(extents.len() * EXTENT_BYTES_USUAL + EXTENT_BYTES_MAX);
        let (mut ends, mut length) = (Ends::default(), 0);
        for extent in extents {
            encode(extent, &mut ends, packing);
            length += u64::from(extent.length);
        }
        Self { bytes: packing.as_slice().to_vec(), length, count: extents.len() as u32 }
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
        Extents { bytes: packed, from: 0, ends: Ends::default(), at: 0 }
    }

    /// The extent that holds the byte of this offset.
    pub(super) fn find(&self, offset: u64) -> Option<Placed> {
        let mut reading = self.extents();
        reading.skip_to(offset);
        reading.placed()
    }

    /// Puts extents in the place of others; the range begins and ends where extents do. Returns how
    /// many went. Only what is new is encoded, and the few behind it that told their addresses from
    /// what is gone; the rest is moved as it stands.
    pub(super) fn splice(&mut self, range: Range<u64>, list: &[Extent]) -> usize {
        let mut reading = self.extents();
        reading.skip_to(range.start);
        debug_assert_eq!(reading.at, range.start, "a splice begins where an extent does");
        let (from, mut ends) = (reading.from, reading.ends);
        let mut removed = 0;
        while reading.at < range.end && reading.next().is_some() {
            removed += 1;
        }
        debug_assert_eq!(reading.at, range.end, "a splice ends where an extent does");
        let new = packed_before(&mut ends, &mut reading, list);
        let to = reading.from;
        self.replace_bytes(from..to, &new);
        let added: u64 = list.iter().map(|extent| u64::from(extent.length)).sum();
        self.length = self.length - (range.end - range.start) + added;
        self.count = self.count + list.len() as u32 - removed as u32;
        removed
    }

    /// Puts extents in the place of a range, which may begin and end anywhere: extents are cut, and
    /// joined with what comes. Returns how many went and how many came. Reads the leaf once.
    pub(super) fn replace(
        &mut self,
        range: Range<u64>,
        new: &[Extent],
        window_bytes: u32,
    ) -> (usize, usize) {
        let mut reading = self.extents();
        let mut before = None;
        let mut at_before = reading.clone();
        if let Some(last) = range.start.checked_sub(1) {
            reading.skip_to(last);
            at_before = reading.clone();
            before = reading.placed();
        }
        let behind_before = reading.clone();
        let is_same = before.is_some_and(|before| before.end() > range.end);
        let (mut passed, mut at_after, mut after) = (0, at_before.clone(), before);
        if !is_same {
            passed = usize::from(before.is_some()) + reading.skip_to(range.end);
            at_after = reading.clone();
            after = reading.placed();
        }
        let (wide, list) = widened(range, (before, after), new, window_bytes);
        let is_kept = before.is_some_and(|before| wide.start > before.offset);
        let goes = after.is_some_and(|after| wide.end > after.offset);
        let removed = passed + usize::from(goes) - usize::from(is_kept);
        let from = if is_kept { behind_before } else { at_before };
        let mut rest = if goes { reading } else { at_after };
        let (at, mut ends) = (from.from, from.ends);
        let new = packed_before(&mut ends, &mut rest, &list);
        let to = rest.from;
        self.replace_bytes(at..to, &new);
        let added: u64 = list.iter().map(|extent| u64::from(extent.length)).sum();
        self.length = self.length - (wide.end - wide.start) + added;
        self.count = self.count + list.len() as u32 - removed as u32;
        (removed, list.len())
    }

    /// Puts bytes in the place of others, with little room to spare.
    fn replace_bytes(&mut self, range: Range<usize>, new: &[u8]) {
        let before = self.bytes.len();
        let length = before - range.len() + new.len();
        if length > self.bytes.capacity() {
            self.bytes.reserve_exact(length.next_multiple_of(STEP_BYTES) - before);
        }
        let end = range.start + new.len();
        self.bytes.resize(length.max(before), 0);
        self.bytes.copy_within(range.end..before, end);
        self.bytes.truncate(length);
        if let Some(place) = self.bytes.get_mut(range.start..end) {
            place.copy_from_slice(new);
        }
        if self.bytes.capacity() - length >= 2 * STEP_BYTES {
            self.bytes.shrink_to(length.next_multiple_of(STEP_BYTES));
        }
    }
}

/// Packs extents that come to stand before what is left to read, and with them the few of that
/// which tell their addresses from what is gone; the others are left to read.
fn packed_before(ends: &mut Ends, rest: &mut Extents<'_>, list: &[Extent]) -> Vec<u8> {
    let mut new = Vec::with_capacity((list.len() + BASES + 1) * EXTENT_BYTES_MAX);
    list.iter().for_each(|extent| encode(extent, ends, &mut new));
    rest.take(BASES).for_each(|extent| encode(&extent, ends, &mut new));
    new
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
    let mut word = first as u128 | u128::from(extent.length) << 8;
    word |= u128::from(difference) << (8 + 8 * length_bytes);
    let mut bytes = 1 + length_bytes + difference_bytes;
    if let Some(tag) = extent.tag {
        word |= u128::from(tag.0.get()) << (8 * bytes);
        bytes += 2;
    }
    // Copies of one length need no call; what is too much goes again.
    let end = out.len() + bytes;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
    ends.push(extent.end());
}

/// Bytes that a number needs.
fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

/// Bytes from an extent on, and zeros behind the last one of its leaf.
type Chunk = [u8; EXTENT_BYTES_MAX];

/// Reads what stands there. Nearly always one load; no branches but at the end of a leaf.
#[inline(always)]
fn with_chunk<T>(bytes: &[u8], from: usize, read: impl FnOnce(&Chunk) -> T) -> Option<T> {
    match bytes.get(from..)?.first_chunk() {
        Some(chunk) => Some(read(chunk)),
        None => Some(read(&last_chunk(bytes, from)?)),
    }
}

/// The bytes from a place on that is so near the end.
fn last_chunk(bytes: &[u8], from: usize) -> Option<Chunk> {
    let left = bytes.len().checked_sub(from).filter(|left| *left > 0)?;
    let missing = EXTENT_BYTES_MAX.checked_sub(left)? as u32;
    let word = match bytes.last_chunk() {
        Some(chunk) => u128::from_le_bytes(*chunk) >> (8 * missing),
        None => bytes.get(from..)?.iter().rfold(0, |word, byte| word << 8 | u128::from(*byte)),
    };
    Some(word.to_le_bytes())
}

/// An extent as it is written.
struct Written {
    length: u32,
    difference: u64,
    form: &'static Form,
}

impl Written {
    #[inline(always)]
    fn of(chunk: &Chunk) -> Self {
        let [first, one, two, three, four, ..] = *chunk;
        #[expect(clippy::indexing_slicing, reason = "there is one for each byte")]
        let form = &FORMS[usize::from(first)];
        let length = u32::from_le_bytes([one, two, three, four]) & form.length_mask;
        let difference = number_at(chunk, form.difference_at.into()).map_or(0, u64::from_le_bytes);
        Self { length, difference: difference & form.difference_mask, form }
    }

    #[inline(always)]
    fn tag(&self, chunk: &Chunk) -> Option<Tag> {
        let at = usize::from(self.form.bytes).saturating_sub(TAG_BYTES);
        let tag = number_at(chunk, at).filter(|_| self.form.has_tag);
        Tag::new(tag.map_or(0, u16::from_le_bytes))
    }

    #[inline(always)]
    fn physical(&self, ends: &Ends) -> u64 {
        let difference = (self.difference >> 1) ^ (self.difference & 1).wrapping_neg();
        ends.get(self.form.base.into()).wrapping_add(difference)
    }
}

#[inline(always)]
fn number_at<const BYTES: usize>(chunk: &Chunk, at: usize) -> Option<[u8; BYTES]> {
    chunk.get(at..)?.first_chunk().copied()
}

/// Reads the extents of a leaf in order. Bytes that are none end it, which [`Leaf`]'s counts tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents<'a> {
    bytes: &'a [u8],
    /// Where the next one stands.
    from: usize,
    ends: Ends,
    at: u64,
}

impl Extents<'_> {
    /// The next extent, where in its leaf it lies.
    #[inline]
    pub(super) fn placed(&mut self) -> Option<Placed> {
        let (written, tag) = with_chunk(self.bytes, self.from, |chunk| {
            let written = Written::of(chunk);
            let tag = written.tag(chunk);
            (written, tag)
        })?;
        let from = self.from + usize::from(written.form.bytes);
        if from > self.bytes.len() {
            return None;
        }
        let (physical, offset) = (written.physical(&self.ends), self.at);
        self.from = from;
        self.ends.push(physical.wrapping_add(u64::from(written.length)));
        self.at = offset.wrapping_add(u64::from(written.length));
        Some(Placed { offset, extent: Extent { physical, length: written.length, tag } })
    }

    /// Passes over the extents that end at or before an offset: most of what a look-up does.
    /// Returns how many.
    pub(super) fn skip_to(&mut self, offset: u64) -> usize {
        let Self { bytes, mut from, mut ends, mut at } = *self;
        let mut passed = 0;
        while let Some(written) = with_chunk(bytes, from, Written::of) {
            let end = at.wrapping_add(u64::from(written.length));
            let behind = from + usize::from(written.form.bytes);
            if end > offset || behind > bytes.len() {
                break;
            }
            ends.push(written.physical(&ends).wrapping_add(u64::from(written.length)));
            (from, at) = (behind, end);
            passed += 1;
        }
        *self = Self { bytes, from, ends, at };
        passed
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        self.placed().map(|placed| placed.extent)
    }
}
