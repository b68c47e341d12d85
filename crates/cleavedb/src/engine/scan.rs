//! Range reads: versions merged from all sources and collapsed to what a user sees at one seq.
//!
//! [`ScanCursor`] is what users walk with; it reads separated values ahead of itself. Under it,
//! [`VisibleCursor`] finds pairs and reads no value unless told to.
//!
//! Invariants: V1 a source pins its view, so every cursor made from it sees the same moment.
//! V2 going forward the merged cursor stands within the versions of the current key; going
//! backward it stands before them. V3 after an error the cursor is invalid until the next seek.

use crate::base::cursor::{BoxCursor, Cursor as _, Head};
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::SharedOperator;
use crate::base::merging::MergingCursor;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::base::tombstone::Fragments;
use crate::base::value::Value;
use crate::deltas::cursor::DeltaCursor;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::metrics::{Metrics, Operation};
use crate::engine::read::unsupported_kind;
use crate::engine::scan::later::{Base, LaterFold, fold};
use crate::engine::snapshots::SnapshotPin;
use crate::engine::view::View;
use crate::index::{CursorOptions, KeyRange};
use crate::io::Purpose;
use crate::values::file_table::ValueFiles;

mod later;
mod prefetch;

pub(crate) use later::LaterValue;
pub(crate) use prefetch::ScanCursor;

/// One moment of one keyspace's range, from which cursors are made.
pub(crate) struct ScanSource {
    engine: Arc<Engine>,
    view: Arc<View>,
    keyspace: Arc<KeyspaceState>,
    range: KeyRange,
    seq: Seq,
    /// Whether that is now, for whoever asks.
    is_of_now: bool,
    /// Keeps what the map has for its moment.
    pin: Option<Arc<SnapshotPin>>,
}

impl ScanSource {
    /// The range at `snapshot`, or now.
    pub(crate) fn new(
        engine: Arc<Engine>,
        keyspace: Arc<KeyspaceState>,
        range: KeyRange,
        snapshot: Option<Seq>,
    ) -> Result<Self> {
        engine.check_readable(&keyspace)?;
        let is_of_now = snapshot.is_none();
        // Before the view.
        let pin = engine.mapping.as_ref().map(|_| match snapshot {
            Some(seq) => Arc::new(engine.snapshots.hold(seq)),
            None => Arc::new(engine.snapshots.take(&engine.visible)),
        });
        let (view, seq) = {
            let (view, seq) = engine.moment(pin.as_ref().map(|pin| pin.seq()).or(snapshot));
            (Arc::clone(&view), seq)
        };
        Ok(Self { engine, view, keyspace, range, seq, is_of_now, pin })
    }

    /// A cursor over the range, not positioned.
    pub(crate) fn cursor(&self, how: ScanOptions) -> Result<ScanCursor> {
        let mut children: Vec<BoxCursor> = Vec::new();
        let mut covers = Vec::new();
        for table in self.view.memtables() {
            if table.is_empty() {
                continue;
            }
            let fragments = table.fragments(self.keyspace.id);
            if !fragments.is_empty() {
                covers.push(fragments);
            }
            children.push(Box::new(table.cursor(self.keyspace.id)));
        }
        if let Some(index) = self.view.indexes.get(&self.keyspace.id) {
            let fragments = index.tombstones()?;
            if !fragments.is_empty() {
                covers.push(fragments);
            }
            children.extend(index.cursors(&CursorOptions {
                range: self.range.clone(),
                purpose: Purpose::Read,
                fill_cache: true,
            })?);
        }
        if self.keyspace.has_buckets() && self.view.deltas.len() > 0 {
            let (id, purpose) = (self.keyspace.id, Purpose::Read);
            let deltas = (&self.view.deltas, &self.engine.io.meter);
            children.push(Box::new(DeltaCursor::new(deltas, id, self.seq, purpose)));
        }
        let pairs = VisibleCursor {
            _pin: Pin::new(&self.engine.metrics),
            engine: Arc::clone(&self.engine),
            files: Arc::clone(&self.view.values),
            newer: None,
            _snapshot: self.pin.clone(),
            keyspace: self.keyspace.id,
            entries: MergingCursor::new(children),
            covers,
            seq: self.seq,
            is_of_now: self.is_of_now,
            operator: self.keyspace.operator.clone(),
            range: self.range.clone(),
            values: how.values,
            forward: true,
            state: State::Invalid,
            key: Vec::new(),
            operands: Vec::new(),
        };
        Ok(ScanCursor::new(pairs, Arc::clone(&self.keyspace), how))
    }
}

/// How a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanOptions {
    /// What the cursor does about values.
    pub(crate) values: Values,
    /// Whether separated values are read ahead of a run.
    pub(crate) prefetch: bool,
}

/// What a cursor does about values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Folded when the cursor arrives.
    Folded,
    /// Folded when somebody asks: [`ScanCursor::later`].
    Later,
    /// Not at all.
    None,
}

/// Memory that a live cursor holds on average, its sources' readahead left out (the meter counts
/// that): a block and a key for each of some sources.
const CURSOR_BYTES: u64 = 32 << 10;

/// Counts a live cursor's memory.
struct Pin(Arc<Metrics>);

impl Pin {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.iterator_bytes.fetch_add(CURSOR_BYTES, Ordering::Relaxed);
        Self(Arc::clone(metrics))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.iterator_bytes.fetch_sub(CURSOR_BYTES, Ordering::Relaxed);
    }
}

/// Where the current value is.
enum State {
    /// No current pair.
    Invalid,
    /// The merged cursor stands on the deciding put.
    AtEntry,
    /// Folded, or passed by going backward.
    Folded(Value),
    /// To be read and folded when asked for; the operands are the cursor's.
    Unfolded(Option<Base>),
}

/// A cursor over visible pairs in both directions. It leaves what has to be read or folded to
/// [`VisibleCursor::settle`].
struct VisibleCursor {
    entries: MergingCursor,
    covers: Vec<Arc<Fragments>>,
    seq: Seq,
    is_of_now: bool,
    operator: Option<SharedOperator>,
    range: KeyRange,
    values: Values,
    forward: bool,
    state: State,
    /// Key of the current pair; scratch while searching.
    key: Vec<u8>,
    /// Scratch: operands of the current key.
    operands: Vec<Value>,
    engine: Arc<Engine>,
    /// Pins the value files that entries name.
    files: Arc<ValueFiles>,
    /// Those that a map led into last, where it leads beyond them.
    newer: Option<Arc<ValueFiles>>,
    _snapshot: Option<Arc<SnapshotPin>>,
    keyspace: KeyspaceId,
    _pin: Pin,
}

/// Steps over versions of one key before a seek is cheaper.
const STEPS_BEFORE_SEEK: usize = 8;

impl VisibleCursor {
    /// Whether there is a current pair.
    fn valid(&self) -> bool {
        !matches!(self.state, State::Invalid)
    }

    /// Key of the current pair.
    fn key(&self) -> &[u8] {
        &self.key
    }

    /// Value of the current pair; empty with keys only.
    fn value(&self) -> &[u8] {
        match &self.state {
            State::Invalid | State::Unfolded(_) => &[],
            // With keys only it may be a handle, which nobody is to see.
            State::AtEntry if self.values == Values::None => &[],
            State::AtEntry => self.entries.value(),
            State::Folded(value) => value.as_bytes(),
        }
    }

    /// The current value, kept alive beyond the cursor.
    fn value_owned(&self) -> Value {
        match &self.state {
            State::Invalid | State::Unfolded(_) => Value::copy_from(&[]),
            State::AtEntry if self.values == Values::None => Value::copy_from(&[]),
            State::AtEntry => self.entries.value_owned(),
            State::Folded(value) => value.clone(),
        }
    }

    /// The current value, to be folded when somebody asks.
    fn later(&self) -> LaterValue {
        match &self.state {
            State::Unfolded(base) => LaterValue::Fold(Box::new(LaterFold {
                engine: Arc::clone(&self.engine),
                files: Arc::clone(&self.files),
                keyspace: self.keyspace,
                operator: self.operator.clone(),
                is_of_now: self.is_of_now,
                base: base.clone(),
                operands: self.operands.clone(),
            })),
            _ => LaterValue::Ready(self.value_owned()),
        }
    }

    /// Reads and folds the current value, where that is still to be done; true where it was a
    /// separated one. After an error there is no current pair.
    fn settle(&mut self) -> Result<bool> {
        let State::Unfolded(base) = &mut self.state else { return Ok(false) };
        let base = base.take();
        self.state = State::Invalid;
        let is_separated = matches!(base, Some(Base::Separated(..)));
        let base = base
            .map(|base| base.get(&self.engine, &self.files, self.keyspace, &self.key))
            .transpose()?;
        let value = fold(self.operator.as_ref(), &self.key, base, &self.operands)?;
        self.note_folded(&self.key, &self.operands, &value);
        self.state = State::Folded(value);
        Ok(is_separated)
    }

    /// The operands of a key have been applied for whoever asks.
    fn note_folded(&self, key: &[u8], operands: &[Value], value: &Value) {
        if self.is_of_now {
            self.engine.note_chain(self.keyspace, key, operands.len(), value.len());
        }
    }

    /// Whether the value of the current pair is a separated one that is still to be read.
    fn is_separated(&self) -> bool {
        matches!(self.state, State::Unfolded(Some(Base::Separated(..))))
    }

    /// The base and the operands, oldest first, of the current pair.
    fn parts(&mut self) -> (Option<Base>, Vec<Value>) {
        match &mut self.state {
            State::Unfolded(base) => (base.take(), std::mem::take(&mut self.operands)),
            _ => (Some(Base::Inline(self.value_owned())), Vec::new()),
        }
    }

    /// Moves to the first pair of the range.
    fn seek_first(&mut self) -> Result<()> {
        match self.range.start.take() {
            Some(start) => {
                let outcome = self.seek_entries(|entries, seq| entries.seek(&start, seq));
                self.range.start = Some(start);
                outcome?;
            }
            None => self.seek_entries(|entries, _| entries.seek_first())?,
        }
        self.find_forward()
    }

    /// Moves to the last pair of the range.
    fn seek_last(&mut self) -> Result<()> {
        match self.range.end.take() {
            Some(end) => {
                let outcome = self.seek_entries(|entries, _| entries.seek_before(&end, SEQ_MAX));
                self.range.end = Some(end);
                outcome?;
            }
            None => self.seek_entries(|entries, _| entries.seek_last())?,
        }
        self.find_backward()
    }

    /// Moves to the first pair of the range at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.range.start.as_deref().is_some_and(|start| key < start) {
            return self.seek_first();
        }
        self.seek_entries(|entries, seq| entries.seek(key, seq))?;
        self.find_forward()
    }

    /// Moves to the last pair of the range at or before `key`.
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.range.end.as_deref().is_some_and(|end| key >= end) {
            return self.seek_last();
        }
        self.seek_entries(|entries, _| entries.seek_before(key, 0))?;
        self.find_backward()
    }

    /// Moves one pair on.
    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let state = std::mem::replace(&mut self.state, State::Invalid);
        if !self.forward {
            self.entries.seek(&self.key, 0)?;
            return self.find_forward();
        }
        if matches!(state, State::AtEntry) {
            self.entries.next()?;
        }
        self.find_behind()
    }

    /// Moves one pair back.
    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.state = State::Invalid;
        if self.forward {
            self.entries.seek_before(&self.key, SEQ_MAX)?;
        }
        self.find_backward()
    }

    /// Moves to the first pair behind `key`, or, backward, to the last one before it.
    fn seek_beside(&mut self, key: &[u8], forward: bool) -> Result<()> {
        self.state = State::Invalid;
        if forward {
            self.entries.seek(key, 0)?;
            self.find_forward()
        } else {
            self.entries.seek_before(key, SEQ_MAX)?;
            self.find_backward()
        }
    }

    /// Stands on no pair from here on.
    fn invalidate(&mut self) {
        self.state = State::Invalid;
    }

    fn seek_entries(
        &mut self,
        seek: impl FnOnce(&mut MergingCursor, Seq) -> Result<()>,
    ) -> Result<()> {
        self.state = State::Invalid;
        let start = self.engine.io.clock.now();
        let outcome = seek(&mut self.entries, self.seq);
        let took = self.engine.io.clock.now().saturating_sub(start);
        self.engine.metrics.record(Operation::Seek, took);
        outcome
    }

    /// Finds the next visible pair at or after the merged cursor's entry.
    fn find_forward(&mut self) -> Result<()> {
        self.forward = true;
        self.find_from_here(false)
    }

    /// The same from within or behind the versions of `self.key`, which are not it any more.
    fn find_behind(&mut self) -> Result<()> {
        self.find_from_here(true)
    }

    fn find_from_here(&mut self, is_behind: bool) -> Result<()> {
        // Whether versions of `self.key` are passed by, and how many were.
        let (mut is_behind, mut steps) = (is_behind, 0);
        while let Some(Head { key, seq, kind }) = self.entries.head() {
            if is_behind && key == self.key {
                match steps {
                    STEPS_BEFORE_SEEK => self.entries.seek(&self.key, 0)?,
                    _ => self.entries.next()?,
                }
                steps += 1;
                continue;
            }
            if self.range.end.as_deref().is_some_and(|end| key >= end) {
                return Ok(());
            }
            if seq > self.seq {
                self.entries.next()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            let cover = cover_seq(&self.covers, &self.key, self.seq);
            if seq >= cover {
                match kind {
                    Kind::Put => {
                        self.state = State::AtEntry;
                        return Ok(());
                    }
                    Kind::PutSeparated | Kind::PutBare if self.values == Values::None => {
                        self.state = State::AtEntry;
                        return Ok(());
                    }
                    Kind::PutSeparated | Kind::PutBare => {
                        let entry = self.base();
                        return self.arrive(entry);
                    }
                    Kind::Merge => return self.fold_forward(cover),
                    Kind::Delete => {}
                    other => return Err(unsupported_kind(other)),
                }
            }
            self.entries.next()?;
            (is_behind, steps) = (true, 1);
        }
        Ok(())
    }

    /// Collects operands down to the base of the current key and folds them.
    fn fold_forward(&mut self, cover: Seq) -> Result<()> {
        self.operands.clear();
        let mut base = None;
        while self.entries.valid() && self.entries.key() == self.key && self.entries.seq() >= cover
        {
            match self.entries.kind() {
                Kind::Merge => self.operands.push(self.entries.value_owned()),
                Kind::Put | Kind::PutSeparated | Kind::PutBare => {
                    base = Some(self.base());
                    break;
                }
                Kind::Delete => break,
                other => return Err(unsupported_kind(other)),
            }
            self.entries.next()?;
        }
        self.operands.reverse();
        self.fold(base)
    }

    /// Sets the current value from a base and `self.operands`, oldest first.
    fn fold(&mut self, base: Option<Base>) -> Result<()> {
        self.state = match self.values {
            Values::None => State::Folded(Value::copy_from(&[])),
            Values::Later | Values::Folded => {
                State::Unfolded(base.map(|base| self.located(base)).transpose()?)
            }
        };
        Ok(())
    }

    /// Sets the current value from a base without operands.
    fn arrive(&mut self, base: Base) -> Result<()> {
        self.operands.clear();
        self.state = match (self.values, base) {
            (Values::None, _) => State::Folded(Value::copy_from(&[])),
            (_, Base::Inline(value)) => State::Folded(value),
            (_, base) => State::Unfolded(Some(self.located(base)?)),
        };
        Ok(())
    }

    /// The base with the handle of its record, if it is a separated one.
    fn located(&mut self, base: Base) -> Result<Base> {
        let Base::Bare(seq) = base else { return Ok(base) };
        let Self { engine, files, newer, keyspace, key, .. } = self;
        let handle = engine.handle_of_bare((files, newer), *keyspace, key, self.seq, seq)?;
        Ok(Base::Separated(seq, Value::copy_from(&handle.encode()), newer.clone()))
    }

    /// The put under the merged cursor.
    fn base(&self) -> Base {
        let value = self.entries.value_owned();
        match self.entries.kind() {
            Kind::PutSeparated => Base::Separated(self.entries.seq(), value, None),
            Kind::PutBare => Base::Bare(self.entries.seq()),
            _ => Base::Inline(value),
        }
    }

    /// Finds the last visible pair at or before the merged cursor's entry, which is the oldest
    /// version of its key.
    fn find_backward(&mut self) -> Result<()> {
        self.forward = false;
        while self.entries.valid() {
            if self.range.start.as_deref().is_some_and(|start| self.entries.key() < start) {
                return Ok(());
            }
            self.key.clear();
            self.key.extend_from_slice(self.entries.key());
            let base = self.collect_backward()?;
            match base {
                Some(base) if self.operands.is_empty() => return self.arrive(base),
                None if self.operands.is_empty() => {}
                base => return self.fold(base),
            }
        }
        Ok(())
    }

    /// Walks back over all versions of `self.key`, oldest first; leaves the newest visible base
    /// and, in `self.operands`, what was merged into it since.
    fn collect_backward(&mut self) -> Result<Option<Base>> {
        let cover = cover_seq(&self.covers, &self.key, self.seq);
        let mut base = None;
        self.operands.clear();
        while self.entries.valid() && self.entries.key() == self.key {
            let seq = self.entries.seq();
            if seq <= self.seq && seq >= cover {
                match self.entries.kind() {
                    Kind::Put | Kind::PutSeparated | Kind::PutBare => {
                        self.operands.clear();
                        base = Some(self.pair_base());
                    }
                    Kind::Delete => {
                        self.operands.clear();
                        base = None;
                    }
                    Kind::Merge => self.operands.push(self.entries.value_owned()),
                    other => return Err(unsupported_kind(other)),
                }
            }
            self.entries.prev()?;
        }
        Ok(base)
    }

    fn pair_base(&self) -> Base {
        if self.values == Values::None { Base::Inline(Value::copy_from(&[])) } else { self.base() }
    }
}

/// Newest range tombstone over `key` at `seq`.
fn cover_seq(covers: &[Arc<Fragments>], key: &[u8], seq: Seq) -> Seq {
    covers.iter().map(|fragments| fragments.cover_seq(key, seq)).max().unwrap_or(0)
}
