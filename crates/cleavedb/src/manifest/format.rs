//! The bytes of an edit and of the pointer files. The manifest itself is a segment file
//! (`log::format`) whose frames hold one edit each. No I/O, no state, any thread.

use crate::base::checksum::{crc_at, file_seed};
use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::section::{Section, SectionTag};
use crate::log::format::{FORMAT_VERSION, PAYLOAD_BYTES_MAX, unsupported_version};

/// Bytes in front of a section's payload: tag and length.
pub(crate) const SECTION_HEADER_BYTES: usize = 6;

/// One atomic change of the database's files: all of its sections, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// What changes, by component, in the order given.
    pub(crate) sections: Vec<Section>,
}

impl Edit {
    /// The payload of the edit's frame.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let bytes: usize =
            self.sections.iter().map(|s| SECTION_HEADER_BYTES + s.payload.len()).sum();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Error::invalid(format!("manifest edit of {bytes} bytes")));
        }
        let mut out = Vec::with_capacity(bytes);
        for section in &self.sections {
            out.extend_from_slice(&section.tag.0.to_le_bytes());
            out.extend_from_slice(&(section.payload.len() as u32).to_le_bytes());
            out.extend_from_slice(&section.payload);
        }
        Ok(out)
    }

    /// Decodes a frame's payload. A section that this build does not know and may not skip is
    /// `Unsupported`; one that it may skip is kept as it is.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let mut sections = Vec::new();
        while !reader.is_empty() {
            let tag = SectionTag(reader.u16()?);
            let length = reader.u32()?;
            let payload = reader.take(length as usize)?;
            if tag.0 & 0x7fff == 0 {
                return Err(Error::corruption("section with the reserved number zero"));
            }
            if !tag.is_known() && !tag.is_optional() {
                let message = format!(
                    "the manifest holds a section of kind {}, unknown to this build",
                    tag.0
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            sections.push(Section { tag, payload: payload.to_vec() });
        }
        Ok(Self { sections })
    }

    /// Sections that this build does not know but must not lose.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(|section| !section.tag.is_known())
    }
}

/// Bytes of a pointer file. This length, and the places of magic, checksum and version, stay the
/// same in every later version, so that a newer file can be told from a damaged one.
pub(crate) const POINTER_BYTES: usize = 48;
/// Last byte of a pointer file.
pub(crate) const POINTER_END: u8 = 0xE5;

/// Offsets of the fields of a pointer file.
#[allow(dead_code, reason = "the page of the format is checked against every one of them")]
pub(crate) mod pointer_offset {
    /// Magic, 8 bytes.
    pub(crate) const MAGIC: usize = 0;
    /// Checksum of what follows it, 4 bytes.
    pub(crate) const CRC: usize = 8;
    /// Format number, 4 bytes.
    pub(crate) const VERSION: usize = 12;
    /// Identity of the database, 16 bytes.
    pub(crate) const UUID: usize = 16;
    /// Number of the manifest in force, 8 bytes.
    pub(crate) const MANIFEST_ID: usize = 32;
    /// Zero, 7 bytes.
    pub(crate) const RESERVED: usize = 40;
    /// The end mark, 1 byte.
    pub(crate) const END: usize = 47;
}

const _: () = assert!(pointer_offset::END + 1 == POINTER_BYTES);

/// Which pointer file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerKind {
    /// `CURRENT`: the manifest in force.
    Current,
    /// `CREATING`: the manifest of a database that is being created.
    Creating,
}

impl PointerKind {
    /// First bytes of the file.
    pub(crate) fn magic(self) -> [u8; 8] {
        match self {
            Self::Current => *b"CLVCURNT",
            Self::Creating => *b"CLVBIRTH",
        }
    }
}

/// What a pointer file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// Number of the manifest.
    pub(crate) manifest_id: FileId,
}

impl Pointer {
    /// The bytes of the file.
    pub(crate) fn encode(&self, kind: PointerKind) -> Vec<u8> {
        let mut tail = Vec::with_capacity(POINTER_BYTES - pointer_offset::VERSION);
        tail.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        tail.extend_from_slice(&self.uuid);
        tail.extend_from_slice(&self.manifest_id.0.to_le_bytes());
        tail.extend_from_slice(&[0; pointer_offset::END - pointer_offset::RESERVED]);
        tail.push(POINTER_END);
        let mut out = Vec::with_capacity(POINTER_BYTES);
        out.extend_from_slice(&kind.magic());
        out.extend_from_slice(&pointer_crc(&self.uuid, &tail).to_le_bytes());
        out.extend_from_slice(&tail);
        debug_assert_eq!(out.len(), POINTER_BYTES);
        out
    }

    /// Decodes the whole file. A newer format is `Unsupported`, everything else `Corruption`.
    pub(crate) fn decode(bytes: &[u8], kind: PointerKind) -> Result<Self> {
        let mut reader = Reader::new(bytes.get(..POINTER_BYTES).unwrap_or(bytes));
        if reader.take(pointer_offset::CRC)? != kind.magic() {
            return Err(Error::corruption("not a pointer file: its magic is missing"));
        }
        let crc = reader.u32()?;
        let tail = reader.rest();
        let version = reader.u32()?;
        let uuid = reader.uuid()?;
        let manifest_id = FileId(reader.u64()?);
        let reserved = reader.take(pointer_offset::END - pointer_offset::RESERVED)?;
        let end = reader.u8()?;
        if crc != pointer_crc(&uuid, tail) {
            return Err(Error::corruption("pointer file does not match its checksum"));
        }
        if version != FORMAT_VERSION {
            return Err(unsupported_version(version));
        }
        let strict = bytes.len() == POINTER_BYTES
            && reserved.iter().all(|&byte| byte == 0)
            && end == POINTER_END
            && manifest_id.0 != 0;
        if !strict {
            return Err(Error::corruption("pointer file holds bytes it may not hold"));
        }
        Ok(Self { uuid, manifest_id })
    }
}

fn pointer_crc(uuid: &[u8; 16], tail: &[u8]) -> u32 {
    crc_at(file_seed(uuid, 0), pointer_offset::VERSION as u64, tail)
}

#[cfg(test)]
mod tests;
