//! A group in the making: operations, each of which writes its data, changes a tree and notes a
//! record.
//!
//! A space has one; where work goes on side by side, each part of it has one of its own, which
//! knows nothing of the others. Parts have ranges of the space that do not overlap, each counts
//! offsets as if nothing changed beside it, and each writes a segment of its own, so that
//! neighbours in the space that it writes stand together on disk. What they did is added up in
//! order ([`Making::add`]): by then it is known how far everything left of a part has moved it.
//!
//! Owned by one thread. A failure takes back the whole group (SP-3). Invariants: MK-1 what was
//! written stays named in `written`, whatever becomes of the group: a file that is left over is
//! removed by who knows of it. MK-2 records done to the tree of before give the tree.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::base::codec::Reader;
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::Segment;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::segment::writer::SegmentWriter;
use crate::index::flex::space::{Segments, SpaceContext};
use crate::index::flex::tree::Tree;
use crate::index::flex::tree::extent::{Extent, Tag};
use crate::io::Purpose;

/// Longest record data of one group: what a frame holds, with room to spare.
const GROUP_BYTES_MAX: usize = 512 << 20;

/// Operations that make up a group, or a part of one.
pub(crate) struct Making {
    pub(super) context: Arc<SpaceContext>,
    /// Without its operations.
    pub(super) before: Tree,
    /// With its operations.
    pub(super) tree: Tree,
    /// Records of them.
    pub(super) group: Vec<u8>,
    /// What they add to live bytes.
    pub(super) changes: BTreeMap<FileId, i64>,
    /// Segments of before.
    pub(super) table: Arc<Segments>,
    /// Segments that were written to, and the bytes of their data.
    pub(super) written: BTreeMap<FileId, (Arc<Segment>, u64)>,
    pub(super) writer: Option<SegmentWriter>,
    pub(super) has_new_names: bool,
}

/// A clone whose changes are held: operations of a group come near each other.
fn held(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    tree.hold();
    tree
}

impl Making {
    /// No operation yet on what a tree maps.
    pub(super) fn new(context: &Arc<SpaceContext>, tree: Tree, table: Arc<Segments>) -> Self {
        let before = tree.settled();
        let tree = held(&before);
        Self {
            context: Arc::clone(context),
            before,
            tree,
            group: Vec::new(),
            changes: BTreeMap::new(),
            table,
            written: BTreeMap::new(),
            writer: None,
            has_new_names: false,
        }
    }

    /// The tree with all operations.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// A part of the group for work beside this one, which writes through `writer`, if any.
    pub(super) fn part(&self, writer: Option<SegmentWriter>) -> Self {
        let part = Self::new(&self.context, self.tree.clone(), Arc::clone(&self.table));
        Self { writer, ..part }
    }

    /// Adds what a part did whose range begins `shift` bytes further to the right by now, or to
    /// the left. A failure takes back the group.
    pub(super) fn add(&mut self, part: &Self, shift: i64) -> Result<()> {
        let mut records = Reader::new(&part.group);
        while !records.is_empty() {
            let done = Record::decode(&mut records).and_then(|record| {
                let record = record.shifted(shift)?;
                record.redo(&mut self.tree)?;
                self.note(&record)
            });
            if done.is_err() {
                self.roll_back();
                return done;
            }
        }
        for (id, change) in &part.changes {
            *self.changes.entry(*id).or_default() += change;
        }
        Ok(())
    }

    /// Puts bytes in at an offset up to the end; what follows is shifted. `owner` says whose they
    /// are, for reclaim.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], owner: u64) -> Result<()> {
        self.update(offset..offset, bytes, owner)
    }

    /// Takes a range out, and its tags with it.
    pub(crate) fn collapse(&mut self, range: Range<u64>) -> Result<()> {
        self.update(range, &[], 0)
    }

    /// Puts bytes in the place of a range. The tag of its first byte stays, unless nothing comes.
    pub(crate) fn update(&mut self, range: Range<u64>, bytes: &[u8], owner: u64) -> Result<()> {
        self.update_tagged(range, bytes, owner, None)
    }

    /// The same, and the first byte of what comes has this tag, if one is given.
    pub(crate) fn update_tagged(
        &mut self,
        range: Range<u64>,
        bytes: &[u8],
        owner: u64,
        tag: Option<Tag>,
    ) -> Result<()> {
        // Before anything is written: the range must be one.
        drop(self.tree.walk(range.clone())?);
        if range.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        let extents = self.append(bytes, owner, Purpose::Flush)?;
        let done = self.replace(range, extents, tag);
        if done.is_err() {
            self.roll_back();
        }
        done
    }

    /// Tags a byte, or takes its tag.
    pub(crate) fn set_tag(&mut self, offset: u64, tag: Option<Tag>) -> Result<()> {
        self.tree.set_tag(offset, tag)?;
        self.note(&Record::Tag { offset, tag })
    }

    /// The group counts, and another begins; returns the tree without it.
    pub(super) fn begin_next(&mut self) -> Tree {
        self.tree.settle();
        let before = std::mem::replace(&mut self.before, self.tree.clone());
        self.tree.hold();
        before
    }

    /// Takes back the group in the making.
    pub(crate) fn roll_back(&mut self) {
        self.tree = held(&self.before);
        self.group.clear();
        self.changes.clear();
    }

    fn replace(
        &mut self,
        range: Range<u64>,
        mut extents: Vec<Extent>,
        tag: Option<Tag>,
    ) -> Result<()> {
        for piece in self.tree.walk(range.clone())? {
            let (id, length) = (place_of(piece.extent.physical).0, i64::from(piece.extent.length));
            *self.changes.entry(id).or_default() -= length;
        }
        for extent in &extents {
            *self.changes.entry(place_of(extent.physical).0).or_default() +=
                i64::from(extent.length);
        }
        // One step for the tree, two for the log, whose updates have no tags.
        let tag = tag.filter(|_| !extents.is_empty());
        let first = |tag| move |first: &mut Extent| first.tag = tag;
        extents.first_mut().into_iter().for_each(first(tag));
        self.tree.update(range.clone(), &extents)?;
        extents.first_mut().into_iter().for_each(first(None));
        let (offset, removed) = (range.start, range.end - range.start);
        self.note(&Record::Update { offset, removed, extents })?;
        tag.map_or(Ok(()), |tag| self.note(&Record::Tag { offset, tag: Some(tag) }))
    }

    pub(super) fn note(&mut self, record: &Record) -> Result<()> {
        record.encode(&mut self.group);
        if self.group.len() > GROUP_BYTES_MAX {
            self.roll_back();
            return Err(Error::invalid("a group of operations is too large"));
        }
        Ok(())
    }

    /// Appends data to segments; as many extents as it takes. A failure takes back the group.
    pub(super) fn append(
        &mut self,
        bytes: &[u8],
        owner: u64,
        purpose: Purpose,
    ) -> Result<Vec<Extent>> {
        let (mut rest, mut extents) = (bytes, Vec::new());
        while !rest.is_empty() {
            match self.append_some(rest, owner, purpose) {
                Ok((physical, count)) => {
                    extents.push(Extent::new(physical, count as u32));
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) => {
                    // What is in the tail is of this group; the file stays as the last commit left
                    // it, and no more is written to it.
                    self.writer = None;
                    self.roll_back();
                    return Err(error);
                }
            }
        }
        Ok(extents)
    }

    fn append_some(&mut self, bytes: &[u8], owner: u64, purpose: Purpose) -> Result<(u64, usize)> {
        if self.writer.as_ref().is_some_and(|writer| writer.room() == 0)
            && let Some(writer) = self.writer.take()
        {
            self.finish_segment(writer, purpose)?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let writer = SegmentWriter::create(&self.context, purpose)?;
                let segment = Arc::clone(writer.segment());
                self.written.insert(segment.id(), (segment, 0));
                self.has_new_names = true;
                none.insert(writer)
            }
        };
        let appended = writer.append(bytes, owner, purpose)?;
        let (segment, position) = (Arc::clone(writer.segment()), writer.position());
        self.measured(segment, position);
        Ok(appended)
    }

    fn finish_segment(&mut self, writer: SegmentWriter, purpose: Purpose) -> Result<()> {
        let segment = writer.finish(purpose)?;
        let bytes = segment.data_bytes(purpose)?;
        self.measured(segment, bytes);
        Ok(())
    }

    pub(super) fn measured(&mut self, segment: Arc<Segment>, bytes: u64) {
        let (_, most) = self.written.entry(segment.id()).or_insert((segment, 0));
        *most = bytes.max(*most);
    }
}
