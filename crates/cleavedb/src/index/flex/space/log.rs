//! The logical log: one frame for each group of records, so that a group is there as a whole or
//! not at all. Frames, segments of the log and their chain are those of the journal; groups take
//! the place of seqs.
//!
//! An edit names how far the log counts ([`LogEnd`]). What lies below is proved, and damage there
//! is an error; what lies behind was never committed, torn or whole, and is left where it is: after
//! an open the log goes on in a new file that names the good part of the one before.
//!
//! Owned by the space's one writer. Invariants: LL-1 groups are counted without a gap from the one
//! after the checkpoint on. LL-2 no byte below an end that was named is written again.

pub(crate) mod dump;
mod verify;

use std::path::PathBuf;
use std::time::Duration;

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FILE_ID_MAX, FileKind, file_name};
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::index::flex::space::SpaceContext;
use crate::index::flex::space::record::Record;
use crate::io::Purpose;
use crate::log::format::{FRAME_HEADER_BYTES, FrameRef, Sealed};
use crate::log::reader::{ReadOptions, SegmentReader};
use crate::log::writer::{SegmentSpec, SegmentWriter};

pub(super) use verify::verify;

/// How far a log counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The newest file.
    pub(crate) file: FileId,
    /// Bytes of it that count.
    pub(crate) bytes: u64,
    /// Number of the last group.
    pub(crate) group: u64,
    /// Checksum of the bytes of it that count: another file as long would hold as well.
    pub(crate) checksum: u32,
}

impl LogEnd {
    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        [self.file.0, self.bytes, self.group].iter().for_each(|number| put_varint(out, *number));
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// The part of the newest file that counts.
    pub(super) fn sealed(&self) -> Sealed {
        Sealed { id: self.file, bytes: self.bytes, checksum: self.checksum }
    }

    /// Reads one.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (file, bytes, group) = (FileId(reader.varint()?), reader.varint()?, reader.varint()?);
        if !(1..=FILE_ID_MAX).contains(&file.0) || group == 0 {
            return Err(Error::corruption("a log cannot end there"));
        }
        Ok(Self { file, bytes, group, checksum: reader.u32()? })
    }
}

/// A file of the log: what keeps it on disk. Starts out doomed, as segments do.
pub(crate) struct LogFile {
    id: FileId,
    context: Arc<SpaceContext>,
    doomed: AtomicBool,
}

impl LogFile {
    fn new(context: &Arc<SpaceContext>, id: FileId) -> Arc<Self> {
        Arc::new(Self { id, context: Arc::clone(context), doomed: AtomicBool::new(true) })
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    fn path(&self) -> PathBuf {
        self.context.dir.join(file_name(FileKind::FlexLog, self.id))
    }

    /// A durable edit names the file.
    pub(super) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// No durable edit needs the file any more.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            self.context.obsolete.push(FileKind::FlexLog, self.id);
        }
    }
}

/// Where a log stood before a group.
pub(super) struct Position {
    files: usize,
    before: Option<Sealed>,
    group: u64,
    bytes: u64,
    since: Option<Duration>,
}

/// The log of one space since its last checkpoint.
pub(crate) struct Log {
    context: Arc<SpaceContext>,
    writer: Option<SegmentWriter>,
    /// Oldest first.
    files: Vec<Arc<LogFile>>,
    /// Good part of the newest file, where that is not being written.
    before: Option<Sealed>,
    /// Number of the last group.
    group: u64,
    /// Bytes of all files.
    bytes: u64,
    /// When its oldest group came, or was found by an open; none without a group.
    since: Option<Duration>,
    /// Nobody knows what the newest file holds.
    is_broken: bool,
}

impl Log {
    /// A log without groups behind a checkpoint that holds this one as its last.
    pub(crate) fn new(context: &Arc<SpaceContext>, group: u64) -> Self {
        Self {
            context: Arc::clone(context),
            writer: None,
            files: Vec::new(),
            before: None,
            group,
            bytes: 0,
            since: None,
            is_broken: false,
        }
    }

    /// Number of the last group.
    pub(crate) fn group(&self) -> u64 {
        self.group
    }

    /// Bytes since the last checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When its oldest group came, by the clock of this process; none without a group.
    pub(crate) fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Whether a failure has left it so that nothing can be appended.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Its files, oldest first.
    pub(crate) fn files(&self) -> &[Arc<LogFile>] {
        &self.files
    }

    /// Where it stands.
    pub(super) fn position(&self) -> Position {
        let before = self.writer.as_ref().map(SegmentWriter::good_part).or(self.before);
        let (group, bytes, since) = (self.group, self.bytes, self.since);
        Position { files: self.files.len(), before, group, bytes, since }
    }

    /// Takes back what was appended since then: it goes on in a new file behind the part that
    /// counts.
    pub(super) fn withdraw(&mut self, position: Position) {
        if position.group != self.group && !planted!("flex_withdrawn_group_stays_in_log") {
            self.writer = None;
            self.files.truncate(position.files);
            (self.before, self.group) = (position.before, position.group);
            (self.bytes, self.since) = (position.bytes, position.since);
        }
    }

    /// Appends a group and makes it durable. A failure that leaves the log as it was, such as a
    /// full disk, is no reason to stop; [`Log::is_broken`] tells.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<LogEnd> {
        let next = self.group + 1;
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin(next)?,
        };
        let before = writer.bytes();
        let frame = FrameRef { base_seq: next, count: 1, payload };
        if let Err(error) = writer.append_frames(&[frame], self.group) {
            // What was appended is cut off again, or nobody knows what is there.
            self.is_broken = error.is_fatal();
            self.writer = Some(writer);
            return Err(error.into_error());
        }
        if !planted!("flex_log_not_synced")
            && let Err(error) = writer.sync()
        {
            self.is_broken = true;
            return Err(error);
        }
        let Sealed { id, bytes, checksum } = writer.good_part();
        let end = LogEnd { file: id, bytes, group: next, checksum };
        self.bytes += end.bytes - before;
        self.group = next;
        self.since.get_or_insert(self.context.io.clock.now());
        self.writer = Some(writer);
        Ok(end)
    }

    /// Makes the next file; its name is durable when this returns.
    fn begin(&mut self, first_group: u64) -> Result<SegmentWriter> {
        let file = LogFile::new(&self.context, self.context.ids.next());
        let spec = SegmentSpec {
            kind: FileKind::FlexLog,
            id: file.id(),
            uuid: self.context.owner.uuid,
            predecessor: self.before,
            first_seq: first_group,
            purpose: Purpose::Flush,
            preallocate_bytes: 0,
        };
        let made = SegmentWriter::create(&self.context.io, &file.path(), &spec);
        let writer = made.map_err(|error| {
            self.is_broken = error.is_fatal();
            error.into_error()
        })?;
        let dir = &self.context.dir;
        let synced = self.context.io.disk.sync_dir(dir);
        synced.map_err(|e| Error::io("syncing the directory of a log", dir, e))?;
        self.bytes += writer.bytes();
        self.files.push(file);
        self.before = None;
        Ok(writer)
    }

    /// Reads what counts of a log whose checkpoint holds `group` as its last, and hands out each
    /// record in order.
    pub(crate) fn replay(
        context: &Arc<SpaceContext>,
        group: u64,
        end: &LogEnd,
        redo: &mut dyn FnMut(&Record) -> Result<()>,
    ) -> Result<Self> {
        let mut chain: Vec<(SegmentReader, Arc<LogFile>, u64, Sealed)> = Vec::new();
        let (mut next, mut bytes, mut sealed) = (end.file, end.bytes, end.sealed());
        loop {
            let file = LogFile::new(context, next);
            file.keep();
            let (reader, predecessor) = open(context, &file, Purpose::Recovery)?;
            chain.push((reader, file, bytes, sealed));
            // Each names an older one: this comes to an end.
            let Some(before) = predecessor else { break };
            (next, bytes, sealed) = (before.id, before.bytes, before);
        }
        let mut log = Self::new(context, group);
        for (mut reader, file, bytes, sealed) in chain.into_iter().rev() {
            log.group = read_file(&mut reader, log.group, bytes, redo)
                .map_err(|e| e.in_file(&file.path()))?;
            let good = reader.good_part().sealed;
            if sealed != good {
                let error = Error::corruption("a log's file is not the one that was written");
                return Err(error.in_file(&file.path()));
            }
            log.before = Some(good);
            log.bytes += bytes;
            log.files.push(file);
        }
        log.since = Some(context.io.clock.now());
        if log.group != end.group {
            let message = format!("a log of {} groups, {} were committed", log.group, end.group);
            return Err(Error::corruption(message));
        }
        Ok(log)
    }
}

/// Opens a file of a log; returns the one that it goes on from, too.
fn open(
    context: &SpaceContext,
    file: &LogFile,
    purpose: Purpose,
) -> Result<(SegmentReader, Option<Sealed>)> {
    let options = ReadOptions {
        kind: FileKind::FlexLog,
        id: file.id,
        uuid: context.owner.uuid,
        sealed: None,
        contiguous: true,
        purpose,
    };
    let reader = SegmentReader::open(&context.io, &file.path(), options)?;
    let Some(predecessor) = reader.header().map(|header| header.predecessor) else {
        let error = Error::corruption("a log's file without a header");
        return Err(error.in_file(&file.path()));
    };
    Ok((reader, predecessor))
}

/// Reads one file of a log up to where it counts, behind a group; returns the last one.
fn read_file(
    reader: &mut SegmentReader,
    mut group: u64,
    end: u64,
    redo: &mut dyn FnMut(&Record) -> Result<()>,
) -> Result<u64> {
    let damaged = |at: u64, what: &str| Error::corruption(what.to_owned()).at_offset(at);
    while reader.good_part().sealed.bytes < end {
        let at = reader.good_part().sealed.bytes;
        let Some(frame) = reader.next_frame()? else {
            return Err(damaged(at, "a log ends before what was committed"));
        };
        if frame.header.base_seq != group + 1 || frame.header.count != 1 {
            return Err(damaged(frame.offset, "a group of a log is missing"));
        }
        let mut records = Reader::new(frame.payload);
        while !records.is_empty() {
            let record_at = FRAME_HEADER_BYTES + frame.payload.len() - records.rest().len();
            let done = Record::decode(&mut records).and_then(|record| redo(&record));
            done.map_err(|error| error.at_offset(frame.offset + record_at as u64))?;
        }
        group += 1;
    }
    if reader.good_part().sealed.bytes != end {
        return Err(damaged(end, "a log counts up to the middle of a group"));
    }
    Ok(group)
}
