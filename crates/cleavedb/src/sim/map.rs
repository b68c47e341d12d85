//! The exact map alone, for the test of its bytes and the bench of its speed.

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId};
use crate::values::locator::{Generation, LocatorKey};
use crate::values::map::place::{Place, Snapshots, Version};
use crate::values::map::{Answer, Flushed, Map, Settings, Touched};

/// Longest key that is made.
const KEY_BYTES_MAX: usize = 256;

/// Keys of numbers in a map.
pub struct MapProbe {
    map: Map,
    hash: KeyedHash,
    key_bytes: usize,
}

/// Where the record of the n-th key stands: 60,000 records of 1 KiB to a container.
fn place(number: u64, version: u64) -> Place {
    let container = FileId(1 + number / 60_000 + version * 1000);
    Place { container, file: container, offset: 120 + number % 60_000 * 1058, bytes: 1058 }
}

impl MapProbe {
    /// An empty map of this budget; keys are so long, 8 to 256 bytes.
    #[must_use]
    pub fn new(bytes_max: u64, key_bytes: usize) -> Self {
        assert!((8..=KEY_BYTES_MAX).contains(&key_bytes), "{key_bytes} bytes a key");
        let hash = KeyedHash::new(b"a map by itself.");
        let map = Map::new(Settings::for_budget(bytes_max), hash, Generation(0));
        Self { map, hash, key_bytes }
    }

    fn with_key<T>(&self, number: u64, run: impl FnOnce(&LocatorKey<'_>) -> T) -> T {
        let mut name = [b'k'; KEY_BYTES_MAX];
        if let Some(last) = name.get_mut(self.key_bytes - 8..self.key_bytes) {
            last.copy_from_slice(&number.to_be_bytes());
        }
        let (keyspace, key) = (KeyspaceId(1), name.get(..self.key_bytes).unwrap_or_default());
        run(&LocatorKey { keyspace, key, hash: self.hash.hash(keyspace, key) })
    }

    /// Flushes the keys of these numbers, as new ones or as later versions; returns how many the
    /// map had room for. `snapshot` is live.
    pub fn flush(&self, numbers: std::ops::Range<u64>, version: u64, snapshot: Option<u64>) -> u64 {
        let snapshots = Snapshots::new(Vec::from_iter(snapshot));
        let mut touches = self.map.begin_flush(snapshots);
        let (mut replaced, mut taken) = (Vec::new(), 0);
        for number in numbers {
            let seq = (version << 32) + number + 1;
            let versions = [Flushed { seq, place: Some(place(number, version)) }];
            let touched = self.with_key(number, |key| touches.touch(key, &versions, &mut replaced));
            taken += u64::from(touched == Touched::Taken);
            replaced.clear();
        }
        touches.publish(Generation(1));
        taken
    }

    /// Removes the keys of these numbers.
    pub fn remove(&self, numbers: std::ops::Range<u64>) {
        let mut touches = self.map.begin_flush(Snapshots::default());
        let mut replaced = Vec::new();
        for number in numbers {
            let versions = [Flushed { seq: 1 << 50, place: None }];
            let touched = self.with_key(number, |key| touches.touch(key, &versions, &mut replaced));
            debug_assert_eq!(touched, Touched::Taken);
            replaced.clear();
        }
        touches.publish(Generation(1));
    }

    /// Drops what no snapshot needs.
    pub fn prune(&self) {
        self.map.prune_chains(&Snapshots::default());
    }

    /// Whether the map names the place of a key's version to a snapshot.
    #[must_use]
    #[inline]
    pub fn finds(&self, number: u64, version: u64, snapshot: u64) -> bool {
        let wanted = Version { seq: (version << 32) + number + 1, place: place(number, version) };
        self.with_key(number, |key| self.map.lookup(key, snapshot)) == Answer::Found(wanted)
    }

    /// Keys, and bytes that the map counts.
    #[must_use]
    pub fn figures(&self) -> (u64, u64) {
        let figures = self.map.figures();
        (figures.keys, figures.bytes)
    }
}
