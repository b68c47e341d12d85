//! A bucket: the deltas and anchors of a range of keys, in one file. `docs/format/bucket.md` has
//! the bytes.
//!
//! The *sorted part* is written when the file is made: pages of whole keys, and behind them the
//! *meta* with index, filter and range anchors. Every flush may append one *chunk* of records to
//! the *unsorted part*. How many bytes count is committed by manifest edits; what lies behind them
//! is never read and never overwritten (rule F9): a file that has bytes there takes no appends any
//! more, and the next flush that has records for the bucket rewrites it into a new file.
//!
//! Any thread. Immutable: an append makes a new [`Bucket`] over the same file, so that whoever
//! holds the one before goes on to read what it knew. Invariants: B-1 the seqs of each chunk are
//! above the applied seq before it, so that no delta is taken in twice, and the newest record of a
//! key is in the newest chunk that has any. B-2 nothing is read from disk until somebody asks for a
//! key or a scan comes by; then one read brings meta and unsorted part.

pub(crate) mod dump;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::figures::{AtomicBool, Ordering};
use crate::base::sync::{Arc, ArcSwap};
use crate::base::value::SharedBytes;
use crate::deltas::bucket::file::{BucketFile, DeltaContext};
use crate::deltas::bucket::format::{Chunk, Meta};
use crate::deltas::ranges::Covers;
use crate::deltas::record::OwnedBound;
use crate::io::Purpose;
use crate::io::disk::BatchRead;

/// What the manifest knows of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketInfo {
    /// Number of its file.
    pub(crate) id: FileId,
    /// Where its range of keys begins; it ends where that of the next bucket begins.
    pub(crate) start: OwnedBound,
    /// Where its pages end and the meta begins.
    pub(crate) pages_end: u32,
    /// Where the meta ends and the unsorted part begins.
    pub(crate) sorted_bytes: u32,
    /// Committed bytes: all that is read.
    pub(crate) bytes: u32,
    /// Checksum of the last chunk, or of the meta where there is none: by way of links that of all.
    pub(crate) checksum: u32,
    /// All deltas of its keys up to this seq have been applied to it.
    pub(crate) applied_seq: Seq,
    /// Records in it, dead ones too.
    pub(crate) records: u64,
}

/// Index, filters and range anchors of a bucket in memory.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Of the sorted part.
    pub(crate) meta: Arc<Meta>,
    /// Of the unsorted part, oldest first.
    pub(crate) chunks: Vec<Arc<Chunk>>,
    /// Range anchors of all parts.
    pub(crate) covers: Arc<Covers>,
}

/// The same; with the bytes from the meta on, if they were read for it.
pub(crate) type Brought = (Arc<Loaded>, Option<SharedBytes>);

/// One version of a bucket.
pub(crate) struct Bucket {
    info: BucketInfo,
    file: Arc<BucketFile>,
    loaded: ArcSwap<Option<Arc<Loaded>>>,
    /// Whether anybody has asked for these since [`Bucket::cool`] looked last.
    is_used: AtomicBool,
}

impl Loaded {
    fn new(meta: Arc<Meta>, chunks: Vec<Arc<Chunk>>) -> Self {
        let ranges = meta.ranges.iter().chain(chunks.iter().flat_map(|chunk| &chunk.ranges));
        let covers = Arc::new(Covers::new(ranges));
        Self { meta, chunks, covers }
    }

    /// With one chunk more.
    pub(crate) fn with(&self, chunk: Chunk) -> Self {
        let mut chunks = self.chunks.clone();
        if chunk.ranges.is_empty() {
            chunks.push(Arc::new(chunk));
            return Self { meta: Arc::clone(&self.meta), chunks, covers: Arc::clone(&self.covers) };
        }
        chunks.push(Arc::new(chunk));
        Self::new(Arc::clone(&self.meta), chunks)
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let chunks: u64 = self.chunks.iter().map(|chunk| chunk.memory_bytes()).sum();
        self.meta.memory_bytes() + chunks + self.covers.memory_bytes() as u64
    }

    /// Takes meta and unsorted part out of a bucket's bytes from the meta on, and proves them.
    fn decode(info: &BucketInfo, file: &BucketFile, bytes: &[u8]) -> Result<Self> {
        let damaged = |at: u64, error| file.damaged(at, error);
        let pages_end = u64::from(info.pages_end);
        let sorted_bytes = u64::from(info.sorted_bytes);
        let (meta, mut rest) = bytes
            .split_at_checked((sorted_bytes - pages_end) as usize)
            .ok_or_else(|| Error::corruption("a bucket's bytes are too few"))?;
        let meta = Meta::decode(meta, file.seed(), pages_end).map_err(|e| damaged(pages_end, e))?;
        let (mut offset, mut link) = (sorted_bytes, meta.checksum);
        let (mut applied_seq, mut records) = (meta.applied_seq, meta.records);
        records += meta.ranges.len() as u64;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let place = (file.seed(), offset, link);
            let chunk = Chunk::decode(rest, place, file.context().reading());
            let chunk = chunk.map_err(|e| damaged(offset, e))?;
            if chunk.totals.first_seq <= applied_seq {
                let error = Error::corruption("a chunk of a bucket repeats what was applied");
                return Err(damaged(offset, error));
            }
            applied_seq = chunk.totals.last_seq;
            records += chunk.totals.records;
            (offset, link) = (chunk.end(), chunk.checksum);
            rest = rest.get(chunk.bytes as usize..).unwrap_or_default();
            chunks.push(Arc::new(chunk));
        }
        if (link, applied_seq, records) != (info.checksum, info.applied_seq, info.records) {
            let error = Error::corruption("a bucket is not the one that the manifest names");
            return Err(damaged(offset, error));
        }
        Ok(Self::new(Arc::new(meta), chunks))
    }
}

impl Bucket {
    /// The bucket that the manifest knows; reads nothing.
    pub(crate) fn new(info: BucketInfo, file: Arc<BucketFile>) -> Self {
        debug_assert_eq!(info.id, file.id());
        Self { info, file, loaded: ArcSwap::from_pointee(None), is_used: AtomicBool::new(false) }
    }

    /// The same, with what is in memory of it; nobody has asked for that yet.
    fn with_loaded(info: BucketInfo, file: Arc<BucketFile>, loaded: Option<Loaded>) -> Self {
        let loaded = ArcSwap::from_pointee(loaded.map(Arc::new));
        Self { info, file, loaded, is_used: AtomicBool::new(false) }
    }

    /// The next version of a bucket, as used as the one before.
    fn after(&self, info: BucketInfo, loaded: Option<Loaded>) -> Self {
        let next = Self::with_loaded(info, Arc::clone(&self.file), loaded);
        next.is_used.store(self.is_used.load(Ordering::Relaxed), Ordering::Relaxed);
        next
    }

    /// What the manifest knows of it.
    pub(crate) fn info(&self) -> &BucketInfo {
        &self.info
    }

    /// Its file.
    pub(crate) fn file(&self) -> &Arc<BucketFile> {
        &self.file
    }

    /// What it works with.
    pub(crate) fn context(&self) -> &Arc<DeltaContext> {
        self.file.context()
    }

    /// Index, filters and range anchors, if they are in memory.
    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        let loaded = self.peek()?;
        // Stored where it changes only: all look-ups look at it.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(loaded)
    }

    /// The same for who does not use them.
    fn peek(&self) -> Option<Arc<Loaded>> {
        self.loaded.load().as_ref().clone()
    }

    /// Index, filters and range anchors: from memory, or with one read (B-2).
    pub(crate) fn load(&self, purpose: Purpose) -> Result<Arc<Loaded>> {
        Ok(self.load_with(purpose)?.0)
    }

    /// The same; with what was read for it.
    fn load_with(&self, purpose: Purpose) -> Result<Brought> {
        if let Some(loaded) = self.loaded() {
            return Ok((loaded, None));
        }
        let (from, to) = (u64::from(self.info.pages_end), u64::from(self.info.bytes));
        self.take_load(self.file.read(from, to - from, purpose)?)
    }

    /// The read that brings all that to memory, for who has it made together with others; `None`
    /// where it is there.
    pub(crate) fn load_read(&self) -> Result<Option<BatchRead>> {
        if self.loaded().is_some() {
            return Ok(None);
        }
        let (from, to) = (u64::from(self.info.pages_end), u64::from(self.info.bytes));
        let (file, buffer) = (self.file.disk_file()?, vec![0; (to - from) as usize]);
        Ok(Some(BatchRead { file, offset: from, buffer, result: Ok(()) }))
    }

    /// Takes in what that read brought.
    pub(crate) fn take_load(&self, bytes: Vec<u8>) -> Result<Brought> {
        self.context().counters.loads.fetch_add(1, Ordering::Relaxed);
        let loaded = Arc::new(Loaded::decode(&self.info, &self.file, &bytes)?);
        self.loaded.store(Arc::new(Some(Arc::clone(&loaded))));
        self.is_used.store(true, Ordering::Relaxed);
        Ok((loaded, Some(SharedBytes::from(Arc::new(bytes)))))
    }

    /// Whether about every second key has got something since the bucket was written, as far as
    /// that is in memory: what lives of it may be much less.
    pub(crate) fn has_much_new(&self) -> bool {
        let is_much = |loaded: Arc<Loaded>| {
            let new: u64 = loaded.chunks.iter().map(|chunk| chunk.totals.records).sum();
            new > 0 && 2 * new >= loaded.meta.keys
        };
        self.peek().is_some_and(is_much)
    }

    /// Gives up index and filters, unless somebody has asked for them since the last time; whoever
    /// needs them reads them again. Returns the memory that they had.
    pub(crate) fn cool(&self) -> u64 {
        let Some(loaded) = self.peek() else { return 0 };
        if self.is_used.swap(false, Ordering::Relaxed) {
            return 0;
        }
        self.loaded.store(Arc::new(None));
        loaded.memory_bytes()
    }

    /// Gives up index and filters whether anybody uses them or not.
    #[cfg(test)]
    pub(crate) fn unload(&self) {
        self.loaded.store(Arc::new(None));
    }

    /// Memory of index and filters.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.peek().map_or(0, |loaded| loaded.memory_bytes())
    }

    /// Memory of what stays of a bucket without them: what the manifest knows, and its file.
    pub(crate) fn bare_bytes(&self) -> u64 {
        let counts = 2 * size_of::<usize>();
        (counts + size_of::<Self>() + self.info.start.key.len() + self.file.memory_bytes()) as u64
    }
}
