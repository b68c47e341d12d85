//! Rewrites containers into one new value table in key order: the records that a judge keeps.
//!
//! A value table is walked over in its order. Segments are in the order of writing: one walk asks
//! the judge about each record and holds the keys of those that survive, and of their values those
//! that there is room for; the others are read again, by place, when their keys' turn comes. Where
//! not even the keys have room, the segments are walked over several times.
//!
//! Owned by one background job, which drives it step by step. Invariants: RE-1 the judge is asked
//! exactly once about each record; about those of segments before anything is written. RE-2 every
//! record proves the container that it is read from before it is written, and its value is summed
//! once for that. RE-3 sources are read only. RE-4 nothing of the new table is left unless the step
//! that ends the rewrite succeeds. RE-5 memory: see [`RewriteContext::memory_bytes_max`].

mod fetch;
mod tables;
mod walk;
mod window;

use std::path::PathBuf;

use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::io::meter::HeldMemory;
use crate::io::{Io, Purpose};
use crate::log::punched::Punched;
use crate::log::separated::SeparatedRecord;
use crate::values::edit::SealedValues;
use crate::values::file::ValueFile;
use crate::values::rewrite::tables::{Reached, TableWalk};
use crate::values::rewrite::walk::{Segment, Walk};
use crate::values::rewrite::window::Window;
use crate::values::table::format::Rank;
use crate::values::table::reader::TableFile;
use crate::values::table::scan::{CHUNK_BYTES, ScannedRecord};
use crate::values::table::writer::{TablePlace, ValueTableOptions, ValueTableWriter, WrittenTable};

/// What the reader of segments and the writer take for themselves of the memory.
pub(crate) const READER_AND_WRITER_BYTES: u64 = 1 << 20;

/// Least bytes of a table that are read at once.
const CHUNK_BYTES_MIN: u64 = 4 << 10;

/// A container that is rewritten.
pub(crate) enum Source {
    /// A value segment: the file of its number, in the order of writing.
    Segment {
        /// The file.
        file: Arc<ValueFile>,
        /// What is known of it.
        sealed: SealedValues,
        /// What was given back of it.
        punched: Option<Arc<Punched>>,
    },
    /// A value table, each record of which says which file it belongs to.
    Table {
        /// The table.
        table: Arc<TableFile>,
    },
}

/// What a rewrite is given to work with.
#[derive(Clone)]
pub(crate) struct RewriteContext {
    /// Disk, meter and limiter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) directory: PathBuf,
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// Bytes of a group of the new table.
    pub(crate) group_bytes: u64,
    /// Bytes of records that a step handles, one read excepted: some milliseconds of a device's
    /// time.
    pub(crate) step_bytes: u64,
    /// Whether it is written past the page cache.
    pub(crate) direct: bool,
    /// Whether the rate limiter applies.
    pub(crate) limited: bool,
    /// Memory that the rewrite may take; less than 1 MiB is of little use. Beyond it go one record
    /// of each source (of a segment: one frame), one bit for each record of the segments, and the
    /// index of the new table.
    pub(crate) memory_bytes_max: u64,
}

/// A record that the judge is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JudgedRecord<'a> {
    /// The keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// The key.
    pub(crate) key: &'a [u8],
    /// The seq.
    pub(crate) seq: Seq,
    /// The file that it belongs to, whatever container it is in: what facts name.
    pub(crate) file: FileId,
    /// Number of its container among the sources.
    pub(crate) source: usize,
    /// Where it stands there, without padding.
    pub(crate) place: TablePlace,
}

impl JudgedRecord<'_> {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.place.bytes)
    }
}

/// Decides which records survive.
pub(crate) trait Judge {
    /// Whether this one does. Asked once about each, in no promised order; an error ends the
    /// rewrite.
    fn keeps(&mut self, record: &JudgedRecord<'_>) -> Result<bool>;

    /// Where one that does stood, and where it is in the new container.
    fn moved(&mut self, _record: &MovedRecord<'_>) {}
}

/// A record that survives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedRecord<'a> {
    /// Its keyspace.
    pub(crate) keyspace: KeyspaceId,
    /// Its key.
    pub(crate) key: &'a [u8],
    /// The container that it was in.
    pub(crate) from: FileId,
    /// The file that it belongs to.
    pub(crate) file: FileId,
    /// Where it stood there.
    pub(crate) place: TablePlace,
    /// Where it stands now.
    pub(crate) now: TablePlace,
}

/// What a rewrite came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// The new table; none, and no file, where nothing survived.
    pub(crate) written: Option<WrittenTable>,
    /// Records that survived.
    pub(crate) records_kept: u64,
    /// Their bytes where they were.
    pub(crate) bytes_kept: u64,
    /// Records that did not.
    pub(crate) records_dropped: u64,
    /// Their bytes.
    pub(crate) bytes_dropped: u64,
}

/// What the judge said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    records_kept: u64,
    bytes_kept: u64,
    records_dropped: u64,
    bytes_dropped: u64,
}

impl Counts {
    fn ask(&mut self, judge: &mut dyn Judge, record: &JudgedRecord<'_>) -> Result<bool> {
        let is_kept = judge.keeps(record)?;
        let (records, bytes) = match is_kept {
            true => (&mut self.records_kept, &mut self.bytes_kept),
            false => (&mut self.records_dropped, &mut self.bytes_dropped),
        };
        *records += 1;
        *bytes += record.bytes();
        Ok(is_kept)
    }
}

/// What the judge said of the records of the segments, in the order of the walks: for those that
/// have to be walked over again.
#[derive(Default)]
struct Verdicts {
    words: Vec<u64>,
    records: u64,
}

impl Verdicts {
    fn push(&mut self, is_kept: bool) {
        if self.records.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(is_kept) << (self.records % 64);
        }
        self.records += 1;
    }

    fn get(&self, number: u64) -> Result<bool> {
        let word = usize::try_from(number / 64).ok().and_then(|at| self.words.get(at));
        let word = word.filter(|_| number < self.records).ok_or_else(other_records)?;
        Ok(word >> (number % 64) & 1 == 1)
    }
}

/// What was walked over again is not what it was: each walk proves the bytes that it reads, so that
/// this is no matter of them.
fn other_records() -> Error {
    Error::corruption("value segments have other records than when they were judged")
}

/// Where a rewrite is.
enum Phase {
    /// The segments are being walked over.
    Collect(Collecting),
    /// Survivors are being written.
    Write,
    /// All of them are.
    End,
    /// It has ended, well or not.
    Over,
}

/// Where a walk over all segments is.
#[derive(Default)]
struct Collecting {
    /// Segments that are behind it.
    segments: usize,
    walk: Option<Walk>,
    /// Records that are behind it.
    records: u64,
    /// Whether the judge has been asked already.
    is_again: bool,
}

/// A rewrite in progress.
pub(crate) struct Rewrite {
    context: RewriteContext,
    options: ValueTableOptions,
    segments: Vec<Segment>,
    tables: Vec<TableWalk>,
    phase: Phase,
    window: Window,
    verdicts: Verdicts,
    verdicts_held: HeldMemory,
    counts: Counts,
    /// Tables whose next record has to be looked for, by number.
    pending: Vec<usize>,
    /// Tables that stand at a survivor; the first in the order is the last here.
    ready: Vec<usize>,
    /// None before anything survived.
    writer: Option<ValueTableWriter>,
    /// Of the context.
    step_bytes: u64,
}

impl Rewrite {
    /// Begins to rewrite these containers into a new one of this number. `files` are the files of
    /// all of them: the new table names each, also those of which nothing survives.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that a source has, and for files that are not all named.
    pub(crate) fn begin(
        context: &RewriteContext,
        sources: Vec<Source>,
        container: FileId,
        files: Vec<FileId>,
    ) -> Result<Self> {
        let is_sound = |source: &Source| match source {
            Source::Segment { file, .. } => file.id() != container && files.contains(&file.id()),
            Source::Table { table } => table.sealed().id != container,
        };
        let numbers_fit = container.0 != 0 && files.iter().all(|file| file.0 != 0);
        if !numbers_fit || sources.len() > usize::from(u16::MAX) || !sources.iter().all(is_sound) {
            return Err(Error::invalid("a rewrite of value files that cannot be"));
        }
        let io = &context.io;
        let shares = Shares::of(context, &sources);
        let (mut segments, mut tables, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut records = (0_u64, 0_u64);
        for (number, source) in sources.into_iter().enumerate() {
            match source {
                Source::Segment { file, sealed, punched } => {
                    names.push(file.id());
                    records.0 = records.0.saturating_add(sealed.totals.records);
                    records.1 = records.1.saturating_add(sealed.totals.key_bytes);
                    segments.push(Segment { file, sealed, punched, source: number as u16 });
                }
                Source::Table { table } => {
                    names.push(table.sealed().id);
                    let held = HeldMemory::new(&io.meter, Purpose::Collection);
                    tables.push(TableWalk::new(table, number, shares.chunk_bytes, held));
                }
            }
        }
        let options = ValueTableOptions {
            uuid: context.uuid,
            container,
            sources: files,
            group_bytes: context.group_bytes,
            purpose: Purpose::Collection,
            direct: context.direct,
            limited: context.limited,
        };
        Ok(Self {
            context: context.clone(),
            options,
            segments,
            pending: (0..tables.len()).collect(),
            tables,
            phase: Phase::Collect(Collecting::default()),
            window: Window::new(io, names, shares.window_bytes, records),
            verdicts: Verdicts::default(),
            verdicts_held: HeldMemory::new(&io.meter, Purpose::Collection),
            counts: Counts::default(),
            ready: Vec::new(),
            writer: None,
            step_bytes: context.step_bytes.max(1),
        })
    }

    /// Does some milliseconds of work. `None`: there is more; else this was the last step. After
    /// an error the rewrite is of no more use, and what it wrote is gone.
    ///
    /// # Errors
    /// `Corruption` for what is damaged in a source, and for two records of one rank; the judge's;
    /// those of reads and writes.
    pub(crate) fn step(&mut self, judge: &mut dyn Judge) -> Result<Option<Rewritten>> {
        let outcome = self.work(judge);
        if !matches!(outcome, Ok(None)) {
            self.phase = Phase::Over;
            self.writer = None;
        }
        outcome
    }

    fn work(&mut self, judge: &mut dyn Judge) -> Result<Option<Rewritten>> {
        let mut bytes = 0;
        while bytes < self.step_bytes {
            bytes += match &self.phase {
                Phase::Collect(_) => self.collect(judge)?,
                Phase::Write => self.write(judge)?,
                Phase::End => return self.end().map(Some),
                Phase::Over => return Err(Error::invalid("this rewrite has ended")),
            };
        }
        Ok(None)
    }

    /// Walks over some records of a segment, or goes on to the next one. Returns the bytes.
    fn collect(&mut self, judge: &mut dyn Judge) -> Result<u64> {
        let Self { phase, segments, window, verdicts, counts, .. } = self;
        let Phase::Collect(at) = phase else { return Ok(0) };
        let Some(segment) = segments.get(at.segments) else {
            if at.records != verdicts.records {
                return Err(other_records());
            }
            window.sort();
            self.phase = Phase::Write;
            return Ok(0);
        };
        if segment.is_empty() {
            at.segments += 1;
            return Ok(0);
        }
        let walk = match &mut at.walk {
            Some(walk) => walk,
            None => at.walk.insert(Walk::begin(&self.context.io, segment)?),
        };
        let (source, file) = (usize::from(segment.source), segment.file.id());
        let (records, is_again) = (&mut at.records, at.is_again);
        let done = walk.step(segment, &mut |met| {
            let is_kept = match is_again {
                true => verdicts.get(*records)?,
                false => {
                    let (keyspace, key, seq) = (met.keyspace, met.key, met.seq);
                    let place = TablePlace { offset: met.offset, bytes: met.bytes };
                    let record = JudgedRecord { keyspace, key, seq, file, source, place };
                    let is_kept = counts.ask(judge, &record)?;
                    verdicts.push(is_kept);
                    is_kept
                }
            };
            *records += 1;
            if is_kept {
                window.add(segment, met);
            }
            Ok(())
        })?;
        self.verdicts_held.set((verdicts.words.capacity() * size_of::<u64>()) as u64);
        if done.is_none() {
            at.walk = None;
            at.segments += 1;
        }
        Ok(done.unwrap_or(0))
    }

    /// Writes the next survivor, or does what has to come first. Returns the bytes.
    fn write(&mut self, judge: &mut dyn Judge) -> Result<u64> {
        if let Some(&number) = self.pending.last() {
            return self.advance(number, judge);
        }
        let of_table = self.ready.last().and_then(|&number| self.tables.get(number)?.rank());
        let of_segment = self.window.front().map(|(_, rank)| rank);
        let is_there = of_segment.is_some();
        let bound = of_segment.or_else(|| self.window.limit());
        match (of_table, bound) {
            (Some(table), bound) if bound.is_none_or(|bound| table < bound) => {
                self.write_of_table(judge)
            }
            (_, Some(_)) if is_there => self.write_of_segment(judge),
            _ => {
                self.phase = match self.window.go_on() {
                    true => Phase::Collect(Collecting { is_again: true, ..Collecting::default() }),
                    false => Phase::End,
                };
                Ok(0)
            }
        }
    }

    /// Looks for the next survivor of a table.
    fn advance(&mut self, number: usize, judge: &mut dyn Judge) -> Result<u64> {
        let Some(table) = self.tables.get_mut(number) else { return Ok(0) };
        let reached = table.advance(judge, &mut self.counts)?;
        if let Reached::Dead(bytes) = reached {
            return Ok(bytes);
        }
        self.pending.pop();
        if let Reached::Survivor = reached {
            let rank_of = |number: &usize| self.tables.get(*number).and_then(TableWalk::rank);
            let rank = rank_of(&number);
            let at = self.ready.partition_point(|other| rank_of(other) > rank);
            self.ready.insert(at, number);
        }
        Ok(0)
    }

    fn write_of_table(&mut self, judge: &mut dyn Judge) -> Result<u64> {
        let Some(number) = self.ready.pop() else { return Ok(0) };
        self.pending.push(number);
        let Some(table) = self.tables.get(number) else { return Ok(0) };
        let Some(ScannedRecord { record, body, offset }) = table.front()? else { return Ok(0) };
        let writer = writer(&mut self.writer, &self.context, &self.options)?;
        let now = writer.add(record.file, &record.record, body)?;
        let Rank { keyspace, key, file, .. } = record.rank();
        let place = TablePlace { offset, bytes: record.bytes() as u32 };
        judge.moved(&MovedRecord { keyspace, key, from: table.id(), file, place, now });
        Ok(record.bytes() as u64)
    }

    fn write_of_segment(&mut self, judge: &mut dyn Judge) -> Result<u64> {
        let Self { window, segments, context, .. } = self;
        let Some((survivor, rank)) = window.front() else { return Ok(0) };
        let Some(stored) = window.front_bytes() else {
            return fetch::fetch_batch(&context.io, segments, window);
        };
        let (source, offset) = (survivor.source, survivor.offset);
        let Some(segment) = segments.iter().find(|segment| segment.source == source) else {
            return Err(Error::invalid("a record of no segment that is rewritten"));
        };
        let record =
            SeparatedRecord::decode(stored).map_err(|error| segment.damaged(offset, error))?;
        let Some(body) = record.proven_body(segment.file.seed(), offset) else {
            let error = Error::corruption("a value's record does not match its checksum");
            return Err(segment.damaged(offset, error));
        };
        if (record.keyspace, record.key, record.seq) != (rank.keyspace, rank.key, rank.seq) {
            let error = Error::corruption("a value's record is not the one that was met there");
            return Err(segment.damaged(offset, error));
        }
        let writer = writer(&mut self.writer, context, &self.options)?;
        let now = writer.add(rank.file, &record, body)?;
        let place = TablePlace { offset, bytes: survivor.bytes };
        let (keyspace, key, from) = (rank.keyspace, rank.key, segment.file.id());
        judge.moved(&MovedRecord { keyspace, key, from, file: rank.file, place, now });
        let bytes = u64::from(survivor.bytes);
        window.pass();
        Ok(bytes)
    }

    fn end(&mut self) -> Result<Rewritten> {
        let written = self.writer.take().map(ValueTableWriter::finish).transpose()?;
        let Counts { records_kept, bytes_kept, records_dropped, bytes_dropped } = self.counts;
        Ok(Rewritten { written, records_kept, bytes_kept, records_dropped, bytes_dropped })
    }
}

/// The writer of the new table, which begins with the first survivor.
fn writer<'a>(
    writer: &'a mut Option<ValueTableWriter>,
    context: &RewriteContext,
    options: &ValueTableOptions,
) -> Result<&'a mut ValueTableWriter> {
    if let Some(writer) = writer {
        return Ok(writer);
    }
    let path = context.directory.join(file_name(FileKind::ValueTable, options.container));
    Ok(writer.insert(ValueTableWriter::create(&context.io, &path, options)?))
}

/// Who gets how much of the memory.
struct Shares {
    window_bytes: u64,
    chunk_bytes: u64,
}

impl Shares {
    /// A table takes up to three chunks: one that is used, one that is read, and what is left of
    /// the one before.
    fn of(context: &RewriteContext, sources: &[Source]) -> Self {
        let memory_bytes = context.memory_bytes_max;
        let bytes = memory_bytes.saturating_sub(READER_AND_WRITER_BYTES).max(memory_bytes / 4);
        let is_table = |source: &&Source| matches!(source, Source::Table { .. });
        let tables = sources.iter().filter(is_table).count();
        let of_tables = match tables {
            0 => 0,
            _ if tables == sources.len() => bytes,
            _ => bytes / 4,
        };
        let chunk_bytes = of_tables / (3 * tables.max(1)) as u64;
        Self {
            window_bytes: bytes - of_tables,
            chunk_bytes: chunk_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
