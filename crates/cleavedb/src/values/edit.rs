//! The section VALUES of a manifest edit: value files added, sealed, punched and removed, and
//! changes of how many index entries name each. Pure data; `values::file_table` says what follows
//! from it.
//!
//! Layout: version (1 byte), then the edits: kind (1 byte), file (varint), and what the kind needs.
//! A snapshot is written with the same kinds: what to do from nothing to get there.

use crate::base::codec::{Reader, put_signed, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::LARGE_VALUE_BYTES_MAX;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::Arc;
use crate::log::footer::Totals;
use crate::log::format::Sealed;
use crate::log::punched::Punched;
use crate::values::large::format::LARGE_BYTES_MIN;

/// Version of the section. On disk: raised by every change.
const VERSION: u8 = 3;

/// What is known of a value file once it does not grow any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedValues {
    /// Number, exact length, checksum of the whole file.
    pub(crate) sealed: Sealed,
    /// Largest seq of any operation in it, separated or not.
    pub(crate) last_seq: Seq,
    /// What its separated records come to.
    pub(crate) totals: Totals,
}

/// What is known of a large value's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargeInfo {
    /// Number, exact length, and the checksum in its trailer.
    pub(crate) sealed: Sealed,
    /// Bytes of the value.
    pub(crate) value_bytes: u64,
    /// Seq of its put.
    pub(crate) seq: Seq,
}

/// One change of the value files. On disk: never renumber the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValuesEdit {
    /// 1: a new file, to which records may be written from here on.
    Added {
        /// Number of the file.
        id: FileId,
    },
    /// 2: the file does not grow any more.
    Sealed(SealedValues),
    /// 3: so many index entries more (or fewer) name the file.
    Counted {
        /// Number of the file.
        id: FileId,
        /// Entries.
        refs: i64,
        /// Bytes of the records that they name.
        ref_bytes: i64,
    },
    /// 4: the file is not needed any more.
    Removed {
        /// Number of the file.
        id: FileId,
    },
    /// 5: the file of one large value, which is complete.
    AddedLarge(LargeInfo),
    /// 6: what has been given back of a sealed file, all in all.
    Punched {
        /// Number of the file.
        id: FileId,
        /// The runs, and what is known of the rest.
        punched: Arc<Punched>,
    },
}

impl ValuesEdit {
    /// Encodes the section.
    pub(crate) fn encode(edits: &[Self]) -> Section {
        let mut payload = vec![VERSION];
        for edit in edits {
            edit.encode_one(&mut payload);
        }
        Section { tag: SectionTag::VALUES, payload }
    }

    fn encode_one(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Punched { id, ref punched } => {
                out.push(6);
                put_varint(out, id.0);
                punched.encode(out);
            }
            Self::Added { id } => {
                out.push(1);
                put_varint(out, id.0);
            }
            Self::Sealed(SealedValues { sealed, last_seq, totals }) => {
                out.push(2);
                put_varint(out, sealed.id.0);
                put_varint(out, sealed.bytes);
                put_varint(out, u64::from(sealed.checksum));
                put_varint(out, last_seq);
                totals.encode(out);
            }
            Self::Counted { id, refs, ref_bytes } => {
                out.push(3);
                put_varint(out, id.0);
                put_signed(out, refs);
                put_signed(out, ref_bytes);
            }
            Self::Removed { id } => {
                out.push(4);
                put_varint(out, id.0);
            }
            Self::AddedLarge(LargeInfo { sealed, value_bytes, seq }) => {
                out.push(5);
                put_varint(out, sealed.id.0);
                put_varint(out, sealed.bytes);
                put_varint(out, u64::from(sealed.checksum));
                put_varint(out, value_bytes);
                put_varint(out, seq);
            }
        }
    }

    /// Decodes a section's payload; every byte must have a meaning.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let version = reader.u8()?;
        if version != VERSION {
            let message =
                format!("VALUES section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(Self::decode_one(&mut reader)?);
        }
        Ok(edits)
    }

    fn decode_one(reader: &mut Reader<'_>) -> Result<Self> {
        let kind = reader.u8()?;
        let id = FileId(reader.varint()?);
        if id.0 == 0 {
            return Err(Error::corruption("a value file without number"));
        }
        match kind {
            1 => Ok(Self::Added { id }),
            2 => {
                let bytes = reader.varint()?;
                let sealed = Sealed { id, bytes, checksum: reader.varint_u32()? };
                let last_seq = reader.varint()?;
                let totals = Totals::decode(reader)?;
                let is_sound = last_seq <= SEQ_MAX
                    && totals.largest_seq <= last_seq
                    && totals.record_bytes <= bytes;
                if !is_sound {
                    let message = format!("value file {id} is sealed with more than it can hold");
                    return Err(Error::corruption(message));
                }
                Ok(Self::Sealed(SealedValues { sealed, last_seq, totals }))
            }
            3 => {
                let refs = reader.signed()?;
                Ok(Self::Counted { id, refs, ref_bytes: reader.signed()? })
            }
            4 => Ok(Self::Removed { id }),
            5 => {
                let bytes = reader.varint()?;
                let sealed = Sealed { id, bytes, checksum: reader.varint_u32()? };
                let (value_bytes, seq) = (reader.varint()?, reader.varint()?);
                let is_sound = (LARGE_BYTES_MIN..=LARGE_VALUE_BYTES_MAX).contains(&value_bytes)
                    && value_bytes < bytes
                    && (1..=SEQ_MAX).contains(&seq);
                if !is_sound {
                    let message = format!("file {id} of a large value states what cannot be");
                    return Err(Error::corruption(message));
                }
                Ok(Self::AddedLarge(LargeInfo { sealed, value_bytes, seq }))
            }
            6 => Ok(Self::Punched { id, punched: Arc::new(Punched::decode(reader)?) }),
            other => Err(Error::corruption(format!("unknown edit {other} of value files"))),
        }
    }
}

#[cfg(test)]
mod tests;
