//! The whole-table filter: a binary fuse filter over the hashes of all keys, about nine bits a key
//! and 0.4 % false positives.
//!
//! Immutable once built; probing copies nothing. On disk: kind (`u8`), number of distinct hashes
//! (varint), then for kind 1 seed (`u64`), segment length, length of all segments (`u32` each) and
//! the fingerprints up to the section's end.

use xorf::{BinaryFuse8, Descriptor, Filter as _};

use crate::base::codec::{Reader, put_varint};
use crate::base::error::{Error, Result};

/// Kind of the filter. On disk: never renumber. Zero is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum FilterKind {
    /// Nothing is in the table.
    Empty = 1,
    /// Binary fuse filter with 8-bit fingerprints; hashes mixed by Murmur's finaliser.
    BinaryFuse8 = 2,
    /// No filter could be built: everything may be in the table.
    All = 3,
}

/// A filter over 64-bit key hashes.
#[derive(Debug)]
pub(crate) enum Filter {
    /// Holds nothing.
    Empty,
    /// The usual kind; the count of hashes beside it.
    Fuse(BinaryFuse8, u64),
    /// May hold anything.
    All,
}

impl Filter {
    /// Memory that building takes for each key, beside its hash: an order of hashes (8) with a
    /// byte each, and for each of up to 1.2 places a key a sum of hashes (8), a queue (4), a count
    /// and the fingerprint (1 each).
    pub(crate) const BUILD_BYTES_A_KEY: u64 = 26;

    /// Builds a filter; sorts the hashes and drops duplicates on the way.
    pub(crate) fn build(hashes: &mut Vec<u64>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        if hashes.is_empty() {
            return Self::Empty;
        }
        match BinaryFuse8::try_from(&*hashes) {
            Ok(fuse) => Self::Fuse(fuse, hashes.len() as u64),
            // Does not happen with distinct hashes short of astronomical bad luck.
            Err(_) => Self::All,
        }
    }

    /// Whether the key with this hash may be in the table; never false for one that is.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match self {
            Self::Empty => false,
            Self::Fuse(fuse, _) => fuse.contains(&hash),
            Self::All => true,
        }
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Fuse(fuse, _) => fuse.fingerprints.len() as u64,
            Self::Empty | Self::All => 0,
        }
    }

    /// The section's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Empty => out.push(FilterKind::Empty as u8),
            Self::All => out.push(FilterKind::All as u8),
            Self::Fuse(fuse, count) => {
                let d = &fuse.descriptor;
                out.reserve_exact(fuse.fingerprints.len() + 32);
                out.push(FilterKind::BinaryFuse8 as u8);
                put_varint(&mut out, *count);
                out.extend_from_slice(&d.seed.to_le_bytes());
                out.extend_from_slice(&d.segment_length.to_le_bytes());
                out.extend_from_slice(&d.segment_count_length.to_le_bytes());
                out.extend_from_slice(&fuse.fingerprints);
            }
        }
        out
    }
}

/// Decodes the section; every probe of what it returns stays within the fingerprints.
pub(crate) fn decode_filter(bytes: &[u8]) -> Result<Filter> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8()?;
    if kind == FilterKind::Empty as u8 || kind == FilterKind::All as u8 {
        if !reader.is_empty() {
            return Err(Error::corruption("bytes behind the filter"));
        }
        let empty = kind == FilterKind::Empty as u8;
        return Ok(if empty { Filter::Empty } else { Filter::All });
    }
    if kind != FilterKind::BinaryFuse8 as u8 {
        return Err(Error::corruption(format!("unknown filter kind {kind}")));
    }
    let count = reader.varint()?;
    let seed = reader.u64()?;
    let segment_length = reader.u32()?;
    let segment_count_length = reader.u32()?;
    let fingerprints = reader.rest();
    // A probe reads one place in each of three neighbouring segments, the first of which begins
    // below `segment_count_length`.
    let length = u64::from(segment_count_length) + 2 * u64::from(segment_length);
    let fits = segment_length.is_power_of_two()
        && segment_count_length >= segment_length
        && segment_count_length.is_multiple_of(segment_length)
        && length == fingerprints.len() as u64
        && length <= u64::from(u32::MAX);
    if !fits {
        return Err(Error::corruption("filter segments do not match its length"));
    }
    let segment_length_mask = segment_length - 1;
    let descriptor = Descriptor { seed, segment_length, segment_length_mask, segment_count_length };
    Ok(Filter::Fuse(BinaryFuse8 { descriptor, fingerprints: fingerprints.into() }, count))
}

#[cfg(test)]
mod tests;
