//! What a flush or a compaction tells the table in memory that the strategy has beside the index:
//! the locator, or the map.

use std::collections::BTreeSet;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::engine::Engine;
use crate::engine::locate::edit::LocatorEdit;
use crate::engine::locate::touching::{FlushedKey, LocatorTouching};
use crate::engine::mapping::touching::MapTouching;
use crate::engine::view::Frozen;
use crate::index::Dead;
use crate::memory::memtable::Memtable;
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::map::{Map, Moves};

/// The touches of one flush or compaction.
#[derive(Clone)]
pub(crate) enum Touching {
    /// Those of a locator.
    Locator(Arc<LocatorTouching>),
    /// Those of a map.
    Map(Arc<MapTouching>),
}

impl Touching {
    /// Whether it is to hear of every version that a flush judges.
    pub(crate) fn wants_versions(&self) -> bool {
        matches!(self, Self::Locator(_))
    }

    /// A key of the memtable, all of whose versions have been judged.
    pub(crate) fn touch(&self, keyspace: KeyspaceId, key: &[u8], flushed: &FlushedKey) {
        if let Self::Locator(touching) = self {
            touching.touch(keyspace, key, flushed);
        }
    }

    /// A range delete kills the newest entry of a key.
    pub(crate) fn take_out(&self, keyspace: KeyspaceId, dead: &Dead<'_>) {
        match self {
            Self::Locator(touching) => touching.take_out(keyspace, dead.key),
            Self::Map(touching) => touching.forget(keyspace, dead),
        }
    }

    /// Whether a separated version that is flushed goes bare into the index.
    pub(crate) fn is_bare(&self, keyspace: KeyspaceId, key: &[u8], handle: &Handle) -> bool {
        match self {
            Self::Locator(_) => false,
            Self::Map(touching) => touching.is_bare(keyspace, key, handle),
        }
    }

    /// So many separated entries of the index die, and so many bare ones.
    pub(crate) fn met_dead(&self, separated: u64, bare: u64) {
        match self {
            Self::Locator(touching) => touching.met_dead(separated),
            Self::Map(touching) => touching.met_dead(bare),
        }
    }

    /// A record of a file does not reach the index.
    pub(crate) fn hidden(&self, file: FileId) {
        if let Self::Locator(touching) = self {
            touching.hidden(file);
        }
    }

    /// Bytes of records that nothing names any more, since the last call.
    pub(crate) fn take_bytes_died(&self) -> u64 {
        match self {
            Self::Locator(_) => 0,
            Self::Map(touching) => touching.take_bytes_died(),
        }
    }

    /// The sections for the edit, where anything was touched.
    pub(crate) fn sections(&self, files: &ValueFiles) -> Vec<Section> {
        match self {
            Self::Locator(touching) => touching.sections(files),
            Self::Map(touching) => touching.sections(),
        }
    }

    /// The edit is durable and published.
    pub(crate) fn publish(&self, files: &ValueFiles) {
        match self {
            Self::Locator(touching) => touching.publish(files),
            Self::Map(touching) => touching.publish(),
        }
    }
}

impl Engine {
    /// The touches of a flush at these snapshots, where there is something to tell.
    pub(crate) fn touching_of_flush(
        &self,
        frozen: &Frozen,
        snapshots: &[Seq],
    ) -> Result<Option<Touching>> {
        let Some(mapping) = &self.mapping else {
            return Ok(self.touching_of_locator(snapshots));
        };
        let mut keyspaces = frozen.table.keyspaces();
        let catalogue = self.catalogue.lock();
        keyspaces.retain(|&id| catalogue.numbered(id).is_some());
        drop(catalogue);
        let (values, strategy) = (&self.value_context, &*self.strategy);
        MapTouching::of_flush(mapping, values, snapshots, strategy, &frozen.table, &keyspaces)
            .map(|touching| Some(Touching::Map(touching)))
    }

    /// The touches of a compaction at these snapshots, where there is something to tell.
    pub(crate) fn touching_of_compaction(&self, snapshots: &[Seq]) -> Option<Touching> {
        match &self.mapping {
            Some(mapping) => {
                let touching = MapTouching::of_compaction(mapping, &self.value_context);
                Some(Touching::Map(touching))
            }
            None => self.touching_of_locator(snapshots),
        }
    }

    /// The map moves or forgets something with the edit of these sections: before that edit (MO-5).
    /// To be published after it, whatever came of it.
    pub(crate) fn begin_moves(&self, sections: &mut Vec<Section>) -> Option<Moves<Arc<Map>>> {
        let mapping = self.mapping.as_ref()?;
        sections.push(LocatorEdit::Touched.encode());
        Moves::begin(Arc::clone(&mapping.map))
    }

    /// Forgets what the map has of those keyspaces of a memtable that are not there (any more): a
    /// drop may have come while it was touched, or between two attempts at its flush.
    pub(crate) fn forget_dropped_of(&self, table: &Memtable) {
        let Some(mapping) = &self.mapping else { return };
        let mut gone = table.keyspaces();
        {
            let catalogue = self.catalogue.lock();
            gone.retain(|&id| catalogue.numbered(id).is_none());
        }
        if !gone.is_empty() {
            mapping.forget_keyspaces(&|id| gone.contains(&id));
        }
    }

    /// Forgets what the map has of keyspaces that are not there (any more).
    pub(crate) fn forget_dropped_in_map(&self) {
        let Some(mapping) = &self.mapping else { return };
        let there: BTreeSet<KeyspaceId> =
            self.catalogue.lock().all().map(|keyspace| keyspace.id).collect();
        mapping.forget_keyspaces(&|id| !there.contains(&id));
    }

    fn touching_of_locator(&self, snapshots: &[Seq]) -> Option<Touching> {
        let locating = self.locating.as_ref().filter(|locating| locating.has_values())?;
        let hash = KeyedHash::new(&self.uuid);
        let touching = LocatorTouching::begin(locating, &self.value_context, snapshots, hash);
        Some(Touching::Locator(touching))
    }
}
