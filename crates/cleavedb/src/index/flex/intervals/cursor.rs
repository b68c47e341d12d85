//! A walk over the entries of a Flex index, in both directions.
//!
//! Owned by one thread at a time. Forwards, intervals come several at once, more of them the longer
//! the walk goes on. Invariant: FC-1 it holds what it reads, so nothing it meets is ever removed.

use std::collections::VecDeque;
use std::sync::Arc as ValueArc;

use crate::base::cursor::Cursor;
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::index::CursorOptions;
use crate::index::flex::intervals::anchors::Found;
use crate::index::flex::intervals::run::{Run, RunCursor};
use crate::index::flex::intervals::view::Source;
use crate::io::Purpose;

/// Most intervals that are read at once: some tens of KiB, what a device reads in one go.
const AHEAD_MAX: usize = 16;

/// Where an interval is in the index.
type Place = (usize, usize);

/// A position among all entries of a view.
pub(super) struct FlexCursor {
    source: Arc<Source>,
    purpose: Purpose,
    fill_cache: bool,
    /// The first key that the walk will not reach.
    end: Option<Vec<u8>>,
    /// The interval it stands in.
    open: Option<(Place, RunCursor)>,
    /// What was read of those behind it.
    ahead: VecDeque<(Place, ValueArc<Run>)>,
    /// How many to read next time.
    step: usize,
}

impl FlexCursor {
    /// A cursor, not positioned.
    pub(super) fn new(source: &Arc<Source>, options: &CursorOptions) -> Self {
        let CursorOptions { range, purpose, fill_cache } = options.clone();
        Self {
            source: Arc::clone(source),
            purpose,
            fill_cache,
            end: range.end,
            open: None,
            ahead: VecDeque::new(),
            step: 1,
        }
    }

    /// What is in the cache; nothing is read.
    fn at_hand(&self, found: &Found<'_>) -> Option<ValueArc<Run>> {
        match self.fill_cache {
            true => self.source.cache.get(found.interval.stamp),
            false => self.source.cache.peek(found.interval.stamp),
        }
    }

    /// Opens the interval of this number or the next group's first one; false if there is none.
    fn enter(&mut self, place: Place, is_walk: bool) -> Result<bool> {
        self.open = None;
        let source = Arc::clone(&self.source);
        let Some(found) = source.anchors.get(place.0, place.1) else { return Ok(false) };
        let place = (found.group, found.number);
        while self.ahead.front().is_some_and(|(ahead, _)| *ahead != place) {
            self.ahead.pop_front();
        }
        let run = match self.ahead.pop_front().map(|(_, run)| run).or_else(|| self.at_hand(&found))
        {
            Some(run) => run,
            None => self.read(&source, found, is_walk)?,
        };
        self.open = Some((place, RunCursor::new(run)));
        Ok(true)
    }

    /// Reads an interval, and those behind it if the walk goes on.
    fn read(&mut self, source: &Source, found: Found<'_>, is_walk: bool) -> Result<ValueArc<Run>> {
        self.step = if is_walk { (self.step * 2).min(AHEAD_MAX) } else { 1 };
        let mut list = vec![found];
        while list.len() < self.step {
            let last = list.last().map_or((0, 0), |found| (found.group, found.number));
            let Some(next) = source.anchors.get(last.0, last.1 + 1) else { break };
            let is_beyond = self.end.as_deref().is_some_and(|end| &*next.interval.anchor >= end);
            if is_beyond || self.source.cache.peek(next.interval.stamp).is_some() {
                break;
            }
            list.push(next);
        }
        self.ahead.clear();
        for (found, run) in list.iter().zip(source.read_many(&list, self.purpose)?) {
            if self.fill_cache {
                source.note(found)?;
                source.cache.insert(found.interval.stamp, &run);
            }
            self.ahead.push_back(((found.group, found.number), run));
        }
        Ok(self.ahead.pop_front().map(|(_, run)| run).unwrap_or_default())
    }

    /// The first entry of an interval or of one behind it.
    fn forward_from(&mut self, place: Place, is_walk: bool) -> Result<()> {
        let mut place = place;
        while self.enter(place, is_walk)? {
            let Some((at, cursor)) = &mut self.open else { break };
            cursor.seek_first()?;
            if cursor.valid() {
                break;
            }
            place = (at.0, at.1 + 1);
        }
        Ok(())
    }

    /// The last entry in front of an interval.
    fn backward_from(&mut self, place: Place) -> Result<()> {
        let mut place = place;
        self.open = None;
        let source = Arc::clone(&self.source);
        while let Some(found) = source.anchors.before(place.0, place.1) {
            place = (found.group, found.number);
            self.enter(place, false)?;
            let Some((_, cursor)) = &mut self.open else { break };
            cursor.seek_last()?;
            if cursor.valid() {
                return Ok(());
            }
        }
        self.open = None;
        Ok(())
    }

    /// Opens the interval of a key and moves within it; false where there is none.
    fn open_at(&mut self, key: &[u8]) -> Result<bool> {
        self.step = 1;
        let place = self.source.anchors.find(key).map(|found| (found.group, found.number));
        match (place, &self.open) {
            (None, _) => {
                self.open = None;
                Ok(false)
            }
            (Some(place), Some((open, _))) if *open == place => Ok(true),
            (Some(place), _) => self.enter(place, false),
        }
    }

    /// Goes on where a move has left the interval.
    fn go_on(&mut self, is_forward: bool) -> Result<()> {
        let place = match &self.open {
            Some((place, cursor)) if !cursor.valid() => *place,
            _ => return Ok(()),
        };
        match is_forward {
            true => self.forward_from((place.0, place.1 + 1), true),
            false => self.backward_from(place),
        }
    }

    /// Makes a failed walk invalid (C2).
    fn guard(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            self.open = None;
            self.ahead.clear();
        }
        outcome
    }

    fn seek_in(&mut self, key: &[u8], seq: Seq, is_forward: bool) -> Result<()> {
        if self.open_at(key)?
            && let Some((_, cursor)) = &mut self.open
        {
            match is_forward {
                true => cursor.seek(key, seq)?,
                false => cursor.seek_before(key, seq)?,
            }
        }
        self.go_on(is_forward)
    }
}

impl Cursor for FlexCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.step = 1;
        let outcome = self.forward_from((0, 0), false);
        self.guard(outcome)
    }

    fn seek_last(&mut self) -> Result<()> {
        let groups = self.source.anchors.groups().len();
        let outcome = self.backward_from((groups, 0));
        self.guard(outcome)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let outcome = self.seek_in(key, seq, true);
        self.guard(outcome)
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let outcome = self.seek_in(key, seq, false);
        self.guard(outcome)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some((_, cursor)) = &mut self.open else { return Ok(()) };
        cursor.next()?;
        let outcome = self.go_on(true);
        self.guard(outcome)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some((_, cursor)) = &mut self.open else { return Ok(()) };
        cursor.prev()?;
        let outcome = self.go_on(false);
        self.guard(outcome)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(|(_, cursor)| cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], |(_, cursor)| cursor.key())
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.open.as_ref().map_or(SEQ_MAX, |(_, cursor)| cursor.seq())
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.open.as_ref().map_or(Kind::Delete, |(_, cursor)| cursor.kind())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], |(_, cursor)| cursor.value())
    }

    fn value_owned(&self) -> Value {
        self.open.as_ref().map_or_else(|| Value::copy_from(&[]), |(_, cursor)| cursor.value_owned())
    }
}
