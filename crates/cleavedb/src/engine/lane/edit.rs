//! The section JOURNAL of a manifest edit: journal segments added, sealed and removed.

use std::collections::VecDeque;

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::{FileId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::section::{Section, SectionTag};
use crate::engine::lane::Segment;
use crate::log::format::Sealed;

/// A change to the set of segments. On disk: never renumber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalEdit {
    /// 1: frames may stand in this segment from here on.
    Added {
        /// Its number.
        id: FileId,
    },
    /// 2: the segment is complete.
    Sealed {
        /// Number, exact length, checksum.
        sealed: Sealed,
        /// Last seq in it or before it.
        last_seq: Seq,
    },
    /// 3: nothing in the segment is needed any more.
    Removed {
        /// Its number.
        id: FileId,
    },
}

impl JournalEdit {
    /// The edits as a section.
    pub(crate) fn encode(edits: &[Self]) -> Section {
        let mut payload = Vec::new();
        for edit in edits {
            match edit {
                Self::Added { id } => {
                    payload.push(1);
                    put_varint(&mut payload, id.0);
                }
                Self::Sealed { sealed, last_seq } => {
                    payload.push(2);
                    put_varint(&mut payload, sealed.id.0);
                    put_varint(&mut payload, sealed.bytes);
                    put_varint(&mut payload, u64::from(sealed.checksum));
                    put_varint(&mut payload, *last_seq);
                }
                Self::Removed { id } => {
                    payload.push(3);
                    put_varint(&mut payload, id.0);
                }
            }
        }
        Section { tag: SectionTag::JOURNAL, payload }
    }

    /// The edits of a section.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(match reader.u8()? {
                1 => Self::Added { id: FileId(reader.varint()?) },
                2 => {
                    let id = FileId(reader.varint()?);
                    let bytes = reader.varint()?;
                    let checksum = reader.varint_u32()?;
                    let sealed = Sealed { id, bytes, checksum };
                    let last_seq = reader.varint()?;
                    if last_seq > SEQ_MAX {
                        return Err(Error::corruption("a sealed segment ends out of range"));
                    }
                    Self::Sealed { sealed, last_seq }
                }
                3 => Self::Removed { id: FileId(reader.varint()?) },
                other => return Err(Error::corruption(format!("unknown journal edit {other}"))),
            });
        }
        Ok(edits)
    }

    /// Applies the edit to the list of segments.
    pub(crate) fn apply(self, segments: &mut VecDeque<Segment>) -> Result<()> {
        let find = |segments: &mut VecDeque<Segment>, id: FileId| {
            segments.iter().position(|segment| segment.id == id).ok_or_else(|| {
                Error::corruption(format!("the manifest names journal {id} before adding it"))
            })
        };
        match self {
            Self::Added { id } => {
                if segments.back().is_some_and(|newest| newest.id >= id) {
                    let message = format!("the manifest adds journal {id} after a newer one");
                    return Err(Error::corruption(message));
                }
                segments.push_back(Segment { id, last_seq: 0, sealed: None });
            }
            Self::Sealed { sealed, last_seq } => {
                let at = find(segments, sealed.id)?;
                if let Some(segment) = segments.get_mut(at) {
                    if segment.sealed.is_some_and(|before| before != sealed) {
                        let message = format!("journal {} is sealed twice, differently", sealed.id);
                        return Err(Error::corruption(message));
                    }
                    segment.last_seq = last_seq;
                    segment.sealed = Some(sealed);
                }
            }
            Self::Removed { id } => {
                let at = find(segments, id)?;
                segments.remove(at);
            }
        }
        Ok(())
    }
}
