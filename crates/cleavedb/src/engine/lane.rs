//! A lane of the log: its open segment, its sealed segments, and what of it is not synced yet.
//!
//! Invariants: J1 only the commit leader appends, rolls or seals. J3 the manifest names every
//! segment before a frame in it is acknowledged, so a vanished segment is noticed. J5 a segment is
//! sealed only after both lanes were synced, so that no gap of seqs lies below a sealed segment.
//! (`logs` states what holds of both lanes together.)

use std::collections::VecDeque;

use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::pacing::Reason;
use crate::engine::state::Publication;
use crate::io::{DiskFile, Purpose};
use crate::log::footer::Line;
use crate::log::format::{SEGMENT_HEADER_BYTES, Sealed};
use crate::log::writer::{AppendError, BlankSegment, SegmentSpec, SegmentWriter};
use crate::values::edit::{SealedValues, ValuesEdit};

mod ahead;
mod edit;
mod open_segment;

use ahead::Ahead;
pub(crate) use edit::JournalEdit;
use open_segment::OpenSegment;
pub(crate) use open_segment::{Group, GroupPlace};

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

    /// Appends one group under leadership; of the value lane also where it stands. On error nothing
    /// was appended, or the database stops. A group of deletes that meets a full disk goes on in
    /// the reserve.
    pub(crate) fn append_group(
        self: &Arc<Self>,
        id: LaneId,
        group: &Group<'_>,
        frees_space: bool,
    ) -> Result<Option<GroupPlace>> {
        let had_reserve = !self.reserve.is_given_up();
        let outcome = self.append_to_lane(id, group);
        let given_up = had_reserve && self.reserve.is_given_up();
        match outcome {
            Err(error) if error.kind() == ErrorKind::NoSpace && frees_space && given_up => {
                self.append_to_lane(id, group)
            }
            outcome => outcome,
        }
    }

    fn append_to_lane(
        self: &Arc<Self>,
        id: LaneId,
        group: &Group<'_>,
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
        let place = match open.append(group, durable, &self.value_tail) {
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
        lane.held_bytes.store(open.memory_bytes(), Ordering::Relaxed);
        drop(guard);
        lane.appended(group.last_seq, after);
        self.logs.set_appended(group.last_seq, after - before);
        Ok(place)
    }

    /// Starts writing back what was appended to either lane, where that is much.
    pub(crate) fn start_write_back(&self) {
        self.journal.start_write_back();
        self.value_lane.start_write_back();
    }

    /// Ends the open segments that hold anything, so that no file in force grows. Under leadership.
    pub(crate) fn roll_lanes(self: &Arc<Self>) -> Result<()> {
        if self.value_lane.is_open() {
            mark!("value_segment_ended");
            self.end_value_segment()?;
        }
        if self.journal.is_empty() { Ok(()) } else { self.roll_lane(LaneId::Journal) }
    }

    /// Seals the open value segment; the next separated value begins the next one.
    pub(crate) fn end_value_segment(self: &Arc<Self>) -> Result<()> {
        self.seal_lane(LaneId::Values)?;
        self.name_sealed_values()
    }

    /// Tells the manifest how the last value segment was sealed, if it does not know.
    pub(crate) fn name_sealed_values(&self) -> Result<()> {
        match self.sealing_section() {
            Some(section) => self.commit_edit(vec![section], |_| Ok(Publication::default())),
            None => Ok(()),
        }
    }

    /// What the manifest is to be told of the value segment sealed last, if it does not know yet.
    fn sealing_section(&self) -> Option<Section> {
        let sealed = self.value_lane.tail.lock().sealed_values?;
        let view = self.view.load();
        let entry = view.values.get(sealed.sealed.id)?;
        let is_known = entry.state.sealed.is_some();
        (!is_known).then(|| ValuesEdit::encode(&[ValuesEdit::Sealed(sealed)]))
    }

    /// Seals the open segment, if any, and begins the next one. Under leadership: all writers wait.
    pub(crate) fn roll_lane(self: &Arc<Self>, id: LaneId) -> Result<()> {
        let start = self.io.clock.now();
        let outcome = self.seal_and_begin(id);
        let waited = self.io.clock.now().saturating_sub(start);
        let reason = match id {
            LaneId::Journal => Reason::JournalRoll,
            LaneId::Values => Reason::ValueLogRoll,
        };
        self.metrics.stalled(reason, waited);
        outcome
    }

    fn seal_and_begin(self: &Arc<Self>, id: LaneId) -> Result<()> {
        mark!("journal_rolled");
        let sealed = self.seal_lane(id)?;
        // What a segment's header names as its first seq says that everything before is durable.
        self.sync_logs()?;
        let mut outcome = self.begin_segment(id, sealed);
        if let Err(error) = &outcome
            && !self.health.is_stopped()
            && self.note_full_disk(error)
        {
            outcome = self.begin_segment(id, sealed);
        }
        match &outcome {
            // The next write begins the segment, once there is room.
            Err(error) if error.kind() == ErrorKind::NoSpace => {}
            // Without an open segment nothing can be logged.
            Err(error) => self.stop(error),
            Ok(()) => {}
        }
        outcome
    }

    /// Seals the open segment and returns what the next one names as its predecessor.
    pub(crate) fn seal_lane(&self, id: LaneId) -> Result<Option<Sealed>> {
        let lane = self.lane(id);
        let _one_at_a_time = self.logs.syncing.lock();
        let Some(open) = lane.writer.lock().take() else {
            return Ok(lane.tail.lock().segments.back().and_then(|s| s.sealed));
        };
        // Nor does a record whose large value is not there.
        self.sync_large()?;
        // A gap never lies below a sealed segment (J5).
        if !planted!("seal_syncs_own_lane_only") {
            self.lane(id.other()).sync().map_err(|cause| self.stopped_by_sync(cause))?;
        }
        let next_seq = self.logs.appended_seq() + 1;
        let last_seq = lane.tail.lock().last_seq;
        let sealed = open.seal(next_seq, self.logs.synced_seq(), last_seq);
        let (sealed, values) = sealed.inspect_err(|error| self.stop(error))?;
        lane.segment_bytes.store(0, Ordering::Relaxed);
        lane.held_bytes.store(0, Ordering::Relaxed);
        {
            let mut tail = lane.tail.lock();
            if let Some(handle) = tail.handle.take()
                && id == LaneId::Journal
            {
                // Nobody reads it before a recovery: the page cache is for what readers want.
                handle.drop_cached(0, sealed.bytes);
            }
            tail.unsynced = false;
            tail.sealed_values = values;
            if let Some(open) = tail.segments.back_mut() {
                open.sealed = Some(sealed);
            }
        }
        self.logs.set_synced(next_seq - 1);
        Ok(Some(sealed))
    }

    /// Creates the next segment and names it in the manifest.
    pub(crate) fn begin_segment(
        self: &Arc<Self>,
        id: LaneId,
        predecessor: Option<Sealed>,
    ) -> Result<()> {
        let lane = self.lane(id);
        let first_seq = self.logs.appended_seq() + 1;
        let writer = self.create_segment(id, predecessor, first_seq)?;
        let (file, path) = (writer.id(), writer.path().to_owned());
        let sections = self.naming_sections(id, predecessor, file);
        let named = self.commit_edit(sections, |engine| {
            let mut tail = engine.lane(id).tail.lock();
            tail.handle = Some(writer.sync_handle());
            let last_seq = tail.last_seq;
            tail.segments.push_back(Segment { id: file, last_seq, sealed: None });
            Ok(Publication::default())
        });
        if let Err(error) = named {
            if !self.health.is_stopped() {
                // The manifest is as it was before: nothing names the file.
                let _ = self.io.disk.remove_file(&path);
            }
            return Err(error);
        }
        lane.segment_bytes.store(writer.bytes(), Ordering::Relaxed);
        lane.write_back_bytes.store(writer.bytes(), Ordering::Relaxed);
        lane.ahead.ask_again();
        let published = self.view.load().values.get(file).map(|entry| Arc::clone(&entry.file));
        *lane.writer.lock() = Some(OpenSegment::new(writer, published));
        Ok(())
    }

    /// The sections of an edit that names a lane's next segment, and says how the one before it
    /// was sealed.
    fn naming_sections(
        &self,
        id: LaneId,
        predecessor: Option<Sealed>,
        file: FileId,
    ) -> Vec<Section> {
        if id == LaneId::Values {
            let mut sections: Vec<Section> = self.sealing_section().into_iter().collect();
            sections.push(ValuesEdit::encode(&[ValuesEdit::Added { id: file }]));
            return sections;
        }
        let last_seq = self.journal.tail.lock().last_seq;
        let sealed = predecessor.map(|sealed| JournalEdit::Sealed { sealed, last_seq });
        let edits: Vec<_> = sealed.into_iter().chain([JournalEdit::Added { id: file }]).collect();
        vec![JournalEdit::encode(&edits)]
    }

    /// The file of the next segment, with its header, durable with its name. It was set aside in
    /// the background, or is made now.
    fn create_segment(
        &self,
        lane: LaneId,
        predecessor: Option<Sealed>,
        first_seq: Seq,
    ) -> Result<SegmentWriter> {
        let blank = self.take_blank_segment(lane);
        let id = blank.as_ref().map_or_else(|| self.file_ids.next(), BlankSegment::id);
        let spec = SegmentSpec {
            kind: lane.file_kind(),
            id,
            uuid: self.uuid,
            predecessor,
            first_seq,
            purpose: lane.purpose(),
            preallocate_bytes: self.segment_bytes_max(lane).min(PREALLOCATE_BYTES_MAX),
        };
        if let Some(blank) = blank {
            mark!("journal_begun_in_blank_file");
            return SegmentWriter::begin(&self.io, blank, &spec).map_err(AppendError::into_error);
        }
        let path = self.dir.join(file_name(lane.file_kind(), id));
        let writer =
            SegmentWriter::create(&self.io, &path, &spec).map_err(AppendError::into_error)?;
        self.io
            .disk
            .sync_dir(&self.dir)
            .map_err(|cause| Error::io("sync of the directory", &self.dir, cause))?;
        Ok(writer)
    }
}

/// Space reserved ahead of the tail at a time.
const PREALLOCATE_BYTES_MAX: u64 = 16 << 20;

fn no_segment() -> Error {
    Error::new(ErrorKind::Stopped, "the log has no open segment; reopen the database")
}

#[cfg(test)]
mod tests;
