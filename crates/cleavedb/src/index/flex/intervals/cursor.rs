//! A walk over the entries of a Flex index, in both directions.
//!
//! Owned by one thread at a time. Forwards, intervals come several at once: as many as walks of the
//! index usually take, then more of them the longer the walk goes on. Neighbours that one flush has
//! met stand together on disk, so that together they are fewer reads. Invariant: FC-1 it holds what
//! it reads, so nothing it meets is ever removed.

use std::collections::VecDeque;
use std::sync::Arc as ValueArc;

use crate::base::cursor::{Cursor, Head};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::usual::Expected;
use crate::base::value::Value;
use crate::index::CursorOptions;
use crate::index::flex::intervals::anchors::Found;
use crate::index::flex::intervals::run::{Run, RunCursor};
use crate::index::flex::intervals::view::Source;
use crate::io::Purpose;

/// Most intervals that are read at once: some tens of KiB, what a device reads in one go.
const AHEAD_MAX: usize = 16;

/// Intervals up to which a walk begins with all that few walks go beyond; a longer one begins with
/// what most take.
const WALK_INTERVALS_CHEAP: usize = 3;

/// How many intervals are read where one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The one.
    One,
    /// As many as walks forwards usually take: one begins.
    Usual,
    /// More than the last time: it goes on.
    Growing,
}

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
    /// How many were read last.
    step: usize,
    /// Intervals that the walk forwards has met.
    walked: usize,
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
            walked: 0,
        }
    }

    /// Whether walks are such as users take.
    fn is_usual(&self) -> bool {
        self.fill_cache && self.purpose == Purpose::Read
    }

    /// Tells how far a walk forwards went, which is over.
    fn end_walk(&mut self) {
        let walked = std::mem::take(&mut self.walked);
        if self.is_usual() {
            self.source.gathering.usual_walk.note(walked);
        }
    }

    /// How many intervals to read together where a walk begins.
    fn usual(&self) -> usize {
        let expected = self.source.gathering.usual_walk.expected().filter(|_| self.is_usual());
        let usual = |expected: Expected| {
            expected.most.min(expected.least.max(WALK_INTERVALS_CHEAP)).clamp(1, AHEAD_MAX)
        };
        expected.map_or(1, usual)
    }

    /// What is in the cache; nothing is read.
    fn at_hand(&self, found: &Found<'_>) -> Option<ValueArc<Run>> {
        match self.fill_cache {
            true => self.source.cache.get(found.interval.stamp),
            false => self.source.cache.peek(found.interval.stamp),
        }
    }

    /// Opens the interval of this number or the next group's first one; false if there is none.
    fn enter(&mut self, place: Place, reach: Reach) -> Result<bool> {
        self.open = None;
        if reach != Reach::Growing {
            self.end_walk();
        }
        let source = Arc::clone(&self.source);
        let Some(found) = source.anchors.get(place.0, place.1) else { return Ok(false) };
        let place = (found.group, found.number);
        while self.ahead.front().is_some_and(|(ahead, _)| *ahead != place) {
            self.ahead.pop_front();
        }
        let run = match self.ahead.pop_front().map(|(_, run)| run).or_else(|| self.at_hand(&found))
        {
            Some(run) => run,
            None => self.read(&source, found, reach)?,
        };
        self.walked += usize::from(reach != Reach::One);
        self.open = Some((place, RunCursor::new(run)));
        Ok(true)
    }

    /// Reads an interval, and those behind it if the walk goes on.
    fn read(&mut self, source: &Source, found: Found<'_>, reach: Reach) -> Result<ValueArc<Run>> {
        let (count, step) = match reach {
            Reach::One => (1, 1),
            Reach::Usual => (self.usual(), 1),
            Reach::Growing => {
                let step = (self.step * 2).min(AHEAD_MAX);
                (step, step)
            }
        };
        self.step = step;
        let mut list = vec![found];
        while list.len() < count {
            let last = list.last().map_or((0, 0), |found| (found.group, found.number));
            let Some(next) = source.anchors.get(last.0, last.1 + 1) else { break };
            let is_beyond = self.end.as_deref().is_some_and(|end| &*next.interval.anchor >= end);
            if is_beyond || self.source.cache.peek(next.interval.stamp).is_some() {
                break;
            }
            list.push(next);
        }
        if reach == Reach::Usual && list.len() > 1 {
            mark!("flex_walk_begun_with_what_is_usual");
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
    fn forward_from(&mut self, place: Place, reach: Reach) -> Result<()> {
        let (mut place, mut reach) = (place, reach);
        while self.enter(place, reach)? {
            reach = Reach::Growing;
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
            self.enter(place, Reach::One)?;
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
    fn open_at(&mut self, key: &[u8], reach: Reach) -> Result<bool> {
        self.step = 1;
        let place = self.source.anchors.find(key).map(|found| (found.group, found.number));
        match (place, &self.open) {
            (None, _) => {
                self.open = None;
                Ok(false)
            }
            (Some(place), Some((open, _))) if *open == place => Ok(true),
            (Some(place), _) => self.enter(place, reach),
        }
    }

    /// Goes on where a move has left the interval.
    fn go_on(&mut self, is_forward: bool) -> Result<()> {
        let place = match &self.open {
            Some((place, cursor)) if !cursor.valid() => *place,
            _ => return Ok(()),
        };
        match is_forward {
            true => self.forward_from((place.0, place.1 + 1), Reach::Growing),
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
        let reach = if is_forward { Reach::Usual } else { Reach::One };
        if self.open_at(key, reach)?
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

impl Drop for FlexCursor {
    fn drop(&mut self) {
        self.end_walk();
    }
}

impl Cursor for FlexCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.step = 1;
        let outcome = self.forward_from((0, 0), Reach::Usual);
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
    fn head(&self) -> Option<Head<'_>> {
        self.open.as_ref().and_then(|(_, cursor)| cursor.head())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], |(_, cursor)| cursor.value())
    }

    fn value_owned(&self) -> Value {
        self.open.as_ref().map_or_else(|| Value::copy_from(&[]), |(_, cursor)| cursor.value_owned())
    }
}
