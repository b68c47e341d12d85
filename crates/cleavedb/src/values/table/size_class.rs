//! Size classes: how much to read of a record whose place a locator knows, but not its length.
//! Pure functions, any thread.
//!
//! A locator's entry has six bits for it. Classes 0 to 7 are 64 to 512 bytes in steps of 64; from
//! there on four to each doubling, so that no more than a fifth of a read is too much; the last one
//! takes the longest record that is not in a file of its own. Invariant: SC-1 a read of the
//! class's bytes at the record's place holds the whole record.

use crate::base::limits::KEY_BYTES_MAX;

/// Classes.
pub(crate) const CLASSES: u8 = 64;
/// Bytes of the longest record with a class: a value of 8 MiB, the longest key, the rest.
pub(crate) const CLASS_BYTES_MAX: u32 = (8 << 20) + (128 << 10);
/// Bytes from one of the first classes to the next.
const STEP_BYTES: u32 = 64;
/// How many of those there are.
const STEPS: u8 = 8;

const _: () = assert!((8 << 20) + KEY_BYTES_MAX + 64 <= CLASS_BYTES_MAX as usize);

/// A class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    /// The class of this number; none from [`CLASSES`] on.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        (number < CLASSES).then_some(Self(number))
    }

    /// The smallest class for a record of so many bytes; none for one that is too long for any,
    /// which is then found by way of the index.
    pub(crate) fn of(record_bytes: u32) -> Option<Self> {
        if record_bytes <= STEP_BYTES * u32::from(STEPS) {
            return Some(Self((record_bytes.div_ceil(STEP_BYTES).max(1) - 1) as u8));
        }
        // The largest power of two below it, and in which quarter above that it lies.
        let below = (record_bytes - 1).ilog2();
        let quarter = (record_bytes - 1 - (1 << below)) >> (below - 2);
        let number = u32::from(STEPS) + 4 * (below - 9) + quarter;
        let last = u32::from(CLASSES) - 1;
        (record_bytes <= CLASS_BYTES_MAX).then_some(Self(number.min(last) as u8))
    }

    /// Its number: what a locator keeps.
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// Bytes to be read.
    pub(crate) fn bytes(self) -> u32 {
        match self.0.checked_sub(STEPS) {
            None => (u32::from(self.0) + 1) * STEP_BYTES,
            Some(_) if self.0 + 1 == CLASSES => CLASS_BYTES_MAX,
            Some(above) => (5 + u32::from(above % 4)) << (7 + above / 4),
        }
    }
}

#[cfg(test)]
mod tests;
