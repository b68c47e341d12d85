//! Look-ups in buckets: one key, or many with one submission of all their reads.

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
use crate::io::disk::BatchRead;

/// A key whose bucket has to be read: its number among those asked for, and its reads.
struct Planned<'a> {
    number: usize,
    bucket: &'a Arc<Bucket>,
    plan: GetPlan,
    reads: usize,
}

impl DeltaStore {
    fn asked<'k>(&self, keyspace: KeyspaceId, key: &'k [u8], snapshot: Seq) -> Asked<'k> {
        let hash = self.context.hash.hash(keyspace, key);
        Asked { bound: Bound { keyspace, key }, hash, snapshot }
    }

    /// What the buckets of a directory have of a key.
    pub(super) fn get(
        &self,
        directory: &Directory,
        (keyspace, key): (KeyspaceId, &[u8]),
        snapshot: Seq,
        operator: Option<&SharedOperator>,
    ) -> Result<KeyDeltas> {
        let asked = self.asked(keyspace, key, snapshot);
        match directory.find(asked.bound) {
            Some(bucket) => self.cache.get(bucket, &asked, operator, Purpose::Read),
            None => Ok(KeyDeltas::default()),
        }
    }

    /// The same for many keys, each at its snapshot, in the order asked.
    pub(super) fn get_many<'k>(
        &self,
        directory: &Directory,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = (&'k [u8], Seq)>,
        operator: Option<&SharedOperator>,
    ) -> Result<Vec<KeyDeltas>> {
        let asked: Vec<Asked<'_>> =
            keys.map(|(key, snapshot)| self.asked(keyspace, key, snapshot)).collect();
        let mut found = vec![KeyDeltas::default(); asked.len()];
        let (mut planned, mut reads) = (Vec::new(), Vec::new());
        for (number, (asked, found)) in asked.iter().zip(&mut found).enumerate() {
            let Some(bucket) = directory.find(asked.bound) else { continue };
            if let Some(known) = self.cache.lookup(bucket, asked) {
                *found = known;
                continue;
            }
            let plan = bucket.plan(asked, Purpose::Read)?;
            let ranges = plan.ranges();
            for range in &ranges {
                reads.push(BatchRead {
                    file: bucket.file().disk_file()?,
                    offset: range.start,
                    buffer: vec![0; (range.end - range.start) as usize],
                    result: Ok(()),
                });
            }
            planned.push(Planned { number, bucket, plan, reads: ranges.len() });
        }
        let io = &self.context.io;
        match reads.as_mut_slice() {
            [] => {}
            [one] => one.result = one.file.read_exact_at(&mut one.buffer, one.offset),
            many => io.disk.read_batch(many),
        }
        let mut reads = reads.into_iter();
        for Planned { number, bucket, plan, reads: count } in planned {
            let mut read = Vec::with_capacity(count);
            for one in reads.by_ref().take(count) {
                io.meter.read(Purpose::Read, one.buffer.len() as u64);
                one.result.map_err(|e| bucket.file().unread(e, one.offset))?;
                read.push(one.buffer);
            }
            let Some((asked, found)) = asked.get(number).zip(found.get_mut(number)) else { break };
            let fresh = bucket.finish(&plan, asked, read)?;
            *found = self.cache.insert(bucket, asked, fresh, operator);
        }
        Ok(found)
    }
}
