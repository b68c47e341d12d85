//! The bytes of a bucket's fixed parts: header, meta, chunks. Encoding and decoding only; no I/O,
//! any thread. `docs/format/bucket.md` has the page.
//!
//! Invariants: BF-1 every checksum is seeded with database and file and bound to its offset (rule
//! F1). BF-2 header, pages, meta and chunks tile the committed bytes. BF-3 each chunk states the
//! checksum of what is before it, so that the last one, which the manifest knows, proves all. BF-4
//! no length is trusted before it is compared with what is there (rule F8). BF-5 what decodes has
//! one encoding.

use std::ops::Range;

use crate::base::checksum::{KeyedHash, crc_at, file_seed};
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{FileId, KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::FileKind;
use crate::deltas::ranges::{self, RangeAnchor};
use crate::deltas::record::{Bound, GroupTotals, Groups, OwnedBound, decode_bound};
use crate::log::format::{FORMAT_VERSION, unsupported_version};
use crate::table::filter::{Filter, decode_filter};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"CLVDELTA";
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Offset of the header's checksum, which covers what is behind it.
pub(crate) const HEADER_CRC_AT: usize = 8;
/// Offset of the uuid in the header; the file number follows.
pub(crate) const HEADER_UUID_AT: usize = 16;
/// Offset of the end of the pages; that of the sorted part follows.
pub(crate) const HEADER_PAGES_END_AT: usize = 40;
/// Where the checksum of the header begins to count.
const COVERED_FROM: usize = 12;
/// Zeros in the header.
pub(crate) const HEADER_ZEROS: usize = 14;
/// Last byte of the header.
const END: u8 = 0xDB;

/// Bytes of a chunk in front of its counts: checksum, length, link.
pub(crate) const CHUNK_FIXED_BYTES: usize = 12;
/// Fewest bytes of a page in the index.
const PAGE_ENTRY_BYTES_MIN: usize = 7;
/// Bytes of a checksum in front of what it covers.
pub(crate) const CRC_BYTES: usize = 4;

/// Most bytes of a bucket: its offsets are 32-bit, and a scan holds one in memory.
pub(crate) const BUCKET_BYTES_MAX: u64 = 16 << 20;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Where the pages end and the meta begins.
    pub(crate) pages_end: u32,
    /// Where the meta ends and chunks begin.
    pub(crate) sorted_bytes: u32,
}

impl Header {
    /// The header's bytes.
    pub(crate) fn encode(&self, uuid: &[u8; 16], file: FileId) -> [u8; HEADER_BYTES] {
        let mut covered = Vec::with_capacity(HEADER_BYTES);
        covered.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        covered.extend_from_slice(uuid);
        covered.extend_from_slice(&file.0.to_le_bytes());
        covered.extend_from_slice(&self.pages_end.to_le_bytes());
        covered.extend_from_slice(&self.sorted_bytes.to_le_bytes());
        covered.extend_from_slice(&[0; HEADER_ZEROS]);
        covered.extend_from_slice(&[FileKind::Bucket as u8, END]);
        let crc = crc_at(file_seed(uuid, file.0), COVERED_FROM as u64, &covered);
        let mut out = [0; HEADER_BYTES];
        let parts = MAGIC.into_iter().chain(crc.to_le_bytes()).chain(covered);
        out.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        out
    }

    /// Decodes and proves the header of a bucket.
    pub(crate) fn decode(bytes: &[u8], uuid: &[u8; 16], file: FileId) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("not a bucket: wrong magic number"));
        }
        let crc = reader.u32()?;
        if crc != crc_at(file_seed(uuid, file.0), COVERED_FROM as u64, reader.rest()) {
            return Err(Error::corruption("a bucket's header is damaged, or of another file"));
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(unsupported_version(version));
        }
        reader.uuid()?;
        reader.u64()?;
        let header = Self { pages_end: reader.u32()?, sorted_bytes: reader.u32()? };
        let tiles = header.pages_end >= HEADER_BYTES as u32
            && header.pages_end < header.sorted_bytes
            && u64::from(header.sorted_bytes) <= BUCKET_BYTES_MAX;
        if !tiles || bytes != header.encode(uuid, file) {
            return Err(Error::corruption("a bucket's header states what cannot be"));
        }
        Ok(header)
    }
}

/// One page of the sorted part, or one piece of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where it begins.
    pub(crate) offset: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Their checksum, bound to the offset.
    pub(crate) checksum: u32,
    /// Not above its first key, above the last key of the page before.
    pub(crate) bound: OwnedBound,
}

/// Which of these a key would stand in.
pub(crate) fn page_of(pages: &[Page], bound: Bound<'_>) -> Option<usize> {
    pages.partition_point(|page| page.bound.as_ref() <= bound).checked_sub(1)
}

impl Page {
    /// Where it stands.
    pub(crate) fn range(&self) -> Range<u64> {
        u64::from(self.offset)..u64::from(self.offset) + u64::from(self.bytes)
    }

    /// Proves the bytes of the page.
    pub(crate) fn check(&self, seed: u32, bytes: &[u8]) -> Result<()> {
        let holds = bytes.len() == self.bytes as usize
            && crc_at(seed, u64::from(self.offset), bytes) == self.checksum;
        if holds {
            return Ok(());
        }
        let error = Error::corruption("a page or piece of a bucket does not match its checksum");
        Err(error.at_offset(u64::from(self.offset)))
    }
}

/// The shortest bound that separates a page from the one before: above `last`, not above `first`.
pub(crate) fn separator(last: Option<Bound<'_>>, first: Bound<'_>) -> OwnedBound {
    let Some(last) = last else {
        return OwnedBound { keyspace: KeyspaceId(0), key: Box::default() };
    };
    let shared = last.key.iter().zip(first.key).take_while(|(a, b)| a == b).count();
    let length = if last.keyspace < first.keyspace { 0 } else { shared + 1 };
    Bound { keyspace: first.keyspace, key: first.key.get(..length).unwrap_or(first.key) }.to_owned()
}

/// What is known of the sorted part as a whole: it stands behind its pages.
#[derive(Debug)]
pub(crate) struct Meta {
    /// Every delta up to this seq that the bucket was given is in it, or was dropped.
    pub(crate) applied_seq: Seq,
    /// Keys in the pages.
    pub(crate) keys: u64,
    /// Records in the pages.
    pub(crate) records: u64,
    /// The pages.
    pub(crate) pages: Vec<Page>,
    /// Which keys are in them.
    pub(crate) filter: Filter,
    /// Range anchors.
    pub(crate) ranges: Vec<RangeAnchor>,
    /// Its own checksum.
    pub(crate) checksum: u32,
}

impl Meta {
    /// The meta's bytes where it stands at `offset`; `self.checksum` is not looked at.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> Vec<u8> {
        let mut index = Vec::new();
        put_varint(&mut index, self.pages.len() as u64);
        for page in &self.pages {
            put_varint(&mut index, u64::from(page.bytes));
            index.extend_from_slice(&page.checksum.to_le_bytes());
            page.bound.encode(&mut index);
        }
        let mut out = vec![0; CRC_BYTES];
        for number in [self.applied_seq, self.keys, self.records] {
            put_varint(&mut out, number);
        }
        put_bytes(&mut out, &index);
        put_bytes(&mut out, &self.filter.encode());
        ranges::encode(&self.ranges, &mut out);
        seal(&mut out, seed, offset);
        out
    }

    /// Decodes and proves the meta that stands at `offset`, behind the pages.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<Self> {
        let checksum = proven(bytes, seed, offset)
            .ok_or_else(|| Error::corruption("a bucket's meta does not match its checksum"))?;
        let mut reader = Reader::new(bytes);
        reader.u32()?;
        let (applied_seq, keys, records) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let pages = decode_index(reader.bytes()?, offset)?;
        let filter = decode_filter(reader.bytes()?)?;
        let ranges = ranges::decode(&mut reader)?;
        let is_sound = reader.is_empty()
            && applied_seq <= SEQ_MAX
            && keys <= records
            && (keys == 0) == pages.is_empty()
            && keys >= pages.len() as u64
            && records <= offset
            && ranges.iter().all(|anchor| anchor.range.seq <= applied_seq);
        if !is_sound {
            return Err(Error::corruption("a bucket's meta states what cannot be"));
        }
        Ok(Self { applied_seq, keys, records, pages, filter, ranges, checksum })
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ranges = ranges::memory_bytes(&self.ranges);
        (size_of::<Self>() + index_bytes(&self.pages) + ranges) as u64 + self.filter.memory_bytes()
    }
}

/// Memory of an index.
fn index_bytes(pages: &[Page]) -> usize {
    pages.iter().map(|page| 12 + page.bound.memory_bytes()).sum()
}

fn decode_index(bytes: &[u8], pages_end: u64) -> Result<Vec<Page>> {
    let mut reader = Reader::new(bytes);
    let count = reader.varint()?;
    if count > (reader.rest().len() / PAGE_ENTRY_BYTES_MIN) as u64 {
        return Err(Error::corruption("more pages in a bucket's index than there are bytes"));
    }
    let mut pages: Vec<Page> = Vec::with_capacity(count as usize);
    let mut offset = HEADER_BYTES as u64;
    for _ in 0..count {
        let (bytes, checksum) = (reader.varint_u32()?, reader.u32()?);
        let bound = decode_bound(&mut reader, KEY_BYTES_MAX)?;
        let end = offset + u64::from(bytes);
        let ascends = match pages.last() {
            Some(last) => last.bound.as_ref() < bound,
            None => bound == separator(None, bound).as_ref(),
        };
        if !ascends || bytes == 0 || end > pages_end {
            return Err(Error::corruption("a bucket's index does not ascend, or leaves its file"));
        }
        pages.push(Page { offset: offset as u32, bytes, checksum, bound: bound.to_owned() });
        offset = end;
    }
    if !reader.is_empty() || offset != pages_end {
        return Err(Error::corruption("a bucket's index does not cover its pages"));
    }
    Ok(pages)
}

/// The filter over keys with these hashes.
pub(crate) fn filter_of(mut hashes: Vec<u64>) -> Filter {
    Filter::build(&mut hashes)
}

/// What one flush appended: known when the chunk is written, or from its bytes.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Where it begins.
    pub(crate) offset: u32,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Its checksum.
    pub(crate) checksum: u32,
    /// Where in it the groups begin.
    pub(crate) groups_at: u32,
    /// Its groups cut into pieces of a quarter of a page, each with a checksum of its own, so that
    /// a look-up reads no more of it. Never on disk, as the filter.
    pub(crate) pieces: Vec<Page>,
    /// Keys, records and seqs, range anchors included.
    pub(crate) totals: GroupTotals,
    /// Which keys are in it: never on disk, since who brings it to memory has the bytes.
    pub(crate) filter: Filter,
    /// Range anchors.
    pub(crate) ranges: Vec<RangeAnchor>,
}

impl Chunk {
    /// A chunk's bytes where it stands at `offset` behind what has the checksum `link`, and what
    /// is known of it. `groups` and `ranges` are in order.
    pub(crate) fn encode(
        (seed, offset, link): (u32, u64, u32),
        groups: &[u8],
        ranges: &[RangeAnchor],
        reading: Reading,
    ) -> Result<(Vec<u8>, Self)> {
        let mut totals = GroupTotals::of(groups, |_| Ok(()))?;
        ranges::count(ranges, &mut totals);
        let mut out = vec![0; CHUNK_FIXED_BYTES];
        let span = totals.last_seq.saturating_sub(totals.first_seq);
        for number in [totals.first_seq, span, totals.groups, totals.records] {
            put_varint(&mut out, number);
        }
        ranges::encode(ranges, &mut out);
        out.extend_from_slice(groups);
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        let fixed = length.to_le_bytes().into_iter().chain(link.to_le_bytes());
        out.iter_mut().skip(CRC_BYTES).zip(fixed).for_each(|(to, from)| *to = from);
        seal(&mut out, seed, offset);
        let chunk = Self::decode(&out, (seed, offset, link), reading)?;
        Ok((out, chunk))
    }

    /// Decodes and proves the chunk that begins `bytes`, at `offset` behind what has the checksum
    /// `link`, and all its groups.
    pub(crate) fn decode(
        bytes: &[u8],
        (seed, offset, link): (u32, u64, u32),
        reading: Reading,
    ) -> Result<Self> {
        let length = stated_bytes(bytes)?;
        let bytes = bytes.get(..length as usize).unwrap_or_default();
        let damaged = || Error::corruption("a chunk of a bucket does not match its checksum");
        let checksum = proven(bytes, seed, offset).ok_or_else(damaged)?;
        let mut reader = Reader::new(bytes);
        reader.take(CRC_BYTES + 4)?;
        if reader.u32()? != link {
            return Err(Error::corruption("a chunk of a bucket follows something else"));
        }
        let (first, span) = (reader.varint()?, reader.varint()?);
        let (keys, records) = (reader.varint()?, reader.varint()?);
        let ranges = ranges::decode(&mut reader)?;
        let groups_at = bytes.len() - reader.rest().len();
        let mut pieces = Pieces::new(bytes, groups_at, (seed, offset), reading.piece_bytes);
        let (mut hashes, mut totals) = (Vec::new(), GroupTotals::default());
        let mut groups = Groups::new(reader.rest());
        while let Some(group) = groups.next_group()? {
            totals.add_group(&group)?;
            hashes.push(reading.hash.hash(group.bound.keyspace, group.bound.key));
            pieces.add(group.bound, bytes.len() - groups.rest_bytes());
        }
        let pieces = pieces.finish();
        ranges::count(&ranges, &mut totals);
        let stated = GroupTotals {
            groups: keys,
            records,
            first_seq: first,
            last_seq: first.saturating_add(span),
        };
        if totals != stated || records == 0 {
            return Err(Error::corruption("a chunk of a bucket states what cannot be"));
        }
        Ok(Self {
            offset: offset as u32,
            bytes: length,
            checksum,
            groups_at: groups_at as u32,
            pieces,
            totals,
            filter: filter_of(hashes),
            ranges,
        })
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.bytes)
    }

    /// The number of the piece in which a key would stand.
    pub(crate) fn piece_of(&self, bound: Bound<'_>) -> Option<usize> {
        page_of(&self.pieces, bound)
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ranges = ranges::memory_bytes(&self.ranges);
        (size_of::<Self>() + index_bytes(&self.pieces) + ranges) as u64 + self.filter.memory_bytes()
    }
}

/// What makes a chunk's filter and its pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Hash of keys in filters.
    pub(crate) hash: KeyedHash,
    /// Bytes of a piece, one key with more of its own excepted.
    pub(crate) piece_bytes: usize,
}

/// The pieces of a chunk in the making.
struct Pieces<'a> {
    /// The chunk.
    bytes: &'a [u8],
    /// Seed of checksums, and where in the file the chunk stands.
    place: (u32, u64),
    piece_bytes: usize,
    pieces: Vec<Page>,
    /// Where in the chunk the open piece begins, and what has been added to it ends.
    begin: usize,
    end: usize,
    bound: Option<OwnedBound>,
    last: Option<Bound<'a>>,
}

impl<'a> Pieces<'a> {
    fn new(bytes: &'a [u8], groups_at: usize, place: (u32, u64), piece_bytes: usize) -> Self {
        let (begin, end) = (groups_at, groups_at);
        Self { bytes, place, piece_bytes, pieces: Vec::new(), begin, end, bound: None, last: None }
    }

    /// The next group, which ends at `end` of the chunk.
    fn add(&mut self, bound: Bound<'a>, end: usize) {
        if end - self.begin > self.piece_bytes {
            self.close();
        }
        if self.bound.is_none() {
            self.bound = Some(separator(self.last, bound));
        }
        (self.end, self.last) = (end, Some(bound));
    }

    fn close(&mut self) {
        let Some(bound) = self.bound.take() else { return };
        let (seed, offset) = self.place;
        let bytes = self.bytes.get(self.begin..self.end).unwrap_or_default();
        let offset = offset + self.begin as u64;
        let checksum = crc_at(seed, offset, bytes);
        let (offset, bytes) = (offset as u32, bytes.len() as u32);
        self.pieces.push(Page { offset, bytes, checksum, bound });
        self.begin = self.end;
    }

    fn finish(mut self) -> Vec<Page> {
        self.close();
        self.pieces.shrink_to_fit();
        self.pieces
    }
}

/// Bytes of the chunk that begins `bytes`, as it states itself, which are there.
pub(crate) fn stated_bytes(bytes: &[u8]) -> Result<u32> {
    let mut reader = Reader::new(bytes);
    reader.u32()?;
    let length = reader.u32()?;
    if (length as usize) < CHUNK_FIXED_BYTES || length as usize > bytes.len() {
        return Err(Error::corruption("a chunk of a bucket is longer than its bucket"));
    }
    Ok(length)
}

/// Writes the checksum of what is behind it, bound to the offset of its first byte.
pub(crate) fn seal(bytes: &mut [u8], seed: u32, offset: u64) {
    if let Some((crc, covered)) = bytes.split_first_chunk_mut::<CRC_BYTES>() {
        *crc = crc_at(seed, offset, covered).to_le_bytes();
    }
}

/// The checksum in front of `bytes`, if it holds.
fn proven(bytes: &[u8], seed: u32, offset: u64) -> Option<u32> {
    let (crc, covered) = bytes.split_first_chunk::<CRC_BYTES>()?;
    let crc = u32::from_le_bytes(*crc);
    (crc == crc_at(seed, offset, covered)).then_some(crc)
}

#[cfg(test)]
mod tests;
