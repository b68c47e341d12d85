//! Records on their way out of a file: gathered into batches, each operation written only if its
//! key is still as it was when the record was found live.

use crate::base::compress::Compression;
use crate::base::entry::Kind;
use crate::base::error::Result;
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Extra, Task, Work};
use crate::engine::conditional::{Condition, Dropped, Member, Members};
use crate::engine::gc::newest::Moment;
use crate::engine::large::{Incoming, LargePut, Taken};
use crate::io::Purpose;
use crate::log::batch::{encode_large_put, encode_record};
use crate::log::separated::{
    SeparatedPut, SeparatedRecord, Slot, copy_separated, encode_separated,
};
use crate::values::handle::Handle;
use crate::values::strategy::holes;

/// Bytes of a batch, one record more at most: short for the writers that wait behind it, long
/// enough that a file is few commits.
const BATCH_BYTES: u64 = 256 << 10;

/// Where a record comes from, and what must hold of its key.
pub(super) struct Origin {
    pub(super) condition: Condition,
    pub(super) handle: Handle,
}

/// A batch: one frame of its lane.
#[derive(Default)]
struct Batch {
    payload: Vec<u8>,
    slots: Vec<Slot>,
    large: Vec<LargePut>,
    origins: Vec<Origin>,
    /// Ends of the records in the payload.
    ends: Vec<usize>,
}

/// The batches in the making.
pub(super) struct Moves {
    batch_bytes: usize,
    /// A record of this many bytes and more is a batch of its own: so that it can leave as a hole
    /// once it is dead, whatever its neighbours do.
    lone_bytes: usize,
    /// Batches that get no more records.
    full: Vec<Batch>,
    /// The one that does.
    batch: Batch,
    scratch: Vec<u8>,
    /// Bytes of the records that were moved.
    pub(super) moved_bytes: u64,
}

impl Moves {
    /// Nothing yet.
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            batch_bytes: BATCH_BYTES.min(engine.widths.value_segment_bytes) as usize,
            lone_bytes: holes::record_bytes_min(engine.widths.hole_block_bytes) as usize,
            full: Vec::new(),
            batch: Batch::default(),
            scratch: Vec::new(),
            moved_bytes: 0,
        }
    }

    /// Adds a record as it is stored.
    pub(super) fn copy(
        &mut self,
        keyspace: &KeyspaceState,
        origin: Origin,
        record: &SeparatedRecord<'_>,
    ) {
        let hash = keyspace.placement.hash.hash(keyspace.id, record.key);
        if record.bytes() >= self.lone_bytes {
            self.end_batch();
        }
        let batch = &mut self.batch;
        let operation = batch.origins.len() as u32;
        batch.slots.push(copy_separated(&mut batch.payload, operation, record, hash));
        self.added(origin);
    }

    /// Adds a value that was folded just now; a large one as if a user had put it.
    pub(super) fn put(
        &mut self,
        engine: &Arc<Engine>,
        keyspace: &KeyspaceState,
        origin: Origin,
        value: &[u8],
    ) -> Result<()> {
        let key = origin.condition.key.as_slice();
        if value.len() > VALUE_BYTES_MAX {
            let message = format!("a value of {} bytes comes of merging", value.len());
            return Err(crate::base::error::Error::invalid(message));
        }
        if value.len() >= self.lone_bytes {
            self.end_batch();
        }
        let batch = &mut self.batch;
        if engine.is_large(value.len()) {
            let incoming = Incoming { source: &mut &*value, length: None };
            if let Taken::Large(put) = engine.take_large(keyspace, key, incoming)? {
                mark!("gc_fold_is_large");
                encode_large_put(&mut batch.payload, keyspace.id, key, &put.handle().encode());
                batch.large.push(put.renumbered(batch.origins.len() as u32));
                self.added(origin);
                return Ok(());
            }
        }
        let placement = &keyspace.placement;
        if placement.separates(value.len()) {
            let hash = placement.hash.hash(keyspace.id, key);
            let compression: Compression = placement.compression;
            let put = SeparatedPut { keyspace: keyspace.id, key, value, compression, hash };
            let operation = batch.origins.len() as u32;
            let slot = encode_separated(&mut batch.payload, operation, &put, &mut self.scratch);
            batch.slots.push(slot);
        } else {
            encode_record(&mut batch.payload, Kind::Put, keyspace.id, key, value);
        }
        self.added(origin);
        Ok(())
    }

    fn added(&mut self, origin: Origin) {
        let batch = &mut self.batch;
        batch.origins.push(origin);
        let start = batch.ends.last().copied().unwrap_or(0);
        let end = batch.payload.len();
        batch.ends.push(end);
        if end - start >= self.lone_bytes {
            self.end_batch();
        }
    }

    fn end_batch(&mut self) {
        if !self.batch.origins.is_empty() {
            self.full.push(std::mem::take(&mut self.batch));
        }
    }

    fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.full.iter().chain([&self.batch])
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.batches().all(|batch| batch.origins.is_empty())
    }

    /// Whether it is time to commit.
    pub(super) fn are_many(&self) -> bool {
        let bytes: usize = self.batches().map(|batch| batch.payload.len()).sum();
        bytes >= self.batch_bytes || self.batches().any(|batch| !batch.large.is_empty())
    }

    /// Commits the batches; returns the records that dropped out of them, since their keys changed.
    pub(super) fn commit(&mut self, engine: &Arc<Engine>) -> Result<Vec<Handle>> {
        self.end_batch();
        let mut again = Vec::new();
        for batch in std::mem::take(&mut self.full) {
            again.append(&mut self.commit_one(engine, batch)?);
        }
        Ok(again)
    }

    fn commit_one(&mut self, engine: &Arc<Engine>, batch: Batch) -> Result<Vec<Handle>> {
        let Batch { payload, slots, large, mut origins, ends } = batch;
        engine.io.limiter.acquire(payload.len() as u64);
        refresh(engine, &mut origins)?;
        let handles: Vec<Handle> = origins.iter().map(|origin| origin.handle).collect();
        let mut start = 0;
        let list: Vec<Member> = origins
            .into_iter()
            .zip(ends)
            .map(|(Origin { condition, .. }, end)| Member {
                condition,
                record: std::mem::replace(&mut start, end)..end,
            })
            .collect();
        let members = Members { list, ..Members::default() };
        let dropped = Arc::clone(&members.dropped);
        let purpose = Some(Purpose::Collection);
        let extra = Extra { large, members, purpose, ..Extra::default() };
        let work = Work {
            payload,
            slots,
            count: handles.len() as u32,
            // On a full disk only what frees much more than it takes is collected.
            frees_space: engine.reserve.is_given_up(),
            extra: Some(Box::new(extra)),
            ..Work::control(Task::Write)
        };
        engine.commit(work)?;
        let Dropped { numbers, given_up } = std::mem::take(&mut *dropped.lock());
        drop(given_up);
        let all: u64 = handles.iter().map(|handle| u64::from(handle.bytes)).sum();
        let again = counted(engine, handles, &numbers);
        self.moved_bytes += all - again.iter().map(|handle| u64::from(handle.bytes)).sum::<u64>();
        Ok(again)
    }
}

/// Counts what was moved; returns what was not.
fn counted(engine: &Engine, handles: Vec<Handle>, dropped: &[usize]) -> Vec<Handle> {
    let figures = &engine.metrics.collection;
    let mut again = Vec::new();
    for (number, handle) in handles.into_iter().enumerate() {
        if dropped.binary_search(&number).is_ok() {
            mark!("gc_lost_race");
            figures.races_lost.fetch_add(1, Ordering::Relaxed);
            again.push(handle);
        } else {
            mark!("gc_moved");
            figures.records_moved.fetch_add(1, Ordering::Relaxed);
            figures.index_writes.fetch_add(1, Ordering::Relaxed);
            figures.bytes_moved.fetch_add(u64::from(handle.bytes), Ordering::Relaxed);
        }
    }
    again
}

/// A flush since a record was looked at would make the leader ask the index, perhaps the disk,
/// while all writers wait: it is done here instead. What changed is left for the leader to find.
fn refresh(engine: &Engine, origins: &mut [Origin]) -> Result<()> {
    let flushed = engine.flushed();
    let is_same =
        |left: &Origin, right: &Origin| left.condition.keyspace == right.condition.keyspace;
    for origins in origins.chunk_by_mut(is_same) {
        let Some(first) = origins.first() else { continue };
        let keyspace = first.condition.keyspace;
        let is_older = |origin: &&mut Origin| origin.condition.read_seq < flushed;
        let mut older: Vec<_> = origins.iter_mut().filter(is_older).collect();
        if older.is_empty() {
            continue;
        }
        let moment = Moment::now(engine);
        let keys = older.iter().map(|origin| origin.condition.key.as_slice());
        let known = moment.look_up_many(keyspace, keys)?;
        for (Origin { condition, .. }, known) in older.iter_mut().zip(known) {
            if Some(known.lookup.newest_seq) == condition.newest_seq {
                mark!("gc_condition_refreshed");
                condition.read_seq = moment.seq;
            }
        }
    }
    Ok(())
}
