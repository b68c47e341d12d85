//! Parts of value files that scans have read lately: what a scan reads from them again is kept, so
//! that scans which return to the same keys find them in memory, and others leave the cache alone.
//!
//! Shared by all scans. A part that was forgotten is read once more.

use std::ops::Range;

use crate::base::entry::FileId;
use crate::values::tags::Tags;

/// Bytes of a part.
const PART_BYTES: u64 = 16 << 10;

/// Most places: 4 MiB of memory.
const PLACES_MAX: u64 = 1 << 20;

/// The parts.
pub(crate) struct ScannedParts {
    tags: Tags,
}

impl ScannedParts {
    /// None yet, for a cache of so many bytes: as many as it could keep.
    pub(crate) fn new(cache_bytes: u64) -> Self {
        Self { tags: Tags::new((cache_bytes / PART_BYTES).min(PLACES_MAX)) }
    }

    /// A scan reads this range of a file; whether most of it was read lately. A part belongs to the
    /// range that it begins in, so that no scan meets its own tracks.
    pub(crate) fn meet(&self, file: FileId, range: Range<u64>) -> bool {
        let parts = range.start.div_ceil(PART_BYTES)..range.end.div_ceil(PART_BYTES);
        let all = parts.end.saturating_sub(parts.start);
        let known = parts.filter(|part| self.tags.meet(hash_of(file, *part))).count();
        known as u64 * 2 > all
    }

    /// Memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tags.memory_bytes()
    }
}

/// Both, mixed as SplitMix64 does (Steele, Lea, Flood 2014).
fn hash_of(file: FileId, part: u64) -> u64 {
    let mut mixed = file.0.rotate_left(32).wrapping_add(part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests;
