//! The LSM's section of a manifest edit: tables taken out of and put into the levels.
//!
//! Layout (little-endian): keyspace u32, version u8, kind u8, count of removed (varint), each
//! level u8 and file (varint), count of added (varint), each level u8, hidden (varint), table.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::{Error, Result};
use crate::base::limits::LEVELS;
use crate::base::section::{Section, SectionTag};
use crate::index::lsm::version::{Version, VersionEdit};
use crate::index::section_keyspace;
use crate::index::table_file::TableFile;
use crate::table::meta::TableMeta;

#[cfg(test)]
mod tests;

/// Version of the section. On disk: raised by every change.
const VERSION: u8 = 1;

/// What a section holds. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EditKind {
    /// A change.
    Change = 1,
    /// The whole state; what came before is void.
    Snapshot = 2,
}

/// A table as a section names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedTable {
    pub(crate) level: usize,
    /// See `FileShape::hidden`.
    pub(crate) hidden: u64,
    pub(crate) meta: TableMeta,
}

/// A section, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodedEdit {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: EditKind,
    pub(crate) removed: Vec<(usize, FileId)>,
    pub(crate) added: Vec<AddedTable>,
}

impl DecodedEdit {
    /// The section of a change.
    pub(crate) fn of_change(keyspace: KeyspaceId, edit: &VersionEdit) -> Self {
        let added = edit.added.iter().map(|(level, file)| Self::added(*level, file)).collect();
        Self { keyspace, kind: EditKind::Change, removed: edit.removed.clone(), added }
    }

    /// The section of a whole state; runs of level 0 from oldest to newest.
    pub(crate) fn of_state(keyspace: KeyspaceId, version: &Version) -> Self {
        let runs = version.level(0).iter().rev().map(|file| Self::added(0, file));
        let deeper = version.files().filter(|(level, _)| *level > 0);
        let added = runs.chain(deeper.map(|(level, file)| Self::added(level, file))).collect();
        Self { keyspace, kind: EditKind::Snapshot, removed: Vec::new(), added }
    }

    fn added(level: usize, file: &TableFile) -> AddedTable {
        AddedTable { level, hidden: file.shape.hidden, meta: file.meta.clone() }
    }

    /// Encodes the section.
    pub(crate) fn encode(&self) -> Section {
        let mut payload = Vec::new();
        payload.extend_from_slice(&self.keyspace.0.to_le_bytes());
        payload.push(VERSION);
        payload.push(self.kind as u8);
        put_varint(&mut payload, self.removed.len() as u64);
        for (level, id) in &self.removed {
            payload.push(*level as u8);
            put_varint(&mut payload, id.0);
        }
        put_varint(&mut payload, self.added.len() as u64);
        for table in &self.added {
            payload.push(table.level as u8);
            put_varint(&mut payload, table.hidden);
            table.meta.encode(&mut payload);
        }
        Section { tag: SectionTag::LSM, payload }
    }

    /// Decodes a section; every byte must have a meaning.
    pub(crate) fn decode(section: &Section) -> Result<Self> {
        if section.tag != SectionTag::LSM {
            return Err(Error::corruption("not a section of an LSM index"));
        }
        let keyspace = section_keyspace(section)?;
        let mut reader = Reader::new(&section.payload);
        reader.u32()?;
        let version = reader.u8()?;
        if version != VERSION {
            let message = format!("LSM section of version {version}, this build knows {VERSION}");
            return Err(Error::new(crate::base::error::ErrorKind::Unsupported, message));
        }
        let kind = match reader.u8()? {
            1 => EditKind::Change,
            2 => EditKind::Snapshot,
            other => return Err(Error::corruption(format!("unknown LSM section kind {other}"))),
        };
        // Counts are not trusted with an allocation: each item takes bytes that must be there.
        let mut removed = Vec::new();
        for _ in 0..reader.varint()? {
            removed.push((level(&mut reader)?, FileId(reader.varint()?)));
        }
        let mut added = Vec::new();
        for _ in 0..reader.varint()? {
            let level = level(&mut reader)?;
            let hidden = reader.varint()?;
            added.push(AddedTable { level, hidden, meta: TableMeta::decode(&mut reader)? });
        }
        if !reader.is_empty() || (kind == EditKind::Snapshot && !removed.is_empty()) {
            return Err(Error::corruption("an LSM section holds more than it should"));
        }
        Ok(Self { keyspace, kind, removed, added })
    }
}

fn level(reader: &mut Reader<'_>) -> Result<usize> {
    let level = usize::from(reader.u8()?);
    if level >= LEVELS {
        return Err(Error::corruption(format!("level {level} does not exist")));
    }
    Ok(level)
}
