//! Look-ups in buckets: one key, or many with one submission of all their reads. Both begin before
//! the index is asked and end after, so that base and operands are read at the same time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::SharedOperator;
use crate::base::sync::Arc;
use crate::deltas::bucket::reader::{Asked, GetPlan, KeyDeltas};
use crate::deltas::bucket::{Brought, Bucket};
use crate::deltas::directory::Directory;
use crate::deltas::record::Bound;
use crate::engine::deltas::DeltaStore;
use crate::io::Purpose;
use crate::io::disk::{BatchRead, ReadsUnderWay};

/// Bytes up to which reads of many keys are on their way at once: some times as many reads as the
/// device gains from.
const WINDOW_BYTES_MAX: usize = 4 << 20;

/// A key of many whose bucket has to be read.
struct Planned {
    /// Its number among those asked for.
    number: usize,
    bucket: Arc<Bucket>,
    step: Step,
}

/// What is on its way for it.
enum Step {
    /// Index and filters of its bucket, by this read.
    Load(usize),
    /// What a plan needs, by these.
    Read(GetPlan, Range<usize>),
}

/// What is known of a key, or on its way to memory.
pub(super) enum KeyUnderWay {
    /// No read was needed.
    Known(KeyDeltas),
    /// Index and filters are being read, and with them the unsorted part.
    Load { bucket: Arc<Bucket>, reads: Box<dyn ReadsUnderWay> },
    /// The places of a plan are being read.
    Read { bucket: Arc<Bucket>, plan: GetPlan, reads: Box<dyn ReadsUnderWay> },
}

/// The same for many keys.
pub(super) struct KeysUnderWay<'k> {
    directory: &'k Directory,
    asked: Vec<Asked<'k>>,
    found: Vec<KeyDeltas>,
    /// How many of them are known, or were on their way.
    begun: usize,
    window: Window,
}

/// Keys of many whose buckets are being read.
#[derive(Default)]
struct Window {
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
        if let Some(read) = bucket.load_read()? {
            let reads = self.context.io.disk.start_batch(vec![read]);
            return Ok(KeyUnderWay::Load { bucket: Arc::clone(bucket), reads });
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
        let (bucket, plan, reads) = match under_way {
            KeyUnderWay::Known(known) => return Ok(known),
            KeyUnderWay::Read { bucket, plan, reads } => (bucket, plan, reads.finish()),
            KeyUnderWay::Load { bucket, reads } => {
                let brought = self.loaded(&bucket, reads.finish().into_iter())?;
                let plan = bucket.plan_with(brought, asked);
                let mut reads = reads_of(&bucket, &plan)?;
                self.context.io.disk.read_batch(&mut reads);
                (bucket, plan, reads)
            }
        };
        let read = self.taken(&bucket, reads.into_iter())?;
        let found = bucket.finish(&plan, asked, read)?;
        Ok(self.cache.insert(&bucket, asked, found, operator))
    }

    /// Index and filters of a bucket, which a read has brought.
    fn loaded(&self, bucket: &Bucket, read: impl Iterator<Item = BatchRead>) -> Result<Brought> {
        bucket.take_load(self.taken(bucket, read)?.into_iter().flatten().collect())
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

    /// Begins to read what the buckets have of many keys, each at its snapshot, with one submission
    /// of all reads; what goes beyond [`WINDOW_BYTES_MAX`] is left for later.
    pub(super) fn begin_many<'k>(
        &self,
        directory: &'k Directory,
        keyspace: KeyspaceId,
        keys: impl Iterator<Item = (&'k [u8], Seq)>,
    ) -> Result<KeysUnderWay<'k>> {
        let asked: Vec<Asked<'_>> =
            keys.map(|(key, snapshot)| self.asked(keyspace, key, snapshot)).collect();
        let found = vec![KeyDeltas::default(); asked.len()];
        let mut keys =
            KeysUnderWay { directory, asked, found, begun: 0, window: Window::default() };
        self.begin_window(&mut keys)?;
        Ok(keys)
    }

    /// Begins to read what the buckets have of the next keys.
    fn begin_window(&self, keys: &mut KeysUnderWay<'_>) -> Result<()> {
        let (mut planned, mut reads, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut loads: BTreeMap<FileId, usize> = BTreeMap::new();
        let rest = keys.asked.iter().zip(&mut keys.found).enumerate().skip(keys.begun);
        for (number, (asked, found)) in rest {
            if bytes >= WINDOW_BYTES_MAX {
                break;
            }
            keys.begun = number + 1;
            let Some(bucket) = keys.directory.find(asked.bound) else { continue };
            if let Some(known) = self.cache.lookup(bucket, asked) {
                *found = known;
                continue;
            }
            let (from, file) = (reads.len(), bucket.info().id);
            let step = if let Some(&load) = loads.get(&file) {
                Step::Load(load)
            } else if let Some(read) = bucket.load_read()? {
                loads.insert(file, from);
                reads.push(read);
                Step::Load(from)
            } else {
                let plan = bucket.plan(asked, Purpose::Read)?;
                reads.append(&mut reads_of(bucket, &plan)?);
                Step::Read(plan, from..reads.len())
            };
            let begun = reads.get(from..).unwrap_or_default();
            bytes += begun.iter().map(|read| read.buffer.len()).sum::<usize>();
            if let Step::Load(_) = &step {
                // A page is read later.
                bytes += self.context.page_bytes;
            }
            planned.push(Planned { number, bucket: Arc::clone(bucket), step });
        }
        if reads.len() > 1 {
            self.context.io.meter.batch_submitted();
        }
        let reads = (!reads.is_empty()).then(|| self.context.io.disk.start_batch(reads));
        keys.window = Window { planned, reads };
        Ok(())
    }

    /// Has everything read that keys need whose buckets were loaded first.
    fn read_after_loads(
        &self,
        asked: &[Asked<'_>],
        planned: &mut [Planned],
        reads: &mut Vec<Option<BatchRead>>,
    ) -> Result<()> {
        let mut brought: BTreeMap<usize, Brought> = BTreeMap::new();
        let mut late = Vec::new();
        for Planned { number, bucket, step } in planned {
            let Step::Load(load) = *step else { continue };
            let Some(asked) = asked.get(*number) else { continue };
            let of_bucket = match brought.entry(load) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) => {
                    let read = reads.get_mut(load).and_then(Option::take);
                    place.insert(self.loaded(bucket, read.into_iter())?)
                }
            };
            let plan = bucket.plan_with(of_bucket.clone(), asked);
            let from = reads.len() + late.len();
            late.append(&mut reads_of(bucket, &plan)?);
            *step = Step::Read(plan, from..reads.len() + late.len());
        }
        if late.len() > 1 {
            self.context.io.meter.batch_submitted();
        }
        self.context.io.disk.read_batch(&mut late);
        reads.extend(late.into_iter().map(Some));
        Ok(())
    }

    /// Waits for them; in the order asked.
    pub(super) fn finish_many(
        &self,
        mut keys: KeysUnderWay<'_>,
        operator: Option<&SharedOperator>,
    ) -> Result<Vec<KeyDeltas>> {
        loop {
            let Window { mut planned, reads } = std::mem::take(&mut keys.window);
            let reads = reads.map(|reads| reads.finish()).unwrap_or_default();
            let mut reads: Vec<Option<BatchRead>> = reads.into_iter().map(Some).collect();
            self.read_after_loads(&keys.asked, &mut planned, &mut reads)?;
            for Planned { number, bucket, step } in planned {
                let Step::Read(plan, places) = step else { continue };
                let read = reads.get_mut(places).unwrap_or_default();
                let read = self.taken(&bucket, read.iter_mut().filter_map(Option::take))?;
                let key = keys.asked.get(number).zip(keys.found.get_mut(number));
                let Some((asked, found)) = key else { break };
                let fresh = bucket.finish(&plan, asked, read)?;
                *found = self.cache.insert(&bucket, asked, fresh, operator);
            }
            if keys.begun >= keys.asked.len() {
                return Ok(keys.found);
            }
            self.begin_window(&mut keys)?;
        }
    }
}
