//! What a flush or a compaction tells the map.
//!
//! Owned by one flush or compaction and shared by its listeners. Invariants: MT-1 every key of a
//! memtable that has a put or a delete is touched before a table of it is written, since only then
//! it is known which keys go bare into the index (MO-1). MT-2 a version that a range delete of the
//! same memtable covers is superseded by it: no entry of it comes into the index, from which
//! something would tell of its end. MT-3 a compaction forgets what range deletes kill: every view
//! that has the entry has the range delete, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::cursor::Cursor as _;
use crate::base::entry::{FileId, KeyspaceId, Kind, SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::{Arc, Mutex};
use crate::engine::locate::edit::LocatorEdit;
use crate::engine::mapping::{Live, Mapping, count};
use crate::index::Dead;
use crate::memory::memtable::Memtable;
use crate::values::cache::cache_place;
use crate::values::file::ValueContext;
use crate::values::handle::Handle;
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::{FlushTouches, Flushed, Map, Moves, Touched};
use crate::values::strategy::Strategy;

/// What one flush or compaction tells.
pub(crate) struct MapTouching {
    mapping: Arc<Mapping>,
    values: Arc<ValueContext>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those of a flush.
    touches: Option<FlushTouches<Arc<Map>>>,
    /// What a flush failed with has been counted already, and is counted anew.
    is_again: bool,
    /// Those of a compaction.
    moves: Option<Moves<Arc<Map>>>,
    /// Keys for which the map has no room.
    refused: BTreeMap<KeyspaceId, BTreeSet<Vec<u8>>>,
    changes: BTreeMap<FileId, Live>,
    touched: u64,
    /// Separated records of the memtable, and those that it supersedes, its own among them.
    separated: u64,
    superseded: u64,
    /// Bytes of the records that nothing names any more.
    bytes_died: u64,
}

impl MapTouching {
    /// What a compaction tells: nothing so far.
    pub(crate) fn of_compaction(mapping: &Arc<Mapping>, values: &Arc<ValueContext>) -> Arc<Self> {
        Arc::new(Self::with(mapping, values, State::default()))
    }

    fn with(mapping: &Arc<Mapping>, values: &Arc<ValueContext>, state: State) -> Self {
        let (mapping, values) = (Arc::clone(mapping), Arc::clone(values));
        Self { mapping, values, state: Mutex::new(state) }
    }

    /// Touches every key of a frozen memtable that is not of a dropped keyspace (MT-1). The
    /// snapshots were listed after the freeze (rule R4), and the log is durable (rule R10).
    pub(crate) fn of_flush(
        mapping: &Arc<Mapping>,
        values: &Arc<ValueContext>,
        snapshots: &[Seq],
        strategy: &dyn Strategy,
        table: &Arc<Memtable>,
        keyspaces: &[KeyspaceId],
    ) -> Result<Arc<Self>> {
        let snapshots = Snapshots::new(snapshots.to_vec());
        let unfinished = mapping.unfinished.lock().take();
        let is_again = unfinished.is_some();
        let touches = match unfinished {
            Some(mut touches) => {
                mark!("map_flush_touched_again");
                touches.again(snapshots);
                touches
            }
            None => FlushTouches::begin(Arc::clone(&mapping.map), snapshots),
        };
        let state = State { touches: Some(touches), is_again, ..State::default() };
        let touching = Self::with(mapping, values, state);
        for &keyspace in keyspaces {
            touching.touch_keyspace(strategy, table, keyspace)?;
        }
        touching.count();
        Ok(Arc::new(touching))
    }

    fn touch_keyspace(
        &self,
        strategy: &dyn Strategy,
        table: &Arc<Memtable>,
        keyspace: KeyspaceId,
    ) -> Result<()> {
        let fragments = table.fragments(keyspace);
        let mut entries = table.cursor(keyspace);
        entries.seek_first()?;
        let (mut key, mut versions) = (Vec::new(), Vec::new());
        while entries.valid() {
            key.clear();
            key.extend_from_slice(entries.key());
            versions.clear();
            while entries.valid() && entries.key() == key {
                let (seq, kind) = (entries.seq(), entries.kind());
                match kind {
                    Kind::Merge => {}
                    Kind::PutSeparated => {
                        let place = place_of(&strategy.resolve(entries.value())?);
                        versions.push(Flushed { seq, place });
                    }
                    _ => versions.push(Flushed { seq, place: None }),
                }
                entries.next()?;
            }
            versions.reverse();
            let Some(newest) = versions.last() else { continue };
            let cover = fragments.cover_seq(&key, SEQ_MAX);
            if cover > newest.seq && !planted!("map_touch_ignores_range_deletes") {
                mark!("map_version_range_deleted_in_memtable");
                versions.push(Flushed { seq: cover, place: None });
            }
            self.touch(keyspace, &key, &versions);
        }
        Ok(())
    }

    fn touch(&self, keyspace: KeyspaceId, key: &[u8], versions: &[Flushed]) {
        let located = self.mapping.key(keyspace, key);
        let mut guard = self.state.lock();
        let State { touches, refused, changes, touched, separated, superseded, bytes_died, .. } =
            &mut *guard;
        let Some(touches) = touches else { return };
        let mut replaced = Vec::new();
        *touched += 1;
        match touches.touch(&located, versions, &mut replaced) {
            Touched::Taken => {
                let newest = versions.last().and_then(|version| version.place);
                newest.inspect(|place| count(changes, place, 1));
            }
            Touched::NoRoom => {
                mark!("map_had_no_room");
                refused.entry(keyspace).or_default().insert(key.to_vec());
            }
        }
        let places = |versions: &[Flushed]| versions.iter().filter(|v| v.place.is_some()).count();
        let hidden = versions.split_last().map_or(0, |(_, older)| places(older));
        *separated += places(versions) as u64;
        *superseded += (replaced.len() + hidden) as u64;
        self.mapping.left_dead(replaced.len() as u64);
        for place in replaced {
            mark!("map_touch_replaced");
            self.values.cache.forget(cache_place(place.container, place.offset));
            count(changes, &place, -1);
            *bytes_died += u64::from(place.bytes);
        }
    }

    fn count(&self) {
        let mut state = self.state.lock();
        let changes = std::mem::take(&mut state.changes);
        match state.is_again {
            true => self.mapping.count_anew(),
            false => self.mapping.count(&changes),
        }
    }

    /// Whether a separated version that is flushed goes bare into the index.
    pub(crate) fn is_bare(&self, keyspace: KeyspaceId, key: &[u8], handle: &Handle) -> bool {
        let state = self.state.lock();
        let is_refused = || state.refused.get(&keyspace).is_some_and(|keys| keys.contains(key));
        !handle.is_large() && state.touches.is_some() && !is_refused()
    }

    /// A range delete kills a bare entry (MT-3).
    pub(crate) fn forget(&self, keyspace: KeyspaceId, dead: &Dead<'_>) {
        if planted!("map_keeps_range_deleted") {
            return;
        }
        let located = self.mapping.key(keyspace, dead.key);
        let mut guard = self.state.lock();
        let State { touches, moves, touched, bytes_died, .. } = &mut *guard;
        if moves.is_none() {
            *moves = Moves::begin(Arc::clone(&self.mapping.map));
        }
        let Some(moves) = moves else {
            // The map is still to be loaded, and the log's replay flushes. What is loaded has the
            // entry and not the range delete, which goes together with it.
            let ended = Flushed { seq: dead.superseded_by, place: None };
            if let Some(touches) = touches {
                mark!("map_entry_range_deleted_in_replay");
                *touched += 1;
                let _ = touches.touch(&located, &[ended], &mut Vec::new());
            }
            return;
        };
        let mut live = self.mapping.live.lock();
        let Some(forgotten) = moves.forget(&located, dead.seq) else { return };
        mark!("map_entry_range_deleted");
        *touched += 1;
        if forgotten.is_newest {
            count(&mut live, &forgotten.place, -1);
            *bytes_died += u64::from(forgotten.place.bytes);
        }
    }

    /// So many bare entries of the index die.
    pub(crate) fn met_dead(&self, entries: u64) {
        self.mapping.met_dead(entries);
    }

    /// The section for the edit, where anything was touched.
    pub(crate) fn sections(&self) -> Vec<Section> {
        match self.state.lock().touched {
            0 => Vec::new(),
            _ => vec![LocatorEdit::Touched.encode()],
        }
    }

    /// Bytes of the records that nothing names any more, since the last call.
    pub(crate) fn take_bytes_died(&self) -> u64 {
        std::mem::take(&mut self.state.lock().bytes_died)
    }

    /// The edit is durable and published.
    pub(crate) fn publish(&self) {
        let mut state = self.state.lock();
        if let Some(touches) = state.touches.take() {
            touches.publish(self.mapping.generation());
            self.mapping.superseding.learn(state.separated, state.superseded);
        }
    }
}

impl Drop for MapTouching {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(touches) = state.touches.take() {
            *self.mapping.unfinished.lock() = Some(touches);
        }
        // Nothing that is forgotten needs its edit (MT-3).
        if let Some(moves) = state.moves.take() {
            moves.publish(self.mapping.generation());
        }
    }
}

/// Where the map has a record; nowhere if it is a large value's.
fn place_of(handle: &Handle) -> Option<Place> {
    let Handle { file, offset, bytes, .. } = *handle;
    (!handle.is_large()).then_some(Place { container: file, file, offset, bytes })
}
