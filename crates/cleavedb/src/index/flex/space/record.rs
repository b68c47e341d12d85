//! Records of the logical log: what was done to the tree, in few bytes. Encoding, decoding and
//! doing it again; no I/O.
//!
//! Invariant: LR-1 a record done again to the tree that it was done to gives the same tree.

use crate::base::codec::{Reader, put_varint};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::index::flex::space::segment::format::{SEGMENT_ID_MAX, place_of};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, LENGTH_MAX, Tag};

/// Fewest bytes of an extent in a record.
const EXTENT_BYTES_MIN: usize = 2;

/// What is done to a tree. On disk: never renumber the kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Kind 1: extents in the place of a range; an insertion has no range, a collapse no extents.
    Update {
        /// Where the range begins.
        offset: u64,
        /// Bytes that go.
        removed: u64,
        /// What comes, without tags.
        extents: Vec<Extent>,
    },
    /// Kind 2: the tag of a byte.
    Tag {
        /// The byte.
        offset: u64,
        /// Its tag from now on.
        tag: Option<Tag>,
    },
    /// Kind 3: a range maps to another place; its bytes are the same.
    Moved {
        /// Where the range begins.
        offset: u64,
        /// Bytes of it.
        length: u64,
        /// Physical address of before.
        old: u64,
        /// Physical address from now on.
        new: u64,
    },
    /// Kind 4: a segment is led to from here on, and this is its birth.
    Born {
        /// The segment.
        segment: FileId,
        /// Its birth, never 0.
        birth: u64,
    },
}

impl Record {
    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Update { offset, removed, extents } => {
                out.push(1);
                put_varint(out, *offset);
                put_varint(out, *removed);
                put_varint(out, extents.len() as u64);
                for extent in extents {
                    put_varint(out, extent.physical);
                    put_varint(out, extent.length.into());
                }
            }
            Self::Tag { offset, tag } => {
                out.push(2);
                put_varint(out, *offset);
                put_varint(out, tag.map_or(0, |tag| tag.0.get().into()));
            }
            Self::Moved { offset, length, old, new } => {
                out.push(3);
                [*offset, *length, *old, *new].iter().for_each(|number| put_varint(out, *number));
            }
            Self::Born { segment, birth } => {
                out.push(4);
                [segment.0, *birth].iter().for_each(|number| put_varint(out, *number));
            }
        }
    }

    /// Reads one.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.u8()? {
            1 => {
                let (offset, removed, count) =
                    (reader.varint()?, reader.varint()?, reader.varint()?);
                if count > (reader.rest().len() / EXTENT_BYTES_MIN) as u64 {
                    return Err(Error::corruption("a record states too many extents"));
                }
                let mut extents = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    let extent = Extent::new(reader.varint()?, reader.varint_u32()?);
                    in_one_segment(extent.physical, extent.length.into())?;
                    extents.push(extent);
                }
                Ok(Self::Update { offset, removed, extents })
            }
            2 => {
                let (offset, tag) = (reader.varint()?, reader.varint()?);
                let number = u16::try_from(tag)
                    .map_err(|_| Error::corruption("a record states a tag that cannot be"))?;
                Ok(Self::Tag { offset, tag: Tag::new(number) })
            }
            3 => {
                let (offset, length) = (reader.varint()?, reader.varint()?);
                let (old, new) = (reader.varint()?, reader.varint()?);
                in_one_segment(old, length)?;
                in_one_segment(new, length)?;
                Ok(Self::Moved { offset, length, old, new })
            }
            4 => {
                let (segment, birth) = (FileId(reader.varint()?), reader.varint()?);
                if !is_possible(segment, birth) {
                    return Err(Error::corruption("the birth of a segment that cannot be"));
                }
                Ok(Self::Born { segment, birth })
            }
            kind => Err(Error::corruption(format!("a record of kind {kind}, which is unknown"))),
        }
    }

    /// The same so many bytes further to the right, or to the left.
    ///
    /// # Errors
    /// Where no byte can be.
    pub(crate) fn shifted(mut self, by: i64) -> Result<Self> {
        let (Self::Update { offset, .. } | Self::Tag { offset, .. } | Self::Moved { offset, .. }) =
            &mut self
        else {
            return Ok(self);
        };
        let moved = offset.checked_add_signed(by);
        *offset = moved.ok_or_else(|| Error::corruption("a record of what no space reaches"))?;
        Ok(self)
    }

    /// By how many bytes the space is longer behind it.
    pub(crate) fn growth(&self) -> i64 {
        match self {
            Self::Update { removed, extents, .. } => {
                let come = extents.iter().map(|extent| i64::from(extent.length)).sum::<i64>();
                come.saturating_sub_unsigned(*removed)
            }
            Self::Tag { .. } | Self::Moved { .. } | Self::Born { .. } => 0,
        }
    }

    /// Does it to a tree.
    ///
    /// # Errors
    /// Where it cannot have been done to this tree; nothing is changed then.
    pub(crate) fn redo(&self, tree: &mut Tree) -> Result<()> {
        let end_of = |offset: u64, length: u64| {
            offset.checked_add(length).filter(|end| *end <= LENGTH_MAX).unwrap_or(u64::MAX)
        };
        let done = match self {
            Self::Update { offset, removed, extents } => {
                tree.update(*offset..end_of(*offset, *removed), extents)
            }
            Self::Tag { offset, tag } => tree.set_tag(*offset, *tag),
            Self::Moved { offset, length, old, new } => {
                match tree.relocate(*offset..end_of(*offset, *length), *old, *new) {
                    Ok(false) => Err(Error::corruption("a record moves what is elsewhere")),
                    outcome => outcome.map(drop),
                }
            }
            Self::Born { .. } => Ok(()),
        };
        done.map_err(|error| Error::corruption(format!("a record that cannot be: {error}")))
    }
}

/// Whether there can be such a segment of such a birth.
pub(super) fn is_possible(segment: FileId, birth: u64) -> bool {
    (1..=SEGMENT_ID_MAX).contains(&segment.0) && birth != 0
}

/// Bytes of a record stand in one segment: what a space never writes in several, and what bounds
/// the extents that a few bytes of a record can make.
fn in_one_segment(physical: u64, length: u64) -> Result<()> {
    let last = physical.checked_add(length).and_then(|end| end.checked_sub(1));
    if last.is_none_or(|last| length == 0 || place_of(last).0 != place_of(physical).0) {
        return Err(Error::corruption("a record of bytes that are in no segment"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
