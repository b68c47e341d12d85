//! Brings a few entries into an interval that is in memory and in order: they are judged with the
//! versions of their own keys, and all others keep their bytes, on disk and in the cache.
//!
//! To judge, encode and read again all that an interval holds takes many times as much where one
//! record of forty is another. Owned by one change.
//! Invariants: FW-1 all versions of a key that comes are judged with it. FW-2 the first record
//! stays the first, for its byte has the interval's tag, and something stays that is not judged.

use std::ops::Range;
use std::sync::Arc as ValueArc;

use crate::base::cursor::BoxCursor;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::merging::MergingCursor;
use crate::index::flex::intervals::anchors::Interval;
use crate::index::flex::intervals::apply::Applier;
use crate::index::flex::intervals::feed::{Feed, Portion};
use crate::index::flex::intervals::run::{Change, Run, RunBuilder, RunCursor};
use crate::index::flex::intervals::state::Totals;

/// Most entries that come so: with more of them most of an interval is judged in any case.
const ENTRIES_MAX: usize = 8;

/// An interval in memory and the keys that a few entries come for.
pub(super) struct Few {
    old: ValueArc<Run>,
    /// The keys, and the numbers of the records that there are of each; none: where they go.
    keys: Vec<(Vec<u8>, Range<usize>)>,
    /// Fragments that the interval stands in afterwards, at most.
    fragments: usize,
}

impl Few {
    /// Records of the keys that come.
    fn picked(&self) -> usize {
        self.keys.iter().map(|(_, records)| records.len()).sum()
    }
}

impl Applier<'_> {
    /// Whether what comes for the interval the editor stands at is to be brought in so.
    pub(super) fn takes_few(
        &self,
        feed: &Feed,
        portion: &Portion,
        end: Option<&[u8]>,
    ) -> Result<Option<Few>> {
        let limits = self.editor.limits;
        let Some((interval, range)) = self.editor.current() else { return Ok(None) };
        let is_few = (1..=ENTRIES_MAX).contains(&portion.entries)
            && !portion.goes_on
            && interval.tail == 0
            && portion.bytes <= interval.bytes / 4
            && interval.bytes + portion.bytes <= limits.interval_bytes_max;
        if !is_few {
            return Ok(None);
        }
        let in_cache = self.editor.cache.peek(interval.stamp);
        let Some(old) = in_cache.filter(|old| old.is_sorted()) else { return Ok(None) };
        let fragments = self.fragments(interval, range)? + 2 * portion.entries;
        let mut keys: Vec<(Vec<u8>, Range<usize>)> = Vec::with_capacity(portion.entries);
        feed.each_key(end, |key| {
            if keys.last().is_none_or(|(last, _)| last != key) {
                keys.push((key.to_vec(), old.versions(key)));
            }
        });
        let is_before_first = keys.first().is_some_and(|(_, records)| *records == (0..0));
        let few = Few { old, keys, fragments };
        let is_right =
            fragments <= limits.fragments_max && !is_before_first && few.picked() < few.old.len();
        Ok(is_right.then_some(few))
    }

    /// Brings a few entries in.
    pub(super) fn bring_in_few(&mut self, input: BoxCursor, few: &Few) -> Result<()> {
        let records = few.keys.iter().map(|(_, records)| records.clone());
        let before = few.old.some(records)?;
        let gone = before.totals();
        let input = match gone.entries {
            0 => input,
            _ => {
                let before = Box::new(RunCursor::new(ValueArc::new(before))) as BoxCursor;
                Box::new(MergingCursor::new(vec![input, before]))
            }
        };
        let mut builder = std::mem::take(&mut self.tail_room);
        builder.clear();
        let (mut come, mut changes) = (Totals::default(), Vec::with_capacity(few.keys.len()));
        let mut keys = few.keys.iter().peekable();
        let mut pass = |builder: &RunBuilder, next: Option<&[u8]>| {
            // Of keys below the next one nothing more comes.
            while let Some((_, records)) =
                keys.next_if(|(key, _)| next.is_none_or(|next| key.as_slice() < next))
            {
                let first = changes.last().map_or(0, |change: &Change| change.new.end);
                changes.push(Change { old: records.clone(), new: first..builder.len() });
            }
        };
        self.judged(input, false, &mut |_, record| {
            pass(&builder, Some(record.key));
            builder.add(record);
            come.add(record);
            Ok(())
        })?;
        pass(&builder, None);
        changes.retain(|change| !few.old.is_same(change, &builder));
        match changes.is_empty() {
            true => self.applied.unchanged += 1,
            false => self.change_few(few, &changes, &builder)?,
        }
        self.tail_room = builder;
        self.applied.come.change(come, Totals::default());
        self.applied.gone.change(gone, Totals::default());
        Ok(())
    }

    /// Puts records in the place of others, on disk and in the cache.
    fn change_few(&mut self, few: &Few, changes: &[Change], new: &RunBuilder) -> Result<()> {
        mark!("few_entries_brought_in");
        let Some((interval, range)) = self.editor.current() else { return Ok(()) };
        let (before, owner) = (interval.clone(), self.editor.owner());
        // From behind, so that offsets hold.
        for Change { old, new: come } in changes.iter().rev() {
            let place =
                range.start + few.old.start(old.start)..range.start + few.old.start(old.end);
            self.editor.space.update(place, new.bytes_of(come), owner)?;
            self.applied.bytes_written += new.bytes_of(come).len() as u64;
        }
        self.applied.edited += 1;
        let run = few.old.changed(changes, new);
        let stamp = self.editor.stamp();
        let interval = Interval {
            bytes: run.bytes().len() as u64,
            filter: run.filter(),
            fragments: few.fragments as u16,
            stamp,
            born: stamp,
            ..before
        };
        self.editor.put_through(before.stamp, stamp, run);
        // A tag goes with its byte, if nothing comes in its place.
        match changes.first().is_some_and(|change| change.old.start == 0) {
            true => self.editor.replace(vec![interval]),
            false => self.editor.replace_tagged(vec![interval]),
        }
    }
}
