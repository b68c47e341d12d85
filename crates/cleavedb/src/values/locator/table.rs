//! The entries of one shard: pages of one prefix of the hash each, in sixteen drawers.
//!
//! Owned by a shard, under its lock. A page holds the entries whose hashes share their first bits;
//! the page's number is these bits in reverse, and the next four say which drawer. Pages are split,
//! one after the other, when there are too many entries for their number (linear hashing): one bit
//! moves from the drawer's number into the page's, and one from the fingerprint into the drawer's,
//! so that no key is read, and one small page at a time is made. A page is as long as it needs to
//! be, so pages are full but for a line, however many keys there are.
//!
//! A fingerprint is the bits of the hash that follow the drawer's, as many as are known, and a one
//! behind them: 15 bits at first, and one less with each split, until the entry is touched again.
//! Where fewer than the least number would be left, the entry is dropped.
//!
//! Invariants: LT-1 pages = 2^depth + split, split < 2^depth. LT-2 the first two words of a page
//! are the ends of its drawers, a byte each, ascending, the last one all entries; a page without
//! these words is empty. LT-3 an entry matches a hash if and only if page, drawer and all known
//! bits are equal; so the entry of a key always matches its hash. LT-4 each fingerprint has at
//! least `floor_bits` known bits.

use std::ops::Range;

use crate::memory::prefetch::prefetch;
use crate::values::locator::place::{PAYLOAD_BITS, PAYLOAD_MASK};

/// Bits of a fingerprint with its mark.
const FINGERPRINT_BITS: u32 = 16;

/// Bits of a drawer's number, and drawers of a page.
const DRAWER_BITS: u32 = 4;
pub(crate) const DRAWERS: usize = 1 << DRAWER_BITS;

/// Words of a page in front of its entries: where each drawer ends.
pub(crate) const HEAD: usize = DRAWERS / size_of::<u64>();

/// Most entries of a page: an end fits a byte. Pages have fewer than half as many, but by chance.
pub(crate) const PAGE_ENTRIES_MAX: usize = u8::MAX as usize;

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
    pub(crate) const USUAL: Self = Self { fingerprint_bits: 15, floor_bits: 7, page_entries: 80 };
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

/// Where a hash leads: its page, its drawer, and the bits that follow.
#[derive(Clone, Copy)]
struct Probe {
    page: usize,
    drawer: usize,
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
            let ends = ends_of(page);
            (page.is_empty() || page.len() >= HEAD)
                && ends.is_sorted()
                && usize::from(ends[DRAWERS - 1]) == entries_of(page).len()
                && entries_of(page).iter().all(|entry| {
                    let fingerprint = fingerprint(*entry);
                    let range = shape.floor_bits..=shape.fingerprint_bits;
                    fingerprint != 0 && range.contains(&known_bits(fingerprint))
                })
        };
        if !(is_new || wanted == Some(pages.len())) || !pages.iter().all(is_sound) {
            return None;
        }
        let entries = pages.iter().map(|page| entries_of(page).len()).sum();
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
        let words: usize = self.pages.iter().map(Vec::capacity).sum();
        words * size_of::<u64>() + self.pages.capacity() * size_of::<Vec<u64>>()
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
        let rest = hash << depth;
        let drawer = (rest >> (64 - DRAWER_BITS)) as usize;
        let bits = (rest << DRAWER_BITS >> (64 - FINGERPRINT_BITS)) as u32;
        Probe { page, drawer, bits }
    }

    /// The drawer of a hash: where it is in its page, and its entries.
    fn near(&self, probe: Probe) -> (Range<usize>, &[u64]) {
        let Some(page) = self.pages.get(probe.page) else { return (0..0, &[]) };
        let range = drawer_in(page, probe.drawer);
        (range.clone(), page.get(range).unwrap_or_default())
    }

    /// Begins to load what [`Table::matches`] is going to read: the ends of the drawers, and the
    /// line that the hash's drawer is most likely in, since drawers are about equally full.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let probe = self.probe(hash);
        let Some(page) = self.pages.get(probe.page) else { return };
        let entries = page.len().saturating_sub(HEAD);
        let near = HEAD + (2 * probe.drawer + 1) * entries / (2 * DRAWERS);
        for word in [page.first(), page.get(near)].into_iter().flatten() {
            prefetch(word);
        }
    }

    /// All entries that match a hash.
    #[inline]
    pub(crate) fn matches(&self, hash: u64) -> impl Iterator<Item = u64> {
        let probe = self.probe(hash);
        let (_, near) = self.near(probe);
        near.iter().copied().filter(move |entry| is_match(*entry, probe.bits))
    }

    /// Removes the matches of a hash that `is_wanted` says; it is asked about each.
    pub(crate) fn remove(&mut self, hash: u64, mut is_wanted: impl FnMut(u64) -> bool) {
        let probe = self.probe(hash);
        let (range, _) = self.near(probe);
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
            move_ends(page, probe.drawer, |end| end - removed as u8);
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
        let (range, _) = self.near(probe);
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
        let probe = self.probe(hash);
        let in_page = self.pages.get(probe.page).map_or(0, |page| entries_of(page).len());
        let mut has_evicted = false;
        if self.entries >= entries_max || in_page >= PAGE_ENTRIES_MAX {
            has_evicted = self.evict(probe.page);
            if !has_evicted {
                return false;
            }
        }
        let mark = 1 << (FINGERPRINT_BITS - 1 - self.shape.fingerprint_bits);
        let fingerprint = probe.bits & !(mark | (mark - 1)) | mark;
        if let Some(page) = self.pages.get_mut(probe.page) {
            let words = if page.is_empty() { HEAD + 1 } else { 1 };
            if page.len() + words > page.capacity() {
                page.reserve_exact(
                    (page.len() + words).next_multiple_of(STEP_ENTRIES) - page.len(),
                );
            }
            if page.is_empty() {
                page.resize(HEAD, 0);
            }
            let at = drawer_in(page, probe.drawer).end;
            page.insert(at, u64::from(fingerprint) << PAYLOAD_BITS | payload & PAYLOAD_MASK);
            move_ends(page, probe.drawer, |end| end + 1);
            self.entries += 1;
        }
        self.split_if_full();
        has_evicted
    }

    /// Removes some entry of a page: one after the other, which is as good as any at random.
    fn evict(&mut self, page: usize) -> bool {
        self.evictions = self.evictions.wrapping_add(1);
        let Some(page) = self.pages.get_mut(page).filter(|page| page.len() > HEAD) else {
            return false;
        };
        let at = HEAD + self.evictions % (page.len() - HEAD);
        let drawer = (0..DRAWERS).find(|drawer| drawer_in(page, *drawer).contains(&at));
        page.remove(at);
        move_ends(page, drawer.unwrap_or_default(), |end| end - 1);
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
        let floor_bits = self.shape.floor_bits;
        let halved = |first: usize| {
            let mut half = Packer::default();
            for drawer in first..first + DRAWERS / 2 {
                let near = all.get(drawer_in(&all, drawer)).unwrap_or_default();
                // The first bit of the fingerprint becomes the last one of the drawer's number.
                for bit in 0..2 {
                    let kept = near.iter().filter(|entry| **entry >> 63 == bit);
                    let kept = kept.filter(|entry| known_bits(fingerprint(**entry)) > floor_bits);
                    half.fill(
                        kept.map(|entry| (entry & !PAYLOAD_MASK) << 1 | entry & PAYLOAD_MASK),
                    );
                }
            }
            half.page()
        };
        let (zeros, ones) = (halved(0), halved(DRAWERS / 2));
        let kept = entries_of(&zeros).len() + entries_of(&ones).len();
        let dropped = entries_of(&all).len() - kept;
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
        let bits_max = self.shape.fingerprint_bits;
        let mut whole = Packer::default();
        for half in [&zeros, &ones] {
            for drawer in (0..DRAWERS).step_by(2) {
                let of = |bit: usize| half.get(drawer_in(half, drawer + bit)).unwrap_or_default();
                let zero = of(0).iter().map(|entry| with_bit(*entry, 0, bits_max));
                whole.fill(zero.chain(of(1).iter().map(|entry| with_bit(*entry, 1, bits_max))));
            }
        }
        self.entries -= whole.left_out;
        self.dropped += whole.left_out as u64;
        *page = whole.page();
    }
}

/// Makes a page, drawer by drawer.
#[derive(Default)]
struct Packer {
    entries: Vec<u64>,
    ends: [u8; DRAWERS],
    drawers: usize,
    /// Entries for which a page has no room.
    left_out: usize,
}

impl Packer {
    fn fill(&mut self, entries: impl Iterator<Item = u64>) {
        for entry in entries {
            if self.entries.len() < PAGE_ENTRIES_MAX {
                self.entries.push(entry);
            } else {
                self.left_out += 1;
            }
        }
        if let Some(end) = self.ends.get_mut(self.drawers) {
            *end = self.entries.len() as u8;
        }
        self.drawers += 1;
    }

    fn page(&self) -> Vec<u64> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let words = HEAD + self.entries.len();
        let mut page = Vec::with_capacity(words.next_multiple_of(STEP_ENTRIES));
        page.extend(head_of(self.ends));
        page.extend(&self.entries);
        page
    }
}

/// The ends of a page's drawers.
pub(crate) fn ends_of(page: &[u64]) -> [u8; DRAWERS] {
    let mut ends = [0; DRAWERS];
    for (ends, word) in ends.as_chunks_mut::<8>().0.iter_mut().zip(page) {
        *ends = word.to_le_bytes();
    }
    ends
}

/// The words in front of a page whose drawers end there.
pub(crate) fn head_of(ends: [u8; DRAWERS]) -> impl Iterator<Item = u64> {
    (0..HEAD).map(move |word| {
        let bytes = ends.as_chunks::<8>().0.get(word).copied();
        u64::from_le_bytes(bytes.unwrap_or_default())
    })
}

/// The entries of a page.
pub(crate) fn entries_of(page: &[u64]) -> &[u64] {
    page.get(HEAD..).unwrap_or_default()
}

/// Where in a page a drawer is.
fn drawer_in(page: &[u64], drawer: usize) -> Range<usize> {
    let end = |drawer: usize| {
        let word = page.get(drawer / 8).copied().unwrap_or_default();
        HEAD + usize::from((word >> (drawer % 8 * 8)) as u8)
    };
    if page.is_empty() {
        return HEAD..HEAD;
    }
    let start = if drawer == 0 { HEAD } else { end(drawer - 1) };
    start..end(drawer)
}

/// Changes where a drawer and those behind it end.
fn move_ends(page: &mut [u64], drawer: usize, change: impl Fn(u8) -> u8) {
    let mut ends = ends_of(page);
    ends.iter_mut().skip(drawer).for_each(|end| *end = change(*end));
    page.iter_mut().zip(head_of(ends)).for_each(|(word, ends)| *word = ends);
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

#[cfg(test)]
mod tests;
