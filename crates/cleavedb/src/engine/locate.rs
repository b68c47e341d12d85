//! The locator at work: what flushes and compactions tell it, what gets ask it, and what becomes of
//! it between two openings. There is one where the strategy says so; without it everything is as
//! right, and slower.
//!
//! The duties of the locator's callers (its LO-1 to LO-5) are kept here: a flush touches every key
//! of its memtable while its tables are written (`touching`), a get takes its note before its view
//! (`search`), and whatever touches says so in its edit (`edit`).

use std::collections::BTreeMap;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId};
use crate::base::striped::Counter;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex, figures};
use crate::base::widths::Widths;
use crate::engine::described::Described;
use crate::engine::settings::Settings;
use crate::engine::superseding::SupersedingShare;
use crate::values::drops::directory::Facts;
use crate::values::file_table::ValueFiles;
use crate::values::locator::table::Shape;
use crate::values::locator::{Figures, Generation, Locator, LocatorKey, Settings as Sizes};

pub(crate) mod edit;
pub(crate) mod saved;
pub(crate) mod search;
pub(crate) mod streak;
pub(crate) mod swing;
pub(crate) mod touching;

/// The part of the memory budget that a locator may take: at 9 bytes a key, that is one for each
/// 36 bytes of the budget.
const BUDGET_PART: u64 = 4;

/// The bytes that a locator may take of a memory budget.
pub(crate) fn bytes_max(memory_budget: u64) -> u64 {
    memory_budget / BUDGET_PART
}

/// Sizes of the locator of a database with this budget.
fn sizes(memory_budget: u64, widths: &Widths) -> Sizes {
    let fingerprint_bits = widths.locator_fingerprint_bits;
    let floor_bits = Shape::USUAL.floor_bits.min(fingerprint_bits);
    Sizes {
        shape: Shape { fingerprint_bits, floor_bits, ..Shape::USUAL },
        window_bits: widths.locator_window_bits,
        ..Sizes::for_shards(bytes_max(memory_budget), widths.locator_shard_bits)
    }
}

/// The locator of an open database.
pub(crate) struct Locating {
    /// The table.
    pub(crate) locator: Arc<Locator>,
    hash: KeyedHash,
    /// Edits with touches; changes under the manifest lock.
    generation: AtomicU64,
    /// Whether there ever was a value file since the database was opened. Without any there is
    /// nothing to find and nothing to touch, and no price to pay: what an index or a memtable has
    /// of separated entries came after the edit that added their file.
    has_values: AtomicBool,
    /// Records of each file that flushes have superseded, or kept out of the index, since they
    /// were last collected. For choosing victims only; after an opening it begins with the facts
    /// that there are.
    superseded: Mutex<BTreeMap<FileId, u64>>,
    /// What is not flushed is taken to supersede as much.
    pub(crate) superseding: SupersedingShare,
    /// Index entries that name files which were removed as a whole, at least as many as are left.
    dangling: figures::AtomicU64,
    /// Gets that it served.
    pub(crate) hits: Counter,
    /// Gets that it had to leave to the index.
    pub(crate) misses: Counter,
}

impl Locating {
    /// The locator of a database that is being opened, where it is to have one: who only reads
    /// does as well without.
    pub(crate) fn open(
        settings: &Settings,
        widths: &Widths,
        uuid: &[u8; 16],
        state: &Described,
        (values, facts): (&ValueFiles, &Facts),
    ) -> Option<Arc<Self>> {
        if settings.read_only || !state.strategy.strategy().locates() {
            return None;
        }
        let sizes = sizes(settings.memory_budget, widths);
        let saved =
            state.locator.as_ref().filter(|saved| saved.shards.len() == 1 << sizes.shard_bits);
        let generation = saved.map_or(Generation(0), |saved| saved.generation);
        let locator = match saved {
            Some(_) => Locator::restored(sizes, generation),
            None => Locator::new(sizes, generation),
        };
        let superseded = facts.counts();
        Some(Arc::new(Self {
            locator: Arc::new(locator),
            hash: KeyedHash::new(uuid),
            generation: AtomicU64::new(generation.0),
            has_values: AtomicBool::new(!values.is_empty()),
            superseding: SupersedingShare::new(),
            superseded: Mutex::new(superseded),
            dangling: figures::AtomicU64::new(0),
            hits: Counter::default(),
            misses: Counter::default(),
        }))
    }

    /// The table of value files is this from here on; told before anybody else.
    pub(crate) fn note_values(&self, values: &ValueFiles) {
        if !values.is_empty() {
            self.has_values.store(true, Ordering::Release);
        }
    }

    /// Whether there is something to find.
    #[inline]
    pub(crate) fn has_values(&self) -> bool {
        self.has_values.load(Ordering::Acquire)
    }

    /// A key as the locator takes it.
    pub(crate) fn key<'a>(&self, keyspace: KeyspaceId, key: &'a [u8]) -> LocatorKey<'a> {
        LocatorKey { keyspace, key, hash: self.hash.hash(keyspace, key) }
    }

    /// The generation now. Exact under the manifest lock.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// An edit with touches is durable. Under the manifest lock.
    fn raise_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Records of these files are superseded.
    pub(crate) fn count_superseded(&self, records: &BTreeMap<FileId, u64>) {
        let mut superseded = self.superseded.lock();
        for (file, records) in records {
            *superseded.entry(*file).or_default() += records;
        }
    }

    /// Superseded records of a file, as far as is known.
    pub(crate) fn superseded_in(&self, file: FileId) -> u64 {
        self.superseded.lock().get(&file).copied().unwrap_or(0)
    }

    /// What was superseded of these files has been collected.
    pub(crate) fn collected(&self, records: &BTreeMap<FileId, u64>) {
        let mut superseded = self.superseded.lock();
        for (file, records) in records {
            if let Some(left) = superseded.get_mut(file) {
                *left = left.saturating_sub(*records);
            }
        }
    }

    /// So many index entries name files that are gone now.
    pub(crate) fn left_dangling(&self, entries: u64) {
        self.dangling.fetch_add(entries, figures::Ordering::Relaxed);
    }

    /// Compaction has met so many separated entries that die: those that dangle may be among them.
    pub(crate) fn met_dead(&self, entries: u64) {
        let less = |dangling: u64| Some(dangling.saturating_sub(entries));
        let relaxed = figures::Ordering::Relaxed;
        // It always returns a number.
        let _ = self.dangling.fetch_update(relaxed, relaxed, less);
    }

    /// Index entries that may name files which are gone.
    pub(crate) fn dangling(&self) -> u64 {
        self.dangling.load(figures::Ordering::Relaxed)
    }

    /// Forgets files that are gone.
    pub(crate) fn retain(&self, files: &ValueFiles) {
        self.superseded.lock().retain(|file, _| files.has_file(*file));
    }

    /// What the locator holds and has done.
    pub(crate) fn figures(&self) -> Figures {
        self.locator.figures()
    }
}
