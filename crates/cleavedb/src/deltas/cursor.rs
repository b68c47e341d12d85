//! Walks over the deltas of one keyspace that a snapshot sees, bucket by bucket, in either
//! direction.
//!
//! Owned by one scan; pins its directory. It yields the live operands only, as entries of kind
//! `Merge`: merged with a cursor over the index at the same snapshot, each operand stands above the
//! base that it applies to, and what a newer base hides is behind that. A bucket is read whole,
//! once: when a seek comes to it, or, of a walk that has gone from one bucket to another, while it
//! is in the one before. Invariants: those of [`Cursor`]; DC-1 nothing above the snapshot, at or
//! below the newest anchor of its key that the snapshot sees, is shown; and DC-2 at most one bucket
//! is on its way, and what went wrong with it is told by the walk that comes to it, nobody else.

use crate::base::cursor::Cursor;
use crate::base::entry::{KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::deltas::bucket::reader::part_of;
use crate::deltas::bucket::scan::{WholeBucket, WholeUnderWay};
use crate::deltas::directory::{Directory, Position};
use crate::deltas::record::{Bound, DeltaKind, Record};
use crate::io::Purpose;
use crate::io::meter::{HeldMemory, Meter};

/// A bucket that the walk is in: its bytes, and the numbers of the records that are shown.
struct Open {
    position: Position,
    whole: WholeBucket,
    visible: Vec<u32>,
}

impl Open {
    fn memory_bytes(&self) -> u64 {
        self.whole.memory_bytes() + (self.visible.capacity() * size_of::<u32>()) as u64
    }
}

/// The cursor.
pub(crate) struct DeltaCursor {
    directory: Directory,
    keyspace: KeyspaceId,
    snapshot: Seq,
    purpose: Purpose,
    open: Option<Open>,
    /// The bucket behind it in the walk, which is being read.
    ahead: Option<(Position, WholeUnderWay)>,
    /// Memory of both.
    held: HeldMemory,
    /// Which of the visible records is the current one; none while not valid.
    at: Option<usize>,
}

impl DeltaCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(
        (directory, meter): (&Directory, &Arc<Meter>),
        keyspace: KeyspaceId,
        snapshot: Seq,
        purpose: Purpose,
    ) -> Self {
        let (directory, held) = (directory.clone(), HeldMemory::new(meter, purpose));
        let (open, ahead, at) = (None, None, None);
        Self { directory, keyspace, snapshot, purpose, open, ahead, held, at }
    }

    /// Opens the bucket at a position, unless it is open.
    fn enter(&mut self, position: Position) -> Result<()> {
        self.at = None;
        if self.open.as_ref().is_some_and(|open| open.position == position) {
            return Ok(());
        }
        self.open = None;
        let begun = self.ahead.take().filter(|(ahead, _)| *ahead == position);
        self.hold();
        let Some(bucket) = self.directory.at(position) else { return Ok(()) };
        let whole = match begun {
            Some((_, under_way)) => {
                mark!("bucket_read_ahead_of_walk");
                under_way.finish()?
            }
            None => bucket.read_whole(self.purpose)?,
        };
        let visible = visible(&whole, self.keyspace, self.snapshot);
        self.open = Some(Open { position, whole, visible });
        self.hold();
        Ok(())
    }

    /// Begins to read the bucket that the walk will come to next.
    fn begin_ahead(&mut self, position: Option<Position>) {
        let Some(position) = position.filter(|position| !self.is_outside(*position)) else {
            return;
        };
        if self.ahead.as_ref().is_some_and(|(ahead, _)| *ahead == position) {
            return;
        }
        let bucket = self.directory.at(position);
        self.ahead = bucket.map(|bucket| (position, WholeUnderWay::begin(bucket, self.purpose)));
        self.hold();
    }

    /// Tells how much memory is held.
    fn hold(&mut self) {
        let open = self.open.as_ref().map_or(0, Open::memory_bytes);
        let ahead = self.ahead.as_ref().map_or(0, |(_, under_way)| under_way.memory_bytes());
        self.held.set(open + ahead);
    }

    /// Whether a bucket begins behind the keyspace, or ends before it.
    fn is_outside(&self, position: Position) -> bool {
        let start = self.directory.at(position).map(|bucket| bucket.info().start.keyspace);
        let end = self.directory.end_of(position).map(|end| end.keyspace);
        start.is_some_and(|start| start > self.keyspace)
            || end.is_some_and(|end| end < self.keyspace)
    }

    /// Stands on the first visible record of this bucket, or of those behind it.
    fn settle_forward(&mut self, mut position: Option<Position>) -> Result<()> {
        while let Some(here) = position.filter(|here| !self.is_outside(*here)) {
            self.enter(here)?;
            if self.open.as_ref().is_some_and(|open| !open.visible.is_empty()) {
                self.at = Some(0);
                return Ok(());
            }
            position = self.directory.next(here);
        }
        self.at = None;
        Ok(())
    }

    /// Stands on the last visible record of this bucket, or of those before it.
    fn settle_backward(&mut self, mut position: Option<Position>) -> Result<()> {
        while let Some(here) = position.filter(|here| !self.is_outside(*here)) {
            self.enter(here)?;
            let last = self.open.as_ref().and_then(|open| open.visible.len().checked_sub(1));
            if last.is_some() {
                self.at = last;
                return Ok(());
            }
            position = self.directory.previous(here);
        }
        self.at = None;
        Ok(())
    }

    /// Opens the bucket of (key, seq); returns how many of its visible records are before it.
    fn enter_at(&mut self, key: &[u8], seq: Seq) -> Result<Option<(Position, usize)>> {
        let bound = Bound { keyspace: self.keyspace, key };
        self.at = None;
        let Some(position) = self.directory.position(bound) else { return Ok(None) };
        self.enter(position)?;
        let before = self.open.as_ref().map_or(0, |open| {
            let number = open.whole.position(bound, seq) as u32;
            open.visible.partition_point(|visible| *visible < number)
        });
        Ok(Some((position, before)))
    }

    fn current(&self) -> Option<(Bound<'_>, Record<'_>)> {
        let open = self.open.as_ref()?;
        open.whole.record(*open.visible.get(self.at?)? as usize)
    }
}

/// Numbers of the records of a keyspace that a snapshot sees (DC-1).
fn visible(whole: &WholeBucket, keyspace: KeyspaceId, snapshot: Seq) -> Vec<u32> {
    let from = whole.position(Bound { keyspace, key: b"" }, SEQ_MAX);
    let (mut shown, mut anchor) = (Vec::new(), 0);
    let mut last: Option<Bound<'_>> = None;
    for number in from..whole.len() {
        let Some((bound, record)) = whole.record(number) else { break };
        if bound.keyspace != keyspace {
            break;
        }
        if last != Some(bound) {
            last = Some(bound);
            anchor = whole.loaded.covers.cover_seq(bound, snapshot);
        }
        if record.seq > snapshot || record.seq <= anchor {
            continue;
        }
        match record.kind {
            DeltaKind::Anchor => anchor = record.seq,
            DeltaKind::Elsewhere => {}
            DeltaKind::Delta => shown.push(number as u32),
        }
    }
    shown
}

impl Cursor for DeltaCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.seek(b"", SEQ_MAX)
    }

    fn seek_last(&mut self) -> Result<()> {
        let position = match self.keyspace.0.checked_add(1) {
            Some(next) => self.directory.position(Bound { keyspace: KeyspaceId(next), key: b"" }),
            None => self.directory.last(),
        };
        // A bucket that begins exactly there holds none of the keyspace's keys.
        let position = position.and_then(|position| match self.is_outside(position) {
            true => self.directory.previous(position),
            false => Some(position),
        });
        self.settle_backward(position)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let Some((position, before)) = self.enter_at(key, seq)? else { return Ok(()) };
        if self.open.as_ref().is_some_and(|open| before < open.visible.len()) {
            self.at = Some(before);
            return Ok(());
        }
        let next = self.directory.next(position);
        self.settle_forward(next)
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let Some((position, before)) = self.enter_at(key, seq)? else { return Ok(()) };
        if let Some(last) = before.checked_sub(1) {
            self.at = Some(last);
            return Ok(());
        }
        let previous = self.directory.previous(position);
        self.settle_backward(previous)
    }

    fn next(&mut self) -> Result<()> {
        let Some((open, at)) = self.open.as_ref().zip(self.at) else { return Ok(()) };
        if at + 1 < open.visible.len() {
            self.at = Some(at + 1);
            return Ok(());
        }
        let next = self.directory.next(open.position);
        self.settle_forward(next)?;
        self.begin_ahead(self.open.as_ref().and_then(|open| self.directory.next(open.position)));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let Some((open, at)) = self.open.as_ref().zip(self.at) else { return Ok(()) };
        if let Some(before) = at.checked_sub(1) {
            self.at = Some(before);
            return Ok(());
        }
        let previous = self.directory.previous(open.position);
        self.settle_backward(previous)?;
        let open = self.open.as_ref();
        self.begin_ahead(open.and_then(|open| self.directory.previous(open.position)));
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |(bound, _)| bound.key)
    }

    fn seq(&self) -> Seq {
        self.current().map_or(0, |(_, record)| record.seq)
    }

    fn kind(&self) -> Kind {
        Kind::Merge
    }

    fn value(&self) -> &[u8] {
        self.current().map_or(&[], |(_, record)| record.operand)
    }

    fn value_owned(&self) -> Value {
        match (self.open.as_ref(), self.current()) {
            (Some(open), Some((_, record))) => part_of(open.whole.bytes(), record.operand),
            _ => Value::copy_from(&[]),
        }
    }
}

#[cfg(test)]
mod tests;
