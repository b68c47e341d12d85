//! Reads a file of facts: a part by its place, or the whole of it.
//!
//! Owned by one thread. Invariant: FR-1 no more than a part is in memory, and its length is
//! compared with what the edit and the file say before it is read (rule F8).

use std::path::{Path, PathBuf};

use crate::base::checksum::{Rolling, file_seed};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Io, Purpose};
use crate::values::drops::edit::Generation;
use crate::values::drops::run::Run;
use crate::values::drops::spilled::format::{
    HEADER_BYTES, PART_HEADER_BYTES, Part, PartHeader, TRAILER_BYTES, Trailer, check_header,
};
use crate::values::drops::spilled::named::{SpilledFile, SpilledPart};

/// An open file of facts.
pub(crate) struct FactsReader {
    io: Io,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    seed: u32,
    purpose: Purpose,
}

impl FactsReader {
    /// Opens a file that an edit names; proves its header.
    pub(crate) fn open(
        io: &Io,
        dir: &Path,
        uuid: &[u8; 16],
        id: FileId,
        purpose: Purpose,
    ) -> Result<Self> {
        let path = dir.join(file_name(FileKind::Facts, id));
        let file = io.disk.open(&path, OpenMode::default()).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                return Error::corruption("a file of facts is missing").in_file(&path);
            }
            Error::io("opening a file of facts", &path, e)
        })?;
        let reader = Self { io: io.clone(), file, path, seed: file_seed(uuid, id.0), purpose };
        let header = reader.read(0, HEADER_BYTES)?;
        check_header(&header, uuid, id).map_err(|e| reader.at(e, 0))?;
        Ok(reader)
    }

    /// The facts of a part that still count.
    pub(crate) fn runs(&self, place: &SpilledPart) -> Result<Vec<(Generation, Run)>> {
        let mut part = self.part(place)?;
        part.runs.retain(|(generation, _)| *generation > place.after);
        Ok(part.runs)
    }

    /// A part, as its file has it.
    fn part(&self, place: &SpilledPart) -> Result<Part> {
        let bytes = self.read(place.offset, place.bytes as usize)?;
        let part = Part::decode(&bytes, self.seed, place.offset);
        let part = part.map_err(|e| self.at(e, place.offset))?;
        let stated = (part.file, part.newest(), part.facts());
        if stated != (place.file, place.newest, place.facts) {
            let error = Error::corruption("a part of a file of facts is another than was written");
            return Err(self.at(error, place.offset));
        }
        Ok(part)
    }

    /// Checks every byte, and that it is what the edit says.
    pub(crate) fn check(&self, spilled: &SpilledFile) -> Result<()> {
        let mut named = spilled.parts.iter().peekable();
        let mut last = FileId(0);
        let (trailer, bytes) = self.walk(&mut |offset, part| {
            if part.file < last {
                return Err(Error::corruption("parts of a file of facts out of order"));
            }
            last = part.file;
            // Parts whose facts all were read, or whose value file is gone, are named no more.
            if named.next_if(|place| place.offset == offset).is_some_and(|place| {
                let stated = (part.file, part.newest(), part.facts());
                stated != (place.file, place.newest, place.facts)
            }) {
                return Err(Error::corruption("a part of facts is another than was written"));
            }
            Ok(())
        })?;
        if named.peek().is_some() || trailer.checksum != spilled.checksum || bytes != spilled.bytes
        {
            let error = Error::corruption("a file of facts is another than was written");
            return Err(error.in_file(&self.path));
        }
        Ok(())
    }

    /// Proves all of the file, part by part; what its trailer says, and its bytes.
    pub(crate) fn walk(
        &self,
        each: &mut dyn FnMut(u64, &Part) -> Result<()>,
    ) -> Result<(Trailer, u64)> {
        let length = self.file.len();
        let length = length.map_err(|e| Error::io("reading facts", &self.path, e))?;
        let end = length.saturating_sub(TRAILER_BYTES as u64);
        let trailer = Trailer::decode(&self.read(end, TRAILER_BYTES)?, self.seed, end);
        let trailer = trailer.map_err(|e| self.at(e, end))?;
        let mut checksums = Rolling::new(self.seed);
        let (mut parts, mut facts) = (0, 0);
        let mut offset = HEADER_BYTES as u64;
        while offset < end {
            let room = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let header = self.read(offset, room.min(PART_HEADER_BYTES))?;
            let header = PartHeader::stated(&header).map_err(|e| self.at(e, offset))?;
            if header.part_bytes() > room {
                let error = Error::corruption("a part of a file of facts is cut short");
                return Err(self.at(error, offset));
            }
            let bytes = self.read(offset, header.part_bytes())?;
            let part = Part::decode(&bytes, self.seed, offset);
            let part = part.map_err(|e| self.at(e, offset))?;
            each(offset, &part).map_err(|e| self.at(e, offset))?;
            checksums.update(&header.crc.to_le_bytes());
            parts += 1;
            facts += part.facts();
            offset += header.part_bytes() as u64;
        }
        let seen = Trailer { parts, facts, checksum: checksums.value() };
        if offset != end || seen != trailer || parts == 0 {
            let error = Error::corruption("the trailer of a file of facts is of other parts");
            return Err(self.at(error, end));
        }
        Ok((trailer, length))
    }

    fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let length = self.file.len();
        let length = length.map_err(|e| Error::io("reading facts", &self.path, e))?;
        if offset.saturating_add(bytes as u64) > length {
            let error = Error::corruption("a file of facts ends early");
            return Err(self.at(error, length));
        }
        let mut buffer = vec![0; bytes];
        let read = self.file.read_exact_at(&mut buffer, offset);
        read.map_err(|e| Error::io("reading facts", &self.path, e))?;
        self.io.meter.read(self.purpose, bytes as u64);
        Ok(buffer)
    }

    fn at(&self, error: Error, offset: u64) -> Error {
        error.in_file(&self.path).at_offset(offset)
    }
}
