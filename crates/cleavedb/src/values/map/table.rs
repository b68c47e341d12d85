//! The entries of one shard with their full keys: small pages of bytes, in sixteen drawers each.
//!
//! Owned by a shard, under its lock. A page holds the entries whose hashes share their first bits
//! behind the shard's; the page's number is these bits in reverse, and the last four bits of the
//! hash say which drawer. Pages are split one after the other when there are too many entries for
//! their number (linear hashing), so a table grows by one page at a time and without a peak. The
//! keys are there, so what a split needs of a hash is computed again.
//!
//! An entry: its length as a varint, keyspace, value, key. A key has as many entries as its owner
//! puts in; a page is as long as it needs to be but for a cache line.
//!
//! Invariants: MT-1 pages = 2^depth + split, split < 2^depth; a table that never had an entry has
//! none. MT-2 a page that is not empty begins with the ends of its drawers, four bytes each,
//! ascending, the last one its own. MT-3 an entry stands in the page and the drawer that its hash
//! leads to. MT-4 `page_bytes` is what all pages have allocated.

use std::marker::PhantomData;
use std::ops::Range;

use crate::base::checksum::KeyedHash;
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::values::locator::LocatorKey;
use crate::values::map::page::{
    Bodies, DRAWERS, ENTRY_BYTES_MAX, Entry, HEAD_BYTES, Packer, STEP_BYTES, Stored, begin_page,
    decode_entry, drawer_in, drawer_of, encode, entries_of, entry_of, move_ends, value_of,
};

/// Deepest prefix: 2^32 pages a shard are more than memory has bytes for.
pub(crate) const DEPTH_MAX: u32 = 32;

/// Sizes of a table; tests make them tiny.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Entries of a page on average: more cost longer walks, fewer more bytes.
    pub(crate) page_entries: usize,
    /// Bytes of a page on average, where keys are so long that fewer entries make it full.
    pub(crate) page_bytes: usize,
}

impl Shape {
    /// What a database uses.
    pub(crate) const USUAL: Self = Self { page_entries: 64, page_bytes: 32 << 10 };
}

/// How keys are hashed, and how many of the first bits are the shard's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    /// The database's hash.
    pub(crate) keyed: KeyedHash,
    /// Bits of the shard's number.
    pub(crate) shard_bits: u32,
}

impl Hashing {
    /// The hash of a key.
    pub(crate) fn of(&self, keyspace: KeyspaceId, key: &[u8]) -> u64 {
        self.keyed.hash(keyspace, key)
    }

    /// The shard of a hash.
    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> usize {
        (hash >> (64 - self.shard_bits)) as usize
    }
}

/// The entries of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    pages: Vec<Vec<u8>>,
    depth: u32,
    split: usize,
    entries: usize,
    key_bytes: usize,
    page_bytes: usize,
    shape: Shape,
    hashing: Hashing,
    values: PhantomData<V>,
}

impl<V: Stored> Table<V> {
    /// An empty table, which allocates nothing.
    pub(crate) fn new(shape: Shape, hashing: Hashing) -> Self {
        debug_assert!(shape.page_entries > 0 && shape.page_bytes > 0);
        Self {
            pages: Vec::new(),
            depth: 0,
            split: 0,
            entries: 0,
            key_bytes: 0,
            page_bytes: 0,
            shape,
            hashing,
            values: PhantomData,
        }
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Pages in it.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes of the keys in it.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes that it has allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.page_bytes + self.pages.capacity() * size_of::<Vec<u8>>()
    }

    /// Bytes by which [`Table::bytes`] may grow when an entry of a key so long is put in.
    pub(crate) fn growth_max(&self, key_bytes: usize) -> usize {
        // The entry's page grows, and a page is split: two heads, three times up to a whole step.
        let pages = 2 * HEAD_BYTES + 3 * STEP_BYTES;
        let is_full = self.pages.len() == self.pages.capacity();
        let directory = if is_full { self.directory_step() * size_of::<Vec<u8>>() } else { 0 };
        key_bytes + ENTRY_BYTES_MAX + pages + directory
    }

    fn directory_step(&self) -> usize {
        self.pages.len() / 32 + 2
    }

    /// The page of a hash, and its drawer there.
    #[inline]
    fn probe(&self, hash: u64) -> (usize, usize) {
        // The first bit behind the shard's becomes the lowest bit of the number.
        let reversed = (hash << self.hashing.shard_bits).reverse_bits();
        let page = (reversed & ((1 << self.depth) - 1)) as usize;
        let depth = self.depth + u32::from(page < self.split);
        ((reversed & ((1 << depth) - 1)) as usize, hash as usize % DRAWERS)
    }

    /// The values of a key.
    #[inline]
    pub(crate) fn matches(&self, key: &LocatorKey<'_>) -> impl Iterator<Item = V> {
        let (page, drawer) = self.probe(key.hash);
        let bytes = self.pages.get(page).map_or(&[][..], |page| drawer_of(page, drawer));
        Bodies::of(bytes).filter_map(move |(_, body)| value_of(body, key))
    }

    /// The value of a key, or the first one of several.
    #[inline]
    pub(crate) fn find(&self, key: &LocatorKey<'_>) -> Option<V> {
        self.matches(key).next()
    }

    /// Every entry.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_, V>> {
        let bodies = self.pages.iter().flat_map(|page| Bodies::of(entries_of(page)));
        bodies.filter_map(|(_, body)| entry_of(body))
    }

    /// The key of an entry, of this table or another one.
    pub(crate) fn key_of<'a, W>(&self, entry: &Entry<'a, W>) -> LocatorKey<'a> {
        let Entry { keyspace, key, .. } = *entry;
        LocatorKey { keyspace, key, hash: self.hashing.of(keyspace, key) }
    }

    /// The entries of all pages as they stand, page by page: for a checkpoint.
    pub(crate) fn raw_pages(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pages.iter().map(|page| entries_of(page))
    }

    /// Depth, and pages split.
    pub(crate) fn depth(&self) -> (u32, usize) {
        (self.depth, self.split)
    }

    /// Adds an entry, beside any others of the key.
    pub(crate) fn insert(&mut self, key: &LocatorKey<'_>, value: &V) {
        debug_assert_eq!(key.hash, self.hashing.of(key.keyspace, key.key), "MT-3");
        if self.pages.is_empty() {
            self.pages = vec![Vec::new()];
        }
        let (page, drawer) = self.probe(key.hash);
        let entry = encode(key.keyspace, key.key, value);
        let at = self.pages.get(page).map_or(HEAD_BYTES, |page| drawer_in(page, drawer).end);
        self.splice(page, drawer, at..at, &entry);
        self.entries += 1;
        self.key_bytes += key.key.len();
        self.split_if_full();
    }

    /// Changes the values of a key that `change` has something else for; returns how many.
    pub(crate) fn change(
        &mut self,
        key: &LocatorKey<'_>,
        change: impl Fn(&V) -> Option<V>,
    ) -> usize {
        let (page, drawer) = self.probe(key.hash);
        let mut changed = 0;
        // From the last one on, so that what is before an entry stays where it is.
        for range in self.ranges_of(page, drawer, key).into_iter().rev() {
            let new = self.value_at(page, &range, key).and_then(|value| change(&value));
            if let Some(new) = new {
                self.splice(page, drawer, range, &encode(key.keyspace, key.key, &new));
                changed += 1;
            }
        }
        changed
    }

    /// Takes out a value of a key that `is_wanted` says, if there is one.
    pub(crate) fn remove(
        &mut self,
        key: &LocatorKey<'_>,
        is_wanted: impl Fn(&V) -> bool,
    ) -> Option<V> {
        let (page, drawer) = self.probe(key.hash);
        for range in self.ranges_of(page, drawer, key) {
            let value = self.value_at(page, &range, key).filter(&is_wanted);
            if value.is_some() {
                self.splice(page, drawer, range, &[]);
                self.entries -= 1;
                self.key_bytes -= key.key.len();
                self.merge_if_empty_enough();
                return value;
            }
        }
        None
    }

    /// Changes the value of an entry whose key has this hash, if `change` has something else for
    /// it; returns what it was.
    pub(crate) fn change_by_hash(
        &mut self,
        hash: u64,
        change: impl Fn(&Entry<'_, V>) -> Option<V>,
    ) -> Option<V> {
        let (page, drawer) = self.probe(hash);
        let bytes = self.pages.get(page)?;
        let start = drawer_in(bytes, drawer).start;
        let (range, before, new) =
            Bodies::of(drawer_of(bytes, drawer)).find_map(|(range, body)| {
                let entry = entry_of(body)?;
                let is_of_hash = self.hashing.of(entry.keyspace, entry.key) == hash;
                let new = if is_of_hash { change(&entry)? } else { return None };
                Some((range, entry.value, encode(entry.keyspace, entry.key, &new)))
            })?;
        self.splice(page, drawer, start + range.start..start + range.end, &new);
        Some(before)
    }

    /// Keeps what `is_kept` says, of all entries.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(KeyspaceId, &V) -> bool) {
        for page in &mut self.pages {
            let mut kept = Packer::default();
            let (mut entries, mut key_bytes) = (0, 0);
            for drawer in 0..DRAWERS {
                let bytes = drawer_of(page, drawer);
                for (range, body) in Bodies::of(bytes) {
                    let Some(entry) = entry_of::<V>(body) else { continue };
                    if is_kept(entry.keyspace, &entry.value) {
                        kept.push(drawer, bytes.get(range).unwrap_or_default());
                    } else {
                        entries += 1;
                        key_bytes += entry.key.len();
                    }
                }
            }
            if entries > 0 {
                self.page_bytes -= page.capacity();
                *page = kept.page();
                self.page_bytes += page.capacity();
                self.entries -= entries;
                self.key_bytes -= key_bytes;
            }
        }
        while self.merge_if_empty_enough() {}
    }

    /// Where in its page the entries of a key stand.
    fn ranges_of(&self, page: usize, drawer: usize, key: &LocatorKey<'_>) -> Vec<Range<usize>> {
        let Some(page) = self.pages.get(page) else { return Vec::new() };
        let start = drawer_in(page, drawer).start;
        let of_key = Bodies::of(drawer_of(page, drawer))
            .filter(|(_, body)| value_of::<V>(body, key).is_some());
        of_key.map(|(range, _)| start + range.start..start + range.end).collect()
    }

    fn value_at(&self, page: usize, range: &Range<usize>, key: &LocatorKey<'_>) -> Option<V> {
        let bytes = self.pages.get(page)?.get(range.clone())?;
        let (_, body) = Bodies::of(bytes).next()?;
        value_of(body, key)
    }

    /// Puts bytes in the place of others, in a drawer.
    fn splice(&mut self, page: usize, drawer: usize, range: Range<usize>, new: &[u8]) {
        let Some(page) = self.pages.get_mut(page) else { return };
        let before = page.capacity();
        let length = page.len().max(HEAD_BYTES) - range.len() + new.len();
        if length > page.capacity() {
            page.reserve_exact(length.next_multiple_of(STEP_BYTES) - page.len());
        }
        if page.is_empty() {
            begin_page(page);
        }
        move_ends(page, drawer, range.len(), new.len());
        page.splice(range, new.iter().copied());
        if length == HEAD_BYTES {
            *page = Vec::new();
        } else if page.capacity() - length >= 2 * STEP_BYTES {
            page.shrink_to(length.next_multiple_of(STEP_BYTES));
        }
        self.page_bytes = self.page_bytes + page.capacity() - before;
    }

    /// Splits the next page, if there is too much for the pages there are.
    fn split_if_full(&mut self) {
        let pages = self.pages.len();
        let is_full = self.entries > pages.saturating_mul(self.shape.page_entries)
            || self.page_bytes > pages.saturating_mul(self.shape.page_bytes);
        if !is_full || self.depth >= DEPTH_MAX {
            return;
        }
        let (hashing, depth) = (self.hashing, self.depth);
        let Some(page) = self.pages.get_mut(self.split) else { return };
        let all = std::mem::take(page);
        let mut halves = [Packer::default(), Packer::default()];
        for drawer in 0..DRAWERS {
            let bytes = drawer_of(&all, drawer);
            for (range, body) in Bodies::of(bytes) {
                let Some(entry) = entry_of::<V>(body) else { continue };
                let hash = hashing.of(entry.keyspace, entry.key) << hashing.shard_bits;
                let [zeros, ones] = &mut halves;
                let half = if hash >> (63 - depth) & 1 == 0 { zeros } else { ones };
                half.push(drawer, bytes.get(range).unwrap_or_default());
            }
        }
        let [zeros, ones] = halves.map(|half| half.page());
        self.page_bytes = self.page_bytes + zeros.capacity() + ones.capacity() - all.capacity();
        *page = zeros;
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact(self.directory_step());
        }
        self.pages.push(ones);
        self.split += 1;
        if self.split == 1 << self.depth {
            self.depth += 1;
            self.split = 0;
        }
    }

    /// Undoes the latest split, if there is less than half of what pages could have.
    fn merge_if_empty_enough(&mut self) -> bool {
        let pages = self.pages.len();
        let is_needed = self.entries * 2 >= pages.saturating_mul(self.shape.page_entries)
            || self.page_bytes * 2 >= pages.saturating_mul(self.shape.page_bytes);
        if pages < 2 || is_needed {
            return false;
        }
        if self.split == 0 {
            self.depth -= 1;
            self.split = 1 << self.depth;
        }
        self.split -= 1;
        let Some(ones) = self.pages.pop() else { return false };
        if self.pages.capacity() > self.pages.len() + self.pages.len() / 8 + 16 {
            self.pages.shrink_to(self.pages.len() + self.pages.len() / 32);
        }
        let Some(page) = self.pages.get_mut(self.split) else { return false };
        let zeros = std::mem::take(page);
        let mut whole = Packer::default();
        for drawer in 0..DRAWERS {
            whole.push(drawer, drawer_of(&zeros, drawer));
            whole.push(drawer, drawer_of(&ones, drawer));
        }
        *page = whole.page();
        let before = zeros.capacity() + ones.capacity();
        self.page_bytes = self.page_bytes + page.capacity() - before;
        true
    }

    /// The table of a shard whose pages have these entries ([`Table::raw_pages`]); an error where
    /// no table has.
    pub(crate) fn from_raw_pages(
        shape: Shape,
        hashing: Hashing,
        shard: usize,
        (depth, split): (u32, usize),
        raw_pages: &[&[u8]],
    ) -> Result<Self> {
        let is_new = raw_pages.is_empty() && depth == 0 && split == 0;
        let is_depth = depth <= DEPTH_MAX && split < 1 << depth;
        if !(is_new || is_depth && raw_pages.len() == (1 << depth) + split) {
            return Err(Error::corruption("pages that make no table of a map"));
        }
        let mut table = Self { depth, split, ..Self::new(shape, hashing) };
        table.pages.reserve_exact(raw_pages.len());
        for (number, raw) in raw_pages.iter().enumerate() {
            let mut page = Packer::default();
            let mut at = 0;
            while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
                let (entry, length) = decode_entry::<V>(rest)?;
                let hash = hashing.of(entry.keyspace, entry.key);
                let key = LocatorKey { keyspace: entry.keyspace, key: entry.key, hash };
                let (wanted, drawer) = table.probe(hash);
                let is_here = hashing.shard(hash) == shard && wanted == number;
                if !is_here || page.has_passed(drawer) || page.holds::<V>(drawer, &key) {
                    return Err(Error::corruption("an entry of a map out of its place"));
                }
                page.push(drawer, rest.get(..length).unwrap_or_default());
                table.entries += 1;
                table.key_bytes += entry.key.len();
                at += length;
            }
            let page = page.page();
            table.page_bytes += page.capacity();
            table.pages.push(page);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests;
