//! Look-ups in buckets: one key, or many with one submission of all their reads. Both begin before
//! the index is asked and end after, so that base and operands are read at the same time.

use std::ops::Range;

use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::SharedOperator;
use crate::base::sync::Arc;
use crate::deltas::bucket::Bucket;
use crate::deltas::bucket::reader::{Asked, GetPlan, KeyDeltas};
use crate::deltas::directory::Directory;
use crate::deltas::record::Bound;
use crate::engine::deltas::DeltaStore;
use crate::io::Purpose;
use crate::io::disk::{BatchRead, ReadsUnderWay};

/// A key of many whose bucket has to be read: its number among those asked for, and its reads.
struct Planned {
    number: usize,
    bucket: Arc<Bucket>,
    plan: GetPlan,
    reads: usize,
}

/// What is known of a key, or on its way to memory.
pub(super) enum KeyUnderWay {
    /// No read was needed.
    Known(KeyDeltas),
    /// The places of a plan are being read.
    Read { bucket: Arc<Bucket>, plan: GetPlan, reads: Box<dyn ReadsUnderWay> },
}

/// The same for many keys.
pub(super) struct KeysUnderWay<'k> {
    asked: Vec<Asked<'k>>,
    found: Vec<KeyDeltas>,
    planned: Vec<Planned>,
    reads: Option<Box<dyn ReadsUnderWay>>,
}

/// The reads of a plan.
fn reads_of(bucket: &Bucket, plan: &GetPlan) -> Result<Vec<BatchRead>> {
    let read = |range: Range<u64>| {
        let buffer = vec![0; (range.end - range.start) as usize];
        let file = bucket.file().disk_file()?;
        Ok(BatchRead { file, offset: range.start, buffer, result: Ok(()) })
    };
    plan.ranges().map(read).collect()
}

impl DeltaStore {
    /// A key as buckets are asked for it.
    pub(super) fn asked<'k>(
        &self,
        keyspace: KeyspaceId,
        key: &'k [u8],
        snapshot: Seq,
    ) -> Asked<'k> {
        let hash = self.context.hash.hash(keyspace, key);
        Asked { bound: Bound { keyspace, key }, hash, snapshot }
    }

    /// Begins to read what the buckets of a directory have of a key.
    pub(super) fn begin(&self, directory: &Directory, asked: &Asked<'_>) -> Result<KeyUnderWay> {
        let Some(bucket) = directory.find(asked.bound) else {
            return Ok(KeyUnderWay::Known(KeyDeltas::default()));
        };
        if let Some(known) = self.cache.lookup(bucket, asked) {
            return Ok(KeyUnderWay::Known(known));
        }
        let plan = bucket.plan(asked, Purpose::Read)?;
        let reads = reads_of(bucket, &plan)?;
        if reads.is_empty() {
            // Filters say that there is nothing, but for range anchors.
            let found = bucket.finish(&plan, asked, Vec::new())?;
            return Ok(KeyUnderWay::Known(self.cache.insert(bucket, asked, found, None)));
        }
        let reads = self.context.io.disk.start_batch(reads);
        Ok(KeyUnderWay::Read { bucket: Arc::clone(bucket), plan, reads })
    }

    /// Waits for it.
    pub(super) fn finish(
        &self,
        under_way: KeyUnderWay,
        asked: &Asked<'_>,
        operator: Option<&SharedOperator>,
    ) -> Result<KeyDeltas> {
        match under_way {
            KeyUnderWay::Known(known) => Ok(known),
            KeyUnderWay::Read { bucket, plan, reads } => {
                let read = self.taken(&bucket, reads.finish().into_iter())?;
                let found = bucket.finish(&plan, asked, read)?;
                Ok(self.cache.insert(&bucket, asked, found, operator))
            }
        }
    }

    /// The bytes of reads of a bucket that have ended.
    fn taken(
        &self,
        bucket: &Bucket,
        reads: impl Iterator<Item = BatchRead>,
    ) -> Result<Vec<Vec<u8>>> {
        let take = |read: BatchRead| {
            self.context.io.meter.read(Purpose::Read, read.buffer.len() as u64);
            read.result.map_err(|e| bucket.file().unread(e, read.offset))?;
            Ok(read.buffer)
        };
        reads.map(take).collect()
    }

    /// Begins to read what the buckets have of many keys, each at its snapshot.
    pub(super) fn begin_many<'k>(
        &self,
        directory: &Directory,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = (&'k [u8], Seq)>,
    ) -> Result<KeysUnderWay<'k>> {
        let asked: Vec<Asked<'_>> =
            keys.map(|(key, snapshot)| self.asked(keyspace, key, snapshot)).collect();
        let mut found = vec![KeyDeltas::default(); asked.len()];
        let (mut planned, mut all) = (Vec::new(), Vec::new());
        for (number, (asked, found)) in asked.iter().zip(&mut found).enumerate() {
            let Some(bucket) = directory.find(asked.bound) else { continue };
            if let Some(known) = self.cache.lookup(bucket, asked) {
                *found = known;
                continue;
            }
            let plan = bucket.plan(asked, Purpose::Read)?;
            let mut reads = reads_of(bucket, &plan)?;
            let (bucket, count) = (Arc::clone(bucket), reads.len());
            all.append(&mut reads);
            planned.push(Planned { number, bucket, plan, reads: count });
        }
        let reads = (!all.is_empty()).then(|| self.context.io.disk.start_batch(all));
        Ok(KeysUnderWay { asked, found, planned, reads })
    }

    /// Waits for them; in the order asked.
    pub(super) fn finish_many(
        &self,
        under_way: KeysUnderWay<'_>,
        operator: Option<&SharedOperator>,
    ) -> Result<Vec<KeyDeltas>> {
        let KeysUnderWay { asked, mut found, planned, reads } = under_way;
        let mut reads = reads.map(|reads| reads.finish()).unwrap_or_default().into_iter();
        for Planned { number, bucket, plan, reads: count } in planned {
            let read = self.taken(&bucket, reads.by_ref().take(count))?;
            let Some((asked, found)) = asked.get(number).zip(found.get_mut(number)) else { break };
            let fresh = bucket.finish(&plan, asked, read)?;
            *found = self.cache.insert(&bucket, asked, fresh, operator);
        }
        Ok(found)
    }
}
