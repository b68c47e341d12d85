//! The directory of facts: what the manifest says of each file, packed, and where in files of facts
//! the rest of it stands. An immutable snapshot like the table of value files: the engine makes the
//! next one from an edit, makes the edit durable, then publishes it; a collection reads the one it
//! finds, without a lock.
//!
//! Invariants: DF-1 generations ascend with the sections applied, and are the same after any
//! replay, one from a snapshot too. DF-2 facts stay until an edit discards them or their file goes
//! (rule R3). DF-3 an edit that contradicts the directory is refused as a whole. DF-4 files ascend,
//! each with one fact at least; the runs of a file ascend by generation. DF-5 a part of a file of
//! facts counts as far as the facts did that it was written for, at the edit that names it: what
//! was read or went meanwhile does not come back. DF-6 what is in memory is newer than all that any
//! file of facts was written for.

use std::collections::BTreeMap;

use crate::base::checksum::KeyedHash;
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::FileKind;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::io::Purpose;
use crate::values::drops::edit::{Discard, FactsEdit, FileRun, GENERATION_MAX, Generation};
use crate::values::drops::pinned::PinnedFacts;
use crate::values::drops::run::{Run, RunLines};
use crate::values::drops::spilled::format::FRAME_BYTES;
use crate::values::drops::spilled::merge::SpilledFigures;
use crate::values::drops::spilled::named::{SpilledFile, SpilledPart};
use crate::values::drops::spilled::reader::FactsReader;
use crate::values::file::{ValueContext, ValueFile};

/// Bytes up to which runs are packed together: small enough to copy for each run that is added,
/// large enough that what a piece costs beside its bytes is little.
const PIECE_BYTES_MAX: usize = 8 << 10;

/// Some runs of a file, packed: for each its generation, its length, its bytes.
#[derive(Clone)]
struct Piece {
    bytes: Arc<[u8]>,
    facts: u64,
    /// Generation of its last run.
    newest: Generation,
}

/// What is known about one file.
#[derive(Clone)]
struct FileFacts {
    file: FileId,
    facts: u64,
    pieces: Arc<Vec<Piece>>,
}

/// A file of facts in force.
#[derive(Clone)]
pub(crate) struct Spilled {
    /// What the edit that named it said, but for its parts.
    said: Arc<SpilledFile>,
    /// Those of its parts that count.
    parts: Arc<Vec<SpilledPart>>,
    /// Keeps it on disk; `None` where there is none.
    pin: Option<Arc<ValueFile>>,
}

/// All facts that no collection has read yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Facts {
    hash: KeyedHash,
    /// Where files of facts are; `None` where there are none.
    context: Option<Arc<ValueContext>>,
    /// Generation of the section applied last.
    generation: Generation,
    /// Facts in memory.
    files: Vec<FileFacts>,
    /// Files of facts, ascending by number, each with one part at least.
    spilled: Vec<Spilled>,
}

impl Facts {
    /// No facts; `hash` is that of the database.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self::within(hash, None)
    }

    /// No facts of a database whose files stand here.
    pub(crate) fn in_store(hash: KeyedHash, context: &Arc<ValueContext>) -> Self {
        Self::within(hash, Some(Arc::clone(context)))
    }

    fn within(hash: KeyedHash, context: Option<Arc<ValueContext>>) -> Self {
        let (generation, files, spilled) = (Generation::default(), Vec::new(), Vec::new());
        Self { hash, context, generation, files, spilled }
    }

    /// The directory after some sections, in their order.
    pub(crate) fn apply(&self, edits: &[FactsEdit]) -> Result<Self> {
        let mut next = self.clone();
        for edit in edits {
            next.absorb(edit)?;
        }
        Ok(next)
    }

    /// Leaves only the facts of files that are there. A job may state facts about a file that went
    /// while it ran: so this follows each [`Facts::apply`], or all of a replay (rule R3).
    pub(crate) fn retain(&mut self, mut is_there: impl FnMut(FileId) -> bool) {
        self.files.retain(|facts| is_there(facts.file));
        self.keep_parts(|part| is_there(part.file));
    }

    /// Those that an edit named, once it is durable: files of facts that went stay no longer than
    /// somebody reads them, the others for good (rule F9).
    pub(crate) fn settle(&self, before: &Self) {
        let is_there = |id: FileId| self.spilled.binary_search_by_key(&id, Spilled::id).is_ok();
        for gone in before.spilled.iter().filter(|spilled| !is_there(spilled.id())) {
            gone.pin.iter().for_each(|pin| pin.doom());
        }
        for spilled in &self.spilled {
            spilled.pin.iter().for_each(|pin| pin.keep());
        }
    }

    /// The sections that make this directory out of an empty one, generations and all.
    pub(crate) fn snapshot(&self) -> Vec<Section> {
        let mut runs = Vec::new();
        for facts in &self.files {
            for (generation, bytes) in facts.runs() {
                runs.push((generation, facts.file, bytes));
            }
        }
        runs.sort_unstable_by_key(|&(generation, file, _)| (generation, file));
        let mut sections = Vec::new();
        let upto = self.spilled.iter().map(|spilled| spilled.said.upto).max();
        if upto.is_some() {
            let spilled = self.spilled.iter().map(Spilled::named).collect();
            let edit = FactsEdit { generation: upto, spilled, ..FactsEdit::default() };
            sections.push(edit.encode());
        }
        for same in runs.chunk_by(|a, b| a.0 == b.0) {
            let file_run = |&(_, file, bytes)| FileRun { file, run: Run::checked(bytes) };
            let edit = FactsEdit {
                generation: same.first().map(|run| run.0),
                runs: same.iter().map(file_run).collect(),
                ..FactsEdit::default()
            };
            sections.push(edit.encode());
        }
        let newest = runs.last().map(|run| run.0).max(upto).unwrap_or_default();
        if newest < self.generation {
            let edit = FactsEdit { generation: Some(self.generation), ..FactsEdit::default() };
            sections.push(edit.encode());
        }
        sections
    }

    /// Generation of the section applied last.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether there are no facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.spilled.is_empty()
    }

    /// Facts about a file: what says which victims may be worth it, never what is dead (rule R8).
    #[cfg(test)]
    pub(crate) fn count_of(&self, file: FileId) -> u64 {
        self.counts().get(&file).copied().unwrap_or(0)
    }

    /// How many facts there are about each file. Of a part that a collection has read only the
    /// beginning of, all count.
    pub(crate) fn counts(&self) -> BTreeMap<FileId, u64> {
        let mut counts: BTreeMap<FileId, u64> = BTreeMap::new();
        for facts in &self.files {
            counts.insert(facts.file, facts.facts);
        }
        for part in self.spilled.iter().flat_map(Spilled::parts) {
            *counts.entry(part.file).or_default() += part.facts;
        }
        counts
    }

    /// All facts.
    pub(crate) fn count(&self) -> u64 {
        let spilled = self.spilled.iter().flat_map(Spilled::parts).map(|part| part.facts);
        self.files.iter().map(|facts| facts.facts).sum::<u64>() + spilled.sum::<u64>()
    }

    /// Bytes that the facts take of memory, and where those on disk stand.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let files: usize = self.files.iter().map(|facts| facts.bytes() + ARC_BYTES).sum();
        let spilled = |spilled: &Spilled| spilled.parts.capacity() * size_of::<SpilledPart>();
        let parts: usize = self.spilled.iter().map(spilled).sum();
        let lists = self.files.capacity() * size_of::<FileFacts>()
            + self.spilled.capacity() * (size_of::<Spilled>() + size_of::<SpilledFile>());
        (files + parts + lists) as u64
    }

    /// Bytes of the facts in memory, as the manifest has them: what a spill frees.
    pub(crate) fn stated_bytes(&self) -> u64 {
        let pieces = self.files.iter().flat_map(|facts| facts.pieces.iter());
        pieces.map(|piece| piece.bytes.len() as u64).sum()
    }

    /// Files of facts in force.
    pub(crate) fn spilled(&self) -> impl Iterator<Item = &Spilled> {
        self.spilled.iter()
    }

    /// Bytes of the files of facts.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.spilled.iter().map(|spilled| spilled.said.bytes).sum()
    }

    /// The facts in memory: each file with its runs.
    pub(crate) fn in_memory(
        &self,
    ) -> impl Iterator<Item = (FileId, impl Iterator<Item = (Generation, &[u8])>)> {
        self.files.iter().map(|facts| (facts.file, facts.runs()))
    }

    /// What is known about the files of a collection's sources: each source is a container, given
    /// by its files. Takes one copy of the facts, out of memory and files; call it without a lock,
    /// and read the list of live snapshots after it (rule R4).
    pub(crate) fn pin(&self, sources: &[impl AsRef<[FileId]>]) -> Result<PinnedFacts> {
        let mut discards = Vec::new();
        let mut in_files: Vec<Vec<Run>> = Vec::new();
        let mut readers = BTreeMap::new();
        for source in sources {
            let mut of_source = Vec::new();
            for &file in source.as_ref() {
                let found = self.read_spilled(file, &mut readers)?;
                if !found.is_empty() || self.find(file).is_ok() {
                    discards.push(Discard { file, upto: self.generation });
                }
                of_source.extend(found);
            }
            in_files.push(of_source);
        }
        let mut runs: Vec<Vec<RunLines<'_>>> = Vec::new();
        for (source, in_files) in sources.iter().zip(&in_files) {
            let in_memory = source.as_ref().iter().filter_map(|file| self.find(*file).ok());
            let in_memory = in_memory.filter_map(|at| self.files.get(at));
            let in_memory = in_memory.flat_map(|facts| facts.runs().map(|(_, bytes)| bytes));
            let bytes = in_memory.chain(in_files.iter().map(Run::bytes));
            runs.push(bytes.map(RunLines::new).collect());
        }
        discards.sort_unstable_by_key(|discard| discard.file);
        discards.dedup();
        Ok(PinnedFacts::new(self.hash, discards, &runs))
    }

    /// The runs about a value file that stand in files of facts; those are opened once.
    fn read_spilled(
        &self,
        file: FileId,
        readers: &mut BTreeMap<FileId, FactsReader>,
    ) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for spilled in &self.spilled {
            for part in spilled.parts_of(file) {
                let reader = match readers.entry(spilled.id()) {
                    std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
                    std::collections::btree_map::Entry::Vacant(place) => {
                        place.insert(self.reader(spilled.id(), Purpose::Collection)?)
                    }
                };
                runs.extend(reader.runs(part)?.into_iter().map(|(_, run)| run));
            }
        }
        Ok(runs)
    }

    /// Checks every byte of the files of facts; `each` is told of every one: its number, its bytes.
    pub(crate) fn verify(&self, each: &mut dyn FnMut(FileId, Result<u64>)) {
        for spilled in &self.spilled {
            let reader = self.reader(spilled.id(), Purpose::Verify);
            let checked = reader.and_then(|reader| reader.check(&spilled.named()));
            each(spilled.id(), checked.map(|()| spilled.said.bytes));
        }
    }

    fn reader(&self, id: FileId, purpose: Purpose) -> Result<FactsReader> {
        let Some(context) = &self.context else {
            return Err(Error::invalid("facts in a file, and no files"));
        };
        FactsReader::open(&context.io, &context.dir, &context.uuid, id, purpose)
    }

    fn find(&self, file: FileId) -> Result<usize, usize> {
        self.files.binary_search_by_key(&file, |facts| facts.file)
    }

    fn absorb(&mut self, edit: &FactsEdit) -> Result<()> {
        let generation = edit.generation.unwrap_or(Generation(self.generation.0 + 1));
        if generation <= self.generation || generation.0 > GENERATION_MAX {
            return Err(Error::corruption("generations of facts do not ascend"));
        }
        if let Some(wrong) = edit.discards.iter().find(|discard| discard.upto > self.generation) {
            let message = format!("facts of file {} are discarded before they are", wrong.file);
            return Err(Error::corruption(message));
        }
        for &file in &edit.dropped {
            if let Ok(at) = self.find(file) {
                self.files.remove(at);
            }
        }
        if !edit.dropped.is_empty() {
            self.keep_parts(|part| edit.dropped.binary_search(&part.file).is_err());
        }
        for discard in &edit.discards {
            self.discard(*discard);
        }
        if !edit.spilled.is_empty() {
            self.spill(generation, edit)?;
        }
        for stated in &edit.runs {
            self.add(generation, stated);
        }
        self.generation = generation;
        Ok(())
    }

    /// A discard of facts that are gone already, with their file, is nothing.
    fn discard(&mut self, discard: Discard) {
        let Discard { file, upto } = discard;
        if self.spilled.iter().any(|spilled| !spilled.parts_of(file).is_empty()) {
            let is_read = |part: &SpilledPart| part.file == file && part.newest <= upto;
            self.keep_parts(|part| !is_read(part));
            let parts = |spilled: &mut Spilled| {
                let has_some = !spilled.parts_of(file).is_empty();
                let parts = has_some.then(|| Arc::make_mut(&mut spilled.parts));
                for part in parts.into_iter().flatten().filter(|part| part.file == file) {
                    part.after = part.after.max(upto);
                }
            };
            self.spilled.iter_mut().for_each(parts);
        }
        let Ok(at) = self.find(discard.file) else { return };
        let Some(facts) = self.files.get_mut(at) else { return };
        facts.discard(discard.upto);
        if facts.pieces.is_empty() {
            self.files.remove(at);
        }
    }

    /// Takes in files of facts: what was in memory up to their generation stands in them now, and
    /// so does what counted in the files that are merged into them. Of a snapshot's there is
    /// nothing before.
    fn spill(&mut self, generation: Generation, edit: &FactsEdit) -> Result<()> {
        let upto = edit.spilled.iter().map(|spilled| spilled.upto).max().unwrap_or_default();
        let is_twice = |new: &SpilledFile| self.spilled.iter().any(|s| s.id() == new.id);
        let is_early = edit.generation.is_none() && upto >= generation;
        if is_early || edit.spilled.iter().any(is_twice) {
            let message = "a file of facts that are not there yet, or named twice";
            return Err(Error::corruption(message));
        }
        let stood = edit.generation.is_none().then(|| self.standing(upto, &edit.merged));
        let is_merged = |spilled: &Spilled| edit.merged.binary_search(&spilled.id()).is_ok();
        self.spilled.retain(|spilled| !is_merged(spilled));
        for facts in &mut self.files {
            facts.discard(upto);
        }
        self.files.retain(|facts| !facts.pieces.is_empty());
        for new in &edit.spilled {
            let mut parts = new.parts.clone();
            if let Some(stood) = &stood {
                // DF-5.
                for part in &mut parts {
                    part.after = stood.get(&part.file).copied().unwrap_or(part.newest);
                }
                parts.retain(|part| part.newest > part.after);
            }
            let pin = self.context.as_ref();
            let pin = pin.map(|context| ValueFile::new(context, FileKind::Facts, new.id));
            let said = Arc::new(SpilledFile { parts: Vec::new(), ..*new });
            self.spilled.push(Spilled { said, parts: Arc::new(parts), pin });
        }
        self.spilled.sort_by_key(Spilled::id);
        self.keep_parts(|_| true);
        Ok(())
    }

    /// Each value file of which facts up to a generation are in memory, or facts in the files of
    /// facts named, and the generation after which they begin.
    fn standing(&self, upto: Generation, merged: &[FileId]) -> BTreeMap<FileId, Generation> {
        let mut standing: BTreeMap<FileId, Generation> = BTreeMap::new();
        let mut stands = |file: FileId, after: Generation| {
            let first = standing.entry(file).or_insert(after);
            *first = after.min(*first);
        };
        for facts in &self.files {
            let oldest = facts.runs().next().map(|run| run.0).filter(|oldest| *oldest <= upto);
            if let Some(oldest) = oldest {
                stands(facts.file, Generation(oldest.0.saturating_sub(1)));
            }
        }
        let of_merged = |spilled: &&Spilled| merged.binary_search(&spilled.id()).is_ok();
        for part in self.spilled.iter().filter(of_merged).flat_map(Spilled::parts) {
            stands(part.file, part.after);
        }
        standing
    }

    /// Leaves only these parts of files of facts, and files that have any.
    fn keep_parts(&mut self, mut keeps: impl FnMut(&SpilledPart) -> bool) {
        for spilled in &mut self.spilled {
            if spilled.parts.iter().all(&mut keeps) {
                continue;
            }
            let parts = Arc::make_mut(&mut spilled.parts);
            parts.retain(&mut keeps);
            parts.shrink_to_fit();
        }
        self.spilled.retain(|spilled| !spilled.parts.is_empty());
    }

    fn add(&mut self, generation: Generation, stated: &FileRun) {
        let at = match self.find(stated.file) {
            Ok(at) => at,
            Err(at) => {
                let pieces = Arc::default();
                self.files.insert(at, FileFacts { file: stated.file, facts: 0, pieces });
                at
            }
        };
        if let Some(facts) = self.files.get_mut(at) {
            facts.add(generation, &stated.run);
        }
    }
}

/// The two counts of an [`Arc`].
const ARC_BYTES: usize = 16;

impl Spilled {
    /// Its number.
    pub(crate) fn id(&self) -> FileId {
        self.said.id
    }

    /// Its parts that count, ascending by value file.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &SpilledPart> {
        self.parts.iter()
    }

    /// Those about one value file.
    fn parts_of(&self, file: FileId) -> &[SpilledPart] {
        let first = self.parts.partition_point(|part| part.file < file);
        let end = self.parts.partition_point(|part| part.file <= file);
        self.parts.get(first..end).unwrap_or_default()
    }

    /// What a snapshot says of it.
    fn named(&self) -> SpilledFile {
        SpilledFile { parts: self.parts.as_ref().clone(), ..*self.said }
    }

    /// What the choice of files to merge goes by.
    pub(crate) fn figures(&self) -> SpilledFigures {
        let live_bytes = self.parts.iter().map(|part| u64::from(part.bytes)).sum();
        // Header and trailer are no waste: another file would have them, too.
        let bytes = self.said.bytes.saturating_sub(FRAME_BYTES);
        SpilledFigures { id: self.said.id, bytes, live_bytes }
    }
}

impl FileFacts {
    /// Bytes of memory.
    fn bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.bytes.len() + ARC_BYTES).sum();
        pieces + self.pieces.capacity() * size_of::<Piece>() + size_of::<Vec<Piece>>()
    }

    /// All runs, ascending by generation.
    fn runs(&self) -> impl Iterator<Item = (Generation, &[u8])> {
        self.pieces.iter().flat_map(Piece::runs)
    }

    fn add(&mut self, generation: Generation, run: &Run) {
        let mut bytes = Vec::new();
        let pieces = Arc::make_mut(&mut self.pieces);
        let mut facts = run.facts();
        if let Some(last) = pieces.pop_if(|last| last.has_room_for(run)) {
            bytes.extend_from_slice(&last.bytes);
            facts += last.facts;
        }
        put_varint(&mut bytes, generation.0);
        put_bytes(&mut bytes, run.bytes());
        pieces.push(Piece { bytes: bytes.into(), facts, newest: generation });
        pieces.shrink_to(pieces.len() + pieces.len() / 4);
        self.facts += run.facts();
    }

    /// Leaves only runs after a generation.
    fn discard(&mut self, upto: Generation) {
        let pieces = Arc::make_mut(&mut self.pieces);
        pieces.retain(|piece| piece.newest > upto);
        // Generations ascend, so that no other piece begins before the bound.
        if let Some(first) = pieces.first_mut() {
            *first = first.after(upto);
        }
        pieces.shrink_to_fit();
        self.facts = pieces.iter().map(|piece| piece.facts).sum();
    }
}

impl Piece {
    fn has_room_for(&self, run: &Run) -> bool {
        self.bytes.len() + run.bytes().len() <= PIECE_BYTES_MAX
    }

    fn runs(&self) -> impl Iterator<Item = (Generation, &[u8])> {
        let mut reader = Reader::new(&self.bytes);
        std::iter::from_fn(move || {
            let generation = Generation(reader.varint().ok()?);
            Some((generation, reader.bytes().ok()?))
        })
    }

    /// The piece without runs up to a generation.
    fn after(&self, upto: Generation) -> Self {
        if self.runs().next().is_none_or(|(oldest, _)| oldest > upto) {
            return self.clone();
        }
        let mut bytes = Vec::new();
        let mut facts = 0;
        for (generation, run) in self.runs().filter(|(generation, _)| *generation > upto) {
            put_varint(&mut bytes, generation.0);
            put_bytes(&mut bytes, run);
            facts += Reader::new(run).varint().unwrap_or(0);
        }
        Self { bytes: bytes.into(), facts, newest: self.newest }
    }
}

#[cfg(test)]
mod tests;
