//! What a tree must say, said in two simpler ways.

use std::ops::Range;

use super::*;

/// A sorted array of extents with absolute offsets: each change shifts all that follows.
#[derive(Clone, Debug)]
pub(super) struct SortedArray {
    pub(super) extents: Vec<Placed>,
    window: u64,
}

impl SortedArray {
    pub(super) fn new(window_bytes: u32) -> Self {
        Self { extents: Vec::new(), window: u64::from(window_bytes) }
    }

    pub(super) fn length(&self) -> u64 {
        self.extents.last().map_or(0, Placed::end)
    }

    /// Number of the extent that holds a byte.
    #[inline(never)]
    pub(super) fn position(&self, offset: u64) -> usize {
        self.extents.partition_point(|placed| placed.end() <= offset)
    }

    pub(super) fn find(&self, offset: u64) -> Option<Placed> {
        self.extents.get(self.position(offset)).copied()
    }

    fn cut_at(&mut self, offset: u64) -> usize {
        let index = self.position(offset);
        if let Some(placed) = self.extents.get(index).copied()
            && placed.offset < offset
        {
            let left = (offset - placed.offset) as u32;
            self.extents[index].extent.length = left;
            let physical = placed.extent.physical + u64::from(left);
            let extent = Extent::new(physical, placed.extent.length - left);
            self.extents.insert(index + 1, Placed { offset, extent });
            return index + 1;
        }
        index
    }

    pub(super) fn replace(&mut self, range: Range<u64>, new: &[Extent]) {
        let mut first = self.cut_at(range.start);
        let mut behind = self.cut_at(range.end);
        let mut list = Vec::new();
        if first > 0 {
            first -= 1;
            list.push(self.extents[first].extent);
        }
        list.extend_from_slice(new);
        if behind < self.extents.len() {
            list.push(self.extents[behind].extent);
            behind += 1;
        }
        let start = self.extents.get(first).map_or(0, |placed| placed.offset);
        let end = behind.checked_sub(1).map_or(0, |last| self.extents[last].end());
        let mut at = start;
        let placed: Vec<Placed> = self
            .joined(&list)
            .into_iter()
            .map(|extent| {
                let placed = Placed { offset: at, extent };
                at = placed.end();
                placed
            })
            .collect();
        let count = placed.len();
        self.extents.splice(first..behind, placed);
        for placed in &mut self.extents[first + count..] {
            placed.offset = placed.offset - end + at;
        }
    }

    /// Extents as they must stand beside each other.
    fn joined(&self, list: &[Extent]) -> Vec<Extent> {
        let mut joined: Vec<Extent> = Vec::new();
        for extent in list {
            let mut rest = *extent;
            while rest.length > 0 {
                let end = (rest.physical / self.window + 1) * self.window;
                let length = u64::from(rest.length).min(end - rest.physical) as u32;
                let piece = Extent { length, ..rest };
                rest = Extent::new(rest.physical + u64::from(length), rest.length - length);
                match joined.last_mut() {
                    Some(last)
                        if last.physical + u64::from(last.length) == piece.physical
                            && piece.tag.is_none()
                            && last.physical / self.window == piece.physical / self.window =>
                    {
                        last.length += piece.length;
                    }
                    _ => joined.push(piece),
                }
            }
        }
        joined
    }

    /// What lies in a range.
    pub(super) fn pieces(&self, range: Range<u64>) -> Vec<Placed> {
        let first = self.position(range.start);
        let rest = self.extents[first..].iter();
        let within = rest.take_while(|placed| placed.offset < range.end && !range.is_empty());
        within.map(|placed| placed.clip(range.start, range.end)).collect()
    }
}

/// One entry for each byte: where it stands, and its tag.
#[derive(Clone, Debug, Default)]
pub(super) struct SingleBytes(Vec<(u64, Option<Tag>)>);

impl SingleBytes {
    pub(super) fn replace(&mut self, range: Range<u64>, new: &[Extent]) {
        let bytes = new.iter().flat_map(|extent| {
            let tag = |number| extent.tag.filter(|_| number == 0);
            (0..u64::from(extent.length)).map(move |number| (extent.physical + number, tag(number)))
        });
        self.0.splice(range.start as usize..range.end as usize, bytes);
    }

    /// The extents that these bytes make.
    pub(super) fn extents(&self, window_bytes: u32) -> Vec<Placed> {
        let mut extents: Vec<Placed> = Vec::new();
        for (offset, (physical, tag)) in self.0.iter().enumerate() {
            match extents.last_mut() {
                Some(last)
                    if tag.is_none()
                        && last.extent.end() == *physical
                        && physical % u64::from(window_bytes) != 0 =>
                {
                    last.extent.length += 1;
                }
                _ => extents.push(Placed {
                    offset: offset as u64,
                    extent: Extent { physical: *physical, length: 1, tag: *tag },
                }),
            }
        }
        extents
    }
}
