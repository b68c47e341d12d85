//! What a flush brings, in key order, so much of it ahead as a decision needs.
//!
//! Owned by one flush, shared with the cursor that hands its entries to the stripe rule. Entries go
//! from hand to hand by the batch, and batches are used again. Invariants: FE-1 an entry is handed
//! out once. FE-2 what is out of the source lies below the end of the last look.

use std::ops::Range;

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::{Arc, Mutex};

/// Entries and bytes that are taken out of the source at a time where a look had no end.
const BATCH_ENTRIES: usize = 64;
const BATCH_BYTES: u64 = 16 << 10;

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
    /// Out of the source already.
    ahead: Batch,
    /// A batch to be used again.
    spare: Batch,
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
    /// All entries of a source.
    pub(super) fn new(mut source: BoxCursor) -> Result<Self> {
        source.seek_first()?;
        Ok(Self { source, ahead: Batch::default(), spare: Batch::default() })
    }

    /// Key of the next entry.
    pub(super) fn next_key(&self) -> Option<Vec<u8>> {
        match self.ahead.places.first() {
            Some(place) => Some(self.ahead.bytes(place.start..place.key_end).to_vec()),
            None => self.source.valid().then(|| self.source.key().to_vec()),
        }
    }

    /// Looks ahead at the entries below `end`, up to these many of them or bytes.
    pub(super) fn look(
        &mut self,
        end: Option<&[u8]>,
        bytes_max: u64,
        max: usize,
    ) -> Result<Portion> {
        if self.ahead.places.is_empty() && self.spare.bytes.capacity() > 0 {
            self.ahead = std::mem::take(&mut self.spare);
        }
        let entries = self.ahead.places.len();
        let bytes = self.ahead.places.iter().map(|place| record_bytes(place.end - place.start));
        let mut portion = Portion { entries, bytes: bytes.sum(), goes_on: false };
        while self.source.valid() && end.is_none_or(|end| self.source.key() < end) {
            if portion.entries >= max || portion.bytes >= bytes_max {
                portion.goes_on = true;
                break;
            }
            portion.entries += 1;
            portion.bytes += self.ahead.push(&self.source);
            self.source.next()?;
        }
        Ok(portion)
    }

    /// The next entries below `end`, in the place of such as were handed out; none at the end.
    fn swap(&mut self, used: &mut Batch, end: Option<&[u8]>) -> Result<()> {
        used.clear();
        if self.ahead.places.is_empty() {
            self.look(end, BATCH_BYTES, BATCH_ENTRIES)?;
        }
        std::mem::swap(&mut self.ahead, used);
        Ok(())
    }
}

/// A walk over the entries of a feed below a bound, forwards and once.
pub(super) struct FeedCursor {
    feed: Arc<Mutex<Feed>>,
    end: Option<Vec<u8>>,
    batch: Batch,
    /// Number of the entry in the batch.
    at: Option<usize>,
}

impl FeedCursor {
    /// A walk over what comes next, below `end`.
    pub(super) fn new(feed: &Arc<Mutex<Feed>>, end: Option<Vec<u8>>) -> Self {
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
        self.batch.clear();
        self.feed.lock().spare = std::mem::take(&mut self.batch);
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
        self.batch.clear();
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
