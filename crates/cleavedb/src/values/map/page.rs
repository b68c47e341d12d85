//! The bytes of one page of a shard's table: entries in a row, drawer by drawer. Pure functions.
//!
//! A page: the ends of its drawers, four bytes each, counted from its beginning; the entries. An
//! entry: the length of what follows as a varint, keyspace, value, key. What was put in here is
//! trusted; [`decode_entry`] is for bytes from elsewhere.

use std::ops::Range;

use crate::base::codec::{Reader, put_varint, varint_len};
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::values::locator::LocatorKey;

/// Drawers of a page.
pub(crate) const DRAWERS: usize = 16;

/// Bytes of an end.
const END_BYTES: usize = size_of::<u32>();

/// Bytes of a page in front of its entries.
pub(crate) const HEAD_BYTES: usize = DRAWERS * END_BYTES;

/// Bytes by which a page grows: one cache line.
pub(crate) const STEP_BYTES: usize = 64;

/// Most bytes of an entry besides its key: varints of 20, 32, 56, 62, 64, 32 and 56 bits.
pub(crate) const ENTRY_BYTES_MAX: usize = 3 + 5 + 8 + 9 + 10 + 5 + 8;

/// What an entry has besides its key.
pub(crate) trait Stored: Copy {
    /// Appends it; no value's bytes are the beginning of another's.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads what [`Stored::put`] appended.
    fn take(reader: &mut Reader<'_>) -> Result<Self>;
    /// Whether there can be such a value.
    fn is_sound(&self) -> bool;
}

/// An entry, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a, V> {
    /// Where its key lives.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// What it says of it.
    pub(crate) value: V,
}

/// The bytes of an entry.
pub(crate) fn encode<V: Stored>(keyspace: KeyspaceId, key: &[u8], value: &V) -> Vec<u8> {
    let mut body = Vec::with_capacity(STEP_BYTES);
    put_varint(&mut body, u64::from(keyspace.0));
    value.put(&mut body);
    let length = body.len() + key.len();
    let mut entry = Vec::with_capacity(varint_len(length as u64) + length);
    put_varint(&mut entry, length as u64);
    entry.extend_from_slice(&body);
    entry.extend_from_slice(key);
    entry
}

/// The value in an entry's body, if that is the key's.
#[inline]
pub(crate) fn value_of<V: Stored>(body: &[u8], key: &LocatorKey<'_>) -> Option<V> {
    // Whose last bytes are not the key's is another's; nothing else is read of most of these.
    if !body.ends_with(key.key) {
        return None;
    }
    let entry = entry_of(body)?;
    let is_same = entry.keyspace == key.keyspace && entry.key.len() == key.key.len();
    is_same.then_some(entry.value)
}

/// An entry's body, decoded.
#[inline]
pub(crate) fn entry_of<V: Stored>(body: &[u8]) -> Option<Entry<'_, V>> {
    let mut reader = Reader::new(body);
    let keyspace = KeyspaceId(reader.varint_u32().ok()?);
    let value = V::take(&mut reader).ok()?;
    Some(Entry { keyspace, key: reader.rest(), value })
}

/// Decodes and proves the first one of some entries; returns its length, too.
pub(crate) fn decode_entry<V: Stored>(bytes: &[u8]) -> Result<(Entry<'_, V>, usize)> {
    let mut reader = Reader::new(bytes);
    let body = reader.bytes()?;
    let length = bytes.len() - reader.rest().len();
    match entry_of::<V>(body) {
        Some(entry)
            if entry.keyspace.0 > 0
                && entry.key.len() <= KEY_BYTES_MAX
                && entry.value.is_sound() =>
        {
            Ok((entry, length))
        }
        _ => Err(Error::corruption("an entry of a map states what cannot be")),
    }
}

/// Entries in a row: where each one stands, and its body.
pub(crate) struct Bodies<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bodies<'a> {
    /// The entries in these bytes.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<'a> Iterator for Bodies<'a> {
    type Item = (Range<usize>, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let mut reader = Reader::new(rest);
        let body = reader.bytes().ok()?;
        let start = self.at;
        self.at += rest.len() - reader.rest().len();
        Some((start..self.at, body))
    }
}

/// Makes a page, drawer by drawer.
#[derive(Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
    ends: [usize; DRAWERS],
    /// The last one that something was put in.
    drawer: usize,
}

impl Packer {
    /// Appends entries to a drawer; none before that of the last call.
    pub(crate) fn push(&mut self, drawer: usize, entries: &[u8]) {
        debug_assert!(!self.has_passed(drawer));
        self.drawer = drawer;
        self.bytes.extend_from_slice(entries);
        self.ends.iter_mut().skip(drawer).for_each(|end| *end = self.bytes.len());
    }

    /// Whether something was put behind this drawer.
    pub(crate) fn has_passed(&self, drawer: usize) -> bool {
        drawer < self.drawer
    }

    /// Whether the last drawer so far, or one behind it, has an entry of the key.
    pub(crate) fn holds<V: Stored>(&self, drawer: usize, key: &LocatorKey<'_>) -> bool {
        let start = drawer.checked_sub(1).and_then(|before| self.ends.get(before));
        let near = self.bytes.get(start.copied().unwrap_or(0)..).unwrap_or_default();
        Bodies::of(near).any(|(_, body)| value_of::<V>(body, key).is_some())
    }

    /// The page.
    pub(crate) fn page(&self) -> Vec<u8> {
        if self.bytes.is_empty() {
            return Vec::new();
        }
        let length = HEAD_BYTES + self.bytes.len();
        let mut page = Vec::with_capacity(length.next_multiple_of(STEP_BYTES));
        for end in self.ends {
            page.extend_from_slice(&((HEAD_BYTES + end) as u32).to_le_bytes());
        }
        page.extend_from_slice(&self.bytes);
        page
    }
}

/// Puts the head of a page without entries.
pub(crate) fn begin_page(page: &mut Vec<u8>) {
    for _ in 0..DRAWERS {
        page.extend_from_slice(&(HEAD_BYTES as u32).to_le_bytes());
    }
}

/// The entries of a page.
pub(crate) fn entries_of(page: &[u8]) -> &[u8] {
    page.get(HEAD_BYTES..).unwrap_or_default()
}

/// Where in a page a drawer is.
#[inline]
pub(crate) fn drawer_in(page: &[u8], drawer: usize) -> Range<usize> {
    let end = |drawer: usize| {
        let bytes = page.get(drawer * END_BYTES..).and_then(|rest| rest.first_chunk());
        bytes.map_or(HEAD_BYTES, |bytes| u32::from_le_bytes(*bytes) as usize)
    };
    let start = if drawer == 0 { HEAD_BYTES } else { end(drawer - 1) };
    start..end(drawer)
}

/// The entries of a drawer.
#[inline]
pub(crate) fn drawer_of(page: &[u8], drawer: usize) -> &[u8] {
    page.get(drawer_in(page, drawer)).unwrap_or_default()
}

/// So many bytes more and less are in a drawer: it and those behind it end elsewhere.
pub(crate) fn move_ends(page: &mut [u8], drawer: usize, less: usize, more: usize) {
    let ends = page.get_mut(drawer * END_BYTES..HEAD_BYTES).unwrap_or_default();
    for end in ends.as_chunks_mut::<END_BYTES>().0 {
        let moved = u32::from_le_bytes(*end) as usize + more - less;
        *end = (moved as u32).to_le_bytes();
    }
}
