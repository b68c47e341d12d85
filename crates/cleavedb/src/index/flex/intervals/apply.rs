//! Brings entries into intervals: what a flush has for one of them is appended unread, put in its
//! place, or the interval is written anew, whichever costs least; then the stripe rule decides over
//! all that the interval holds, as a compaction of an LSM-tree would.
//!
//! An append is judged like a flush into level 0: older versions may stand below. All else is
//! judged with everything of its keys in sight. What is written in the place of an interval that is
//! in the cache goes there too, so that who reads it does not have to begin anew. Owned by one
//! change. Invariants: AP-1 each entry of a flush goes through the stripe rule once. AP-2 memory
//! held is that of one interval, what comes ahead of it, and a few intervals that are not written
//! yet. AP-3 what is not in the cache is not put there, and what is makes way for a few times its
//! bytes at most.

use std::ops::Range;
use std::sync::Arc as ValueArc;

use crate::base::cursor::BoxCursor;
use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::merge_operator::SharedOperator;
use crate::base::merging::MergingCursor;
use crate::base::planted::planted;
use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::{Arc, Mutex};
use crate::base::tombstone::Fragments;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::anchors::{Found, Interval, Mark, separator};
use crate::index::flex::intervals::editor::Editor;
use crate::index::flex::intervals::feed::{Feed, FeedCursor, Portion};
use crate::index::flex::intervals::fetched::Fetched;
use crate::index::flex::intervals::pieces::Pieces;
use crate::index::flex::intervals::run::{Record, Run, RunBuilder, RunCursor};
use crate::index::flex::intervals::splices::{Splice, parts, splices};
use crate::index::flex::intervals::state::Totals;
use crate::index::flex::intervals::tail::TailIndex;
use crate::index::stripes::{StripeRule, Survivors};
use crate::index::{Listener, WorkReport};
use crate::io::Purpose;

/// Bytes that gather before they are written, in intervals.
const PENDING_INTERVALS: u64 = 16;

/// Which part of what stands before a tail may be garbage on top of what an interval may have. The
/// less, the more often a large one is written anew; the more, the more room it takes, and reads
/// fetch.
const SUPERSEDED_PART: u64 = 5;

/// An interval in the cache makes way for what is written in its place up to so many times the
/// bytes: a flush that brings more does not push out what else is read.
const CACHED_INTERVALS: u64 = 4;

/// What decides over entries.
#[derive(Clone)]
pub(super) struct Judge<'a> {
    /// Live snapshots, ascending.
    pub(super) snapshots: &'a [Seq],
    /// All range tombstones.
    pub(super) tombstones: &'a Fragments,
    /// Those of them that are newer than all that is there already.
    pub(super) fresh: &'a Fragments,
    /// Combines operands.
    pub(super) operator: Option<SharedOperator>,
    /// Set from outside to stop.
    pub(super) cancelled: Option<&'a AtomicBool>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Applied {
    /// Figures of what is there now, and of what is there no more.
    pub(super) come: Totals,
    pub(super) gone: Totals,
    /// Largest seq that came.
    pub(super) largest_seq: Seq,
    pub(super) entries_in: u64,
    pub(super) entries_out: u64,
    /// About the bytes that came in.
    pub(super) bytes_in: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// Intervals by what became of them.
    pub(super) appended: u64,
    pub(super) edited: u64,
    pub(super) rewritten: u64,
    pub(super) unchanged: u64,
    /// Parts that ran side by side.
    pub(super) parts: usize,
}

impl Applied {
    /// Adds what a part did.
    pub(super) fn add(&mut self, part: &Self) {
        self.come.change(part.come, Totals::default());
        self.gone.change(part.gone, Totals::default());
        self.largest_seq = self.largest_seq.max(part.largest_seq);
        self.entries_in += part.entries_in;
        self.entries_out += part.entries_out;
        self.bytes_in += part.bytes_in;
        self.bytes_read += part.bytes_read;
        self.bytes_written += part.bytes_written;
        self.appended += part.appended;
        self.edited += part.edited;
        self.rewritten += part.rewritten;
        self.unchanged += part.unchanged;
        self.parts += 1;
    }

    /// What is told of it.
    pub(super) fn report(&self, kind: &'static str, reason: &str) -> WorkReport {
        tracing::debug!(
            appended = self.appended,
            edited = self.edited,
            rewritten = self.rewritten,
            unchanged = self.unchanged,
            "intervals"
        );
        WorkReport {
            kind,
            reason: reason.to_owned(),
            levels: (0, 0),
            parts: self.parts.max(1),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            entries_in: self.entries_in,
            entries_out: self.entries_out,
        }
    }
}

/// Brings entries into intervals, from left to right.
pub(super) struct Applier<'a> {
    pub(super) editor: Editor<'a>,
    pub(super) judge: Judge<'a>,
    pub(super) listener: &'a mut dyn Listener,
    pub(super) purpose: Purpose,
    pub(super) applied: Applied,
    /// Whether what is looked at is written in one piece, be it in order or not.
    pub(super) is_gathering: bool,
    /// What was read ahead.
    pub(super) fetched: Fetched<'a>,
    /// Room for what goes behind an interval, from one to the next.
    pub(super) tail_room: RunBuilder,
}

impl Applier<'_> {
    /// Brings in all that a feed has.
    pub(super) fn apply(&mut self, feed: &Arc<Mutex<Feed>>) -> Result<()> {
        loop {
            self.look_ahead(&mut feed.lock())?;
            match feed.lock().next_key() {
                Some(key) => self.editor.seek(key)?,
                None => break,
            }
            self.apply_here(feed)?;
        }
        self.applied.bytes_in += feed.lock().drawn_bytes();
        Ok(())
    }

    /// Brings in what a feed has for the interval that the editor stands at.
    pub(super) fn apply_here(&mut self, feed: &Arc<Mutex<Feed>>) -> Result<()> {
        let end = self.editor.bound().cloned();
        let limits = self.editor.limits;
        let (bytes_max, entries_max) =
            (limits.interval_bytes_max, usize::from(limits.tail_records_max));
        let portion = feed.lock().look(end.as_deref(), bytes_max, entries_max)?;
        if let Some(fragments) = self.takes_append(&portion)? {
            return self.append(Box::new(FeedCursor::new(feed, end)), fragments);
        }
        let few = self.takes_few(&feed.lock(), &portion, end.as_deref())?;
        let input = Box::new(FeedCursor::new(feed, end.clone()));
        if let Some(few) = few {
            return self.bring_in_few(input, &few);
        }
        self.rewrite(input, &portion, end.as_deref())
    }

    /// Takes what comes for the next intervals out of its source, and reads those of them together
    /// that will be written anew.
    fn look_ahead(&mut self, feed: &mut Feed) -> Result<()> {
        let limits = self.editor.limits;
        if limits.ahead_intervals_max < 2 || !feed.is_at_source() {
            return Ok(());
        }
        let source = self.fetched.source;
        let (bytes_max, entries_max) =
            (limits.interval_bytes_max, usize::from(limits.tail_records_max));
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        for _ in 0..limits.ahead_intervals_max {
            let Some(found) = feed.source_key().and_then(|key| source.anchors.find(key)) else {
                break;
            };
            let next = source.anchors.get(found.group, found.number + 1);
            let end = next.map(|next| &*next.interval.anchor);
            let portion = feed.draw(end, bytes_max, entries_max, Portion::default())?;
            bytes += portion.bytes;
            let is_cached = self.editor.cache.peek(found.interval.stamp).is_some();
            if !is_cached && !self.is_appended(&found, &portion)? {
                bytes += found.interval.bytes;
                wanted.push(found);
            }
            if portion.goes_on || bytes >= bytes_max * limits.ahead_intervals_max as u64 {
                break;
            }
        }
        self.fetched.fetch(&wanted, self.purpose)
    }

    /// Whether entries will go behind an interval that is not in the cache.
    fn is_appended(&self, found: &Found<'_>, portion: &Portion) -> Result<bool> {
        let limits = self.editor.limits;
        if !has_room_behind(found.interval, portion, limits) {
            return Ok(false);
        }
        let fragments = match found.interval.fragments {
            0 => self.fetched.source.space.tree().walk(found.range())?.take(limits.fragments_max),
            known => return Ok(usize::from(known) < limits.fragments_max),
        };
        Ok(fragments.count() < limits.fragments_max)
    }

    /// Reads intervals that are looked at next together, but for those in the cache.
    pub(super) fn fetch(&mut self, anchors: &[ValueArc<[u8]>]) -> Result<()> {
        let source = self.fetched.source;
        let is_wanted = |found: &Found<'_>| {
            self.editor.cache.peek(found.interval.stamp).is_none()
                && found.interval.bytes <= 2 * self.editor.limits.interval_bytes_max
        };
        let found = anchors.iter().filter_map(|anchor| source.anchors.find(anchor));
        let wanted: Vec<Found<'_>> = found.filter(is_wanted).collect();
        self.fetched.fetch(&wanted, self.purpose)
    }

    /// Looks at intervals one after the other, reading some of them at a time: what flushes have
    /// put behind neighbours stands together.
    pub(super) fn each(
        &mut self,
        anchors: &[ValueArc<[u8]>],
        mut look: impl FnMut(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for some in anchors.chunks(self.editor.limits.together_intervals_max.max(1)) {
            self.fetch(some)?;
            some.iter().try_for_each(|anchor| look(self, anchor))?;
        }
        Ok(())
    }

    /// Looks at an interval with nothing to bring in.
    pub(super) fn tidy(&mut self, anchor: &[u8]) -> Result<()> {
        self.editor.seek(anchor)?;
        let has_tail = self.editor.current().is_some_and(|(interval, _)| interval.tail > 0);
        if has_tail && planted!("flex_range_delete_skips_tail") {
            return Ok(());
        }
        let end = self.editor.bound().cloned();
        let nothing = Box::new(MergingCursor::new(Vec::new()));
        self.rewrite(nothing, &Portion::default(), end.as_deref())
    }

    /// Writes an interval anew in one piece, if it is there still and stands in so many.
    pub(super) fn gather(&mut self, anchor: &[u8], fragments_min: usize) -> Result<()> {
        self.editor.seek(anchor)?;
        let Some((interval, range)) = self.editor.current() else { return Ok(()) };
        if *interval.anchor != *anchor || self.fragments(interval, range)? < fragments_min {
            return Ok(());
        }
        mark!("interval_gathered");
        self.is_gathering = true;
        let done = self.tidy(anchor);
        self.is_gathering = false;
        done
    }

    /// Fragments of an interval: as it remembers, or counted up to one too many.
    pub(super) fn fragments(&self, interval: &Interval, range: Range<u64>) -> Result<usize> {
        if interval.fragments > 0 {
            return Ok(interval.fragments.into());
        }
        let max = self.editor.limits.fragments_max;
        Ok(self.editor.space.tree().walk(range)?.take(max + 1).count())
    }

    /// Whether entries go behind the interval without a look at what it holds: cheap to write, and
    /// dearer to read each time it is done. Gives the fragments that there are, if so.
    fn takes_append(&self, portion: &Portion) -> Result<Option<usize>> {
        let limits = self.editor.limits;
        let Some((interval, range)) = self.editor.current() else { return Ok(None) };
        let is_small = has_room_behind(interval, portion, limits);
        // In memory and in order: it can be kept so without reading.
        let is_at_hand = || interval.tail == 0 && self.editor.cache.peek(interval.stamp).is_some();
        if !is_small || is_at_hand() {
            return Ok(None);
        }
        let fragments = self.fragments(interval, range)?;
        Ok(Some(fragments).filter(|fragments| *fragments < limits.fragments_max))
    }

    /// Runs entries through the stripe rule.
    pub(super) fn judged(
        &mut self,
        mut input: BoxCursor,
        is_older_below: bool,
        add: &mut dyn FnMut(&mut Editor<'_>, &Record<'_>) -> Result<()>,
    ) -> Result<()> {
        input.seek_first()?;
        let rule = StripeRule {
            snapshots: self.judge.snapshots,
            // Between an older one and these entries may stand what they are not judged with.
            tombstones: match is_older_below {
                true => self.judge.fresh,
                false => self.judge.tombstones,
            },
            operator: self.judge.operator.clone(),
            older_below: Box::new(move |_| is_older_below),
            cancelled: self.judge.cancelled,
        };
        let mut survivors = Survivors::new(input, None, rule, &mut *self.listener);
        while survivors.advance()? {
            let (key, seq) = (survivors.key(), survivors.seq());
            let record = Record { key, seq, kind: survivors.kind(), value: survivors.value() };
            self.applied.entries_out += 1;
            self.applied.largest_seq = self.applied.largest_seq.max(seq);
            add(&mut self.editor, &record)?;
        }
        self.applied.entries_in += survivors.entries_in();
        Ok(())
    }

    /// Puts entries behind the interval.
    fn append(&mut self, input: BoxCursor, fragments: usize) -> Result<()> {
        let mut builder = std::mem::take(&mut self.tail_room);
        builder.clear();
        let mut come = Totals::default();
        self.judged(input, true, &mut |_, record| {
            builder.add(record);
            come.add(record);
            Ok(())
        })?;
        let Some((interval, range)) = self.editor.current() else { return Ok(()) };
        let (mut interval, tag) = (interval.clone(), Mark::Interval(interval.tail).tag());
        if builder.len() > 0 {
            interval.tail_index = TailIndex::appended(&interval, &builder);
            interval.bytes += builder.bytes();
            interval.tail += builder.len() as u16;
            interval.fragments = fragments as u16 + 1;
            let cached = self.editor.cache.peek(interval.stamp);
            let before = interval.stamp;
            interval.stamp = self.editor.stamp();
            let owner = self.editor.owner();
            self.editor.space.insert(range.end, builder.encoded(), owner)?;
            if let Some(run) = cached {
                mark!("cached_interval_appended");
                self.editor.put_through(before, interval.stamp, run.appended(&builder)?);
            }
            self.applied.bytes_written += builder.bytes();
        }
        self.tail_room = builder;
        self.applied.come.change(come, Totals::default());
        self.applied.appended += 1;
        // Mostly it has the tag that bounds its tail already (E-2).
        match Mark::Interval(interval.tail).tag() == tag {
            true => self.editor.replace_tagged(vec![interval]),
            false => self.editor.replace(vec![interval]),
        }
    }

    /// Whether what the interval holds is in the cache.
    fn is_cached(&self) -> bool {
        let current = self.editor.current();
        current.is_some_and(|(interval, _)| self.editor.cache.peek(interval.stamp).is_some())
    }

    /// What the interval holds, from the cache if it is there; its keys must be its own.
    fn load(&mut self, end: Option<&[u8]>) -> Result<ValueArc<Run>> {
        let Some((interval, range)) = self.editor.current() else { return Ok(ValueArc::default()) };
        if let Some(run) = self.editor.cache.peek(interval.stamp) {
            return Ok(run);
        }
        self.applied.bytes_read += range.end - range.start;
        if let Some(run) = self.fetched.take(interval.stamp) {
            return Ok(run);
        }
        let run = self.editor.read(self.purpose)?;
        check_keys(&run, &interval.anchor, end, self.editor.is_first())?;
        Ok(ValueArc::new(run))
    }

    /// Brings entries together with all that the interval holds.
    fn rewrite(&mut self, input: BoxCursor, portion: &Portion, end: Option<&[u8]>) -> Result<()> {
        let old = self.load(end)?;
        let room = (old.start(usize::MAX) + portion.bytes, old.len() + portion.entries);
        let children = vec![input, Box::new(RunCursor::new(ValueArc::clone(&old))) as BoxCursor];
        let pending = RunBuilder::with_room(room.0, room.1);
        let mut pieces = Pieces { at: self.editor.offset(), pending, ..Pieces::default() };
        let pending_max = PENDING_INTERVALS * self.editor.limits.interval_bytes_max;
        let mut come = Totals::default();
        self.judged(Box::new(MergingCursor::new(children)), false, &mut |editor, record| {
            come.add(record);
            pieces.pending.add(record);
            if pieces.pending.bytes() >= pending_max {
                pieces.write(editor, false)?;
            }
            Ok(())
        })?;
        let is_done = pieces.done.is_empty()
            && (self.edit_in_place(&old, &pieces.pending)? || self.replace_one(&pieces.pending)?);
        if !is_done {
            let bytes = self.editor.current().map_or(0, |(interval, _)| interval.bytes);
            let cached_max = CACHED_INTERVALS * self.editor.limits.interval_bytes_max.max(bytes);
            let is_few = pieces.done.is_empty() && pieces.pending.bytes() <= cached_max;
            let in_cache = self.editor.current().map(|(interval, _)| interval.stamp);
            pieces.in_cache = in_cache.filter(|_| is_few && self.is_cached());
            pieces.write(&mut self.editor, true)?;
            // The old bytes stand behind the new ones.
            self.editor.space.collapse(pieces.at..pieces.at + bytes)?;
            self.applied.bytes_written += pieces.at - self.editor.offset();
            self.applied.rewritten += 1;
            self.editor.replace_tagged(pieces.done)?;
        }
        self.applied.come.change(come, Totals::default());
        self.applied.gone.change(old.totals(), Totals::default());
        Ok(())
    }

    /// Writes the interval anew if it stays one; whether it did.
    fn replace_one(&mut self, new: &RunBuilder) -> Result<bool> {
        let is_one = new.len() > 0 && new.bytes() <= self.editor.limits.interval_bytes_max;
        let Some((interval, range)) = self.editor.current().filter(|_| is_one) else {
            return Ok(false);
        };
        let (mut interval, owner) = (interval.clone(), self.editor.owner());
        (interval.bytes, interval.fragments) = (new.bytes(), 1);
        (interval.tail, interval.tail_index) = (0, None);
        interval.filter = new.filter(0..new.len());
        let was_cached = self.is_cached();
        let before = interval.stamp;
        interval.stamp = self.editor.stamp();
        interval.born = interval.stamp;
        let tag = Mark::Interval(0).tag();
        self.editor.space.update_tagged(range, new.encoded(), owner, tag)?;
        if was_cached {
            mark!("cached_interval_rewritten");
            self.editor.write_through(before, interval.stamp, new.encoded().to_vec())?;
        }
        self.applied.bytes_written += new.bytes();
        self.applied.rewritten += 1;
        self.editor.replace_tagged(vec![interval])?;
        Ok(true)
    }

    /// Changes only what is another record now, where that costs less than to write the interval
    /// anew; whether it did. One that has become too large is cut in two where it stands: a tag
    /// says that an interval begins there.
    fn edit_in_place(&mut self, old: &Run, new: &RunBuilder) -> Result<bool> {
        let limits = self.editor.limits;
        let Some((interval, range)) = self.editor.current() else { return Ok(new.len() == 0) };
        let (interval, owner) = (interval.clone(), self.editor.owner());
        if self.is_gathering || !old.is_sorted() || new.len() == 0 {
            return Ok(false);
        }
        let Some(parts) = parts(new, limits.interval_bytes_max) else { return Ok(false) };
        let fragments = self.fragments(&interval, range.clone())?;
        let splices = splices(old, new);
        let bytes: u64 = splices.iter().map(|splice| splice.new.end - splice.new.start).sum();
        let fragments = fragments + 2 * splices.len();
        if fragments > limits.fragments_max || bytes > new.bytes() / 4 {
            return Ok(false);
        }
        if splices.is_empty() && interval.tail == 0 && parts.len() == 1 {
            self.applied.unchanged += 1;
            return Ok(true);
        }
        // From behind, so that offsets hold.
        for Splice { old, new: come } in splices.iter().rev() {
            let place = range.start + old.start..range.start + old.end;
            let bytes = new.encoded().get(come.start as usize..come.end as usize);
            self.editor.space.update(place, bytes.unwrap_or_default(), owner)?;
        }
        self.applied.bytes_written += bytes;
        self.applied.edited += 1;
        let parts = self.in_place(interval, new, &parts, fragments)?;
        self.editor.replace(parts)?;
        Ok(true)
    }

    /// What the interval has become by an edit that left so many fragments: itself, or the two
    /// that it is cut into.
    fn in_place(
        &mut self,
        before: Interval,
        new: &RunBuilder,
        parts: &[Range<usize>],
        fragments: usize,
    ) -> Result<Vec<Interval>> {
        let was_cached = self.is_cached();
        let is_cut = parts.len() > 1;
        if is_cut {
            mark!("interval_cut_in_place");
        }
        let key = |number: usize| new.get(number).map_or(&[][..], |record| record.key);
        let mut intervals = Vec::with_capacity(parts.len());
        for part in parts {
            let (bytes, stamp) = (new.bytes_of(part), self.editor.stamp());
            if was_cached {
                self.editor.write_through(before.stamp, stamp, bytes.to_vec())?;
            }
            intervals.push(Interval {
                anchor: match part.start {
                    0 => ValueArc::clone(&before.anchor),
                    start => separator(key(start - 1), key(start)),
                },
                bytes: bytes.len() as u64,
                tail: 0,
                tail_index: None,
                filter: new.filter(part.clone()),
                // How many each half has is not known.
                fragments: if is_cut { 0 } else { fragments as u16 },
                stamp,
                born: stamp,
            });
        }
        Ok(intervals)
    }
}

/// Whether entries are few enough to go behind an interval, by what both have.
///
/// To write an interval anew costs its bytes, so that a large one is to be written the more seldom
/// for it: garbage that its tail has made does not make it too large, up to a share of it.
fn has_room_behind(interval: &Interval, portion: &Portion, limits: FlexLimits) -> bool {
    let (before_tail, superseded) = interval.superseded();
    let is_small = interval.bytes + portion.bytes <= limits.interval_bytes_max;
    let has_share = superseded + portion.bytes <= before_tail / SUPERSEDED_PART
        && interval.bytes.saturating_sub(superseded) <= limits.interval_bytes_max;
    portion.entries > 0
        && !portion.goes_on
        && portion.bytes <= limits.interval_bytes_max / 4
        && (is_small || has_share)
        && usize::from(interval.tail) + portion.entries <= limits.tail_records_max.into()
}

/// Keys of an interval lie between its anchor and the next one; those of the first may be smaller.
pub(super) fn check_keys(
    run: &Run,
    anchor: &[u8],
    end: Option<&[u8]>,
    is_first: bool,
) -> Result<()> {
    let first = run.get(0).map(|record| record.key);
    let last = run.len().checked_sub(1).and_then(|last| run.get(last)).map(|record| record.key);
    let is_below = first.is_some_and(|first| first < anchor && !is_first);
    if is_below || last.zip(end).is_some_and(|(last, end)| last >= end) {
        let anchor = anchor.escape_ascii();
        return Err(Error::corruption(format!("an interval of \"{anchor}\" holds keys of others")));
    }
    Ok(())
}
