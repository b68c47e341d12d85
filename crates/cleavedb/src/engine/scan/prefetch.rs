//! Walking pairs with their separated values read ahead: once a run is recognised or expected, the
//! places of the values to come are taken from the index, and their device reads begun together
//! while the user is busy with the values before.
//!
//! Owned by one thread at a time. Invariants: P1 pairs come in key order and are those of the
//! pinned view, whether their values were read ahead or not. P2 an error shows at its own pair:
//! all before it are delivered first, and after it the cursor is invalid until the next seek. P3
//! no more pairs are read ahead than the user has taken in this run, or than scans of the keyspace
//! usually take, except for the first few, and never more than the bounds in number and bytes;
//! while all comes from the page cache, no window is begun before the one before it is used up. P4
//! a seek or a turn lets go of all that was ahead.

use std::collections::VecDeque;

use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::base::usual::Expected;
use crate::base::value::Value;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::scan::later::{Base, LaterValue, fold};
use crate::engine::scan::{ScanOptions, Values, VisibleCursor};
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use crate::values::reader::ahead::ValuesAhead;

/// Separated values that the user has taken before steps in one direction are taken for a run. Up
/// to there only what stands side by side with the wanted value is read ahead.
const RUN_MIN: usize = 2;

/// Values that stand side by side are read ahead up to so many bytes, whatever their number: a read
/// of that length takes about as long as two short ones.
const SIDE_BY_SIDE_BYTES: u64 = 64 << 10;

/// The same while they come from the page cache, where to ask twice costs little, and what is
/// copied for nobody has cost its pairs' way through the index, too.
const SIDE_BY_SIDE_BYTES_CACHED: u64 = 16 << 10;

/// Values at most so far apart stand side by side.
const SIDE_BY_SIDE_GAP_BYTES: u64 = 4 << 10;

/// Fewest and most pairs ahead: from what makes a batch worth its calls, to some times the depth
/// at which the device is at its limit.
const AHEAD_PAIRS_MIN: usize = 8;
const AHEAD_PAIRS_MAX: usize = 256;

/// Pairs of which a run is expected that are begun with its seek, at most; those behind them are
/// begun while the user is busy with these.
const FIRST_PAIRS_MAX: usize = 64;

/// Pairs for which a window has room at once: with those beside them, few have more.
const WINDOW_PAIRS: usize = 16;

/// Most bytes ahead, and the share of the memory budget that one cursor may take for them.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
const AHEAD_BUDGET_SHARE: u64 = 32;

/// Pairs of a run that the cache is told of: a longer one is not likely to be walked again while it
/// would be kept.
const NOTED_PAIRS_MAX: usize = 256;

/// A pair ahead.
struct Pair {
    key: Value,
    base: Option<Base>,
    /// Oldest first.
    operands: Vec<Value>,
    /// What finds its separated value among those of its window.
    place: Option<Result<Place>>,
}

/// Number and place of a separated value in its window.
#[derive(Clone, Copy)]
struct Place {
    number: usize,
    handle: Handle,
}

/// Where in which file a value stands.
#[derive(Clone, Copy)]
struct Side {
    container: FileId,
    start: u64,
    end: u64,
}

impl Side {
    /// Whether it stands side by side with the one before it in the walk.
    fn follows(&self, before: &Self, forward: bool) -> bool {
        let (low, high) = if forward { (before, self) } else { (self, before) };
        let gap = high.start.checked_sub(low.end);
        self.container == before.container && gap.is_some_and(|gap| gap <= SIDE_BY_SIDE_GAP_BYTES)
    }
}

/// Pairs whose values were begun together.
struct Window {
    pairs: VecDeque<Pair>,
    values: ValuesAhead,
    memory_bytes: u64,
}

/// What is known of the pairs behind the current one.
struct Ahead {
    windows: VecDeque<Window>,
    /// The pair behind the last window, which was looked at but not begun.
    next: Option<Pair>,
    /// How the walk ends behind the last window, if it is known: with an error or the range.
    end: Option<Result<()>>,
    /// The pair that the user stands on.
    current: Option<(Value, Value)>,
    held: HeldMemory,
}

/// A cursor over visible pairs and their values, in both directions.
pub(crate) struct ScanCursor {
    /// Stands on the current pair, or, with pairs ahead, on the last one ahead.
    pairs: VisibleCursor,
    keyspace: Arc<KeyspaceState>,
    how: ScanOptions,
    bytes_max: u64,
    forward: bool,
    /// What was expected of the run when it began.
    expected: Option<Expected>,
    /// Pairs with separated values that the user took since the last seek or turn.
    run: usize,
    /// Set while pairs are taken from ahead of the user.
    ahead: Option<Box<Ahead>>,
}

impl ScanCursor {
    /// A cursor over these pairs, not positioned.
    pub(super) fn new(
        pairs: VisibleCursor,
        keyspace: Arc<KeyspaceState>,
        how: ScanOptions,
    ) -> Self {
        let share = pairs.engine.settings.memory_budget / AHEAD_BUDGET_SHARE;
        let bytes_max = share.min(AHEAD_BYTES_MAX);
        Self { pairs, keyspace, how, bytes_max, forward: true, expected: None, run: 0, ahead: None }
    }

    /// Whether values are read ahead in runs that begin from here on.
    pub(crate) fn set_prefetch(&mut self, prefetch: bool) {
        self.how.prefetch = prefetch;
    }

    /// Whether there is a current pair.
    pub(crate) fn valid(&self) -> bool {
        match &self.ahead {
            Some(ahead) => ahead.current.is_some(),
            None => self.pairs.valid(),
        }
    }

    /// Key of the current pair.
    pub(crate) fn key(&self) -> &[u8] {
        match &self.ahead {
            Some(ahead) => ahead.current.as_ref().map_or(&[], |(key, _)| key.as_bytes()),
            None => self.pairs.key(),
        }
    }

    /// Key of the current pair, kept alive beyond the cursor.
    pub(crate) fn key_owned(&self) -> Value {
        match self.ahead.as_ref().and_then(|ahead| ahead.current.as_ref()) {
            Some((key, _)) => key.clone(),
            None => Value::copy_from(self.key()),
        }
    }

    /// Value of the current pair; empty with keys only.
    pub(crate) fn value(&self) -> &[u8] {
        match &self.ahead {
            Some(ahead) => ahead.current.as_ref().map_or(&[], |(_, value)| value.as_bytes()),
            None => self.pairs.value(),
        }
    }

    /// The current value, kept alive beyond the cursor.
    pub(crate) fn value_owned(&self) -> Value {
        match self.ahead.as_ref().and_then(|ahead| ahead.current.as_ref()) {
            Some((_, value)) => value.clone(),
            None => self.pairs.value_owned(),
        }
    }

    /// The current value, to be folded when somebody asks.
    pub(crate) fn later(&self) -> LaterValue {
        match &self.ahead {
            Some(_) => LaterValue::Ready(self.value_owned()),
            None => self.pairs.later(),
        }
    }

    /// Moves to the first pair of the range.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        self.begin_run(true);
        self.pairs.seek_first()?;
        self.arrive_by_seek()
    }

    /// Moves to the last pair of the range.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        self.begin_run(false);
        self.pairs.seek_last()?;
        self.arrive_by_seek()
    }

    /// Moves to the first pair of the range at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin_run(true);
        self.pairs.seek(key)?;
        self.arrive_by_seek()
    }

    /// Moves to the last pair of the range at or before `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.begin_run(false);
        self.pairs.seek_for_prev(key)?;
        self.arrive_by_seek()
    }

    /// Moves one pair on.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    /// Moves one pair back.
    pub(crate) fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if forward != self.forward {
            if let Some((key, _)) = self.begin_run(forward) {
                mark!("scan_turned_with_pairs_ahead");
                self.pairs.seek_beside(&key, forward)?;
                return self.arrive();
            }
        } else if self.ahead.is_some() {
            return self.deliver();
        } else if self.how.prefetch && self.run > 0 {
            self.begin_ahead(None);
            return self.deliver();
        }
        self.advance(forward)?;
        self.arrive()
    }

    /// Moves the pairs' own cursor by one.
    fn advance(&mut self, forward: bool) -> Result<()> {
        if forward { self.pairs.next() } else { self.pairs.prev() }
    }

    /// Reads the value that a seek arrived at, and those behind it that are expected to be taken.
    fn arrive_by_seek(&mut self) -> Result<()> {
        let is_run = self.how.prefetch && self.expected.is_some_and(|expected| expected.least > 1);
        if is_run && self.how.values == Values::Folded && self.pairs.is_separated() {
            mark!("scan_begun_with_what_is_usual");
            let first = self.pairs.pair_here();
            self.begin_ahead(Some(first));
            return self.deliver();
        }
        self.arrive()
    }

    /// From here on pairs are taken from ahead of the user.
    fn begin_ahead(&mut self, next: Option<Pair>) {
        let held = HeldMemory::new(&self.pairs.engine.io.meter, Purpose::Read);
        let ahead = Ahead { windows: VecDeque::new(), next, end: None, current: None, held };
        self.ahead = Some(Box::new(ahead));
    }

    /// Reads the value that the pairs' own cursor arrived at.
    fn arrive(&mut self) -> Result<()> {
        if self.how.values == Values::Folded && self.pairs.settle()? {
            self.run += 1;
        }
        Ok(())
    }

    /// Lets go of all that is ahead (P4); the pair that the user stood on, if it came from there.
    fn begin_run(&mut self, forward: bool) -> Option<(Value, Value)> {
        self.keyspace.usual_run.note(std::mem::take(&mut self.run));
        self.expected = self.keyspace.usual_run.expected();
        self.forward = forward;
        self.let_go()
    }

    fn let_go(&mut self) -> Option<(Value, Value)> {
        let mut ahead = self.ahead.take()?;
        let separated = |pair: &Pair| matches!(pair.base, Some(Base::Separated(..)));
        let unused = ahead.windows.iter().flat_map(|window| &window.pairs).filter(|p| separated(p));
        let unused = unused.count() as u64;
        self.pairs.engine.metrics.values_unused.fetch_add(unused, Ordering::Relaxed);
        ahead.current.take()
    }

    /// Takes the next pair from what is ahead.
    fn deliver(&mut self) -> Result<()> {
        let Some(ahead) = self.ahead.as_mut() else { return Ok(()) };
        ahead.current = None;
        while ahead.windows.front().is_some_and(|window| window.pairs.is_empty()) {
            ahead.windows.pop_front();
        }
        self.gather();
        let Some(ahead) = self.ahead.as_mut() else { return Ok(()) };
        let next = ahead.windows.front_mut().and_then(|window| {
            let pair = window.pairs.pop_front()?;
            Some((pair, &mut window.values))
        });
        let Some((pair, values)) = next else {
            let end = ahead.end.take().unwrap_or(Ok(()));
            self.stop();
            return end;
        };
        let is_separated = matches!(pair.base, Some(Base::Separated(..)));
        match self.pairs.resolve(pair, values) {
            Ok(current) => {
                ahead.current = Some(current);
                self.run += usize::from(is_separated);
                Ok(())
            }
            Err(error) => {
                mark!("scan_error_ahead_delivered");
                self.stop();
                Err(error)
            }
        }
    }

    /// Stands on nothing until the next seek.
    fn stop(&mut self) {
        self.let_go();
        self.pairs.invalidate();
    }

    /// Takes pairs and begins their reads, if it is time to (P3).
    fn gather(&mut self) {
        let Some(ahead) = self.ahead.as_mut() else { return };
        if ahead.end.is_some() && ahead.next.is_none() {
            return;
        }
        let pairs: usize = ahead.windows.iter().map(|window| window.pairs.len()).sum();
        let bytes: u64 = ahead.windows.iter().map(|window| window.memory_bytes).sum();
        ahead.held.set(bytes);
        let is_cached = self.keyspace.scans_cached.load(Ordering::Relaxed);
        let Some(room) = room(self.run, pairs, self.expected, is_cached) else { return };
        let bytes_step = self.bytes_max / 4;
        if pairs > 0 && bytes + bytes_step > self.bytes_max {
            return;
        }
        let room = Room { bytes: bytes_step, ..room };
        let from = Behind { next: ahead.next.take(), end: ahead.end.take() };
        let (window, behind) = self.pairs.window(self.forward, room, from);
        let prefetched = window.pairs.iter().filter(|pair| pair.place.is_some()).count() as u64;
        self.pairs.engine.metrics.values_prefetched.fetch_add(prefetched, Ordering::Relaxed);
        ahead.held.set(bytes + window.memory_bytes);
        // Stored where it changes only: all scans look at it.
        if let Some(at_once) = window.values.came_at_once().filter(|now| *now != is_cached) {
            self.keyspace.scans_cached.store(at_once, Ordering::Relaxed);
        }
        ahead.windows.push_back(window);
        (ahead.next, ahead.end) = (behind.next, behind.end);
    }
}

/// How many pairs are to be begun next, by how many the user took in this run, how many are ahead,
/// what is expected of a run, and whether values come from the page cache; none where it is not
/// time to.
fn room(run: usize, ahead: usize, expected: Option<Expected>, is_cached: bool) -> Option<Room> {
    let Expected { least, most } = expected.unwrap_or(Expected { least: 0, most: 0 });
    let pairs_max = ((run + 1).next_power_of_two() / 2).max(least);
    let pairs_max = pairs_max.clamp(AHEAD_PAIRS_MIN, AHEAD_PAIRS_MAX);
    let begun = run + ahead;
    // In quarters, so that reads are under way all the time.
    let step = match run {
        0 => least.clamp(1, FIRST_PAIRS_MAX),
        _ if run < RUN_MIN && least == 0 => 1,
        _ => (pairs_max / 4).max(AHEAD_PAIRS_MIN),
    };
    let step = match least.saturating_sub(begun) {
        0 => step,
        expected if expected < 2 * step => expected,
        _ => step,
    };
    // Between what most runs take and what few go beyond, nothing is begun that nobody waits for.
    let is_likely = begun < least || run >= most;
    let is_time = ahead == 0 || !is_cached && is_likely && ahead + step <= pairs_max;
    let beside = if expected.is_some() { most.saturating_sub(begun) } else { usize::MAX };
    let beside_bytes = if is_cached { SIDE_BY_SIDE_BYTES_CACHED } else { SIDE_BY_SIDE_BYTES };
    let is_noted = begun < NOTED_PAIRS_MAX;
    is_time.then_some(Room { pairs: step, beside, beside_bytes, bytes: 0, is_noted })
}

/// What a window may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// Pairs, wherever their values stand.
    pairs: usize,
    /// Pairs with those whose values stand side by side with theirs.
    beside: usize,
    /// Bytes that those may come to with theirs.
    beside_bytes: u64,
    /// Bytes, about.
    bytes: u64,
    /// Whether the cache learns of it.
    is_noted: bool,
}

/// What is known of the walk behind a window.
struct Behind {
    /// The next pair, which was looked at but not begun.
    next: Option<Pair>,
    /// How the walk ends behind that, if it does.
    end: Option<Result<()>>,
}

impl VisibleCursor {
    /// Takes as many pairs as there is room for, at least one, and those after them whose values
    /// stand side by side with theirs, and begins the reads of all their values. Beside them, what
    /// is known of the walk behind.
    fn window(&mut self, forward: bool, room: Room, from: Behind) -> (Window, Behind) {
        mark!("scan_window_begun");
        let mut pairs = VecDeque::with_capacity(room.pairs.max(WINDOW_PAIRS));
        let mut places = 0;
        let (mut bytes, mut own_bytes) = (0, 0);
        let Behind { next: mut taken, mut end } = from;
        let (mut last, mut newer) = (None, None);
        while bytes < room.bytes || pairs.is_empty() {
            let Some(mut pair) = taken.take().or_else(|| self.take_pair(forward, &mut end)) else {
                break;
            };
            if let Some(Base::Separated(.., of_pair)) = &pair.base
                && !is_same(newer.get_or_insert_with(|| of_pair.clone()), of_pair)
            {
                // One window reads from one version of the files.
                taken = Some(pair);
                break;
            }
            let side = pair.handle().and_then(|handle| self.side_of(&handle));
            if pairs.len() >= room.pairs {
                let is_beside = last.zip(side).is_some_and(|(last, side): (Side, Side)| {
                    side.follows(&last, forward) && bytes < room.beside_bytes
                });
                if !is_beside || pairs.len() >= room.beside {
                    taken = Some(pair);
                    break;
                }
                mark!("scan_window_of_neighbours");
            }
            last = side;
            own_bytes += pair.memory_bytes();
            bytes += pair.memory_bytes();
            if let Some(Ok(place)) = &mut pair.place {
                bytes += u64::from(place.handle.bytes);
                place.number = places;
                places += 1;
            }
            pairs.push_back(pair);
        }
        let mut wanted: Vec<Wanted<'_>> = Vec::with_capacity(places);
        wanted.extend(pairs.iter().filter_map(|pair| pair.wanted(self.keyspace)));
        debug_assert_eq!(wanted.len(), places);
        let newer = newer.flatten();
        let reader = self.engine.value_reader(newer.as_deref().unwrap_or(&self.files));
        let values = reader.begin(&wanted, Purpose::Read, room.is_noted);
        if let (Some(first), Some(last)) = (wanted.first(), wanted.last()) {
            let reads = values.needless_reads(self.engine.widths.value_order_bytes);
            let ends = if forward { (first.key, last.key) } else { (last.key, first.key) };
            self.engine.note_scattered(self.keyspace, reads, ends);
        }
        let memory_bytes = own_bytes + values.memory_bytes();
        (Window { pairs, values, memory_bytes }, Behind { next: taken, end })
    }

    /// The next pair of the walk, its value unread; none where the walk ends, and how it does.
    fn take_pair(&mut self, forward: bool, end: &mut Option<Result<()>>) -> Option<Pair> {
        if end.is_some() {
            return None;
        }
        match if forward { self.next() } else { self.prev() } {
            Err(error) => *end = Some(Err(error)),
            Ok(()) if !self.valid() => *end = Some(Ok(())),
            Ok(()) => return Some(self.pair_here()),
        }
        None
    }

    /// The current pair, its value unread.
    fn pair_here(&mut self) -> Pair {
        let key = Value::copy_from(self.key());
        let (base, operands) = self.parts();
        let place = match &base {
            Some(Base::Separated(_, handle, _)) => {
                let handle = self.engine.strategy.resolve(handle);
                Some(handle.map(|handle| Place { number: 0, handle }))
            }
            _ => None,
        };
        Pair { key, base, operands, place }
    }

    /// Where a value stands, if a handle says so by itself.
    fn side_of(&self, handle: &Handle) -> Option<Side> {
        let container = match self.files.get_moved(handle.file) {
            None => handle.file,
            Some(moved) if moved.epoch == handle.epoch => moved.container,
            Some(_) => return None,
        };
        let is_alone = handle.is_large();
        (!is_alone).then_some(Side { container, start: handle.offset, end: handle.end() })
    }

    /// Key and value of a pair ahead.
    fn resolve(&self, pair: Pair, values: &mut ValuesAhead) -> Result<(Value, Value)> {
        let Pair { key, base, operands, place } = pair;
        let base = match (base, place) {
            (Some(Base::Separated(seq, _, newer)), Some(place)) => {
                let Place { number, handle } = place?;
                let wanted = Wanted { handle, keyspace: self.keyspace, key: &key, seq };
                let value = values.value(number, &wanted)?;
                let files = newer.as_deref().unwrap_or(&self.files);
                let reader = self.engine.value_reader(files);
                reader.keep_known(values, number, &wanted, &value);
                Some(value)
            }
            (Some(Base::Inline(value)), _) => Some(value),
            _ => None,
        };
        let value = fold(self.operator.as_ref(), &key, base, &operands)?;
        self.note_folded(&key, &operands, &value);
        Ok((key, value))
    }
}

/// Whether both are the view's files, or the same newer ones.
fn is_same(left: &Option<Arc<ValueFiles>>, right: &Option<Arc<ValueFiles>>) -> bool {
    left.as_ref().map(Arc::as_ptr) == right.as_ref().map(Arc::as_ptr)
}

impl Pair {
    /// The handle of its separated value.
    fn handle(&self) -> Option<Handle> {
        match &self.place {
            Some(Ok(place)) => Some(place.handle),
            _ => None,
        }
    }

    /// Its separated value.
    fn wanted(&self, keyspace: KeyspaceId) -> Option<Wanted<'_>> {
        let (Some(Base::Separated(seq, ..)), Some(Ok(place))) = (&self.base, &self.place) else {
            return None;
        };
        Some(Wanted { handle: place.handle, keyspace, key: &self.key, seq: *seq })
    }

    /// Memory of what it holds besides a separated value.
    fn memory_bytes(&self) -> u64 {
        let inline = match &self.base {
            Some(Base::Inline(value)) => value.len(),
            _ => 0,
        };
        let operands: usize = self.operands.iter().map(|operand| operand.len()).sum();
        (size_of::<Self>() + self.key.len() + inline + operands) as u64
    }
}

impl Drop for ScanCursor {
    fn drop(&mut self) {
        self.keyspace.usual_run.note(self.run);
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
