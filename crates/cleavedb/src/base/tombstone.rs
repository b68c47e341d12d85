//! Range tombstones and their fragments: which seq hides a key at a snapshot.
//!
//! A set of range deletes is cut at all its end points into elementary intervals, over which a
//! static segment tree holds the seqs: a tombstone stands at O(log n) nodes, and a key's seqs are
//! those on the path from its interval to the root. So n range deletes take O(n log n) memory even
//! when all of them overlap, where one list per fragment would take O(n^2).
//!
//! Immutable once built, so any number of threads may read it. Invariants: T1 bounds are strictly
//! ascending. T2 the seqs of one tree node are strictly descending. T3 the tombstones kept are the
//! ones given, less empty ranges and exact repeats, ordered by (start, seq descending, end).

use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::sync::Arc;

#[cfg(test)]
mod tests;

/// "All keys in [start, end) with a seq below `seq` are deleted."
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    /// First key deleted.
    pub(crate) start: Box<[u8]>,
    /// First key not deleted any more.
    pub(crate) end: Box<[u8]>,
    /// The tombstone's own seq.
    pub(crate) seq: Seq,
}

/// A tombstone whose keys are numbers of bounds.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
    seq: Seq,
}

/// Immutable fragments of a set of range tombstones.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// All bounds, one after the other.
    keys: Vec<u8>,
    /// Where each bound ends in `keys`. Interval i lies between the bounds i and i + 1.
    key_ends: Vec<usize>,
    /// The tombstones themselves (T3).
    spans: Vec<Span>,
    /// Seqs of all tree nodes, node by node.
    seqs: Vec<Seq>,
    /// Where the seqs of each tree node end; node 1 is the root, leaf i stands at intervals + i.
    node_ends: Vec<u32>,
}

impl Fragments {
    /// Builds the fragments of any tombstones; empty ranges and exact repeats are left out.
    pub(crate) fn build(mut tombstones: Vec<RangeTombstone>) -> Self {
        tombstones.retain(|tombstone| tombstone.start < tombstone.end);
        tombstones.sort_by(|a, b| {
            a.start.cmp(&b.start).then(b.seq.cmp(&a.seq)).then_with(|| a.end.cmp(&b.end))
        });
        tombstones.dedup();
        let mut bounds: Vec<&[u8]> =
            tombstones.iter().flat_map(|t| [t.start.as_ref(), t.end.as_ref()]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let number = |key: &[u8]| bounds.partition_point(|bound| *bound < key) as u32;
        let spans: Vec<Span> = tombstones
            .iter()
            .map(|t| Span { start: number(&t.start), end: number(&t.end), seq: t.seq })
            .collect();
        let keys = bounds.concat();
        let mut end = 0;
        let key_ends = bounds
            .iter()
            .map(|bound| {
                end += bound.len();
                end
            })
            .collect();
        let (seqs, node_ends) = seqs_by_node(&spans, bounds.len().saturating_sub(1));
        Self { keys, key_ends, spans, seqs, node_ends }
    }

    /// The fragments of all tombstones of several sets.
    pub(crate) fn merged(sets: &[Arc<Fragments>]) -> Self {
        Self::build(sets.iter().flat_map(|set| set.tombstones()).collect())
    }

    /// Largest tombstone seq not above `snapshot` that covers `key`; 0 for none.
    pub(crate) fn cover_seq(&self, key: &[u8], snapshot: Seq) -> Seq {
        match self.interval_of(key) {
            Some(interval) => self.path(interval).fold(0, |newest, seqs| {
                let skipped = seqs.partition_point(|seq| *seq > snapshot);
                newest.max(seqs.get(skipped).copied().unwrap_or(0))
            }),
            None => 0,
        }
    }

    #[cfg(test)]
    /// Whether some key in [`start`, `end`) is covered by any tombstone, whatever its seq; `None`
    /// is unbounded.
    pub(crate) fn covers_any(&self, start: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        if start.zip(end).is_some_and(|(start, end)| start >= end) {
            return false;
        }
        // Every second interval at least is covered (each bound begins or ends a tombstone), so
        // the loop ends after two steps.
        let from = start.map_or(0, |key| self.bounds_up_to(key).saturating_sub(1));
        (from..self.intervals())
            .take_while(|interval| end.is_none_or(|end| self.bound(*interval) < end))
            .any(|interval| self.path(interval).any(|seqs| !seqs.is_empty()))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of tombstones.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    #[cfg(test)]
    /// Covered intervals in key order: start, end, and the seqs over it, descending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], Vec<Seq>)> {
        (0..self.intervals()).filter_map(|interval| {
            let mut seqs: Vec<Seq> = self.path(interval).flatten().copied().collect();
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            (!seqs.is_empty()).then(|| (self.bound(interval), self.bound(interval + 1), seqs))
        })
    }

    /// The tombstones as they were given, ordered by (start, seq descending).
    pub(crate) fn tombstones(&self) -> Vec<RangeTombstone> {
        self.spans
            .iter()
            .map(|span| RangeTombstone {
                start: self.bound(span.start as usize).into(),
                end: self.bound(span.end as usize).into(),
                seq: span.seq,
            })
            .collect()
    }

    /// The newest seq over a key in each stripe between snapshots that has one, descending. No
    /// other over it decides over anything.
    fn newest_by_stripe(&self, key: &[u8], snapshots: &[Seq]) -> Vec<Seq> {
        let (mut seqs, mut top) = (Vec::new(), Some(SEQ_MAX));
        while let Some(seq) = top.map(|top| self.cover_seq(key, top)).filter(|seq| *seq > 0) {
            seqs.push(seq);
            // The next stripe down begins at the newest snapshot below this seq.
            let below = snapshots.partition_point(|snapshot| *snapshot < seq);
            top = below.checked_sub(1).and_then(|number| snapshots.get(number)).copied();
        }
        seqs
    }

    /// What is left if within each stripe between snapshots the newest over a key stays, where
    /// `keeps` (its start, end and seq) says so; ordered by start.
    pub(crate) fn thinned(
        &self,
        snapshots: &[Seq],
        mut keeps: impl FnMut(&[u8], &[u8], Seq) -> bool,
    ) -> Vec<RangeTombstone> {
        let tombstones = self.tombstones();
        let both = |tombstone: &RangeTombstone| [tombstone.start.clone(), tombstone.end.clone()];
        let mut bounds: Vec<Box<[u8]>> = tombstones.iter().flat_map(both).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut kept: Vec<RangeTombstone> = Vec::new();
        // Those of `kept` that end at the current bound, and may go on.
        let mut open: Vec<usize> = Vec::new();
        for (start, end) in bounds.iter().zip(bounds.iter().skip(1)) {
            let mut still_open = Vec::new();
            for seq in self.newest_by_stripe(start, snapshots) {
                if !keeps(start, end, seq) {
                    continue;
                }
                let is_same = |at: &&usize| kept.get(**at).is_some_and(|kept| kept.seq == seq);
                let at = open.iter().find(is_same).copied().unwrap_or(kept.len());
                match kept.get_mut(at) {
                    Some(tombstone) => tombstone.end = end.clone(),
                    None => {
                        kept.push(RangeTombstone { start: start.clone(), end: end.clone(), seq });
                    }
                }
                still_open.push(at);
            }
            open = still_open;
        }
        kept
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.keys.capacity()
            + self.key_ends.capacity() * size_of::<usize>()
            + self.spans.capacity() * size_of::<Span>()
            + self.seqs.capacity() * size_of::<Seq>()
            + self.node_ends.capacity() * size_of::<u32>()
    }

    /// Number of elementary intervals, covered or not.
    fn intervals(&self) -> usize {
        self.key_ends.len().saturating_sub(1)
    }

    /// The bound of this number; empty beyond the last.
    fn bound(&self, number: usize) -> &[u8] {
        let end = self.key_ends.get(number).copied().unwrap_or(0);
        let before = number.checked_sub(1).and_then(|previous| self.key_ends.get(previous));
        self.keys.get(before.copied().unwrap_or(0)..end).unwrap_or(&[])
    }

    /// Number of bounds at or below `key`.
    fn bounds_up_to(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.key_ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.bound(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The interval that `key` lies in, unless it lies outside of all.
    fn interval_of(&self, key: &[u8]) -> Option<usize> {
        let interval = self.bounds_up_to(key).checked_sub(1)?;
        (interval < self.intervals()).then_some(interval)
    }

    /// The seqs of each tree node over an interval, from its leaf to the root.
    fn path(&self, interval: usize) -> impl Iterator<Item = &[Seq]> {
        let leaf = self.intervals() + interval;
        std::iter::successors(Some(leaf), |node| Some(node / 2)).take_while(|node| *node > 0).map(
            |node| {
                let start = self.node_ends.get(node - 1).copied().unwrap_or(0) as usize;
                let end = self.node_ends.get(node).copied().unwrap_or(0) as usize;
                self.seqs.get(start..end).unwrap_or(&[])
            },
        )
    }
}

/// Distributes the spans over a segment tree of `intervals` leaves: all seqs, node by node and
/// descending within each, and where each node's seqs end.
fn seqs_by_node(spans: &[Span], intervals: usize) -> (Vec<Seq>, Vec<u32>) {
    if spans.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut placed: Vec<(u32, Seq)> = Vec::with_capacity(spans.len());
    for span in spans {
        let mut low = span.start as usize + intervals;
        let mut high = span.end as usize + intervals;
        while low < high {
            if low % 2 == 1 {
                placed.push((low as u32, span.seq));
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                placed.push((high as u32, span.seq));
            }
            low /= 2;
            high /= 2;
        }
    }
    placed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    placed.dedup();
    let mut node_ends = vec![0; 2 * intervals];
    for (node, _) in &placed {
        if let Some(count) = node_ends.get_mut(*node as usize) {
            *count += 1;
        }
    }
    let mut end = 0;
    for count in &mut node_ends {
        end += *count;
        *count = end;
    }
    (placed.iter().map(|(_, seq)| *seq).collect(), node_ends)
}
