//! What the tests of deltas share: a disk, records, buckets made of them.

use std::path::{Path, PathBuf};

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::names::{FileKind, file_name};
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::Arc;
use crate::base::tombstone::RangeTombstone;
use crate::deltas::bucket::file::{BucketFile, DeltaContext, DeltaCounters, PAGE_BYTES};
use crate::deltas::bucket::reader::{Asked, KeyDeltas};
use crate::deltas::bucket::writer::{Append, BucketPlan, GroupBytes, Refused, SortedWriter};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::ranges::RangeAnchor;
use crate::deltas::record::{Bound, DeltaKind, OwnedBound, Record};
use crate::io::memory_disk::MemoryDisk;
use crate::io::{Io, Purpose};
use crate::log::testing::{DIR, UUID, disk, io};
use crate::values::file::OpenFiles;

/// Keyspace of most tests.
pub(crate) const KEYSPACE: KeyspaceId = KeyspaceId(3);

/// Bytes of a page in tests.
pub(crate) const TEST_PAGE_BYTES: usize = 64;

const _: () = assert!(TEST_PAGE_BYTES < PAGE_BYTES);

/// A key's records: newest first, an anchor without operand.
pub(crate) type Line = (&'static [u8], Vec<(Seq, Option<Vec<u8>>)>);

pub(crate) fn bound(key: &[u8]) -> Bound<'_> {
    Bound { keyspace: KEYSPACE, key }
}

pub(crate) fn start(key: &[u8]) -> OwnedBound {
    bound(key).to_owned()
}

/// The bound below all keys.
pub(crate) fn lowest() -> OwnedBound {
    OwnedBound::lowest()
}

pub(crate) fn delta(seq: Seq, operand: &[u8]) -> (Seq, Option<Vec<u8>>) {
    (seq, Some(operand.to_vec()))
}

pub(crate) fn anchor(seq: Seq) -> (Seq, Option<Vec<u8>>) {
    (seq, None)
}

pub(crate) fn record(line: &(Seq, Option<Vec<u8>>)) -> Record<'_> {
    let (seq, operand) = line;
    match operand {
        Some(operand) => Record { seq: *seq, kind: DeltaKind::Delta, operand },
        None => Record { seq: *seq, kind: DeltaKind::Anchor, operand: &[] },
    }
}

pub(crate) fn range(start: &[u8], end: &[u8], seq: Seq) -> RangeAnchor {
    let range = RangeTombstone { start: start.into(), end: end.into(), seq };
    RangeAnchor { keyspace: KEYSPACE, range }
}

pub(crate) fn groups(lines: &[Line]) -> GroupBytes {
    let mut groups = GroupBytes::default();
    for (key, records) in lines {
        let records: Vec<_> = records.iter().map(record).collect();
        groups.add(bound(key), &records).unwrap();
    }
    groups
}

/// A disk and ways to make buckets on it.
pub(crate) struct Bench {
    pub(crate) disk: MemoryDisk,
    pub(crate) context: Arc<DeltaContext>,
}

pub(crate) fn context_over(io: Io, dir: &Path) -> Arc<DeltaContext> {
    Arc::new(DeltaContext {
        io,
        dir: dir.to_owned(),
        uuid: UUID,
        hash: KeyedHash::new(&UUID),
        obsolete: Arc::new(ObsoleteFiles::default()),
        open_files: Arc::new(OpenFiles::new(4)),
        direct_reads: false,
        page_bytes: TEST_PAGE_BYTES,
        counters: DeltaCounters::default(),
    })
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::over(disk())
    }

    pub(crate) fn over(disk: MemoryDisk) -> Self {
        let context = context_over(io(&disk), Path::new(DIR));
        Self { disk, context }
    }

    pub(crate) fn path(id: u64) -> PathBuf {
        Path::new(DIR).join(file_name(FileKind::Bucket, FileId(id)))
    }

    pub(crate) fn plan(id: u64, start: OwnedBound, applied_seq: Seq) -> BucketPlan {
        BucketPlan {
            id: FileId(id),
            start,
            applied_seq,
            ranges: Vec::new(),
            capacity_bytes: 256 << 10,
            purpose: Purpose::Flush,
        }
    }

    /// Writes a bucket, which an edit is to name.
    pub(crate) fn write(&self, plan: BucketPlan, lines: &[Line]) -> Result<Arc<Bucket>> {
        let mut writer = SortedWriter::new(&self.context, plan);
        for (key, records) in lines {
            let records: Vec<_> = records.iter().map(record).collect();
            writer.add(bound(key), &records)?;
        }
        let at_most = writer.bytes_at_most();
        let bucket = writer.write()?.sync()?;
        assert!(u64::from(bucket.info().bytes) <= at_most, "more than it is bounded by");
        bucket.file().keep();
        Ok(bucket)
    }

    /// Appends to a bucket.
    pub(crate) fn append(
        &self,
        bucket: &Bucket,
        lines: &[Line],
        ranges: &[RangeAnchor],
    ) -> Result<Arc<Bucket>, Refused> {
        let groups = groups(lines);
        let (capacity_bytes, purpose) = (256 << 10, Purpose::Flush);
        let append = Append { groups: &groups, ranges, capacity_bytes, purpose };
        bucket.append(&append).unwrap().map(|unsynced| unsynced.sync().unwrap())
    }

    /// The bucket as an open finds it: nothing of it in memory.
    pub(crate) fn reopened(&self, info: &BucketInfo) -> Bucket {
        let file = BucketFile::new(&self.context, info.id);
        file.keep();
        Bucket::new(info.clone(), file)
    }

    pub(crate) fn get(&self, bucket: &Bucket, key: &[u8], snapshot: Seq) -> Result<KeyDeltas> {
        bucket.get(&self.asked(key, snapshot), Purpose::Read)
    }

    pub(crate) fn asked<'a>(&self, key: &'a [u8], snapshot: Seq) -> Asked<'a> {
        Asked { bound: bound(key), hash: self.context.hash.hash(KEYSPACE, key), snapshot }
    }
}

/// What a get found, with operands as bytes.
pub(crate) fn seen(found: &KeyDeltas) -> (Vec<(Seq, Vec<u8>)>, Seq) {
    let operands = found.operands.iter().map(|(seq, operand)| (*seq, operand.to_vec()));
    (operands.collect(), found.anchor)
}
