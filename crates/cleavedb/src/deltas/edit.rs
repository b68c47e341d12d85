//! The section DELTAS of a manifest edit: buckets that grew, and ranges of neighbours that others
//! replace. Pure data; [`Directory`](super::directory::Directory) says what follows from it.
//!
//! Layout: version (1 byte), then the edits: kind (1 byte), start of the (first) bucket concerned
//! (keyspace varint, key length and bytes), and what the kind needs. A snapshot is one "replaced"
//! of nothing by all buckets.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::FILE_ID_MAX;
use crate::base::section::{Section, SectionTag};
use crate::deltas::bucket::BucketInfo;
use crate::deltas::bucket::format::{BUCKET_BYTES_MAX, CHUNK_FIXED_BYTES, HEADER_BYTES};
use crate::deltas::record::{OwnedBound, decode_bound};

/// Version of the section. On disk: raised by every change.
const VERSION: u8 = 1;

/// Fewest bytes of a bucket that is removed, and of one that is added.
const REMOVED_BYTES_MIN: usize = 2;
const ADDED_BYTES_MIN: usize = 8;

/// A bucket as somebody knew it who then replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemovedBucket {
    /// Number of its file.
    pub(crate) id: FileId,
    /// Committed bytes: if there are more, its replacement is without them, and refused.
    pub(crate) bytes: u32,
}

/// What an append did to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Start of the bucket.
    pub(crate) start: OwnedBound,
    /// Number of its file.
    pub(crate) id: FileId,
    /// Committed bytes before.
    pub(crate) bytes_before: u32,
    /// Bytes more.
    pub(crate) bytes: u32,
    /// Checksum of the chunk.
    pub(crate) checksum: u32,
    /// Its largest seq.
    pub(crate) applied_seq: Seq,
    /// Its records.
    pub(crate) records: u64,
}

/// One change of the buckets. On disk: never renumber the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeltasEdit {
    /// 1: a chunk more is committed.
    Appended(Appended),
    /// 2: these neighbours, from the one that begins at `start` on, are replaced by others, which
    /// begin there, too. Of none by some: initialisation. Of one by one: rewritten; by two: split;
    /// of two by one: merged. Of some by none: their range falls to the bucket before.
    Replaced {
        /// Where the range that is replaced begins.
        start: OwnedBound,
        /// The buckets that go.
        removed: Vec<RemovedBucket>,
        /// Those that come; the first one begins at `start`.
        added: Vec<BucketInfo>,
    },
}

impl DeltasEdit {
    /// What an append did, from the two versions of the bucket.
    pub(crate) fn appended(before: &BucketInfo, after: &BucketInfo) -> Self {
        Self::Appended(Appended {
            start: before.start.clone(),
            id: before.id,
            bytes_before: before.bytes,
            bytes: after.bytes.saturating_sub(before.bytes),
            checksum: after.checksum,
            applied_seq: after.applied_seq,
            records: after.records.saturating_sub(before.records),
        })
    }

    /// Encodes the section.
    pub(crate) fn encode(edits: &[Self]) -> Section {
        let mut payload = vec![VERSION];
        for edit in edits {
            edit.encode_one(&mut payload);
        }
        Section { tag: SectionTag::DELTAS, payload }
    }

    fn encode_one(&self, out: &mut Vec<u8>) {
        match self {
            Self::Appended(appended) => {
                out.push(1);
                appended.start.encode(out);
                put_varint(out, appended.id.0);
                put_varint(out, u64::from(appended.bytes_before));
                put_varint(out, u64::from(appended.bytes));
                out.extend_from_slice(&appended.checksum.to_le_bytes());
                put_varint(out, appended.applied_seq);
                put_varint(out, appended.records);
            }
            Self::Replaced { start, removed, added } => {
                out.push(2);
                start.encode(out);
                put_varint(out, removed.len() as u64);
                for RemovedBucket { id, bytes } in removed {
                    put_varint(out, id.0);
                    put_varint(out, u64::from(*bytes));
                }
                put_varint(out, added.len() as u64);
                for (number, info) in added.iter().enumerate() {
                    if number > 0 {
                        info.start.encode(out);
                    }
                    encode_info(info, out);
                }
            }
        }
    }

    /// Decodes a section's payload; every byte must have a meaning.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let version = reader.u8()?;
        if version != VERSION {
            let message =
                format!("DELTAS section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(Self::decode_one(&mut reader)?);
        }
        Ok(edits)
    }

    fn decode_one(reader: &mut Reader<'_>) -> Result<Self> {
        let kind = reader.u8()?;
        let start = decode_bound(reader, KEY_BYTES_MAX)?.to_owned();
        match kind {
            1 => {
                let appended = Appended {
                    start,
                    id: decode_id(reader)?,
                    bytes_before: reader.varint_u32()?,
                    bytes: reader.varint_u32()?,
                    checksum: reader.u32()?,
                    applied_seq: reader.varint()?,
                    records: reader.varint()?,
                };
                let end = u64::from(appended.bytes_before) + u64::from(appended.bytes);
                let is_sound = appended.bytes_before as usize > HEADER_BYTES
                    && appended.bytes as usize > CHUNK_FIXED_BYTES
                    && end <= BUCKET_BYTES_MAX
                    && (1..=SEQ_MAX).contains(&appended.applied_seq)
                    && (1..=u64::from(appended.bytes)).contains(&appended.records);
                if is_sound { Ok(Self::Appended(appended)) } else { Err(cannot_be(appended.id)) }
            }
            2 => Self::decode_replaced(start, reader),
            other => Err(Error::corruption(format!("unknown edit {other} of buckets"))),
        }
    }

    fn decode_replaced(start: OwnedBound, reader: &mut Reader<'_>) -> Result<Self> {
        let mut removed = Vec::with_capacity(decode_count(reader, REMOVED_BYTES_MIN)?);
        for _ in 0..removed.capacity() {
            removed.push(RemovedBucket { id: decode_id(reader)?, bytes: reader.varint_u32()? });
        }
        let count = decode_count(reader, ADDED_BYTES_MIN)?;
        let mut added: Vec<BucketInfo> = Vec::with_capacity(count);
        for number in 0..count {
            let start = match number {
                0 => start.clone(),
                _ => decode_bound(reader, KEY_BYTES_MAX)?.to_owned(),
            };
            let info = decode_info(start, reader)?;
            if added.last().is_some_and(|last| last.start >= info.start) {
                return Err(Error::corruption("buckets that do not ascend"));
            }
            added.push(info);
        }
        if removed.is_empty() && added.is_empty() {
            return Err(Error::corruption("an edit of no buckets"));
        }
        Ok(Self::Replaced { start, removed, added })
    }
}

fn cannot_be(id: FileId) -> Error {
    Error::corruption(format!("bucket {id} states what cannot be"))
}

fn decode_id(reader: &mut Reader<'_>) -> Result<FileId> {
    let id = reader.varint()?;
    if (1..=FILE_ID_MAX).contains(&id) {
        return Ok(FileId(id));
    }
    Err(Error::corruption("a bucket without number"))
}

/// A number of items, no more than the bytes justify (rule F8).
fn decode_count(reader: &mut Reader<'_>, bytes_min: usize) -> Result<usize> {
    let count = reader.varint()?;
    if count > (reader.rest().len() / bytes_min) as u64 {
        return Err(Error::corruption("more buckets than there are bytes"));
    }
    Ok(count as usize)
}

fn encode_info(info: &BucketInfo, out: &mut Vec<u8>) {
    put_varint(out, info.id.0);
    put_varint(out, u64::from(info.pages_end));
    put_varint(out, u64::from(info.sorted_bytes.saturating_sub(info.pages_end)));
    put_varint(out, u64::from(info.bytes.saturating_sub(info.sorted_bytes)));
    out.extend_from_slice(&info.checksum.to_le_bytes());
    put_varint(out, info.applied_seq);
    put_varint(out, info.records);
}

fn decode_info(start: OwnedBound, reader: &mut Reader<'_>) -> Result<BucketInfo> {
    let id = decode_id(reader)?;
    let (pages_end, meta) = (reader.varint_u32()?, reader.varint_u32()?);
    let unsorted = reader.varint_u32()?;
    let (checksum, applied_seq, records) = (reader.u32()?, reader.varint()?, reader.varint()?);
    let end = u64::from(pages_end) + u64::from(meta) + u64::from(unsorted);
    let is_sound = pages_end as usize >= HEADER_BYTES
        && meta > 0
        && end <= BUCKET_BYTES_MAX
        && applied_seq <= SEQ_MAX
        && records <= end;
    if !is_sound {
        return Err(cannot_be(id));
    }
    let sorted_bytes = pages_end + meta;
    let bytes = sorted_bytes + unsorted;
    Ok(BucketInfo { id, start, pages_end, sorted_bytes, bytes, checksum, applied_seq, records })
}

#[cfg(test)]
mod tests;
