//! A walk over the separated records of a sealed segment, in the order of writing: for the one look
//! that decides which of them survive.
//!
//! Where records are short, the whole segment is read; where they are long, their first bytes, and
//! then the values of those that die are never read. Owned by one thread. Invariants: RW-1
//! keyspace, key and seq of what is met are proved: by the checksum of the frame, or by that of the
//! footer, whose line has the key's hash. RW-2 each record that is left in the segment is met once,
//! in the same order in each walk. RW-3 no length is larger than the segment justifies (rule F8).

use crate::base::checksum::KeyedHash;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::io::disk::BatchRead;
use crate::io::meter::HeldMemory;
use crate::io::{DiskFile, Io, Purpose};
use crate::log::batch::BatchReader;
use crate::log::footer::Line;
use crate::log::format::{FRAME_HEADER_BYTES, FrameKind};
use crate::log::punched::Punched;
use crate::log::reader::{Frame, ReadOptions, SegmentReader};
use crate::log::separated::SEPARATED_BYTES_MAX;
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;
use crate::values::sample::{HEAD_BYTES, key_of};
use crate::values::segment::read_footer;

/// Records of so many bytes, on average, are looked at by their first bytes alone. The device
/// brings some pages for each, so that there is little to save where records are not much longer.
const LONG_RECORD_BYTES: u64 = 16 << 10;

/// Heads that are read together: enough to keep the device busy.
const HEADS: usize = 256;

/// Bytes of a page, in which the device reads a head.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a record up to the end of its key, at most: kind, keyspace and length come before it.
const KEYED_HEAD_BYTES: usize = 1 + 5 + 3 + KEY_BYTES_MAX;

/// A sealed segment that is rewritten.
pub(super) struct Segment {
    /// Pins the file.
    pub(super) file: Arc<ValueFile>,
    /// What is known of it.
    pub(super) sealed: SealedValues,
    /// What was given back of it.
    pub(super) punched: Option<Arc<Punched>>,
    /// Its number among the sources.
    pub(super) source: u16,
}

impl Segment {
    /// An error of the bytes at this place.
    pub(super) fn damaged(&self, offset: u64, error: Error) -> Error {
        error.in_file(self.file.path()).at_offset(offset)
    }

    /// An error of a read at this place; what ends before its end is damaged.
    pub(super) fn failed(&self, offset: u64, error: std::io::Error) -> Error {
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.damaged(offset, Error::corruption("the value segment ends early"));
        }
        Error::io("reading a value segment", self.file.path(), error).at_offset(offset)
    }

    /// Whether anything is left in it to be looked at.
    pub(super) fn is_empty(&self) -> bool {
        let gone = self.punched.as_ref().map_or(0, |punched| punched.records);
        self.sealed.totals.records <= gone
    }
}

/// A record that was met.
pub(super) struct Met<'a> {
    pub(super) keyspace: KeyspaceId,
    pub(super) key: &'a [u8],
    pub(super) seq: Seq,
    /// Where in the segment it begins.
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// All of it, where all of it was read. It has not proved its place yet.
    pub(super) whole: Option<&'a [u8]>,
}

/// What is done with a record that was met.
pub(super) type Visit<'a> = dyn FnMut(&Met<'_>) -> Result<()> + 'a;

/// A walk.
pub(super) struct Walk {
    way: Way,
    held: HeldMemory,
}

enum Way {
    /// All frames of the segment.
    Frames(Box<SegmentReader>),
    /// The first bytes of each record.
    Heads(Heads),
}

impl Walk {
    /// Begins to walk over a segment.
    pub(super) fn begin(io: &Io, segment: &Segment) -> Result<Self> {
        let held = HeldMemory::new(&io.meter, Purpose::Collection);
        let totals = segment.sealed.totals;
        if totals.record_bytes / totals.records.max(1) >= LONG_RECORD_BYTES
            && let Some(heads) = Heads::begin(io, segment)?
        {
            return Ok(Self { way: Way::Heads(heads), held });
        }
        let options = ReadOptions {
            kind: FileKind::Value,
            id: segment.file.id(),
            uuid: *segment.file.uuid(),
            sealed: Some(segment.sealed.sealed),
            contiguous: false,
            purpose: Purpose::Collection,
        };
        let punched = segment.punched.as_ref().map(Arc::clone);
        let reader = SegmentReader::open_punched(io, segment.file.path(), options, punched)?;
        Ok(Self { way: Way::Frames(Box::new(reader)), held })
    }

    /// Shows the next few records, or none of a frame that has none. Returns how many bytes that
    /// took of the device, roughly; `None` at the end.
    pub(super) fn step(&mut self, segment: &Segment, visit: &mut Visit<'_>) -> Result<Option<u64>> {
        match &mut self.way {
            Way::Frames(reader) => {
                let Some(frame) = reader.next_frame()? else { return Ok(None) };
                show_frame(segment, &frame, visit)?;
                let bytes = frame.header.frame_bytes();
                self.held.set(reader.memory_bytes() as u64);
                Ok(Some(bytes))
            }
            Way::Heads(heads) => heads.step(segment, visit, &mut self.held),
        }
    }
}

/// Shows the separated records of a frame; the others are in the index, and here dead bytes.
fn show_frame(segment: &Segment, frame: &Frame<'_>, visit: &mut Visit<'_>) -> Result<()> {
    if frame.header.kind != FrameKind::Data {
        return Ok(());
    }
    let payload_offset = frame.offset + FRAME_HEADER_BYTES as u64;
    // The payload has proved itself. The records prove their places when they are moved: so each
    // value is summed once more, and that of a record which dies not at all.
    let records = BatchReader::of_values(frame.payload, frame.header.count, None);
    for (operation, record) in (0_u64..).zip(records) {
        let record = record.map_err(|e| segment.damaged(frame.offset, e))?;
        let Some(separated) = record.separated else { continue };
        let offset = payload_offset + separated.start as u64;
        let (record, bytes) = (separated.record, separated.record.bytes());
        if record.seq != frame.header.base_seq.saturating_add(operation) {
            let message = "a value's record has another seq than its frame";
            return Err(segment.damaged(offset, Error::corruption(message)));
        }
        let whole = frame.payload.get(separated.start..).and_then(|rest| rest.get(..bytes));
        let (keyspace, key, seq) = (record.keyspace, record.key, record.seq);
        visit(&Met { keyspace, key, seq, offset, bytes: bytes as u32, whole })?;
    }
    Ok(())
}

/// A walk by the lines of the footer.
struct Heads {
    io: Io,
    disk_file: Arc<dyn DiskFile>,
    hash: KeyedHash,
    /// Records that are left in the segment.
    lines: Vec<Line>,
    next: usize,
}

impl Heads {
    /// `None` where the segment has no footer.
    fn begin(io: &Io, segment: &Segment) -> Result<Option<Self>> {
        let Segment { file, sealed, punched, .. } = segment;
        let (disk_file, path) = (file.disk_file()?, file.path());
        let (seed, purpose) = (file.seed(), Purpose::Collection);
        let footer = read_footer(io, &*disk_file, path, seed, &sealed.sealed, purpose)?;
        let Some(footer) = footer else { return Ok(None) };
        let fits = |line: &Line| {
            let end = line.offset.checked_add(u64::from(line.bytes));
            end.is_some_and(|end| end <= sealed.sealed.bytes)
                && line.bytes as usize <= SEPARATED_BYTES_MAX
        };
        if footer.totals != sealed.totals || !footer.lines.iter().all(fits) {
            let error = Error::corruption("the footer is not that of the segment that was sealed");
            return Err(segment.damaged(sealed.sealed.bytes, error));
        }
        let mut lines = footer.lines;
        if let Some(punched) = punched {
            lines.retain(|line| !punched.has(line));
        }
        let hash = KeyedHash::new(file.uuid());
        Ok(Some(Self { io: io.clone(), disk_file, hash, lines, next: 0 }))
    }

    fn step(
        &mut self,
        segment: &Segment,
        visit: &mut Visit<'_>,
        held: &mut HeldMemory,
    ) -> Result<Option<u64>> {
        let rest = self.lines.get(self.next..).unwrap_or_default();
        let lines = rest.get(..HEADS).unwrap_or(rest);
        if lines.is_empty() {
            return Ok(None);
        }
        let mut reads: Vec<_> = lines.iter().map(|line| self.head(line)).collect();
        let heads_bytes: usize = reads.iter().map(|read| read.buffer.len()).sum();
        held.set((self.lines.capacity() * size_of::<Line>() + heads_bytes) as u64);
        self.io.disk.read_batch(&mut reads);
        self.io.meter.batch_submitted();
        for (line, read) in lines.iter().zip(reads) {
            read.result.map_err(|e| segment.failed(line.offset, e))?;
            self.io.meter.read(Purpose::Collection, read.buffer.len() as u64);
            self.show(segment, line, &read.buffer, visit)?;
        }
        self.next += lines.len();
        Ok(Some(lines.len() as u64 * PAGE_BYTES))
    }

    fn head(&self, line: &Line) -> BatchRead {
        let buffer = vec![0; line.bytes.min(HEAD_BYTES) as usize];
        let file = Arc::clone(&self.disk_file);
        BatchRead { file, offset: line.offset, buffer, result: Ok(()) }
    }

    /// Shows the record of a line, of which the first bytes have been read.
    fn show(
        &self,
        segment: &Segment,
        line: &Line,
        head: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let Line { seq, offset, bytes, hash } = *line;
        let mut longer = Vec::new();
        let proved = |head| key_of(head).filter(|(of, key)| self.hash.hash(*of, key) == hash);
        let found = match proved(head) {
            None => {
                // A long key, or damage.
                longer.resize((bytes as usize).min(KEYED_HEAD_BYTES), 0);
                let read = self.disk_file.read_exact_at(&mut longer, offset);
                read.map_err(|e| segment.failed(offset, e))?;
                self.io.meter.read(Purpose::Collection, longer.len() as u64);
                key_of(&longer).filter(|(of, key)| self.hash.hash(*of, key) == hash)
            }
            found => found,
        };
        let Some((keyspace, key)) = found else {
            let error = Error::corruption("a record is not its footer's");
            return Err(segment.damaged(offset, error));
        };
        visit(&Met { keyspace, key, seq, offset, bytes, whole: None })
    }
}
