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
use crate::base::lookup::{Found, Lookup};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::engine::mapping::moved::MovedInMap;
use crate::values::handle::Handle;
use crate::values::map::Held;
use crate::values::map::place::{Place, Snapshots};
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
        // The file, too: relocation leaves a record behind that has the same seq.
        let is_its_handle =
            |value: &[u8]| Handle::decode(value).is_ok_and(|handle| handle.file == record.file);
        Ok(lookup.found.is_some_and(|found| {
            let Found { kind, seq, value } = found;
            (kind, seq) == (Kind::PutSeparated, record.seq) && is_its_handle(&value)
        }))
    }
}
