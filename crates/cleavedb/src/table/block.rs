//! A data block in memory and the search for a key in it.
//!
//! Immutable and shared by the block cache. Layout: entries, restart offsets (`u32` each), their
//! number (`u32`). An entry is `shared | unshared | value length` (varints), a tag (kind in the
//! low four bits, bytes of the seq in the high four), the seq (little-endian, no leading zero
//! bytes), the unshared key bytes, the value. At a restart point `shared` is 0.
//!
//! Invariants: B1 the checksum agreed before a block is made, so a block that does not parse was
//! written wrong: all reads are checked all the same. B2 entries are in order: key ascending, seq
//! descending.

use std::cmp::Ordering;
// A `Value` shares the bytes, and it is outside what the model checker watches.
use std::sync::Arc as BytesArc;

use crate::base::codec::Reader;
use crate::base::compress::{self, Compression};
use crate::base::entry::{Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::value::Value;
use crate::memory::cache::Cached;
use crate::table::format::{self, RAW_BLOCK_BYTES_MAX};

/// A block, restored and checked. A clone shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: BytesArc<[u8]>,
    /// End of the entries, start of the restart offsets.
    entries_end: u32,
    restarts: u32,
}

/// Position and header of an entry; `key` is the part it does not share with its predecessor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryAt {
    /// Offset of the entry in the block.
    pub(crate) start: u32,
    /// Key bytes shared with the entry before.
    pub(crate) shared: u32,
    /// Offset of the unshared key bytes.
    pub(crate) key: u32,
    /// Offset of the value, which is where the unshared key bytes end.
    pub(crate) value: u32,
    /// Offset of the next entry, which is where the value ends.
    pub(crate) end: u32,
    /// Sequence number.
    pub(crate) seq: Seq,
    /// Kind.
    pub(crate) kind: Kind,
}

/// The part of an [`EntryAt`] that a search needs of entries before the one it looks for.
#[derive(Clone, Copy)]
struct Outline {
    shared: u32,
    key: u32,
    value: u32,
    end: u32,
}

/// The lengths and the tag of nearly every entry: each in one byte, the value's in up to two.
#[derive(Clone, Copy)]
struct Short {
    shared: u8,
    unshared: u8,
    value: u16,
    tag: u8,
    /// Bytes up to the seq.
    bytes: usize,
}

impl Short {
    /// Of the entry that begins there, if they are so short.
    #[inline(always)]
    fn of(entry: &[u8]) -> Option<Self> {
        let &[shared, unshared, low, high, last] = entry.first_chunk::<5>()?;
        let (value, tag, bytes) = match (low, high) {
            (..0x80, tag) => (u16::from(low), tag, 4),
            (_, 1..0x80) => (u16::from(low & 0x7f) | u16::from(high) << 7, last, 5),
            _ => return None,
        };
        let is_short = (shared | unshared | tag) < 0x80;
        is_short.then_some(Self { shared, unshared, value, tag, bytes })
    }

    /// Where the parts are of the entry, which begins at `start`.
    #[inline(always)]
    fn outline(self, start: u32) -> Outline {
        let key = start + self.bytes as u32 + u32::from(self.tag >> 4);
        let value = key + u32::from(self.unshared);
        let end = value + u32::from(self.value);
        Outline { shared: u32::from(self.shared), key, value, end }
    }
}

/// Outcome of [`Block::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockGet {
    /// The lookup is decided.
    Decided,
    /// An entry behind all versions of the key was met.
    Done,
    /// The block ended: if its index entry is for this very key, the next block may go on.
    Ended,
}

fn damaged() -> Error {
    Error::corruption("block does not parse")
}

impl Block {
    /// Makes a block of the stored bytes at `offset` of the file with this checksum seed.
    pub(crate) fn from_stored(stored: BytesArc<[u8]>, seed: u32, offset: u64) -> Result<Self> {
        let sealed = format::decode_sealed(&stored, seed, offset)?;
        let raw_len = sealed.raw_len;
        if sealed.compression == Compression::None {
            return Self::from_raw(stored, raw_len).map_err(|e| e.at_offset(offset));
        }
        compress::decompress(sealed.compression, sealed.payload, raw_len)
            .and_then(|raw| Self::from_raw(raw.into(), raw_len))
            .map_err(|e| e.at_offset(offset))
    }

    /// Makes a block of its first `len` bytes: what follows (a trailer) is ignored.
    pub(crate) fn from_raw(bytes: BytesArc<[u8]>, len: usize) -> Result<Self> {
        let raw = bytes.get(..len).filter(|_| len <= RAW_BLOCK_BYTES_MAX).ok_or_else(damaged)?;
        let (rest, restarts) = raw.split_last_chunk::<4>().ok_or_else(damaged)?;
        let restarts = u32::from_le_bytes(*restarts);
        let entries_end = (restarts as usize)
            .checked_mul(4)
            .and_then(|table| rest.len().checked_sub(table))
            .and_then(|end| u32::try_from(end).ok())
            .ok_or_else(damaged)?;
        // A block without entries is never written.
        if restarts == 0 || entries_end == 0 {
            return Err(damaged());
        }
        Ok(Self { bytes, entries_end, restarts })
    }

    /// Memory held, for the cache's books.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + size_of::<Self>() + 2 * size_of::<usize>()) as u64
    }

    /// Number of restart points, at least 1.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// End of the entries.
    pub(crate) fn entries_end(&self) -> u32 {
        self.entries_end
    }

    /// Offset of the entry at restart point `number`.
    pub(crate) fn restart(&self, number: u32) -> Result<u32> {
        let at = self.entries_end as usize + 4 * number as usize;
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        match bytes.map(|bytes| u32::from_le_bytes(*bytes)) {
            Some(offset) if number < self.restarts && offset < self.entries_end => Ok(offset),
            _ => Err(damaged()),
        }
    }

    /// The bytes from `start` to `end`; empty where that is outside the block.
    #[inline]
    pub(crate) fn slice(&self, start: u32, end: u32) -> &[u8] {
        self.bytes.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// The bytes from `start` on, whatever they mean.
    #[inline]
    pub(crate) fn bytes_from(&self, start: u32) -> &[u8] {
        self.bytes.get(start as usize..).unwrap_or(&[])
    }

    /// An entry's value, sharing the block.
    pub(crate) fn value(&self, entry: &EntryAt) -> Value {
        Value::shared(self.bytes.clone(), entry.value as usize..entry.end as usize)
    }

    /// Decodes the entry at `start`.
    #[inline(always)]
    pub(crate) fn entry(&self, start: u32) -> Result<EntryAt> {
        let rest = self.bytes_from(start);
        // Eight bytes can be read behind every tag, as at least one restart point and the number
        // of restart points follow the last entry.
        if let Some(short) = Short::of(rest)
            && let Some(seq) = rest.get(short.bytes..).and_then(|rest| rest.first_chunk::<8>())
        {
            let seq_bytes = u32::from(short.tag >> 4);
            let Outline { shared, key, value, end } = short.outline(start);
            if let Some(kind) = Kind::from_u8(short.tag & 0x0f)
                && end <= self.entries_end
            {
                let seq = u64::from_le_bytes(*seq) & ((1u64 << (8 * seq_bytes)) - 1);
                return Ok(EntryAt { start, shared, key, value, end, seq, kind });
            }
        }
        self.entry_slow(start)
    }

    /// Where the parts of the entry at `start` are: what a search needs of those it passes by.
    #[inline(always)]
    fn outline(&self, start: u32) -> Result<Outline> {
        if let Some(short) = Short::of(self.bytes_from(start)) {
            let outline = short.outline(start);
            if outline.end <= self.entries_end {
                return Ok(outline);
            }
        }
        let EntryAt { shared, key, value, end, .. } = self.entry_slow(start)?;
        Ok(Outline { shared, key, value, end })
    }

    #[cold]
    #[inline(never)]
    fn entry_slow(&self, start: u32) -> Result<EntryAt> {
        let rest = self.bytes.get(start as usize..self.entries_end as usize);
        let rest = rest.ok_or_else(damaged)?;
        let mut reader = Reader::new(rest);
        let shared = reader.varint()?;
        let (unshared, value) = (reader.varint_u32()?, reader.varint_u32()?);
        let tag = reader.u8()?;
        let mut seq = [0u8; 8];
        let seq_bytes = reader.take(usize::from(tag >> 4))?;
        seq.get_mut(..seq_bytes.len())
            .filter(|_| seq_bytes.len() < 8)
            .ok_or_else(damaged)?
            .copy_from_slice(seq_bytes);
        let key = start + (rest.len() - reader.rest().len()) as u32;
        reader.take(unshared as usize)?;
        reader.take(value as usize)?;
        Ok(EntryAt {
            start,
            shared: u16::try_from(shared).map_err(|_| damaged())?.into(),
            key,
            value: key + unshared,
            end: key + unshared + value,
            seq: u64::from_le_bytes(seq),
            kind: Kind::from_u8(tag & 0x0f).ok_or_else(damaged)?,
        })
    }

    /// The restart interval that may hold the first entry at or after (key, seq): the last one
    /// whose first entry is before it, else the first.
    pub(crate) fn seek_interval(&self, key: &[u8], seq: Seq) -> Result<u32> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let entry = self.entry(self.restart(middle)?)?;
            let order = self.slice(entry.key, entry.value).cmp(key);
            if order.then_with(|| seq.cmp(&entry.seq)) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first entry at or after (key, seq) and whether it is a version of `key`; `None` where
    /// all entries are before. Compares in place: no key is put together.
    fn find(&self, key: &[u8], seq: Seq) -> Result<Option<(EntryAt, bool)>> {
        let mut at = self.restart(self.seek_interval(key, seq)?)?;
        // Bytes that the entry before has in common with `key`; that entry is before (key, seq).
        let mut matched = 0usize;
        while at < self.entries_end {
            let (start, outline) = (at, self.outline(at)?);
            at = outline.end;
            let shared = outline.shared as usize;
            if shared > matched {
                // Differs from `key` where its predecessor does, so it is before it as well.
                continue;
            }
            let suffix = self.slice(outline.key, outline.value);
            let target = key.get(shared..).unwrap_or(&[]);
            let common = common_prefix(suffix, target);
            match (suffix.get(common), target.get(common)) {
                (None, None) => {
                    let entry = self.entry(start)?;
                    if entry.seq <= seq {
                        return Ok(Some((entry, true)));
                    }
                    matched = shared + common;
                }
                (Some(a), Some(b)) if a < b => matched = shared + common,
                (None, Some(_)) => matched = shared + common,
                (Some(_), _) => return Ok(Some((self.entry(start)?, false))),
            }
        }
        Ok(None)
    }

    /// Offers the versions of `key` that the lookup may see, newest first.
    pub(crate) fn get(&self, key: &[u8], lookup: &mut Lookup) -> Result<BlockGet> {
        let mut entry = match self.find(key, lookup.snapshot)? {
            Some((entry, true)) => entry,
            Some((_, false)) => return Ok(BlockGet::Done),
            None => return Ok(BlockGet::Ended),
        };
        loop {
            if lookup.offer(entry.seq, entry.kind, || self.value(&entry)) {
                return Ok(BlockGet::Decided);
            }
            if entry.end >= self.entries_end {
                return Ok(BlockGet::Ended);
            }
            let next = self.entry(entry.end)?;
            if !self.same_key(&next, key) {
                return Ok(BlockGet::Done);
            }
            if next.seq >= entry.seq {
                return Err(damaged());
            }
            entry = next;
        }
    }

    /// Whether `entry`, whose predecessor is a version of `key`, is one too.
    fn same_key(&self, entry: &EntryAt, key: &[u8]) -> bool {
        let shared = entry.shared as usize;
        key.get(shared..).is_some_and(|rest| rest == self.slice(entry.key, entry.value))
    }
}

impl Cached for Block {
    fn memory_bytes(&self) -> u64 {
        Block::memory_bytes(self)
    }
}

/// Length of the common prefix of two byte strings.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let shorter = a.len().min(b.len());
    if shorter < 16 {
        return a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(shorter);
    }
    common_prefix_by_words(a, b)
}

fn common_prefix_by_words(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    let (mut a_words, mut b_words) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in a_words.by_ref().zip(b_words.by_ref()) {
        let (Some(x), Some(y)) = (x.first_chunk::<8>(), y.first_chunk::<8>()) else { break };
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return common + difference.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let (a, b) = (a.get(common..).unwrap_or(&[]), b.get(common..).unwrap_or(&[]));
    common + a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests;
