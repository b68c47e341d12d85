//! What a flush brings, in key order, so much of it ahead as decisions need.
//!
//! Owned by one flush, shared with the cursor that hands its entries to the stripe rule. Entries go
//! from hand to hand by the batch, and batches are used again. Invariants: FE-1 an entry is handed
//! out once. FE-2 a batch holds entries of one interval: of two that one bound lies between, they
//! are in two batches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc as ValueArc;

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::{Arc, Mutex};
use crate::index::KeyRange;

/// Entries and bytes that are taken out of the source at a time where a look had no end.
const BATCH_ENTRIES: usize = 64;
const BATCH_BYTES: u64 = 16 << 10;

/// Batches that are kept to be used again: as many as are out of the source at a time.
const SPARE_MAX: usize = 64;

/// Where an entry is in the bytes of its batch, the value right behind the key.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    key_end: usize,
    end: usize,
    seq: Seq,
    kind: Kind,
}

/// Entries out of their source.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl Batch {
    /// Takes the entry in that a cursor stands on; returns about the bytes of its record.
    fn push(&mut self, source: &BoxCursor) -> u64 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(source.key());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(source.value());
        let end = self.bytes.len();
        self.places.push(Place { start, key_end, end, seq: source.seq(), kind: source.kind() });
        record_bytes(end - start)
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    fn first_key(&self) -> &[u8] {
        self.places.first().map_or(&[], |place| self.bytes(place.start..place.key_end))
    }

    /// About the bytes of its records.
    fn record_bytes(&self) -> u64 {
        self.places.iter().map(|place| record_bytes(place.end - place.start)).sum()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

/// About what a record of so many bytes of key and value takes.
fn record_bytes(bytes: usize) -> u64 {
    /// Lengths, seq and kind.
    const HEAD_BYTES: usize = 12;
    (bytes + HEAD_BYTES) as u64
}

/// The entries that were not handed out yet.
pub(super) struct Feed {
    source: BoxCursor,
    /// Where it ends, if not with its source.
    until: Option<Vec<u8>>,
    /// Out of the source already.
    ahead: VecDeque<Batch>,
    /// Batches to be used again.
    spare: Vec<Batch>,
    /// About the bytes of the records that are out of the source by now.
    drawn_bytes: u64,
}

/// How much there is for an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Portion {
    /// Entries.
    pub(super) entries: usize,
    /// About the bytes of their records.
    pub(super) bytes: u64,
    /// Whether there may be more.
    pub(super) goes_on: bool,
}

impl Feed {
    /// The entries of a source in a range.
    pub(super) fn new(mut source: BoxCursor, range: &KeyRange) -> Result<Self> {
        match &range.start {
            Some(start) => source.seek(start, SEQ_MAX)?,
            None => source.seek_first()?,
        }
        let until = range.end.clone();
        Ok(Self { source, until, ahead: VecDeque::new(), spare: Vec::new(), drawn_bytes: 0 })
    }

    /// Key of the next entry.
    pub(super) fn next_key(&self) -> Option<&[u8]> {
        match self.ahead.front() {
            Some(batch) => Some(batch.first_key()),
            None => self.source_key(),
        }
    }

    /// Keys of the entries below `end` that are out of the source, in order; some of them may be
    /// the same.
    pub(super) fn each_key(&self, end: Option<&[u8]>, mut take: impl FnMut(&[u8])) {
        let of_it = |batch: &&Batch| end.is_none_or(|end| batch.first_key() < end);
        for batch in self.ahead.iter().take_while(of_it) {
            batch.places.iter().for_each(|at| take(batch.bytes(at.start..at.key_end)));
        }
    }

    /// Key of the next entry that is not out of the source.
    pub(super) fn source_key(&self) -> Option<&[u8]> {
        self.has_more().then(|| self.source.key())
    }

    fn has_more(&self) -> bool {
        let is_within = |until: &Vec<u8>| self.source.key() < until.as_slice();
        self.source.valid() && self.until.as_ref().is_none_or(is_within)
    }

    /// About the bytes of the records that were taken out of the source.
    pub(super) fn drawn_bytes(&self) -> u64 {
        self.drawn_bytes
    }

    /// Whether all that is out of the source was handed out.
    pub(super) fn is_at_source(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Looks ahead at the entries below `end`, up to these many of them or bytes. Those that are
    /// out of the source already are of the interval that ends there, or of later ones.
    pub(super) fn look(
        &mut self,
        end: Option<&[u8]>,
        bytes_max: u64,
        max: usize,
    ) -> Result<Portion> {
        let of_it = |batch: &&Batch| end.is_none_or(|end| batch.first_key() < end);
        let mut portion = Portion::default();
        let mut batches = 0;
        for batch in self.ahead.iter().take_while(of_it) {
            batches += 1;
            portion.entries += batch.places.len();
            portion.bytes += batch.record_bytes();
        }
        if batches < self.ahead.len() {
            return Ok(portion);
        }
        self.draw(end, bytes_max, max, portion)
    }

    /// Takes the entries below `end` out of the source, in one batch, up to so many with those of
    /// the portion.
    pub(super) fn draw(
        &mut self,
        end: Option<&[u8]>,
        bytes_max: u64,
        max: usize,
        mut portion: Portion,
    ) -> Result<Portion> {
        let mut batch = self.spare.pop().unwrap_or_default();
        while self.has_more() && end.is_none_or(|end| self.source.key() < end) {
            if portion.entries >= max || portion.bytes >= bytes_max {
                portion.goes_on = true;
                break;
            }
            let bytes = batch.push(&self.source);
            portion.entries += 1;
            portion.bytes += bytes;
            self.drawn_bytes += bytes;
            self.source.next()?;
        }
        match batch.places.is_empty() {
            true => self.spare.push(batch),
            false => self.ahead.push_back(batch),
        }
        Ok(portion)
    }

    /// The next entries below `end`, in the place of such as were handed out; none at the end.
    fn swap(&mut self, used: &mut Batch, end: Option<&[u8]>) -> Result<()> {
        if self.ahead.is_empty() {
            self.draw(end, BATCH_BYTES, BATCH_ENTRIES, Portion::default())?;
        }
        let of_it = |batch: &Batch| end.is_none_or(|end| batch.first_key() < end);
        let next = match self.ahead.front().is_some_and(of_it) {
            true => self.ahead.pop_front().unwrap_or_default(),
            false => Batch::default(),
        };
        self.put_back(std::mem::replace(used, next));
        Ok(())
    }

    /// A batch that was handed out.
    fn put_back(&mut self, mut used: Batch) {
        if used.bytes.capacity() > 0 && self.spare.len() < SPARE_MAX {
            used.clear();
            self.spare.push(used);
        }
    }
}

/// A walk over the entries of a feed below a bound, forwards and once.
pub(super) struct FeedCursor {
    feed: Arc<Mutex<Feed>>,
    end: Option<ValueArc<[u8]>>,
    batch: Batch,
    /// Number of the entry in the batch.
    at: Option<usize>,
}

impl FeedCursor {
    /// A walk over what comes next, below `end`.
    pub(super) fn new(feed: &Arc<Mutex<Feed>>, end: Option<ValueArc<[u8]>>) -> Self {
        Self { feed: Arc::clone(feed), end, batch: Batch::default(), at: None }
    }

    fn place(&self) -> Option<&Place> {
        self.batch.places.get(self.at?)
    }

    fn part(&self, part: impl Fn(&Place) -> Range<usize>) -> &[u8] {
        self.place().map_or(&[], |place| self.batch.bytes(part(place)))
    }
}

impl Drop for FeedCursor {
    fn drop(&mut self) {
        self.feed.lock().put_back(std::mem::take(&mut self.batch));
    }
}

fn forwards_only() -> Error {
    Error::invalid("what a flush brings is walked forwards")
}

impl Cursor for FeedCursor {
    fn seek_first(&mut self) -> Result<()> {
        if self.at.is_some() {
            return Err(forwards_only());
        }
        self.next()
    }

    fn seek_last(&mut self) -> Result<()> {
        Err(forwards_only())
    }

    fn seek(&mut self, _key: &[u8], _seq: Seq) -> Result<()> {
        Err(forwards_only())
    }

    fn seek_before(&mut self, _key: &[u8], _seq: Seq) -> Result<()> {
        Err(forwards_only())
    }

    fn next(&mut self) -> Result<()> {
        let next = self.at.map_or(0, |at| at + 1);
        if next < self.batch.places.len() {
            self.at = Some(next);
            return Ok(());
        }
        self.at = Some(0);
        self.feed.lock().swap(&mut self.batch, self.end.as_deref())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forwards_only())
    }

    fn valid(&self) -> bool {
        self.place().is_some()
    }

    fn key(&self) -> &[u8] {
        self.part(|place| place.start..place.key_end)
    }

    fn seq(&self) -> Seq {
        self.place().map_or(SEQ_MAX, |place| place.seq)
    }

    fn kind(&self) -> Kind {
        self.place().map_or(Kind::Delete, |place| place.kind)
    }

    fn value(&self) -> &[u8] {
        self.part(|place| place.key_end..place.end)
    }
}
