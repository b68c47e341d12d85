//! The bytes of an interval: records of entries one behind the other, and how they are read.
//!
//! A record is three varints (bytes of the key, seq and kind, bytes of the value), the key, the
//! value. Records stand in entry order, but for a tail of such as were appended later, each lot of
//! them in order; reading sorts. A [`Run`] is the bytes as they are, where each record begins, in
//! entry order, and sixteen bits of each key's hash: what a cache holds, and what a look-up
//! searches without touching more than the record it is after.
//!
//! Immutable once made. Invariants: R-1 entries are in strict entry order. R-2 every record lies
//! within the bytes. `docs/format/flex-intervals.md` has the bytes.

use std::cmp::Ordering;
use std::ops::Range;
// Values are handed to users, and they are outside what the model checker watches.
use std::sync::Arc as ValueArc;

use crate::base::checksum::key_hash;
use crate::base::codec::{Reader, put_varint, short_varint};
use crate::base::cursor::{Cursor, Head};
use crate::base::entry::{Kind, SEQ_MAX, Seq, compare_entries};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::base::lookup::Lookup;
use crate::base::planted::planted;
use crate::base::value::Value;
use crate::index::flex::intervals::filter::KeyFilter;
use crate::index::flex::intervals::state::Totals;

mod changed;

pub(super) use changed::Change;

/// Bits of the number that holds seq and kind which are the kind's.
const KIND_BITS: u32 = 3;

/// A record, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// The seq.
    pub(crate) seq: Seq,
    /// The kind.
    pub(crate) kind: Kind,
    /// Value, operand or handle.
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.key.len() as u64);
        put_varint(out, self.seq << KIND_BITS | self.kind as u64);
        put_varint(out, self.value.len() as u64);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// Reads one.
    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let Header { key_bytes, seq, kind, value_bytes } = Header::decode(reader)?;
        let key = reader.take(key_bytes)?;
        Ok(Self { key, seq, kind, value: reader.take(value_bytes)? })
    }
}

/// What stands in front of a record's key.
#[derive(Clone, Copy)]
struct Header {
    key_bytes: usize,
    seq: Seq,
    kind: Kind,
    value_bytes: usize,
}

impl Header {
    /// Reads it.
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let short = reader.rest().first_chunk().and_then(short_numbers);
        let (key_bytes, packed, value_bytes) = match short {
            Some((numbers, bytes)) => {
                reader.take(bytes)?;
                numbers
            }
            None => (reader.varint()?, reader.varint()?, reader.varint()?),
        };
        let (seq, kind) = (packed >> KIND_BITS, packed & ((1 << KIND_BITS) - 1));
        let is_known = match Kind::from_u8(kind as u8) {
            Some(Kind::Put | Kind::PutSeparated | Kind::Merge) => true,
            Some(Kind::PutBare | Kind::Delete) => value_bytes == 0,
            _ => false,
        };
        let is_right = is_known
            && (1..=SEQ_MAX).contains(&seq)
            && key_bytes <= KEY_BYTES_MAX as u64
            && value_bytes <= VALUE_BYTES_MAX as u64;
        let kind = Kind::from_u8(kind as u8).filter(|_| is_right);
        let Some(kind) = kind else { return Err(misread(key_bytes, packed, value_bytes)) };
        Ok(Self { key_bytes: key_bytes as usize, seq, kind, value_bytes: value_bytes as usize })
    }
}

/// The three numbers of a header of the usual lengths (a byte, up to eight, up to two) and the
/// bytes of them all; none where it is another one, or none at all. Most of the way from record to
/// record is this, so it has no loop and few branches.
#[inline]
fn short_numbers(head: &[u8; 16]) -> Option<((u64, u64, u64), usize)> {
    let head = u128::from_le_bytes(*head);
    let (key_bytes, word) = (head as u64 & 0xff, (head >> 8) as u64);
    let (packed, packed_bytes) = short_varint(word)?;
    let behind = (head >> (8 * (1 + packed_bytes))) as u64;
    let (low, high) = (behind & 0xff, behind >> 8 & 0xff);
    let (value_bytes, bytes) = match (low, high) {
        (..0x80, _) => (low, 1),
        (_, 1..0x80) => (low & 0x7f | high << 7, 2),
        _ => return None,
    };
    (key_bytes < 0x80).then_some(((key_bytes, packed, value_bytes), 1 + packed_bytes + bytes))
}

// Apart, so that reading stays small.
#[cold]
fn misread(key_bytes: u64, packed: u64, value_bytes: u64) -> Error {
    let (seq, kind) = (packed >> KIND_BITS, packed & ((1 << KIND_BITS) - 1));
    Error::corruption(format!(
        "a record of seq {seq}, kind {kind}, {key_bytes} bytes of key and {value_bytes} of value"
    ))
}

/// What decides where a record stands among others, and where it begins.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a [u8],
    seq: Seq,
    start: u32,
}

impl Entry<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        compare_entries((self.key, self.seq), (other.key, other.seq))
    }
}

/// Fingerprints that are compared at once.
const LOT: usize = 16;

/// Records of an interval, in entry order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    bytes: ValueArc<Vec<u8>>,
    starts: Vec<u32>,
    fingerprints: Vec<u16>,
    is_sorted: bool,
    totals: Totals,
}

/// The bits of a key's hash that are kept of it.
pub(super) fn fingerprint(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// The first of these records must not lie below an anchor.
pub(super) fn check_first(bytes: &[u8], anchor: &[u8]) -> Result<()> {
    let mut reader = Reader::new(bytes);
    if !reader.is_empty() && Record::decode(&mut reader)?.key < anchor {
        let anchor = anchor.escape_ascii();
        let message = format!("an interval of \"{anchor}\" holds keys of others");
        return Err(Error::corruption(message));
    }
    Ok(())
}

/// Offers the versions of a key that a lookup sees out of records that stand in order; true when it
/// is decided. What lies behind the key is not looked at, and nothing is made of what lies before.
pub(super) fn offer_in_order(bytes: &[u8], key: &[u8], lookup: &mut Lookup) -> Result<bool> {
    let mut reader = Reader::new(bytes);
    let mut last: Option<(&[u8], Seq)> = None;
    while !reader.is_empty() {
        let record = Record::decode(&mut reader)?;
        let entry = (record.key, record.seq);
        if last.is_some_and(|last| compare_entries(last, entry).is_ge()) {
            return Err(Error::corruption("an interval whose records are not in order"));
        }
        last = Some(entry);
        match record.key.cmp(key) {
            Ordering::Less => {}
            Ordering::Greater => break,
            Ordering::Equal => {
                let value = || Value::copy_from(record.value);
                if record.seq <= lookup.snapshot && lookup.offer(record.seq, record.kind, value) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

impl Run {
    /// Reads the bytes of an interval, all of them.
    pub(crate) fn decode(bytes: Vec<u8>) -> Result<Self> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(too_large());
        }
        let mut reader = Reader::new(&bytes);
        let (mut starts, mut fingerprints) = (Vec::new(), Vec::new());
        let (mut is_sorted, mut totals) = (true, Totals::default());
        let mut last: Option<(&[u8], Seq)> = None;
        while !reader.is_empty() {
            let start = bytes.len() - reader.rest().len();
            let at = |error: Error| error.context(format_args!("record at byte {start}"));
            let record = Record::decode(&mut reader).map_err(at)?;
            if last.is_none() {
                // Others are like the first one, mostly.
                let room = bytes.len() / (bytes.len() - reader.rest().len()).max(1) + 1;
                starts.reserve_exact(room);
                fingerprints.reserve_exact(room);
            }
            starts.push(start as u32);
            fingerprints.push(fingerprint(key_hash(record.key)));
            let entry = (record.key, record.seq);
            is_sorted &= last.is_none_or(|last| compare_entries(last, entry).is_lt());
            last = Some(entry);
            totals.add(&record);
        }
        // What is a little too long is not worth another allocation.
        if starts.capacity() - starts.len() > starts.len() / 8 {
            starts.shrink_to_fit();
            fingerprints.shrink_to_fit();
        }
        let bytes = ValueArc::new(bytes);
        let mut run = Self { bytes, starts, fingerprints, is_sorted, totals };
        if !is_sorted && !planted!("flex_tail_left_unsorted") {
            run.sort()?;
        }
        Ok(run)
    }

    /// Puts what was appended in its place.
    fn sort(&mut self) -> Result<()> {
        let fingerprints = self.fingerprints.iter();
        let mut entries: Vec<(Entry<'_>, u16)> = self
            .starts
            .iter()
            .zip(fingerprints)
            .map(|(start, fingerprint)| {
                let record = self.record_at(*start);
                (Entry { key: record.key, seq: record.seq, start: *start }, *fingerprint)
            })
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.compare(b));
        if !entries.is_sorted_by(|(a, _), (b, _)| a.compare(b).is_lt()) {
            return Err(Error::corruption("an interval holds an entry twice"));
        }
        (self.starts, self.fingerprints) =
            entries.iter().map(|(entry, fingerprint)| (entry.start, *fingerprint)).unzip();
        Ok(())
    }

    /// The record that begins there; one of no meaning where none does.
    fn record_at(&self, start: u32) -> Record<'_> {
        let rest = self.bytes.get(start as usize..).unwrap_or_default();
        let none = Record { key: &[], seq: 0, kind: Kind::Delete, value: &[] };
        Record::decode(&mut Reader::new(rest)).unwrap_or(none)
    }

    /// The record of this number.
    pub(crate) fn get(&self, number: usize) -> Option<Record<'_>> {
        self.starts.get(number).map(|start| self.record_at(*start))
    }

    /// The bytes of the interval, as they lie in the space.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Figures of them.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        self.starts.iter().map(|start| self.record_at(*start))
    }

    /// Whether they stand there in entry order.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Where a record of this number begins in bytes that are in order; the end behind the last.
    pub(crate) fn start(&self, number: usize) -> u64 {
        self.starts.get(number).map_or(self.bytes.len() as u64, |start| u64::from(*start))
    }

    /// Number of the first record at or behind (key, seq).
    pub(crate) fn lower_bound(&self, key: &[u8], seq: Seq) -> usize {
        self.starts.partition_point(|start| {
            let record = self.record_at(*start);
            compare_entries((record.key, record.seq), (key, seq)).is_lt()
        })
    }

    /// Number of the first record of a key.
    fn find(&self, key: &[u8], wanted: u16) -> Option<usize> {
        let is_key = |number: usize| self.get(number).is_some_and(|record| record.key == key);
        let (lots, rest) = self.fingerprints.as_chunks::<LOT>();
        for (lot, fingerprints) in lots.iter().enumerate() {
            // One comparison of vectors says that none of them is it.
            let mut equal = 0u32;
            for (bit, fingerprint) in fingerprints.iter().enumerate() {
                equal |= u32::from(*fingerprint == wanted) << bit;
            }
            while equal != 0 {
                let number = lot * LOT + equal.trailing_zeros() as usize;
                if is_key(number) {
                    return Some(number);
                }
                equal &= equal - 1;
            }
        }
        let begin = lots.len() * LOT;
        let mut rest = rest.iter().zip(begin..).filter(|(fingerprint, _)| **fingerprint == wanted);
        rest.find_map(|(_, number)| is_key(number).then_some(number))
    }

    /// Offers the versions of a key that a lookup sees, from newest to oldest; true when it is
    /// decided.
    pub(crate) fn offer(&self, key: &[u8], hash: u64, lookup: &mut Lookup) -> bool {
        let first = self.find(key, fingerprint(hash));
        let versions = first.into_iter().flat_map(|first| self.starts.iter().skip(first));
        for start in versions {
            let record = self.record_at(*start);
            if record.key != key {
                break;
            }
            if record.seq <= lookup.snapshot
                && lookup.offer(record.seq, record.kind, || self.value_of(*start))
            {
                return true;
            }
        }
        false
    }

    /// Where the parts of a record of this number lie.
    #[inline]
    fn parts(&self, number: usize) -> Option<Parts> {
        let start = *self.starts.get(number)? as usize;
        let mut reader = Reader::new(self.bytes.get(start..)?);
        let Header { key_bytes, seq, kind, value_bytes } = Header::decode(&mut reader).ok()?;
        let key = self.bytes.len() - reader.rest().len();
        let value = key + key_bytes;
        // all of it lies within the bytes, which are less than 4 GiB.
        let (key, value, end) = (key as u32, value as u32, (value + value_bytes) as u32);
        Some(Parts { number, key: (key, value), value: (value, end), seq, kind })
    }

    /// The value of a record without a copy of it.
    fn value_of(&self, start: u32) -> Value {
        let record = self.record_at(start);
        let (from, value) = (self.bytes.as_ptr() as usize, record.value);
        if value.is_empty() {
            return Value::copy_from(&[]);
        }
        let begin = value.as_ptr() as usize - from;
        Value::shared(ValueArc::clone(&self.bytes), begin..begin + value.len())
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.bytes.capacity()
            + self.starts.capacity() * 4
            + self.fingerprints.capacity() * 2
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::Unsupported, "the versions of one key take more than 4 GiB")
}

/// Makes runs of records that come in order.
#[derive(Debug, Default)]
pub(crate) struct RunBuilder {
    bytes: Vec<u8>,
    starts: Vec<u64>,
    fingerprints: Vec<u16>,
}

impl RunBuilder {
    /// A builder with room for so many bytes and records.
    pub(crate) fn with_room(bytes: u64, records: usize) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        Self {
            bytes: Vec::with_capacity(bytes),
            starts: Vec::with_capacity(records),
            fingerprints: Vec::with_capacity(records),
        }
    }

    /// Lets all records go, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.fingerprints.clear();
    }

    /// Appends a record.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.starts.push(self.bytes.len() as u64);
        self.fingerprints.push(fingerprint(key_hash(record.key)));
        record.encode(&mut self.bytes);
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Records so far.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The bytes so far.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a record of this number begins; the end behind the last.
    pub(crate) fn start(&self, number: usize) -> u64 {
        self.starts.get(number).copied().unwrap_or(self.bytes.len() as u64)
    }

    /// Fingerprints of the keys of these records.
    pub(crate) fn fingerprints(&self, records: Range<usize>) -> &[u16] {
        self.fingerprints.get(records).unwrap_or_default()
    }

    /// The filter of an interval of these records.
    pub(super) fn filter(&self, records: Range<usize>) -> KeyFilter {
        let first = self.start(records.start);
        let starts = records.clone().map(|number| self.start(number) - first);
        KeyFilter::of(starts, self.fingerprints(records))
    }

    /// The record of this number.
    pub(crate) fn get(&self, number: usize) -> Option<Record<'_>> {
        let rest = self.bytes.get(*self.starts.get(number)? as usize..)?;
        Record::decode(&mut Reader::new(rest)).ok()
    }

    /// Lets the first records go.
    pub(crate) fn remove_first(&mut self, count: usize) {
        let end = self.start(count);
        self.bytes.drain(..end as usize);
        self.starts.drain(..count.min(self.starts.len()));
        self.fingerprints.drain(..count.min(self.fingerprints.len()));
        self.starts.iter_mut().for_each(|start| *start -= end);
    }
}

/// A record that a cursor stands on, taken apart.
#[derive(Clone, Copy, Debug)]
struct Parts {
    number: usize,
    key: (u32, u32),
    value: (u32, u32),
    seq: Seq,
    kind: Kind,
}

/// A position in a run.
pub(crate) struct RunCursor {
    run: ValueArc<Run>,
    at: Option<Parts>,
}

impl RunCursor {
    /// A cursor over a run, not positioned.
    pub(crate) fn new(run: ValueArc<Run>) -> Self {
        Self { run, at: None }
    }

    #[inline]
    fn part(&self, part: impl Fn(&Parts) -> (u32, u32)) -> &[u8] {
        let range = self.at.as_ref().map_or((0, 0), part);
        self.run.bytes.get(range.0 as usize..range.1 as usize).unwrap_or_default()
    }

    #[inline]
    fn stand_at(&mut self, number: Option<usize>) {
        self.at = number.and_then(|number| self.run.parts(number));
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand_at(Some(0));
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.stand_at(self.run.len().checked_sub(1));
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.stand_at(Some(self.run.lower_bound(key, seq)));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.stand_at(self.run.lower_bound(key, seq).checked_sub(1));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.stand_at(self.at.map(|at| at.number + 1));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.stand_at(self.at.and_then(|at| at.number.checked_sub(1)));
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.part(|parts| parts.key)
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.at.as_ref().map_or(SEQ_MAX, |at| at.seq)
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.at.as_ref().map_or(Kind::Delete, |at| at.kind)
    }

    #[inline]
    fn head(&self) -> Option<Head<'_>> {
        let Parts { seq, kind, .. } = *self.at.as_ref()?;
        Some(Head { key: self.key(), seq, kind })
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.part(|parts| parts.value)
    }

    fn value_owned(&self) -> Value {
        match self.at.as_ref().map(|at| at.value) {
            Some((start, end)) if start < end => {
                Value::shared(ValueArc::clone(&self.run.bytes), start as usize..end as usize)
            }
            _ => Value::copy_from(&[]),
        }
    }
}

#[cfg(test)]
mod tests;
