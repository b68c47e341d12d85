//! A map made anew where no checkpoint counts: from the index, which knows every bare entry, and
//! the value files, which know where its record stands.
//!
//! Owned by whoever recovers; any threads, each shard under its own lock. First, every key whose
//! newest base in the index is bare is *expected*, with that entry's seq; then every record of the
//! value files is offered. A seq is of one operation only, so a record is taken by hash and seq
//! alone, and the lines of a segment's footer, which have no keys, are enough. What the replayed
//! log supersedes is *shadowed*: a flush that came as far as its touches lets GC have the records
//! of before, although the crash kept it from its edit, so that the index names versions which are
//! gone and which nobody sees (rule R19). Invariants: MR-1 a place is taken for exactly the seq
//! expected: a newer record may be one that was cut off, an older one was superseded. MR-2 of two
//! copies the one in the newer container counts. MR-3 a shard is loaded only if every key that is
//! expected and not shadowed was found.

use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::base::planted::planted;
use crate::base::sync::Mutex;
use crate::values::locator::LocatorKey;
use crate::values::map::Map;
use crate::values::map::guards::{Guard, Guards};
use crate::values::map::place::{Place, Version};
use crate::values::map::shard::Image;
use crate::values::map::table::{Hashing, Table};

/// Keys expected in one shard.
struct Part {
    table: Table<Version>,
    /// Keys whose record nobody has offered.
    missing: usize,
}

/// A map in the making.
pub(crate) struct Rebuild {
    parts: Vec<Mutex<Option<Part>>>,
    hashing: Hashing,
    guards: Guards,
}

impl Rebuild {
    /// For a map, of whose shards none has to be waiting.
    pub(crate) fn new(map: &Map) -> Self {
        let (shape, hashing) = (map.settings.shape, map.hashing);
        let part = |_| Mutex::new(Some(Part { table: Table::new(shape, hashing), missing: 0 }));
        let parts = (0..map.shards()).map(part).collect();
        Self { parts, hashing, guards: map.settings.guards }
    }

    /// The newest base of a key in the index is bare, and has this seq.
    pub(crate) fn expect(&self, key: &LocatorKey<'_>, seq: Seq) {
        let Some(part) = self.parts.get(self.hashing.shard(key.hash)) else { return };
        let mut part = part.lock();
        let Some(Part { table, missing }) = &mut *part else { return };
        debug_assert!(table.find(key).is_none(), "a key has one newest base");
        table.insert(key, &Version { seq, place: Place::UNKNOWN });
        *missing += 1;
    }

    /// The log that was replayed has a put or delete of a key: what the index has of it nobody sees
    /// any more. After the key was expected, if it was.
    pub(crate) fn shadow(&self, key: &LocatorKey<'_>) {
        let Some(part) = self.parts.get(self.hashing.shard(key.hash)) else { return };
        let mut part = part.lock();
        let Some(Part { table, missing }) = &mut *part else { return };
        let version = table.remove(key, |_| true);
        *missing -= usize::from(version.is_some_and(|version| version.place == Place::UNKNOWN));
    }

    /// A record of this seq stands at a place; `hash` is that of its keyspace and key. Returns
    /// whether it was expected.
    pub(crate) fn insert_exact(&self, hash: u64, seq: Seq, place: Place) -> bool {
        let Some(part) = self.parts.get(self.hashing.shard(hash)) else { return false };
        let mut part = part.lock();
        let Some(Part { table, missing }) = &mut *part else { return false };
        let is_exact =
            self.guards.hold(Guard::ExactRebuild) && !planted!("map_rebuilt_with_any_version");
        let found = table.change_by_hash(hash, |entry| {
            let Version { seq: expected, place: known } = entry.value;
            let is_newer = known.container < place.container;
            let is_wanted = expected == seq || !is_exact;
            (is_wanted && is_newer).then_some(Version { seq, place })
        });
        *missing -= usize::from(found.is_some_and(|before| before.place == Place::UNKNOWN));
        found.is_some()
    }

    /// Leaves out the keys whose record nobody has offered, and says how many there are. Either
    /// nobody sees them any more (see above), and the log's replay is what shadows them; or a get
    /// finds that the index has a bare entry which the map does not know.
    pub(crate) fn leave_out_missing(&self) -> u64 {
        let mut left_out = 0;
        for part in &self.parts {
            let mut part = part.lock();
            let Some(Part { table, missing }) = &mut *part else { continue };
            left_out += std::mem::take(missing) as u64;
            table.retain(|_, version| version.place != Place::UNKNOWN);
        }
        left_out
    }

    /// Ends the wait of a shard, unless that is over; an error if a key was not found.
    pub(crate) fn load_shard(&self, map: &Map, number: usize) -> Result<bool> {
        let Some(part) = self.parts.get(number) else { return Ok(false) };
        let mut part = part.lock();
        if let Some(Part { missing, .. }) = &*part
            && *missing > 0
        {
            let message = format!("{missing} keys of the index have no record in any value file");
            return Err(Error::corruption(message));
        }
        let Some(Part { table, .. }) = part.take() else { return Ok(false) };
        Ok(map.load_shard(number, Image { generation: map.opened, table }))
    }
}

#[cfg(test)]
mod tests;
