//! What a flush brings, in key order, so much of it ahead as a decision needs.
//!
//! Owned by one flush, shared with the cursor that hands its entries to the stripe rule. Invariant:
//! FE-1 an entry is handed out once.

use std::collections::VecDeque;

use crate::base::cursor::{BoxCursor, Cursor};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::{Arc, Mutex};

/// An entry out of its source.
#[derive(Debug)]
struct Owned {
    key: Vec<u8>,
    seq: Seq,
    kind: Kind,
    value: Vec<u8>,
}

/// The entries that were not handed out yet.
pub(super) struct Feed {
    source: BoxCursor,
    /// Out of the source already.
    ahead: VecDeque<Owned>,
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
        Ok(Self { source, ahead: VecDeque::new() })
    }

    /// Key of the next entry.
    pub(super) fn next_key(&self) -> Option<Vec<u8>> {
        match self.ahead.front() {
            Some(entry) => Some(entry.key.clone()),
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
        let mut portion = Portion::default();
        for entry in &self.ahead {
            portion.entries += 1;
            portion.bytes += (entry.key.len() + entry.value.len() + 12) as u64;
        }
        while self.source.valid() && end.is_none_or(|end| self.source.key() < end) {
            if portion.entries >= max || portion.bytes >= bytes_max {
                portion.goes_on = true;
                break;
            }
            let entry = Owned {
                key: self.source.key().to_vec(),
                seq: self.source.seq(),
                kind: self.source.kind(),
                value: self.source.value().to_vec(),
            };
            portion.entries += 1;
            portion.bytes += (entry.key.len() + entry.value.len() + 12) as u64;
            self.ahead.push_back(entry);
            self.source.next()?;
        }
        Ok(portion)
    }

    /// The next entry, if it lies below `end`.
    fn take(&mut self, end: Option<&[u8]>) -> Result<Option<Owned>> {
        let is_below = |key: &[u8]| end.is_none_or(|end| key < end);
        if let Some(entry) = self.ahead.front() {
            return Ok(if is_below(&entry.key) { self.ahead.pop_front() } else { None });
        }
        self.look(end, u64::MAX, 1)?;
        Ok(self.ahead.pop_front())
    }
}

/// A walk over the entries of a feed below a bound, forwards and once.
pub(super) struct FeedCursor {
    feed: Arc<Mutex<Feed>>,
    end: Option<Vec<u8>>,
    current: Option<Owned>,
}

impl FeedCursor {
    /// A walk over what comes next, below `end`.
    pub(super) fn new(feed: &Arc<Mutex<Feed>>, end: Option<Vec<u8>>) -> Self {
        Self { feed: Arc::clone(feed), end, current: None }
    }
}

fn forwards_only() -> Error {
    Error::invalid("what a flush brings is walked forwards")
}

impl Cursor for FeedCursor {
    fn seek_first(&mut self) -> Result<()> {
        if self.current.is_some() {
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
        self.current = None;
        self.current = self.feed.lock().take(self.end.as_deref())?;
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        Err(forwards_only())
    }

    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |entry| &entry.key)
    }

    fn seq(&self) -> Seq {
        self.current.as_ref().map_or(SEQ_MAX, |entry| entry.seq)
    }

    fn kind(&self) -> Kind {
        self.current.as_ref().map_or(Kind::Delete, |entry| entry.kind)
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |entry| &entry.value)
    }
}
