//! What the manifest says of the locator: that an edit has touched it, and which file is a
//! checkpoint of it. A checkpoint counts until the next edit that touches (rule R18).

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::FILE_ID_MAX;
use crate::base::section::{Section, SectionTag};
use crate::values::locator::Generation;

/// Version of the section LOCATOR. On disk: raised by every change.
const VERSION: u8 = 1;
const TOUCHED: u8 = 1;
const SAVED: u8 = 2;
/// Most shards that a checkpoint has.
const SHARDS_MAX: usize = 64;

/// A checkpoint of the locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedLocator {
    /// Its file.
    pub(crate) id: FileId,
    /// Edits with touches before it.
    pub(crate) generation: Generation,
    /// Bytes of the section of each shard, one after the other; 0 for one that is left out.
    pub(crate) shards: Vec<u64>,
}

impl SavedLocator {
    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Where the section of a shard is, and its bytes; `None` where it has none.
    pub(crate) fn section(&self, shard: usize) -> Option<(u64, u64)> {
        let bytes = self.shards.get(shard).copied().filter(|bytes| *bytes > 0)?;
        let before = self.shards.iter().take(shard);
        Some((before.fold(0, |sum, bytes| sum.saturating_add(*bytes)), bytes))
    }
}

/// One edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocatorEdit {
    /// The edit has changed what is newest: a checkpoint of before counts no more.
    Touched,
    /// This is a checkpoint.
    Saved(SavedLocator),
}

impl LocatorEdit {
    /// The edit as a section.
    pub(crate) fn encode(&self) -> Section {
        let mut payload = vec![VERSION];
        match self {
            Self::Touched => payload.push(TOUCHED),
            Self::Saved(SavedLocator { id, generation, shards }) => {
                payload.push(SAVED);
                put_varint(&mut payload, id.0);
                put_varint(&mut payload, generation.0);
                put_varint(&mut payload, shards.len() as u64);
                shards.iter().for_each(|bytes| put_varint(&mut payload, *bytes));
            }
        }
        Section { tag: SectionTag::LOCATOR, payload }
    }

    /// Whether a section says that its edit touches the locator.
    pub(crate) fn touches(section: &Section) -> bool {
        section.tag == SectionTag::LOCATOR && section.payload.get(1) == Some(&TOUCHED)
    }

    /// The edit of a section.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let version = reader.u8()?;
        if version != VERSION {
            let message =
                format!("LOCATOR section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let edit = match reader.u8()? {
            TOUCHED => Self::Touched,
            SAVED => Self::Saved(decode_saved(&mut reader)?),
            kind => return Err(Error::corruption(format!("an edit of a locator of kind {kind}"))),
        };
        match reader.is_empty() {
            true => Ok(edit),
            false => Err(Error::corruption("a LOCATOR section with more than it says")),
        }
    }
}

fn decode_saved(reader: &mut Reader<'_>) -> Result<SavedLocator> {
    let (id, generation) = (FileId(reader.varint()?), Generation(reader.varint()?));
    let count = reader.varint()?;
    let is_sound = (1..=FILE_ID_MAX).contains(&id.0) && count <= SHARDS_MAX as u64;
    if !is_sound {
        return Err(Error::corruption("a checkpoint of a locator that cannot be"));
    }
    let shards = (0..count).map(|_| reader.varint()).collect::<Result<Vec<u64>>>()?;
    match shards.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes)) {
        Some(bytes) if bytes <= i64::MAX as u64 => Ok(SavedLocator { id, generation, shards }),
        _ => Err(Error::corruption("a checkpoint of a locator longer than any file")),
    }
}

#[cfg(test)]
mod tests;
