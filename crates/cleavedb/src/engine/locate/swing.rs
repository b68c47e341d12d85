//! Where records have been put: the locator learns it once the edit is published.
//!
//! Owned by one thread at a time. Records come mostly in the order of their keys and of their new
//! places, so each is written as what differs from the one before: some 15 bytes at keys of 16.

use crate::base::codec::{Reader, put_signed};
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::engine::locate::Locating;
use crate::engine::moved_key::MovedKey;
use crate::values::cache::{ValueCache, cache_place};
use crate::values::locator::place::Place;

/// Bytes by which the list grows.
const STEP_BYTES: usize = 256 << 10;

/// Bytes of a record besides its key, at most.
const RECORD_BYTES_MAX: usize = 64;

/// Records that were moved, for the locator. Bounded: what is left out is found by way of the
/// index, and comes back with the next read.
#[derive(Debug)]
pub(crate) struct Moved {
    bytes_max: usize,
    bytes: Vec<u8>,
    last: Last,
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
    unit: u32,
}

impl Moved {
    /// At most so many bytes of them.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: Vec::new(), last: Last::default() }
    }

    /// A record is at another place from the edit on; nowhere that an entry can name, if that is
    /// not known.
    pub(crate) fn note(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        from: Option<Place>,
        to: Option<Place>,
    ) {
        let Some(from) = from else { return };
        let bytes = key.len() + RECORD_BYTES_MAX;
        if self.bytes.len() + bytes > self.bytes_max {
            return;
        }
        if self.bytes.capacity() - self.bytes.len() < bytes {
            let room = self.bytes_max - self.bytes.len();
            self.bytes.reserve_exact(bytes.max(STEP_BYTES.min(room)));
        }
        let Self { bytes, last, .. } = self;
        last.key.put(bytes, keyspace, key);
        last.from.put(bytes, Some(&from));
        last.to.put(bytes, to.as_ref());
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.last.key.memory_bytes()
    }

    /// Tells the locator (rule R17), and the cache where that knows the new place.
    pub(crate) fn swing(&self, locating: &Locating, cache: &ValueCache) {
        let outcome = self.each(|keyspace, key, from, to| {
            let key = locating.key(keyspace, key);
            if locating.locator.swing(&key, from, to) {
                mark!("locator_swung");
                let at = |place: &Place| cache_place(place.container(), place.offset());
                to.inspect(|to| cache.moved(at(from), at(to)));
            }
        });
        debug_assert!(outcome.is_ok(), "what was noted can be read: {outcome:?}");
    }

    /// Gives all records, in the order in which they were noted.
    fn each(&self, mut take: impl FnMut(KeyspaceId, &[u8], &Place, Option<Place>)) -> Result<()> {
        let mut rest = Reader::new(&self.bytes);
        let mut last = Last::default();
        while !rest.is_empty() {
            let keyspace = last.key.take(&mut rest)?;
            let from = last.from.take(&mut rest)?;
            let to = last.to.take(&mut rest)?;
            if let Some(from) = from {
                take(keyspace, last.key.key(), &from, to);
            }
        }
        Ok(())
    }
}

impl LastPlace {
    /// A class and one, then what differs; zero: no place.
    fn put(&mut self, bytes: &mut Vec<u8>, place: Option<&Place>) {
        let Some((container, unit, class)) = place.map(Place::parts) else { return bytes.push(0) };
        bytes.push(class + 1);
        put_signed(bytes, container.0.wrapping_sub(self.container).cast_signed());
        put_signed(bytes, i64::from(unit) - i64::from(self.unit));
        *self = Self { container: container.0, unit };
    }

    fn take(&mut self, rest: &mut Reader<'_>) -> Result<Option<Place>> {
        let Some(class) = rest.u8()?.checked_sub(1) else { return Ok(None) };
        let container = self.container.wrapping_add(rest.signed()?.cast_unsigned());
        let unit = (i64::from(self.unit) + rest.signed()?) as u32;
        *self = Self { container, unit };
        Ok(Some(Place::from_parts(FileId(container), unit, class)))
    }
}

#[cfg(test)]
mod tests;
