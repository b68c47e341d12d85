//! A separated put: the one record whose value stays where the log wrote it. Encoding in two
//! steps, decoding, proof. No state, any thread.
//!
//! Record: kind (1 byte), keyspace (varint), key (varint length, bytes), compression (1 byte),
//! stored length (varint), raw length (varint, only where compressed), seq (8 bytes), checksum
//! (4 bytes), stored bytes.
//!
//! Invariants:
//! S-1 the *body* is the CRC-32C of everything but seq and checksum. The caller's thread computes
//!     it while the batch waits for its turn, and leaves it in the checksum's place;
//! S-2 once file, offset and seq are known, the checksum becomes that of (body, seq) under the
//!     file's seed and the record's offset: so a record proves container, place, seq, key and
//!     value, and binding it, or moving it, reads twelve bytes, not the value;
//! S-3 no length is trusted beyond the bytes that are there (rule F8).

use std::borrow::Cow;
use std::ops::Range;

use crate::base::checksum::{crc_at, crc_of_parts};
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::compress::{Compression, compress, decompress};
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Bytes of seq and checksum.
pub(crate) const BOUND_BYTES: usize = 12;

/// Bytes of the shortest record: kind, keyspace, empty key, compression, length, seq, checksum.
pub(crate) const SEPARATED_BYTES_MIN: usize = 5 + BOUND_BYTES;

/// Most bytes of a record besides key and stored value.
const SEPARATED_OVERHEAD_MAX: usize = 1 + 5 + 3 + 1 + 5 + 5 + BOUND_BYTES;

/// Bytes of the longest record: what a handle may at most ask for.
pub(crate) const SEPARATED_BYTES_MAX: usize =
    SEPARATED_OVERHEAD_MAX + KEY_BYTES_MAX + VALUE_BYTES_MAX;

const _: () = assert!(SEPARATED_BYTES_MAX < u32::MAX as usize);

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeparatedPut<'a> {
    /// Where the key lives; never zero.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// The value as the user gave it.
    pub(crate) value: &'a [u8],
    /// How to compress it, where that saves enough.
    pub(crate) compression: Compression,
    /// `KeyedHash` of keyspace and key: for the footer, later for the locator.
    pub(crate) hash: u64,
}

/// What the leader, and the footer, need to know of an encoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Number of the operation in its batch: its seq is the batch's first one plus this.
    pub(crate) operation: u32,
    /// Where in the payload the record begins.
    pub(crate) start: u32,
    /// Bytes of the record in front of its seq, behind which the checksum stands.
    pub(crate) head_bytes: u32,
    /// Bytes of the whole record.
    pub(crate) bytes: u32,
    /// Bytes of the key.
    pub(crate) key_bytes: u32,
    /// Bytes of the value as the user gave it.
    pub(crate) value_bytes: u32,
    /// `KeyedHash` of keyspace and key.
    pub(crate) hash: u64,
}

/// Where a payload stands: what the checksums of its separated records are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Seed of the file (`file_seed`).
    pub(crate) seed: u32,
    /// Offset of the payload's first byte in the file.
    pub(crate) payload_offset: u64,
    /// Seq of the payload's first operation.
    pub(crate) base_seq: Seq,
}

/// Appends a separated put that knows neither its seq nor its place yet, as operation number
/// `operation` of its batch. The caller has checked the lengths. `scratch` keeps its memory from
/// one call to the next.
pub(crate) fn encode_separated(
    out: &mut Vec<u8>,
    operation: u32,
    put: &SeparatedPut<'_>,
    scratch: &mut Vec<u8>,
) -> Slot {
    debug_assert!(put.keyspace.0 != 0 && put.key.len() <= KEY_BYTES_MAX);
    debug_assert!(put.value.len() <= VALUE_BYTES_MAX);
    let compression = compress(put.compression, put.value, scratch);
    let stored = if compression == Compression::None { put.value } else { scratch.as_slice() };
    let start = out.len();
    out.reserve(SEPARATED_OVERHEAD_MAX + put.key.len() + stored.len());
    out.push(Kind::PutSeparated as u8);
    put_varint(out, u64::from(put.keyspace.0));
    put_bytes(out, put.key);
    out.push(byte_of(compression));
    put_varint(out, stored.len() as u64);
    if compression != Compression::None {
        put_varint(out, put.value.len() as u64);
    }
    let head_bytes = out.len() - start;
    let body = crc_of_parts(out.get(start..).unwrap_or_default(), stored);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&body.to_le_bytes());
    out.extend_from_slice(stored);
    Slot {
        operation,
        start: start as u32,
        head_bytes: head_bytes as u32,
        bytes: (out.len() - start) as u32,
        key_bytes: put.key.len() as u32,
        value_bytes: put.value.len() as u32,
        hash: put.hash,
    }
}

/// Appends a record that was read, and held, elsewhere, as operation number `operation` of its new
/// batch: what is stored is copied as it is. It knows neither its new seq nor its new place yet.
pub(crate) fn copy_separated(
    out: &mut Vec<u8>,
    operation: u32,
    record: &SeparatedRecord<'_>,
    hash: u64,
) -> Slot {
    let start = out.len();
    out.reserve(record.bytes());
    out.extend_from_slice(record.head);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&record.body().to_le_bytes());
    out.extend_from_slice(record.stored);
    Slot {
        operation,
        start: start as u32,
        head_bytes: record.head.len() as u32,
        bytes: record.bytes() as u32,
        key_bytes: record.key.len() as u32,
        value_bytes: record.value_bytes,
        hash,
    }
}

/// Gives the separated records of a payload their seqs and their proof (S-2): once, since what
/// stood in the checksum's place is gone afterwards.
pub(crate) fn bind(payload: &mut [u8], slots: &[Slot], binding: Binding) -> Result<()> {
    for slot in slots {
        let seq_at = slot.start as usize + slot.head_bytes as usize;
        let bound = payload
            .get_mut(seq_at..)
            .and_then(|rest| rest.first_chunk_mut::<BOUND_BYTES>())
            .ok_or_else(|| Error::invalid("a separated record outside of its batch"))?;
        let [0, 0, 0, 0, 0, 0, 0, 0, body @ ..] = *bound else {
            return Err(Error::invalid("a separated record is bound already"));
        };
        let seq = binding.base_seq + u64::from(slot.operation);
        let offset = binding.payload_offset + u64::from(slot.start);
        let checksum = bound_checksum(binding.seed, offset, u32::from_le_bytes(body), seq);
        let [s0, s1, s2, s3, s4, s5, s6, s7] = seq.to_le_bytes();
        let [c0, c1, c2, c3] = checksum.to_le_bytes();
        *bound = [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3];
    }
    Ok(())
}

/// The checksum of a record whose body is known (S-2).
fn bound_checksum(seed: u32, offset: u64, body: u32, seq: Seq) -> u32 {
    let [b0, b1, b2, b3] = body.to_le_bytes();
    let [s0, s1, s2, s3, s4, s5, s6, s7] = seq.to_le_bytes();
    crc_at(seed, offset, &[b0, b1, b2, b3, s0, s1, s2, s3, s4, s5, s6, s7])
}

/// The number of a compression in a record. On disk: never renumber.
fn byte_of(compression: Compression) -> u8 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
    }
}

/// A separated put as it stands in a log, borrowed from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeparatedRecord<'a> {
    /// Where the key lives; never zero.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// Bytes of the value once decompressed.
    pub(crate) value_bytes: u32,
    /// Its seq; zero before it was bound.
    pub(crate) seq: Seq,
    /// The value as it is stored.
    pub(crate) stored: &'a [u8],
    /// How the stored bytes are compressed, as a number that this build need not know.
    how: u8,
    checksum: u32,
    /// Everything in front of the seq.
    head: &'a [u8],
}

impl<'a> SeparatedRecord<'a> {
    /// Decodes `bytes`, which must be exactly one record; proves nothing yet.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        if kind != Kind::PutSeparated as u8 {
            return Err(Error::corruption(format!("a record of kind {kind}, not a value")));
        }
        let record = Self::decode_after_kind(bytes, &mut reader)?;
        if !reader.is_empty() {
            let extra = reader.rest().len();
            return Err(Error::corruption(format!("{extra} bytes behind a value's record")));
        }
        Ok(record)
    }

    /// Decodes a record that begins `bytes` and whose kind `reader` has taken off already.
    pub(crate) fn decode_after_kind(bytes: &'a [u8], reader: &mut Reader<'a>) -> Result<Self> {
        let keyspace = KeyspaceId(reader.varint_u32()?);
        let key = reader.bytes()?;
        let how = reader.u8()?;
        let stored_bytes = reader.varint_u32()?;
        let value_bytes = if how == 0 { stored_bytes } else { reader.varint_u32()? };
        let head = bytes.get(..bytes.len() - reader.rest().len()).unwrap_or_default();
        let seq = reader.u64()?;
        let checksum = reader.u32()?;
        let stored = reader.take(stored_bytes as usize)?;
        if keyspace.0 == 0 || key.len() > KEY_BYTES_MAX || seq > SEQ_MAX {
            return Err(Error::corruption("a value's record holds a number out of range"));
        }
        let shrank = how == 0 || stored_bytes < value_bytes;
        if value_bytes as usize > VALUE_BYTES_MAX || !shrank {
            let message = format!("a value of {value_bytes} bytes stored in {stored_bytes}");
            return Err(Error::corruption(message));
        }
        Ok(Self { keyspace, key, value_bytes, seq, stored, how, checksum, head })
    }

    /// Bytes of the whole record.
    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + BOUND_BYTES + self.stored.len()
    }

    /// Bytes of the record in front of its seq.
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Where in the record the stored bytes are.
    pub(crate) fn stored_range(&self) -> Range<usize> {
        self.head.len() + BOUND_BYTES..self.bytes()
    }

    /// Everything of the record in front of its seq.
    pub(crate) fn head(&self) -> &'a [u8] {
        self.head
    }

    /// The checksum as it stands in the record.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether the record is one that was written at `offset` of the file with this seed.
    pub(crate) fn holds_at(&self, seed: u32, offset: u64) -> bool {
        self.proven_body(seed, offset).is_some()
    }

    /// As [`Self::holds_at`], with the body that proves it: whoever moves the record need not sum
    /// its value again.
    pub(crate) fn proven_body(&self, seed: u32, offset: u64) -> Option<u32> {
        let body = self.body();
        (bound_checksum(seed, offset, body, self.seq) == self.checksum).then_some(body)
    }

    /// What is the same wherever the record stands (S-1).
    pub(crate) fn body(&self) -> u32 {
        crc_of_parts(self.head, self.stored)
    }

    /// How the stored bytes are compressed. The caller has seen that the record holds, so that a
    /// number unknown here is a later build's, not damage.
    pub(crate) fn compression(&self) -> Result<Compression> {
        match self.how {
            0 => Ok(Compression::None),
            1 => Ok(Compression::Lz4),
            2 => Ok(Compression::Zstd),
            how => {
                let message = format!("compression {how} of a value is unknown to this build");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// The value as the user gave it. The caller has seen that the record holds.
    pub(crate) fn value(&self) -> Result<Cow<'a, [u8]>> {
        match self.compression()? {
            Compression::None => Ok(Cow::Borrowed(self.stored)),
            how => decompress(how, self.stored, self.value_bytes as usize).map(Cow::Owned),
        }
    }
}

#[cfg(test)]
mod tests;
