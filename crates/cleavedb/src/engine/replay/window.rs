//! Frames that were taken from the log and are on their way into the memtable, some at a time.
//!
//! Each record goes to another place in a list that exceeds the caches. One at a time they would
//! wait for its nodes one after the other; the places of some are fetched together instead.
//! Invariant: what is in the window is neither visible nor in the memtable; it is emptied before
//! the memtable is frozen, and at the end.

use crate::base::entry::{FileId, KeyspaceId};
use crate::engine::commit::PayloadPlace;
use crate::engine::lane::LaneId;
use crate::engine::replay::lane::Pending;
use crate::log::batch::BatchReader;
use crate::log::format::FRAME_HEADER_BYTES;

/// Records whose places are fetched together.
const RECORDS: usize = 16;
/// Bytes of frames that are held at most, besides one frame.
const BYTES_MAX: usize = 1 << 20;

/// A frame that belongs to the log.
pub(super) struct Taken {
    /// Its lane.
    pub(super) lane: LaneId,
    /// The segment that it stands in.
    pub(super) file: FileId,
    /// The frame.
    pub(super) frame: Pending,
}

impl Taken {
    /// Where its payload stands, in the value lane.
    pub(super) fn place(&self) -> Option<PayloadPlace> {
        let offset = self.frame.offset + FRAME_HEADER_BYTES as u64;
        (self.lane == LaneId::Values).then_some(PayloadPlace { file: self.file, offset })
    }

    fn records(&self) -> BatchReader<'_> {
        let Pending { header, payload, .. } = &self.frame;
        match self.lane {
            LaneId::Journal => BatchReader::new(payload, header.count),
            LaneId::Values => BatchReader::of_values(payload, header.count, None),
        }
    }
}

/// Such frames, in the order of their seqs.
#[derive(Default)]
pub(super) struct Window {
    frames: Vec<Taken>,
    records: usize,
    bytes: usize,
}

impl Window {
    /// Adds the next frame; whether it is time to empty the window.
    pub(super) fn push(&mut self, taken: Taken) -> bool {
        self.records += taken.frame.header.count as usize;
        self.bytes += taken.frame.payload.len();
        self.frames.push(taken);
        self.records >= RECORDS || self.bytes >= BYTES_MAX
    }

    /// Where the first of its records go. One that cannot be decoded ends them: whoever inserts it
    /// says why.
    pub(super) fn first_keys(&self) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        let records = self.frames.iter().flat_map(Taken::records);
        records.map_while(|record| record.ok().map(|r| (r.keyspace, r.key))).take(RECORDS)
    }

    /// Takes all frames out.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, Taken> {
        (self.records, self.bytes) = (0, 0);
        self.frames.drain(..)
    }
}

#[cfg(test)]
mod tests;
