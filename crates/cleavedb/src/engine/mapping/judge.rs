//! What a collection asks the map, and what it tells it.
//!
//! Invariants: MJ-1 a record lives iff the map names it as its key's newest version, or as one that
//! a live snapshot needs, asked for after that (rule R23), or if the index has its handle, since
//! the map had no room for its key. MJ-2 the map is told after the edit, of each record by its
//! exact old place; until it is, no other collection begins. MJ-3 from before the edit until the
//! map has been told, the new container counts as named, though nothing in it is counted yet.

use std::collections::BTreeSet;

use crate::base::checksum::key_hash;
use crate::base::entry::{FileId, KeyspaceId, Kind};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::values::cache::{ValueCache, cache_place};
use crate::values::map::place::{Place, Snapshots};
use crate::values::map::{Held, Map, Moves, Swung};
use crate::values::rewrite::{Judge, JudgedRecord, MovedRecord};
use crate::values::table::writer::TablePlace;

/// Says which records live.
pub(crate) struct MapJudge<'a> {
    /// The database.
    pub(crate) engine: &'a Engine,
    /// Its map.
    pub(crate) mapping: &'a Mapping,
    /// Containers of the sources.
    pub(crate) sources: &'a [FileId],
    /// The new container.
    pub(crate) container: FileId,
    /// Keyspaces that there are.
    pub(crate) keyspaces: &'a BTreeSet<KeyspaceId>,
    /// Records that live without being the newest of their keys in the map.
    pub(crate) held: &'a mut u64,
    /// Bytes that were judged.
    pub(crate) judged_bytes: &'a mut u64,
    /// What is to be told.
    pub(crate) moved: &'a mut MovedInMap,
}

impl Judge for MapJudge<'_> {
    fn keeps(&mut self, record: &JudgedRecord<'_>) -> Result<bool> {
        *self.judged_bytes += record.bytes();
        if !self.keyspaces.contains(&record.keyspace) {
            mark!("gc_record_of_dropped_keyspace");
            return Ok(false);
        }
        let Some(&container) = self.sources.get(record.source) else { return Ok(true) };
        let place = place_in(container, record.file, record.place);
        let key = self.mapping.key(record.keyspace, record.key);
        let snapshots = || Snapshots::new(self.engine.snapshots.stripes());
        match self.mapping.map.holds(&key, &place, snapshots) {
            Held::Newest => return Ok(true),
            Held::Superseded { .. } => {
                if planted!("map_version_for_snapshot_collected") {
                    return Ok(false);
                }
                mark!("gc_map_version_held");
                self.moved.kept_bytes += record.bytes();
            }
            Held::Waiting => {}
            Held::Not => {
                if !self.engine.names_record(record)? {
                    mark!("gc_not_in_map");
                    return Ok(false);
                }
                mark!("gc_handle_beside_map");
            }
        }
        *self.held += 1;
        Ok(true)
    }

    fn moved(&mut self, record: &MovedRecord<'_>) {
        let from = place_in(record.from, record.file, record.place);
        let to = place_in(self.container, record.file, record.now);
        self.moved.note(record.keyspace, record.key, from, to);
    }
}

fn place_in(container: FileId, file: FileId, place: TablePlace) -> Place {
    let TablePlace { offset, bytes } = place;
    Place { container, file, offset, bytes }
}

impl Engine {
    /// Whether an index entry has the handle of a record (MJ-1).
    fn names_record(&self, record: &JudgedRecord<'_>) -> Result<bool> {
        let view = self.view.load();
        let refs = match view.values.get(record.file) {
            Some(entry) => entry.state.refs,
            None => view.values.get_moved(record.file).map_or(0, |file| file.refs),
        };
        let Some(index) = view.indexes.get(&record.keyspace).filter(|_| refs > 0) else {
            return Ok(false);
        };
        let mut lookup = Lookup::new(record.seq);
        index.get(record.key, key_hash(record.key), &mut lookup)?;
        let found = lookup.found;
        Ok(found.is_some_and(|f| f.seq == record.seq && f.kind == Kind::PutSeparated))
    }
}

/// Records that a collection has moved: all of them, or the map would lead nowhere.
#[derive(Debug, Default)]
pub(crate) struct MovedInMap {
    keys: Vec<u8>,
    records: Vec<MovedKey>,
    /// Bytes of those that only snapshots need.
    pub(crate) kept_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct MovedKey {
    keyspace: KeyspaceId,
    /// Where its key ends, which begins where the one before ends.
    key_end: usize,
    from: Place,
    to: Place,
}

impl MovedInMap {
    fn note(&mut self, keyspace: KeyspaceId, key: &[u8], from: Place, to: Place) {
        self.keys.extend_from_slice(key);
        self.records.push(MovedKey { keyspace, key_end: self.keys.len(), from, to });
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() + self.records.capacity() * size_of::<MovedKey>()
    }

    /// Tells the map (MJ-2), and the cache.
    pub(crate) fn swing(&self, mapping: &Mapping, moves: &Moves<Arc<Map>>, cache: &ValueCache) {
        let mut start = 0;
        for record in &self.records {
            let key = self.keys.get(start..record.key_end).unwrap_or_default();
            start = record.key_end;
            let key = mapping.key(record.keyspace, key);
            let to = match planted!("map_told_of_old_offset") {
                true => Place { offset: record.from.offset, ..record.to },
                false => record.to,
            };
            match mapping.swing(moves, &key, &record.from, to) {
                Swung::Newest => {
                    mark!("map_swung");
                    let at = |place: &Place| cache_place(place.container, place.offset);
                    cache.moved(at(&record.from), at(&record.to));
                }
                Swung::Superseded => mark!("map_chain_swung"),
                Swung::Nothing => mark!("map_swung_nothing"),
            }
        }
    }
}
