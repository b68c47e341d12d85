//! Appends frames to one segment file.
//!
//! Owned by one thread at a time (the lane's leader); syncing goes through [`SegmentWriter::
//! sync_handle`], which any thread may use meanwhile.
//!
//! Invariants:
//! W-1 what is acknowledged is a prefix of the file, and the rolling checksum covers exactly it;
//! W-2 bytes behind the acknowledged tail are zero or past the end, or the writer is broken: an
//!     append that failed is cut off and the cut is synced before anything else is written there
//!     (rule F6: what a crash leaves is never a mix of two attempts);
//! W-3 a broken writer writes nothing more.

use std::path::{Path, PathBuf};

use crate::base::checksum::Rolling;
use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::io::disk::OpenMode;
use crate::io::meter::Meter;
use crate::io::{DiskFile, Io, Purpose};
use crate::log::format::{
    FrameKind, FrameRef, SEGMENT_HEADER_BYTES, Sealed, SegmentHeader, encode_frame,
};
use crate::log::group::Spot;
#[cfg(any(test, feature = "sim"))]
use crate::log::group::{ValueFrame, encode_values};
use crate::log::rewrite::cut_tail;

/// Capacity of the encoding buffer that is kept between groups; a larger one is given back.
pub(crate) const BUFFER_BYTES_KEPT: usize = 1 << 20;
/// Times that a write which took less than all of it is tried again.
const SHORT_WRITES_MAX: u32 = 3;

/// What a new segment is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSpec {
    /// What the frames hold.
    pub(crate) kind: FileKind,
    /// Number of the file; never used before.
    pub(crate) id: FileId,
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// The sealed segment before this one (rule F4).
    pub(crate) predecessor: Option<Sealed>,
    /// Seq that the first frame is to carry.
    pub(crate) first_seq: Seq,
    /// Why the bytes are written.
    pub(crate) purpose: Purpose,
    /// Zeroed space to keep ahead of the tail, so that a sync need not commit the file's length;
    /// zero for none.
    pub(crate) preallocate_bytes: u64,
}

impl SegmentSpec {
    fn header(&self) -> SegmentHeader {
        SegmentHeader {
            kind: self.kind,
            uuid: self.uuid,
            id: self.id,
            predecessor: self.predecessor,
            first_seq: self.first_seq,
        }
    }
}

/// Why an append failed, and what that means.
#[derive(Clone, Debug)]
pub(crate) enum AppendError {
    /// Nothing of it is in the file and the writer goes on: report, make room, try again.
    Recoverable(Error),
    /// What is in the file is not known: no more writes until the database is reopened.
    Fatal(Error),
}

impl AppendError {
    #[cfg(test)]
    /// The error itself.
    pub(crate) fn error(&self) -> &Error {
        match self {
            Self::Recoverable(error) | Self::Fatal(error) => error,
        }
    }

    /// The error itself, where it does not matter which kind of failure it was. (No `From`: it
    /// would take the type of every `?` out of the compiler's reach.)
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Recoverable(error) | Self::Fatal(error) => error,
        }
    }

    /// Whether the writer is of no more use.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Fatal(_))
    }
}

/// Where in the file a group of frames stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRange {
    /// Offset of the first frame.
    pub(crate) start: u64,
    /// Offset just after the last one.
    pub(crate) end: u64,
}

/// A file set aside for a segment that is not begun yet: no name points to it, all of it is zero.
pub(crate) struct BlankSegment {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: FileId,
    file_bytes: u64,
}

impl BlankSegment {
    /// Creates the file with `bytes` of zeroed space and syncs it; the caller syncs the directory.
    /// A file that could not be finished is removed again where the disk lets us.
    pub(crate) fn create(io: &Io, path: &Path, id: FileId, bytes: u64) -> Result<Self> {
        let fail = |cause| Error::io("setting a log segment aside", path, cause);
        let file = io.disk.create(path, OpenMode::default()).map_err(fail)?;
        let file_bytes = match file.allocate(bytes) {
            Ok(()) => bytes,
            Err(refusal) if is_unsupported(&refusal) => 0,
            Err(refusal) => {
                drop(io.disk.remove_file(path));
                return Err(fail(refusal));
            }
        };
        if let Err(cause) = file.sync_data() {
            drop(io.disk.remove_file(path));
            return Err(fail(cause));
        }
        Ok(Self { file, path: path.to_owned(), id, file_bytes })
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Appends frames to one segment.
pub(crate) struct SegmentWriter {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: FileId,
    seed: u32,
    checksum: Rolling,
    tail: u64,
    file_bytes: u64,
    preallocate_bytes: u64,
    buffer: Vec<u8>,
    meter: Arc<Meter>,
    purpose: Purpose,
    next_purpose: Option<Purpose>,
    broken: bool,
}

impl SegmentWriter {
    /// Creates the file, writes its header and syncs both; the caller syncs the directory. A
    /// file that could not be finished is removed again where the disk lets us. Only a failed
    /// sync is fatal.
    pub(crate) fn create(io: &Io, path: &Path, spec: &SegmentSpec) -> Result<Self, AppendError> {
        let file = io
            .disk
            .create(path, OpenMode::default())
            .map_err(|e| AppendError::Recoverable(Error::io("creating a log segment", path, e)))?;
        let blank = BlankSegment { file, path: path.to_owned(), id: spec.id, file_bytes: 0 };
        Self::begin(io, blank, spec)
    }

    /// Begins the segment in a file set aside for it: writes its header and syncs it. `spec` has
    /// the file's number. On errors as [`SegmentWriter::create`].
    fn begin(io: &Io, blank: BlankSegment, spec: &SegmentSpec) -> Result<Self, AppendError> {
        Self::begin_unsynced(io, blank, spec)?.with_header_synced(io).map_err(AppendError::Fatal)
    }

    /// Makes the header durable. Where that fails the file is removed: nothing names it yet, and
    /// what is in it nobody knows.
    pub(crate) fn with_header_synced(mut self, io: &Io) -> Result<Self> {
        match self.sync() {
            Ok(()) => Ok(self),
            Err(error) => {
                mark!("log_segment_creation_failed");
                drop(io.disk.remove_file(&self.path));
                Err(error)
            }
        }
    }

    /// The same but for the sync, which comes before the manifest names the file. A failure is
    /// never fatal.
    pub(crate) fn begin_unsynced(
        io: &Io,
        blank: BlankSegment,
        spec: &SegmentSpec,
    ) -> Result<Self, AppendError> {
        debug_assert_eq!(blank.id, spec.id);
        let header = spec.header();
        let BlankSegment { file, path, id, file_bytes } = blank;
        let mut writer = Self {
            file,
            path,
            id,
            seed: header.seed(),
            checksum: Rolling::new(header.seed()),
            tail: 0,
            file_bytes,
            preallocate_bytes: spec.preallocate_bytes,
            buffer: Vec::new(),
            meter: Arc::clone(&io.meter),
            purpose: spec.purpose,
            next_purpose: None,
            broken: false,
        };
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        header.encode(&mut bytes);
        match writer.write_header(&bytes) {
            Ok(()) => Ok(writer),
            Err(error) => {
                mark!("log_segment_creation_failed");
                drop(io.disk.remove_file(&writer.path));
                Err(error)
            }
        }
    }

    fn write_header(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        self.make_room(bytes.len() as u64).map_err(AppendError::Recoverable)?;
        self.file.write_all_at(bytes, 0).map_err(|e| {
            AppendError::Recoverable(Error::io("writing a segment's header", &self.path, e))
        })?;
        self.acknowledge(bytes);
        Ok(())
    }

    /// Goes on with a segment that a reader has read to its end; whatever lies behind the last
    /// good frame is cut off, and the file synced, first.
    pub(crate) fn resume(io: &Io, path: &Path, spec: &SegmentSpec, from: Resume) -> Result<Self> {
        let seed = spec.header().seed();
        let file = cut_tail(io, path, seed, &from.sealed)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            id: spec.id,
            seed,
            checksum: from.checksum,
            tail: from.sealed.bytes,
            file_bytes: from.sealed.bytes,
            preallocate_bytes: spec.preallocate_bytes,
            buffer: Vec::new(),
            meter: Arc::clone(&io.meter),
            purpose: spec.purpose,
            next_purpose: None,
            broken: false,
        })
    }

    /// What the bytes of the next append count as; `None`: as those of the segment.
    pub(crate) fn count_as(&mut self, purpose: Option<Purpose>) {
        self.next_purpose = purpose;
    }

    /// Appends a group of frames with one write. Returns once the bytes are in the kernel; they
    /// are durable after the next sync. `durable_seq`: every operation up to this seq, in every
    /// lane, is known to be on the device.
    pub(crate) fn append_frames(
        &mut self,
        frames: &[FrameRef<'_>],
        durable_seq: Seq,
    ) -> Result<FrameRange, AppendError> {
        self.append(FrameKind::Data, frames, durable_seq)
    }

    /// Appends a frame without operations that says how far everything was made durable: after
    /// it has been written, damage before it is never taken for a torn tail.
    pub(crate) fn append_watermark(
        &mut self,
        next_seq: Seq,
        durable_seq: Seq,
    ) -> Result<FrameRange, AppendError> {
        let frame = FrameRef { base_seq: next_seq, count: 0, payload: &[] };
        self.append(FrameKind::Synced, &[frame], durable_seq)
    }

    /// Appends a group of frames of the value lane, encoded for [`SegmentWriter::spot`], with one
    /// write.
    pub(crate) fn append_encoded(&mut self, bytes: &[u8]) -> Result<FrameRange, AppendError> {
        self.check_unbroken()?;
        self.write(bytes)
    }

    /// Encodes and appends such a group. `buffer` afterwards holds what was written.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn append_values(
        &mut self,
        frames: &[ValueFrame<'_>],
        durable_seq: Seq,
        buffer: &mut Vec<u8>,
    ) -> Result<FrameRange, AppendError> {
        buffer.clear();
        encode_values(frames.iter().copied(), durable_seq, self.spot(), buffer)
            .map_err(AppendError::Recoverable)?;
        self.append_encoded(buffer)
    }

    /// Appends the footer of a value segment (`log::footer`), which is then to be sealed.
    pub(crate) fn append_footer(
        &mut self,
        next_seq: Seq,
        durable_seq: Seq,
        payload: &[u8],
    ) -> Result<FrameRange, AppendError> {
        let frame = FrameRef { base_seq: next_seq, count: 0, payload };
        self.append(FrameKind::Footer, &[frame], durable_seq)
    }

    fn append(
        &mut self,
        kind: FrameKind,
        frames: &[FrameRef<'_>],
        durable_seq: Seq,
    ) -> Result<FrameRange, AppendError> {
        self.check_unbroken()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let written = self.encode_and_write(kind, frames, durable_seq, &mut buffer);
        if buffer.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = buffer;
        }
        written
    }

    fn encode_and_write(
        &mut self,
        kind: FrameKind,
        frames: &[FrameRef<'_>],
        durable_seq: Seq,
        buffer: &mut Vec<u8>,
    ) -> Result<FrameRange, AppendError> {
        let start = self.tail;
        for &frame in frames {
            let offset = start + buffer.len() as u64;
            encode_frame(kind, frame, durable_seq, self.seed, offset, buffer)
                .map_err(AppendError::Recoverable)?;
        }
        self.write(buffer)
    }

    fn check_unbroken(&self) -> Result<(), AppendError> {
        if !self.broken {
            return Ok(());
        }
        let message = "an earlier write to this log segment failed";
        Err(AppendError::Fatal(Error::new(ErrorKind::Stopped, message).in_file(&self.path)))
    }

    /// Writes encoded frames at the tail, with one call that took all of them: two could leave a
    /// sector as the first one made it beside one of the second, which no torn write looks like.
    fn write(&mut self, buffer: &[u8]) -> Result<FrameRange, AppendError> {
        let start = self.tail;
        let mut short_writes = 0;
        loop {
            self.make_room(buffer.len() as u64).map_err(AppendError::Recoverable)?;
            let source = match write_once(&*self.file, buffer, start) {
                Ok(count) if count == buffer.len() => break,
                Ok(_) => None,
                Err(source) => Some(source),
            };
            let is_last = source.is_some() || short_writes == SHORT_WRITES_MAX;
            // What makes a disk write less than it was asked to, again and again, is want of room.
            let source = source.unwrap_or_else(|| std::io::ErrorKind::StorageFull.into());
            let error = Error::io("appending to a log segment", &self.path, source);
            let failed = self.cut_back(error);
            if is_last || matches!(failed, AppendError::Fatal(_)) {
                return Err(failed);
            }
            mark!("log_short_write");
            short_writes += 1;
        }
        self.acknowledge(buffer);
        Ok(FrameRange { start, end: self.tail })
    }

    /// Extends the zeroed space when the next `bytes` do not fit in what there is. An error here
    /// leaves the acknowledged part as it was.
    fn make_room(&mut self, bytes: u64) -> Result<()> {
        let needed = self.tail + bytes;
        if self.preallocate_bytes == 0 || needed <= self.file_bytes {
            return Ok(());
        }
        let chunk = needed.next_multiple_of(self.preallocate_bytes);
        let mut refusal = match self.allocate(chunk) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        if is_unsupported(&refusal) {
            mark!("log_preallocation_unsupported");
            self.preallocate_bytes = 0;
            return Ok(());
        }
        // A full disk may still hold what is wanted right now.
        if chunk > needed {
            match self.allocate(needed) {
                Ok(()) => return Ok(()),
                Err(second) => refusal = second,
            }
        }
        mark!("log_preallocation_failed");
        Err(Error::io("preallocating a log segment", &self.path, refusal))
    }

    fn allocate(&mut self, len: u64) -> std::io::Result<()> {
        loop {
            match self.file.allocate(len) {
                Ok(()) => {
                    self.file_bytes = len;
                    return Ok(());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes `bytes`, which now stand at the tail, into the acknowledged part (W-1).
    fn acknowledge(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
        self.tail += bytes.len() as u64;
        self.file_bytes = self.file_bytes.max(self.tail);
        let purpose = self.next_purpose.take().unwrap_or(self.purpose);
        self.meter.wrote(purpose, bytes.len() as u64);
    }

    /// Removes what a failed write may have left behind the tail (W-2).
    fn cut_back(&mut self, error: Error) -> AppendError {
        let cut = self.file.set_len(self.tail).and_then(|()| self.file.sync_data());
        match cut {
            Ok(()) => {
                mark!("log_append_cut_back");
                self.file_bytes = self.tail;
                AppendError::Recoverable(error)
            }
            Err(second) => {
                mark!("log_append_cut_failed");
                self.broken = true;
                let context = format!("cutting the log back failed too ({second})");
                AppendError::Fatal(error.context(context))
            }
        }
    }

    /// Makes everything acknowledged durable. A failure is final: the caller stops all writes.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| {
            self.broken = true;
            Error::io("syncing a log segment", &self.path, e)
        })
    }

    /// The file, so that the caller can sync it without holding the writer.
    pub(crate) fn sync_handle(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }

    /// The part that is acknowledged so far: what a successor names if nothing else comes to count.
    pub(crate) fn good_part(&self) -> Sealed {
        Sealed { id: self.id, bytes: self.tail, checksum: self.checksum.value() }
    }

    /// Ends the segment: cuts the preallocated space, and says what the file is once it is synced.
    pub(crate) fn end(&mut self) -> Result<Sealed> {
        if self.broken {
            let message = "an earlier write to this log segment failed";
            return Err(Error::new(ErrorKind::Stopped, message).in_file(&self.path));
        }
        if self.file_bytes > self.tail {
            self.file
                .set_len(self.tail)
                .map_err(|e| Error::io("cutting a log segment to length", &self.path, e))?;
        }
        Ok(self.good_part())
    }

    /// Ends the segment and syncs it.
    #[cfg(test)]
    pub(crate) fn seal(mut self) -> Result<Sealed> {
        let sealed = self.end()?;
        self.sync()?;
        Ok(sealed)
    }

    /// Acknowledged bytes: header and whole frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.tail
    }

    /// Where the next frame goes.
    pub(crate) fn spot(&self) -> Spot {
        Spot { file: self.id, seed: self.seed, start: self.tail }
    }

    /// Seed of every checksum in the file.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Path of the file, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The state from which a writer goes on with a file that was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    /// Length and checksum of the good part.
    pub(crate) sealed: Sealed,
    /// The rolling checksum after the good part.
    pub(crate) checksum: Rolling,
}

/// One write, tried again only where it was interrupted before it took anything.
fn write_once(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> std::io::Result<usize> {
    loop {
        match file.write_at(bytes, offset) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Whether the file system has no preallocation at all, so that trying again is of no use.
fn is_unsupported(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::Unsupported | std::io::ErrorKind::InvalidInput)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod value_tests;
