//! Collecting one file: its records in order, the live ones put again.
//!
//! It is done in steps, each a batch: committed is what the step before gathered, so that other
//! background work gets its turn, and nothing depends on how much time passes in between.

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::gc::chunk::Chunk;
use crate::engine::gc::moves::Moves;
use crate::io::Purpose;
use crate::log::batch::BatchReader;
use crate::log::format::{FRAME_HEADER_BYTES, FrameKind};
use crate::log::reader::{Frame, ReadOptions, SegmentReader};
use crate::log::separated::{Binding, SeparatedRecord};
use crate::values::file::ValueFile;
use crate::values::file_table::TableEntry;
use crate::values::handle::Handle;

/// Times that records whose keys change under the collector's hands are tried again.
const ROUNDS_MAX: usize = 8;

/// A collection in progress.
pub(super) struct Collector {
    file: Arc<ValueFile>,
    reader: SegmentReader,
    /// Records to be looked at.
    chunk: Chunk,
    moves: Moves,
    /// Records whose key changed between the look and the move: to be looked at again.
    again: Vec<Handle>,
    rounds: usize,
}

impl Engine {
    /// Begins to collect a file.
    pub(super) fn begin_collection(&self, id: FileId) -> Result<Collector> {
        self.asks_index()?;
        let entry = self.view.load().values.get(id).cloned();
        let entry = entry.filter(|entry| entry.state.is_settled(self.flushed()));
        let Some(TableEntry { file, state, punched }) = entry else {
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
        if punched.is_some() {
            mark!("gc_moved_after_punch");
        }
        let reader = SegmentReader::open_punched(&self.io, file.path(), options, punched)?;
        let (chunk, moves, again) = (Chunk::default(), Moves::new(self), Vec::new());
        Ok(Collector { file, reader, chunk, moves, again, rounds: 0 })
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
        while self.fill_chunk()? {
            self.chunk.take(engine, &mut self.moves)?;
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

    /// Reads on until the chunk is full, or the file at its end; false if there is nothing left.
    fn fill_chunk(&mut self) -> Result<bool> {
        while !self.chunk.is_full() {
            let Some(frame) = self.reader.next_frame()? else { break };
            if frame.header.kind == FrameKind::Data {
                take_frame(&self.file, &mut self.chunk, &frame)?;
            }
        }
        Ok(!self.chunk.is_empty())
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
            self.chunk.add(handle, &self.read(engine, &handle)?);
            if self.chunk.is_full() {
                self.chunk.take(engine, &mut self.moves)?;
            }
        }
        self.chunk.take(engine, &mut self.moves)
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

/// Takes the records of one frame into a chunk.
fn take_frame(file: &ValueFile, chunk: &mut Chunk, frame: &Frame<'_>) -> Result<()> {
    let place = Binding {
        seed: file.seed(),
        payload_offset: frame.offset + FRAME_HEADER_BYTES as u64,
        base_seq: frame.header.base_seq,
    };
    for record in BatchReader::of_values(frame.payload, frame.header.count, Some(place)) {
        let record = record.map_err(|e| e.in_file(file.path()))?;
        // The other records of the frame are in the index; here they are dead bytes.
        let Some(separated) = record.separated else { continue };
        let start = separated.start;
        let bytes = separated.record.bytes();
        let offset = place.payload_offset + start as u64;
        let handle = Handle { file: file.id(), epoch: 0, offset, bytes: bytes as u32 };
        chunk.add(handle, frame.payload.get(start..start + bytes).unwrap_or_default());
    }
    Ok(())
}
