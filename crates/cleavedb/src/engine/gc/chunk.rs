//! Records of a file that are looked at together: their keys are asked for in order, as one batch,
//! and those that are live go into the batch of moves.

use std::ops::Range;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::merge_operator::full_merge;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::conditional::Condition;
use crate::engine::gc::moves::{Moves, Origin};
use crate::engine::gc::newest::{Known, Moment};
use crate::engine::read::missing_operator;
use crate::log::separated::SeparatedRecord;
use crate::values::handle::Handle;
use crate::values::strategy::{Liveness, RecordPlace};

/// Bytes of records, one more at most: some hundred keys of usual values make a batch that is worth
/// it, and what is kept here is no matter for a small memory budget.
const CHUNK_BYTES: usize = 128 << 10;

/// Some records.
#[derive(Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    records: Vec<(Handle, Range<usize>)>,
}

impl Chunk {
    /// Adds a record as it is stored.
    pub(super) fn add(&mut self, handle: Handle, record: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.records.push((handle, start..self.bytes.len()));
    }

    /// Whether there is nothing to look at.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether it is time to look.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK_BYTES
    }

    /// Looks at all records, and takes them out: those that are live go to the moves.
    pub(super) fn take(&mut self, engine: &Arc<Engine>, moves: &mut Moves) -> Result<()> {
        if engine.cancelled.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        let mut records = Vec::with_capacity(self.records.len());
        for (handle, range) in self.records.drain(..) {
            let bytes = self.bytes.get(range).unwrap_or_default();
            records.push((handle, SeparatedRecord::decode(bytes)?));
        }
        records.sort_by(|(_, left), (_, right)| {
            (left.keyspace, left.key).cmp(&(right.keyspace, right.key))
        });
        let moment = Moment::now(engine);
        for records in records.chunk_by(|(_, left), (_, right)| left.keyspace == right.keyspace) {
            let Some((_, first)) = records.first() else { continue };
            let keys = records.iter().map(|(_, record)| record.key);
            let known = moment.look_up_many(first.keyspace, keys)?;
            for ((handle, record), known) in records.iter().zip(known) {
                let look = Look { record, handle: *handle, seq: moment.seq, known };
                take_record(engine, moves, look)?;
            }
        }
        self.bytes.clear();
        Ok(())
    }
}

/// A record, and what was found of its key.
struct Look<'a> {
    record: &'a SeparatedRecord<'a>,
    handle: Handle,
    /// When.
    seq: u64,
    known: Known<'a>,
}

/// Takes a record into the batch if it is live.
fn take_record(engine: &Arc<Engine>, moves: &mut Moves, look: Look<'_>) -> Result<()> {
    let Look { record, handle, seq: read_seq, known } = look;
    let SeparatedRecord { keyspace, key, seq, .. } = *record;
    let place = RecordPlace { keyspace, key, seq, handle };
    let Liveness::Live { newest_seq, is_merged } = engine.asks_index()?.liveness(&place, &known)?
    else {
        engine.metrics.collection.records_dead.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    };
    let state = engine.catalogue.lock().numbered(keyspace);
    // Dropped since the moment: dead.
    let Some(state) = state else { return Ok(()) };
    let key = key.to_vec();
    let condition = Condition { keyspace, key, read_seq, newest_seq: Some(newest_seq) };
    let origin = Origin { condition, handle };
    if is_merged {
        mark!("gc_merge_folded");
        let value = folded(&state, record, &known)?;
        return moves.put(engine, &state, origin, &value);
    }
    moves.copy(&state, origin, record);
    Ok(())
}

/// The value that a user sees: the record's with the operands that follow it. Run under no lock.
fn folded(
    keyspace: &KeyspaceState,
    record: &SeparatedRecord<'_>,
    known: &Known<'_>,
) -> Result<Vec<u8>> {
    let operator = keyspace.operator.as_ref().ok_or_else(|| missing_operator(record.key))?;
    let operands = known.lookup.operands.iter().rev();
    let operands: Vec<&[u8]> = operands.map(|(_, value)| value.as_bytes()).collect();
    let base = record.value()?;
    full_merge(operator.as_ref(), record.key, Some(&base), &operands)
}
