//! A get: what a bucket has of one key at a snapshot, with at most one read of a page of the sorted
//! part, and of the unsorted part the pieces of chunks that may have the key, those that lie near
//! with one read: nearly always a single one.
//!
//! The reads are *planned*, so that whoever also reads the base record submits all of them at
//! once. Invariants: BR-1 nothing is handed out whose checksum did not hold. BR-2 what comes out is
//! newest first, not above the snapshot, and above the newest anchor that the snapshot sees.

use std::ops::Range;

use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::base::sync::figures::Ordering;
use crate::base::value::{SharedBytes, Value};
use crate::deltas::bucket::format::{Page, page_of};
use crate::deltas::bucket::{Brought, Bucket, Loaded};
use crate::deltas::record::{Bound, DeltaKind, Groups};
use crate::io::Purpose;

/// Pages between two pieces of a bucket up to which they are read at once: bytes that nobody wants
/// cost less than a read of their own.
const JOINED_PAGES: usize = 4;

/// What a bucket has of a key at a snapshot S.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyDeltas {
    /// Operands with seqs, newest first. Those apply that are above the seq of the base, which is
    /// the newest put or delete not above S.
    pub(crate) operands: Vec<(Seq, Value)>,
    /// Newest anchor not above S; 0 for none. A base below it has been deleted since.
    pub(crate) anchor: Seq,
    /// Seqs of operands that are in the index, newest first: between two of these others may be
    /// combined, not across one.
    pub(crate) elsewhere: Vec<Seq>,
}

impl KeyDeltas {
    /// Whether the bucket says nothing of the key.
    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty() && self.anchor == 0
    }
}

/// Which key, and as of when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Keyspace and key.
    pub(crate) bound: Bound<'a>,
    /// Hash of both ([`KeyedHash::hash`](crate::base::checksum::KeyedHash::hash)).
    pub(crate) hash: u64,
    /// The snapshot.
    pub(crate) snapshot: Seq,
}

/// What a get is about to read.
#[derive(Debug)]
pub(crate) struct GetPlan {
    loaded: Arc<Loaded>,
    /// What came to memory with index and filters: the bytes from the meta on.
    brought: Option<SharedBytes>,
    /// The pieces of chunks that may have the key, newest first.
    pieces: Vec<PlannedPiece>,
    /// Places of the unsorted part that have these pieces, newest first.
    reads: Vec<Range<u64>>,
    /// Number of the page that may have it.
    page: Option<usize>,
}

/// A piece that may have the key: numbers of its chunk, of itself, of the read that brings it.
#[derive(Clone, Copy, Debug)]
struct PlannedPiece {
    chunk: usize,
    piece: usize,
    read: usize,
}

impl GetPlan {
    fn new(loaded: Arc<Loaded>, brought: Option<SharedBytes>, page: Option<usize>) -> Self {
        Self { loaded, brought, pieces: Vec::new(), reads: Vec::new(), page }
    }

    /// The places to read: of the unsorted part, then of the sorted part.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.reads.iter().cloned().chain(self.page().map(Page::range))
    }

    /// Adds the piece of the next older chunk that may have the key; joins its read with that of
    /// the one before where less than `gap_bytes` lie between.
    fn add(&mut self, chunk: usize, piece: usize, gap_bytes: u64) {
        let place = (chunk, piece);
        let Some(range) = self.piece(place).map(Page::range) else { return };
        if self.brought.is_none() {
            match self.reads.last_mut() {
                Some(newer) if newer.start < range.end + gap_bytes => newer.start = range.start,
                _ => self.reads.push(range),
            }
        }
        let read = self.reads.len().saturating_sub(1);
        self.pieces.push(PlannedPiece { chunk, piece, read });
    }

    fn piece(&self, (chunk, piece): (usize, usize)) -> Option<&Page> {
        self.loaded.chunks.get(chunk)?.pieces.get(piece)
    }

    fn page(&self) -> Option<&Page> {
        self.loaded.meta.pages.get(self.page?)
    }
}

impl Bucket {
    /// Whether the bucket may have records of a key; `None` where that is not in memory.
    pub(crate) fn may_hold(&self, bound: Bound<'_>, hash: u64) -> Option<bool> {
        let loaded = self.loaded()?;
        Some(
            loaded.page_for(bound, hash).is_some()
                || loaded.chunks.iter().any(|chunk| chunk.filter.may_contain(hash)),
        )
    }

    /// What a get has to read. The first one in a bucket reads index and filters for that, and with
    /// them the unsorted part.
    pub(crate) fn plan(&self, asked: &Asked<'_>, purpose: Purpose) -> Result<GetPlan> {
        Ok(self.plan_with(self.load_with(purpose)?, asked))
    }

    /// The same, with index and filters at hand.
    pub(crate) fn plan_with(&self, (loaded, brought): Brought, asked: &Asked<'_>) -> GetPlan {
        let counters = &self.context().counters;
        counters.gets.fetch_add(1, Ordering::Relaxed);
        let page = loaded.page_for(asked.bound, asked.hash);
        if page.is_some() {
            counters.page_reads.fetch_add(1, Ordering::Relaxed);
        }
        let mut plan = GetPlan::new(Arc::clone(&loaded), brought, page);
        let gap_bytes = (JOINED_PAGES * self.context().page_bytes) as u64;
        for (number, chunk) in loaded.chunks.iter().enumerate().rev() {
            if chunk.totals.first_seq <= asked.snapshot
                && chunk.filter.may_contain(asked.hash)
                && let Some(piece) = chunk.piece_of(asked.bound)
            {
                plan.add(number, piece, gap_bytes);
            }
        }
        counters.unsorted_reads.fetch_add(plan.reads.len() as u64, Ordering::Relaxed);
        plan
    }

    /// What the bucket has of the key, out of the bytes of the places that were planned.
    pub(crate) fn finish(
        &self,
        plan: &GetPlan,
        asked: &Asked<'_>,
        read: Vec<Vec<u8>>,
    ) -> Result<KeyDeltas> {
        let owners = read.into_iter().map(|bytes| SharedBytes::from(Arc::new(bytes)));
        let owners: Vec<SharedBytes> = owners.collect();
        let anchor = plan.loaded.covers.cover_seq(asked.bound, asked.snapshot);
        let mut found = KeyDeltas { anchor, ..KeyDeltas::default() };
        let mut take = |part: &Page, start: u64, owner: Option<&SharedBytes>| {
            let damaged = |error| self.file().damaged(part.range().start, error);
            let Some(owner) = owner else {
                return Err(damaged(Error::corruption("a part of a bucket was not read")));
            };
            let (from, to) = (part.range().start - start, part.range().end - start);
            let bytes = owner.get(from as usize..to as usize).unwrap_or_default();
            let groups = part.check(self.file().seed(), bytes).map(|()| Groups::new(bytes));
            groups.and_then(|groups| found.take(groups, asked, owner)).map_err(damaged)
        };
        for planned in &plan.pieces {
            let Some(piece) = plan.piece((planned.chunk, planned.piece)) else { continue };
            match (&plan.brought, plan.reads.get(planned.read)) {
                (Some(bytes), _) => take(piece, u64::from(self.info().pages_end), Some(bytes))?,
                (None, Some(read)) => take(piece, read.start, owners.get(planned.read))?,
                (None, None) => take(piece, 0, None)?,
            }
        }
        if let Some(page) = plan.page() {
            take(page, page.range().start, owners.get(plan.reads.len()))?;
        }
        Ok(found)
    }

    /// What the bucket has of a key: a plan, its reads at once, and what they bring.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn get(&self, asked: &Asked<'_>, purpose: Purpose) -> Result<KeyDeltas> {
        let plan = self.plan(asked, purpose)?;
        let mut reads = Vec::new();
        for range in plan.ranges() {
            reads.push(crate::io::disk::BatchRead {
                file: self.file().disk_file()?,
                offset: range.start,
                buffer: vec![0; (range.end - range.start) as usize],
                result: Ok(()),
            });
        }
        let io = &self.context().io;
        match reads.as_mut_slice() {
            [] => {}
            [one] => one.result = one.file.read_exact_at(&mut one.buffer, one.offset),
            both => io.disk.read_batch(both),
        }
        let mut read = Vec::new();
        for one in reads {
            io.meter.read(purpose, one.buffer.len() as u64);
            one.result.map_err(|e| self.file().unread(e, one.offset))?;
            read.push(one.buffer);
        }
        self.finish(&plan, asked, read)
    }
}

impl Loaded {
    /// The number of the page in which a key is, if its filter does not say that it is in none.
    pub(crate) fn page_for(&self, bound: Bound<'_>, hash: u64) -> Option<usize> {
        self.meta.filter.may_contain(hash).then(|| page_of(&self.meta.pages, bound))?
    }
}

impl KeyDeltas {
    /// Takes in what an older part, which lies in `owner`, has of the key.
    fn take(&mut self, groups: Groups<'_>, asked: &Asked<'_>, owner: &SharedBytes) -> Result<()> {
        let Some(group) = groups.find(asked.bound)? else { return Ok(()) };
        let mut records = group.records();
        while let Some(record) = records.next_record()? {
            if record.seq > asked.snapshot {
                continue;
            }
            if record.seq <= self.anchor {
                break;
            }
            match record.kind {
                DeltaKind::Anchor => self.anchor = record.seq,
                DeltaKind::Elsewhere => self.elsewhere.push(record.seq),
                DeltaKind::Delta => {
                    let operand = part_of(owner, record.operand);
                    self.operands.push((record.seq, operand));
                }
            }
        }
        Ok(())
    }
}

/// A value over a slice of the buffer that it was decoded from.
pub(crate) fn part_of(owner: &SharedBytes, part: &[u8]) -> Value {
    let start = part.as_ptr().addr().wrapping_sub(owner.as_ptr().addr());
    let range = start..start.wrapping_add(part.len());
    debug_assert_eq!(owner.get(range.clone()), Some(part));
    Value::shared(owner.clone(), range)
}
