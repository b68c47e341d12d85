//! Collecting one file: its records in order, the live ones put again.
//!
//! It is done in steps, each a batch: committed is what the step before gathered, so that other
//! background work gets its turn, and nothing depends on how much time passes in between.

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::merge_operator::full_merge;
use crate::base::names::FileKind;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::conditional::Condition;
use crate::engine::gc::moves::{Moves, Origin};
use crate::engine::gc::newest::Moment;
use crate::engine::read::missing_operator;
use crate::io::Purpose;
use crate::log::batch::BatchReader;
use crate::log::format::{FRAME_HEADER_BYTES, FrameKind};
use crate::log::reader::{Frame, ReadOptions, SegmentReader};
use crate::log::separated::{Binding, SeparatedRecord};
use crate::values::file::ValueFile;
use crate::values::file_table::TableEntry;
use crate::values::handle::Handle;
use crate::values::strategy::{Liveness, RecordPlace, Relocation};

/// Times that records whose keys change under the collector's hands are tried again.
const ROUNDS_MAX: usize = 8;

/// A collection in progress.
pub(super) struct Collector {
    file: Arc<ValueFile>,
    reader: SegmentReader,
    moves: Moves,
    /// Records whose key changed between the look and the move: to be looked at again.
    again: Vec<Handle>,
    rounds: usize,
}

impl Engine {
    /// Begins to collect a file.
    pub(super) fn begin_collection(&self, id: FileId) -> Result<Collector> {
        let Relocation::PutAgain = self.strategy.relocation();
        let entry = self.view.load().values.get(id).cloned();
        let entry = entry.filter(|entry| entry.state.is_settled(self.flushed()));
        let Some(TableEntry { file, state }) = entry else {
            return Err(Error::invalid(format!("value file {id} cannot be collected yet")));
        };
        let options = ReadOptions {
            kind: FileKind::Value,
            id,
            uuid: self.uuid,
            sealed: state.sealed.map(|values| values.sealed),
            contiguous: false,
            purpose: Purpose::Collection,
        };
        let reader = SegmentReader::open(&self.io, file.path(), options)?;
        let (moves, again) = (Moves::new(self), Vec::new());
        Ok(Collector { file, reader, moves, again, rounds: 0 })
    }
}

impl Collector {
    /// The file.
    pub(super) fn file(&self) -> FileId {
        self.file.id()
    }

    /// Bytes of the records that have left it.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.moves.moved_bytes
    }

    /// Commits what was gathered, and gathers the next batch. At the end of the file, when nothing
    /// is left to do, returns the barrier (GC3): everything that makes the file superfluous is
    /// durable then (GC2).
    pub(super) fn step(&mut self, engine: &Arc<Engine>) -> Result<Option<Seq>> {
        self.again.append(&mut self.moves.commit(engine)?);
        while let Some(frame) = self.reader.next_frame()? {
            if frame.header.kind == FrameKind::Data {
                take_frame(engine, &self.file, &mut self.moves, &frame)?;
            }
            if self.moves.are_many() {
                return Ok(None);
            }
        }
        if self.moves.is_empty() {
            self.look_again(engine)?;
        }
        if !self.moves.is_empty() {
            return Ok(None);
        }
        let barrier = engine.visible.load(Ordering::Acquire);
        if !planted!("gc_no_sync") {
            engine.sync_logs()?;
        }
        engine.metrics.collection.collected.fetch_add(1, Ordering::Relaxed);
        tracing::info!(file = %self.file.id(), barrier, "value file collected");
        Ok(Some(barrier))
    }

    /// Looks again at what changed meanwhile.
    fn look_again(&mut self, engine: &Arc<Engine>) -> Result<()> {
        let again = std::mem::take(&mut self.again);
        if !again.is_empty() && self.rounds == ROUNDS_MAX {
            // Its garbage does not go away; another time will do.
            let message = "keys of the file change faster than they can be moved";
            return Err(Error::new(ErrorKind::Conflict, message).in_file(self.file.path()));
        }
        self.rounds += 1;
        for handle in again {
            let bytes = self.read(engine, &handle)?;
            take_record(engine, &mut self.moves, &SeparatedRecord::decode(&bytes)?, handle)?;
        }
        Ok(())
    }

    /// A record that has been seen to hold before.
    fn read(&self, engine: &Engine, handle: &Handle) -> Result<Vec<u8>> {
        let mut bytes = vec![0; handle.bytes as usize];
        let failed = |e| Error::io("reading a record", self.file.path(), e);
        self.file.disk_file()?.read_exact_at(&mut bytes, handle.offset).map_err(failed)?;
        engine.io.meter.read(Purpose::Collection, u64::from(handle.bytes));
        let record = SeparatedRecord::decode(&bytes)?;
        if record.holds_at(self.file.seed(), handle.offset) {
            return Ok(bytes);
        }
        let error = Error::corruption("a value's record does not match its checksum");
        Err(error.in_file(self.file.path()).at_offset(handle.offset))
    }
}

/// Looks at the records of one frame.
fn take_frame(
    engine: &Arc<Engine>,
    file: &ValueFile,
    moves: &mut Moves,
    frame: &Frame<'_>,
) -> Result<()> {
    let place = Binding {
        seed: file.seed(),
        payload_offset: frame.offset + FRAME_HEADER_BYTES as u64,
        base_seq: frame.header.base_seq,
    };
    for record in BatchReader::of_values(frame.payload, frame.header.count, Some(place)) {
        let record = record.map_err(|e| e.in_file(file.path()))?;
        // The other records of the frame are in the index; here they are dead bytes.
        let Some(separated) = record.separated else { continue };
        let offset = place.payload_offset + separated.start as u64;
        let bytes = separated.record.bytes() as u32;
        let handle = Handle { file: file.id(), epoch: 0, offset, bytes };
        take_record(engine, moves, &separated.record, handle)?;
    }
    Ok(())
}

/// Takes a record into the batch if it is live.
fn take_record(
    engine: &Arc<Engine>,
    moves: &mut Moves,
    record: &SeparatedRecord<'_>,
    handle: Handle,
) -> Result<()> {
    if engine.cancelled.load(Ordering::Acquire) {
        return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
    }
    let SeparatedRecord { keyspace, key, seq, .. } = *record;
    let moment = Moment::now(engine);
    let place = RecordPlace { keyspace, key, seq, handle };
    let Liveness::Live { newest_seq, is_merged } = engine.strategy.liveness(&place, &moment)?
    else {
        engine.metrics.collection.records_dead.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    };
    let state = engine.catalogue.lock().numbered(keyspace);
    // Dropped since the moment: dead.
    let Some(state) = state else { return Ok(()) };
    let (key, read_seq) = (key.to_vec(), moment.seq);
    let condition = Condition { keyspace, key, read_seq, newest_seq: Some(newest_seq) };
    let origin = Origin { condition, handle };
    if is_merged {
        mark!("gc_merge_folded");
        let value = folded(&state, record, moment.take_lookup())?;
        return moves.put(&state, origin, &value);
    }
    moves.copy(&state, origin, record);
    Ok(())
}

/// The value that a user sees: the record's with the operands that follow it. Run under no lock.
fn folded(
    keyspace: &KeyspaceState,
    record: &SeparatedRecord<'_>,
    lookup: Option<Lookup>,
) -> Result<Vec<u8>> {
    let operator = keyspace.operator.as_ref().ok_or_else(|| missing_operator(record.key))?;
    let operands = lookup.map(|lookup| lookup.operands).unwrap_or_default();
    let operands: Vec<&[u8]> = operands.iter().rev().map(|(_, value)| value.as_bytes()).collect();
    let base = record.value()?;
    full_merge(operator.as_ref(), record.key, Some(&base), &operands)
}
