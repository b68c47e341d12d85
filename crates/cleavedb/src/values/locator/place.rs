//! Where a record stands, in the 48 bits that an entry of the locator has for it. Pure numbers.
//!
//! An entry, from its highest bit: fingerprint (16), container less the window's base (20), offset
//! in units of 16 bytes (22), size class (6). Invariants: PL-1 no entry is zero: a container's
//! number in the window begins at 1, and so does a fingerprint. PL-2 two records never share a
//! unit, for none is shorter than one; so (container, unit) names one record exactly.

use crate::base::entry::FileId;
use crate::log::separated::SEPARATED_BYTES_MIN;

/// Bytes of a unit of the offset.
pub(crate) const UNIT_BYTES: u64 = 16;

const _: () = assert!(SEPARATED_BYTES_MIN as u64 >= UNIT_BYTES, "two records would share a unit");

/// Bits of an entry below its fingerprint, of its parts, and where they begin.
pub(crate) const PAYLOAD_BITS: u32 = 48;
const CLASS_BITS: u32 = 6;
const UNIT_BITS: u32 = 22;
const CONTAINER_SHIFT: u32 = CLASS_BITS + UNIT_BITS;

/// Bits of a container's number in the window.
pub(crate) const WINDOW_BITS: u32 = 20;

const _: () = assert!(CONTAINER_SHIFT + WINDOW_BITS == PAYLOAD_BITS);

/// The part of an entry that is not its fingerprint.
pub(crate) const PAYLOAD_MASK: u64 = (1 << PAYLOAD_BITS) - 1;

/// Bytes beyond which a place cannot be named: 64 MiB.
#[cfg(test)]
pub(crate) const OFFSET_END: u64 = UNIT_BYTES << UNIT_BITS;

/// Longest reach of a class: 16 MiB. What is separated is shorter, or has a file of its own.
pub(crate) const REACH_BYTES_MAX: u32 = reach_of((1 << CLASS_BITS) - 1);

/// Bytes, counted from the beginning of its unit, within which a record of this class ends: four
/// classes for each doubling, from 320 bytes on.
const fn reach_of(class: u8) -> u32 {
    (64 * (5 + (class as u32 & 3))) << (class >> 2)
}

/// Where a record stands, as exactly as the locator knows it.
///
/// One read of [`Place::bytes`] from [`Place::offset`] brings the whole record; it begins in the
/// first 16 bytes of that, and the record proves which of them it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    container: FileId,
    unit: u32,
    class: u8,
}

impl Place {
    /// The place of a record; `None` where an entry cannot name it: behind the first 64 MiB of
    /// its container, or with an end more than 16 MiB behind its unit's beginning. Such a record
    /// is found by way of the index only.
    pub(crate) fn of(container: FileId, offset: u64, bytes: u32) -> Option<Self> {
        let unit = offset / UNIT_BYTES;
        let reach = (offset % UNIT_BYTES).checked_add(u64::from(bytes))?;
        if unit >> UNIT_BITS != 0 || reach > u64::from(REACH_BYTES_MAX) {
            return None;
        }
        let class = class_of(reach as u32);
        Some(Self { container, unit: unit as u32, class })
    }

    /// Container, unit and class, which [`Place::from_parts`] makes the place of again.
    pub(crate) fn parts(&self) -> (FileId, u32, u8) {
        (self.container, self.unit, self.class)
    }

    /// The place of these parts.
    pub(crate) fn from_parts(container: FileId, unit: u32, class: u8) -> Self {
        debug_assert!(unit >> UNIT_BITS == 0 && class >> CLASS_BITS == 0);
        Self { container, unit, class }
    }

    /// The container.
    pub(crate) fn container(&self) -> FileId {
        self.container
    }

    /// Where to begin to read: at most 15 bytes before the record.
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES
    }

    /// How much to read, if the container has as much: the record ends within it.
    pub(crate) fn bytes(&self) -> u32 {
        reach_of(self.class)
    }

    /// Whether both name the same record (PL-2).
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.container == other.container && self.unit == other.unit
    }

    /// The place as an entry has it, its container being so far in the window.
    pub(crate) fn pack(&self, in_window: u64) -> u64 {
        debug_assert!(in_window >> WINDOW_BITS == 0);
        in_window << CONTAINER_SHIFT | u64::from(self.unit) << CLASS_BITS | u64::from(self.class)
    }

    /// The place in an entry of a window with this base; any entry has one.
    pub(crate) fn unpack(entry: u64, window_base: u64) -> Self {
        let container = FileId(window_base.saturating_add(container_in(entry)));
        let unit = (entry >> CLASS_BITS) as u32 & ((1 << UNIT_BITS) - 1);
        Self { container, unit, class: entry as u8 & ((1 << CLASS_BITS) - 1) }
    }
}

/// The container's number in the window that an entry holds.
pub(crate) fn container_in(entry: u64) -> u64 {
    (entry & PAYLOAD_MASK) >> CONTAINER_SHIFT
}

/// Smallest class that reaches so far.
fn class_of(reach: u32) -> u8 {
    // A class reaches to (5 + low) << high, times 64: the two bits behind the leading one, of a
    // number of 64ths rounded up, less one, are `low`.
    let blocks = reach.div_ceil(64).max(5) - 1;
    let high = blocks.ilog2() - 2;
    ((high << 2) + (blocks >> high & 3)) as u8
}

#[cfg(test)]
mod tests;
