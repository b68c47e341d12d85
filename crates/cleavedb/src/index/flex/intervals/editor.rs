//! Changes the intervals of a space from left to right, and makes the index of what they are then.
//!
//! Owned by one change; the space takes everything back if it fails. Groups that nothing is done to
//! stay as they are, shared with the index of before. Invariants: E-1 what lies left of where the
//! editor stands is as it will be. E-2 the first byte of each directory and interval has the tag
//! that says so. E-3 a group has at most as many intervals as it may have once it is left. E-4 a
//! stamp is handed out once, whatever becomes of the change: the cache may know it by then.

use std::ops::Range;
use std::sync::Arc as ValueArc;

use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::index::flex::intervals::FlexLimits;
use crate::index::flex::intervals::anchors::{
    Anchors, Edit, Group, Interval, Mark, Sealed, encode_directory,
};
use crate::index::flex::intervals::cache::IntervalCache;
use crate::index::flex::intervals::filter::KeyFilter;
use crate::index::flex::intervals::parts::{Numbers, Share};
use crate::index::flex::intervals::run::Run;
use crate::index::flex::space::Making;
use crate::io::Purpose;

/// A directory may hold this many edits for each of its anchors before it is written anew.
const EDITS_PER_ANCHOR: u64 = 2;

/// The group that the editor stands in.
struct Open {
    group: Group,
    /// Where it begins.
    start: u64,
    /// Number of the interval it stands at, and where that begins.
    at: usize,
    at_offset: u64,
    /// What was done to its anchors.
    edits: Vec<u8>,
    edit_count: u64,
    is_touched: bool,
}

/// What an editor has made.
pub(super) struct Edited {
    /// The groups of what there is now.
    pub(super) groups: Vec<Arc<Sealed>>,
    /// Stamps of contents in the cache, and of those that take their place there.
    pub(super) carried: Vec<(u64, u64)>,
}

/// Changes intervals from left to right, of all groups or of a share of them.
pub(super) struct Editor<'a> {
    pub(super) space: &'a mut Making,
    pub(super) limits: FlexLimits,
    pub(super) cache: &'a IntervalCache,
    old: Arc<Anchors>,
    /// Number of the next group of the old index, and of the first one that is not its own.
    next: usize,
    until: usize,
    /// Whether it begins with the very first group.
    is_leftmost: bool,
    done: Vec<Arc<Sealed>>,
    /// Where the next group begins.
    end: u64,
    open: Option<Open>,
    numbers: &'a Numbers,
    /// Stamps of contents in the cache, and of those that take their place there.
    carried: Vec<(u64, u64)>,
}

impl<'a> Editor<'a> {
    /// An editor in front of the first interval of a share.
    pub(super) fn new(
        space: &'a mut Making,
        limits: FlexLimits,
        cache: &'a IntervalCache,
        old: &Arc<Anchors>,
        share: &Share,
        numbers: &'a Numbers,
    ) -> Self {
        let (old, done) = (Arc::clone(old), Vec::with_capacity(share.groups.len() + 1));
        let (next, until, end) = (share.groups.start, share.groups.end, share.offset);
        let is_leftmost = next == 0;
        let open = None;
        let carried = Vec::new();
        Self {
            space,
            limits,
            cache,
            old,
            next,
            until,
            is_leftmost,
            done,
            end,
            open,
            numbers,
            carried,
        }
    }

    /// A name for contents that there were not before.
    pub(super) fn stamp(&self) -> u64 {
        self.numbers.stamp()
    }

    /// Puts contents into the cache in the place of others that are there.
    pub(super) fn write_through(&mut self, old: u64, new: u64, bytes: Vec<u8>) -> Result<()> {
        self.carried.push((old, new));
        self.cache.write_through(new, bytes)
    }

    /// The same with contents that are read already.
    pub(super) fn put_through(&mut self, old: u64, new: u64, run: Run) {
        self.carried.push((old, new));
        self.cache.put_through(new, run);
    }

    /// Moves on to the interval that a key belongs to. Keys come in order.
    pub(super) fn seek(&mut self, key: &[u8]) -> Result<()> {
        // A key of the group that is open has its number, or that of one that was passed.
        let wanted = self.old.group_of(key);
        if self.open.is_none() || wanted >= self.next {
            self.leave()?;
            for group in self.old.groups().iter().take(wanted).skip(self.next) {
                self.end += group.bytes();
                self.done.push(Arc::clone(group));
            }
            self.next = wanted + 1;
            self.enter(wanted);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let intervals = &open.group.intervals;
        while intervals.get(open.at + 1).is_some_and(|next| &*next.anchor <= key) {
            open.at_offset += intervals.get(open.at).map_or(0, |interval| interval.bytes);
            open.at += 1;
        }
        Ok(())
    }

    fn enter(&mut self, number: usize) {
        let group = match self.old.groups().get(number) {
            Some(group) => Group::clone(group),
            None => {
                let (directory_bytes, edits) = (0, 0);
                let (id, parent, intervals) = (self.numbers.group(), 0, Vec::new());
                Group { id, parent, directory_bytes, edits, intervals }
            }
        };
        let (start, at_offset) = (self.end, self.end + group.directory_bytes);
        let (edits, edit_count, is_touched) = (Vec::new(), 0, false);
        self.open = Some(Open { group, start, at: 0, at_offset, edits, edit_count, is_touched });
    }

    /// The interval it stands at, and where that lies; none in an index that is empty.
    pub(super) fn current(&self) -> Option<(&Interval, Range<u64>)> {
        let open = self.open.as_ref()?;
        let interval = open.group.intervals.get(open.at)?;
        Some((interval, open.at_offset..open.at_offset + interval.bytes))
    }

    /// Where the interval begins that it stands at, or would.
    pub(super) fn offset(&self) -> u64 {
        self.open.as_ref().map_or(self.end, |open| open.at_offset)
    }

    /// Whether it stands at the very first interval.
    pub(super) fn is_first(&self) -> bool {
        let is_first = self.done.is_empty() && self.is_leftmost;
        is_first && self.open.as_ref().is_none_or(|open| open.at == 0)
    }

    /// Number of the group: whose bytes these are.
    pub(super) fn owner(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.group.id)
    }

    /// The first key that does not belong to the interval it stands at.
    pub(super) fn bound(&self) -> Option<&ValueArc<[u8]>> {
        let within = self.open.as_ref().and_then(|open| open.group.intervals.get(open.at + 1));
        let behind = || self.old.groups().get(self.next).and_then(|group| group.intervals.first());
        within.or_else(behind).map(|interval| &interval.anchor)
    }

    /// Puts intervals, which stand in the space already, in the place of the one it stands at, and
    /// goes behind them. Where one takes its place, the first keeps its anchor.
    pub(super) fn replace(&mut self, intervals: Vec<Interval>) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut offset = open.at_offset;
        for interval in &intervals {
            let tag = Mark::Interval(interval.tail).tag();
            if self.space.tree().tag(offset) != tag {
                self.space.set_tag(offset, tag)?;
            }
            offset += interval.bytes;
        }
        self.replace_tagged(intervals)
    }

    /// The same with intervals whose tags stand there already.
    pub(super) fn replace_tagged(&mut self, mut intervals: Vec<Interval>) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.is_touched = true;
        let bytes = intervals.iter().map(|interval| interval.bytes).sum::<u64>();
        let offset = open.at_offset + bytes;
        let is_first = self.is_leftmost && self.done.is_empty() && open.at == 0;
        let before = open.group.intervals.get_mut(open.at);
        let mut edit = |edit: Edit<'_>| {
            edit.encode(&mut open.edits);
            open.edit_count += 1;
        };
        let kept = match (before, intervals.first_mut()) {
            (None, first) => {
                // Whatever is smaller comes here.
                first.filter(|_| is_first).into_iter().for_each(|first| first.anchor = [].into());
                0
            }
            (Some(_), None) => {
                edit(Edit::Remove(open.at));
                open.group.intervals.remove(open.at);
                0
            }
            (Some(before), Some(first)) => {
                if is_first && !before.anchor.is_empty() {
                    edit(Edit::Remove(0));
                    edit(Edit::Insert(0, &[]));
                    before.anchor = [].into();
                }
                std::mem::swap(&mut first.anchor, &mut before.anchor);
                1
            }
        };
        for (number, interval) in intervals.iter().enumerate().skip(kept) {
            edit(Edit::Insert(open.at + number, &interval.anchor));
        }
        let (from, count) = (open.at, intervals.len());
        open.group.intervals.splice(from..from + kept, intervals);
        (open.at, open.at_offset) = (from + count, offset);
        Ok(())
    }

    /// Leaves the group: small intervals are joined, its directory says what it holds, and it is
    /// split if it is too large.
    fn leave(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if !open.is_touched {
            // What was begun for an empty index is no group.
            let is_group = !open.group.intervals.is_empty();
            return if is_group { self.push(open.group, open.start) } else { Ok(()) };
        }
        self.join_intervals(&mut open)?;
        if open.group.intervals.is_empty() {
            self.space.collapse(open.start..open.start + open.group.directory_bytes)?;
            return Ok(());
        }
        let max = self.limits.group_intervals_max.max(2);
        let before = self
            .done
            .last()
            .filter(|before| before.intervals.len() + open.group.intervals.len() <= max / 2);
        if let Some(before) = before.cloned() {
            // What is left of two is one again.
            self.done.pop();
            self.space.collapse(open.start..open.start + open.group.directory_bytes)?;
            let mut group = Group::clone(&before);
            group.intervals.append(&mut open.group.intervals);
            let start = open.start - before.bytes();
            self.end = start;
            self.write_directory(&mut group, start)?;
            return self.push(group, start);
        }
        if open.group.intervals.len() <= max {
            self.mend_directory(&mut open)?;
            return self.push(open.group, open.start);
        }
        self.split(open, max)
    }

    /// Takes a group apart into such as may be.
    fn split(&mut self, open: Open, max: usize) -> Result<()> {
        let Open { mut group, start, .. } = open;
        let parts = group.intervals.len().div_ceil(max * 3 / 4).max(2);
        let each = group.intervals.len().div_ceil(parts);
        let rest = group.intervals.split_off(each);
        let parent = group.id;
        self.write_directory(&mut group, start)?;
        self.push(group, start)?;
        for intervals in rest.chunks(each) {
            let id = self.numbers.group();
            let intervals = intervals.to_vec();
            let mut group = Group { id, parent, directory_bytes: 0, edits: 0, intervals };
            let start = self.end;
            self.write_directory(&mut group, start)?;
            self.push(group, start)?;
        }
        Ok(())
    }

    fn push(&mut self, group: Group, start: u64) -> Result<()> {
        let group = group.sealed();
        self.end = start + group.bytes();
        self.done.push(group);
        Ok(())
    }

    /// Joins neighbours that are small together: the anchor of the second one goes, no byte moves.
    fn join_intervals(&mut self, open: &mut Open) -> Result<()> {
        let mut offset = open.start + open.group.directory_bytes;
        let mut number = 0;
        // Bytes of those that are joined so far, if all of them are in the cache.
        let mut at_hand: Option<Vec<u8>> = None;
        while let Some(interval) = open.group.intervals.get(number) {
            let (bytes, stamp) = (interval.bytes, interval.stamp);
            let joined = open.group.intervals.get(number + 1).map(|next| bytes + next.bytes);
            let is_joined =
                joined.is_some_and(|joined| joined <= self.limits.interval_bytes_max / 2);
            if !is_joined || interval.tail > 0 {
                if let Some(joined) = at_hand.take() {
                    mark!("cached_intervals_joined");
                    self.cache.write_through(stamp, joined)?;
                }
                offset += bytes;
                number += 1;
                continue;
            }
            let next = open.group.intervals.remove(number + 1);
            Edit::Remove(number + 1).encode(&mut open.edits);
            open.edit_count += 1;
            self.space.set_tag(offset + bytes, None)?;
            let before = || self.cache.peek(stamp).map(|run| run.bytes().to_vec());
            let behind = self.cache.peek(next.stamp);
            at_hand = at_hand.take().or_else(before).zip(behind).map(|(mut joined, run)| {
                joined.extend_from_slice(run.bytes());
                joined
            });
            let before = stamp;
            let stamp = self.stamp();
            self.carried.extend([(before, stamp), (next.stamp, stamp)]);
            if let Some(interval) = open.group.intervals.get_mut(number) {
                interval.bytes += next.bytes;
                (interval.fragments, interval.tail_index) = (0, None);
                interval.filter = KeyFilter::default();
                (interval.tail, interval.stamp, interval.born) = (next.tail, stamp, stamp);
            }
            if next.tail > 0 {
                self.space.set_tag(offset, Mark::Interval(next.tail).tag())?;
            }
        }
        Ok(())
    }

    /// Brings the directory of a group up to date: adds the edits, or writes it anew.
    fn mend_directory(&mut self, open: &mut Open) -> Result<()> {
        let anchors = open.group.intervals.len() as u64;
        let edits = open.group.edits + open.edit_count;
        if open.edit_count == 0 {
            return Ok(());
        }
        if open.group.directory_bytes == 0 || edits > EDITS_PER_ANCHOR * anchors + 8 {
            return self.write_directory(&mut open.group, open.start);
        }
        let end = open.start + open.group.directory_bytes;
        self.space.insert(end, &open.edits, open.group.id)?;
        open.group.directory_bytes += open.edits.len() as u64;
        open.group.edits = edits;
        Ok(())
    }

    fn write_directory(&mut self, group: &mut Group, start: u64) -> Result<()> {
        let anchors = group.intervals.iter().map(|interval| &*interval.anchor);
        let bytes = encode_directory((group.id, group.parent), anchors);
        self.space.update(start..start + group.directory_bytes, &bytes, group.id)?;
        let tag = Mark::Directory.tag();
        if self.space.tree().tag(start) != tag {
            self.space.set_tag(start, tag)?;
        }
        (group.directory_bytes, group.edits) = (bytes.len() as u64, group.intervals.len() as u64);
        Ok(())
    }

    /// Reads the interval it stands at.
    pub(super) fn read(&self, purpose: Purpose) -> Result<Run> {
        match self.current() {
            Some((_, range)) => Run::decode(self.space.read(range, purpose)?),
            None => Run::decode(Vec::new()),
        }
    }

    /// What there is now.
    pub(super) fn finish(mut self) -> Result<Edited> {
        self.leave()?;
        let own = self.old.groups().iter().take(self.until);
        self.done.extend(own.skip(self.next).cloned());
        Ok(Edited { groups: self.done, carried: self.carried })
    }
}
