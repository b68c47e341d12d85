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
    let of_keyspaces = ranges.chunk_by(|a, b| a.keyspace == b.keyspace);
    let mut thinned: Vec<_> =
        of_keyspaces.flat_map(|ranges| thin_keyspace(ranges, &covers, snapshots)).collect();
    sort(&mut thinned);
    *ranges = thinned;
}

fn thin_keyspace(ranges: &[RangeAnchor], covers: &Covers, snapshots: &[Seq]) -> Vec<RangeAnchor> {
    let Some(keyspace) = ranges.first().map(|anchor| anchor.keyspace) else { return Vec::new() };
    let both = |anchor: &RangeAnchor| [anchor.range.start.clone(), anchor.range.end.clone()];
    let mut bounds: Vec<_> = ranges.iter().flat_map(both).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut kept: Vec<RangeAnchor> = Vec::new();
    // Those of `kept` that end at the bound that the walk has come to, and may go on.
    let mut open: Vec<usize> = Vec::new();
    for (start, end) in bounds.iter().zip(bounds.iter().skip(1)) {
        let mut still_open = Vec::new();
        for seq in newest_by_stripe(covers, Bound { keyspace, key: start }, snapshots) {
            let is_same = |at: &&usize| kept.get(**at).is_some_and(|kept| kept.range.seq == seq);
            let at = open.iter().find(is_same).copied().unwrap_or(kept.len());
            match kept.get_mut(at) {
                Some(anchor) => anchor.range.end = end.clone(),
                None => {
                    let range = RangeTombstone { start: start.clone(), end: end.clone(), seq };
                    kept.push(RangeAnchor { keyspace, range });
                }
            }
            still_open.push(at);
        }
        open = still_open;
    }
    kept
}

/// The newest range anchor over a key in each stripe that has one, newest first.
fn newest_by_stripe(covers: &Covers, bound: Bound<'_>, snapshots: &[Seq]) -> Vec<Seq> {
    let (mut top, mut seqs) = (Some(SEQ_MAX), Vec::new());
    while let Some(seq) = top.map(|top| covers.cover_seq(bound, top)).filter(|seq| *seq > 0) {
        seqs.push(seq);
        let below = snapshots.partition_point(|snapshot| *snapshot < seq);
        top = below.checked_sub(1).and_then(|last| snapshots.get(last)).copied();
    }
    seqs
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
