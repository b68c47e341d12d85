//! Runs made of others and a few records, without reading all of them again.
//!
//! Plain functions. Invariant: CH-1 what comes out is what [`Run::decode`] makes of the same bytes.

use std::ops::Range;
use std::sync::Arc as ValueArc;

use crate::base::entry::{SEQ_MAX, compare_entries};
use crate::base::error::{Error, Result};
use crate::index::flex::intervals::filter::KeyFilter;
use crate::index::flex::intervals::run::{Record, Run, RunBuilder, too_large};
use crate::index::flex::intervals::state::Totals;

/// Records of a run, and those of a builder in their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index::flex::intervals) struct Change {
    pub(in crate::index::flex::intervals) old: Range<usize>,
    pub(in crate::index::flex::intervals) new: Range<usize>,
}

impl RunBuilder {
    /// Encoded records.
    pub(in crate::index::flex::intervals) fn bytes_of(&self, records: &Range<usize>) -> &[u8] {
        let range = self.start(records.start) as usize..self.start(records.end) as usize;
        self.encoded().get(range).unwrap_or_default()
    }
}

impl Run {
    /// Numbers of the records of a key; where it would stand, if there are none.
    pub(in crate::index::flex::intervals) fn versions(&self, key: &[u8]) -> Range<usize> {
        let first = self.lower_bound(key, SEQ_MAX);
        let is_key = |number: &usize| self.get(*number).is_some_and(|record| record.key == key);
        first..first + (first..self.len()).take_while(is_key).count()
    }

    /// The bytes of records of one that is in order.
    fn bytes_of(&self, records: &Range<usize>) -> &[u8] {
        let range = self.start(records.start) as usize..self.start(records.end) as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// The filter of an interval of all its records; unknown where they are not in order.
    pub(in crate::index::flex::intervals) fn filter(&self) -> KeyFilter {
        if !self.is_sorted {
            return KeyFilter::default();
        }
        KeyFilter::of(self.starts.iter().map(|start| u64::from(*start)), &self.fingerprints)
    }

    /// Some records of one that is in order, by themselves.
    pub(in crate::index::flex::intervals) fn some(
        &self,
        records: impl Iterator<Item = Range<usize>>,
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        records.for_each(|records| bytes.extend_from_slice(self.bytes_of(&records)));
        Self::decode(bytes)
    }

    /// Whether a change of one that is in order would change nothing.
    pub(in crate::index::flex::intervals) fn is_same(
        &self,
        change: &Change,
        new: &RunBuilder,
    ) -> bool {
        self.bytes_of(&change.old) == new.bytes_of(&change.new)
    }

    /// One that is in order with changes, in order as well.
    pub(in crate::index::flex::intervals) fn changed(
        &self,
        changes: &[Change],
        new: &RunBuilder,
    ) -> Self {
        let bytes = self.bytes.len() + new.bytes() as usize;
        let mut bytes = Vec::with_capacity(bytes);
        let (mut starts, mut fingerprints) = self.room_for(new.len());
        let (mut at, mut totals) = (0, self.totals);
        let end = Change { old: self.len()..self.len(), new: new.len()..new.len() };
        for Change { old, new: come } in changes.iter().chain([&end]) {
            let kept = at..old.start;
            // Wraps where it goes to the left.
            let shift = (bytes.len() as u32).wrapping_sub(self.start(at) as u32);
            let kept_starts = self.starts.get(kept.clone()).unwrap_or_default();
            starts.extend(kept_starts.iter().map(|start| start.wrapping_add(shift)));
            fingerprints.extend(self.fingerprints.get(kept.clone()).unwrap_or_default());
            bytes.extend_from_slice(self.bytes_of(&kept));
            let shift = bytes.len() as u64;
            let first = new.start(come.start);
            starts.extend(come.clone().map(|it| (shift + new.start(it) - first) as u32));
            fingerprints.extend(new.fingerprints(come.clone()));
            bytes.extend_from_slice(new.bytes_of(come));
            let gone = old.clone().filter_map(|number| self.get(number));
            totals.change(totals_of(come.clone().filter_map(|it| new.get(it))), totals_of(gone));
            at = old.end;
        }
        bytes.shrink_to_fit();
        Self { bytes: ValueArc::new(bytes), starts, fingerprints, is_sorted: true, totals }
    }

    /// With records behind its bytes, wherever they belong in order.
    ///
    /// # Errors
    /// `Corruption` where it has one of them already.
    pub(in crate::index::flex::intervals) fn appended(&self, come: &RunBuilder) -> Result<Self> {
        let end = self.bytes.len();
        if u32::try_from(end + come.encoded().len()).is_err() {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(end + come.encoded().len());
        bytes.extend_from_slice(&self.bytes);
        bytes.extend_from_slice(come.encoded());
        let (mut starts, mut fingerprints) = self.room_for(come.len());
        let (mut at, mut is_behind, mut totals) = (0, true, self.totals);
        for (number, print) in come.fingerprints(0..come.len()).iter().enumerate() {
            let Some(record) = come.get(number) else { continue };
            let place = self.lower_bound(record.key, record.seq);
            let behind = self.get(place);
            let entry = (record.key, record.seq);
            if behind.is_some_and(|it| compare_entries((it.key, it.seq), entry).is_eq()) {
                return Err(Error::corruption("an interval holds an entry twice"));
            }
            is_behind &= behind.is_none();
            let before = at..place.max(at);
            starts.extend_from_slice(self.starts.get(before.clone()).unwrap_or_default());
            fingerprints.extend_from_slice(self.fingerprints.get(before).unwrap_or_default());
            starts.push((end as u64 + come.start(number)) as u32);
            fingerprints.push(*print);
            at = place.max(at);
            totals.add(&record);
        }
        starts.extend_from_slice(self.starts.get(at..).unwrap_or_default());
        fingerprints.extend_from_slice(self.fingerprints.get(at..).unwrap_or_default());
        let is_sorted = self.is_sorted && is_behind;
        Ok(Self { bytes: ValueArc::new(bytes), starts, fingerprints, is_sorted, totals })
    }

    /// Room for where its records and so many more begin, and for their fingerprints.
    fn room_for(&self, more: usize) -> (Vec<u32>, Vec<u16>) {
        let count = self.len() + more;
        (Vec::with_capacity(count), Vec::with_capacity(count))
    }
}

fn totals_of<'a>(records: impl Iterator<Item = Record<'a>>) -> Totals {
    let mut totals = Totals::default();
    records.for_each(|record| totals.add(&record));
    totals
}

#[cfg(test)]
mod tests;
