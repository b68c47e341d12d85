//! Reads the frames of one segment and decides what its end means: clean, torn, or damaged.
//!
//! Owned by one thread. Memory: one read of [`READ_BYTES`], or the largest frame met.
//!
//! Invariants:
//! R-1 a frame is handed out only after every one of its bytes has been checked;
//! R-2 the first frame that does not hold ends the reading: nothing behind it is handed out;
//! R-3 it is a torn tail only if a crash can have left it (rule F3), and no later frame says
//!     that it was durable, and the segment was not sealed; everything else is corruption.
//! R-4 what was given back of a sealed segment is not looked at: the reader goes from the frame
//!     before it to the one behind it.

use std::path::{Path, PathBuf};

use crate::base::checksum::Rolling;
use crate::base::entry::{FileId, Seq};
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::planted::planted;
use crate::base::runs::run_at;
use crate::base::sync::Arc;
use crate::io::disk::OpenMode;
use crate::io::meter::Meter;
use crate::io::{DiskFile, Io, Purpose};
use crate::log::format::{
    FRAME_END, FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEGMENT_HEADER_BYTES, Sealed,
    SegmentHeader, body_may_be_torn, header_may_be_torn, header_sector_bytes, is_zero,
};
use crate::log::punched::{HeaderSum, Punched};
use crate::log::writer::Resume;

mod scan;

/// Bytes asked of the disk at once.
pub(crate) const READ_BYTES: usize = 512 << 10;

/// What the caller knows about a segment before it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOptions {
    /// What the frames hold.
    pub(crate) kind: FileKind,
    /// Number of the file.
    pub(crate) id: FileId,
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// Exact length and checksum, where the manifest or the successor states them: then no tear
    /// is possible.
    pub(crate) sealed: Option<Sealed>,
    /// Whether each frame must begin with the seq after the one before, the first one with the
    /// seq in the header. False where several lanes share the seqs.
    pub(crate) contiguous: bool,
    /// Why the bytes are read.
    pub(crate) purpose: Purpose,
}

/// How a segment ends that is not damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a whole frame (or the header); `at` is the length of the good part. Zeroed space may
    /// follow.
    Clean {
        /// Bytes of the good part.
        at: u64,
    },
    /// With an append that a crash cut short.
    Torn {
        /// Bytes of the good part.
        at: u64,
        /// What is wrong behind it.
        reason: &'static str,
    },
}

impl End {
    #[cfg(test)]
    /// Length of the good part in bytes; zero where not even the header is whole.
    pub(crate) fn at(&self) -> u64 {
        match self {
            Self::Clean { at } | Self::Torn { at, .. } => *at,
        }
    }
}

/// A frame that was read and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Where in the file its header begins.
    pub(crate) offset: u64,
    /// Its header.
    pub(crate) header: FrameHeader,
    /// Its payload.
    pub(crate) payload: &'a [u8],
}

/// Reads one segment from its start.
pub(crate) struct SegmentReader {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    options: ReadOptions,
    seed: u32,
    header: Option<SegmentHeader>,
    file_bytes: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    position: u64,
    checksum: Rolling,
    punched: Option<Arc<Punched>>,
    headers: HeaderSum,
    next_seq: Option<Seq>,
    has_footer: bool,
    durable_seq: Seq,
    end: Option<End>,
    meter: Arc<Meter>,
}

/// A frame that does not hold.
struct Bad {
    reason: &'static str,
    /// Where in the file to point.
    at: u64,
    /// Its first seq, where its header holds.
    base_seq: Option<Seq>,
    /// Where to look on for later frames.
    scan_from: u64,
    /// Whether a crash can have left it so.
    may_be_torn: bool,
}

impl SegmentReader {
    /// Opens a segment and checks its header. A header that a crash cut short is not an error:
    /// [`Self::header`] is then `None` and the end is torn at 0.
    pub(crate) fn open(io: &Io, path: &Path, options: ReadOptions) -> Result<Self> {
        Self::open_punched(io, path, options, None)
    }

    /// [`Self::open`] of a sealed segment of which something may have been given back.
    pub(crate) fn open_punched(
        io: &Io,
        path: &Path,
        options: ReadOptions,
        punched: Option<Arc<Punched>>,
    ) -> Result<Self> {
        debug_assert!(punched.is_none() || options.sealed.is_some());
        let file = io.disk.open(path, OpenMode::default()).map_err(|e| match e.kind() {
            // Whoever asks for it has read of it somewhere on disk.
            std::io::ErrorKind::NotFound => {
                Error::corruption("a log segment is missing").in_file(path)
            }
            _ => Error::io("opening a log segment", path, e),
        })?;
        let file_bytes = file.len().map_err(|e| Error::io("measuring a log segment", path, e))?;
        let seed = crate::base::checksum::file_seed(&options.uuid, options.id.0);
        let mut reader = Self {
            file,
            path: path.to_owned(),
            options,
            seed,
            header: None,
            file_bytes,
            buffer: Vec::new(),
            buffer_offset: 0,
            position: 0,
            checksum: Rolling::new(seed),
            punched,
            headers: HeaderSum::new(seed),
            next_seq: None,
            has_footer: false,
            durable_seq: 0,
            end: None,
            meter: Arc::clone(&io.meter),
        };
        if let Some(sealed) = reader.sealed_strictly()
            && (sealed.bytes != file_bytes || sealed.id != options.id)
        {
            let message = format!("{file_bytes} bytes long; sealed at {} bytes", sealed.bytes);
            return Err(reader.corruption(file_bytes.min(sealed.bytes), message));
        }
        reader.read_segment_header()?;
        Ok(reader)
    }

    /// The segment's header; `None` where a crash cut it short.
    pub(crate) fn header(&self) -> Option<&SegmentHeader> {
        self.header.as_ref()
    }

    /// Memory it takes: of one read, or of the largest frame met.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether the last frame handed out was a footer.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn has_footer(&self) -> bool {
        self.has_footer
    }

    /// Everything up to this seq was durable, as far as any frame met so far says; at a torn end
    /// also those behind it that prove themselves.
    pub(crate) fn durable_seq(&self) -> Seq {
        self.durable_seq
    }

    /// How the segment ends; `None` until [`Self::next_frame`] has returned `None`.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Length and checksum of what has been handed out so far: of the good part, at the end.
    pub(crate) fn good_part(&self) -> Resume {
        let sealed =
            Sealed { id: self.options.id, bytes: self.position, checksum: self.checksum.value() };
        Resume { sealed, checksum: self.checksum }
    }

    /// Seq after the last frame; the header's first seq before any. `None` without a header.
    pub(crate) fn next_seq(&self) -> Option<Seq> {
        self.next_seq
    }

    /// The next frame, or `None` at the end, which [`Self::end`] then explains. Damage is an
    /// error that names file and offset; after an error the reader is of no more use.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        self.pass_over_hole()?;
        let offset = self.position;
        let Some(header) = self.advance()? else {
            return Ok(None);
        };
        let payload_bytes = header.payload_bytes as usize;
        let payload = self
            .cached(offset + FRAME_HEADER_BYTES as u64)
            .get(..payload_bytes)
            .unwrap_or_default();
        debug_assert_eq!(payload.len(), payload_bytes);
        Ok(Some(Frame { offset, header, payload }))
    }

    fn read_segment_header(&mut self) -> Result<()> {
        let ReadOptions { kind, uuid, id, .. } = self.options;
        let bytes = self.fetch(0, SEGMENT_HEADER_BYTES)?;
        let cut = bytes.get(..SEGMENT_HEADER_BYTES).is_none_or(|h| h.last() == Some(&0));
        match SegmentHeader::decode(bytes, kind, &uuid, id) {
            Ok(header) => {
                let (mut checksum, mut headers) = (self.checksum, self.headers);
                checksum.update(self.cached(0).get(..SEGMENT_HEADER_BYTES).unwrap_or_default());
                headers.add_segment(self.cached(0));
                (self.checksum, self.headers) = (checksum, headers);
                self.header = Some(header);
                self.next_seq = Some(header.first_seq);
                self.position = SEGMENT_HEADER_BYTES as u64;
                Ok(())
            }
            Err(error) => {
                // The header is synced before the first frame is written, so a torn one is
                // followed by nothing.
                let torn = cut && self.is_zero_from(SEGMENT_HEADER_BYTES as u64)?;
                if !torn || self.sealed_strictly().is_some() {
                    return Err(error.in_file(&self.path).at_offset(0));
                }
                mark!("log_segment_header_torn");
                self.end = Some(End::Torn { at: 0, reason: "segment header is cut short" });
                Ok(())
            }
        }
    }

    /// Checks the frame at the position and moves past it; `None` at the end.
    fn advance(&mut self) -> Result<Option<FrameHeader>> {
        let at = self.position;
        if at == self.file_bytes {
            return self.finish(End::Clean { at });
        }
        let (seed, sector_bytes) = (self.seed, header_sector_bytes(at));
        let bytes = self.fetch(at, sector_bytes)?;
        let header = match FrameHeader::decode(bytes, seed, at) {
            Ok(header) => header,
            Err(reason) => {
                let seen = bytes.get(..sector_bytes).unwrap_or(bytes);
                let blank = is_zero(seen.get(..FRAME_HEADER_BYTES).unwrap_or(seen));
                let may_be_torn = header_may_be_torn(at, seen);
                if blank && self.is_zero_from(at)? {
                    return self.zeroed_end(at);
                }
                let bad = Bad { reason, at, base_seq: None, scan_from: at + 1, may_be_torn };
                return self.judge(bad);
            }
        };
        if let Some(bad) = self.check_body(at, &header)? {
            return self.judge(bad);
        }
        self.check_footer(at, &header)?;
        if self.options.contiguous && self.next_seq != Some(header.base_seq) {
            let wanted = self.next_seq.unwrap_or_default();
            let message = format!("frame begins with seq {}, not {wanted}", header.base_seq);
            return Err(self.corruption(at, message));
        }
        if self.next_seq > Some(header.base_seq) {
            let message = format!("frame goes back to seq {}", header.base_seq);
            return Err(self.corruption(at, message));
        }
        self.accept(at, &header);
        Ok(Some(header))
    }

    /// Moves behind what was given back, if that begins at the position; no frame reaches into it.
    fn pass_over_hole(&mut self) -> Result<()> {
        let Some(punched) = &self.punched else { return Ok(()) };
        let Some(run) = run_at(&punched.runs, self.position) else { return Ok(()) };
        if run.start != self.position {
            return Err(
                self.corruption(self.position, "a frame reaches into a hole of the segment")
            );
        }
        mark!("log_hole_passed_over");
        self.position = run.end;
        Ok(())
    }

    /// Reads payload and end mark of a frame whose header holds; says what is wrong with them.
    fn check_body(&mut self, at: u64, header: &FrameHeader) -> Result<Option<Bad>> {
        let payload_offset = at + FRAME_HEADER_BYTES as u64;
        let body_bytes = header.payload_bytes as usize + 1;
        let after = at + header.frame_bytes();
        let mut bad = Bad {
            reason: "the file ends within the frame",
            at,
            base_seq: Some(header.base_seq),
            scan_from: after,
            may_be_torn: true,
        };
        if after > self.file_bytes {
            return Ok(Some(bad));
        }
        let seed = self.seed;
        self.fetch(at, FRAME_HEADER_BYTES + body_bytes)?;
        let body = self.cached(payload_offset).get(..body_bytes).unwrap_or_default();
        let Some((&end, payload)) = body.split_last() else {
            return Ok(Some(bad));
        };
        let matches = header.payload_matches(seed, payload_offset, payload);
        if !matches && !planted!("skip_payload_checksum") {
            bad.reason = "payload does not match its checksum";
        } else if end != FRAME_END {
            bad.reason = "end mark of the frame is missing";
        } else {
            return Ok(None);
        }
        bad.may_be_torn = body_may_be_torn(header, payload_offset, body);
        Ok(Some(bad))
    }

    /// A footer is the last frame of a value segment: of no other file, and behind no other one.
    fn check_footer(&mut self, at: u64, header: &FrameHeader) -> Result<()> {
        if self.has_footer {
            return Err(self.corruption(at, "a frame behind the segment's footer"));
        }
        self.has_footer = header.kind == FrameKind::Footer;
        if self.has_footer && self.options.kind != FileKind::Value {
            return Err(self.corruption(at, "a footer in a log that has none"));
        }
        Ok(())
    }

    fn accept(&mut self, at: u64, header: &FrameHeader) {
        let bytes = header.frame_bytes();
        let (mut checksum, mut headers) = (self.checksum, self.headers);
        if self.punched.is_some() {
            headers.add_frame(self.cached(at));
        } else {
            checksum.update(self.cached(at).get(..bytes as usize).unwrap_or_default());
        }
        (self.checksum, self.headers) = (checksum, headers);
        self.position = at + bytes;
        self.next_seq = Some(header.next_seq());
        self.durable_seq = self.durable_seq.max(header.durable_seq);
    }

    /// Nothing but zeros follows: space that was allocated ahead of the tail.
    fn zeroed_end(&mut self, at: u64) -> Result<Option<FrameHeader>> {
        if self.sealed_strictly().is_some() {
            return Err(self.corruption(at, "a sealed segment ends in zeros"));
        }
        self.finish(End::Clean { at })
    }

    /// Decides between a torn tail and damage.
    fn judge(&mut self, bad: Bad) -> Result<Option<FrameHeader>> {
        let torn = End::Torn { at: self.position, reason: bad.reason };
        if self.options.sealed.is_some() {
            if planted!("bad_frame_in_sealed_log_is_tail") {
                return self.finish(torn);
            }
            return Err(self.corruption(bad.at, format!("{} (sealed segment)", bad.reason)));
        }
        if planted!("no_tear_rule") {
            return self.finish(torn);
        }
        if !bad.may_be_torn {
            return Err(self.corruption(bad.at, bad.reason));
        }
        let later = self.scan_later(bad.scan_from)?;
        let first_seq = bad.base_seq.or(if self.options.contiguous { self.next_seq } else { None });
        let first_seq = first_seq.or(later.base_seq_min);
        if first_seq.is_some_and(|seq| later.durable_seq_max >= Some(seq)) {
            mark!("log_damage_below_watermark");
            let message = format!("{}, though it was durable", bad.reason);
            return Err(self.corruption(bad.at, message));
        }
        self.durable_seq = self.durable_seq.max(later.durable_seq_max.unwrap_or(0));
        mark!("log_torn_tail");
        self.finish(torn)
    }

    fn finish(&mut self, end: End) -> Result<Option<FrameHeader>> {
        let is_whole = |sealed: Sealed| match &self.punched {
            Some(punched) => {
                self.position == sealed.bytes && self.headers.value() == punched.checksum
            }
            None => self.good_part().sealed == sealed,
        };
        if !self.sealed_strictly().is_none_or(is_whole) {
            return Err(self.corruption(0, "sealed segment does not match its checksum"));
        }
        self.end = Some(end);
        Ok(None)
    }

    /// What the segment was sealed as, if it was.
    fn sealed_strictly(&self) -> Option<Sealed> {
        let lenient = planted!("bad_frame_in_sealed_log_is_tail");
        self.options.sealed.filter(|_| !lenient)
    }

    fn corruption(&self, offset: u64, message: impl Into<String>) -> Error {
        Error::corruption(message).in_file(&self.path).at_offset(offset)
    }

    /// Bytes in the buffer from `offset` on.
    fn cached(&self, offset: u64) -> &[u8] {
        let skip = offset.checked_sub(self.buffer_offset);
        skip.and_then(|skip| self.buffer.get(usize::try_from(skip).ok()?..)).unwrap_or_default()
    }

    /// Bytes of the file from `offset` on: at least `wanted`, unless the file ends before.
    /// Allocates no more than the file holds (rule F8).
    fn fetch(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let left = self.file_bytes.saturating_sub(offset);
        let enough = (wanted as u64).min(left) as usize;
        if self.cached(offset).len() < enough {
            self.refill(offset, (wanted.max(READ_BYTES) as u64).min(left) as usize)?;
        }
        Ok(self.cached(offset))
    }

    fn refill(&mut self, offset: u64, bytes: usize) -> Result<()> {
        let kept = self.cached(offset).len();
        let drop_bytes = self.buffer.len() - kept;
        self.buffer.drain(..drop_bytes);
        self.buffer_offset = offset;
        if self.buffer.capacity() > 4 * READ_BYTES && bytes <= READ_BYTES {
            self.buffer.shrink_to(READ_BYTES);
        }
        self.buffer.resize(bytes.max(kept), 0);
        let rest = self.buffer.get_mut(kept..).unwrap_or_default();
        let result = self.file.read_exact_at(rest, offset + kept as u64);
        self.meter.read(self.options.purpose, rest.len() as u64);
        result.map_err(|e| Error::io("reading a log segment", &self.path, e).at_offset(offset))
    }
}

#[cfg(test)]
mod tests;
