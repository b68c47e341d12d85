//! The sparse index: the first key of every interval, and where in the space each of them lies.
//!
//! Intervals come in groups of some dozens. A group knows the lengths of its intervals, the index
//! knows where each group begins; a flush, which comes in key order, makes a new index out of the
//! groups that it changed and the others as they are. So there is no second tree that shifts what
//! the tree of extents shifts already: where a group begins is counted anew, once for each flush.
//!
//! On disk each group begins with its directory, which stands in the space before its intervals:
//! the number of the group, then what was done to the list of its anchors, so that a split adds an
//! anchor's bytes and rewrites nothing. How long intervals are, and how many appends they have, the
//! tags of the tree say. An anchor is a bound, not an entry: it stays when the entry goes.
//!
//! Plain values that any thread may read. Invariants: A-1 anchors rise strictly, over groups as
//! well. A-2 what is below the first anchor belongs to the first interval. A-3 no interval is
//! empty, and no group is.

use std::ops::Range;

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::sync::Arc;
use crate::index::flex::tree::extent::Tag;

/// Tag of the first byte of the range tombstones.
const TOMBSTONES: u16 = 1;
/// Tag of the first byte of a directory.
const DIRECTORY: u16 = 2;
/// Tag of the first byte of an interval without a tail; each append adds one.
const INTERVAL: u16 = 3;

/// Most records that a tag can count in a tail.
pub(super) const TAIL_MAX: u16 = 250;

/// Most anchors of a directory: what bounds the work that a few bytes of it can make.
const ANCHORS_MAX: usize = 4096;

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Range tombstones begin.
    Tombstones,
    /// A group begins.
    Directory,
    /// An interval begins, with so many records in its tail.
    Interval(u16),
}

impl Mark {
    /// Its tag.
    pub(super) fn tag(self) -> Option<Tag> {
        Tag::new(match self {
            Self::Tombstones => TOMBSTONES,
            Self::Directory => DIRECTORY,
            Self::Interval(tail) => INTERVAL + tail.min(TAIL_MAX),
        })
    }

    /// What a tag says.
    pub(super) fn of(tag: Tag) -> Result<Self> {
        match tag.0.get() {
            TOMBSTONES => Ok(Self::Tombstones),
            DIRECTORY => Ok(Self::Directory),
            number if number - INTERVAL <= TAIL_MAX => Ok(Self::Interval(number - INTERVAL)),
            number => Err(Error::corruption(format!("a tag of number {number}"))),
        }
    }
}

/// An interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// No key of it is smaller, but for the first one.
    pub(super) anchor: Box<[u8]>,
    /// Bytes of it in the space.
    pub(super) bytes: u64,
    /// Records behind those that are in order.
    pub(super) tail: u16,
    /// Names its contents in the cache: others have another one.
    pub(super) stamp: u64,
}

/// Neighbouring intervals with one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its number: whose bytes these are, for reclaim.
    pub(super) id: u64,
    /// Number of the group it was split off from; 0 for none.
    pub(super) parent: u64,
    /// Bytes of the directory.
    pub(super) directory_bytes: u64,
    /// Edits in the directory.
    pub(super) edits: u64,
    /// Its intervals, in order.
    pub(super) intervals: Vec<Interval>,
}

impl Group {
    /// Bytes of it in the space.
    pub(super) fn bytes(&self) -> u64 {
        let intervals = self.intervals.iter().map(|interval| interval.bytes);
        self.directory_bytes + intervals.sum::<u64>()
    }

    fn first_anchor(&self) -> &[u8] {
        self.intervals.first().map_or(&[], |interval| &interval.anchor)
    }
}

/// The anchors of a space, as of one state of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchors {
    groups: Vec<Arc<Group>>,
    /// Where each group begins in the space.
    offsets: Vec<u64>,
}

/// An interval and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    /// Number of its group.
    pub(super) group: usize,
    /// Its number in the group.
    pub(super) number: usize,
    /// Where it begins in the space.
    pub(super) offset: u64,
    /// The interval.
    pub(super) interval: &'a Interval,
}

impl Found<'_> {
    /// Its bytes in the space.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.interval.bytes
    }
}

impl Anchors {
    /// The index of these groups, the first of which begins at `offset`.
    pub(super) fn new(groups: Vec<Arc<Group>>, offset: u64) -> Self {
        let mut end = offset;
        let offsets = groups
            .iter()
            .map(|group| {
                let start = end;
                end += group.bytes();
                start
            })
            .collect();
        Self { groups, offsets }
    }

    /// The groups.
    pub(super) fn groups(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// Number of the group that a key belongs to; 0 where there is none.
    pub(super) fn group_of(&self, key: &[u8]) -> usize {
        self.groups.partition_point(|group| group.first_anchor() <= key).saturating_sub(1)
    }

    /// The interval that a key belongs to; `None` where there is none at all.
    pub(super) fn find(&self, key: &[u8]) -> Option<Found<'_>> {
        let group = self.group_of(key);
        let intervals = &self.groups.get(group)?.intervals;
        let after = intervals.partition_point(|interval| &*interval.anchor <= key);
        self.get(group, after.saturating_sub(1))
    }

    /// An interval by group and number; behind the last one of a group come those of the next.
    pub(super) fn get(&self, group: usize, number: usize) -> Option<Found<'_>> {
        let (of, start) = (self.groups.get(group)?, *self.offsets.get(group)?);
        match of.intervals.get(number) {
            Some(interval) => {
                let before = of.intervals.iter().take(number).map(|interval| interval.bytes);
                let offset = start + of.directory_bytes + before.sum::<u64>();
                Some(Found { group, number, offset, interval })
            }
            None => self.get(group + 1, 0),
        }
    }

    /// The interval before one; `None` before the first.
    pub(super) fn before(&self, group: usize, number: usize) -> Option<Found<'_>> {
        match number.checked_sub(1) {
            Some(number) => self.get(group, number),
            None => {
                let group = group.checked_sub(1)?;
                self.get(group, self.groups.get(group)?.intervals.len().checked_sub(1)?)
            }
        }
    }

    /// The last interval.
    pub(super) fn last(&self) -> Option<Found<'_>> {
        self.before(self.groups.len(), 0)
    }

    /// All intervals, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Found<'_>> {
        let first = self.get(0, 0);
        std::iter::successors(first, |found| self.get(found.group, found.number + 1))
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.intervals.len()).sum()
    }

    /// About the bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        /// What a key takes that is a bound: a prefix of some bytes, and its allocation.
        const ANCHOR_BYTES: usize = 32;
        self.len() * (size_of::<Interval>() + ANCHOR_BYTES) + self.groups.len() * size_of::<Group>()
    }

    /// Where in the space a group lies, and what was split off from it: their owner's bytes.
    pub(super) fn range_of_owner(&self, id: u64) -> Option<Range<u64>> {
        /// Groups that are looked at: what has split more often is found by a walk.
        const GROUPS_MAX: usize = 16;
        let first = self.groups.iter().position(|group| group.id == id)?;
        let mut family = vec![id];
        for group in self.groups.iter().skip(first + 1).take(GROUPS_MAX) {
            if !family.contains(&group.parent) {
                break;
            }
            family.push(group.id);
        }
        let last = first + family.len() - 1;
        let end = self.offsets.get(last)? + self.groups.get(last)?.bytes();
        Some(*self.offsets.get(first)?..end)
    }
}

/// What was done to the anchors of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit<'a> {
    /// An anchor came at a position.
    Insert(usize, &'a [u8]),
    /// The anchor at a position went.
    Remove(usize),
}

impl Edit<'_> {
    /// Appends it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Insert(position, anchor) => {
                put_varint(out, (*position as u64) << 1 | 1);
                put_bytes(out, anchor);
            }
            Self::Remove(position) => put_varint(out, (*position as u64) << 1),
        }
    }
}

/// A directory of these anchors.
pub(crate) fn encode_directory<'a>(
    (id, parent): (u64, u64),
    anchors: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, id);
    put_varint(&mut out, parent);
    anchors.enumerate().for_each(|(at, anchor)| Edit::Insert(at, anchor).encode(&mut out));
    out
}

/// A directory, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Number of the group.
    pub(crate) id: u64,
    /// Number of the group it was split off from; 0 for none.
    pub(crate) parent: u64,
    /// How many edits there are.
    pub(crate) edits: u64,
    /// The anchors that are left.
    pub(crate) anchors: Vec<Box<[u8]>>,
}

impl Directory {
    /// Reads one. Every byte must have a meaning, and the anchors must rise.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (id, parent) = (reader.varint()?, reader.varint()?);
        let (mut edits, mut anchors) = (0, Vec::<Box<[u8]>>::new());
        while !reader.is_empty() {
            let number = reader.varint()?;
            let position = usize::try_from(number >> 1).unwrap_or(usize::MAX);
            let is_insert = number & 1 == 1;
            let last = anchors.len() - usize::from(!is_insert && !anchors.is_empty());
            if position > last || (!is_insert && anchors.is_empty()) {
                return Err(Error::corruption("a directory edits an anchor that it has not"));
            }
            edits += 1;
            if !is_insert {
                anchors.remove(position);
                continue;
            }
            let anchor = reader.bytes()?;
            if anchor.len() > KEY_BYTES_MAX || anchors.len() >= ANCHORS_MAX {
                return Err(Error::corruption("a directory of too many anchors or too long ones"));
            }
            anchors.insert(position, anchor.into());
        }
        if id == 0 || anchors.is_empty() || !anchors.is_sorted_by(|a, b| a < b) {
            return Err(Error::corruption("a directory whose anchors are no anchors"));
        }
        Ok(Self { id, parent, edits, anchors })
    }
}

/// The shortest bound between two keys, the smaller of which lies below it.
pub(super) fn separator(below: &[u8], above: &[u8]) -> Box<[u8]> {
    let same = below.iter().zip(above).take_while(|(a, b)| a == b).count();
    above.get(..same + 1).unwrap_or(above).into()
}

#[cfg(test)]
mod tests;
