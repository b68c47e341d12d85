//! Operations on a space by itself, one after the other: what its tests and fuzz targets do.

use std::ops::Range;

use crate::base::error::Result;
use crate::index::flex::space::Space;
use crate::index::flex::tree::extent::Tag;
use crate::io::Purpose;

#[cfg_attr(not(test), expect(dead_code, reason = "fuzz targets do some of what tests do"))]
impl Space {
    /// As [`Making::insert`](super::Making::insert).
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], owner: u64) -> Result<()> {
        self.making()?.insert(offset, bytes, owner)
    }

    /// As [`Making::collapse`](super::Making::collapse).
    pub(crate) fn collapse(&mut self, range: Range<u64>) -> Result<()> {
        self.making()?.collapse(range)
    }

    /// As [`Making::update`](super::Making::update).
    pub(crate) fn update(&mut self, range: Range<u64>, bytes: &[u8], owner: u64) -> Result<()> {
        self.making()?.update(range, bytes, owner)
    }

    /// The bytes of a range, those of the group in the making among them.
    pub(crate) fn read(&self, range: Range<u64>, purpose: Purpose) -> Result<Vec<u8>> {
        self.making.read(range, purpose)
    }

    /// As [`Making::set_tag`](super::Making::set_tag).
    pub(crate) fn set_tag(&mut self, offset: u64, tag: Option<Tag>) -> Result<()> {
        self.making()?.set_tag(offset, tag)
    }

    /// Writes bytes over as many others; at the end, behind them.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], owner: u64) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64).min(self.tree().length());
        self.update(offset..end.max(offset), bytes, owner)
    }

    /// Reads a range and writes it again in one piece, tags and all.
    pub(crate) fn defragment(&mut self, range: Range<u64>, owner: u64) -> Result<()> {
        let tags: Vec<(u64, Tag)> = self
            .tree()
            .walk(range.clone())?
            .filter_map(|piece| Some((piece.offset, piece.extent.tag?)))
            .collect();
        let bytes = self.read(range.clone(), Purpose::Flush)?;
        self.update(range, &bytes, owner)?;
        tags.into_iter().try_for_each(|(offset, tag)| self.set_tag(offset, Some(tag)))
    }
}
