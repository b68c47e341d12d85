//! Records that were moved, for the map: all of them, or the map would lead nowhere once the places
//! where they were are gone.
//!
//! Owned by one thread at a time. Records come mostly in the order of their keys and of their new
//! places, so each is written as what differs from the one before: some 20 bytes at keys of 16.

use std::collections::BTreeMap;

use crate::base::codec::{Reader, put_signed, put_varint};
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::engine::mapping::Mapping;
use crate::engine::moved_key::MovedKey;
use crate::values::cache::{ValueCache, cache_place};
use crate::values::map::place::Place;
use crate::values::map::{Map, Moves, Swung};

/// Records that were moved.
#[derive(Debug, Default)]
pub(crate) struct MovedInMap {
    bytes: Vec<u8>,
    last: Last,
    /// Bytes of those that only snapshots need.
    pub(crate) kept_bytes: u64,
}

/// The record that the next one is told apart from.
#[derive(Debug, Default)]
struct Last {
    key: MovedKey,
    from: LastPlace,
    to: LastPlace,
}

#[derive(Clone, Copy, Debug, Default)]
struct LastPlace {
    container: u64,
    file: u64,
    offset: u64,
}

impl MovedInMap {
    /// A record is at another place from the edit on.
    pub(crate) fn note(&mut self, keyspace: KeyspaceId, key: &[u8], from: Place, to: Place) {
        let Self { bytes, last, .. } = self;
        last.key.put(bytes, keyspace, key);
        last.from.put(bytes, &from);
        last.to.put(bytes, &to);
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.last.key.memory_bytes()
    }

    /// Bytes of it that are in use.
    pub(crate) fn used_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Tells the map (MJ-2), and the cache. Returns the bytes that snapshots alone need of each
    /// container.
    pub(crate) fn swing(
        &self,
        mapping: &Mapping,
        moves: &Moves<Arc<Map>>,
        cache: &ValueCache,
    ) -> BTreeMap<FileId, u64> {
        let mut kept: BTreeMap<FileId, u64> = BTreeMap::new();
        let outcome = self.each(|keyspace, key, from, to| {
            let key = mapping.key(keyspace, key);
            let to = match planted!("map_told_of_old_offset") {
                true => Place { offset: from.offset, ..to },
                false => to,
            };
            let from = match planted!("map_swing_overwrites_newer") {
                true => mapping.newest_of(&key).unwrap_or(from),
                false => from,
            };
            match mapping.swing(moves, &key, &from, to) {
                Swung::Newest => {
                    mark!("map_swung");
                    let at = |place: &Place| cache_place(place.container, place.offset);
                    cache.moved(at(&from), at(&to));
                }
                Swung::Superseded => {
                    mark!("map_chain_swung");
                    *kept.entry(to.container).or_default() += u64::from(to.bytes);
                }
                Swung::Nothing => mark!("map_swung_nothing"),
            }
        });
        debug_assert!(outcome.is_ok(), "what was noted can be read: {outcome:?}");
        kept
    }

    /// Gives all records, in the order in which they were noted.
    fn each(&self, mut take: impl FnMut(KeyspaceId, &[u8], Place, Place)) -> Result<()> {
        let mut rest = Reader::new(&self.bytes);
        let mut last = Last::default();
        while !rest.is_empty() {
            let keyspace = last.key.take(&mut rest)?;
            let (from, to) = (last.from.take(&mut rest)?, last.to.take(&mut rest)?);
            take(keyspace, last.key.key(), from, to);
        }
        Ok(())
    }
}

impl LastPlace {
    fn put(&mut self, bytes: &mut Vec<u8>, place: &Place) {
        let differs = |now: u64, before: u64| now.wrapping_sub(before).cast_signed();
        put_signed(bytes, differs(place.container.0, self.container));
        put_signed(bytes, differs(place.file.0, self.file));
        put_signed(bytes, differs(place.offset, self.offset));
        put_varint(bytes, u64::from(place.bytes));
        let (container, file) = (place.container.0, place.file.0);
        *self = Self { container, file, offset: place.offset };
    }

    fn take(&mut self, rest: &mut Reader<'_>) -> Result<Place> {
        let mut next = |before: u64| Ok(before.wrapping_add(rest.signed()?.cast_unsigned()));
        let container = next(self.container)?;
        let (file, offset) = (next(self.file)?, next(self.offset)?);
        *self = Self { container, file, offset };
        let bytes = rest.varint_u32()?;
        Ok(Place { container: FileId(container), file: FileId(file), offset, bytes })
    }
}

#[cfg(test)]
mod tests;
