//! What a flush has for each bucket: its deltas by the stripe rule, and anchors where older deltas
//! may be.
//!
//! Owned by one flush, over one directory. Keys may come in any order. The buckets' batches are
//! independent of each other, so that each may be written by a task of its own.

use std::collections::BTreeMap;

use crate::base::checksum::KeyedHash;
use crate::base::entry::Seq;
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::deltas::bucket::Bucket;
use crate::deltas::bucket::writer::GroupBytes;
use crate::deltas::collect::survivors::{Fate, Judge, KeyRecords, OwnedRecord, Rule};
use crate::deltas::directory::{Directory, Position};
use crate::deltas::ranges::{self, Covers, RangeAnchor};
use crate::deltas::record::{Bound, DeltaKind, OwnedBound, Record};

/// What a flush has for one bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketBatch {
    /// Keys in order.
    pub(crate) keys: Vec<KeyRecords>,
    /// Range anchors in order.
    pub(crate) ranges: Vec<RangeAnchor>,
}

impl BucketBatch {
    /// Whether the bucket need not be touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Its largest seq.
    pub(crate) fn last_seq(&self) -> Seq {
        let records = self.keys.iter().flat_map(|key| &key.records).map(|record| record.seq);
        let ranges = self.ranges.iter().map(|anchor| anchor.range.seq);
        records.chain(ranges).max().unwrap_or(0)
    }

    /// The groups, as a chunk has them.
    pub(crate) fn groups(&self) -> Result<GroupBytes> {
        let mut groups = GroupBytes::default();
        for key in &self.keys {
            let records: Vec<Record<'_>> = key.records.iter().map(OwnedRecord::as_ref).collect();
            groups.add(key.bound.as_ref(), &records)?;
        }
        Ok(groups)
    }
}

/// Sorts a flush's records by bucket.
pub(crate) struct Router<'a> {
    directory: &'a Directory,
    hash: KeyedHash,
    rule: &'a Rule<'a>,
    ranges: Vec<RangeAnchor>,
    covers: Covers,
    memory_bytes: u64,
    batches: BTreeMap<Option<Position>, Vec<KeyRecords>>,
}

impl<'a> Router<'a> {
    /// A router for a flush with these range deletes.
    pub(crate) fn new(
        directory: &'a Directory,
        hash: KeyedHash,
        rule: &'a Rule<'a>,
        mut ranges: Vec<RangeAnchor>,
    ) -> Self {
        ranges::sort(&mut ranges);
        ranges::thin(&mut ranges, rule.snapshots);
        let covers = Covers::new(ranges.iter());
        Self { directory, hash, rule, ranges, covers, memory_bytes: 0, batches: BTreeMap::new() }
    }

    /// Takes in a key's operands as deltas, its puts and deletes as anchors, newest first.
    pub(crate) fn add(&mut self, bound: Bound<'_>, records: Vec<OwnedRecord>) {
        let Fate::Lives(operator) = (self.rule.fate_of)(bound.keyspace) else { return };
        let position = self.directory.position(bound);
        let is_lone_delta = matches!(
            records.as_slice(),
            [OwnedRecord { kind: DeltaKind::Delta, .. }] if self.ranges.is_empty()
        );
        let records = match is_lone_delta {
            true => records,
            false => {
                let bucket = position.and_then(|position| self.directory.at(position));
                let may_hold = |bucket: &Arc<Bucket>| {
                    let hash = self.hash.hash(bound.keyspace, bound.key);
                    bucket.may_hold(bound, hash) != Some(false)
                };
                let judge = Judge {
                    covers: &self.covers,
                    snapshots: self.rule.snapshots,
                    operator: operator.as_ref(),
                    older_below: bucket.is_some_and(may_hold),
                };
                let records: Vec<Record<'_>> = records.iter().map(OwnedRecord::as_ref).collect();
                judge.judge(bound, &records)
            }
        };
        if !records.is_empty() {
            let key = KeyRecords { bound: bound.to_owned(), records };
            self.memory_bytes += key.memory_bytes();
            self.batches.entry(position).or_default().push(key);
        }
    }

    /// Memory of what was taken in.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The batches, each with the place of its bucket; none where there is no bucket yet.
    pub(crate) fn finish(mut self) -> Vec<(Option<Position>, BucketBatch)> {
        let mut ranges: BTreeMap<Option<Position>, Vec<RangeAnchor>> = BTreeMap::new();
        if self.directory.len() == 0 && !self.batches.is_empty() {
            // The flush's own deltas may be under them.
            ranges.insert(None, std::mem::take(&mut self.ranges));
        }
        for anchor in self.ranges {
            let start = Bound { keyspace: anchor.keyspace, key: &anchor.range.start };
            let end = Bound { keyspace: anchor.keyspace, key: &anchor.range.end };
            let mut position = self.directory.position(start);
            while let Some(here) = position {
                // A bucket hides what stands in it alone.
                let cut = cut_to_bucket(self.directory, here, &anchor);
                ranges.entry(position).or_default().extend(cut);
                let next = self.directory.next(here);
                let begins = next.and_then(|next| self.directory.at(next));
                position = next
                    .filter(|_| begins.is_some_and(|bucket| bucket.info().start.as_ref() < end));
            }
        }
        for position in ranges.keys() {
            self.batches.entry(*position).or_default();
        }
        let batches = self.batches.into_iter().map(|(position, mut keys)| {
            let mut ranges = ranges.remove(&position).unwrap_or_default();
            ranges::sort(&mut ranges);
            // In order already, as a rule.
            keys.sort_by(|a, b| a.bound.cmp(&b.bound));
            (position, BucketBatch { keys, ranges })
        });
        batches.collect()
    }
}

/// The part of a range anchor that lies over the range of a bucket.
fn cut_to_bucket(
    directory: &Directory,
    position: Position,
    anchor: &RangeAnchor,
) -> Option<RangeAnchor> {
    let of_keyspace = |bound: &&OwnedBound| bound.keyspace == anchor.keyspace;
    let start = directory.at(position).map(|bucket| &bucket.info().start).filter(of_keyspace);
    let end = directory.end_of(position).filter(of_keyspace);
    anchor.cut(start.map(|start| &*start.key), end.map(|end| &*end.key))
}

#[cfg(test)]
mod tests;
