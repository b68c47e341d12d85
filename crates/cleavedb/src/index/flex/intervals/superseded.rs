//! Intervals that a reclaim would move though their tails have made a part of them garbage.
//!
//! To write such an interval anew costs no more bytes than to move it, and the flush that would
//! have had to do so soon finds it without a tail. So a reclaim has it done first, and moves what
//! is left then. The paper's cleaning knows extents alone. Plain functions of a view.

use std::collections::BTreeSet;
use std::sync::Arc as ValueArc;

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::view::Source;
use crate::index::flex::space::segment::format::place_of;

/// Which part of what stands before a tail must be garbage for what the tail holds, at least: with
/// less, too little would be gained.
const SUPERSEDED_PART_MIN: u64 = 8;

/// Bounds of the intervals whose first byte stands in one of these segments and of which enough is
/// garbage, as many as make a job, and their bytes.
pub(super) fn superseded_in(
    source: &Source,
    victims: &BTreeSet<FileId>,
    limits: &FlexLimits,
) -> Result<(Vec<ValueArc<[u8]>>, u64)> {
    let (mut anchors, mut bytes) = (Vec::new(), 0);
    let tree = source.space.tree();
    let mut next = source.anchors.find(&[]);
    while let Some(found) = next.filter(|_| bytes < limits.job_bytes_max) {
        let (before_tail, superseded) = found.interval.superseded();
        if superseded > before_tail / SUPERSEDED_PART_MIN {
            let start = found.range().start;
            let first = tree.walk(start..start + 1)?.next();
            if first.is_some_and(|first| victims.contains(&place_of(first.extent.physical).0)) {
                mark!("interval_rewritten_for_reclaim");
                anchors.push(ValueArc::clone(&found.interval.anchor));
                bytes += before_tail;
            }
        }
        next = source.anchors.get(found.group, found.number + 1);
    }
    Ok((anchors, bytes))
}
