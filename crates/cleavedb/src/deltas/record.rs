//! What a bucket holds of a key: its deltas and anchors, together in one *group*. Encoding and
//! decoding only; any thread.
//!
//! A delta is one merge operand, or several that were combined; its seq is that of the newest. An
//! anchor says that a put or delete of the key has this seq, so that older deltas are dead. Where
//! an operand stays in the index, a record says so.
//!
//! Layout of a group: keyspace (varint), key (length, bytes), length of the records (varint), the
//! records. A record: kind (1 byte), seq (varint; behind the first one: what it is less than the
//! seq before), of a delta the operand (length, bytes).
//!
//! Invariants: DR-1 groups ascend by (keyspace, key), the seqs of a group descend, both strictly.
//! DR-2 a group has one record at least, and one encoding. DR-3 no length is trusted before it is
//! compared with what is there (rule F8); nothing decoded is longer than what it came from.

use crate::base::codec::{Reader, put_bytes, put_varint, varint_len};
use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;

/// Longest operand that a bucket takes: a record is short beside a bucket. Longer ones stay in the
/// index, or are folded.
pub(crate) const OPERAND_BYTES_MAX: usize = 64 << 10;

/// What a record says. On disk: never renumber. Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum DeltaKind {
    /// The record holds an operand.
    Delta = 1,
    /// Deltas of the key with a smaller seq are dead.
    Anchor = 2,
    /// An operand of this seq is in the index: what is below and what is above it in the bucket is
    /// not to be combined.
    Elsewhere = 3,
}

/// One record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Its seq; of combined deltas that of the newest.
    pub(crate) seq: Seq,
    /// What it says.
    pub(crate) kind: DeltaKind,
    /// The operand; empty where the record is not a delta.
    pub(crate) operand: &'a [u8],
}

/// A place between keys: (keyspace, key), in the order of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bound<'a> {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
}

/// A [`Bound`] that owns its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OwnedBound {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: Box<[u8]>,
}

impl Bound<'_> {
    /// A copy that owns its key.
    pub(crate) fn to_owned(self) -> OwnedBound {
        OwnedBound { keyspace: self.keyspace, key: self.key.into() }
    }
}

impl OwnedBound {
    /// The bound that no key is below.
    pub(crate) fn lowest() -> Self {
        Self { keyspace: KeyspaceId(0), key: Box::default() }
    }

    /// The same bound, borrowed.
    pub(crate) fn as_ref(&self) -> Bound<'_> {
        Bound { keyspace: self.keyspace, key: &self.key }
    }

    /// Appends keyspace and key.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.keyspace.0));
        put_bytes(out, &self.key);
    }

    /// Memory of the key.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }
}

/// Reads keyspace and key. `key_bytes_max` is [`KEY_BYTES_MAX`], or one more for an end of a range.
pub(crate) fn decode_bound<'a>(reader: &mut Reader<'a>, key_bytes_max: usize) -> Result<Bound<'a>> {
    let keyspace = KeyspaceId(reader.varint_u32()?);
    let key = reader.bytes()?;
    if key.len() > key_bytes_max {
        return Err(Error::corruption("a key in a bucket is too long"));
    }
    Ok(Bound { keyspace, key })
}

/// Whose records stand here, and the records, not decoded yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// Keyspace and key.
    pub(crate) bound: Bound<'a>,
    records: &'a [u8],
}

/// Appends a group. Its records stand in order, each fit for a bucket ([`check_record`]).
pub(crate) fn encode_group<'a>(
    out: &mut Vec<u8>,
    bound: Bound<'_>,
    records: impl Iterator<Item = Record<'a>> + Clone,
) {
    put_varint(out, u64::from(bound.keyspace.0));
    put_bytes(out, bound.key);
    put_varint(out, records_bytes(records.clone()) as u64);
    let mut before = None;
    for record in records {
        debug_assert!(before.is_none_or(|before| record.seq < before), "DR-1");
        out.push(record.kind as u8);
        put_varint(out, step(before, record.seq));
        if record.kind == DeltaKind::Delta {
            put_bytes(out, record.operand);
        }
        before = Some(record.seq);
    }
}

/// Bytes that [`encode_group`] appends.
pub(crate) fn group_bytes<'a>(
    bound: Bound<'_>,
    records: impl Iterator<Item = Record<'a>>,
) -> usize {
    let length = bound.key.len();
    let bytes = records_bytes(records);
    varint_len(u64::from(bound.keyspace.0))
        + varint_len(length as u64)
        + length
        + varint_len(bytes as u64)
        + bytes
}

fn records_bytes<'a>(records: impl Iterator<Item = Record<'a>>) -> usize {
    let mut before = None;
    let mut sum = 0;
    for Record { seq, kind, operand } in records {
        sum += 1 + varint_len(step(before, seq));
        if kind == DeltaKind::Delta {
            sum += varint_len(operand.len() as u64) + operand.len();
        }
        before = Some(seq);
    }
    sum
}

/// What stands for a seq behind another one.
fn step(before: Option<Seq>, seq: Seq) -> u64 {
    before.map_or(seq, |before| before.saturating_sub(seq))
}

/// Refuses what no bucket takes.
pub(crate) fn check_record(bound: Bound<'_>, record: &Record<'_>) -> Result<()> {
    let fits = bound.key.len() <= KEY_BYTES_MAX
        && bound.keyspace.0 != 0
        && record.operand.len() <= OPERAND_BYTES_MAX
        && (record.kind == DeltaKind::Delta || record.operand.is_empty())
        && (1..=SEQ_MAX).contains(&record.seq);
    if fits { Ok(()) } else { Err(Error::invalid("a record that no bucket takes")) }
}

impl<'a> Group<'a> {
    /// The records, newest first.
    pub(crate) fn records(&self) -> Records<'a> {
        Records { reader: Reader::new(self.records), before: None }
    }
}

/// Walks over groups, which must ascend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a> {
    reader: Reader<'a>,
    before: Option<Bound<'a>>,
}

impl<'a> Groups<'a> {
    /// A walk over `bytes`, which are groups and nothing else.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), before: None }
    }

    /// Bytes that are left.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.reader.rest().len()
    }

    /// The next group; none at the end.
    pub(crate) fn next_group(&mut self) -> Result<Option<Group<'a>>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let bound = decode_bound(&mut self.reader, KEY_BYTES_MAX)?;
        let records = self.reader.bytes()?;
        if bound.keyspace.0 == 0 || records.is_empty() {
            return Err(Error::corruption("a bucket's group of no key, or without records"));
        }
        if self.before.is_some_and(|before| before >= bound) {
            return Err(Error::corruption("a bucket's keys do not ascend"));
        }
        self.before = Some(bound);
        Ok(Some(Group { bound, records }))
    }

    /// The group of this key, if there is one. Whoever made the bytes' checksum has proved that the
    /// keys ascend; this goes by it.
    pub(crate) fn find(self, wanted: Bound<'_>) -> Result<Option<Group<'a>>> {
        let mut reader = self.reader;
        while !reader.is_empty() {
            let (keyspace, key) = (KeyspaceId(reader.varint_u32()?), reader.bytes()?);
            let records = reader.bytes()?;
            let bound = Bound { keyspace, key };
            match bound.cmp(&wanted) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(Group { bound, records })),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

/// Walks over the records of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'a> {
    reader: Reader<'a>,
    before: Option<Seq>,
}

impl<'a> Records<'a> {
    /// Bytes that are left.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.reader.rest().len()
    }

    /// The next older record; none at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record<'a>>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let kind = match self.reader.u8()? {
            1 => DeltaKind::Delta,
            2 => DeltaKind::Anchor,
            3 => DeltaKind::Elsewhere,
            kind => return Err(Error::corruption(format!("a bucket's record of kind {kind}"))),
        };
        let step = self.reader.varint()?;
        let seq = match self.before {
            Some(before) if step > 0 => before.checked_sub(step),
            Some(_) => None,
            None => Some(step),
        };
        let operand = match kind {
            DeltaKind::Delta => self.reader.bytes()?,
            DeltaKind::Anchor | DeltaKind::Elsewhere => &[],
        };
        let seq = seq.filter(|seq| (1..=SEQ_MAX).contains(seq));
        let (Some(seq), true) = (seq, operand.len() <= OPERAND_BYTES_MAX) else {
            return Err(Error::corruption("a bucket's record states what cannot be"));
        };
        self.before = Some(seq);
        Ok(Some(Record { seq, kind, operand }))
    }
}

/// What a walk over all groups found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupTotals {
    /// Groups: keys.
    pub(crate) groups: u64,
    /// Records of all groups.
    pub(crate) records: u64,
    /// Smallest seq; 0 where there is no record.
    pub(crate) first_seq: Seq,
    /// Largest seq.
    pub(crate) last_seq: Seq,
}

impl GroupTotals {
    /// Counts a record.
    pub(crate) fn add(&mut self, seq: Seq) {
        self.records += 1;
        self.last_seq = self.last_seq.max(seq);
        self.first_seq = if self.first_seq == 0 { seq } else { self.first_seq.min(seq) };
    }

    /// Walks over groups, each of which `seen` is shown, and proves all of them.
    pub(crate) fn of(bytes: &[u8], mut seen: impl FnMut(Bound<'_>) -> Result<()>) -> Result<Self> {
        let (mut totals, mut groups) = (Self::default(), Groups::new(bytes));
        while let Some(group) = groups.next_group()? {
            seen(group.bound)?;
            totals.add_group(&group)?;
        }
        Ok(totals)
    }

    /// Counts a key and its records, and proves them.
    pub(crate) fn add_group(&mut self, group: &Group<'_>) -> Result<()> {
        self.groups += 1;
        let mut records = group.records();
        while let Some(record) = records.next_record()? {
            self.add(record.seq);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
