//! Overwrites parts of a value: updates of fields at fixed places. Stateless.
//!
//! Two forms of operand, told apart by the top bit of their first four bytes (little-endian):
//! clear: these bytes are an offset, the rest is what to write there (what users make); set: the
//! other bits are a count of runs, each `offset u32, length u32`, then the bytes of all runs (what
//! combining makes). Invariants: P1 runs of a list are ascending, not empty and do not touch, so
//! equal effects have equal bytes. P2 lengths are compared with what remains before any use.

use std::collections::BTreeMap;

use crate::base::codec::Reader;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator::MergeOperator;

/// End of the last byte that a patch may *add* to a value (1 MiB): bounds what a short operand
/// can make of the value. Within a value that is longer already, patches reach everywhere.
pub const PATCH_GROWTH_END_MAX: usize = 1 << 20;

const LIST: u32 = 1 << 31;

/// Overwrites parts.
pub(super) struct Patch;

/// Bytes to write by their offset; runs neither overlap nor touch.
type Runs = BTreeMap<u32, Vec<u8>>;

/// An operand for [`PATCH`](super::PATCH): write `bytes` at `offset` of the value. A value that is
/// shorter is first filled with zeros up to there; empty `bytes` change nothing. The encoding is
/// the offset in 4 bytes little-endian, then the bytes.
///
/// # Errors
/// `InvalidArgument` where the end of the patch lies above 2 GiB.
///
/// ```
/// use cleavedb::operators::{PATCH, by_name, encode_patch};
///
/// let patch = by_name(PATCH).expect("built in");
/// let age = encode_patch(4, &[37]).expect("a small offset");
/// let value = patch.full_merge(b"k", Some(b"Ada \x24!"), &[&age]).expect("within bounds");
/// assert_eq!(value, b"Ada \x25!");
/// ```
pub fn encode_patch(offset: u32, bytes: &[u8]) -> Result<Vec<u8>> {
    if offset as usize + bytes.len() >= LIST as usize {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("patch of {} bytes at {offset} ends above 2 GiB", bytes.len()),
        ));
    }
    Ok([offset.to_le_bytes().as_slice(), bytes].concat())
}

/// Hands out offset and bytes of each run of an operand; none is empty.
fn each_run(operand: &[u8], mut take: impl FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
    let mut take = |offset: u32, bytes: &[u8]| {
        if offset as usize + bytes.len() >= LIST as usize {
            return Err(Error::corruption("patch ends above 2 GiB"));
        }
        if bytes.is_empty() { Ok(()) } else { take(offset, bytes) }
    };
    let mut reader = Reader::new(operand);
    let first = reader.u32()?;
    if first & LIST == 0 {
        return take(first, reader.rest());
    }
    let count = first & !LIST;
    let heads = (count as usize)
        .checked_mul(8)
        .ok_or_else(|| Error::corruption("more runs than the address space holds"))?;
    let mut heads = Reader::new(reader.take(heads)?);
    let mut end = None;
    for _ in 0..count {
        let (offset, length) = (heads.u32()?, heads.u32()?);
        let bytes = reader.take(length as usize)?;
        if bytes.is_empty() || end.is_some_and(|end| u64::from(offset) <= end) {
            return Err(Error::corruption("runs of a patch are not ascending"));
        }
        end = Some(u64::from(offset) + u64::from(length));
        take(offset, bytes)?;
    }
    if reader.is_empty() { Ok(()) } else { Err(Error::corruption("bytes after the last run")) }
}

/// Adds a run, joining it with those it overlaps or touches; its bytes win.
fn add(runs: &mut Runs, offset: u32, bytes: &[u8]) {
    let (mut start, mut joined) = (offset, Vec::new());
    if let Some((&other, old)) = runs.range_mut(..=offset).next_back() {
        let at = (offset - other) as usize;
        if let Some(place) = old.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
            return;
        }
        if at <= old.len() {
            old.truncate(at);
            (start, joined) = (other, std::mem::take(old));
        }
    }
    joined.extend_from_slice(bytes);
    let end = offset + bytes.len() as u32;
    while let Some((&other, _)) = runs.range(offset..=end).next() {
        let old = runs.remove(&other).unwrap_or_default();
        joined.extend_from_slice(old.get((end - other) as usize..).unwrap_or_default());
    }
    runs.insert(start, joined);
}

fn encode(runs: &Runs) -> Vec<u8> {
    if let Some((offset, bytes)) = runs.first_key_value().filter(|_| runs.len() == 1) {
        return [offset.to_le_bytes().as_slice(), bytes].concat();
    }
    let mut out = (LIST | runs.len() as u32).to_le_bytes().to_vec();
    for (offset, bytes) in runs {
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    runs.values().for_each(|bytes| out.extend_from_slice(bytes));
    out
}

impl MergeOperator for Patch {
    fn name(&self) -> &str {
        super::PATCH
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String> {
        let mut value = existing.unwrap_or_default().to_vec();
        let end_max = value.len().max(PATCH_GROWTH_END_MAX);
        let mut write = |offset: u32, bytes: &[u8]| {
            let start = offset as usize;
            let end = start + bytes.len();
            if end > end_max {
                let message = format!("patch ends at {end}, beyond the limit of {end_max}");
                return Err(Error::invalid(message));
            }
            if value.len() < end {
                value.resize(end, 0);
            }
            if let Some(place) = value.get_mut(start..end) {
                place.copy_from_slice(bytes);
            }
            Ok(())
        };
        for operand in operands {
            each_run(operand, &mut write).map_err(|error| error.message().to_owned())?;
        }
        Ok(value)
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let mut runs = Runs::new();
        let mut add = |offset: u32, bytes: &[u8]| {
            add(&mut runs, offset, bytes);
            Ok(())
        };
        each_run(older, &mut add).ok()?;
        each_run(newer, &mut add).ok()?;
        Some(encode(&runs))
    }
}
