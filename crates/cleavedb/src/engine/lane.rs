//! A lane of the log: its open segment, its sealed segments, and what of it is not synced yet.
//!
//! Invariants: J1 only who has the turn to write (`commit::turn`) appends, rolls or seals. J3 the
//! manifest names every segment before a frame in it is acknowledged, so a vanished segment is
//! noticed. J5 a segment is sealed only after both lanes were synced, so that no gap of seqs lies
//! below a sealed segment.
//! (`logs` states what holds of both lanes together.)

use std::collections::VecDeque;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::io::{DiskFile, Purpose};
use crate::log::footer::Line;
use crate::log::format::{SEGMENT_HEADER_BYTES, Sealed};
use crate::log::group::Spot;
use crate::log::writer::AppendError;
use crate::values::edit::SealedValues;

mod ahead;
mod edit;
mod open_segment;
mod roll;

use ahead::Ahead;
pub(crate) use edit::JournalEdit;
use open_segment::OpenSegment;
pub(crate) use open_segment::{Group, GroupPlace};

/// How often a group of deletes is appended while the disk is full.
const FULL_DISK_TRIES: usize = 3;

/// Which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneId {
    /// Batches whose values go to the index.
    Journal,
    /// Batches with a separated value, which stays where it was logged.
    Values,
}

impl LaneId {
    /// Both lanes.
    pub(crate) const ALL: [Self; 2] = [Self::Journal, Self::Values];

    /// Kind of the segments' files.
    pub(crate) fn file_kind(self) -> FileKind {
        match self {
            Self::Journal => FileKind::Journal,
            Self::Values => FileKind::Value,
        }
    }

    /// Why their bytes are written.
    fn purpose(self) -> Purpose {
        match self {
            Self::Journal => Purpose::Journal,
            Self::Values => Purpose::Values,
        }
    }

    /// The other lane.
    fn other(self) -> Self {
        match self {
            Self::Journal => Self::Values,
            Self::Values => Self::Journal,
        }
    }
}

/// A segment that still holds unflushed frames, or the open one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its number.
    pub(crate) id: FileId,
    /// Last seq in it, or of an older one; for the open one, the last appended.
    pub(crate) last_seq: Seq,
    /// Length and checksum once sealed.
    pub(crate) sealed: Option<Sealed>,
}

struct Tail {
    /// The open segment's file.
    handle: Option<Arc<dyn DiskFile>>,
    /// Whether the open segment holds frames that no sync has covered.
    unsynced: bool,
    /// Last seq in this lane.
    last_seq: Seq,
    /// Of the value lane those only that hold anything unflushed.
    segments: VecDeque<Segment>,
    /// The value segment sealed last.
    sealed_values: Option<SealedValues>,
}

/// The lane.
pub(crate) struct Lane {
    writer: Mutex<Option<OpenSegment>>,
    tail: Mutex<Tail>,
    segment_bytes: AtomicU64,
    /// Bytes of the open segment whose write-back has been asked for.
    write_back_bytes: AtomicU64,
    /// Memory of the open segment's footer in the making, and of its next group.
    held_bytes: AtomicU64,
    ahead: Ahead,
}

impl Lane {
    /// A lane without an open segment: `segments` are sealed, and hold nothing above `last_seq`.
    pub(crate) fn new(segments: VecDeque<Segment>, last_seq: Seq) -> Self {
        Self {
            writer: Mutex::new(None),
            tail: Mutex::new(Tail {
                handle: None,
                unsynced: false,
                last_seq,
                segments,
                sealed_values: None,
            }),
            segment_bytes: AtomicU64::new(0),
            write_back_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            ahead: Ahead::default(),
        }
    }

    /// Bytes in the open segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// The records of the open value segment.
    pub(crate) fn open_lines(&self) -> Option<(FileId, Vec<Line>)> {
        self.writer.lock().as_ref()?.lines()
    }

    /// Memory that the open segment holds besides what it has handed on.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Whether no open segment holds a frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.segment_bytes() <= SEGMENT_HEADER_BYTES as u64
    }

    /// Whether there is a segment to append to.
    pub(crate) fn is_open(&self) -> bool {
        self.writer.lock().is_some()
    }

    /// Where the next group goes.
    pub(crate) fn spot(&self) -> Result<Spot> {
        self.writer.lock().as_ref().map(OpenSegment::spot).ok_or_else(no_segment)
    }

    /// Whether anything was appended that no sync has covered.
    pub(super) fn is_unsynced(&self) -> bool {
        self.tail.lock().unsynced
    }

    /// All segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.tail.lock().segments.iter().cloned().collect()
    }

    /// Sealed segments that hold nothing above `flushed`. Never the newest: while the lane is
    /// rolled it is sealed already, but the edit that says so, and names its successor, is yet to
    /// come and must find it in the manifest.
    pub(crate) fn superfluous(&self, flushed: Seq) -> Vec<FileId> {
        let tail = self.tail.lock();
        let done = |s: &&Segment| s.sealed.is_some() && s.last_seq <= flushed;
        let older = tail.segments.len().saturating_sub(1);
        tail.segments.iter().take(older).take_while(done).map(|s| s.id).collect()
    }

    /// Notes a segment that was replayed to its end and cut there.
    pub(crate) fn replayed(
        &self,
        id: FileId,
        last_seq: Seq,
        sealed: Sealed,
        values: Option<SealedValues>,
    ) {
        let mut tail = self.tail.lock();
        tail.sealed_values = values.or(tail.sealed_values.take());
        tail.last_seq = tail.last_seq.max(last_seq);
        if let Some(segment) = tail.segments.iter_mut().find(|segment| segment.id == id) {
            segment.last_seq = last_seq;
            segment.sealed = Some(sealed);
        }
    }

    /// Forgets segments whose removal is durable.
    pub(crate) fn forget(&self, ids: &[FileId]) {
        self.tail.lock().segments.retain(|segment| !ids.contains(&segment.id));
    }

    /// Syncs what was appended, if anything was. Only under `Logs::syncing`.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let handle = {
            let mut tail = self.tail.lock();
            // What is appended from here on is noted anew.
            if !std::mem::take(&mut tail.unsynced) {
                return Ok(());
            }
            tail.handle.clone()
        };
        handle.map_or(Ok(()), |handle| handle.sync_data())
    }

    /// Appends a frame that says that everything up to `durable` is.
    pub(super) fn append_watermark(&self, next_seq: Seq, durable: Seq) -> Result<(), AppendError> {
        let mut guard = self.writer.lock();
        let open = guard.as_mut().ok_or_else(|| AppendError::Recoverable(no_segment()))?;
        let range = open.writer.append_watermark(next_seq, durable)?;
        self.segment_bytes.store(range.end, Ordering::Relaxed);
        Ok(())
    }

    /// Notes frames that were written, the last one up to `last_seq` (J4).
    fn appended(&self, last_seq: Seq, segment_bytes: u64) {
        self.segment_bytes.store(segment_bytes, Ordering::Relaxed);
        let mut tail = self.tail.lock();
        tail.unsynced = true;
        tail.last_seq = last_seq;
        if let Some(open) = tail.segments.back_mut() {
            open.last_seq = last_seq;
        }
    }
}

impl Engine {
    /// The lane of this name.
    pub(crate) fn lane(&self, id: LaneId) -> &Lane {
        match id {
            LaneId::Journal => &self.journal,
            LaneId::Values => &self.value_lane,
        }
    }

    /// Bytes at which a segment of the lane is full.
    pub(crate) fn segment_bytes_max(&self, id: LaneId) -> u64 {
        match id {
            LaneId::Journal => self.widths.journal_segment_bytes,
            LaneId::Values => self.widths.value_segment_bytes,
        }
    }

    /// Appends one group in its turn; of the value lane, for which `encoded` is what it is at the
    /// lane's spot, also where it stands. On error nothing was appended, or the database stops. A
    /// group of deletes that meets a full disk goes on in the reserve.
    pub(crate) fn append_group(
        self: &Arc<Self>,
        id: LaneId,
        group: &Group<'_>,
        encoded: &mut Vec<u8>,
        frees_space: bool,
    ) -> Result<Option<GroupPlace>> {
        for _ in 1..FULL_DISK_TRIES {
            match self.append_to_lane(id, group, encoded) {
                // The reserve is there now; or whoever tried to restore it held the last of the
                // room, and has given that back.
                Err(error) if error.kind() == ErrorKind::NoSpace && frees_space => {}
                outcome => return outcome,
            }
        }
        self.append_to_lane(id, group, encoded)
    }

    fn append_to_lane(
        self: &Arc<Self>,
        id: LaneId,
        group: &Group<'_>,
        encoded: &mut Vec<u8>,
    ) -> Result<Option<GroupPlace>> {
        let lane = self.lane(id);
        if id == LaneId::Journal && !self.widths.journaled {
            self.logs.set_appended(group.last_seq, 0);
            return Ok(None);
        }
        let durable = self.logs.synced_seq();
        let mut guard = lane.writer.lock();
        let open = guard.as_mut().ok_or_else(no_segment)?;
        let before = open.writer.bytes();
        let place = match open.append(group, encoded, durable, &self.value_tail) {
            Ok(place) => place,
            Err(AppendError::Recoverable(error)) => {
                drop(guard);
                mark!("append_cut_back");
                self.note_full_disk(&error);
                return Err(error);
            }
            Err(AppendError::Fatal(error)) => {
                self.stop(&error);
                return Err(error);
            }
        };
        let after = open.writer.bytes();
        lane.held_bytes.store(open.memory_bytes() + encoded.capacity() as u64, Ordering::Relaxed);
        drop(guard);
        lane.appended(group.last_seq, after);
        self.logs.set_appended(group.last_seq, after - before);
        Ok(place)
    }
}

fn no_segment() -> Error {
    Error::new(ErrorKind::Stopped, "the log has no open segment; reopen the database")
}

#[cfg(test)]
mod tests;
