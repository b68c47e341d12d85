//! Writes a file of facts from beginning to end, a part at a time.
//!
//! Owned by one thread. Invariant: FW-1 the trailer comes last, and the file is durable before
//! anybody is told of it; its name is the caller's to make durable.

use std::path::{Path, PathBuf};

use crate::base::checksum::{Rolling, file_seed};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::io::disk::OpenMode;
use crate::io::writer::FileWriter;
use crate::io::{Io, Purpose};
use crate::values::drops::edit::Generation;
use crate::values::drops::spilled::format::{
    PART_COVERED_FROM, Part, TRAILER_BYTES, Trailer, encode_header,
};
use crate::values::drops::spilled::named::{SpilledFile, SpilledPart};

/// A file in the making.
pub(crate) struct FactsWriter {
    writer: FileWriter,
    path: PathBuf,
    id: FileId,
    seed: u32,
    parts: Vec<SpilledPart>,
    trailer: Trailer,
    checksums: Rolling,
}

impl FactsWriter {
    /// Creates the file and writes its header.
    pub(crate) fn create(io: &Io, dir: &Path, uuid: &[u8; 16], id: FileId) -> Result<Self> {
        let path = dir.join(file_name(FileKind::Facts, id));
        let created = io.disk.create(&path, OpenMode::default());
        let file = created.map_err(|e| Error::io("creating a file of facts", &path, e))?;
        let mut writer = FileWriter::new(io, file, Purpose::Collection, true);
        let written = writer.append(&encode_header(uuid, id));
        written.map_err(|e| Error::io("writing facts", &path, e))?;
        let seed = file_seed(uuid, id.0);
        let (trailer, checksums) = (Trailer::default(), Rolling::new(seed));
        Ok(Self { writer, path, id, seed, parts: Vec::new(), trailer, checksums })
    }

    /// Appends a part; its value file is not before that of the last one.
    pub(crate) fn part(&mut self, part: &Part) -> Result<()> {
        debug_assert!(self.parts.last().is_none_or(|last| last.file <= part.file));
        let offset = self.writer.position();
        let bytes = part.encode(self.seed, offset);
        self.checksums.update(bytes.get(..PART_COVERED_FROM).unwrap_or_default());
        self.trailer.parts += 1;
        self.trailer.facts += part.facts();
        self.parts.push(SpilledPart {
            file: part.file,
            offset,
            bytes: bytes.len() as u32,
            facts: part.facts(),
            after: Generation::default(),
            newest: part.newest(),
        });
        self.writer.append(&bytes).map_err(|e| Error::io("writing facts", &self.path, e))
    }

    /// Ends the file and makes its contents durable; `upto` is the generation up to which the facts
    /// in memory stand in it.
    pub(crate) fn finish(mut self, upto: Generation) -> Result<SpilledFile> {
        let offset = self.writer.position();
        self.trailer.checksum = self.checksums.value();
        let trailer = self.trailer.encode(self.seed, offset);
        let written = self.writer.append(&trailer).and_then(|()| self.writer.finish());
        written.map_err(|e| Error::io("writing facts", &self.path, e))?;
        Ok(SpilledFile {
            id: self.id,
            bytes: offset + TRAILER_BYTES as u64,
            checksum: self.trailer.checksum,
            upto,
            parts: self.parts,
        })
    }
}
