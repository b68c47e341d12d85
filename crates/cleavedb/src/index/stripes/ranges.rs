//! The stripe rule for range tombstones.

use std::collections::HashSet;

use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::index::{Dead, Listener};

/// What remains of the range tombstones of a run, ordered by start: within each stripe only the
/// newest over a key, and none at the bottom that no live snapshot separates from what it hides.
///
/// `older_below` tells whether anything older may exist below in [start, end). The listener is
/// told of tombstones of which nothing remains, with their own seq.
pub(crate) fn surviving_tombstones(
    fragments: &Fragments,
    snapshots: &[Seq],
    mut older_below: impl FnMut(&[u8], &[u8]) -> bool,
    listener: &mut dyn Listener,
) -> Vec<RangeTombstone> {
    if fragments.is_empty() {
        return Vec::new();
    }
    let tombstones = fragments.tombstones();
    let mut bounds: Vec<&[u8]> =
        tombstones.iter().flat_map(|t| [t.start.as_ref(), t.end.as_ref()]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut kept: Vec<RangeTombstone> = Vec::new();
    // Tombstones of `kept` that end at the current bound, and may go on.
    let mut open: Vec<usize> = Vec::new();
    for (start, end) in bounds.iter().zip(bounds.iter().skip(1)) {
        let seqs = newest_by_stripe(fragments, start, snapshots);
        let mut still_open = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let separated = snapshots.first().is_some_and(|oldest| *oldest < seq);
            let needed = separated
                || planted_or(older_below(start, end))
                || listener.keeps_tombstone(start, seq);
            if !needed {
                mark!("bottom_range_tombstone_dropped");
                continue;
            }
            let begun = open
                .iter()
                .copied()
                .find(|number| kept.get(*number).is_some_and(|tombstone| tombstone.seq == seq));
            let number = begun.unwrap_or(kept.len());
            match kept.get_mut(number) {
                Some(tombstone) => tombstone.end = (*end).into(),
                None => {
                    kept.push(RangeTombstone { start: (*start).into(), end: (*end).into(), seq });
                }
            }
            still_open.push(number);
        }
        open = still_open;
    }
    let alive: HashSet<Seq> = kept.iter().map(|tombstone| tombstone.seq).collect();
    for tombstone in tombstones.iter().filter(|tombstone| !alive.contains(&tombstone.seq)) {
        let RangeTombstone { start, end, seq } = tombstone;
        let (key, seq, value) = (start.as_ref(), *seq, end.as_ref());
        let (kind, superseded_by, is_covered) = (Kind::RangeDelete, seq, false);
        listener.dead(Dead { key, seq, kind, value, superseded_by, is_covered });
    }
    kept
}

fn planted_or(older_below: bool) -> bool {
    older_below && !planted!("drop_tombstone_above_bottom")
}

/// The newest covering seq of every stripe, descending.
fn newest_by_stripe(fragments: &Fragments, key: &[u8], snapshots: &[Seq]) -> Vec<Seq> {
    let mut seqs = Vec::new();
    let mut top = SEQ_MAX;
    loop {
        let seq = fragments.cover_seq(key, top);
        if seq == 0 {
            return seqs;
        }
        seqs.push(seq);
        // The next stripe down begins at the newest snapshot below this seq.
        let below = snapshots.partition_point(|snapshot| *snapshot < seq);
        match below.checked_sub(1).and_then(|number| snapshots.get(number)) {
            Some(snapshot) => top = *snapshot,
            None => return seqs,
        }
    }
}
