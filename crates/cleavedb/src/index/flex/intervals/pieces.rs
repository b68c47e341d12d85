//! What becomes of an interval that is written anew and may have become several.
//!
//! Owned by one change. Invariant: PI-1 all versions of a key are in one interval.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::index::flex::intervals::anchors::{Interval, Mark, separator};
use crate::index::flex::intervals::editor::Editor;
use crate::index::flex::intervals::run::RunBuilder;

/// Intervals that are being written in front of the one that they replace.
#[derive(Default)]
pub(super) struct Pieces {
    /// Records that are not written yet.
    pub(super) pending: RunBuilder,
    /// What is written.
    pub(super) done: Vec<Interval>,
    /// Where the next one goes.
    pub(super) at: u64,
    /// Last key that was written.
    pub(super) last_key: Option<Vec<u8>>,
    /// Stamp of what they replace, if that is in the cache: they go there as well.
    pub(super) in_cache: Option<u64>,
}

impl Pieces {
    /// Writes what is pending, apart from what may still grow unless this is the end.
    pub(super) fn write(&mut self, editor: &mut Editor<'_>, is_end: bool) -> Result<()> {
        let (max, total) = (editor.limits.interval_bytes_max, self.pending.bytes());
        let target = match total.div_ceil((max * 3 / 4).max(1)) {
            parts if is_end && total > max => total.div_ceil(parts),
            _ if is_end => u64::MAX,
            _ => max * 3 / 4,
        };
        let (mut first, count) = (0, self.pending.len());
        for number in 1..=count {
            let bytes = self.pending.start(number) - self.pending.start(first);
            let is_cut = if number == count {
                is_end
            } else {
                bytes >= target && self.key(number) != self.key(number - 1)
            };
            if is_cut {
                self.write_one(editor, first..number)?;
                first = number;
            }
        }
        self.pending.remove_first(first);
        Ok(())
    }

    fn key(&self, number: usize) -> Option<&[u8]> {
        self.pending.get(number).map(|record| record.key)
    }

    fn write_one(&mut self, editor: &mut Editor<'_>, records: Range<usize>) -> Result<()> {
        let bytes = self.pending.bytes_of(&records);
        let from = match planted!("flex_split_loses_boundary") {
            true => (records.start + 1).min(records.end - 1),
            false => records.start,
        };
        let key = self.key(from).unwrap_or_default();
        let anchor = self.last_key.as_ref().map_or(key.into(), |last| separator(last, key));
        let (stamp, owner) = (editor.stamp(), editor.owner());
        let tag = Mark::Interval(0).tag();
        editor.space.update_tagged(self.at..self.at, bytes, owner, tag)?;
        if let Some(before) = self.in_cache {
            mark!("cached_interval_split");
            editor.write_through(before, stamp, bytes.to_vec())?;
        }
        let bytes = bytes.len() as u64;
        self.at += bytes;
        let filter = self.pending.filter(records.clone());
        let (tail, tail_index, fragments, born) = (0, None, 1, stamp);
        self.done.push(Interval {
            anchor,
            bytes,
            tail,
            tail_index,
            filter,
            fragments,
            stamp,
            born,
        });
        self.last_key = self.key(records.end - 1).map(<[u8]>::to_vec);
        Ok(())
    }
}
