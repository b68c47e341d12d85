//! Iterators over ranges: owned (`'static + Send`), double-ended, values fetched when asked for.

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::db::handle::{Handle, is_empty_range};
use crate::engine::catalogue::KeyspaceState;
use crate::engine::scan::{LaterValue, ScanCursor, ScanOptions, ScanSource, Values};
use crate::engine::snapshots::SnapshotPin;
use crate::index::KeyRange;

/// Walks a range from both ends until they meet. The first error ends it.
struct Walk {
    handle: Arc<Handle>,
    keyspace: Arc<KeyspaceState>,
    range: KeyRange,
    /// Registered even where the user took no snapshot: iterators are one moment.
    pin: Option<Arc<SnapshotPin>>,
    source: Option<ScanSource>,
    front: Option<ScanCursor>,
    back: Option<ScanCursor>,
    how: ScanOptions,
    error: Option<Error>,
    done: bool,
}

impl Walk {
    fn new(
        handle: Arc<Handle>,
        keyspace: Arc<KeyspaceState>,
        range: KeyRange,
        pin: Option<Arc<SnapshotPin>>,
    ) -> Self {
        let engine = Arc::clone(&handle.engine);
        let seq = pin.as_ref().map(|pin| pin.seq());
        let opened = ScanSource::new(engine, Arc::clone(&keyspace), range.clone(), seq);
        let (source, error) = match opened {
            Ok(source) => (Some(source), None),
            Err(error) => (None, Some(error)),
        };
        let done = error.is_none() && is_empty_range(&range);
        Self {
            handle,
            keyspace,
            range,
            pin,
            source,
            front: None,
            back: None,
            how: ScanOptions { values: Values::Folded, prefetch: true },
            error,
            done,
        }
    }

    fn cursor(&self) -> Result<ScanCursor> {
        self.handle.engine.check_readable(&self.keyspace)?;
        match &self.source {
            Some(source) => source.cursor(self.how),
            None => Err(Error::invalid("the iterator failed earlier")),
        }
    }

    /// Moves the front on; true when it stands on a pair that the back has not passed.
    fn advance(&mut self) -> Result<bool> {
        match &mut self.front {
            Some(front) => front.next()?,
            None => {
                let mut front = self.cursor()?;
                front.seek_first()?;
                self.front = Some(front);
            }
        }
        Ok(self.has_not_met(&self.front))
    }

    fn advance_back(&mut self) -> Result<bool> {
        match &mut self.back {
            Some(back) => back.prev()?,
            None => {
                let mut back = self.cursor()?;
                back.seek_last()?;
                self.back = Some(back);
            }
        }
        Ok(self.has_not_met(&self.back))
    }

    fn has_not_met(&self, moved: &Option<ScanCursor>) -> bool {
        if !moved.as_ref().is_some_and(ScanCursor::valid) {
            return false;
        }
        match (&self.front, &self.back) {
            (Some(front), Some(back)) => front.key() < back.key(),
            _ => true,
        }
    }

    /// One step at either end: the cursor that moved, an error, or the end.
    fn step(&mut self, forward: bool) -> Option<Result<&ScanCursor>> {
        if self.done {
            return None;
        }
        let moved = match self.error.take() {
            Some(error) => Err(error),
            None if forward => self.advance(),
            None => self.advance_back(),
        };
        match moved {
            Ok(true) => {
                let cursor = if forward { &self.front } else { &self.back };
                cursor.as_ref().map(Ok)
            }
            Ok(false) => {
                self.finish();
                None
            }
            Err(error) => {
                self.finish();
                Some(Err(error))
            }
        }
    }

    /// Lets go of everything that is pinned.
    fn finish(&mut self) {
        self.done = true;
        self.front = None;
        self.back = None;
        self.source = None;
        self.pin = None;
    }
}

/// Pairs of a range in key order, from either end. The first error ends it.
///
/// What it yields is one moment of the keyspace, however long it lives.
pub struct RangeIter(Walk);

impl RangeIter {
    pub(crate) fn new(
        handle: Arc<Handle>,
        keyspace: Arc<KeyspaceState>,
        range: KeyRange,
        pin: Option<Arc<SnapshotPin>>,
    ) -> Self {
        Self(Walk::new(handle, keyspace, range, pin))
    }

    /// An iterator that yields one error.
    pub(crate) fn failed(handle: Arc<Handle>, keyspace: Arc<KeyspaceState>, error: Error) -> Self {
        let mut walk = Walk::new(handle, keyspace, KeyRange::default(), None);
        walk.error = Some(error);
        Self(walk)
    }

    /// Only the keys; no value is copied or folded.
    #[must_use]
    pub fn keys(mut self) -> KeysIter {
        if self.0.front.is_none() && self.0.back.is_none() {
            self.0.how.values = Values::None;
        }
        KeysIter(self.0)
    }

    /// Guards: the key at once, the value when asked for.
    #[must_use]
    pub fn guards(mut self) -> GuardsIter {
        if self.0.front.is_none() && self.0.back.is_none() {
            self.0.how.values = Values::Later;
        }
        GuardsIter(self.0)
    }

    /// Whether values that stand in value files are read ahead once the iterator has made some
    /// steps: many reads under way at once, no more of them than pairs were taken so far, at most
    /// 256 and 4 MiB. Default: true. False reads one value at a time: for a walk that may end at
    /// any pair and must not read one value too many. No effect after the first step.
    #[must_use]
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        if self.0.front.is_none() && self.0.back.is_none() {
            self.0.how.prefetch = prefetch;
        }
        self
    }

    /// The bounds it was made with: inclusive start, exclusive end.
    pub fn bounds(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.0.range.start.as_deref(), self.0.range.end.as_deref())
    }
}

fn pair(step: Result<&ScanCursor>) -> Result<(Value, Value)> {
    step.map(|cursor| (cursor.key_owned(), cursor.value_owned()))
}

impl Iterator for RangeIter {
    type Item = Result<(Value, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(true).map(pair)
    }
}

impl DoubleEndedIterator for RangeIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(false).map(pair)
    }
}

/// Keys of a range in order, from either end.
pub struct KeysIter(Walk);

fn key(step: Result<&ScanCursor>) -> Result<Value> {
    step.map(|cursor| cursor.key_owned())
}

impl Iterator for KeysIter {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(true).map(key)
    }
}

impl DoubleEndedIterator for KeysIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(false).map(key)
    }
}

/// Guards of a range in order, from either end.
pub struct GuardsIter(Walk);

/// A pair whose value is handed out when asked for.
pub struct Guard {
    key: Value,
    value: LaterValue,
}

impl Guard {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Fetches the value.
    ///
    /// # Errors
    /// As [`crate::Keyspace::get`].
    pub fn value(self) -> Result<Value> {
        self.value.get(&self.key)
    }
}

fn guard(step: Result<&ScanCursor>) -> Result<Guard> {
    step.map(|cursor| Guard { key: cursor.key_owned(), value: cursor.later() })
}

impl Iterator for GuardsIter {
    type Item = Result<Guard>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(true).map(guard)
    }
}

impl DoubleEndedIterator for GuardsIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(false).map(guard)
    }
}
