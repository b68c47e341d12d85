//! The index of a table: for each data block a separator key, not smaller than any key in it and
//! smaller than any key behind it.
//!
//! Immutable once built. In memory the separators lie flat, with eight bytes of each (behind the
//! prefix that all share) as one integer, so that a search compares integers first.
//!
//! On disk: number of blocks (varint), then for each `shared | unshared | key bytes | split |
//! stored length` (varints); blocks lie one behind the other from the end of the header. `split`
//! is 0, or 1 + the seq of the block's last entry where the same key goes on in the next block.
//!
//! Invariants: N1 separators ascend; equal ones only where a key is split, seqs then descending.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::table::block::common_prefix;
use crate::table::format::{EXPANSION_MAX, Extent, HEADER_BYTES, TRAILER_BYTES};

/// Fewest bytes of an index entry: five varints of one byte, less an empty key.
const ENTRY_BYTES_MIN: usize = 4;

/// Collects the index while a table is written.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    bytes: Vec<u8>,
    last: Vec<u8>,
    blocks: u64,
}

impl IndexBuilder {
    /// Adds the next block: its separator, stored length and `split` (see the module).
    pub(crate) fn add(&mut self, separator: &[u8], split: Option<Seq>, stored_len: u64) {
        let shared = common_prefix(&self.last, separator);
        let unshared = separator.get(shared..).unwrap_or(&[]);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, unshared.len() as u64);
        self.bytes.extend_from_slice(unshared);
        put_varint(&mut self.bytes, split.map_or(0, |seq| seq + 1));
        put_varint(&mut self.bytes, stored_len);
        self.last.clear();
        self.last.extend_from_slice(separator);
        self.blocks += 1;
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The section's bytes.
    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        put_varint(&mut out, self.blocks);
        out.extend_from_slice(&self.bytes);
        out
    }
}

/// The shortest key not smaller than `last` and smaller than `next`, where `last` < `next`.
pub(crate) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    debug_assert!(last < next);
    out.clear();
    let common = common_prefix(last, next);
    // Within `last`, behind the common part, the first byte that can be raised ends the key.
    if let (Some(&a), Some(&b)) = (last.get(common), next.get(common)) {
        let raised = a + 1;
        if raised < b || (raised == b && next.len() > common + 1) {
            out.extend_from_slice(last.get(..common).unwrap_or(&[]));
            out.push(raised);
            return;
        }
        for (at, &byte) in last.iter().enumerate().skip(common + 1) {
            if byte < 0xff {
                out.extend_from_slice(last.get(..at).unwrap_or(&[]));
                out.push(byte + 1);
                return;
            }
        }
    }
    out.extend_from_slice(last);
}

/// The index in memory.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    /// Length of the prefix that all separators share.
    prefix_len: usize,
    keys: Vec<u8>,
    /// End of each separator in `keys`.
    key_ends: Vec<u32>,
    /// Eight bytes of each separator behind the prefix, as one big-endian integer.
    heads: Vec<u64>,
    /// End of each block in the file.
    block_ends: Vec<u64>,
    /// Blocks whose last key goes on in the next one, and the seq of their last entry.
    splits: Vec<(u32, Seq)>,
}

/// Decodes the section; the blocks must end at `blocks_end`.
pub(crate) fn decode_index(bytes: &[u8], blocks_end: u64) -> Result<BlockIndex> {
    let mut reader = Reader::new(bytes);
    let blocks = reader.varint()?;
    if blocks > (reader.rest().len() / ENTRY_BYTES_MIN) as u64 {
        return Err(Error::corruption("index claims more blocks than it has room for"));
    }
    let mut index = BlockIndex::with_capacity(blocks as usize);
    let mut key = Vec::new();
    let mut end = HEADER_BYTES as u64;
    for number in 0..blocks as usize {
        let shared = reader.varint()? as usize;
        let unshared = reader.bytes()?;
        let split = reader.varint()?.checked_sub(1);
        let length = reader.varint()?;
        if split.is_some_and(|seq| seq > SEQ_MAX) {
            return Err(Error::corruption("index states a seq out of range"));
        }
        if shared > key.len() {
            return Err(Error::corruption("index key shares more than its predecessor"));
        }
        let ascends = number == 0
            || key.get(shared..).unwrap_or(&[]) < unshared
            || index.goes_on(number - 1, split, shared == key.len() && unshared.is_empty());
        if !ascends {
            return Err(Error::corruption("index keys do not ascend"));
        }
        key.truncate(shared);
        key.extend_from_slice(unshared);
        end = end
            .checked_add(length)
            .filter(|&end| end <= blocks_end)
            .ok_or_else(|| Error::corruption("index names blocks beyond the data"))?;
        if length <= TRAILER_BYTES as u64 {
            return Err(Error::corruption("index names an empty block"));
        }
        // A block holds its first key whole, so separators cannot outgrow the data.
        let longest = length.saturating_mul(EXPANSION_MAX as u64).min(KEY_BYTES_MAX as u64);
        if key.len() as u64 > longest {
            return Err(Error::corruption("index key longer than its block"));
        }
        index.push(&key, split, end)?;
    }
    if !reader.is_empty() || end != blocks_end {
        return Err(Error::corruption("index does not cover the data blocks"));
    }
    index.finish();
    Ok(index)
}

impl BlockIndex {
    fn with_capacity(blocks: usize) -> Self {
        Self {
            prefix_len: 0,
            keys: Vec::new(),
            key_ends: Vec::with_capacity(blocks),
            heads: Vec::with_capacity(blocks),
            block_ends: Vec::with_capacity(blocks),
            splits: Vec::new(),
        }
    }

    /// Whether a block with the same separator may follow block `number`.
    fn goes_on(&self, number: usize, next_split: Option<Seq>, same_key: bool) -> bool {
        match (self.split(number), next_split) {
            (Some(seq), Some(next)) => same_key && next < seq,
            (Some(_), None) => same_key,
            (None, _) => false,
        }
    }

    fn push(&mut self, key: &[u8], split: Option<Seq>, end: u64) -> Result<()> {
        if let Some(seq) = split {
            self.splits.push((self.key_ends.len() as u32, seq));
        }
        self.keys.extend_from_slice(key);
        let key_end = u32::try_from(self.keys.len())
            .map_err(|_| Error::corruption("index keys exceed four gigabytes"))?;
        self.key_ends.push(key_end);
        self.block_ends.push(end);
        Ok(())
    }

    /// Computes what is derived: the common prefix and the heads.
    fn finish(&mut self) {
        self.keys.shrink_to_fit();
        let Some(last) = self.len().checked_sub(1) else { return };
        self.prefix_len = common_prefix(self.separator(0), self.separator(last));
        for number in 0..self.len() {
            let head = head(self.separator(number).get(self.prefix_len..).unwrap_or(&[]));
            self.heads.push(head);
        }
    }

    /// Number of data blocks.
    pub(crate) fn len(&self) -> usize {
        self.block_ends.len()
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let words = self.heads.capacity() + self.block_ends.capacity() + 2 * self.splits.capacity();
        (self.keys.capacity() + 4 * self.key_ends.capacity() + 8 * words) as u64
    }

    /// Separator of block `number`.
    #[inline]
    pub(crate) fn separator(&self, number: usize) -> &[u8] {
        let start = match number.checked_sub(1) {
            Some(before) => self.key_ends.get(before).copied().unwrap_or(0),
            None => 0,
        };
        let end = self.key_ends.get(number).copied().unwrap_or(start);
        self.keys.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// Seq of the last entry of block `number`, if its key goes on in the next block.
    pub(crate) fn split(&self, number: usize) -> Option<Seq> {
        if self.splits.is_empty() {
            return None;
        }
        let at = self.splits.binary_search_by_key(&(number as u32), |&(number, _)| number).ok()?;
        self.splits.get(at).map(|&(_, seq)| seq)
    }

    /// Where block `number` lies.
    pub(crate) fn extent(&self, number: usize) -> Option<Extent> {
        let end = *self.block_ends.get(number)?;
        let offset = match number.checked_sub(1) {
            Some(before) => *self.block_ends.get(before)?,
            None => HEADER_BYTES as u64,
        };
        Some(Extent { offset, len: end - offset })
    }

    /// The first block that may hold an entry at or after (key, seq); `None` where all are before.
    pub(crate) fn locate(&self, key: &[u8], seq: Seq) -> Option<usize> {
        let prefix = self.separator(0).get(..self.prefix_len).unwrap_or(&[]);
        let Some(rest) = key.strip_prefix(prefix) else {
            return (key < prefix && self.len() > 0).then_some(0);
        };
        let wanted = head(rest);
        let mut number = self.heads.partition_point(|&head| head < wanted);
        if self.heads.get(number) == Some(&wanted) {
            let ties = self.heads.get(number..).unwrap_or(&[]);
            let ties = ties.partition_point(|&head| head == wanted);
            number = self.first_at_or_after(number, number + ties, key, seq);
        }
        (number < self.len()).then_some(number)
    }

    /// Binary search by whole keys among blocks `low..high`.
    fn first_at_or_after(&self, mut low: usize, mut high: usize, key: &[u8], seq: Seq) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            let order = self.separator(middle).cmp(key);
            // A split separator stands for (key, seq of the last entry), another for all seqs.
            let before =
                order.is_lt() || (order.is_eq() && self.split(middle).is_some_and(|s| s > seq));
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The first eight bytes as a big-endian integer, padded with zeros: never decreases where the
/// keys ascend.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => bytes.iter().rev().fold(0, |head, &byte| (head >> 8) | (u64::from(byte) << 56)),
    }
}

#[cfg(test)]
mod tests;
