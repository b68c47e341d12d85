//! What a spill takes in, and how it is written. The choice is a pure function; the writing is
//! owned by one thread.
//!
//! Files of facts are of classes, each eight times as large as the one before. Seven of a class
//! wait for what will be the eighth, and the eight become one of the next class: so a fact is
//! written once for each class, which is the logarithm of how many facts there are, and there are
//! seven files of each class at most. Files of which less than half still counts are taken in at
//! once: what does not count takes less room than what does, or goes for less than it cost to
//! write.

use std::path::Path;

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::io::meter::HeldMemory;
use crate::io::{Io, Purpose};
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::Generation;
use crate::values::drops::run::Run;
use crate::values::drops::spilled::format::{PART_BYTES_MAX, Part};
use crate::values::drops::spilled::named::{SpilledFile, SpilledPart};
use crate::values::drops::spilled::reader::FactsReader;
use crate::values::drops::spilled::writer::FactsWriter;

/// Bytes of runs at which a part is ended: what a reader holds at a time, or little more.
pub(crate) const PART_BYTES: usize = 4 << 20;
const _: () = assert!(2 * PART_BYTES <= PART_BYTES_MAX);

/// Files of a class that become one of the next.
const FANOUT: u64 = 8;

/// A file of facts, as far as the choice needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpilledFigures {
    /// Its number.
    pub(crate) id: FileId,
    /// Bytes of all its parts.
    pub(crate) bytes: u64,
    /// Those of parts that still count.
    pub(crate) live_bytes: u64,
}

impl SpilledFigures {
    fn is_sparse(&self) -> bool {
        self.live_bytes.saturating_mul(2) < self.bytes
    }
}

/// The files of facts that what is in memory is to be written together with; `None` where nothing
/// is due. `memory_bytes` of facts are in memory, which `is_due` says are to leave it; `unit_bytes`
/// is what a file of the first class has.
pub(crate) fn plan(
    memory_bytes: u64,
    is_due: bool,
    unit_bytes: u64,
    files: &[SpilledFigures],
) -> Option<Vec<FileId>> {
    let sum = |figure: &dyn Fn(&SpilledFigures) -> u64| files.iter().map(figure).sum::<u64>();
    let live_bytes = sum(&|file| file.live_bytes);
    let dead_bytes = sum(&|file| file.bytes.saturating_sub(file.live_bytes));
    let is_wasteful = files.iter().any(SpilledFigures::is_sparse)
        && dead_bytes > live_bytes.saturating_add(unit_bytes);
    if !is_due && !is_wasteful {
        return None;
    }
    let (mut chosen, mut rest): (Vec<_>, Vec<_>) =
        files.iter().copied().partition(SpilledFigures::is_sparse);
    let taken = |chosen: &[SpilledFigures]| -> u64 {
        memory_bytes + chosen.iter().map(|file| file.live_bytes).sum::<u64>()
    };
    loop {
        let class = class_of(taken(&chosen), unit_bytes);
        let (same, larger): (Vec<_>, Vec<_>) =
            rest.iter().copied().partition(|file| class_of(file.live_bytes, unit_bytes) <= class);
        if (same.len() as u64) < FANOUT - 1 {
            break;
        }
        chosen.extend(same);
        rest = larger;
    }
    let mut ids: Vec<FileId> = chosen.into_iter().map(|file| file.id).collect();
    ids.sort_unstable();
    Some(ids)
}

/// Class of so many bytes of facts.
fn class_of(bytes: u64, unit_bytes: u64) -> u32 {
    (bytes / unit_bytes.max(1)).max(1).ilog(FANOUT)
}

/// Where facts about a value file stand at present.
enum Standing<'a> {
    Memory(Vec<(Generation, &'a [u8])>),
    File(usize, SpilledPart),
}

/// A spill: what it is to read and to write.
pub(crate) struct Spill<'a> {
    /// Disk and meter.
    pub(crate) io: &'a Io,
    /// Directory of the database.
    pub(crate) dir: &'a Path,
    /// The database.
    pub(crate) uuid: &'a [u8; 16],
    /// Number of the new file.
    pub(crate) id: FileId,
    /// Most bytes of runs in a part that is not of one run.
    pub(crate) part_bytes_max: usize,
    /// Asked now and then: whether to give up.
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

impl Spill<'_> {
    /// Writes what is in memory, and what counts in the `merged` files of facts, into the new file.
    /// A file that cannot be read is named by the error.
    pub(crate) fn write(&self, facts: &Facts, merged: &[FileId]) -> Result<SpilledFile> {
        let mut readers = Vec::with_capacity(merged.len());
        let mut standing: Vec<(FileId, Standing<'_>)> = Vec::new();
        for spilled in facts.spilled().filter(|spilled| merged.contains(&spilled.id())) {
            let purpose = Purpose::Collection;
            let reader = FactsReader::open(self.io, self.dir, self.uuid, spilled.id(), purpose)?;
            let parts = spilled.parts();
            standing.extend(parts.map(|part| (part.file, Standing::File(readers.len(), *part))));
            readers.push(reader);
        }
        let in_memory = facts.in_memory();
        standing.extend(in_memory.map(|(file, runs)| (file, Standing::Memory(runs.collect()))));
        standing.sort_by_key(|(file, _)| *file);
        let mut held = HeldMemory::new(&self.io.meter, Purpose::Collection);
        let mut writer = FactsWriter::create(self.io, self.dir, self.uuid, self.id)?;
        for same in standing.chunk_by(|one, next| one.0 == next.0) {
            if (self.is_cancelled)() {
                return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
            }
            let Some(&(file, _)) = same.first() else { continue };
            let mut runs: Vec<(Generation, Run)> = Vec::new();
            for (_, place) in same {
                match place {
                    Standing::Memory(held) => {
                        runs.extend(held.iter().map(|&(of, run)| (of, Run::checked(run))));
                    }
                    Standing::File(reader, part) => {
                        let reader = readers.get(*reader).map(|reader| reader.runs(part));
                        runs.extend(reader.transpose()?.unwrap_or_default());
                    }
                }
            }
            runs.sort_by_key(|run| run.0);
            held.set(runs.iter().map(|(_, run)| run.bytes().len() as u64).sum());
            self.write_parts(&mut writer, file, runs)?;
        }
        writer.finish(facts.generation())
    }

    /// All runs of a value file, in as many parts as they need.
    fn write_parts(
        &self,
        writer: &mut FactsWriter,
        file: FileId,
        runs: Vec<(Generation, Run)>,
    ) -> Result<()> {
        debug_assert!(self.part_bytes_max <= PART_BYTES);
        let mut part = Part { file, runs: Vec::new() };
        let mut bytes = 0;
        for run in runs {
            let more = Part::run_bytes_max(run.1.bytes());
            if bytes + more > self.part_bytes_max && !part.runs.is_empty() {
                writer.part(&part)?;
                part.runs.clear();
                bytes = 0;
            }
            bytes += more;
            part.runs.push(run);
        }
        if part.runs.is_empty() {
            return Ok(());
        }
        writer.part(&part)
    }
}
