//! What an edit says of a file of facts: which one, and where in it the facts about each value file
//! stand. Pure data.
//!
//! Layout, behind the file's number, varints but the checksum: bytes of the file, checksum (4
//! bytes), generation up to which facts of before stand in it, number of parts; then each part: its
//! value file less that of the one before (0: more of the same), bytes between the one before and
//! it, its bytes, its facts, how far its newest generation is below that of the file, and the
//! generation up to which a collection has read it.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::FILE_ID_MAX;
use crate::values::drops::edit::{GENERATION_MAX, Generation};
use crate::values::drops::spilled::format::{
    HEADER_BYTES, PART_BYTES_MAX, PART_BYTES_MIN, PART_HEADER_BYTES, TRAILER_BYTES,
};

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 62;

/// Where facts about one value file stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpilledPart {
    /// The value file.
    pub(crate) file: FileId,
    /// Offset of the part.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: u32,
    /// Its facts, those among them that were read since it was written.
    pub(crate) facts: u64,
    /// Facts up to this generation have been read by a collection: they count no more.
    pub(crate) after: Generation,
    /// Generation of its newest facts.
    pub(crate) newest: Generation,
}

/// A file of facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpilledFile {
    /// Its number.
    pub(crate) id: FileId,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Checksum of its parts, as its trailer has it.
    pub(crate) checksum: u32,
    /// All facts up to here stand in it, or stood in a file before it.
    pub(crate) upto: Generation,
    /// The parts that count, ascending by value file.
    pub(crate) parts: Vec<SpilledPart>,
}

impl SpilledFile {
    /// Appends all but the number.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.bytes);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        put_varint(out, self.upto.0);
        put_varint(out, self.parts.len() as u64);
        let (mut file, mut end) = (0, HEADER_BYTES as u64);
        for part in &self.parts {
            put_varint(out, part.file.0.saturating_sub(file));
            put_varint(out, part.offset.saturating_sub(end));
            put_varint(out, u64::from(part.bytes));
            put_varint(out, part.facts);
            put_varint(out, self.upto.0.saturating_sub(part.newest.0));
            put_varint(out, part.after.0);
            (file, end) = (part.file.0, part.end());
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(id: FileId, reader: &mut Reader<'_>) -> Result<Self> {
        let (bytes, checksum) = (reader.varint()?, reader.u32()?);
        let upto = Generation(reader.varint()?);
        let count = reader.varint()?;
        let is_sound =
            count > 0 && bytes <= FILE_BYTES_MAX && (1..=GENERATION_MAX).contains(&upto.0);
        if !is_sound {
            return Err(Error::corruption("a file of facts that cannot be"));
        }
        let mut spilled = Self { id, bytes, checksum, upto, parts: Vec::new() };
        let (mut file, mut end) = (0, HEADER_BYTES as u64);
        // Each part takes bytes, so this ends with the section.
        for _ in 0..count {
            let part = spilled.decode_part(file, end, reader)?;
            (file, end) = (part.file.0, part.end());
            spilled.parts.push(part);
        }
        if end.saturating_add(TRAILER_BYTES as u64) > bytes {
            return Err(Error::corruption("a part of facts behind the end of its file"));
        }
        Ok(spilled)
    }

    fn decode_part(&self, file: u64, end: u64, reader: &mut Reader<'_>) -> Result<SpilledPart> {
        let file = file.saturating_add(reader.varint()?);
        let offset = end.saturating_add(reader.varint()?);
        let bytes = reader.varint()?;
        let facts = reader.varint()?;
        let newest = self.upto.0.checked_sub(reader.varint()?).map(Generation);
        let after = Generation(reader.varint()?);
        let bytes_max = (PART_HEADER_BYTES + PART_BYTES_MAX) as u64;
        let newest = newest.filter(|newest| *newest > after);
        let is_sound = (1..=FILE_ID_MAX).contains(&file)
            && (PART_BYTES_MIN as u64..=bytes_max).contains(&bytes)
            && (1..=bytes).contains(&facts)
            && offset.saturating_add(bytes) <= self.bytes;
        match newest {
            Some(newest) if is_sound => {
                let (file, bytes) = (FileId(file), bytes as u32);
                Ok(SpilledPart { file, offset, bytes, facts, after, newest })
            }
            _ => Err(Error::corruption("a part of facts that cannot be")),
        }
    }
}

impl SpilledPart {
    /// Offset behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }
}
