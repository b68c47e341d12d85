//! A get: what a bucket has of one key at a snapshot, with at most one read of a page of the sorted
//! part and one of the unsorted part (or of a piece of it, from the first chunk that may have the
//! key to the last one).
//!
//! The reads are *planned*, so that whoever also reads the base record submits all of them at
//! once. Invariants: BR-1 nothing is handed out whose checksum did not hold. BR-2 what comes out is
//! newest first, not above the snapshot, and above the newest anchor that the snapshot sees.

use std::ops::Range;

use crate::base::entry::Seq;
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::base::sync::figures::Ordering;
use crate::base::value::{SharedBytes, Value};
use crate::deltas::bucket::format::{Chunk, Page};
use crate::deltas::bucket::{Bucket, Loaded};
use crate::deltas::record::{Bound, DeltaKind, Groups};
use crate::io::Purpose;

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
    /// The chunks that may have the key, oldest first.
    chunks: Vec<Arc<Chunk>>,
    /// The page that may have it.
    page: Option<Page>,
}

impl GetPlan {
    /// The places to read: of the unsorted part, then of the sorted part.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        self.unsorted().into_iter().chain(self.page.as_ref().map(Page::range)).collect()
    }

    fn unsorted(&self) -> Option<Range<u64>> {
        let (first, last) = (self.chunks.first()?, self.chunks.last()?);
        Some(u64::from(first.offset)..last.end())
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

    /// What a get has to read. The first one in a bucket reads index and filters, too.
    pub(crate) fn plan(&self, asked: &Asked<'_>, purpose: Purpose) -> Result<GetPlan> {
        let loaded = self.load(purpose)?;
        let counters = &self.context().counters;
        counters.gets.fetch_add(1, Ordering::Relaxed);
        let may_have = |chunk: &&Arc<Chunk>| {
            chunk.totals.first_seq <= asked.snapshot && chunk.filter.may_contain(asked.hash)
        };
        let chunks: Vec<_> = loaded.chunks.iter().filter(may_have).cloned().collect();
        let page = loaded.page_for(asked.bound, asked.hash).cloned();
        let page_reads = u64::from(page.is_some());
        counters.page_reads.fetch_add(page_reads, Ordering::Relaxed);
        counters.unsorted_reads.fetch_add(u64::from(!chunks.is_empty()), Ordering::Relaxed);
        Ok(GetPlan { loaded, chunks, page })
    }

    /// What the bucket has of the key, out of the bytes of the places that were planned.
    pub(crate) fn finish(
        &self,
        plan: &GetPlan,
        asked: &Asked<'_>,
        read: Vec<Vec<u8>>,
    ) -> Result<KeyDeltas> {
        let mut read = read.into_iter().map(|bytes| SharedBytes::from(Arc::new(bytes)));
        let anchor = plan.loaded.covers.cover_seq(asked.bound, asked.snapshot);
        let mut found = KeyDeltas { anchor, ..KeyDeltas::default() };
        let seed = self.file().seed();
        if let Some(place) = plan.unsorted() {
            let owner = read.next().unwrap_or(SharedBytes::Slice(Arc::from([])));
            for chunk in plan.chunks.iter().rev() {
                let start = u64::from(chunk.offset) - place.start;
                let range = start as usize..(chunk.end() - place.start) as usize;
                let bytes = owner.get(range).unwrap_or_default();
                let groups = chunk.groups(seed, bytes);
                let damaged = |error| self.file().damaged(u64::from(chunk.offset), error);
                groups.and_then(|groups| found.take(groups, asked, &owner)).map_err(damaged)?;
            }
        }
        if let Some(page) = &plan.page {
            let owner = read.next().unwrap_or(SharedBytes::Slice(Arc::from([])));
            let groups = page.check(seed, &owner).map(|()| Groups::new(&owner));
            let damaged = |error| self.file().damaged(u64::from(page.offset), error);
            groups.and_then(|groups| found.take(groups, asked, &owner)).map_err(damaged)?;
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
    /// The page in which a key is, if its filter does not say that it is in none.
    pub(crate) fn page_for(&self, bound: Bound<'_>, hash: u64) -> Option<&Page> {
        self.meta.filter.may_contain(hash).then(|| self.meta.page_of(bound))?
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
