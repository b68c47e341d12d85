//! Changing a space: groups and their parts, checkpoints, publication.
//!
//! Run by the one writer. A failure takes back the whole group in the making (SP-3).

use std::collections::BTreeMap;

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::FileKind;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::index::flex::space::births;
use crate::index::flex::space::log::Log;
use crate::index::flex::space::record::Record;
use crate::index::flex::space::segment::format::DATA_BYTES;
use crate::index::flex::space::segment::writer::SegmentWriter;
use crate::index::flex::space::{
    Before, Making, Prepared, SegmentState, Segments, Space, SpaceContext, SpaceState,
};
use crate::io::Purpose;
use crate::io::executor::{Parts, WAITS_MAX, side_by_side};

/// Garbage for which a segment that is written to is ended on a full disk: to begin the next one
/// takes a header and the rest of a block.
const DEAD_BYTES_MIN: u64 = 2 * DATA_BYTES;

impl Space {
    /// The group in the making, for work that has the space for itself.
    ///
    /// # Errors
    /// Where nothing can be committed as things are.
    pub(crate) fn making(&mut self) -> Result<&mut Making> {
        self.check_open()?;
        Ok(&mut self.making)
    }

    /// Parts of the group in the making, for work beside each other and beside
    /// [`Space::making`], which has what lies left of theirs.
    pub(crate) fn fork(&mut self, count: usize) -> Vec<Making> {
        let making = &mut self.making;
        // Once, and not in each part.
        making.tree.settle();
        making.tree.hold();
        let mut spares = std::mem::take(&mut self.spares).into_iter();
        let parts = (0..count).map(|_| making.part(spares.next())).collect();
        self.spares = spares.collect();
        parts
    }

    /// Adds parts to the group in the making, from left to right, which began when the space had
    /// `length` bytes; or gives back what they wrote through, if that is all that is left of them.
    ///
    /// # Errors
    /// Where the group is too large; it is taken back then.
    pub(crate) fn join(
        &mut self,
        mut parts: Vec<Making>,
        length: u64,
        is_done: bool,
    ) -> Result<()> {
        let mut joined = Ok(());
        // Their records say it all, and nodes are not to be there three times.
        parts.iter_mut().for_each(|part| part.tree = part.before.clone());
        for mut part in parts {
            if is_done && joined.is_ok() {
                let shift = self.making.tree.length().cast_signed() - length.cast_signed();
                joined = self.making.add(&part, shift);
            }
            self.spares.extend(part.writer.take());
            self.making.has_new_names |= part.has_new_names;
            self.making.written.append(&mut part.written);
        }
        joined
    }

    /// Takes back the group in the making. Segments that it began go at once: on a full disk, what
    /// is tried next needs their room.
    pub(crate) fn roll_back(&mut self) {
        self.making.roll_back();
        self.know_written();
        if !self.is_waiting {
            self.drop_dead_segments();
        }
    }

    /// Ends the segments that are full, that only parts or reclaims write to, or that hold more
    /// garbage than anything else: what is dead in them can be got back then. No group may be in
    /// the making.
    ///
    /// # Errors
    /// Those of the disk, but for a full one: whose data is in a segment does not stand in it then,
    /// and all of the tree is walked when it is emptied.
    pub(super) fn end_segments(&mut self) -> Result<()> {
        let segments = &self.segments;
        let ended = self.making.writer.take_if(|writer| {
            let live_bytes = segments.get(&writer.segment().id()).map_or(0, |it| it.live_bytes);
            let dead_bytes = writer.position().saturating_sub(live_bytes);
            writer.room() == 0 || dead_bytes >= live_bytes.max(DEAD_BYTES_MIN)
        });
        let spares = std::mem::take(&mut self.spares).into_iter().chain(self.survivors.take());
        for writer in spares.chain(ended) {
            match writer.finish(Purpose::Flush) {
                Err(error) if error.kind() != ErrorKind::NoSpace => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes note of the segments that were written to.
    fn know_written(&mut self) {
        for (segment, bytes) in std::mem::take(&mut self.making.written).into_values() {
            self.segments.written(segment, bytes);
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
            (self.making.writer, self.spares, self.survivors) = (None, Vec::new(), None);
            self.roll_back();
            return Err(error);
        }
        self.know_written();
        let born = self.name_segments()?;
        let (state, log) = (self.state, self.log.position());
        if !self.making.group.is_empty() {
            match self.log.append(&self.making.group) {
                Ok(end) => self.state.log = Some(end),
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            }
        }
        self.making.group.clear();
        let tree = self.making.begin_next();
        let changes = std::mem::take(&mut self.making.changes);
        self.count_live(&changes, 1);
        self.segments.set_named(&born, true);
        self.before = Some(Before { tree, changes, state, log, born });
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
        if !self.making.group.is_empty() {
            return Err(Error::invalid("a checkpoint in the middle of a group"));
        }
        let group = self.log.group();
        let named = self.segments.iter().filter(|(_, state)| state.is_named);
        let births = named.map(|(id, state)| (*id, state.segment.birth()));
        let attached = births::encode(group, births);
        let draft = self.pages.checkpoint(&self.making.before, &attached)?;
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
        self.making.before = before.tree;
        self.count_live(&before.changes, -1);
        self.segments.set_named(&before.born, false);
        self.state = before.state;
        self.log.withdraw(before.log);
        self.roll_back();
    }

    /// The space is gone, durably: all its files go with their last holder.
    pub(crate) fn retire(&self) {
        self.segments.values().for_each(|state| state.segment.doom());
        self.pages.files().iter().for_each(|(_, state)| state.file.doom());
        self.log.files().iter().for_each(|file| file.doom());
    }

    /// Says the births of the segments that the group in the making is the first one to lead to;
    /// returns these.
    fn name_segments(&mut self) -> Result<Vec<FileId>> {
        let mut born = Vec::new();
        for (id, change) in &self.making.changes {
            if let Some(state) = self.segments.get(id)
                && !state.is_named
                && state.live_bytes.saturating_add_signed(*change) > 0
            {
                born.push((*id, state.segment.birth()));
            }
        }
        for (segment, birth) in &born {
            let (segment, birth) = (*segment, *birth);
            self.making.note(&Record::Born { segment, birth })?;
        }
        Ok(born.into_iter().map(|(id, _)| id).collect())
    }

    fn count_live(&mut self, changes: &BTreeMap<FileId, i64>, sign: i64) {
        for (id, change) in changes {
            self.segments.count_live(*id, sign * change);
        }
    }

    /// Takes over a state that is durably named; files that it does not need go with their last
    /// view.
    pub(crate) fn publish(&mut self, prepared: Prepared) -> Result<()> {
        if !self.is_waiting {
            return Err(Error::invalid("a state of a space is published out of order"));
        }
        self.is_waiting = false;
        self.has_lacked_room = false;
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

    /// What the segments are written through that are not full.
    pub(super) fn writers(&self) -> impl Iterator<Item = &SegmentWriter> {
        self.making.writer.iter().chain(&self.spares).chain(&self.survivors)
    }

    /// Whether a segment is written to.
    pub(super) fn is_open(&self, id: FileId) -> bool {
        self.writers().any(|writer| writer.segment().id() == id)
    }

    /// Has the group in the making written through what writes survivors, or back again.
    pub(super) fn swap_survivors(&mut self) {
        std::mem::swap(&mut self.making.writer, &mut self.survivors);
    }

    /// Lets segments go that nothing leads to, but for those that are written to.
    fn drop_dead_segments(&mut self) {
        let open: Vec<FileId> = self.writers().map(|writer| writer.segment().id()).collect();
        let leaving = &mut self.leaving;
        leaving.retain(|segment| segment.strong_count() > 0);
        self.segments.retain(|id, state| {
            let is_needed = state.live_bytes > 0 || open.contains(&id);
            if !is_needed && planted!("flex_segment_removed_under_view") {
                self.context.obsolete.push(FileKind::FlexSegment, id);
            } else if !is_needed {
                state.segment.doom();
                leaving.push(Arc::downgrade(&state.segment));
            }
            is_needed
        });
        self.show_segments();
    }

    /// Gives views of from now on the segments that there are.
    pub(super) fn show_segments(&mut self) {
        if !self.table.keys().eq(self.segments.keys()) {
            let segment = |(id, state): (&FileId, &SegmentState)| (*id, Arc::clone(&state.segment));
            self.table = Arc::new(self.segments.iter().map(segment).collect::<Segments>());
            self.making.table = Arc::clone(&self.table);
        }
    }

    fn sync_data(&mut self) -> Result<()> {
        let writers = self.making.writer.iter_mut().chain(&mut self.spares);
        let writers = writers.chain(&mut self.survivors);
        sync_all(&self.context, writers.filter(|writer| writer.is_behind()))?;
        let position = |writer: &SegmentWriter| (Arc::clone(writer.segment()), writer.position());
        let positions: Vec<_> = self.writers().map(position).collect();
        let making = &mut self.making;
        for (segment, position) in positions {
            making.measured(segment, position);
        }
        if std::mem::take(&mut making.has_new_names) {
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

/// Makes segments durable, side by side: the device commits several as fast as one.
fn sync_all<'a>(
    context: &SpaceContext,
    writers: impl Iterator<Item = &'a mut SegmentWriter>,
) -> Result<()> {
    let fork_join = |parts: Parts<'_>| context.io.executor.fork_join_waits(parts);
    let sync = |writer: &mut SegmentWriter| writer.sync(Purpose::Flush);
    side_by_side(writers.collect(), WAITS_MAX, &fork_join, &sync).map(drop)
}

#[cfg(any(test, feature = "sim"))]
mod alone;
