//! Changing a space: operations, groups, checkpoints, publication.
//!
//! Run by the one writer. An operation writes its data, changes the tree and notes a record; a
//! failure takes back the whole group in the making (SP-3).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::Arc;
use crate::index::flex::space::log::Log;
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::format::place_of;
use crate::index::flex::space::segment::writer::SegmentWriter;
use crate::index::flex::space::{Before, Prepared, SegmentState, Segments, Space, SpaceState};
use crate::index::flex::tree::extent::{Extent, Tag};
use crate::io::Purpose;

/// Longest record data of one group: what a frame holds, with room to spare.
const GROUP_BYTES_MAX: usize = 512 << 20;

impl Space {
    /// Puts bytes in at an offset up to the end; what follows is shifted. `owner` says whose they
    /// are, for reclaim.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], owner: u64) -> Result<()> {
        self.update(offset..offset, bytes, owner)
    }

    /// Takes a range out, and its tags with it.
    pub(crate) fn collapse(&mut self, range: Range<u64>) -> Result<()> {
        self.update(range, &[], 0)
    }

    /// Writes bytes over as many others; at the end, behind them.
    #[cfg(test)]
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], owner: u64) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64).min(self.tree.length());
        self.update(offset..end.max(offset), bytes, owner)
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
        self.check_open()?;
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

    /// Reads a range and writes it again in one piece, tags and all.
    #[cfg(test)]
    pub(crate) fn defragment(&mut self, range: Range<u64>, owner: u64) -> Result<()> {
        self.check_open()?;
        let tags: Vec<(u64, Tag)> = self
            .tree
            .walk(range.clone())?
            .filter_map(|piece| Some((piece.offset, piece.extent.tag?)))
            .collect();
        let bytes = self.read(range.clone(), Purpose::Flush)?;
        self.update(range, &bytes, owner)?;
        tags.into_iter().try_for_each(|(offset, tag)| self.set_tag(offset, Some(tag)))
    }

    /// Tags a byte, or takes its tag.
    pub(crate) fn set_tag(&mut self, offset: u64, tag: Option<Tag>) -> Result<()> {
        self.check_open()?;
        self.tree.set_tag(offset, tag)?;
        self.note(&Record::Tag { offset, tag })
    }

    /// Takes back the group in the making.
    pub(crate) fn roll_back(&mut self) {
        self.tree = self.committed.clone();
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
                let state = SegmentState { segment, bytes: 0, live_bytes: 0 };
                self.segments.insert(state.segment.id(), state);
                self.has_new_names = true;
                none.insert(writer)
            }
        };
        let appended = writer.append(bytes, owner, purpose)?;
        let (id, position) = (writer.segment().id(), writer.position());
        self.measured(id, position);
        Ok(appended)
    }

    fn finish_segment(&mut self, writer: SegmentWriter, purpose: Purpose) -> Result<()> {
        let segment = writer.finish(purpose)?;
        let bytes = segment.data_bytes(purpose)?;
        self.measured(segment.id(), bytes);
        Ok(())
    }

    fn measured(&mut self, id: FileId, bytes: u64) {
        if let Some(state) = self.segments.get_mut(&id) {
            state.bytes = state.bytes.max(bytes);
        }
    }

    /// Makes the group in the making durable as a whole. It counts once an edit names the state and
    /// [`Space::publish`] is told so.
    ///
    /// # Errors
    /// Those of the disk; the group is taken back. If nobody knows then what the log holds, nothing
    /// can be committed before the space is opened again.
    pub(crate) fn commit(&mut self) -> Result<Prepared> {
        self.check_open()?;
        if let Err(error) = self.sync_data() {
            self.writer = None;
            self.roll_back();
            return Err(error);
        }
        let (state, log) = (self.state, self.log.position());
        if !self.group.is_empty() {
            match self.log.append(&self.group) {
                Ok(end) => self.state.log = Some(end),
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            }
        }
        self.group.clear();
        let tree = std::mem::replace(&mut self.committed, self.tree.clone());
        let changes = std::mem::take(&mut self.changes);
        self.count_live(&changes, 1);
        self.before = Some(Before { tree, changes, state, log });
        self.show_segments();
        self.is_waiting = true;
        Ok(Prepared { state: self.state, draft: None })
    }

    /// Writes what changed of the tree since the last checkpoint, so that the log begins anew. No
    /// group may be in the making.
    ///
    /// # Errors
    /// Those of the disk; everything stays as it was.
    pub(crate) fn checkpoint(&mut self) -> Result<Prepared> {
        self.check_open()?;
        if !self.group.is_empty() {
            return Err(Error::invalid("a checkpoint in the middle of a group"));
        }
        let group = self.log.group();
        let draft = self.pages.checkpoint(&self.committed, &group.to_le_bytes())?;
        let state = SpaceState { root: Some(draft.root()), log: None };
        self.is_waiting = true;
        Ok(Prepared { state, draft: Some(draft) })
    }

    /// Takes back a state that no edit will name: everything is as it was published last. What was
    /// written stays behind the ends that count, or goes with its files.
    pub(crate) fn withdraw(&mut self, prepared: Prepared) {
        drop(prepared);
        self.is_waiting = false;
        let Some(before) = self.before.take() else { return };
        self.committed = before.tree;
        self.count_live(&before.changes, -1);
        self.state = before.state;
        self.log.withdraw(before.log);
        self.roll_back();
        self.drop_dead_segments();
    }

    /// The space is gone, durably: all its files go with their last holder.
    pub(crate) fn retire(&self) {
        self.segments.values().for_each(|state| state.segment.doom());
        self.pages.files().iter().for_each(|(_, state)| state.file.doom());
        self.log.files().iter().for_each(|file| file.doom());
    }

    fn count_live(&mut self, changes: &BTreeMap<FileId, i64>, sign: i64) {
        for (id, change) in changes {
            if let Some(state) = self.segments.get_mut(id) {
                state.live_bytes = state.live_bytes.saturating_add_signed(sign * change);
            }
        }
    }

    /// Takes over a state that is durably named; files that it does not need go with their last
    /// view.
    pub(crate) fn publish(&mut self, prepared: Prepared) -> Result<()> {
        if !self.is_waiting {
            return Err(Error::invalid("a state of a space is published out of order"));
        }
        self.is_waiting = false;
        self.before = None;
        self.state = prepared.state;
        if let Some(draft) = prepared.draft {
            self.pages.publish(draft)?;
            let log = Log::new(&self.context, self.log.group());
            let before = std::mem::replace(&mut self.log, log);
            before.files().iter().for_each(|file| file.doom());
        }
        self.log.files().iter().for_each(|file| file.keep());
        self.segments.values().for_each(|state| state.segment.keep());
        self.drop_dead_segments();
        Ok(())
    }

    /// Lets segments go that nothing leads to, but for the one that is written to.
    fn drop_dead_segments(&mut self) {
        let open = self.writer.as_ref().map(|writer| writer.segment().id());
        self.segments.retain(|id, state| {
            let is_needed = state.live_bytes > 0 || Some(*id) == open;
            if !is_needed {
                state.segment.doom();
            }
            is_needed
        });
        self.show_segments();
    }

    /// Gives views of from now on the segments that there are.
    fn show_segments(&mut self) {
        if !self.table.keys().eq(self.segments.keys()) {
            let segment = |(id, state): (&FileId, &SegmentState)| (*id, Arc::clone(&state.segment));
            self.table = Arc::new(self.segments.iter().map(segment).collect::<Segments>());
        }
    }

    fn sync_data(&mut self) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.sync(Purpose::Flush)?;
            let (id, position) = (writer.segment().id(), writer.position());
            self.measured(id, position);
        }
        if std::mem::take(&mut self.has_new_names) {
            let dir = &self.context.dir;
            let synced = self.context.io.disk.sync_dir(dir);
            synced.map_err(|e| Error::io("syncing the directory of segments", dir, e))?;
        }
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.log.is_broken() {
            let message = "the log of a space failed; it has to be opened again";
            return Err(Error::new(ErrorKind::Stopped, message));
        }
        if self.is_waiting {
            return Err(Error::invalid("a state of the space waits to be published"));
        }
        Ok(())
    }
}
