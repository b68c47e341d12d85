//! Intervals in many fragments are written in one piece while nobody writes, whether they were read
//! yet or not: out of what flushes have earned, byte for byte.
//!
//! What flushes append makes every later read dearer, and the device has time when nobody writes.
//! An LSM-tree merges its runs then; here the intervals are passed once from left to right. A flush
//! stops that, and it goes on from there: what the flush left further to the left waits for the
//! pass after the next flush. What is written for this in all comes to what was put, and a job's
//! worth, at most. A pass that can pay for most of the space, as after a load, takes every interval
//! that is not in one piece, so that neighbours come to stand side by side and a walk reads several
//! at once; others take those that are worst. The paper leaves fragments to the next flush that
//! meets the interval.
//!
//! Part of the plans of an index. Invariant: Q-1 an interval is looked at at most once between two
//! flushes, so that this comes to an end.

use std::sync::Arc as ValueArc;

use crate::base::error::Result;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::view::Source;

/// Fragments from which on a pass takes an interval that can pay for most of the space: whatever is
/// not in one piece.
const MOST_FRAGMENTS_MIN: usize = 2;

/// What is still to be passed, and what it may cost.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Nobody has written for a while.
    is_quiet: bool,
    /// Bytes that may be written.
    earned_bytes: u64,
    /// Where to go on; `None`: all has been passed since the last flush.
    next: Option<Vec<u8>>,
    /// The pass can pay for most of the space.
    pays_for_most: bool,
}

impl Quiet {
    /// A flush brought in so many bytes.
    pub(super) fn flushed(&mut self, bytes: u64) {
        self.is_quiet = false;
        self.earned_bytes = self.earned_bytes.saturating_add(bytes);
        self.next.get_or_insert_default();
    }

    /// Nobody writes; whether there is something to do among so many bytes of data.
    pub(super) fn begin(&mut self, limits: &FlexLimits, data_bytes: u64) -> bool {
        self.is_quiet = true;
        if self.next.as_ref().is_some_and(Vec::is_empty) {
            self.pays_for_most = self.earned_bytes >= data_bytes / 4 * 3;
        }
        self.due(limits).is_some()
    }

    /// Where to go on, if anything is to be done, and the fragments from which on an interval is
    /// written in one piece.
    pub(super) fn due(&self, limits: &FlexLimits) -> Option<(&[u8], usize)> {
        let is_earned = self.earned_bytes >= limits.gathered_bytes_min.max(1);
        let start = self.next.as_deref().filter(|_| self.is_quiet && is_earned)?;
        let fragments_min = match self.pays_for_most {
            true => MOST_FRAGMENTS_MIN.min(limits.gathered_fragments_min),
            false => limits.gathered_fragments_min,
        };
        Some((start, fragments_min))
    }

    /// A pass has failed, and is not begun again before flushes have earned another one.
    pub(super) fn give_up(&mut self) {
        (self.earned_bytes, self.pays_for_most) = (0, false);
    }

    /// Whether a pass is under way that writes nearly all intervals anew.
    pub(super) fn passes_most(&self, limits: &FlexLimits) -> bool {
        self.pays_for_most && self.due(limits).is_some()
    }

    /// Intervals up to a key were passed, or all of them, and so many bytes of them written. What
    /// is left over in the end was for nothing that is still to be done, unless a flush came
    /// meanwhile: then all are to be passed again.
    pub(super) fn passed(&mut self, next: Option<Vec<u8>>, bytes: u64) {
        self.earned_bytes = self.earned_bytes.saturating_sub(bytes);
        self.next = match next {
            None if self.is_quiet => {
                self.earned_bytes = 0;
                None
            }
            next => Some(next.unwrap_or_default()),
        };
    }
}

/// Intervals that are to be written in one piece.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Where they begin.
    pub(super) anchors: Vec<ValueArc<[u8]>>,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Where those begin that were not looked at.
    pub(super) next: Option<Vec<u8>>,
}

impl Passed {
    /// Those from a key on in so many fragments, as many as make a job.
    pub(super) fn from(
        source: &Source,
        (start, fragments_min): (&[u8], usize),
        limits: &FlexLimits,
    ) -> Result<Self> {
        let mut passed = Self::default();
        let (bytes_max, mut looked_at) = (limits.gathered_bytes_min.max(1), 0);
        let mut next = source.anchors.find(start);
        while let Some(found) = next {
            let interval = found.interval;
            if passed.bytes >= bytes_max || looked_at >= limits.job_bytes_max {
                passed.next = Some(interval.anchor.to_vec());
                break;
            }
            looked_at += interval.bytes;
            if source.is_in_fragments(&found, fragments_min)? {
                passed.bytes += interval.bytes;
                passed.anchors.push(ValueArc::clone(&interval.anchor));
            }
            next = source.anchors.get(found.group, found.number + 1);
        }
        Ok(passed)
    }
}
