//! The end of a segment of a lane, and the begin of the next one.
//!
//! All writers wait meanwhile, for the device above all: the last bytes of the one segment and the
//! first of the other are synced side by side where the next file is there already, and what can be
//! done later is. A header says that everything before is durable; that it may be so before the
//! bytes that it speaks of does no harm, as its file counts only once the manifest names it (J3),
//! which is after both.

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::file_name;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::lane::open_segment::{Ended, OpenSegment};
use crate::engine::lane::{JournalEdit, LaneId, Segment};
use crate::engine::pacing::Reason;
use crate::engine::state::Publication;
use crate::io::executor::Priority;
use crate::log::format::Sealed;
use crate::log::writer::{AppendError, SegmentSpec, SegmentWriter};
use crate::values::edit::ValuesEdit;

/// Space reserved ahead of the tail at a time.
const PREALLOCATE_BYTES_MAX: u64 = 16 << 20;

impl Engine {
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
        let (sealed, begun) = self.seal_and_write_next(id)?;
        // What a segment's header names as its first seq says that everything before is durable.
        self.sync_logs()?;
        let mut outcome = match begun {
            Some(writer) => self.name_segment(id, sealed, writer),
            None => self.begin_segment(id, sealed),
        };
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
        let _one_at_a_time = self.logs.syncing.lock();
        let Some(mut ended) = self.end_open(id)? else { return Ok(self.last_sealed(id)) };
        ended.sync().inspect_err(|error| self.stop(error))?;
        Ok(Some(self.sealed(id, ended)))
    }

    /// The same; where a blank file is there, the next segment is begun in it and synced beside.
    fn seal_and_write_next(&self, id: LaneId) -> Result<(Option<Sealed>, Option<SegmentWriter>)> {
        let _one_at_a_time = self.logs.syncing.lock();
        let Some(mut ended) = self.end_open(id)? else { return Ok((self.last_sealed(id), None)) };
        let Some(mut next) = self.begin_in_blank(id, Some(ended.sealed)) else {
            ended.sync().inspect_err(|error| self.stop(error))?;
            return Ok((Some(self.sealed(id, ended)), None));
        };
        mark!("segments_synced_side_by_side");
        let mut outcomes = [Ok(()), Ok(())];
        let [old, new] = &mut outcomes;
        self.io.executor.fork_join_waits(vec![
            Box::new(|| *old = ended.sync()),
            Box::new(|| *new = next.sync()),
        ]);
        let synced: Result<()> = outcomes.into_iter().collect();
        synced.inspect_err(|error| self.stop(error))?;
        Ok((Some(self.sealed(id, ended)), Some(next)))
    }

    /// How the last segment was sealed.
    fn last_sealed(&self, id: LaneId) -> Option<Sealed> {
        self.lane(id).tail.lock().segments.back().and_then(|segment| segment.sealed)
    }

    /// Gives the open segment, if any, its last byte; everything else is durable then.
    fn end_open(&self, id: LaneId) -> Result<Option<Ended>> {
        let lane = self.lane(id);
        let Some(open) = lane.writer.lock().take() else { return Ok(None) };
        // Nor does a record whose large value is not there.
        self.sync_large()?;
        // A gap never lies below a sealed segment (J5).
        if !planted!("seal_syncs_own_lane_only") {
            self.lane(id.other()).sync().map_err(|cause| self.stopped_by_sync(cause))?;
        }
        let next_seq = self.logs.appended_seq() + 1;
        let last_seq = lane.tail.lock().last_seq;
        let ended = open.end(next_seq, self.logs.synced_seq(), last_seq);
        ended.map(Some).inspect_err(|error| self.stop(error))
    }

    /// Notes that a segment is sealed. Under leadership: nothing was appended since it ended.
    fn sealed(&self, id: LaneId, ended: Ended) -> Sealed {
        let lane = self.lane(id);
        let sealed = ended.sealed;
        let values = ended.into_values();
        lane.segment_bytes.store(0, Ordering::Relaxed);
        lane.held_bytes.store(0, Ordering::Relaxed);
        {
            let mut tail = lane.tail.lock();
            if let Some(handle) = tail.handle.take()
                && id == LaneId::Journal
            {
                // Nobody reads it before a recovery: the page cache is for what readers want. It
                // takes as long as a sync, which nobody has to wait for.
                let step = move || handle.drop_cached(0, sealed.bytes);
                self.io.executor.submit(Priority::Housekeeping, Box::new(step));
            }
            tail.unsynced = false;
            tail.sealed_values = values;
            if let Some(open) = tail.segments.back_mut() {
                open.sealed = Some(sealed);
            }
        }
        self.logs.set_synced(self.logs.appended_seq());
        sealed
    }

    /// Creates the next segment and names it in the manifest.
    pub(crate) fn begin_segment(
        self: &Arc<Self>,
        id: LaneId,
        predecessor: Option<Sealed>,
    ) -> Result<()> {
        let writer = match self.begin_in_blank(id, predecessor) {
            Some(writer) => writer.with_header_synced(&self.io)?,
            None => self.create_segment(id, predecessor)?,
        };
        self.name_segment(id, predecessor, writer)
    }

    /// Names the next segment, whose header is durable, in the manifest: it is open then.
    fn name_segment(
        self: &Arc<Self>,
        id: LaneId,
        predecessor: Option<Sealed>,
        writer: SegmentWriter,
    ) -> Result<()> {
        let lane = self.lane(id);
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

    /// The next segment in the file that was set aside for it, to be synced; none where that is not
    /// there or the header does not go in.
    fn begin_in_blank(&self, id: LaneId, predecessor: Option<Sealed>) -> Option<SegmentWriter> {
        let blank = self.take_blank_segment(id)?;
        let spec = self.segment_spec(id, blank.id(), predecessor);
        mark!("journal_begun_in_blank_file");
        SegmentWriter::begin_unsynced(&self.io, blank, &spec).ok()
    }

    /// The file of the next segment, with its header, durable with its name.
    fn create_segment(&self, id: LaneId, predecessor: Option<Sealed>) -> Result<SegmentWriter> {
        let number = self.file_ids.next();
        let spec = self.segment_spec(id, number, predecessor);
        let path = self.dir.join(file_name(id.file_kind(), number));
        let writer =
            SegmentWriter::create(&self.io, &path, &spec).map_err(AppendError::into_error)?;
        self.io
            .disk
            .sync_dir(&self.dir)
            .map_err(|cause| Error::io("sync of the directory", &self.dir, cause))?;
        Ok(writer)
    }

    fn segment_spec(&self, lane: LaneId, id: FileId, predecessor: Option<Sealed>) -> SegmentSpec {
        SegmentSpec {
            kind: lane.file_kind(),
            id,
            uuid: self.uuid,
            predecessor,
            first_seq: self.logs.appended_seq() + 1,
            purpose: lane.purpose(),
            preallocate_bytes: self.segment_bytes_max(lane).min(PREALLOCATE_BYTES_MAX),
        }
    }
}
