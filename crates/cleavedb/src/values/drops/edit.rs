//! The section FACTS of a manifest edit: facts about files, facts that a collection has read, files
//! whose facts all go, and facts that stand in files of their own. Pure data;
//! [`Facts`](super::directory::Facts) says what follows from it.
//!
//! Layout: version (1 byte), generation (varint, 0: one more than the last), then parts: kind
//! (1 byte), number of items (varint), items, ascending by file. A snapshot is written with the
//! same parts: one section for the files of facts, of the last generation that stands in any, then
//! one for each generation of which facts are left.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::FILE_ID_MAX;
use crate::base::section::{Section, SectionTag};
use crate::values::drops::run::Run;
use crate::values::drops::spilled::named::SpilledFile;

/// Version of the section. On disk: raised by every change.
pub(crate) const VERSION: u8 = 1;

/// Kinds of parts. On disk: never renumber.
mod part {
    /// Files whose facts all go.
    pub(super) const DROPPED: u8 = 1;
    /// Facts that a collection has read.
    pub(super) const DISCARDED: u8 = 2;
    /// Facts.
    pub(super) const STATED: u8 = 3;
    /// Files of facts.
    pub(super) const SPILLED: u8 = 4;
    /// Files of facts whose contents stand in those of the part before.
    pub(super) const MERGED: u8 = 5;
}

/// Which section a fact came with: sections are numbered as they are applied, the same after every
/// replay of the manifest. Zero is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// Largest generation: far from where counting on would overflow.
pub(crate) const GENERATION_MAX: u64 = 1 << 62;

/// A collection has read the facts of a file up to a generation; later ones wait for the next
/// collection (rule R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discard {
    /// Number of the file.
    pub(crate) file: FileId,
    /// Last generation that was read.
    pub(crate) upto: Generation,
}

/// The facts that one section states of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRun {
    /// Number of the file.
    pub(crate) file: FileId,
    /// The facts.
    pub(crate) run: Run,
}

/// One section. Each list ascends by file; no value file is in `dropped` and another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FactsEdit {
    /// The section's generation, which a snapshot states; `None`: one more than the last one.
    pub(crate) generation: Option<Generation>,
    /// Files that are gone.
    pub(crate) dropped: Vec<FileId>,
    /// Facts that were read.
    pub(crate) discards: Vec<Discard>,
    /// New facts.
    pub(crate) runs: Vec<FileRun>,
    /// Files of facts. All facts up to their generations that are in no file stand in them, too.
    pub(crate) spilled: Vec<SpilledFile>,
    /// Files of facts that are superfluous with these.
    pub(crate) merged: Vec<FileId>,
}

impl FactsEdit {
    /// Whether it says nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.generation.is_none()
            && self.dropped.is_empty()
            && self.discards.is_empty()
            && self.runs.is_empty()
            && self.spilled.is_empty()
            && self.merged.is_empty()
    }

    /// Encodes the section.
    pub(crate) fn encode(&self) -> Section {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.generation.map_or(0, |generation| generation.0));
        let mut files = begin_part(&mut out, part::DROPPED, self.dropped.len());
        for file in &self.dropped {
            files.put(&mut out, *file);
        }
        let mut files = begin_part(&mut out, part::DISCARDED, self.discards.len());
        for discard in &self.discards {
            files.put(&mut out, discard.file);
            put_varint(&mut out, discard.upto.0);
        }
        let mut files = begin_part(&mut out, part::STATED, self.runs.len());
        for stated in &self.runs {
            files.put(&mut out, stated.file);
            out.extend_from_slice(stated.run.bytes());
        }
        let mut files = begin_part(&mut out, part::SPILLED, self.spilled.len());
        for spilled in &self.spilled {
            files.put(&mut out, spilled.id);
            spilled.encode(&mut out);
        }
        let mut files = begin_part(&mut out, part::MERGED, self.merged.len());
        for file in &self.merged {
            files.put(&mut out, *file);
        }
        Section { tag: SectionTag::FACTS, payload: out }
    }

    /// Decodes a section's payload; every byte must have a meaning, and there is one way only to
    /// write it.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let version = reader.u8()?;
        if version != VERSION {
            let message = format!("FACTS section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let generation = Some(reader.varint()?).filter(|&number| number > 0).map(Generation);
        let mut edit = Self { generation, ..Self::default() };
        let mut kind_before = 0;
        while !reader.is_empty() {
            let kind = reader.u8()?;
            if kind <= kind_before {
                return Err(Error::corruption("parts of a FACTS section out of order"));
            }
            edit.decode_part(kind, &mut reader)?;
            kind_before = kind;
        }
        edit.check()?;
        Ok(edit)
    }

    fn decode_part(&mut self, kind: u8, reader: &mut Reader<'_>) -> Result<()> {
        let items = reader.varint()?;
        if items == 0 {
            return Err(Error::corruption("an empty part of a FACTS section"));
        }
        let mut files = Files::default();
        // Each item takes a byte at least, so this ends with the section.
        for _ in 0..items {
            let file = files.next(reader)?;
            match kind {
                part::DROPPED => self.dropped.push(file),
                part::DISCARDED => {
                    let upto = Generation(reader.varint()?);
                    self.discards.push(Discard { file, upto });
                }
                part::STATED => {
                    self.runs.push(FileRun { file, run: Run::decode(reader)? });
                }
                part::SPILLED => self.spilled.push(SpilledFile::decode(file, reader)?),
                part::MERGED => self.merged.push(file),
                other => {
                    let message = format!("unknown part {other} of a FACTS section");
                    return Err(Error::corruption(message));
                }
            }
        }
        Ok(())
    }

    /// Whether it may be a section of a snapshot, of this generation.
    fn is_of_snapshot(&self, generation: Generation) -> bool {
        let is_stated = |spilled: &SpilledFile| spilled.upto <= generation;
        self.dropped.is_empty()
            && self.discards.is_empty()
            && self.merged.is_empty()
            && (self.runs.is_empty() || self.spilled.is_empty())
            && self.spilled.iter().all(is_stated)
    }

    /// Refuses what no engine says, however well it is written.
    fn check(&self) -> Result<()> {
        let is_dropped = |file: &FileId| self.dropped.binary_search(file).is_ok();
        let in_range = |generation: Generation| (1..=GENERATION_MAX).contains(&generation.0);
        let is_sound = !self.is_empty()
            && self.generation.is_none_or(in_range)
            && self.discards.iter().all(|discard| in_range(discard.upto))
            && !self.discards.iter().any(|discard| is_dropped(&discard.file))
            && !self.runs.iter().any(|stated| is_dropped(&stated.file))
            && !self.merged.iter().any(|&id| self.spilled.iter().any(|new| new.id == id))
            && (self.merged.is_empty() || !self.spilled.is_empty())
            && self.generation.is_none_or(|generation| self.is_of_snapshot(generation));
        if is_sound {
            Ok(())
        } else {
            Err(Error::corruption("a FACTS section that says what cannot be"))
        }
    }
}

/// Begins a part, unless it is empty.
fn begin_part(out: &mut Vec<u8>, kind: u8, items: usize) -> Files {
    if items > 0 {
        out.push(kind);
        put_varint(out, items as u64);
    }
    Files::default()
}

/// Numbers of files that ascend: each is written as what it is more than the one before.
#[derive(Default)]
struct Files {
    before: u64,
}

impl Files {
    fn put(&mut self, out: &mut Vec<u8>, file: FileId) {
        debug_assert!((self.before + 1..=FILE_ID_MAX).contains(&file.0));
        put_varint(out, file.0.saturating_sub(self.before));
        self.before = file.0;
    }

    fn next(&mut self, reader: &mut Reader<'_>) -> Result<FileId> {
        let step = reader.varint()?;
        match self.before.checked_add(step) {
            Some(file) if step > 0 && file <= FILE_ID_MAX => {
                self.before = file;
                Ok(FileId(file))
            }
            _ => Err(Error::corruption("a FACTS section names a file that cannot be")),
        }
    }
}

#[cfg(test)]
mod tests;
