//! Reads by way of the map.
//!
//! Invariants: MF-1 what the map says is compared with the range deletes of the view's index; in a
//! keyspace with a merge operator the index is asked in any case: operands may be above (MO-6).
//! MF-2 a bare entry is read by the place of exactly its seq. MF-3 a get takes what it finds at
//! once, if the map and its view agree; else it begins again with a registered snapshot, so that
//! the versions that it may need stay (rule R12). Everything else registers one before its view.
//! MF-4 a place in a container that the view does not have is of a collection that came after the
//! view, or has not told the map yet (rule R23). Numbers of containers ascend: if the view has the
//! file in a later one, it is the map that is to be told, which may take long, and the record is
//! found there by key and seq (rule R13); if not, a newer view is taken, which is there already.
//! MF-5 the view is taken before the map is asked. A container is no victim until the map has been
//! told of it, so the place is then of the file's present epoch or the one before. What the rewrite
//! left out was superseded before any moment that has its container, so no read asks for that.

use std::time::Duration;

use crate::base::checksum::key_hash;
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::lookup::{Found, Lookup};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::thread;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::mapping::Mapping;
use crate::engine::read::in_memtables;
use crate::engine::read::many::{ManyApart, Values, ask_memtables, lookups_of};
use crate::engine::snapshots::SnapshotPin;
use crate::engine::view::View;
use crate::index::KeyLookup;
use crate::io::clock::Clock;
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::locator::LocatorKey;
use crate::values::map::Answer;
use crate::values::map::place::Place;

/// Newer views taken at once; further ones after a while, each twice as long as the one before.
const VIEWS_AT_ONCE: u32 = 64;

/// Longest wait for a newer view.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits after which a place is given up: some ten seconds.
const WAITS_MAX: u32 = 110;

/// How long to look for a view that has what the map says.
#[derive(Default)]
struct Patience {
    views: u32,
}

impl Patience {
    /// Before the next view is taken; false where there is no point in one.
    fn wait(&mut self, clock: &dyn Clock) -> bool {
        mark!("map_place_after_view");
        self.views += 1;
        match self.views.checked_sub(VIEWS_AT_ONCE) {
            None => thread::yield_now(),
            Some(waits) if waits < WAITS_MAX => {
                clock.sleep(WAIT_MAX.min(Duration::from_micros(1 << waits.min(20))));
            }
            Some(_) => return false,
        }
        true
    }
}

/// What map and view say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// The lookup is decided, or nothing is there; a bare entry has become one with a handle.
    Settled,
    /// The index has a bare entry, and the map another version of the key, or none.
    Unknown,
    /// The place is in a container that the view does not have (MF-4).
    Elsewhere,
}

/// The handle that leads to a place, with these files; `None` where the container is not among
/// them.
pub(crate) fn handle_at(values: &ValueFiles, place: &Place) -> Option<Handle> {
    let Place { container, file, offset, bytes } = *place;
    let epoch = match values.get_moved(file) {
        Some(moved) if moved.container == container => moved.epoch,
        // What was a segment is found by key and seq in whatever it was rewritten into.
        _ if container == file && values.has_file(file) => 0,
        _ => return None,
    };
    Some(Handle { file, epoch, offset, bytes })
}

/// The handle that leads to a record which the map says is at a place, asked after these files were
/// taken; `None` where the container is newer than they are.
fn handle_of_record(values: &ValueFiles, place: &Place) -> Option<Handle> {
    handle_at(values, place).or_else(|| {
        let moved = values.get_moved(place.file)?;
        // MF-5: the map is still to be told of the file's last rewrite.
        let is_to_be_told = moved.container > place.container;
        let epoch = moved.epoch.checked_sub(1).filter(|_| is_to_be_told)?;
        mark!("map_place_before_view");
        let Place { file, offset, bytes, .. } = *place;
        Some(Handle { file, epoch, offset, bytes })
    })
}

impl Mapping {
    /// The handle of a bare entry of this seq, as a snapshot sees it (MF-2).
    pub(crate) fn handle_of(
        &self,
        values: &ValueFiles,
        key: &LocatorKey<'_>,
        snapshot: Seq,
        seq: Seq,
    ) -> Result<Handle, Mapped> {
        match self.map.lookup(key, snapshot) {
            Answer::Found(version) if version.seq == seq => {
                handle_of_record(values, &version.place).ok_or(Mapped::Elsewhere)
            }
            _ => Err(Mapped::Unknown),
        }
    }

    /// Where the record of a bare entry of this seq stands, as far as is known now.
    pub(crate) fn place_of(&self, key: &LocatorKey<'_>, seq: Seq) -> Option<Place> {
        match self.map.lookup(key, seq) {
            Answer::Found(version) if version.seq == seq => Some(version.place),
            _ => None,
        }
    }

    /// Gives a bare entry that a lookup met its handle.
    fn settle(&self, values: &ValueFiles, key: &LocatorKey<'_>, lookup: &mut Lookup) -> Mapped {
        let snapshot = lookup.snapshot;
        let Some(found) = lookup.found.as_mut().filter(|found| found.kind == Kind::PutBare) else {
            return Mapped::Settled;
        };
        match self.handle_of(values, key, snapshot, found.seq) {
            Ok(handle) => {
                let value = Value::copy_from(&handle.encode());
                *found = Found { kind: Kind::PutSeparated, value, seq: found.seq };
                Mapped::Settled
            }
            Err(mapped) => mapped,
        }
    }

    /// The same for many keys; what stands against the first that is not settled.
    fn settle_all(
        &self,
        values: &ValueFiles,
        keyspace: KeyspaceId,
        lookups: &mut [KeyLookup<'_>],
    ) -> Mapped {
        let mut mapped = lookups.iter_mut().map(|KeyLookup { key, lookup, .. }| {
            self.settle(values, &self.key(keyspace, key), lookup)
        });
        mapped.find(|mapped| *mapped != Mapped::Settled).unwrap_or(Mapped::Settled)
    }

    /// Decides a lookup by the map alone, where that is possible (MF-1); the memtables have not
    /// decided it.
    fn find_alone(
        &self,
        view: &View,
        keyspace: &KeyspaceState,
        key: &LocatorKey<'_>,
        lookup: &mut Lookup,
    ) -> Result<Option<Mapped>> {
        if keyspace.operator.is_some() {
            return Ok(None);
        }
        let Answer::Found(version) = self.map.lookup(key, lookup.snapshot) else { return Ok(None) };
        let Some(index) = view.indexes.get(&keyspace.id) else { return Ok(None) };
        let cover = index.cover(key.key, lookup.snapshot)?;
        if cover > version.seq && !planted!("map_ignores_range_deletes") {
            mark!("map_hit_under_range_delete");
            return Ok(None);
        }
        let Some(handle) = handle_of_record(&view.values, &version.place) else {
            return Ok(Some(Mapped::Elsewhere));
        };
        mark!("map_hit");
        lookup.offer(version.seq, Kind::PutSeparated, || Value::copy_from(&handle.encode()));
        Ok(Some(Mapped::Settled))
    }
}

impl Engine {
    /// The value of `key` at `snapshot`, or now, in a database with a map.
    pub(crate) fn get_mapped(
        &self,
        mapping: &Mapping,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<Value>> {
        let located = mapping.key(keyspace.id, key);
        let mut pin: Option<SnapshotPin> = None;
        let mut patience = Patience::default();
        loop {
            let at = snapshot.or(pin.as_ref().map(SnapshotPin::seq));
            let (view, seq) = self.moment(at);
            let mut lookup = Lookup::new(seq);
            lookup.is_of_now = snapshot.is_none();
            let mapped = match in_memtables(&view, keyspace.id, key, &mut lookup) {
                true => Ok(self.value_of(&view, keyspace, key, &lookup)?),
                false => self.value_mapped(mapping, &view, keyspace, &located, &mut lookup)?,
            };
            let mapped = match mapped {
                Ok(value) => return Ok(value),
                Err(mapped) => mapped,
            };
            match mapped {
                Mapped::Settled => break,
                Mapped::Unknown if at.is_some() => break,
                Mapped::Elsewhere => {
                    drop(view);
                    if !patience.wait(&*self.io.clock) {
                        break;
                    }
                }
                Mapped::Unknown => {}
            }
            if at.is_none() {
                mark!("map_read_with_snapshot");
                pin = Some(self.snapshots.take(&self.visible));
            }
        }
        Err(self.has_no_record(key))
    }

    /// The value of a key that the memtables have not decided; base and operands are read at the
    /// same time. What stands against it, where map and view do not agree.
    fn value_mapped(
        &self,
        mapping: &Mapping,
        view: &View,
        keyspace: &KeyspaceState,
        key: &LocatorKey<'_>,
        lookup: &mut Lookup,
    ) -> Result<Result<Option<Value>, Mapped>> {
        let operands = lookup.operands.len();
        let mut apart = None;
        let mapped = mapping.find_alone(view, keyspace, key, lookup)?;
        if mapped.is_none()
            && let Some(index) = view.indexes.get(&keyspace.id)
        {
            // On its way while the base is looked for and read.
            apart = index.begin_apart(key.key, lookup.snapshot)?;
            index.get_base(key.key, key_hash(key.key), lookup)?;
        }
        let mapped = mapped.unwrap_or_else(|| mapping.settle(&view.values, key, lookup));
        match (mapped, apart) {
            (Mapped::Settled, Some(apart)) => {
                self.value_with(view, (keyspace, key.key), lookup, (apart, operands)).map(Ok)
            }
            (Mapped::Settled, None) => self.value_of(view, keyspace, key.key, lookup).map(Ok),
            (_, Some(apart)) => {
                apart.finish(operands, lookup)?;
                // What is there of the base may not count any more.
                match mapping.settle(&view.values, key, lookup) {
                    Mapped::Settled => self.value_of(view, keyspace, key.key, lookup).map(Ok),
                    other => Ok(Err(other)),
                }
            }
            (other, None) => Ok(Err(other)),
        }
    }

    /// The values of many keys at one moment, in a database with a map.
    pub(crate) fn multi_get_mapped(
        &self,
        mapping: &Mapping,
        keyspace: &KeyspaceState,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Value>>> {
        let is_of_now = snapshot.is_none();
        let pin = is_of_now.then(|| self.snapshots.take(&self.visible));
        let snapshot = snapshot.or(pin.as_ref().map(SnapshotPin::seq)).unwrap_or_default();
        let mut patience = Patience::default();
        loop {
            let view = {
                let (view, _) = self.moment(Some(snapshot));
                Arc::clone(&view)
            };
            let mut lookups = lookups_of(keys, snapshot);
            ask_memtables(&view, keyspace.id, &mut lookups);
            match self.values_mapped(mapping, &view, keyspace, &mut lookups)? {
                Ok(values) => return self.fold_values(keyspace, lookups, values, is_of_now),
                Err(Mapped::Elsewhere) if patience.wait(&*self.io.clock) => {}
                Err(_) => break,
            }
        }
        Err(self.has_no_record(keys.first().copied().unwrap_or_default()))
    }

    /// All that a view knows of many keys, and the values of those with handles, read while what is
    /// kept apart is on its way. The snapshot is registered.
    fn values_mapped(
        &self,
        mapping: &Mapping,
        view: &View,
        keyspace: &KeyspaceState,
        lookups: &mut [KeyLookup<'_>],
    ) -> Result<Result<Values, Mapped>> {
        for KeyLookup { key, lookup, .. } in &mut *lookups {
            if lookup.found.is_none() {
                let key = mapping.key(keyspace.id, key);
                let mapped = mapping.find_alone(view, keyspace, &key, lookup)?;
                if let Some(Mapped::Elsewhere) = mapped {
                    return Ok(Err(Mapped::Elsewhere));
                }
            }
        }
        let mut apart = None;
        if let Some(index) = view.indexes.get(&keyspace.id)
            && lookups.iter().any(|key| key.lookup.found.is_none())
        {
            apart = ManyApart::begin(&**index, lookups)?;
            index.multi_get_base(lookups)?;
        }
        let mut mapped = mapping.settle_all(&view.values, keyspace.id, lookups);
        if mapped != Mapped::Settled
            && let Some(apart) = apart.take()
        {
            apart.finish(lookups)?;
            // What is there of a base may not count any more.
            mapped = mapping.settle_all(&view.values, keyspace.id, lookups);
        }
        match mapped {
            Mapped::Settled => self.values_with(view, keyspace, lookups, apart).map(Ok),
            other => Ok(Err(other)),
        }
    }

    /// The handle of a bare entry that a scan met, whose snapshot is registered. It leads into
    /// these files, or into newer ones, which are kept for the next one.
    pub(crate) fn handle_of_bare(
        &self,
        (files, newer): (&ValueFiles, &mut Option<Arc<ValueFiles>>),
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Seq,
        seq: Seq,
    ) -> Result<Handle> {
        let Some(mapping) = &self.mapping else { return Err(self.has_no_record(key)) };
        let located = mapping.key(keyspace, key);
        let mut patience = Patience::default();
        loop {
            let files = newer.as_deref().unwrap_or(files);
            match mapping.handle_of(files, &located, snapshot, seq) {
                Ok(handle) => return Ok(handle),
                Err(Mapped::Elsewhere) if patience.wait(&*self.io.clock) => {
                    *newer = Some(Arc::clone(&self.view.load().values));
                }
                Err(_) => break,
            }
        }
        Err(self.has_no_record(key))
    }

    /// What it means that nothing leads from a bare entry to its record.
    pub(crate) fn has_no_record(&self, key: &[u8]) -> Error {
        let key = key.escape_ascii();
        let message = format!("the index has key \"{key}\", whose record no value file has");
        Error::corruption(message).in_file(&self.dir)
    }
}
