//! Frames that were taken from the log and are on their way into the memtable.
//!
//! While one batch is inserted the next one is read and proved, by another thread where that is
//! worth it. And each record goes to another place in a list that exceeds the caches: the places of
//! some are fetched together, where they would wait for the list's nodes one after the other.
//! Invariant: what is in a batch is neither visible nor in the memtable, which is not frozen before
//! all batches are inserted that were read.

use std::ops::Range;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::Error;
use crate::engine::commit::{PayloadPlace, insert_batch};
use crate::engine::lane::LaneId;
use crate::engine::replay::lane::Pending;
use crate::log::batch::BatchReader;
use crate::log::format::FRAME_HEADER_BYTES;
use crate::memory::memtable::Memtable;

/// Records whose places are fetched together.
const RECORDS: usize = 16;
/// Bytes of frames in a batch, besides one frame: at most, and of a memtable's size.
const BYTES_MAX: u64 = 4 << 20;
const MEMTABLE_PART: u64 = 8;
/// Bytes from which on a batch is inserted by a thread of its own.
const BYTES_APART_MIN: u64 = 256 << 10;

/// A frame that belongs to the log.
struct Taken {
    /// Its lane.
    lane: LaneId,
    /// The segment that it stands in.
    file: FileId,
    /// Where its header begins there.
    offset: u64,
    base_seq: Seq,
    count: u32,
    /// Its payload, in the batch.
    payload: Range<usize>,
}

impl Taken {
    /// Where its payload stands, in the value lane, which has proved its records.
    fn place(&self) -> Option<PayloadPlace> {
        let offset = self.offset + FRAME_HEADER_BYTES as u64;
        (self.lane == LaneId::Values).then_some(PayloadPlace { file: self.file, offset })
    }
}

/// A frame that cannot be inserted.
pub(super) struct NotInserted {
    pub(super) error: Error,
    pub(super) lane: LaneId,
    pub(super) file: FileId,
    pub(super) at: u64,
}

/// Such frames, in the order of their seqs.
#[derive(Default)]
pub(super) struct Batch {
    frames: Vec<Taken>,
    /// Their payloads. One piece of memory that is used again: one for each frame would be given
    /// back to the system, and zeroed by it, over and over.
    payloads: Vec<u8>,
}

impl Batch {
    /// Adds the next frame, of a segment of a lane.
    pub(super) fn push(&mut self, lane: LaneId, file: FileId, frame: &Pending) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(&frame.payload);
        let payload = start..self.payloads.len();
        let (base_seq, count) = (frame.header.base_seq, frame.header.count);
        self.frames.push(Taken { lane, file, offset: frame.offset, base_seq, count, payload });
    }

    /// Lets go of all frames.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.payloads.clear();
    }

    /// Whether it holds what a batch is to hold beside a memtable of this size.
    pub(super) fn is_full(&self, memtable_bytes: u64) -> bool {
        let bytes = self.payloads.len() as u64;
        bytes >= BYTES_MAX.min(memtable_bytes / MEMTABLE_PART).max(1)
    }

    /// Whether a thread of its own is worth its while.
    pub(super) fn is_long(&self) -> bool {
        self.payloads.len() as u64 >= BYTES_APART_MIN
    }

    /// Inserts all of them.
    pub(super) fn insert(&self, memtable: &Memtable) -> Result<(), NotInserted> {
        let mut rest = self.frames.as_slice();
        while !rest.is_empty() {
            let (group, behind) = rest.split_at(group_frames(rest));
            memtable.fetch_places(self.first_keys(group));
            group.iter().try_for_each(|taken| self.insert_frame(taken, memtable))?;
            rest = behind;
        }
        Ok(())
    }

    fn insert_frame(&self, taken: &Taken, memtable: &Memtable) -> Result<(), NotInserted> {
        let Taken { lane, file, offset: at, base_seq, count, .. } = *taken;
        let (payload, place) = (self.payload(taken), taken.place());
        insert_batch(memtable, payload, count, base_seq, place, &mut |_| {})
            .map_err(|error| NotInserted { error, lane, file, at })
    }

    fn payload(&self, taken: &Taken) -> &[u8] {
        self.payloads.get(taken.payload.clone()).unwrap_or_default()
    }

    /// Where the first records of these frames go. One that cannot be decoded ends them: whoever
    /// inserts it says why.
    fn first_keys<'a>(
        &'a self,
        frames: &'a [Taken],
    ) -> impl Iterator<Item = (KeyspaceId, &'a [u8])> {
        let records = |taken: &'a Taken| match taken.lane {
            LaneId::Journal => BatchReader::new(self.payload(taken), taken.count),
            LaneId::Values => BatchReader::of_values(self.payload(taken), taken.count, None),
        };
        let records = frames.iter().flat_map(records);
        records.map_while(|record| record.ok().map(|r| (r.keyspace, r.key))).take(RECORDS)
    }
}

/// How many frames have the next [`RECORDS`] records; at least one.
fn group_frames(frames: &[Taken]) -> usize {
    let mut records = 0;
    let ends_it = |taken: &Taken| {
        records += taken.count as usize;
        records >= RECORDS
    };
    frames.iter().position(ends_it).map_or(frames.len(), |last| last + 1)
}

#[cfg(test)]
mod tests;
