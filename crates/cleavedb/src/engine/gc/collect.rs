//! Collecting one file: its records in order, the live ones put again.

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
struct Collector<'a> {
    engine: &'a Arc<Engine>,
    file: &'a ValueFile,
    moves: Moves,
    /// Records whose key changed between the look and the move: to be looked at again.
    again: Vec<Handle>,
}

impl Engine {
    /// Reads a file to its end and puts its live records again; returns the barrier (GC3). When it
    /// returns, everything that makes the file superfluous is durable (GC2).
    pub(super) fn collect_file(self: &Arc<Self>, id: FileId) -> Result<Seq> {
        let Relocation::PutAgain = self.strategy.relocation();
        let entry = self.view.load().values.get(id).cloned();
        let entry = entry.filter(|entry| entry.state.is_settled(self.flushed()));
        let Some(TableEntry { file, state }) = entry else {
            return Err(Error::invalid(format!("value file {id} cannot be collected yet")));
        };
        let start = self.io.clock.now();
        let options = ReadOptions {
            kind: FileKind::Value,
            id,
            uuid: self.uuid,
            sealed: state.sealed.map(|values| values.sealed),
            contiguous: false,
            purpose: Purpose::Collection,
        };
        let mut reader = SegmentReader::open(&self.io, file.path(), options)?;
        let mut collector =
            Collector { engine: self, file: &file, moves: Moves::new(self), again: Vec::new() };
        while let Some(frame) = reader.next_frame()? {
            if frame.header.kind == FrameKind::Data {
                collector.take_frame(&frame)?;
            }
        }
        collector.finish()?;
        let barrier = self.visible.load(Ordering::Acquire);
        mark!("gc_checked_all");
        if !planted!("gc_no_sync") {
            self.sync_logs()?;
        }
        self.metrics.collection.collected.fetch_add(1, Ordering::Relaxed);
        let micros = self.io.clock.now().saturating_sub(start).as_micros() as u64;
        tracing::info!(file = %id, micros, barrier, "value file collected");
        Ok(barrier)
    }
}

impl Collector<'_> {
    /// Looks at the records of one frame.
    fn take_frame(&mut self, frame: &Frame<'_>) -> Result<()> {
        let place = Binding {
            seed: self.file.seed(),
            payload_offset: frame.offset + FRAME_HEADER_BYTES as u64,
            base_seq: frame.header.base_seq,
        };
        for record in BatchReader::of_values(frame.payload, frame.header.count, Some(place)) {
            let record = record.map_err(|e| e.in_file(self.file.path()))?;
            // The other records of the frame are in the index; here they are dead bytes.
            let Some(separated) = record.separated else { continue };
            let offset = place.payload_offset + separated.start as u64;
            let bytes = separated.record.bytes() as u32;
            let handle = Handle { file: self.file.id(), epoch: 0, offset, bytes };
            self.take_record(&separated.record, handle)?;
        }
        Ok(())
    }

    /// Puts a record again if it is live.
    fn take_record(&mut self, record: &SeparatedRecord<'_>, handle: Handle) -> Result<()> {
        let engine = self.engine;
        if engine.cancelled.load(Ordering::Acquire) {
            mark!("gc_cancelled");
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        let SeparatedRecord { keyspace, key, seq, .. } = *record;
        let moment = Moment::now(engine);
        let place = RecordPlace { keyspace, key, seq, handle };
        let Liveness::Live { is_merged, .. } = engine.strategy.liveness(&place, &moment)? else {
            engine.metrics.collection.records_dead.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        let state = engine.catalogue.lock().numbered(keyspace);
        // Dropped since the moment: dead.
        let Some(state) = state else { return Ok(()) };
        let condition = Condition { keyspace, key: key.to_vec(), read_seq: moment.seq };
        let origin = Origin { condition, handle };
        if is_merged {
            mark!("gc_merge_folded");
            let value = folded(&state, record, moment.take_lookup())?;
            self.moves.put(&state, origin, &value)?;
        } else {
            self.moves.copy(&state, origin, record);
        }
        if self.moves.are_many() {
            self.again.append(&mut self.moves.commit(engine)?);
        }
        Ok(())
    }

    /// Commits what is left, and what changed meanwhile, until nothing changes any more.
    fn finish(&mut self) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            self.again.append(&mut self.moves.commit(self.engine)?);
            if self.again.is_empty() {
                return Ok(());
            }
            for handle in std::mem::take(&mut self.again) {
                let bytes = self.read(&handle)?;
                self.take_record(&SeparatedRecord::decode(&bytes)?, handle)?;
            }
        }
        self.again.append(&mut self.moves.commit(self.engine)?);
        if self.again.is_empty() {
            return Ok(());
        }
        // Its garbage does not go away; another time will do.
        let message = "keys of the file change faster than they can be moved";
        Err(Error::new(ErrorKind::Conflict, message).in_file(self.file.path()))
    }

    /// A record that has been seen to hold before.
    fn read(&self, handle: &Handle) -> Result<Vec<u8>> {
        let mut bytes = vec![0; handle.bytes as usize];
        let failed = |e| Error::io("reading a record", self.file.path(), e);
        self.file.disk_file()?.read_exact_at(&mut bytes, handle.offset).map_err(failed)?;
        self.engine.io.meter.read(Purpose::Collection, u64::from(handle.bytes));
        let record = SeparatedRecord::decode(&bytes)?;
        if record.holds_at(self.file.seed(), handle.offset) {
            return Ok(bytes);
        }
        let error = Error::corruption("a value's record does not match its checksum");
        Err(error.in_file(self.file.path()).at_offset(handle.offset))
    }
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
