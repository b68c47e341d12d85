//! Which segments are a space's own: each has a birth, drawn when its store was opened, that its
//! header states and that whatever leads to it names, log or checkpoint.
//!
//! Copies of a store have its identity, and those that both go on give the same numbers to other
//! files: what a block's checksum is bound to does not tell these apart. Pages are named by their
//! checksums, a log's end by that of what counts; a segment is read in parts, before all of it is
//! written, so that a name has to do. Plain values, no I/O.

use std::collections::BTreeMap;

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::index::flex::space::record::is_possible;
use crate::io::clock::Clock;

/// Births of segments, by number.
pub(super) type Births = BTreeMap<FileId, u64>;

/// The birth of all segments that are made from now on until the store is opened again.
pub(crate) fn draw(clock: &dyn Clock) -> u64 {
    // Half of it: two copies of a store, not all stores there are, are to be told apart.
    (u128::from_le_bytes(clock.unique()) as u64).max(1)
}

/// What a checkpoint keeps beside the tree: its last group, and the births. Most segments have the
/// birth of the one before, and take a byte or two.
pub(super) fn encode(group: u64, births: impl Iterator<Item = (FileId, u64)>) -> Vec<u8> {
    let mut out = group.to_le_bytes().to_vec();
    let mut last = (FileId(0), 0);
    for (id, birth) in births {
        let is_another = birth != last.1;
        put_varint(&mut out, (id.0 - last.0.0) << 1 | u64::from(is_another));
        if is_another {
            put_varint(&mut out, birth);
        }
        last = (id, birth);
    }
    out
}

/// Reads it; every byte must have a meaning.
pub(super) fn decode(attached: &[u8]) -> Result<(u64, Births)> {
    let mut reader = Reader::new(attached);
    let group = reader.u64()?;
    let (mut births, mut last) = (Births::new(), (FileId(0), 0));
    while !reader.is_empty() {
        let number = reader.varint()?;
        let id = FileId(last.0.0.saturating_add(number >> 1));
        let birth = if number & 1 == 1 { reader.varint()? } else { last.1 };
        let is_packed = (birth != last.1) == (number & 1 == 1);
        if number >> 1 == 0 || !is_packed || !is_possible(id, birth) {
            return Err(Error::corruption("births of segments that cannot be"));
        }
        births.insert(id, birth);
        last = (id, birth);
    }
    Ok((group, births))
}

#[cfg(test)]
mod tests;
