//! Flush and garbage collection in sub-steps; anything may come between any two.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::entry::FileId;
use crate::values::locator::Generation;
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::{FlushTouches, Flushed, Held, Map, Moves, Swung, Touched};

use super::Lapse;
use super::world::{Form, Indexed, Manifest, Record, What, World};

/// What comes next in a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    List,
    Sync,
    Touch,
    Edit,
    Publish,
    Close,
}

/// The flush of the frozen memtable.
pub(super) struct Flush {
    stage: Stage,
    /// The list of snapshots, where it was made too early.
    early: Option<Snapshots>,
    /// Keys that are not touched yet, with their versions.
    pending: Vec<(u8, Vec<Flushed>)>,
    refused: Vec<u8>,
    touches: Option<FlushTouches<Arc<Map>>>,
    edit: u64,
    generation: u64,
}

impl Flush {
    /// Between which two steps a crash would come.
    pub(super) fn gap(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Touch => Some("crash_while_touching"),
            Stage::Edit => Some("crash_between_touches_and_edit"),
            Stage::Publish => Some("crash_between_edit_and_publication"),
            Stage::Close => Some("crash_between_publication_and_close"),
            _ => None,
        }
    }

    /// Whether it has touched something and is not published.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.stage, Stage::Touch | Stage::Edit | Stage::Publish)
    }
}

/// What comes next in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Look,
    Edit,
    Publish,
    Swing,
}

/// The collection of some containers into one, or the relocation of some of their records.
pub(super) struct Collection {
    stage: Move,
    /// A relocation takes what it likes, and leaves the containers as they are.
    relocates: bool,
    pub(super) sources: Vec<u64>,
    pub(super) target: u64,
    pending: Vec<(Record, Place)>,
    moved: Vec<(Record, Place, Place)>,
    moves: Option<Moves<Arc<Map>>>,
    edit: u64,
    generation: u64,
}

impl Collection {
    /// Whether a container goes with its end.
    fn takes(&self, id: u64) -> bool {
        !self.relocates && self.sources.contains(&id)
    }

    /// Between which two steps a crash would come.
    pub(super) fn gap(&self) -> Option<&'static str> {
        match self.stage {
            Move::Edit => Some("crash_before_collection_edit"),
            Move::Swing => Some("crash_while_swinging"),
            _ => None,
        }
    }
}

impl World {
    /// A step of the flush, or the beginning of one.
    pub(super) fn flush_step(&mut self) {
        let Some(mut flush) = self.flush.take() else {
            self.begin_flush();
            return;
        };
        let is_late = self.has(Lapse::TouchAfterPublication);
        flush.stage = match flush.stage {
            Stage::List => {
                if flush.early.is_some() {
                    self.frozen = std::mem::take(&mut self.active);
                }
                self.begin_touches(&mut flush);
                if is_late { Stage::Edit } else { Stage::Sync }
            }
            Stage::Sync => {
                let last = self.frozen.last().map_or(0, |op| op.seq);
                self.durable_seq = self.durable_seq.max(last);
                Stage::Touch
            }
            Stage::Touch => {
                let mut next = self.touch_step(&mut flush, is_late);
                while next == Stage::Touch && self.random.chance(70) {
                    next = self.touch_step(&mut flush, is_late);
                }
                next
            }
            Stage::Edit => {
                self.flush_edit(&mut flush);
                Stage::Publish
            }
            Stage::Publish if self.publish(flush.edit) => {
                self.frozen.clear();
                if is_late { Stage::Touch } else { Stage::Close }
            }
            Stage::Publish => Stage::Publish,
            Stage::Close => {
                if let Some(touches) = flush.touches.take() {
                    touches.publish(Generation(flush.generation));
                }
                return;
            }
        };
        self.flush = Some(flush);
    }

    fn begin_flush(&mut self) {
        // Not at once, or several versions would never be flushed together.
        let is_due = self.active.len() > 3 || self.random.chance(20);
        if !is_due || self.active.is_empty() {
            return;
        }
        let early = self.has(Lapse::EarlySnapshotList).then(|| self.live());
        if early.is_none() {
            self.frozen = std::mem::take(&mut self.active);
        }
        self.flush = Some(Flush {
            stage: Stage::List,
            early,
            pending: Vec::new(),
            refused: Vec::new(),
            touches: None,
            edit: 0,
            generation: 0,
        });
    }

    fn begin_touches(&mut self, flush: &mut Flush) {
        let live = flush.early.take().unwrap_or_else(|| self.live());
        match &mut flush.touches {
            Some(touches) => touches.again(live),
            None => flush.touches = Some(FlushTouches::begin(Arc::clone(&self.map), live)),
        }
        flush.refused.clear();
        let mut keys: BTreeMap<u8, Vec<Flushed>> = BTreeMap::new();
        for op in &self.frozen {
            let place = match op.what {
                What::Separated(place) => Some(place),
                What::Inline | What::Delete => None,
            };
            keys.entry(op.key).or_default().push(Flushed { seq: op.seq, place });
        }
        flush.pending = keys.into_iter().collect();
    }

    fn touch_step(&mut self, flush: &mut Flush, is_late: bool) -> Stage {
        if !is_late && self.random.chance(3) {
            // It fails; what it touched stays, and all of it is done again.
            self.mark("flush_repeated_after_touch");
            return Stage::List;
        }
        let Some((number, versions)) = flush.pending.pop() else {
            return if is_late { Stage::Close } else { Stage::Edit };
        };
        let Some(touches) = flush.touches.as_mut() else { return Stage::List };
        let mut replaced = Vec::new();
        let touched = self.with_key(number, |key| touches.touch(key, &versions, &mut replaced));
        if touched == Touched::NoRoom {
            flush.refused.push(number);
            self.mark("no_room");
        }
        if !replaced.is_empty() {
            self.mark("replaced");
        }
        if versions.len() > 1 {
            self.mark("several_versions_touched");
        }
        if self.map.figures().waiting > 0 {
            self.mark("touched_while_waiting");
        }
        Stage::Touch
    }

    fn flush_edit(&mut self, flush: &mut Flush) {
        let last = self.frozen.last().map_or(0, |op| op.seq);
        self.durable_seq = self.durable_seq.max(last);
        for op in &self.frozen {
            let is_refused = flush.refused.contains(&op.key) && !self.has(Lapse::RefusalIgnored);
            let form = match op.what {
                What::Inline => Form::Inline,
                What::Delete => Form::Deleted,
                What::Separated(place) if is_refused => {
                    self.durable.handles.insert(op.id, place);
                    Form::Handle
                }
                What::Separated(_) => Form::Bare,
            };
            let version = Indexed { id: op.id, seq: op.seq, form };
            self.durable.index.entry(op.key).or_default().push(version);
        }
        self.durable.flushed = last;
        self.durable.generation += 1;
        flush.generation = self.durable.generation;
        flush.edit = self.edited();
    }

    /// Containers that may be collected: whole flushed, nobody is at it, and every swing into it
    /// is done (rules R9, R23).
    fn victims(&self) -> Vec<u64> {
        let is_busy = |id: u64| {
            let is_target = |task: &Collection| task.target == id;
            let is_early = self.has(Lapse::CollectBeforeSwing);
            self.collections.iter().any(|task| task.takes(id) || is_target(task) && !is_early)
        };
        let is_flushed = |id: u64| {
            let mut records = self.records.range((id, 0)..(id + 1, 0));
            records.all(|(_, record)| record.seq <= self.durable.flushed)
                || self.has(Lapse::CollectAboveFlushed)
        };
        let all = self.durable.containers.iter().copied();
        all.filter(|id| *id != self.growing() && !is_busy(*id) && is_flushed(*id)).collect()
    }

    /// Begins a collection, of some containers or of all.
    pub(super) fn begin_collection(&mut self, is_of_all: bool) {
        let mut victims = self.victims();
        if victims.is_empty() || self.collections.len() == 2 || self.map.is_waiting() {
            return;
        }
        while !is_of_all && victims.len() > 2 {
            victims.swap_remove(self.random.index(victims.len()));
        }
        if !self.collections.is_empty() {
            self.mark("two_collections");
        }
        let target = self.new_container();
        let records = victims.iter().flat_map(|id| self.records.range((*id, 0)..(*id + 1, 0)));
        let pending = records
            .map(|((id, offset), record)| {
                let (container, offset) = (FileId(*id), *offset);
                (*record, Place { container, file: container, offset, bytes: 1000 })
            })
            .collect();
        let relocates = !is_of_all && self.random.chance(20);
        self.collections.push(Collection {
            stage: Move::Look,
            relocates,
            sources: victims,
            target,
            pending,
            moved: Vec::new(),
            moves: None,
            edit: 0,
            generation: 0,
        });
    }

    /// A step of some collection.
    pub(super) fn collection_step(&mut self) {
        if self.collections.is_empty() {
            return;
        }
        let at = self.random.index(self.collections.len());
        let mut task = self.collections.swap_remove(at);
        match task.stage {
            Move::Look => {
                if !self.look_step(&mut task) {
                    task.moves = Moves::begin(Arc::clone(&self.map));
                    task.stage = Move::Edit;
                }
            }
            Move::Edit => {
                self.collection_edit(&mut task);
                task.stage = Move::Publish;
            }
            Move::Publish => {
                if self.publish(task.edit) {
                    task.stage = Move::Swing;
                }
            }
            Move::Swing => {
                let Some((record, old, new)) = task.moved.pop() else {
                    self.end_collection(&mut task);
                    return;
                };
                let Some(moves) = &task.moves else { return };
                let swung = self.with_key(record.key, |key| moves.swing(key, &old, new));
                let has_swung = swung != Swung::Nothing;
                if task.relocates {
                    self.mark(if has_swung { "relocated" } else { "relocated_too_late" });
                }
                self.mark(if has_swung { "swing" } else { "swing_of_nothing" });
            }
        }
        self.collections.push(task);
    }

    fn end_collection(&mut self, task: &mut Collection) {
        if let Some(moves) = task.moves.take() {
            moves.publish(Generation(task.generation));
        }
        self.open.retain(|id| !task.takes(*id));
    }

    /// Looks at a record, and copies it if it is live; nothing when there is none left.
    fn look_step(&mut self, task: &mut Collection) -> bool {
        let Some((record, place)) = task.pending.pop() else { return false };
        if task.relocates && self.random.chance(50) {
            return true;
        }
        let map = Arc::clone(&self.map);
        let held = self.with_own_key(record.key, |world, key| {
            map.holds(key, &place, || {
                world.mark("asked_for_snapshots");
                let live = world.live();
                if world.random.chance(30) {
                    world.burst(record.key);
                }
                live
            })
        });
        let is_live = matches!(held, Held::Newest | Held::Superseded { .. });
        if matches!(held, Held::Superseded { .. }) {
            self.mark("superseded_but_needed");
        }
        if is_live || self.has_handle(&record, &place) {
            let number = task.moved.len() as u32;
            let new = self.place_record(task.target, number, record);
            task.moved.push((record, place, new));
        }
        true
    }

    fn with_own_key<T>(
        &mut self,
        key: u8,
        run: impl FnOnce(&mut Self, &crate::values::locator::LocatorKey<'_>) -> T,
    ) -> T {
        let (keyspace, name, hash) =
            self.with_key(key, |key| (key.keyspace, key.key.to_vec(), key.hash));
        run(self, &crate::values::locator::LocatorKey { keyspace, key: &name, hash })
    }

    /// A snapshot is taken, the key is written, and all of it is flushed.
    fn burst(&mut self, key: u8) {
        if self.snapshots.len() > 3 || self.is_calm {
            return;
        }
        self.snapshots.push(self.next_seq - 1);
        self.write(key);
        for _ in 0..60 {
            self.flush_step();
        }
    }

    fn collection_edit(&mut self, task: &mut Collection) {
        let Manifest { handles, containers, .. } = &mut self.durable;
        for (record, old, new) in &task.moved {
            if let Some(place) = handles.get_mut(&record.id).filter(|place| **place == *old) {
                *place = *new;
            }
        }
        containers.retain(|id| !task.takes(*id));
        containers.insert(task.target);
        self.open.insert(task.target);
        self.durable.generation += 1;
        task.generation = self.durable.generation;
        task.edit = self.edited();
    }

    /// Ends everything that is going on; then nothing may be in the map that the index does not
    /// ask for, nor any record that nobody needs.
    pub(super) fn quiesce(&mut self) -> Result<(), String> {
        self.snapshots.clear();
        self.reads.clear();
        self.is_calm = true;
        for round in 0..40_000 {
            self.flush_step();
            self.collection_step();
            if round % 4 == 0 && self.map.is_waiting() {
                self.load(round / 4 % 2)?;
            }
            let is_busy = self.flush.is_some() || !self.collections.is_empty();
            if !is_busy && self.active.is_empty() && !self.map.is_waiting() {
                break;
            }
        }
        self.map.prune_chains(&Snapshots::default());
        let newest = self.durable.index.values().filter_map(|versions| versions.last());
        let bare = newest.filter(|version| version.form == Form::Bare).count() as u64;
        let figures = self.map.figures();
        if (figures.keys, figures.links) != (bare, 0) {
            return Err(format!("{bare} bare keys, but {figures:?}"));
        }
        // Versions that snapshots kept leave the index with the next edit.
        let edit = self.edited();
        self.publish(edit);
        self.begin_collection(true);
        while !self.collections.is_empty() {
            self.collection_step();
        }
        self.is_calm = false;
        let handles = self.durable.handles.len();
        let growing = self.growing();
        let there = self.records.keys().filter(|(id, _)| self.open.contains(id));
        let kept = there.clone().filter(|(id, _)| *id != growing).count() as u64;
        let here = there.filter(|(id, _)| *id == growing).count() as u64;
        if kept > bare + handles as u64 || kept + here < bare {
            return Err(format!("{kept} records stay for {bare} bare keys, {handles} handles"));
        }
        Ok(())
    }
}
