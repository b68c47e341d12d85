//! The stripe rule for range tombstones.

use std::collections::HashSet;

use crate::base::entry::{Kind, Seq};
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
    let kept = fragments.thinned(snapshots, |start, end, seq| {
        let separated = snapshots.first().is_some_and(|oldest| *oldest < seq);
        let needed = separated
            || planted_or(older_below(start, end))
            || listener.keeps_tombstone(start, seq);
        if !needed {
            mark!("bottom_range_tombstone_dropped");
        }
        needed
    });
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
