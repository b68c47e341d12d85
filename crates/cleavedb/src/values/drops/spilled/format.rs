//! The bytes of a file of facts: header, parts, trailer. Encoding and decoding only; no I/O, no
//! state, any thread.
//!
//! Invariants: FF-1 every checksum is seeded with database and file number and bound to its offset
//! (rule F1), and no byte is without one. FF-2 no length is trusted before its checksum holds, and
//! no part is longer than a reader may hold (rules F2 and F8). FF-3 a part has one encoding.

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::{FILE_ID_MAX, FileKind};
use crate::values::drops::edit::{GENERATION_MAX, Generation};
use crate::values::drops::run::Run;

/// First bytes of the file.
pub(crate) const MAGIC: [u8; 8] = *b"CLVFACTS";
/// First bytes of the trailer.
const TRAILER_MAGIC: [u8; 8] = *b"CLVFEND\n";
/// Version of the file. On disk: raised by every change.
pub(crate) const VERSION: u32 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of a part in front of its runs.
pub(crate) const PART_HEADER_BYTES: usize = 32;
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 36;
/// Bytes of a file beside its parts.
pub(crate) const FRAME_BYTES: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;
/// Last byte of the header, and of the file.
const END: u8 = 0xE9;
/// Where the checksum of the header begins to count: behind itself.
pub(crate) const HEADER_COVERED_FROM: usize = 12;
/// The same of a part.
pub(crate) const PART_COVERED_FROM: usize = 4;
/// Bytes of the trailer that its checksum covers.
pub(crate) const TRAILER_COVERED: usize = 28;
/// Least bytes of a part: the header, and one run of one fact.
pub(crate) const PART_BYTES_MIN: usize = PART_HEADER_BYTES + 8;
/// Most bytes of a part: a section holds a run of a megabyte at most, and a part that has more than
/// this is ended.
pub(crate) const PART_BYTES_MAX: usize = 16 << 20;

/// The header of a file.
pub(crate) fn encode_header(uuid: &[u8; 16], id: FileId) -> Vec<u8> {
    let mut covered = Vec::with_capacity(HEADER_BYTES - HEADER_COVERED_FROM);
    covered.extend_from_slice(&VERSION.to_le_bytes());
    covered.extend_from_slice(uuid);
    covered.extend_from_slice(&id.0.to_le_bytes());
    covered.extend_from_slice(&[0; 22]);
    covered.extend_from_slice(&[FileKind::Facts as u8, END]);
    let crc = crc_at(file_seed(uuid, id.0), HEADER_COVERED_FROM as u64, &covered);
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.append(&mut covered);
    bytes
}

/// Proves a header.
pub(crate) fn check_header(bytes: &[u8], uuid: &[u8; 16], id: FileId) -> Result<()> {
    let mut reader = Reader::new(bytes.get(..HEADER_BYTES).unwrap_or(bytes));
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not a file of facts"));
    }
    let crc = reader.u32()?;
    if crc != crc_at(file_seed(uuid, id.0), HEADER_COVERED_FROM as u64, reader.rest()) {
        return Err(Error::corruption("the header of a file of facts is damaged, or of another"));
    }
    let version = reader.u32()?;
    if version != VERSION {
        let message = format!("a file of facts of version {version}, this build knows {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let is_ours = reader.take(16)? == uuid && reader.u64()? == id.0;
    let is_sound = reader.take(22)? == [0; 22] && reader.take(2)? == [FileKind::Facts as u8, END];
    if is_ours && is_sound && reader.is_empty() {
        return Ok(());
    }
    Err(Error::corruption("the header of a file of facts states what cannot be"))
}

/// What a part says in front of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartHeader {
    /// Its checksum.
    pub(crate) crc: u32,
    /// Bytes of the runs that follow.
    pub(crate) runs_bytes: u32,
    /// The value file that the facts are about.
    pub(crate) file: FileId,
    /// Generation of the last run.
    pub(crate) newest: Generation,
    /// How many facts.
    pub(crate) facts: u64,
}

impl PartHeader {
    /// Reads what a part states; proves nothing.
    pub(crate) fn stated(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (crc, runs_bytes) = (reader.u32()?, reader.u32()?);
        let (file, newest) = (FileId(reader.u64()?), Generation(reader.u64()?));
        let facts = reader.u64()?;
        if runs_bytes as usize > PART_BYTES_MAX {
            return Err(Error::corruption("a part of a file of facts states too many bytes"));
        }
        Ok(Self { crc, runs_bytes, file, newest, facts })
    }

    /// Bytes of the part.
    pub(crate) fn part_bytes(&self) -> usize {
        PART_HEADER_BYTES + self.runs_bytes as usize
    }
}

/// The facts about one value file, or some of them, as a file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The value file.
    pub(crate) file: FileId,
    /// Runs, ascending by generation.
    pub(crate) runs: Vec<(Generation, Run)>,
}

impl Part {
    /// Generation of the last run.
    pub(crate) fn newest(&self) -> Generation {
        self.runs.last().map(|run| run.0).unwrap_or_default()
    }

    /// How many facts.
    pub(crate) fn facts(&self) -> u64 {
        self.runs.iter().map(|(_, run)| run.facts()).sum()
    }

    /// Bytes that a run takes in a part, at most.
    pub(crate) fn run_bytes_max(run: &[u8]) -> usize {
        run.len() + 10 + 10
    }

    /// The part's bytes where it stands at `offset`.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> Vec<u8> {
        let mut runs = Vec::new();
        for (generation, run) in &self.runs {
            put_varint(&mut runs, generation.0);
            put_bytes(&mut runs, run.bytes());
        }
        debug_assert!(!runs.is_empty() && runs.len() <= PART_BYTES_MAX);
        let mut bytes = vec![0; PART_COVERED_FROM];
        bytes.extend_from_slice(&(runs.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.file.0.to_le_bytes());
        bytes.extend_from_slice(&self.newest().0.to_le_bytes());
        bytes.extend_from_slice(&self.facts().to_le_bytes());
        bytes.append(&mut runs);
        seal_part(&mut bytes, seed, offset);
        bytes
    }

    /// Decodes and proves the part that stands at `offset`.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<Self> {
        let header = PartHeader::stated(bytes)?;
        let covered = bytes.get(PART_COVERED_FROM..).unwrap_or_default();
        if header.part_bytes() != bytes.len()
            || header.crc != crc_at(seed, offset + PART_COVERED_FROM as u64, covered)
        {
            return Err(Error::corruption("a part of a file of facts is damaged"));
        }
        let mut reader = Reader::new(bytes.get(PART_HEADER_BYTES..).unwrap_or_default());
        let mut part = Self { file: header.file, runs: Vec::new() };
        while !reader.is_empty() {
            let generation = Generation(reader.varint()?);
            let mut run = Reader::new(reader.bytes()?);
            if generation <= part.newest() || generation.0 > GENERATION_MAX {
                return Err(Error::corruption("generations in a file of facts do not ascend"));
            }
            part.runs.push((generation, Run::decode(&mut run)?));
            if !run.is_empty() {
                return Err(Error::corruption("a run in a file of facts does not end"));
            }
        }
        let is_sound = (1..=FILE_ID_MAX).contains(&header.file.0)
            && !part.runs.is_empty()
            && part.newest() == header.newest
            && part.facts() == header.facts;
        if is_sound {
            return Ok(part);
        }
        Err(Error::corruption("a part of a file of facts states what cannot be"))
    }
}

/// Makes the checksum of a part right.
pub(crate) fn seal_part(part: &mut [u8], seed: u32, offset: u64) {
    let covered = part.get(PART_COVERED_FROM..).unwrap_or_default();
    let crc = crc_at(seed, offset + PART_COVERED_FROM as u64, covered).to_le_bytes();
    if let Some(place) = part.get_mut(..PART_COVERED_FROM) {
        place.copy_from_slice(&crc);
    }
}

/// What the trailer says: that the file is complete, and what all of it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Parts.
    pub(crate) parts: u64,
    /// Facts in all of them.
    pub(crate) facts: u64,
    /// Checksum of the parts' checksums in their order.
    pub(crate) checksum: u32,
}

impl Trailer {
    /// The trailer's bytes where it stands at `offset`.
    pub(crate) fn encode(&self, seed: u32, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&TRAILER_MAGIC);
        bytes.extend_from_slice(&self.parts.to_le_bytes());
        bytes.extend_from_slice(&self.facts.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        let crc = crc_at(seed, offset, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, END]);
        bytes
    }

    /// Decodes and proves the trailer that stands at `offset`.
    pub(crate) fn decode(bytes: &[u8], seed: u32, offset: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(TRAILER_MAGIC.len())?;
        let trailer = Self { parts: reader.u64()?, facts: reader.u64()?, checksum: reader.u32()? };
        let crc = reader.u32()?;
        let covered = bytes.get(..TRAILER_COVERED).unwrap_or_default();
        let is_sound = magic == TRAILER_MAGIC
            && crc == crc_at(seed, offset, covered)
            && reader.rest() == [0, 0, 0, END];
        if is_sound {
            return Ok(trailer);
        }
        Err(Error::corruption("a file of facts does not end with its trailer"))
    }
}
