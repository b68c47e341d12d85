//! The directory of facts: what the manifest says of each file, packed. An immutable snapshot like
//! the table of value files: the engine makes the next one from an edit, makes the edit durable,
//! then publishes it; a collection reads the one it finds, without a lock.
//!
//! Invariants: DF-1 generations ascend with the sections applied, and are the same after any
//! replay, one from a snapshot too. DF-2 facts stay until an edit discards them or their file goes
//! (rule R3). DF-3 an edit that contradicts the directory is refused as a whole. DF-4 files ascend,
//! each with one fact at least; the runs of a file ascend by generation.

use crate::base::checksum::KeyedHash;
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::values::drops::edit::{Discard, FactsEdit, FileRun, GENERATION_MAX, Generation};
use crate::values::drops::pinned::PinnedFacts;
use crate::values::drops::run::{Run, RunLines};

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

/// All facts that no collection has read yet. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Facts {
    hash: KeyedHash,
    /// Generation of the section applied last.
    generation: Generation,
    files: Vec<FileFacts>,
}

impl Facts {
    /// No facts; `hash` is that of the database.
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self { hash, generation: Generation::default(), files: Vec::new() }
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
        for same in runs.chunk_by(|a, b| a.0 == b.0) {
            let file_run = |&(_, file, bytes)| FileRun { file, run: Run::checked(bytes) };
            let edit = FactsEdit {
                generation: same.first().map(|run| run.0),
                runs: same.iter().map(file_run).collect(),
                ..FactsEdit::default()
            };
            sections.push(edit.encode());
        }
        if runs.last().map_or(Generation::default(), |run| run.0) < self.generation {
            let edit = FactsEdit { generation: Some(self.generation), ..FactsEdit::default() };
            sections.push(edit.encode());
        }
        sections
    }

    /// Generation of the section applied last.
    #[cfg(test)]
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether there are no facts.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Facts about a file: what says which victims may be worth it, never what is dead (rule R8).
    #[cfg(test)]
    pub(crate) fn count_of(&self, file: FileId) -> u64 {
        self.find(file).ok().and_then(|at| self.files.get(at)).map_or(0, |facts| facts.facts)
    }

    /// How many facts there are about each file.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.files.iter().map(|facts| (facts.file, facts.facts))
    }

    /// All facts.
    pub(crate) fn count(&self) -> u64 {
        self.files.iter().map(|facts| facts.facts).sum()
    }

    /// Bytes that the facts take of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let piece_bytes = |piece: &Piece| piece.bytes.len() + ARC_BYTES;
        let file_bytes = |facts: &FileFacts| {
            let pieces: usize = facts.pieces.iter().map(piece_bytes).sum();
            pieces + facts.pieces.capacity() * size_of::<Piece>() + size_of::<Vec<Piece>>()
        };
        let files: usize = self.files.iter().map(|facts| file_bytes(facts) + ARC_BYTES).sum();
        (files + self.files.capacity() * size_of::<FileFacts>()) as u64
    }

    /// What is known about the files of a collection's sources: each source is a container, given
    /// by its files. Takes one copy of the facts; call it without a lock, and read the list of live
    /// snapshots after it (rule R4).
    pub(crate) fn pin(&self, sources: &[impl AsRef<[FileId]>]) -> PinnedFacts {
        let mut discards = Vec::new();
        let mut runs: Vec<Vec<RunLines<'_>>> = Vec::new();
        for source in sources {
            let mut of_source = Vec::new();
            for &file in source.as_ref() {
                let facts = self.find(file).ok().and_then(|at| self.files.get(at));
                let Some(facts) = facts else { continue };
                of_source.extend(facts.runs().map(|(_, bytes)| RunLines::new(bytes)));
                discards.push(Discard { file, upto: self.generation });
            }
            runs.push(of_source);
        }
        discards.sort_unstable_by_key(|discard| discard.file);
        discards.dedup();
        PinnedFacts::new(self.hash, discards, &runs)
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
        for discard in &edit.discards {
            self.discard(*discard);
        }
        for stated in &edit.runs {
            self.add(generation, stated);
        }
        self.generation = generation;
        Ok(())
    }

    /// A discard of facts that are gone already, with their file, is nothing.
    fn discard(&mut self, discard: Discard) {
        let Ok(at) = self.find(discard.file) else { return };
        let Some(facts) = self.files.get_mut(at) else { return };
        facts.discard(discard.upto);
        if facts.pieces.is_empty() {
            self.files.remove(at);
        }
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

impl FileFacts {
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
