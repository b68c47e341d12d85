//! What a get has to know of a tail: where each record of it begins, and sixteen bits of its key's
//! hash.
//!
//! A tail stands in as many fragments as there were appends. A get whose interval is not in the
//! cache reads the records of the tail that may be of its key, and what stands before the tail
//! where these do not decide: one read or two, instead of one for each fragment.
//!
//! A value, in memory alone: after an opening tails are not known, and intervals are read whole,
//! until they are written anew. Invariants: T-1 records stand in the order in which they were
//! appended. T-2 versions in a tail are newer than all of their key before it.

use std::ops::Range;
// Plain bytes that nobody waits for.
use std::sync::Arc as ValueArc;

use crate::index::flex::intervals::anchors::Interval;
use crate::index::flex::intervals::run::{RunBuilder, fingerprint};

/// A record of a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Where it begins, from the first byte of its interval on.
    start: u16,
    fingerprint: u16,
}

/// The records of a tail, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TailIndex {
    places: ValueArc<[Place]>,
    /// Bytes of those whose key another record before them has, as far as that is known.
    superseding_bytes: u16,
}

impl TailIndex {
    /// That of an interval behind which records come; `None` where nobody knows of its tail so far,
    /// or it is too long.
    pub(super) fn appended(before: &Interval, come: &RunBuilder) -> Option<Self> {
        let (known, mut superseding_bytes): (&[Place], _) = match (&before.tail_index, before.tail)
        {
            (Some(index), _) => (&index.places, index.superseding_bytes),
            (None, 0) => (&[], 0),
            (None, _) => return None,
        };
        let mut places = Vec::with_capacity(known.len() + come.len());
        places.extend_from_slice(known);
        for (number, fingerprint) in come.fingerprints(0..come.len()).iter().enumerate() {
            let start = u16::try_from(before.bytes + come.start(number)).ok()?;
            let is_there = before.filter.tells_of(*fingerprint)
                || places.iter().any(|place: &Place| place.fingerprint == *fingerprint);
            if is_there {
                let bytes = come.start(number + 1).saturating_sub(come.start(number));
                superseding_bytes = u16::try_from(bytes).ok()?.saturating_add(superseding_bytes);
            }
            places.push(Place { start, fingerprint: *fingerprint });
        }
        (!places.is_empty()).then(|| Self { places: places.into(), superseding_bytes })
    }

    /// Bytes of the interval before the tail.
    pub(super) fn start(&self) -> u64 {
        self.places.first().map_or(0, |place| place.start.into())
    }

    /// About the bytes of the interval that records of the tail have made garbage.
    pub(super) fn superseded_bytes(&self) -> u64 {
        self.superseding_bytes.into()
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are so many records, and none behind them may be of a key.
    pub(super) fn lacks_since(&self, records: usize, hash: u64) -> bool {
        let wanted = fingerprint(hash);
        let since = self.places.get(records..);
        since.is_some_and(|since| since.iter().all(|place| place.fingerprint != wanted))
    }

    /// Where in its interval, which has so many bytes, the records lie that may be of a key.
    pub(super) fn records(&self, bytes: u64, hash: u64) -> impl Iterator<Item = Range<u64>> {
        let wanted = fingerprint(hash);
        let ends = self.places.iter().skip(1).map(|next| u64::from(next.start)).chain([bytes]);
        let records = self.places.iter().zip(ends);
        let may_be_its = records.filter(move |(place, _)| place.fingerprint == wanted);
        may_be_its.map(|(place, end)| place.start.into()..end)
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        /// Counts of holders, and what an allocation takes beside.
        const SHARED_BYTES: usize = 24;
        size_of_val(&*self.places) + SHARED_BYTES
    }
}
