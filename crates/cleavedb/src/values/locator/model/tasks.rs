//! Flush and garbage collection in sub-steps; anything may come between any two.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::entry::{FileId, Seq};
use crate::values::locator::place::Place;
use crate::values::locator::{FlushTouches, Locator};

use super::Lapse;
use super::world::{Manifest, Operation, Record, What, World};

/// What comes next in a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    List,
    Touch,
    Sync,
    Edit,
    Publish,
    Close,
}

/// The flush of one keyspace's frozen memtable.
pub(super) struct Flush {
    stage: Stage,
    /// Keys that are not touched yet: newest operation and the seq that supersedes.
    pending: Vec<(Operation, Seq)>,
    touches: Option<FlushTouches<Arc<Locator>>>,
    edit: u64,
}

impl Flush {
    /// Between which two steps a crash would come.
    pub(super) fn gap(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Touch => Some("crash_while_touching"),
            Stage::Publish => Some("crash_between_edit_and_publication"),
            Stage::Close => Some("crash_between_publication_and_close"),
            _ => None,
        }
    }

    /// Whether it has touched something and is not published.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.stage, Stage::Touch | Stage::Sync | Stage::Edit | Stage::Publish)
    }
}

/// What comes next in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Edit,
    Publish,
    Swing,
}

/// The collection of some containers into one.
pub(super) struct Collection {
    stage: Move,
    sources: Vec<u64>,
    target: u64,
    moved: Vec<(Record, Place, Place)>,
    edit: u64,
}

impl Collection {
    /// Between which two steps a crash would come.
    pub(super) fn gap(&self) -> Option<&'static str> {
        match self.stage {
            Move::Edit => Some("crash_before_collection_edit"),
            Move::Publish => None,
            Move::Swing => Some("crash_between_collection_and_swing"),
        }
    }
}

impl World {
    /// A step of a keyspace's flush, or the beginning of one.
    pub(super) fn flush_step(&mut self, keyspace: usize) {
        let Some(mut flush) = self.flushes[keyspace].take() else {
            // Not at once, or no shard would ever be even.
            let is_due = self.active[keyspace].len() > 3 || self.random.chance(10);
            if is_due && !self.active[keyspace].is_empty() {
                self.frozen[keyspace] = std::mem::take(&mut self.active[keyspace]);
                let (pending, touches) = (Vec::new(), None);
                self.flushes[keyspace] =
                    Some(Flush { stage: Stage::List, pending, touches, edit: 0 });
            }
            return;
        };
        let is_late = self.has(Lapse::TouchAfterPublication);
        flush.stage = match flush.stage {
            Stage::List => {
                self.begin_touches(keyspace, &mut flush);
                if is_late { Stage::Sync } else { Stage::Touch }
            }
            Stage::Touch => {
                let mut next = self.touch_step(&mut flush, is_late);
                while next == Stage::Touch && self.random.chance(60) {
                    next = self.touch_step(&mut flush, is_late);
                }
                next
            }
            Stage::Sync => {
                let last = self.frozen[keyspace].last().map_or(0, |op| op.seq);
                self.durable_seq = self.durable_seq.max(last);
                Stage::Edit
            }
            Stage::Edit => {
                flush.edit = self.flush_edit(keyspace);
                Stage::Publish
            }
            Stage::Publish if self.publish(flush.edit) => {
                self.frozen[keyspace].clear();
                if is_late { Stage::Touch } else { Stage::Close }
            }
            Stage::Publish => Stage::Publish,
            Stage::Close => {
                let stamp = self.stamp(&self.published);
                if let Some(touches) = flush.touches.take() {
                    touches.publish(stamp);
                }
                return;
            }
        };
        self.flushes[keyspace] = Some(flush);
    }

    fn begin_touches(&mut self, keyspace: usize, flush: &mut Flush) {
        let oldest = self.snapshots.iter().min().copied();
        flush.touches = Some(FlushTouches::begin(Arc::clone(&self.locator), oldest));
        let mut keys: BTreeMap<u8, (Operation, Seq)> = BTreeMap::new();
        for op in &self.frozen[keyspace] {
            let (newest, _) = keys.entry(op.key).or_insert((*op, op.seq));
            *newest = *op;
        }
        if self.has(Lapse::LargestSuperseding) {
            keys.values_mut().for_each(|(newest, superseding)| *superseding = newest.seq);
        }
        flush.pending = keys.into_values().collect();
    }

    fn touch_step(&mut self, flush: &mut Flush, is_late: bool) -> Stage {
        if !is_late && self.random.chance(3) {
            // It fails; what it touched stays, and all of it is done again.
            self.mark("flush_repeated_after_touch");
            flush.touches = None;
            return Stage::List;
        }
        let Some((op, superseding)) = flush.pending.pop() else {
            return if is_late { Stage::Close } else { Stage::Sync };
        };
        let place = match op.what {
            What::Separated(place) => Some(place),
            What::Inline | What::Delete => None,
        };
        let mut replaced = Vec::new();
        if let Some(touches) = flush.touches.as_mut() {
            self.with_key(op.key, |key| touches.touch(key, place, superseding, &mut replaced));
        }
        if !replaced.is_empty() {
            self.mark("touch_with_match");
        }
        for place in replaced {
            let record = self.records.get(&(place.container().0, place.offset()));
            if record.is_some_and(|record| record.key != op.key) {
                self.mark("fact_that_matches_nothing");
            }
        }
        Stage::Touch
    }

    fn flush_edit(&mut self, keyspace: usize) -> u64 {
        for op in &self.frozen[keyspace] {
            let versions = self.durable.index.entry(op.key).or_default();
            let is_separated = matches!(op.what, What::Separated(_));
            versions.push((op.seq, op.what != What::Delete, is_separated));
            if let What::Separated(place) = op.what {
                self.durable.places.insert(op.seq, place);
            }
        }
        let last = self.frozen[keyspace].last().map_or(0, |op| op.seq);
        self.durable.flushed[keyspace] = last;
        self.durable.generation += 1;
        self.edited()
    }

    /// Containers that may be collected: whole flushed, and nobody is at it (rule R9).
    fn victims(&self) -> Vec<u64> {
        let is_busy = |id: u64| self.collections.iter().any(|task| task.sources.contains(&id));
        let is_flushed = |id: u64| {
            let mut records = self.records.range((id, 0)..(id + 1, 0));
            records.all(|(_, r)| r.seq <= self.durable.flushed[usize::from(r.key % 2)])
        };
        let all = self.durable.containers.iter().copied();
        all.filter(|id| *id != self.growing() && !is_busy(*id) && is_flushed(*id)).collect()
    }

    /// Begins a collection: survivors are copied.
    pub(super) fn begin_collection(&mut self) {
        let mut victims = self.victims();
        if victims.is_empty() || self.collections.len() == 2 {
            return;
        }
        let mut sources = vec![victims.remove(self.random.index(victims.len()))];
        if !victims.is_empty() && self.random.chance(50) {
            sources.push(victims[self.random.index(victims.len())]);
        }
        if !self.collections.is_empty() {
            self.mark("two_collections");
        }
        let target = self.new_container();
        let manifest = &self.durable;
        let survivors: Vec<(Record, Place)> = sources
            .iter()
            .flat_map(|id| self.records.range((*id, 0)..(*id + 1, 0)))
            .filter_map(|((id, offset), record)| {
                let place = Place::of(FileId(*id), *offset, 1000)?;
                let is_live = manifest.places.get(&record.seq).is_some_and(|p| p.is_at(&place));
                is_live.then_some((*record, place))
            })
            .collect();
        let mut moved = Vec::new();
        for (number, (record, old)) in (0..).zip(survivors) {
            moved.push((record, old, self.place_record(target, number, record)));
        }
        self.collections.push(Collection { stage: Move::Edit, sources, target, moved, edit: 0 });
    }

    /// A step of some collection.
    pub(super) fn collection_step(&mut self) {
        if self.collections.is_empty() {
            return;
        }
        let at = self.random.index(self.collections.len());
        let mut task = self.collections.swap_remove(at);
        match task.stage {
            Move::Edit => {
                let Manifest { places, containers, .. } = &mut self.durable;
                for (record, old, new) in &task.moved {
                    if let Some(place) = places.get_mut(&record.seq).filter(|p| p.is_at(old)) {
                        *place = *new;
                    }
                }
                containers.retain(|id| !task.sources.contains(id));
                containers.insert(task.target);
                task.edit = self.edited();
                task.stage = Move::Publish;
            }
            Move::Publish => {
                if self.publish(task.edit) {
                    task.stage = Move::Swing;
                }
            }
            Move::Swing => {
                let Some((record, old, new)) = task.moved.pop() else { return };
                let locator = Arc::clone(&self.locator);
                let has_swung =
                    self.with_key(record.key, |key| locator.swing(key, &old, Some(new)));
                self.mark(if has_swung { "swing" } else { "swing_of_nothing" });
            }
        }
        self.collections.push(task);
    }
}
