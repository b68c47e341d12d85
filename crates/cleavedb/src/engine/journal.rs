//! The journal lane: open segment, sealed segments, and what is durable.
//!
//! Invariants: J1 only the commit leader appends, rolls or seals. J2 `synced` never exceeds what a
//! successful sync covered; syncs run one at a time, because the kernel reports a failed
//! write-back to one caller only. J3 the manifest names every segment before a frame in it is
//! acknowledged, so a vanished segment is noticed.

use std::collections::VecDeque;

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::planted::planted;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::io::{DiskFile, Purpose};
use crate::log::format::{FrameRef, SEGMENT_HEADER_BYTES, Sealed};
use crate::log::writer::{AppendError, BlankSegment, SegmentSpec, SegmentWriter};

mod ahead;

use ahead::Ahead;

/// A segment that still holds unflushed frames, or the open one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its number.
    pub(crate) id: FileId,
    /// Last seq in it; for the open one, the last appended.
    pub(crate) last_seq: Seq,
    /// Length and checksum once sealed.
    pub(crate) sealed: Option<Sealed>,
}

struct Tail {
    handle: Option<Arc<dyn DiskFile>>,
    appended: Seq,
    synced: Seq,
    segments: VecDeque<Segment>,
}

/// The lane.
pub(crate) struct Journal {
    writer: Mutex<Option<SegmentWriter>>,
    tail: Mutex<Tail>,
    syncing: Mutex<()>,
    segment_bytes: AtomicU64,
    /// Bytes of the open segment whose write-back has been asked for.
    write_back_bytes: AtomicU64,
    ahead: Ahead,
    /// Bytes appended since the database was opened, and how many of them are flushed.
    appended_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
}

impl Journal {
    /// A lane without an open segment: `segments` are sealed, everything up to `last_seq` durable.
    pub(crate) fn new(segments: VecDeque<Segment>, last_seq: Seq) -> Self {
        let bytes = segments.iter().filter_map(|s| s.sealed).map(|s| s.bytes).sum();
        Self {
            writer: Mutex::new(None),
            tail: Mutex::new(Tail { handle: None, appended: last_seq, synced: last_seq, segments }),
            syncing: Mutex::new(()),
            segment_bytes: AtomicU64::new(0),
            write_back_bytes: AtomicU64::new(0),
            ahead: Ahead::default(),
            appended_bytes: AtomicU64::new(bytes),
            flushed_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes of frames that no flush has made superfluous yet.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        let appended = self.appended_bytes.load(Ordering::Relaxed);
        appended.saturating_sub(self.flushed_bytes.load(Ordering::Relaxed))
    }

    /// Bytes appended so far: the mark that a frozen memtable remembers.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(Ordering::Relaxed)
    }

    /// Notes that everything up to a mark is flushed.
    pub(crate) fn set_flushed_bytes(&self, mark: u64) {
        self.flushed_bytes.fetch_max(mark, Ordering::Relaxed);
    }

    /// Bytes in the open segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Whether the open segment holds no frame yet.
    pub(crate) fn open_segment_is_empty(&self) -> bool {
        self.segment_bytes() <= SEGMENT_HEADER_BYTES as u64
    }

    /// Last durable seq.
    pub(crate) fn synced_seq(&self) -> Seq {
        self.tail.lock().synced
    }

    /// Whether anything appended is not durable yet.
    pub(crate) fn has_unsynced(&self) -> bool {
        let tail = self.tail.lock();
        tail.appended > tail.synced
    }

    /// All segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.tail.lock().segments.iter().cloned().collect()
    }

    /// Sealed segments that hold nothing above `flushed`. Never the newest: while the journal is
    /// rolled it is sealed already, but the edit that says so, and names its successor, is yet to
    /// come and must find it in the manifest.
    pub(crate) fn superfluous(&self, flushed: Seq) -> Vec<FileId> {
        let tail = self.tail.lock();
        let done = |s: &&Segment| s.sealed.is_some() && s.last_seq <= flushed;
        let older = tail.segments.len().saturating_sub(1);
        tail.segments.iter().take(older).take_while(done).map(|s| s.id).collect()
    }

    /// Notes a segment that was replayed to its end and cut there.
    pub(crate) fn replayed(&self, id: FileId, last_seq: Seq, sealed: Sealed) {
        let mut tail = self.tail.lock();
        tail.appended = last_seq;
        tail.synced = last_seq;
        if let Some(segment) = tail.segments.iter_mut().find(|segment| segment.id == id) {
            segment.last_seq = last_seq;
            segment.sealed = Some(sealed);
        }
    }

    /// Forgets segments whose removal is durable.
    pub(crate) fn forget(&self, ids: &[FileId]) {
        self.tail.lock().segments.retain(|segment| !ids.contains(&segment.id));
    }
}

impl Engine {
    /// Appends one group under leadership. On error nothing was appended, or the database stops.
    /// A group of deletes that meets a full disk goes on in the reserve.
    pub(crate) fn append_group(
        self: &Arc<Self>,
        frames: &[FrameRef<'_>],
        last_seq: Seq,
        frees_space: bool,
    ) -> Result<()> {
        let had_reserve = !self.reserve.is_given_up();
        let outcome = self.append_to_journal(frames, last_seq);
        let given_up = had_reserve && self.reserve.is_given_up();
        match outcome {
            Err(error) if error.kind() == ErrorKind::NoSpace && frees_space && given_up => {
                self.append_to_journal(frames, last_seq)
            }
            outcome => outcome,
        }
    }

    fn append_to_journal(self: &Arc<Self>, frames: &[FrameRef<'_>], last_seq: Seq) -> Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        let durable = self.journal.synced_seq();
        let mut guard = self.journal.writer.lock();
        let writer = guard.as_mut().ok_or_else(no_segment)?;
        let before = writer.bytes();
        match writer.append_frames(frames, durable) {
            Ok(_) => {}
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
        }
        let after = writer.bytes();
        drop(guard);
        self.journal.segment_bytes.store(after, Ordering::Relaxed);
        self.journal.appended_bytes.fetch_add(after - before, Ordering::Relaxed);
        let mut tail = self.journal.tail.lock();
        tail.appended = last_seq;
        if let Some(open) = tail.segments.back_mut() {
            open.last_seq = last_seq;
        }
        Ok(())
    }

    /// Makes everything appended so far durable; returns at once where it is already.
    pub(crate) fn sync_journal(&self) -> Result<()> {
        let _one_at_a_time = self.journal.syncing.lock();
        self.health.check_writable()?;
        let (handle, appended) = {
            let tail = self.journal.tail.lock();
            if tail.appended <= tail.synced {
                return Ok(());
            }
            (tail.handle.clone(), tail.appended)
        };
        let start = self.io.clock.now();
        if let Some(handle) = handle
            && !planted!("skip_journal_sync")
            && let Err(cause) = handle.sync_data()
        {
            let error = Error::io("sync of the journal", &self.dir, cause);
            if planted!("ignore_sync_error") {
                return Ok(());
            }
            self.stop(&error);
            return Err(error);
        }
        self.metrics.record(Operation::JournalSync, self.io.clock.now().saturating_sub(start));
        self.metrics.journal_syncs.fetch_add(1, Ordering::Relaxed);
        let mut tail = self.journal.tail.lock();
        tail.synced = tail.synced.max(appended);
        Ok(())
    }

    /// Notes in the journal that everything before is durable, so that damage to it is never taken
    /// for a torn tail. Under leadership; an append that fails and is cut back is no loss.
    pub(crate) fn append_watermark(&self) -> Result<()> {
        let (next_seq, durable) = {
            let tail = self.journal.tail.lock();
            (tail.appended + 1, tail.synced)
        };
        let mut guard = self.journal.writer.lock();
        let writer = guard.as_mut().ok_or_else(no_segment)?;
        match writer.append_watermark(next_seq, durable) {
            Ok(range) => {
                self.journal.segment_bytes.store(range.end, Ordering::Relaxed);
                Ok(())
            }
            Err(AppendError::Recoverable(_)) => Ok(()),
            Err(AppendError::Fatal(error)) => {
                self.stop(&error);
                Err(error)
            }
        }
    }

    /// Seals the open segment, if any, and begins the next one. Under leadership: all writers wait.
    pub(crate) fn roll_journal(self: &Arc<Self>) -> Result<()> {
        let start = self.io.clock.now();
        let outcome = self.seal_and_begin();
        let waited = self.io.clock.now().saturating_sub(start);
        self.metrics.stalled(Reason::JournalRoll, waited);
        outcome
    }

    fn seal_and_begin(self: &Arc<Self>) -> Result<()> {
        mark!("journal_rolled");
        let sealed = self.seal_journal()?;
        let mut outcome = self.begin_segment(sealed);
        if let Err(error) = &outcome
            && !self.health.is_stopped()
            && self.note_full_disk(error)
        {
            outcome = self.begin_segment(sealed);
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
    pub(crate) fn seal_journal(&self) -> Result<Option<Sealed>> {
        let _one_at_a_time = self.journal.syncing.lock();
        let Some(writer) = self.journal.writer.lock().take() else {
            return Ok(self.journal.tail.lock().segments.back().and_then(|s| s.sealed));
        };
        let sealed = writer.seal().inspect_err(|error| self.stop(error))?;
        if let Some(handle) = &self.journal.tail.lock().handle {
            // Nobody reads it before a recovery: the page cache is for what readers want.
            handle.drop_cached(0, sealed.bytes);
        }
        let mut tail = self.journal.tail.lock();
        tail.synced = tail.appended;
        tail.handle = None;
        if let Some(open) = tail.segments.back_mut() {
            open.sealed = Some(sealed);
        }
        Ok(Some(sealed))
    }

    /// Creates the next segment and names it in the manifest.
    pub(crate) fn begin_segment(self: &Arc<Self>, predecessor: Option<Sealed>) -> Result<()> {
        let last_seq = self.journal.tail.lock().appended;
        let writer = self.create_segment(predecessor, last_seq + 1)?;
        let (id, path) = (writer.id(), writer.path().to_owned());
        let mut edits = Vec::new();
        if let Some(sealed) = predecessor {
            edits.push(JournalEdit::Sealed { sealed, last_seq });
        }
        edits.push(JournalEdit::Added { id });
        let named = self.commit_edit(vec![JournalEdit::encode(&edits)], |engine| {
            let mut tail = engine.journal.tail.lock();
            tail.handle = Some(writer.sync_handle());
            let last_seq = tail.appended;
            tail.segments.push_back(Segment { id, last_seq, sealed: None });
            Ok(())
        });
        if let Err(error) = named {
            if !self.health.is_stopped() {
                // The manifest is as it was before: nothing names the file.
                let _ = self.io.disk.remove_file(&path);
            }
            return Err(error);
        }
        self.journal.segment_bytes.store(writer.bytes(), Ordering::Relaxed);
        self.journal.write_back_bytes.store(writer.bytes(), Ordering::Relaxed);
        self.journal.ahead.ask_again();
        *self.journal.writer.lock() = Some(writer);
        Ok(())
    }

    /// The file of the next segment, with its header, durable with its name. It was set aside in
    /// the background, or is made now.
    fn create_segment(&self, predecessor: Option<Sealed>, first_seq: Seq) -> Result<SegmentWriter> {
        let blank = self.take_blank_segment();
        let id = blank.as_ref().map_or_else(|| self.file_ids.next(), BlankSegment::id);
        let spec = SegmentSpec {
            kind: FileKind::Journal,
            id,
            uuid: self.uuid,
            predecessor,
            first_seq,
            purpose: Purpose::Journal,
            preallocate_bytes: self.widths.journal_segment_bytes.min(PREALLOCATE_BYTES_MAX),
        };
        if let Some(blank) = blank {
            mark!("journal_begun_in_blank_file");
            return SegmentWriter::begin(&self.io, blank, &spec).map_err(AppendError::into_error);
        }
        let path = self.dir.join(file_name(FileKind::Journal, id));
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
    Error::new(ErrorKind::Stopped, "the journal has no open segment; reopen the database")
}

/// A change to the set of segments. On disk: never renumber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalEdit {
    /// 1: frames may stand in this segment from here on.
    Added {
        /// Its number.
        id: FileId,
    },
    /// 2: the segment is complete.
    Sealed {
        /// Number, exact length, checksum.
        sealed: Sealed,
        /// Last seq in it or before it.
        last_seq: Seq,
    },
    /// 3: nothing in the segment is needed any more.
    Removed {
        /// Its number.
        id: FileId,
    },
}

impl JournalEdit {
    /// The edits as a section.
    pub(crate) fn encode(edits: &[Self]) -> Section {
        let mut payload = Vec::new();
        for edit in edits {
            match edit {
                Self::Added { id } => {
                    payload.push(1);
                    put_varint(&mut payload, id.0);
                }
                Self::Sealed { sealed, last_seq } => {
                    payload.push(2);
                    put_varint(&mut payload, sealed.id.0);
                    put_varint(&mut payload, sealed.bytes);
                    put_varint(&mut payload, u64::from(sealed.checksum));
                    put_varint(&mut payload, *last_seq);
                }
                Self::Removed { id } => {
                    payload.push(3);
                    put_varint(&mut payload, id.0);
                }
            }
        }
        Section { tag: SectionTag::JOURNAL, payload }
    }

    /// The edits of a section.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(match reader.u8()? {
                1 => Self::Added { id: FileId(reader.varint()?) },
                2 => {
                    let id = FileId(reader.varint()?);
                    let bytes = reader.varint()?;
                    let checksum = reader.varint_u32()?;
                    let sealed = Sealed { id, bytes, checksum };
                    let last_seq = reader.varint()?;
                    if last_seq > SEQ_MAX {
                        return Err(Error::corruption("a sealed segment ends out of range"));
                    }
                    Self::Sealed { sealed, last_seq }
                }
                3 => Self::Removed { id: FileId(reader.varint()?) },
                other => return Err(Error::corruption(format!("unknown journal edit {other}"))),
            });
        }
        Ok(edits)
    }

    /// Applies the edit to the list of segments.
    pub(crate) fn apply(self, segments: &mut VecDeque<Segment>) -> Result<()> {
        let find = |segments: &mut VecDeque<Segment>, id: FileId| {
            segments.iter().position(|segment| segment.id == id).ok_or_else(|| {
                Error::corruption(format!("the manifest names journal {id} before adding it"))
            })
        };
        match self {
            Self::Added { id } => {
                if segments.back().is_some_and(|newest| newest.id >= id) {
                    let message = format!("the manifest adds journal {id} after a newer one");
                    return Err(Error::corruption(message));
                }
                segments.push_back(Segment { id, last_seq: 0, sealed: None });
            }
            Self::Sealed { sealed, last_seq } => {
                let at = find(segments, sealed.id)?;
                if let Some(segment) = segments.get_mut(at) {
                    if segment.sealed.is_some_and(|before| before != sealed) {
                        let message = format!("journal {} is sealed twice, differently", sealed.id);
                        return Err(Error::corruption(message));
                    }
                    segment.last_seq = last_seq;
                    segment.sealed = Some(sealed);
                }
            }
            Self::Removed { id } => {
                let at = find(segments, id)?;
                segments.remove(at);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
