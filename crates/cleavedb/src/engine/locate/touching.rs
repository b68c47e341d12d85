//! What a flush, or a compaction, tells the locator, and what it learns from it.
//!
//! Owned by one flush or compaction and shared by its listeners. Invariants: TO-1 every key of a
//! flushed memtable is touched, with the place of its newest version, or with none where that is
//! not a separated put (rule R14): so what is found for a key that has one is its newest, and no
//! operand stands above it. TO-2 what a touch has replaced is superseded: a fact says so of the
//! container it stood in, and goes into the flush's own edit (rules R2 and R6). TO-3 a compaction
//! takes out the keys whose newest entry a range delete kills, before its edit is published:
//! afterwards nothing may be left that covers them.

use std::collections::BTreeMap;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::marks::mark;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::{Arc, Mutex};
use crate::engine::locate::Locating;
use crate::engine::locate::edit::LocatorEdit;
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::cache::cache_place;
use crate::values::drops::batch::FactBatch;
use crate::values::file::ValueContext;
use crate::values::file_table::ValueFiles;
use crate::values::locator::place::Place;
use crate::values::locator::{FlushTouches, Locator};

/// What a memtable has of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlushedKey {
    /// Where the newest version stands, if it is a separated put that lives.
    pub(crate) place: Option<Place>,
    /// Smallest seq of any version.
    pub(crate) smallest: Seq,
    /// Smallest seq of a put or a delete: a merge supersedes nothing.
    pub(crate) superseding: Option<Seq>,
}

/// The touches of one flush or compaction.
pub(crate) struct LocatorTouching {
    locating: Arc<Locating>,
    values: Arc<ValueContext>,
    state: Mutex<State>,
}

struct State {
    touches: Option<FlushTouches<Arc<Locator>>>,
    /// What the latest touch replaced.
    replaced: Vec<Place>,
    /// Facts by container.
    facts: FactBatch,
    held: HeldMemory,
    /// Records by container.
    superseded: BTreeMap<FileId, u64>,
    touched: u64,
    /// Separated records that were flushed.
    separated: u64,
}

impl LocatorTouching {
    /// Begins touches. The memtable was frozen before the snapshots were listed (rule R4).
    pub(crate) fn begin(
        locating: &Arc<Locating>,
        values: &Arc<ValueContext>,
        snapshots: &[Seq],
        hash: KeyedHash,
    ) -> Arc<Self> {
        let locator = Arc::clone(&locating.locator);
        let state = State {
            touches: Some(FlushTouches::begin(locator, snapshots.first().copied())),
            replaced: Vec::new(),
            facts: FactBatch::new(hash),
            held: HeldMemory::new(&values.io.meter, Purpose::Compaction),
            superseded: BTreeMap::new(),
            touched: 0,
            separated: 0,
        };
        let (locating, values) = (Arc::clone(locating), Arc::clone(values));
        Arc::new(Self { locating, values, state: Mutex::new(state) })
    }

    /// A key of the memtable.
    pub(crate) fn touch(&self, keyspace: KeyspaceId, key: &[u8], flushed: &FlushedKey) {
        let FlushedKey { place, smallest, superseding } = *flushed;
        let located = self.locating.key(keyspace, key);
        let mut guard = self.state.lock();
        if place.is_none() && planted!("locator_removal_not_touched") {
            return;
        }
        let State { touches, replaced, facts, held, superseded, touched, separated } = &mut *guard;
        let Some(touches) = touches else { return };
        *touched += 1;
        *separated += u64::from(place.is_some());
        touches.touch(&located, place, smallest, replaced);
        for place in replaced.drain(..) {
            let Some(superseding) = superseding else { continue };
            mark!("locator_touch_replaced");
            self.values.cache.forget(cache_place(place.container(), place.offset()));
            facts.add(place.container(), keyspace, key, superseding);
            *superseded.entry(place.container()).or_default() += 1;
            held.set(facts.memory_bytes() as u64);
        }
    }

    /// A range delete kills the newest entry of a key (TO-3).
    pub(crate) fn take_out(&self, keyspace: KeyspaceId, key: &[u8]) {
        let located = self.locating.key(keyspace, key);
        let mut guard = self.state.lock();
        let State { touches, replaced, touched, .. } = &mut *guard;
        let Some(touches) = touches else { return };
        mark!("locator_entry_range_deleted");
        *touched += 1;
        touches.touch(&located, None, 1, replaced);
        replaced.clear();
    }

    /// So many separated entries of the index die.
    pub(crate) fn met_dead(&self, entries: u64) {
        self.locating.met_dead(entries);
    }

    /// A record of a file does not reach the index.
    pub(crate) fn hidden(&self, file: FileId) {
        let mut state = self.state.lock();
        *state.superseded.entry(file).or_default() += 1;
        state.separated += 1;
    }

    /// The sections for the edit, where anything was touched.
    pub(crate) fn sections(&self, files: &ValueFiles) -> Vec<Section> {
        let mut state = self.state.lock();
        if state.touched == 0 {
            return Vec::new();
        }
        let mut sections = vec![LocatorEdit::Touched.encode()];
        let hash = state.facts.hash();
        let mut facts = std::mem::replace(&mut state.facts, FactBatch::new(hash));
        facts.rename(|container| file_in(files, container));
        sections.extend(facts.encode());
        sections
    }

    /// The edit is durable and published.
    pub(crate) fn publish(&self, files: &ValueFiles) {
        let mut state = self.state.lock();
        let Some(touches) = state.touches.take() else { return };
        touches.publish(self.locating.generation());
        let superseded = std::mem::take(&mut state.superseded);
        self.locating.superseding.learn(state.separated, superseded.values().sum());
        drop(state);
        let of_file = |(container, records)| Some((file_in(files, container)?, records));
        self.locating.count_superseded(&superseded.into_iter().filter_map(of_file).collect());
    }
}

/// Any one file of a container, or the file itself where it has been rewritten meanwhile; `None`
/// where it is gone (rule R2).
fn file_in(files: &ValueFiles, container: FileId) -> Option<FileId> {
    if files.has_file(container) {
        return Some(container);
    }
    files.files_in(container).next().map(|file| file.id)
}
