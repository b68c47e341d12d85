//! The compact locator alone, for the test of its bytes and the bench of its speed.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId};
use crate::values::locator::place::Place;
use crate::values::locator::{Generation, Locator, LocatorKey, Settings};

/// Keys of numbers in a locator without bound.
pub struct LocatorProbe {
    locator: Locator,
    hash: KeyedHash,
}

/// Where the record of the n-th key stands: 60 records of 1 KiB to a container.
fn place(number: u64, version: u64) -> Option<Place> {
    Place::of(FileId(1 + number / 60_000 + version * 1000), 120 + number % 60_000 * 1058, 1058)
}

impl LocatorProbe {
    /// An empty locator.
    #[must_use]
    pub fn new() -> Self {
        let settings = Settings::for_budget(1 << 40);
        let hash = KeyedHash::new(b"a locator alone.");
        Self { locator: Locator::new(settings, Generation(0)), hash }
    }

    /// Flushes the keys of these numbers: as new ones, or as later versions.
    pub fn flush(&self, numbers: std::ops::Range<u64>, version: u64) {
        let mut touches = self.locator.begin_flush(None);
        let mut replaced = Vec::new();
        for number in numbers {
            let name = number.to_be_bytes();
            let hash = self.hash.hash(KeyspaceId(1), &name);
            let key = LocatorKey { keyspace: KeyspaceId(1), key: &name, hash };
            touches.touch(&key, place(number, version), number + 1, &mut replaced);
            replaced.clear();
        }
        touches.publish(Generation(1));
    }

    /// Removes the keys of these numbers.
    pub fn remove(&self, numbers: std::ops::Range<u64>) {
        let mut touches = self.locator.begin_flush(None);
        let mut replaced = Vec::new();
        for number in numbers {
            let name = number.to_be_bytes();
            let hash = self.hash.hash(KeyspaceId(1), &name);
            let key = LocatorKey { keyspace: KeyspaceId(1), key: &name, hash };
            touches.touch(&key, None, number + 1, &mut replaced);
            replaced.clear();
        }
        touches.publish(Generation(1));
    }

    /// Candidates of a key.
    #[must_use]
    #[inline]
    pub fn lookup(&self, number: u64) -> usize {
        let name = number.to_be_bytes();
        let hash = self.hash.hash(KeyspaceId(1), &name);
        let key = LocatorKey { keyspace: KeyspaceId(1), key: &name, hash };
        self.locator.lookup(&key).iter().count()
    }

    /// Whether the place of a key's version is among its candidates.
    #[must_use]
    pub fn finds(&self, number: u64, version: u64) -> bool {
        let name = number.to_be_bytes();
        let hash = self.hash.hash(KeyspaceId(1), &name);
        let key = LocatorKey { keyspace: KeyspaceId(1), key: &name, hash };
        self.locator.lookup(&key).iter().any(|found| Some(found) == place(number, version))
    }

    /// Entries, and bytes that the locator counts.
    #[must_use]
    pub fn figures(&self) -> (u64, u64) {
        let figures = self.locator.figures();
        (figures.entries, figures.bytes)
    }
}

impl Default for LocatorProbe {
    fn default() -> Self {
        Self::new()
    }
}
