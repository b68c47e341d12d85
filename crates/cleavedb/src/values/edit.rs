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
use crate::base::names::FILE_ID_MAX;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::Arc;
use crate::log::footer::Totals;
use crate::log::format::Sealed;
use crate::log::punched::Punched;
use crate::values::large::format::LARGE_BYTES_MIN;
use crate::values::table::properties::decode_totals;

/// Version of the section. On disk: raised by every change.
const VERSION: u8 = 4;

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

/// What is known of a container: a value table with the records of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerInfo {
    /// Number, exact length, and the checksum in its trailer.
    pub(crate) sealed: Sealed,
    /// What its records come to. Their seqs need not be distinct.
    pub(crate) totals: Totals,
    /// The files that are in it, in ascending order, with the epochs that they have there.
    pub(crate) files: Vec<(FileId, u32)>,
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
    /// 7: files in force are in this container from here on, each with an epoch more than before;
    /// what they were in is not needed any more (rule R2).
    Rewritten(Arc<ContainerInfo>),
    /// 8: these files, which no edit before has named, are in this container: in a snapshot, and
    /// where compaction has put records in order.
    Held(Arc<ContainerInfo>),
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
            Self::Rewritten(ref info) => info.encode(7, out),
            Self::Held(ref info) => info.encode(8, out),
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
            7 => Ok(Self::Rewritten(Arc::new(ContainerInfo::decode(id, reader)?))),
            8 => Ok(Self::Held(Arc::new(ContainerInfo::decode(id, reader)?))),
            other => Err(Error::corruption(format!("unknown edit {other} of value files"))),
        }
    }
}

/// Fewest bytes of a file of a container.
const MEMBER_BYTES_MIN: usize = 2;

impl ContainerInfo {
    fn encode(&self, kind: u8, out: &mut Vec<u8>) {
        let Self { sealed, totals, files } = self;
        out.push(kind);
        put_varint(out, sealed.id.0);
        put_varint(out, sealed.bytes);
        put_varint(out, u64::from(sealed.checksum));
        totals.encode(out);
        put_varint(out, files.len() as u64);
        let mut before = 0;
        for &(file, epoch) in files {
            put_varint(out, file.0 - before);
            put_varint(out, u64::from(epoch));
            before = file.0;
        }
    }

    fn decode(id: FileId, reader: &mut Reader<'_>) -> Result<Self> {
        let bytes = reader.varint()?;
        let sealed = Sealed { id, bytes, checksum: reader.varint_u32()? };
        let totals = decode_totals(reader)?;
        let count = reader.varint()?;
        // Not trusted with an allocation further than the bytes justify (rule F8).
        let is_sound = count > 0
            && count <= (reader.rest().len() / MEMBER_BYTES_MIN) as u64
            && id.0 <= FILE_ID_MAX
            && totals.record_bytes <= bytes;
        if !is_sound {
            let message = format!("container {id} of value files states what cannot be");
            return Err(Error::corruption(message));
        }
        let mut files = Vec::with_capacity(count as usize);
        let mut before = 0_u64;
        for _ in 0..count {
            let (step, epoch) = (reader.varint()?, reader.varint_u32()?);
            let file = before.saturating_add(step);
            if step == 0 || file > FILE_ID_MAX || epoch == 0 {
                let message = format!("container {id} holds files that do not ascend");
                return Err(Error::corruption(message));
            }
            before = file;
            files.push((FileId(file), epoch));
        }
        Ok(Self { sealed, totals, files })
    }
}

#[cfg(test)]
mod tests;
