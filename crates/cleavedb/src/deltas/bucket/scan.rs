//! All of a bucket at once, for scans and collections: one read, every part proved.
//!
//! Owned by whoever asked; keeps the bytes alive. Invariant: BS-1 records come in the order of
//! (keyspace, key, seq downwards), whichever part they stand in.

use std::ops::Range;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::base::value::SharedBytes;
use crate::deltas::bucket::format::Header;
use crate::deltas::bucket::format::{HEADER_BYTES, separator};
use crate::deltas::bucket::{Bucket, Loaded};
use crate::deltas::record::{Bound, DeltaKind, GroupTotals, Groups, Record};
use crate::io::Purpose;
use crate::io::disk::{BatchRead, ReadsUnderWay};

/// Where in the bytes a record is.
#[derive(Clone, Debug)]
struct Place {
    keyspace: KeyspaceId,
    key: Range<u32>,
    seq: Seq,
    kind: DeltaKind,
    operand: Range<u32>,
}

/// The bytes of a bucket and its records in order.
pub(crate) struct WholeBucket {
    bytes: SharedBytes,
    /// Index, filters and range anchors.
    pub(crate) loaded: Arc<Loaded>,
    places: Vec<Place>,
}

/// A bucket that is being read whole.
pub(crate) struct WholeUnderWay {
    bucket: Arc<Bucket>,
    /// What could not even be begun fails whoever waits for it.
    reads: Result<Box<dyn ReadsUnderWay>>,
    purpose: Purpose,
}

impl WholeUnderWay {
    /// Begins to read all committed bytes, and waits for nothing.
    pub(crate) fn begin(bucket: &Arc<Bucket>, purpose: Purpose) -> Self {
        let reads = bucket.file().disk_file().map(|file| {
            let buffer = vec![0; bucket.info().bytes as usize];
            let read = BatchRead { file, offset: 0, buffer, result: Ok(()) };
            bucket.file().context().io.disk.start_batch(vec![read])
        });
        Self { bucket: Arc::clone(bucket), reads, purpose }
    }

    /// Waits for them, and proves them.
    pub(crate) fn finish(self) -> Result<WholeBucket> {
        let file = self.bucket.file();
        let mut bytes = Vec::new();
        for read in self.reads?.finish() {
            file.context().io.meter.read(self.purpose, read.buffer.len() as u64);
            read.result.map_err(|e| file.unread(e, read.offset))?;
            bytes = read.buffer;
        }
        WholeBucket::prove(&self.bucket, bytes)
    }

    /// Memory that the read takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.bucket.info().bytes)
    }
}

impl Bucket {
    /// Reads and proves all committed bytes.
    pub(crate) fn read_whole(&self, purpose: Purpose) -> Result<WholeBucket> {
        let bytes = self.file().read(0, u64::from(self.info().bytes), purpose)?;
        WholeBucket::prove(self, bytes)
    }

    /// Reads and proves all committed bytes, and that index and filter are those of the pages.
    pub(crate) fn verify(&self, purpose: Purpose) -> Result<()> {
        let whole = self.read_whole(purpose)?;
        whole.prove_index(self).map_err(|e| e.in_file(self.file().path()))
    }
}

impl WholeBucket {
    fn prove(bucket: &Bucket, bytes: Vec<u8>) -> Result<Self> {
        let (info, file) = (bucket.info(), bucket.file());
        let header = bytes.get(..HEADER_BYTES).unwrap_or_default();
        let header = Header::decode(header, &file.context().uuid, file.id())
            .map_err(|e| file.damaged(0, e))?;
        let tail = bytes.get(info.pages_end as usize..).unwrap_or_default();
        let stated = Header { pages_end: info.pages_end, sorted_bytes: info.sorted_bytes };
        if header != stated {
            let error = Error::corruption("a bucket's header is not what the manifest knows");
            return Err(file.damaged(0, error));
        }
        let loaded = Arc::new(Loaded::decode(info, file, tail)?);
        let bytes = SharedBytes::from(Arc::new(bytes));
        let mut whole = Self { bytes, loaded: Arc::clone(&loaded), places: Vec::new() };
        let mut places = Vec::new();
        for page in &loaded.meta.pages {
            let offset = u64::from(page.offset);
            let part = whole.part(page.offset, page.bytes);
            let placed = page
                .check(file.seed(), part)
                .and_then(|()| whole.place(Groups::new(part), &mut places));
            placed.map_err(|e| file.damaged(offset, e))?;
        }
        for chunk in &loaded.chunks {
            let part = whole.part(chunk.offset, chunk.bytes);
            let groups = Groups::new(part.get(chunk.groups_at as usize..).unwrap_or_default());
            let placed = whole.place(groups, &mut places);
            placed.map_err(|e| file.damaged(u64::from(chunk.offset), e))?;
        }
        places.sort_by(|a, b| {
            let (left, right) = (whole.bound(a), whole.bound(b));
            left.cmp(&right).then_with(|| b.seq.cmp(&a.seq))
        });
        whole.places = places;
        Ok(whole)
    }

    fn part(&self, offset: u32, bytes: u32) -> &[u8] {
        self.bytes.get(offset as usize..(offset + bytes) as usize).unwrap_or_default()
    }

    fn place(&self, mut groups: Groups<'_>, places: &mut Vec<Place>) -> Result<()> {
        let base = self.bytes.as_ptr().addr();
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr().wrapping_sub(base) as u32;
            if part.is_empty() { 0..0 } else { start..start + part.len() as u32 }
        };
        while let Some(group) = groups.next_group()? {
            let (keyspace, key) = (group.bound.keyspace, range(group.bound.key));
            let mut records = group.records();
            while let Some(Record { seq, kind, operand }) = records.next_record()? {
                let (key, operand) = (key.clone(), range(operand));
                places.push(Place { keyspace, key, seq, kind, operand });
            }
        }
        Ok(())
    }

    fn bound(&self, place: &Place) -> Bound<'_> {
        Bound { keyspace: place.keyspace, key: self.slice(&place.key) }
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        self.bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    /// Number of records, range anchors excepted.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Memory held, index and filters included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let places = self.places.capacity() * size_of::<Place>();
        (self.bytes.len() + places) as u64 + self.loaded.memory_bytes()
    }

    /// The record of this number.
    pub(crate) fn record(&self, number: usize) -> Option<(Bound<'_>, Record<'_>)> {
        let place = self.places.get(number)?;
        let operand = self.slice(&place.operand);
        Some((self.bound(place), Record { seq: place.seq, kind: place.kind, operand }))
    }

    /// The bytes that records lie in.
    pub(crate) fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// Records before the place where one of (key, seq) is or would be.
    pub(crate) fn position(&self, bound: Bound<'_>, seq: Seq) -> usize {
        self.places.partition_point(|place| {
            self.bound(place).cmp(&bound).then_with(|| seq.cmp(&place.seq)).is_lt()
        })
    }

    /// Proves what a get trusts: index, filter and counts of the sorted part.
    fn prove_index(&self, bucket: &Bucket) -> Result<()> {
        let (meta, hash) = (&self.loaded.meta, bucket.context().hash);
        let wrong =
            |offset: u32, what: &str| Err(Error::corruption(what).at_offset(u64::from(offset)));
        let mut last: Option<Bound<'_>> = None;
        let (mut keys, mut records) = (0, 0);
        for page in &meta.pages {
            let part = self.part(page.offset, page.bytes);
            let first = Groups::new(part).next_group()?.map(|group| group.bound);
            let bound = first.map(|first| (first, separator(last, first)));
            if bound.is_none_or(|(first, bound)| last >= Some(first) || bound != page.bound) {
                return wrong(page.offset, "a bucket's index is not that of its pages");
            }
            let mut missing = false;
            let totals = GroupTotals::of(part, |bound| {
                missing |= !meta.filter.may_contain(hash.hash(bound.keyspace, bound.key));
                Ok(())
            })?;
            let mut groups = Groups::new(part);
            while let Some(group) = groups.next_group()? {
                last = Some(group.bound);
            }
            if missing || totals.last_seq > meta.applied_seq {
                return wrong(page.offset, "a bucket's filter or applied seq is wrong");
            }
            (keys, records) = (keys + totals.groups, records + totals.records);
        }
        if (keys, records) != (meta.keys, meta.records) {
            return wrong(bucket.info().pages_end, "a bucket's counts are wrong");
        }
        Ok(())
    }
}
