//! What says of an interval that a key is not in it, or where in it one may be: a Bloom filter of
//! one word for every five records of what stands in order (the tail has its own fingerprints, see
//! [`tail`](super::tail)).
//!
//! A get past the cache reads the records whose words may hold its key: mostly one block of the
//! device where the whole interval lies in two or three, and for a key that is not there nothing,
//! but for one in fifty times. The paper has no filter: every get reads its interval.
//!
//! A value, in memory alone, which many threads may read. After an opening nothing is known, and
//! the first get that has read all that stands in order makes the filter. Words are made of the
//! sixteen bits of a key's hash that runs in the cache have, so that these need no hash anew.
//! Burton H. Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970. Invariants:
//! KF-1 a filter is of all records before the tail, or it is unknown: it never denies a key that
//! is there. KF-2 versions of a key lie in parts that all may hold it.

use std::ops::Range;
use std::sync::{Arc as ValueArc, OnceLock};

use crate::base::planted::planted;
use crate::index::flex::intervals::run::fingerprint;

/// Records that have a word together: about ten bits for each.
const RECORDS: usize = 5;
/// Bits of a word that stand for a key.
const BITS: u32 = 6;

/// Some records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Where they begin, from the first byte of the interval on.
    start: u16,
    /// The word, lowest bits first: in pieces, so that a part takes ten bytes.
    word: [u16; 4],
}

impl Part {
    fn of(start: u16, fingerprints: impl Iterator<Item = u16>) -> Self {
        let word = fingerprints.fold(0, |word, fingerprint| word | mask(fingerprint));
        Self { start, word: [0, 16, 32, 48].map(|shift| (word >> shift) as u16) }
    }

    fn may_hold(&self, mask: u64) -> bool {
        let [a, b, c, d] = self.word.map(u64::from);
        (a | b << 16 | c << 32 | d << 48) & mask == mask
    }
}

/// The bits that stand for a fingerprint.
fn mask(fingerprint: u16) -> u64 {
    /// The golden ratio's part: products of it have high bits that depend on all bits.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = (u64::from(fingerprint) + 1).wrapping_mul(FACTOR);
    (1..=BITS).fold(0, |mask, number| mask | 1 << (product >> (64 - 6 * number) & 63))
}

/// The keys of an interval before its tail, if they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyFilter(OnceLock<ValueArc<[Part]>>);

impl KeyFilter {
    /// That of records that begin there and have these fingerprints; unknown where they are too
    /// long.
    pub(super) fn of(starts: impl Iterator<Item = u64>, fingerprints: &[u16]) -> Self {
        let starts = starts.step_by(RECORDS);
        let parts = starts.zip(fingerprints.chunks(RECORDS)).map(|(start, fingerprints)| {
            let start = u16::try_from(start).ok()?;
            Some(Part::of(start, fingerprints.iter().copied()))
        });
        let parts = parts.collect::<Option<Vec<Part>>>();
        parts.map_or_else(Self::default, |parts| Self(OnceLock::from(ValueArc::from(parts))))
    }

    /// Whether the keys are not known and can be told from so many bytes, all that are in order.
    pub(super) fn can_learn(&self, bytes: usize) -> bool {
        self.0.get().is_none() && bytes <= u16::MAX.into()
    }

    /// Takes over what another one knows, unless the keys are known.
    pub(super) fn learn(&self, other: Self) {
        if let Some(parts) = other.0.into_inner() {
            self.0.get_or_init(|| parts);
        }
    }

    /// Whether no key of this hash is among them, for certain.
    pub(super) fn lacks(&self, hash: u64) -> bool {
        let Some(parts) = self.0.get() else { return false };
        if planted!("interval_filter_false_negative") && hash.is_multiple_of(16) {
            return true;
        }
        let mask = mask(fingerprint(hash));
        !parts.iter().any(|part| part.may_hold(mask))
    }

    /// Whether a key of this fingerprint is among them, as it seems: not if they are unknown.
    pub(super) fn tells_of(&self, fingerprint: u16) -> bool {
        let mask = mask(fingerprint);
        self.0.get().is_some_and(|parts| parts.iter().any(|part| part.may_hold(mask)))
    }

    /// Where, of so many bytes in order, records lie that may be of a key of this hash: as few
    /// ranges as their bounds allow.
    pub(super) fn places(&self, hash: u64, bytes: u64) -> Vec<Range<u64>> {
        let Some(parts) = self.0.get() else {
            return std::iter::once(0..bytes).collect();
        };
        let mask = mask(fingerprint(hash));
        let starts = parts.iter().map(|part| u64::from(part.start));
        let ends = starts.clone().skip(1).chain([bytes]);
        let all = parts.iter().zip(starts.zip(ends));
        let mut places: Vec<Range<u64>> = Vec::with_capacity(1);
        for (_, (start, end)) in all.filter(|(part, _)| part.may_hold(mask)) {
            match places.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => places.push(start..end),
            }
        }
        places
    }

    /// Bytes of memory held, or that will be once they are known.
    pub(super) fn memory_bytes(&self) -> usize {
        /// Counts of holders, and what an allocation takes beside.
        const SHARED_BYTES: usize = 24;
        /// Those of some thirty records.
        const USUAL_PARTS: usize = 6;
        let parts = self.0.get().map_or(USUAL_PARTS, |parts| parts.len());
        parts * size_of::<Part>() + SHARED_BYTES
    }
}

#[cfg(test)]
mod tests;
