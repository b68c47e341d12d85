//! A look at all records of a file, by their heads: which frames hold nothing that lives.
//!
//! Read are the headers of the frames, which their checksums prove, and the first bytes of each
//! record for its key, which the hash in the footer's line proves: a key that was read wrongly must
//! not make a live record a dead one.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::runs::{Run, run_at};
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::gc::newest::Moment;
use crate::io::{DiskFile, Purpose};
use crate::log::footer::Line;
use crate::log::format::{FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEGMENT_HEADER_BYTES};
use crate::log::punched::{HeaderSum, Punched};
use crate::values::file_table::TableEntry;
use crate::values::handle::Handle;
use crate::values::sample::{HEAD_BYTES, key_of};
use crate::values::strategy::{Liveness, RecordPlace};

/// Records whose keys are asked for together.
const CHUNK_RECORDS: usize = 1024;

/// Bytes of a record up to the end of its key, at most: kind, keyspace and length come before it.
const KEYED_HEAD_BYTES: usize = 1 + 5 + 3 + KEY_BYTES_MAX;

/// A frame that is left in the file.
struct FrameAt {
    run: Run,
    /// Its header.
    header: [u8; FRAME_HEADER_BYTES],
    /// Its records, by number.
    records: std::ops::Range<usize>,
    /// Whether it may go if its records are dead.
    may_go: bool,
}

/// A record and its key.
struct Record {
    line: Line,
    keyspace: KeyspaceId,
    key: Vec<u8>,
    is_live: bool,
}

/// What was seen of a file.
pub(super) struct Look {
    before: Option<Arc<Punched>>,
    seed: u32,
    segment_header: Vec<u8>,
    frames: Vec<FrameAt>,
    records: Vec<Record>,
}

/// What can be dropped of a file.
pub(super) struct Droppable {
    /// All that is dropped then, what was dropped before included.
    pub(super) punched: Punched,
    /// Smallest seq of the records that would go now.
    pub(super) oldest_record: Seq,
    /// The records that live.
    pub(super) live: Vec<Line>,
    /// Their bytes.
    pub(super) live_record_bytes: u64,
}

/// Reads parts of the file.
struct Heads<'a> {
    engine: &'a Engine,
    entry: &'a TableEntry,
    disk_file: Arc<dyn DiskFile>,
    end: u64,
}

impl Heads<'_> {
    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let bytes = (bytes as u64).min(self.end.saturating_sub(offset)) as usize;
        let mut buffer = vec![0; bytes];
        let failed = |e| Error::io("looking at records", self.entry.file.path(), e);
        self.disk_file
            .read_exact_at(&mut buffer, offset)
            .map_err(|e| failed(e).at_offset(offset))?;
        self.engine.io.meter.read(Purpose::Collection, bytes as u64);
        Ok(buffer)
    }

    fn damaged(&self, offset: u64, message: &str) -> Error {
        Error::corruption(message).in_file(self.entry.file.path()).at_offset(offset)
    }

    /// The record of a line, with what was read already from `start` on.
    fn record(&self, line: Line, start: u64, read: &[u8]) -> Result<Record> {
        let hash = KeyedHash::new(&self.engine.uuid);
        let of_head = |head: &[u8]| {
            let (keyspace, key) = key_of(head)?;
            let proves = hash.hash(keyspace, key) == line.hash;
            proves.then(|| Record { line, keyspace, key: key.to_vec(), is_live: true })
        };
        let skip = line.offset.saturating_sub(start) as usize;
        let in_read = read.get(skip..).and_then(of_head);
        if let Some(record) = in_read {
            return Ok(record);
        }
        // A long key, or one behind others in its frame.
        let head = self.read(line.offset, (line.bytes as usize).min(KEYED_HEAD_BYTES))?;
        of_head(&head).ok_or_else(|| self.damaged(line.offset, "a record is not its footer's"))
    }
}

impl Look {
    /// Looks at a settled file: each record is asked for once.
    pub(super) fn at(engine: &Engine, entry: &TableEntry) -> Result<Self> {
        let file = &entry.file;
        let end = entry.state.sealed.map_or(0, |values| values.sealed.bytes);
        let heads = Heads { engine, entry, disk_file: file.disk_file()?, end };
        let segment_header = heads.read(0, SEGMENT_HEADER_BYTES)?;
        let before = entry.punched.clone();
        let (frames, records) = (Vec::new(), Vec::new());
        let mut look = Self { before, seed: file.seed(), segment_header, frames, records };
        look.walk(&heads, &engine.lines_of(entry)?)?;
        for records in look.records.chunks_mut(CHUNK_RECORDS) {
            if engine.cancelled.load(Ordering::Acquire) {
                return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
            }
            ask(engine, entry, records)?;
        }
        Ok(look)
    }

    /// Goes from frame to frame; `lines` are those of the records in them.
    fn walk(&mut self, heads: &Heads<'_>, lines: &[Line]) -> Result<()> {
        let mut at = SEGMENT_HEADER_BYTES as u64;
        let mut lines = lines.iter().peekable();
        while at < heads.end {
            let gone = self.before.as_ref().and_then(|before| run_at(&before.runs, at));
            if let Some(run) = gone {
                at = run.end;
                continue;
            }
            let read = heads.read(at, FRAME_HEADER_BYTES + HEAD_BYTES as usize)?;
            let frame = FrameHeader::decode(&read, self.seed, at)
                .map_err(|reason| heads.damaged(at, reason))?;
            let run = Run { start: at, end: at.saturating_add(frame.frame_bytes()) };
            let first = self.records.len();
            while let Some(&line) = lines.next_if(|line| line.offset < run.end) {
                self.records.push(heads.record(line, at, &read)?);
            }
            let header = read.first_chunk().copied().unwrap_or([0; FRAME_HEADER_BYTES]);
            let records = first..self.records.len();
            let may_go = frame.kind != FrameKind::Footer;
            self.frames.push(FrameAt { run, header, records, may_go });
            at = run.end;
        }
        let is_whole = at == heads.end && lines.next().is_none();
        if is_whole { Ok(()) } else { Err(heads.damaged(at, "frames beyond the end of the file")) }
    }

    /// The runs of frames without a live record that free at least a block each.
    pub(super) fn droppable(&self, block_bytes: u64) -> Droppable {
        let is_dead = |frame: &&FrameAt| {
            let records = self.records.get(frame.records.clone()).unwrap_or_default();
            frame.may_go && records.iter().all(|record| !record.is_live)
        };
        let mut runs: Vec<Run> = self.frames.iter().filter(is_dead).map(|f| f.run).collect();
        let before = self.before.iter().flat_map(|before| before.runs.iter());
        runs.extend(before);
        runs.sort_unstable_by_key(|run| run.start);
        let mut joined: Vec<Run> = Vec::new();
        for run in runs {
            match joined.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => joined.push(run),
            }
        }
        joined.retain(|run| run.whole_blocks(block_bytes).is_some());
        let mut checksum = HeaderSum::new(self.seed);
        checksum.add_segment(&self.segment_header);
        for frame in self.frames.iter().filter(|f| run_at(&joined, f.run.start).is_none()) {
            checksum.add_frame(&frame.header);
        }
        let is_gone = |line: &Line| run_at(&joined, line.offset).is_some();
        let gone = || self.records.iter().map(|record| &record.line).filter(|line| is_gone(line));
        let bytes_of = |line: &Line| u64::from(line.bytes);
        let (records, record_bytes) =
            self.before.as_ref().map_or((0, 0), |before| (before.records, before.record_bytes));
        let punched = Punched {
            records: records + gone().count() as u64,
            record_bytes: record_bytes + gone().map(bytes_of).sum::<u64>(),
            checksum: checksum.value(),
            runs: joined.clone().into(),
        };
        let live: Vec<Line> =
            self.records.iter().filter(|record| record.is_live).map(|r| r.line).collect();
        let live_record_bytes = live.iter().map(bytes_of).sum();
        let oldest_record = gone().map(|line| line.seq).min().unwrap_or(0);
        Droppable { punched, oldest_record, live, live_record_bytes }
    }
}

/// Asks the index which of these records live, their keys in order.
fn ask(engine: &Engine, entry: &TableEntry, records: &mut [Record]) -> Result<()> {
    let mut sorted: Vec<&mut Record> = records.iter_mut().collect();
    sorted.sort_by(|left, right| (left.keyspace, &left.key).cmp(&(right.keyspace, &right.key)));
    let moment = Moment::now(engine);
    for records in sorted.chunk_by_mut(|left, right| left.keyspace == right.keyspace) {
        let Some(keyspace) = records.first().map(|record| record.keyspace) else { continue };
        let keys = records.iter().map(|record| record.key.as_slice());
        let known = moment.look_up_many(keyspace, keys)?;
        let mut outcomes = Vec::with_capacity(records.len());
        for (record, known) in records.iter().zip(&known) {
            let Line { offset, bytes, seq, .. } = record.line;
            let handle = Handle { file: entry.file.id(), epoch: 0, offset, bytes };
            let place = RecordPlace { keyspace, key: &record.key, seq, handle };
            let liveness = engine.asks_index()?.liveness(&place, known)?;
            outcomes.push(matches!(liveness, Liveness::Live { .. }));
        }
        for (record, is_live) in records.iter_mut().zip(outcomes) {
            record.is_live = is_live;
        }
    }
    Ok(())
}
