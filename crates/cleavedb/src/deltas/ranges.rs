//! Range anchors: "deltas of all keys of this range with a smaller seq are dead". Immutable; any
//! thread.
//!
//! Layout: number of them (varint), then each: keyspace (varint), start, end (length, bytes), seq
//! (varint), in the order of (keyspace, start, seq downwards, end).

use std::collections::BTreeMap;

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::{KEY_BYTES_MAX, RANGE_END_BYTES_MAX};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::deltas::record::{Bound, GroupTotals, decode_bound};

/// One range anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeAnchor {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The range and the seq.
    pub(crate) range: RangeTombstone,
}

impl RangeAnchor {
    /// The part of it over keys from `start` on and below `end`, if any. What it hides stands where
    /// it stands, so a bucket needs no more of it; and an open end is as long as the longest key.
    pub(crate) fn cut(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> Option<Self> {
        let from = start.map_or(&*self.range.start, |start| start.max(&self.range.start));
        let to = end.map_or(&*self.range.end, |end| end.min(&self.range.end));
        let range = RangeTombstone { start: from.into(), end: to.into(), seq: self.range.seq };
        (from < to).then_some(Self { keyspace: self.keyspace, range })
    }
}

/// Memory of range anchors.
pub(crate) fn memory_bytes(ranges: &[RangeAnchor]) -> usize {
    let bytes = |anchor: &RangeAnchor| anchor.range.start.len() + anchor.range.end.len();
    ranges.iter().map(|anchor| size_of::<RangeAnchor>() + bytes(anchor)).sum()
}

/// Leaves of range anchors, which are in order, the newest over each key in each stripe between
/// snapshots: no other decides over anything.
pub(crate) fn thin(ranges: &mut Vec<RangeAnchor>, snapshots: &[Seq]) {
    if ranges.len() < 2 {
        return;
    }
    let covers = Covers::new(ranges.iter());
    let mut thinned = Vec::new();
    for (&keyspace, fragments) in &covers.keyspaces {
        let kept = fragments.thinned(snapshots, |_, _, _| true);
        thinned.extend(kept.into_iter().map(|range| RangeAnchor { keyspace, range }));
    }
    sort(&mut thinned);
    *ranges = thinned;
}

/// Fewest bytes of one.
const RANGE_BYTES_MIN: usize = 5;

fn order(a: &RangeAnchor, b: &RangeAnchor) -> std::cmp::Ordering {
    (a.keyspace.cmp(&b.keyspace))
        .then_with(|| a.range.start.cmp(&b.range.start))
        .then_with(|| b.range.seq.cmp(&a.range.seq))
        .then_with(|| a.range.end.cmp(&b.range.end))
}

/// Puts range anchors in order, each once, without empty ones.
pub(crate) fn sort(ranges: &mut Vec<RangeAnchor>) {
    ranges.retain(|anchor| anchor.range.start < anchor.range.end);
    ranges.sort_by(order);
    ranges.dedup();
}

/// Appends range anchors, which are in order.
pub(crate) fn encode(ranges: &[RangeAnchor], out: &mut Vec<u8>) {
    put_varint(out, ranges.len() as u64);
    for RangeAnchor { keyspace, range } in ranges {
        put_varint(out, u64::from(keyspace.0));
        put_bytes(out, &range.start);
        put_bytes(out, &range.end);
        put_varint(out, range.seq);
    }
}

/// Reads range anchors; there is one way only to write them.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Vec<RangeAnchor>> {
    let count = reader.varint()?;
    if count > (reader.rest().len() / RANGE_BYTES_MIN) as u64 {
        return Err(Error::corruption("more range anchors than there are bytes"));
    }
    let mut ranges: Vec<RangeAnchor> = Vec::new();
    for _ in 0..count {
        let start = decode_bound(reader, KEY_BYTES_MAX)?;
        let (end, seq) = (reader.bytes()?, reader.varint()?);
        let is_sound = start.keyspace.0 != 0
            && start.key < end
            && end.len() <= RANGE_END_BYTES_MAX
            && (1..=SEQ_MAX).contains(&seq);
        let range = RangeTombstone { start: start.key.into(), end: end.into(), seq };
        let anchor = RangeAnchor { keyspace: start.keyspace, range };
        if !is_sound || ranges.last().is_some_and(|last| order(last, &anchor).is_ge()) {
            return Err(Error::corruption("range anchors that cannot be, or do not ascend"));
        }
        ranges.push(anchor);
    }
    Ok(ranges)
}

/// Counts the seqs of range anchors, too.
pub(crate) fn count(ranges: &[RangeAnchor], totals: &mut GroupTotals) {
    ranges.iter().for_each(|anchor| totals.add(anchor.range.seq));
}

/// All range anchors of a bucket, for look-ups.
#[derive(Debug, Default)]
pub(crate) struct Covers {
    keyspaces: BTreeMap<KeyspaceId, Fragments>,
}

impl Covers {
    /// Those of several parts.
    pub(crate) fn new<'a>(ranges: impl Iterator<Item = &'a RangeAnchor>) -> Self {
        let mut by_keyspace: BTreeMap<KeyspaceId, Vec<RangeTombstone>> = BTreeMap::new();
        for anchor in ranges {
            by_keyspace.entry(anchor.keyspace).or_default().push(anchor.range.clone());
        }
        let build = |(keyspace, ranges)| (keyspace, Fragments::build(ranges));
        Self { keyspaces: by_keyspace.into_iter().map(build).collect() }
    }

    /// Largest seq, not above `snapshot`, of a range anchor over the key; 0 for none.
    pub(crate) fn cover_seq(&self, bound: Bound<'_>, snapshot: Seq) -> Seq {
        let fragments = self.keyspaces.get(&bound.keyspace);
        fragments.map_or(0, |fragments| fragments.cover_seq(bound.key, snapshot))
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keyspaces.values().map(Fragments::memory_bytes).sum()
    }
}

#[cfg(test)]
mod tests;
