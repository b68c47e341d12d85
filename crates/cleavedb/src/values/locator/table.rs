//! The entries of one shard: pages of one prefix of the hash each, sorted by fingerprint.
//!
//! Owned by a shard, under its lock. A page holds the entries whose hashes share their first bits;
//! the page's number is these bits in reverse. Pages are split, one after the other, when there
//! are too many entries for their number (linear hashing): the first bit of each fingerprint moves
//! into the page's number, so that no key is read, and one small page at a time is made. A page is
//! as long as it needs to be, so pages are full but for a line, however many keys there are.
//!
//! A fingerprint is the bits of the hash that follow the page's prefix, as many as are known, and
//! a one behind them: 15 bits at first, and one less with each split, until the entry is touched
//! again. Where fewer than the least number would be left, the entry is dropped.
//!
//! Invariants: LT-1 pages = 2^depth + split, split < 2^depth. LT-2 a page is sorted by fingerprint.
//! LT-3 an entry matches a hash if and only if page and all known bits are equal; so the entry of
//! a key always matches its hash. LT-4 each fingerprint has at least `floor_bits` known bits, so
//! that all matches of a hash stand side by side.

use std::ops::Range;

use crate::values::locator::place::{PAYLOAD_BITS, PAYLOAD_MASK};

/// Bits of a fingerprint with its mark.
const FINGERPRINT_BITS: u32 = 16;

/// Entries by which a page grows: one cache line.
const STEP_ENTRIES: usize = 8;

/// Deepest prefix: 2^26 pages a shard are more than a container window can name records.
pub(crate) const DEPTH_MAX: u32 = 26;

/// Sizes of a table; tests make them tiny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Known bits of a new fingerprint: at most 15.
    pub(crate) fingerprint_bits: u32,
    /// Fewest known bits: at least 1.
    pub(crate) floor_bits: u32,
    /// Entries of a page on average: more cost longer walks, fewer more bytes.
    pub(crate) page_entries: usize,
}

impl Shape {
    /// What a database uses.
    pub(crate) const USUAL: Self = Self { fingerprint_bits: 15, floor_bits: 7, page_entries: 64 };
}

/// The entries of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pages: Vec<Vec<u64>>,
    depth: u32,
    split: usize,
    entries: usize,
    shape: Shape,
    /// Which entry of a full table goes next.
    evictions: usize,
    /// Entries dropped because too few bits were known.
    dropped: u64,
}

/// Where a hash leads: its page, and the bits that follow the page's prefix.
#[derive(Clone, Copy)]
struct Probe {
    page: usize,
    bits: u32,
}

/// A table's parts, for a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) depth: u32,
    pub(crate) split: usize,
    pub(crate) entries: usize,
    pub(crate) pages: &'a [Vec<u64>],
}

impl Table {
    /// An empty table, which allocates nothing.
    pub(crate) fn new(shape: Shape) -> Self {
        debug_assert!(shape.fingerprint_bits < FINGERPRINT_BITS && shape.page_entries > 0);
        debug_assert!((1..=shape.fingerprint_bits).contains(&shape.floor_bits));
        let pages = Vec::new();
        Self { pages, depth: 0, split: 0, entries: 0, shape, evictions: 0, dropped: 0 }
    }

    /// A table of these pages; `None` where they cannot be one.
    pub(crate) fn from_pages(
        shape: Shape,
        depth: u32,
        split: usize,
        pages: Vec<Vec<u64>>,
    ) -> Option<Self> {
        let wanted = (depth <= DEPTH_MAX && split < 1 << depth).then_some((1 << depth) + split);
        // No page at all: an empty table that never had an entry.
        let is_new = pages.is_empty() && depth == 0 && split == 0;
        let is_sound = |page: &Vec<u64>| {
            page.is_sorted_by_key(|entry| fingerprint(*entry))
                && page.iter().all(|entry| {
                    let fingerprint = fingerprint(*entry);
                    let range = shape.floor_bits..=shape.fingerprint_bits;
                    fingerprint != 0 && range.contains(&known_bits(fingerprint))
                })
        };
        if !(is_new || wanted == Some(pages.len())) || !pages.iter().all(is_sound) {
            return None;
        }
        let entries = pages.iter().map(Vec::len).sum();
        Some(Self { pages, depth, split, entries, shape, evictions: 0, dropped: 0 })
    }

    /// Works with these sizes from here on; fingerprints stay as they are.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// The parts of the table.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Self { pages, depth, split, entries, .. } = self;
        Parts { depth: *depth, split: *split, entries: *entries, pages }
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Entries dropped so far because too few bits were known.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Pages in it.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes that it has allocated.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.pages.iter().map(Vec::capacity).sum();
        entries * size_of::<u64>() + self.pages.capacity() * size_of::<Vec<u64>>()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.shape);
    }

    fn probe(&self, hash: u64) -> Probe {
        // The first bit of the hash becomes the lowest bit of the number.
        let reversed = hash.reverse_bits();
        let page = (reversed & ((1 << self.depth) - 1)) as usize;
        let depth = self.depth + u32::from(page < self.split);
        let page = (reversed & ((1 << depth) - 1)) as usize;
        Probe { page, bits: (hash << depth >> (64 - FINGERPRINT_BITS)) as u32 }
    }

    /// The matches of a hash: where they may stand in their page, and those that are matches.
    fn near(&self, probe: Probe) -> (&[u64], Range<usize>) {
        let Some(page) = self.pages.get(probe.page) else { return (&[], 0..0) };
        let unknown = (1 << (FINGERPRINT_BITS - self.shape.floor_bits)) - 1;
        let start = lower_bound(page, probe.bits & !unknown);
        let end = probe.bits | unknown;
        let rest = page.get(start..).unwrap_or_default();
        let count = rest.iter().take_while(|entry| fingerprint(**entry) <= end).count();
        (page, start..start + count)
    }

    /// All entries that match a hash.
    #[inline]
    pub(crate) fn matches(&self, hash: u64) -> impl Iterator<Item = u64> {
        let probe = self.probe(hash);
        let (page, range) = self.near(probe);
        let near = page.get(range).unwrap_or_default();
        near.iter().copied().filter(move |entry| is_match(*entry, probe.bits))
    }

    /// Removes the matches of a hash that `is_wanted` says; it is asked about each.
    pub(crate) fn remove(&mut self, hash: u64, mut is_wanted: impl FnMut(u64) -> bool) {
        let probe = self.probe(hash);
        let (_, range) = self.near(probe);
        let Some(page) = self.pages.get_mut(probe.page) else { return };
        let before = page.len();
        for at in range.rev() {
            let is_gone =
                page.get(at).is_some_and(|entry| is_match(*entry, probe.bits) && is_wanted(*entry));
            if is_gone {
                page.remove(at);
            }
        }
        let removed = before - page.len();
        if removed > 0 {
            if page.capacity() - page.len() >= 2 * STEP_ENTRIES {
                page.shrink_to(page.len().next_multiple_of(STEP_ENTRIES));
            }
            self.entries -= removed;
            self.merge_if_empty_enough();
        }
    }

    /// Changes the first match of a hash that `change` has something else for.
    pub(crate) fn change(&mut self, hash: u64, change: impl Fn(u64) -> Option<u64>) -> bool {
        let probe = self.probe(hash);
        let (_, range) = self.near(probe);
        let Some(near) = self.pages.get_mut(probe.page).and_then(|page| page.get_mut(range)) else {
            return false;
        };
        for entry in near.iter_mut().filter(|entry| is_match(**entry, probe.bits)) {
            if let Some(payload) = change(*entry) {
                *entry = *entry & !PAYLOAD_MASK | payload & PAYLOAD_MASK;
                return true;
            }
        }
        false
    }

    /// Adds an entry with all bits known, beside any others that match. Of a table that has as
    /// many entries as it may, another one of the same page goes; returns whether one went.
    pub(crate) fn insert(&mut self, hash: u64, payload: u64, entries_max: usize) -> bool {
        if self.pages.is_empty() {
            self.pages = vec![Vec::new()];
        }
        let mut has_evicted = false;
        if self.entries >= entries_max {
            has_evicted = self.evict(self.probe(hash).page);
            if !has_evicted {
                return false;
            }
        }
        let probe = self.probe(hash);
        let mark = 1 << (FINGERPRINT_BITS - 1 - self.shape.fingerprint_bits);
        let fingerprint = probe.bits & !(mark | (mark - 1)) | mark;
        if let Some(page) = self.pages.get_mut(probe.page) {
            let at = lower_bound(page, fingerprint);
            if page.len() == page.capacity() {
                page.reserve_exact(STEP_ENTRIES);
            }
            page.insert(at, u64::from(fingerprint) << PAYLOAD_BITS | payload & PAYLOAD_MASK);
            self.entries += 1;
        }
        self.split_if_full();
        has_evicted
    }

    /// Removes some entry of a page: one after the other, which is as good as any at random.
    fn evict(&mut self, page: usize) -> bool {
        self.evictions = self.evictions.wrapping_add(1);
        let Some(page) = self.pages.get_mut(page).filter(|page| !page.is_empty()) else {
            return false;
        };
        page.remove(self.evictions % page.len());
        self.entries -= 1;
        true
    }

    /// Splits the next page, if there are too many entries for the pages there are.
    fn split_if_full(&mut self) {
        let is_full = self.entries > self.pages.len() * self.shape.page_entries;
        if !is_full || self.depth >= DEPTH_MAX {
            return;
        }
        let Some(page) = self.pages.get_mut(self.split) else { return };
        let all = std::mem::take(page);
        let high = 1 << (FINGERPRINT_BITS - 1);
        let (zeros, ones) = all.split_at(all.partition_point(|entry| fingerprint(*entry) < high));
        let floor_bits = self.shape.floor_bits;
        let shifted = |half: &[u64]| {
            let kept = half.iter().filter(|entry| known_bits(fingerprint(**entry)) > floor_bits);
            let count = kept.clone().count();
            let mut page = Vec::with_capacity(count.next_multiple_of(STEP_ENTRIES));
            // The first bit falls out of the entry; what follows moves up, and so does the mark.
            page.extend(kept.map(|entry| {
                let fingerprint = (entry & !PAYLOAD_MASK) << 1;
                fingerprint | entry & PAYLOAD_MASK
            }));
            page
        };
        let (zeros, ones) = (shifted(zeros), shifted(ones));
        let dropped = all.len() - zeros.len() - ones.len();
        self.entries -= dropped;
        self.dropped += dropped as u64;
        *page = zeros;
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact(self.pages.len() / 32 + 2);
        }
        self.pages.push(ones);
        self.split += 1;
        if self.split == 1 << self.depth {
            self.depth += 1;
            self.split = 0;
        }
    }

    /// Undoes the latest split, if there are less than half as many entries as pages could have.
    fn merge_if_empty_enough(&mut self) {
        if self.pages.len() < 2 || self.entries * 2 >= self.pages.len() * self.shape.page_entries {
            return;
        }
        if self.split == 0 {
            self.depth -= 1;
            self.split = 1 << self.depth;
        }
        self.split -= 1;
        let Some(ones) = self.pages.pop() else { return };
        if self.pages.capacity() > self.pages.len() + self.pages.len() / 8 + 16 {
            self.pages.shrink_to(self.pages.len() + self.pages.len() / 32);
        }
        let Some(page) = self.pages.get_mut(self.split) else { return };
        let zeros = std::mem::take(page);
        let count = zeros.len() + ones.len();
        page.reserve_exact(count.next_multiple_of(STEP_ENTRIES));
        let bits_max = self.shape.fingerprint_bits;
        page.extend(zeros.iter().map(|entry| with_bit(*entry, 0, bits_max)));
        page.extend(ones.iter().map(|entry| with_bit(*entry, 1, bits_max)));
    }
}

fn fingerprint(entry: u64) -> u32 {
    (entry >> PAYLOAD_BITS) as u32
}

/// Bits in front of the mark.
fn known_bits(fingerprint: u32) -> u32 {
    (FINGERPRINT_BITS - 1).saturating_sub(fingerprint.trailing_zeros())
}

fn is_match(entry: u64, bits: u32) -> bool {
    let fingerprint = fingerprint(entry);
    let unknown = FINGERPRINT_BITS - known_bits(fingerprint);
    (fingerprint ^ bits) >> unknown == 0
}

/// The entry with a bit in front of its fingerprint, and at most so many known bits: the last one
/// is forgotten where need be.
fn with_bit(entry: u64, bit: u32, bits_max: u32) -> u64 {
    let longer = bit << (FINGERPRINT_BITS - 1) | fingerprint(entry) >> 1;
    let mark = 1 << (FINGERPRINT_BITS - 1 - bits_max);
    let is_too_long = known_bits(fingerprint(entry)) >= bits_max;
    let fits = if is_too_long { longer & !(mark | (mark - 1)) | mark } else { longer };
    u64::from(fits) << PAYLOAD_BITS | entry & PAYLOAD_MASK
}

/// First place in a page whose fingerprint is not below this one: hashes spread evenly, so it is
/// near where it would be if they did so exactly.
fn lower_bound(page: &[u64], wanted: u32) -> usize {
    let is_below = |at: usize| page.get(at).is_some_and(|entry| fingerprint(*entry) < wanted);
    let mut at = (wanted as usize * page.len()) >> FINGERPRINT_BITS;
    while is_below(at) {
        at += 1;
    }
    while at > 0 && !is_below(at - 1) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests;
