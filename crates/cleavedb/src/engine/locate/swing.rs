//! Where a collection has put records: the locator learns it once the edit is published.

use crate::base::entry::KeyspaceId;
use crate::base::marks::mark;
use crate::engine::locate::Locating;
use crate::values::locator::place::Place;

/// Records that were moved, for the locator. Bounded: what is left out is found by way of the
/// index, and comes back with the next read.
#[derive(Debug)]
pub(crate) struct Moved {
    bytes_max: usize,
    keys: Vec<u8>,
    records: Vec<MovedRecord>,
}

#[derive(Clone, Copy, Debug)]
struct MovedRecord {
    keyspace: KeyspaceId,
    /// Where its key ends, which begins where the one before ends.
    key_end: usize,
    from: Place,
    to: Option<Place>,
}

impl Moved {
    /// At most so many bytes of them.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, keys: Vec::new(), records: Vec::new() }
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
        if self.memory_bytes() + key.len() + size_of::<MovedRecord>() > self.bytes_max {
            return;
        }
        self.keys.extend_from_slice(key);
        self.records.push(MovedRecord { keyspace, key_end: self.keys.len(), from, to });
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() + self.records.capacity() * size_of::<MovedRecord>()
    }

    /// Tells the locator (rule R17).
    pub(crate) fn swing(&self, locating: &Locating) {
        let mut start = 0;
        for record in &self.records {
            let key = self.keys.get(start..record.key_end).unwrap_or_default();
            start = record.key_end;
            let key = locating.key(record.keyspace, key);
            if locating.locator.swing(&key, &record.from, record.to) {
                mark!("locator_swung");
            }
        }
    }
}
