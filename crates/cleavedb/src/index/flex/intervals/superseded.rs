//! Intervals that a reclaim would move though their tails have made a part of them garbage.
//!
//! To write such an interval anew costs no more bytes than to move it, and the flush that would
//! have had to do so soon finds it without a tail. So a reclaim has it done first, and moves what
//! is left then. The paper's cleaning knows extents alone.
//!
//! Segments say whose data they hold, as a reclaim needs it: only groups that own something in the
//! victims are looked at. What an owner has handed on otherwise than by splits, and what a walk has
//! moved, which is nobody's, is not found here; a reclaim moves it. Plain functions of a view.

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

/// Intervals that are better written anew than moved.
#[derive(Debug, Default)]
pub(super) struct Superseded {
    /// Their bounds.
    pub(super) anchors: Vec<ValueArc<[u8]>>,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Intervals that were looked at to find them.
    pub(super) looked_at: u64,
}

/// The intervals whose first byte stands in one of these segments and of which enough is garbage,
/// as many as make a job.
pub(super) fn superseded_in(
    source: &Source,
    victims: &BTreeSet<FileId>,
    limits: &FlexLimits,
) -> Result<Superseded> {
    let mut found = Superseded::default();
    let tree = source.space.tree();
    let owners = source.space.owners(victims)?;
    for interval in source.anchors.of_owners(owners) {
        if found.bytes >= limits.job_bytes_max {
            break;
        }
        found.looked_at += 1;
        let (before_tail, superseded) = interval.interval.superseded();
        if superseded > before_tail / SUPERSEDED_PART_MIN {
            let start = interval.range().start;
            let first = tree.walk(start..start + 1)?.next();
            if first.is_some_and(|first| victims.contains(&place_of(first.extent.physical).0)) {
                mark!("interval_rewritten_for_reclaim");
                found.anchors.push(ValueArc::clone(&interval.interval.anchor));
                found.bytes += before_tail;
            }
        }
    }
    Ok(found)
}
