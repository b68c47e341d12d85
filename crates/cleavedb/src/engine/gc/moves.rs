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

/// Bytes of a batch, one record more at most: short for the writers that wait behind it, long
/// enough that a file is few commits.
const BATCH_BYTES: u64 = 256 << 10;

/// Where a record comes from, and what must hold of its key.
pub(super) struct Origin {
    pub(super) condition: Condition,
    pub(super) handle: Handle,
}

/// The batch in the making.
pub(super) struct Moves {
    batch_bytes: usize,
    payload: Vec<u8>,
    slots: Vec<Slot>,
    large: Vec<LargePut>,
    origins: Vec<Origin>,
    /// Ends of the records in the payload.
    ends: Vec<usize>,
    scratch: Vec<u8>,
    /// Bytes of the records that were moved.
    pub(super) moved_bytes: u64,
}

impl Moves {
    /// Nothing yet.
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            batch_bytes: BATCH_BYTES.min(engine.widths.value_segment_bytes) as usize,
            payload: Vec::new(),
            slots: Vec::new(),
            large: Vec::new(),
            origins: Vec::new(),
            ends: Vec::new(),
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
        let operation = self.origins.len() as u32;
        self.slots.push(copy_separated(&mut self.payload, operation, record, hash));
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
        if engine.is_large(value.len()) {
            let incoming = Incoming { source: &mut &*value, length: None };
            if let Taken::Large(put) = engine.take_large(keyspace, key, incoming)? {
                mark!("gc_fold_is_large");
                encode_large_put(&mut self.payload, keyspace.id, key, &put.handle().encode());
                self.large.push(put.renumbered(self.origins.len() as u32));
                self.added(origin);
                return Ok(());
            }
        }
        let placement = &keyspace.placement;
        if placement.separates(value.len()) {
            let hash = placement.hash.hash(keyspace.id, key);
            let compression: Compression = placement.compression;
            let put = SeparatedPut { keyspace: keyspace.id, key, value, compression, hash };
            let operation = self.origins.len() as u32;
            let slot = encode_separated(&mut self.payload, operation, &put, &mut self.scratch);
            self.slots.push(slot);
        } else {
            encode_record(&mut self.payload, Kind::Put, keyspace.id, key, value);
        }
        self.added(origin);
        Ok(())
    }

    fn added(&mut self, origin: Origin) {
        self.origins.push(origin);
        self.ends.push(self.payload.len());
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Whether it is time to commit.
    pub(super) fn are_many(&self) -> bool {
        self.payload.len() >= self.batch_bytes || !self.large.is_empty()
    }

    /// Commits the batch; returns the records that dropped out of it, since their keys changed.
    pub(super) fn commit(&mut self, engine: &Arc<Engine>) -> Result<Vec<Handle>> {
        if self.origins.is_empty() {
            return Ok(Vec::new());
        }
        engine.io.limiter.acquire(self.payload.len() as u64);
        let mut origins = std::mem::take(&mut self.origins);
        refresh(engine, &mut origins)?;
        let handles: Vec<Handle> = origins.iter().map(|origin| origin.handle).collect();
        let mut start = 0;
        let ends = std::mem::take(&mut self.ends);
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
        let extra = Extra {
            large: std::mem::take(&mut self.large),
            members,
            purpose: Some(Purpose::Collection),
            ..Extra::default()
        };
        let work = Work {
            payload: std::mem::take(&mut self.payload),
            slots: std::mem::take(&mut self.slots),
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
