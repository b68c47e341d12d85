//! Makes a bucket out of records in order, and appends to one what a flush has for it.
//!
//! Owned by one task per bucket, so that any number of buckets are written at a time. Neither waits
//! for the device before [`Unsynced::sync`]. Invariants: BW-1 an append begins where the committed
//! bytes end, of a file that ends there and has one name; any other file takes none (rule F9).
//! BW-2 no bucket is made or grows beyond its capacity. BW-3 a key's records stand in one page.

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::deltas::bucket::file::{BucketFile, DeltaContext};
use crate::deltas::bucket::format::{
    BUCKET_BYTES_MAX, Chunk, HEADER_BYTES, Header, Meta, Page, filter_of, separator,
};
use crate::deltas::bucket::{Bucket, BucketInfo, Loaded};
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, OwnedBound, Record, check_record, encode_group};
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Purpose};

/// Bytes of a filter for each key, small ones rounded up.
const FILTER_BYTES_A_KEY: usize = 4;
/// Bytes of a meta beside index, filter and range anchors, a small filter's head included.
const META_BYTES: usize = 160;

fn range_bytes(anchor: &RangeAnchor) -> usize {
    anchor.range.start.len() + anchor.range.end.len() + 24
}

/// Groups in order, encoded, as a chunk has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupBytes {
    bytes: Vec<u8>,
    last: Option<OwnedBound>,
}

impl GroupBytes {
    /// Adds the next key's records, newest first.
    pub(crate) fn add(&mut self, bound: Bound<'_>, records: &[Record<'_>]) -> Result<()> {
        check_group(self.last.as_ref(), bound, records)?;
        encode_group(&mut self.bytes, bound, records.iter().copied());
        self.last = Some(bound.to_owned());
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Refuses groups out of order and records that no bucket takes.
fn check_group(last: Option<&OwnedBound>, bound: Bound<'_>, records: &[Record<'_>]) -> Result<()> {
    let ascends = last.is_none_or(|last| last.as_ref() < bound);
    let descend = records.is_sorted_by(|newer, older| newer.seq > older.seq);
    if !ascends || !descend || records.is_empty() {
        return Err(Error::invalid("records of a bucket out of order"));
    }
    records.iter().try_for_each(|record| check_record(bound, record))
}

/// What makes a bucket beside its records.
#[derive(Clone, Debug)]
pub(crate) struct BucketPlan {
    /// Number of its file, never used before.
    pub(crate) id: FileId,
    /// Where its range of keys begins.
    pub(crate) start: OwnedBound,
    /// All deltas of its keys up to this seq are in it, or were dropped.
    pub(crate) applied_seq: Seq,
    /// Range anchors, in order.
    pub(crate) ranges: Vec<RangeAnchor>,
    /// Most bytes.
    pub(crate) capacity_bytes: u64,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
}

/// The sorted part of a bucket in the making; in memory until it is whole.
pub(crate) struct SortedWriter {
    context: Arc<DeltaContext>,
    file: Arc<BucketFile>,
    plan: BucketPlan,
    bytes: Vec<u8>,
    /// Where the open page begins.
    page_at: usize,
    pages: Vec<Page>,
    /// Bound of the open page.
    bound: Option<OwnedBound>,
    last: Option<OwnedBound>,
    hashes: Vec<u64>,
    records: u64,
}

impl SortedWriter {
    /// A bucket without records; creates no file yet.
    pub(crate) fn new(context: &Arc<DeltaContext>, plan: BucketPlan) -> Self {
        Self {
            context: Arc::clone(context),
            file: BucketFile::new(context, plan.id),
            plan,
            bytes: vec![0; HEADER_BYTES],
            page_at: HEADER_BYTES,
            pages: Vec::new(),
            bound: None,
            last: None,
            hashes: Vec::new(),
            records: 0,
        }
    }

    /// Adds the next key's records, newest first, none above the applied seq.
    pub(crate) fn add(&mut self, bound: Bound<'_>, records: &[Record<'_>]) -> Result<()> {
        check_group(self.last.as_ref(), bound, records)?;
        if records.first().is_some_and(|newest| newest.seq > self.plan.applied_seq) {
            return Err(Error::invalid("a record of a bucket is above its applied seq"));
        }
        let before = self.bytes.len();
        encode_group(&mut self.bytes, bound, records.iter().copied());
        let is_full = self.bytes.len() - self.page_at > self.context.page_bytes;
        if is_full && before > self.page_at {
            self.end_page(before);
        }
        if self.bound.is_none() {
            self.bound = Some(separator(self.last.as_ref().map(OwnedBound::as_ref), bound));
        }
        self.last = Some(bound.to_owned());
        self.hashes.push(self.context.hash.hash(bound.keyspace, bound.key));
        self.records += records.len() as u64;
        Ok(())
    }

    /// Most bytes that the bucket takes if it is written now: what it is bounded by is not more.
    pub(crate) fn bytes_at_most(&self) -> u64 {
        let bounds: usize = self.pages.iter().map(|page| page.bound.key.len() + 16).sum();
        let open = self.bound.as_ref().map_or(0, |bound| bound.key.len() + 16);
        let ranges: usize = self.plan.ranges.iter().map(range_bytes).sum();
        let filter = self.hashes.len() * FILTER_BYTES_A_KEY;
        (self.bytes.len() + bounds + open + ranges + filter + META_BYTES) as u64
    }

    fn end_page(&mut self, end: usize) {
        let Some(bound) = self.bound.take() else { return };
        let bytes = self.bytes.get(self.page_at..end).unwrap_or_default();
        let offset = self.page_at as u64;
        self.pages.push(Page {
            offset: offset as u32,
            bytes: bytes.len() as u32,
            checksum: crate::base::checksum::crc_at(self.file.seed(), offset, bytes),
            bound,
        });
        self.page_at = end;
    }

    /// Creates the file and writes all of it; not durable yet.
    ///
    /// # Errors
    /// `InvalidArgument` where it is more than the capacity; those of the write.
    pub(crate) fn write(mut self) -> Result<Unsynced> {
        self.end_page(self.bytes.len());
        let pages_end = self.bytes.len() as u64;
        let mut meta = Meta {
            applied_seq: self.plan.applied_seq,
            keys: self.hashes.len() as u64,
            records: self.records,
            pages: std::mem::take(&mut self.pages),
            filter: filter_of(std::mem::take(&mut self.hashes)),
            ranges: std::mem::take(&mut self.plan.ranges),
            checksum: 0,
        };
        let encoded = meta.encode(self.file.seed(), pages_end);
        let total = pages_end + encoded.len() as u64;
        if total > self.plan.capacity_bytes.min(BUCKET_BYTES_MAX) {
            return Err(Error::invalid("a bucket beyond its capacity"));
        }
        let checksum = encoded.first_chunk().map_or(0, |crc| u32::from_le_bytes(*crc));
        meta.checksum = checksum;
        self.bytes.extend_from_slice(&encoded);
        let header = Header { pages_end: pages_end as u32, sorted_bytes: total as u32 };
        let header = header.encode(&self.context.uuid, self.plan.id);
        self.bytes.iter_mut().zip(header).for_each(|(to, from)| *to = from);
        let info = BucketInfo {
            id: self.plan.id,
            start: self.plan.start,
            pages_end: pages_end as u32,
            sorted_bytes: total as u32,
            bytes: total as u32,
            checksum,
            applied_seq: self.plan.applied_seq,
            records: self.records + meta.ranges.len() as u64,
        };
        let loaded = Loaded::new(Arc::new(meta), Vec::new());
        let disk_file = self.context.io.disk.create(self.file.path(), OpenMode::default());
        let disk_file =
            disk_file.map_err(|e| Error::io("creating a bucket", self.file.path(), e))?;
        let bucket = Arc::new(Bucket::with_loaded(info, self.file, Some(loaded)));
        write_at(&bucket, &*disk_file, 0, &self.bytes, self.plan.purpose)?;
        Ok(Unsynced { bucket, disk_file })
    }
}

/// What a flush has for one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Append<'a> {
    /// Records, in order.
    pub(crate) groups: &'a GroupBytes,
    /// Range anchors, in order.
    pub(crate) ranges: &'a [RangeAnchor],
    /// Most bytes that the bucket may have.
    pub(crate) capacity_bytes: u64,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
}

/// Why a bucket takes no append: its records have to be rewritten into a new file, together with
/// those that it was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The bucket would be larger than its capacity.
    Full,
    /// Bytes behind the committed ones, of a flush that failed or was cut off by a crash, or
    /// written by who shares the file; or another name for it: a checkpoint has it.
    Closed,
}

impl Bucket {
    /// Appends what a flush has for the bucket; not durable yet. The next version of the bucket, or
    /// why there is none.
    pub(crate) fn append(
        &self,
        append: &Append<'_>,
    ) -> Result<std::result::Result<Unsynced, Refused>> {
        let info = self.info();
        let (offset, seed) = (u64::from(info.bytes), self.file().seed());
        let place = (seed, offset, info.checksum);
        let reading = self.context().reading();
        let (bytes, chunk) = Chunk::encode(place, append.groups.bytes(), append.ranges, reading)?;
        if chunk.totals.first_seq <= info.applied_seq {
            return Err(Error::invalid("a flush repeats what a bucket has applied"));
        }
        let end = offset + bytes.len() as u64;
        if end > append.capacity_bytes.min(BUCKET_BYTES_MAX) {
            return Ok(Err(Refused::Full));
        }
        let path = self.file().path();
        let disk_file = self.context().io.disk.open_write(path);
        let disk_file = disk_file.map_err(|e| Error::io("opening a bucket", path, e))?;
        if !ends_at(&*disk_file, offset).map_err(|e| Error::io("asking about a bucket", path, e))? {
            return Ok(Err(Refused::Closed));
        }
        let info = BucketInfo {
            bytes: end as u32,
            checksum: chunk.checksum,
            applied_seq: chunk.totals.last_seq,
            records: info.records + chunk.totals.records,
            ..info.clone()
        };
        let loaded = self.peek().map(|loaded| loaded.with(chunk));
        let next = Arc::new(self.after(info, loaded));
        write_at(&next, &*disk_file, offset, &bytes, append.purpose)?;
        Ok(Ok(Unsynced { bucket: next, disk_file }))
    }
}

/// Whether a file ends here, and nothing else shares it (BW-1).
fn ends_at(disk_file: &dyn DiskFile, offset: u64) -> std::io::Result<bool> {
    Ok(disk_file.len()? == offset && disk_file.footprint()?.links == 1)
}

fn write_at(
    bucket: &Bucket,
    disk_file: &dyn DiskFile,
    offset: u64,
    bytes: &[u8],
    purpose: Purpose,
) -> Result<()> {
    let io = &bucket.context().io;
    io.limiter.acquire(bytes.len() as u64);
    let written = disk_file.write_all_at(bytes, offset);
    let path = bucket.file().path();
    written.map_err(|e| Error::io("writing a bucket", path, e).at_offset(offset))?;
    io.meter.wrote(purpose, bytes.len() as u64);
    disk_file.start_write_back(offset, bytes.len() as u64);
    Ok(())
}

/// A bucket, or its next version, whose bytes are written but not durable.
pub(crate) struct Unsynced {
    bucket: Arc<Bucket>,
    disk_file: Arc<dyn DiskFile>,
}

impl Unsynced {
    /// Makes the bytes durable. Names of new files need a sync of the directory, one for all.
    pub(crate) fn sync(self) -> Result<Arc<Bucket>> {
        let is_synced = !planted!("bucket_not_synced");
        let synced = if is_synced { self.disk_file.sync_data() } else { Ok(()) };
        synced.map_err(|e| Error::io("syncing a bucket", self.bucket.file().path(), e))?;
        Ok(self.bucket)
    }
}

/// Makes the names of new buckets durable.
pub(crate) fn sync_names(context: &DeltaContext) -> Result<()> {
    let synced = context.io.disk.sync_dir(&context.dir);
    synced.map_err(|e| Error::io("syncing the directory of buckets", &context.dir, e))
}
