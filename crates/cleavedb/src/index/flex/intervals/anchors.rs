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
//! empty, and no group is. A-4 a group in an index is sealed.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, Range};
// Bounds that never change, which nobody waits for.
use std::sync::Arc as ValueArc;

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::key_prefix;
use crate::base::error::{Error, Result};
use crate::base::limits::KEY_BYTES_MAX;
use crate::base::sync::Arc;
use crate::index::flex::intervals::filter::KeyFilter;
use crate::index::flex::intervals::tail::TailIndex;
use crate::index::flex::tree::extent::Tag;

/// Tag of the first byte of the range tombstones.
const TOMBSTONES: u16 = 1;
/// Tag of the first byte of a directory.
const DIRECTORY: u16 = 2;
/// Tag of the first byte of an interval without a tail; a bound of the tail's records is added.
const INTERVAL: u16 = 3;

/// Most records that a tag can tell of in a tail.
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
    /// An interval begins, with at most so many records in its tail.
    Interval(u16),
}

/// What a tag says of a tail of so many records: the least of these bounds that is enough. An exact
/// count would make each append two changes of the tree.
fn tail_bound(records: u16) -> u16 {
    const BOUNDS: [u16; 4] = [0, 6, 30, 126];
    BOUNDS.into_iter().find(|bound| records <= *bound).unwrap_or(TAIL_MAX)
}

impl Mark {
    /// Its tag.
    pub(super) fn tag(self) -> Option<Tag> {
        Tag::new(match self {
            Self::Tombstones => TOMBSTONES,
            Self::Directory => DIRECTORY,
            Self::Interval(tail) => INTERVAL + tail_bound(tail),
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
    pub(super) anchor: ValueArc<[u8]>,
    /// Bytes of it in the space.
    pub(super) bytes: u64,
    /// Records behind those that are in order; after an opening no more than that.
    pub(super) tail: u16,
    /// Where these begin; `None` where there are none, or nobody knows.
    pub(super) tail_index: Option<TailIndex>,
    /// The keys of what stands before the tail.
    pub(super) filter: KeyFilter,
    /// About the fragments that it stands in; 0 where nobody has looked yet.
    pub(super) fragments: u16,
    /// Names its contents in the cache: others have another one.
    pub(super) stamp: u64,
    /// Stamp of what it held before anything was appended: it holds all of that.
    pub(super) born: u64,
}

impl Interval {
    /// Bytes before its tail, and about those of it that the tail has made garbage, as far as that
    /// is known.
    pub(super) fn superseded(&self) -> (u64, u64) {
        match &self.tail_index {
            None => (self.bytes, 0),
            Some(index) => (index.start(), index.superseded_bytes()),
        }
    }

    /// Records in its tail, if all of them are known.
    pub(super) fn known_tail(&self) -> Option<usize> {
        match &self.tail_index {
            None => (self.tail == 0).then_some(0),
            Some(index) => Some(index.len()),
        }
    }

    /// Whether it holds no key of this hash, for certain.
    pub(super) fn lacks(&self, hash: u64) -> bool {
        let tail_lacks = match &self.tail_index {
            None => self.tail == 0,
            Some(index) => index.lacks_since(0, hash),
        };
        tail_lacks && self.filter.lacks(hash)
    }

    /// Bytes of memory that what is known of its keys takes.
    fn known_bytes(&self) -> usize {
        let tail = self.tail_index.as_ref().map_or(0, TailIndex::memory_bytes);
        tail + self.filter.memory_bytes()
    }
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
    pub(super) fn first_anchor(&self) -> &[u8] {
        self.intervals.first().map_or(&[], |interval| &interval.anchor)
    }

    /// The group as it will stay.
    pub(super) fn sealed(self) -> Arc<Sealed> {
        let anchors = self.intervals.iter().map(|interval| &*interval.anchor);
        let heads = Heads::new(anchors);
        let mut end = self.directory_bytes;
        let ends = self.intervals.iter().map(|interval| {
            end += interval.bytes;
            end
        });
        let ends = ends.collect();
        let known_bytes = self.intervals.iter().map(Interval::known_bytes).sum();
        Arc::new(Sealed { group: self, heads, ends, known_bytes })
    }
}

/// A group that does not change any more, and what finds its intervals.
#[derive(Debug)]
pub(super) struct Sealed {
    group: Group,
    heads: Heads,
    /// Where each interval ends, counted from where the group begins.
    ends: Vec<u64>,
    /// Bytes of memory that the indexes of tails and the filters take.
    known_bytes: usize,
}

impl Deref for Sealed {
    type Target = Group;
    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Sealed {
    /// Bytes of it in the space.
    pub(super) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.group.directory_bytes)
    }

    /// Where an interval begins, counted from where the group does.
    fn start(&self, number: usize) -> u64 {
        let before = number.checked_sub(1).and_then(|before| self.ends.get(before));
        before.copied().unwrap_or(self.group.directory_bytes)
    }

    /// The last interval whose anchor is not above a key, or the first one.
    fn position(&self, key: &[u8]) -> usize {
        let anchor = |number: usize| {
            self.group.intervals.get(number).map_or(&[][..], |interval| &interval.anchor)
        };
        self.heads.position(key, anchor)
    }
}

/// What a binary search over anchors reads instead of them: eight bytes of each, behind those that
/// all but the first have in common. The first one bounds nothing: what is below belongs to it.
#[derive(Clone, Debug, Default)]
struct Heads {
    /// What all but the first begin with.
    common: Box<[u8]>,
    /// What follows in each but the first, as a number: never above that of a greater anchor.
    numbers: Vec<u64>,
}

impl Heads {
    /// Those of anchors that rise.
    fn new<'a>(anchors: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        let (mut rest, first) = (anchors.clone().skip(1), anchors.clone().nth(1));
        let ends = first.zip(anchors.clone().next_back());
        let common: &[u8] = ends.map_or(&[], |(first, last)| {
            let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            first.get(..same).unwrap_or_default()
        });
        let mut numbers = Vec::with_capacity(anchors.size_hint().0.saturating_sub(1));
        rest.by_ref().for_each(|anchor| {
            numbers.push(key_prefix(anchor.get(common.len()..).unwrap_or_default()));
        });
        Self { common: common.into(), numbers }
    }

    /// Number of the last anchor that is not above a key; 0 if none but the first.
    fn position<'a>(&self, key: &[u8], anchor: impl Fn(usize) -> &'a [u8]) -> usize {
        let common = &*self.common;
        let rest = match key.get(..common.len()) {
            Some(head) if head == common => key.get(common.len()..).unwrap_or_default(),
            _ if key < common => return 0,
            _ => return self.numbers.len(),
        };
        let wanted = key_prefix(rest);
        let below = self.numbers.partition_point(|number| *number < wanted);
        let equal = self.numbers.get(below..).unwrap_or_default();
        let equal = equal.partition_point(|number| *number == wanted);
        // The bytes that the numbers leave out decide between the last ones.
        let (mut found, mut end) = (below, below + equal);
        while found < end {
            let middle = found + (end - found).div_ceil(2);
            match anchor(middle) <= key {
                true => found = middle,
                false => end = middle - 1,
            }
        }
        found
    }
}

/// The anchors of a space, as of one state of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchors {
    groups: Vec<Arc<Sealed>>,
    /// Where each group begins in the space.
    offsets: Vec<u64>,
    heads: Heads,
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
    pub(super) fn new(groups: Vec<Arc<Sealed>>, offset: u64) -> Self {
        let mut end = offset;
        let offsets = groups
            .iter()
            .map(|group| {
                let start = end;
                end += group.bytes();
                start
            })
            .collect();
        let heads = Heads::new(groups.iter().map(|group| group.first_anchor()));
        Self { groups, offsets, heads }
    }

    /// The groups.
    pub(super) fn groups(&self) -> &[Arc<Sealed>] {
        &self.groups
    }

    /// The groups, and where each begins in the space.
    pub(super) fn starts(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.offsets.iter().copied().zip(self.groups.iter().map(|group| &group.group))
    }

    /// Number of the group that a key belongs to; 0 where there is none.
    pub(super) fn group_of(&self, key: &[u8]) -> usize {
        let anchor =
            |number: usize| self.groups.get(number).map_or(&[][..], |it| it.first_anchor());
        self.heads.position(key, anchor)
    }

    /// The interval that a key belongs to; `None` where there is none at all.
    pub(super) fn find(&self, key: &[u8]) -> Option<Found<'_>> {
        let group = self.group_of(key);
        self.get(group, self.groups.get(group)?.position(key))
    }

    /// An interval by group and number; behind the last one of a group come those of the next.
    pub(super) fn get(&self, group: usize, number: usize) -> Option<Found<'_>> {
        let (of, start) = (self.groups.get(group)?, *self.offsets.get(group)?);
        match of.intervals.get(number) {
            Some(interval) => {
                Some(Found { group, number, offset: start + of.start(number), interval })
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

    /// The intervals, in order, of groups with these numbers and of those that were split off from
    /// them; of all groups where nobody knows the numbers.
    pub(super) fn of_owners(
        &self,
        mut owners: Option<BTreeSet<u64>>,
    ) -> impl Iterator<Item = Found<'_>> {
        // What is split off stands behind what it is split off from.
        let is_of = move |(_, group): &(usize, &Arc<Sealed>)| {
            let Some(owners) = owners.as_mut() else { return true };
            let is_split_off = group.parent != 0 && owners.contains(&group.parent);
            is_split_off && owners.insert(group.id) || owners.contains(&group.id)
        };
        let groups = self.groups.iter().enumerate().filter(is_of);
        groups.flat_map(move |(number, group)| {
            (0..group.intervals.len()).filter_map(move |at| self.get(number, at))
        })
    }

    /// How many intervals there are.
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.intervals.len()).sum()
    }

    /// About the bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        /// What a key takes that is a bound: a prefix of some bytes, and its allocation.
        const ANCHOR_BYTES: usize = 32;
        /// What finds an interval, and where it ends.
        const FINDING_BYTES: usize = 2 * size_of::<u64>();
        self.len() * (size_of::<Interval>() + ANCHOR_BYTES + FINDING_BYTES)
            + self.groups.len() * (size_of::<Sealed>() + FINDING_BYTES)
            + self.groups.iter().map(|group| group.known_bytes).sum::<usize>()
    }

    /// Says where in the space the bytes of an owner lie.
    pub(super) fn homes(&self) -> impl Fn(u64) -> Option<Range<u64>> + '_ {
        let groups = self.groups.iter().enumerate();
        let numbers: HashMap<u64, usize> =
            groups.map(|(number, group)| (group.id, number)).collect();
        move |id| self.home(id, *numbers.get(&id)?)
    }

    /// Where a group lies, and what was split off from it.
    fn home(&self, id: u64, first: usize) -> Option<Range<u64>> {
        /// Groups that are looked at: what has split more often is found by a walk.
        const GROUPS_MAX: usize = 16;
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
pub(super) fn separator(below: &[u8], above: &[u8]) -> ValueArc<[u8]> {
    let same = below.iter().zip(above).take_while(|(a, b)| a == b).count();
    above.get(..same + 1).unwrap_or(above).into()
}

#[cfg(test)]
mod tests;
