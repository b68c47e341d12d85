//! The range tombstones of a table: number (varint), then for each start, end (length-prefixed)
//! and seq (varint), ordered by start, then seq descending, then end.

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::SEQ_MAX;
use crate::base::error::{Error, Result};
use crate::base::tombstone::RangeTombstone;

/// Fewest bytes of a tombstone: two lengths, an end of one byte, a seq.
const TOMBSTONE_BYTES_MIN: usize = 4;

/// Brings tombstones into the order in which they are stored.
pub(crate) fn sort(tombstones: &mut [RangeTombstone]) {
    tombstones.sort_by(|a, b| {
        a.start.cmp(&b.start).then(b.seq.cmp(&a.seq)).then_with(|| a.end.cmp(&b.end))
    });
}

/// The section's bytes; `tombstones` are sorted.
pub(crate) fn encode(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, tombstones.len() as u64);
    for tombstone in tombstones {
        put_bytes(&mut out, &tombstone.start);
        put_bytes(&mut out, &tombstone.end);
        put_varint(&mut out, tombstone.seq);
    }
    out
}

/// Decodes the section.
pub(crate) fn decode_tombstones(bytes: &[u8]) -> Result<Vec<RangeTombstone>> {
    let mut reader = Reader::new(bytes);
    let count = reader.varint()?;
    if count > (reader.rest().len() / TOMBSTONE_BYTES_MIN) as u64 {
        return Err(Error::corruption("more tombstones than there is room for"));
    }
    let mut tombstones = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start: Box<[u8]> = reader.bytes()?.into();
        let end: Box<[u8]> = reader.bytes()?.into();
        let seq = reader.varint()?;
        if start >= end || seq > SEQ_MAX {
            return Err(Error::corruption("tombstone over no keys or with an impossible seq"));
        }
        tombstones.push(RangeTombstone { start, end, seq });
    }
    if !reader.is_empty() {
        return Err(Error::corruption("bytes behind the tombstones"));
    }
    Ok(tombstones)
}
