//! Writes what lives on into new buckets, none beyond its capacity but for a single key's, and
//! states the edit.

use crate::base::entry::{FileId, Seq};
use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::deltas::bucket::Bucket;
use crate::deltas::bucket::file::DeltaContext;
use crate::deltas::bucket::format::{BUCKET_BYTES_MAX, separator};
use crate::deltas::bucket::writer::{BucketPlan, SortedWriter, Unsynced};
use crate::deltas::collect::Outcome;
use crate::deltas::collect::survivors::{KeyRecords, OwnedRecord, Survivors};
use crate::deltas::edit::{DeltasEdit, RemovedBucket};
use crate::deltas::ranges::{self, RangeAnchor};
use crate::deltas::record::{OwnedBound, Record};
use crate::io::Purpose;

/// What new buckets are made from beside their records.
pub(crate) struct WritePlan<'a> {
    /// The buckets that they replace: neighbours, in order. None at the beginning.
    pub(crate) replaced: &'a [Arc<Bucket>],
    /// Whether they may go without a successor where nothing lives on: not so for the first bucket
    /// of all, whose range reaches down to the lowest key.
    pub(crate) may_vanish: bool,
    /// All records of these keys up to this seq take part.
    pub(crate) applied_seq: Seq,
    /// Most bytes of a bucket; one of a single key may have more.
    pub(crate) capacity_bytes: u64,
    /// For the byte meter.
    pub(crate) purpose: Purpose,
    /// Gives out numbers of files, each once.
    pub(crate) next_id: &'a mut dyn FnMut() -> FileId,
}

/// New buckets and the edit that puts them into force.
pub(crate) struct Written {
    /// Not durable yet.
    pub(crate) buckets: Vec<Unsynced>,
    removed: Vec<RemovedBucket>,
    start: OwnedBound,
}

impl Written {
    /// Makes the buckets durable (their names are not: one sync of the directory for all); returns
    /// them and the edit, if it says anything.
    pub(crate) fn sync(self) -> Result<(Vec<Arc<Bucket>>, Option<DeltasEdit>)> {
        let buckets = self.buckets.into_iter().map(Unsynced::sync).collect::<Result<Vec<_>>>()?;
        let added: Vec<_> = buckets.iter().map(|bucket| bucket.info().clone()).collect();
        let says_something = !(added.is_empty() && self.removed.is_empty());
        let (start, removed) = (self.start, self.removed);
        Ok((buckets, says_something.then_some(DeltasEdit::Replaced { start, removed, added })))
    }
}

/// Writes the parts of an outcome. A part that does not fit into one bucket after all goes on in
/// another.
pub(crate) fn write(
    context: &Arc<DeltaContext>,
    survivors: &Survivors,
    outcome: &Outcome,
    plan: &mut WritePlan<'_>,
) -> Result<Written> {
    let first = plan.replaced.first();
    let start = first.map_or_else(OwnedBound::lowest, |bucket| bucket.info().start.clone());
    let removed = plan.replaced.iter().map(|bucket| {
        let info = bucket.info();
        RemovedBucket { id: info.id, bytes: info.bytes }
    });
    let mut written = Written { buckets: Vec::new(), removed: removed.collect(), start };
    for part in &outcome.parts {
        let mut keys = survivors.keys.get(part.clone()).unwrap_or_default();
        while let Some(first) = keys.first() {
            let start = match written.buckets.is_empty() {
                true => written.start.clone(),
                false => separator(last_before(survivors, first), first.bound.as_ref()),
            };
            let (bucket, count) = write_one(context, start, keys, survivors, plan)?;
            written.buckets.push(bucket);
            keys = keys.get(count..).unwrap_or_default();
        }
    }
    if written.buckets.is_empty() && first.is_some() && !plan.may_vanish {
        let (bucket, _) = write_one(context, written.start.clone(), &[], survivors, plan)?;
        written.buckets.push(bucket);
    }
    Ok(written)
}

/// The key in front of this one.
fn last_before<'a>(
    survivors: &'a Survivors,
    key: &KeyRecords,
) -> Option<crate::deltas::record::Bound<'a>> {
    let at = survivors.keys.partition_point(|other| other.bound < key.bound);
    survivors.keys.get(at.checked_sub(1)?).map(|key| key.bound.as_ref())
}

/// Writes a bucket of as many keys as fit, one at least if there is any; returns how many.
fn write_one(
    context: &Arc<DeltaContext>,
    start: OwnedBound,
    keys: &[KeyRecords],
    survivors: &Survivors,
    plan: &mut WritePlan<'_>,
) -> Result<(Unsynced, usize)> {
    let mut writer = SortedWriter::new(
        context,
        BucketPlan {
            id: (plan.next_id)(),
            start,
            applied_seq: plan.applied_seq,
            ranges: over(&survivors.ranges, keys),
            // Its first key stands in it, however long.
            capacity_bytes: BUCKET_BYTES_MAX,
            purpose: plan.purpose,
        },
    );
    let mut count = 0;
    for key in keys {
        // A key may begin a page, whose bound takes a key at most.
        let more = key.bytes() + key.bound.key.len() as u64 + 32;
        if count > 0 && writer.bytes_at_most() + more > plan.capacity_bytes {
            break;
        }
        let records: Vec<Record<'_>> = key.records.iter().map(OwnedRecord::as_ref).collect();
        writer.add(key.bound.as_ref(), &records)?;
        count += 1;
    }
    Ok((writer.write()?, count))
}

/// The range anchors over any of these keys, and of each as much as lies over them.
fn over(ranges: &[RangeAnchor], keys: &[KeyRecords]) -> Vec<RangeAnchor> {
    let cut = |anchor: &RangeAnchor| {
        let covered = |key: &&KeyRecords| {
            let range = &anchor.range;
            key.bound.keyspace == anchor.keyspace
                && range.start <= key.bound.key
                && key.bound.key < range.end
        };
        let (first, last) = (keys.iter().find(covered)?, keys.iter().rfind(covered)?);
        let behind_last = [&*last.bound.key, &[0]].concat();
        anchor.cut(Some(&first.bound.key), Some(&behind_last))
    };
    let mut over: Vec<RangeAnchor> = ranges.iter().filter_map(cut).collect();
    ranges::sort(&mut over);
    over
}
