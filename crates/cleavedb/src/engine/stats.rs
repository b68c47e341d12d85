//! Memory by part, and disk bytes.

use std::collections::BTreeMap;

use crate::base::entry::FileId;
use crate::base::names::{FileKind, parse_file_name};
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::io::Purpose;
use crate::values::file_table::TableEntry;

/// What the files of a database take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskBytes {
    /// Bytes that were written.
    pub(crate) written: u64,
    /// Room that holds nothing yet: zeros ahead of the tails of log and manifest, the reserve.
    pub(crate) set_aside: u64,
}

/// What the value files hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueFigures {
    /// Files.
    pub(crate) files: u64,
    /// Their bytes, without the holes.
    pub(crate) file_bytes: u64,
    /// Bytes of holes in them, those among them that are about to be punched.
    pub(crate) hole_bytes: u64,
    /// Index entries that name records in them.
    pub(crate) entries: u64,
    /// Bytes of the records that are still their keys' values, as far as is known.
    pub(crate) live_bytes: u64,
}

impl Engine {
    /// Figures of the value files.
    pub(crate) fn value_figures(&self) -> ValueFigures {
        let mut figures = ValueFigures::default();
        let (view, flushed) = (self.view.load(), self.flushed());
        for entry in view.values.iter() {
            figures.files += 1;
            let bytes = entry.disk_bytes();
            figures.file_bytes += bytes;
            figures.hole_bytes += entry.file.readable().saturating_sub(bytes);
            figures.entries += entry.state.refs;
            let mapped = self.mapped_bytes(entry.file.id());
            // What is not flushed is in neither.
            let known = self.gc.live_bytes(entry, flushed).saturating_add(mapped);
            figures.live_bytes += known.min(bytes);
        }
        for entry in view.values.containers() {
            figures.files += 1;
            figures.file_bytes += entry.container.sealed().bytes;
            let (refs, ref_bytes) = view.values.refs_in(entry.container.id());
            figures.entries += refs;
            let known = ref_bytes.saturating_add(self.mapped_bytes(entry.container.id()));
            figures.live_bytes += known.min(entry.totals.record_bytes);
        }
        figures
    }

    /// Bytes of the records of a container that the map names.
    fn mapped_bytes(&self, container: FileId) -> u64 {
        let live = self.mapping.as_ref().map(|mapping| mapping.live_in(container));
        live.map_or(0, |live| live.bytes.max(0) as u64)
    }

    /// Bytes of memory by part, with "total" and "budget".
    pub(crate) fn memory_usage(&self) -> BTreeMap<String, u64> {
        let view = self.view.load();
        let memtables = view.memtables().map(|table| table.memory_bytes()).sum();
        let indexes = view.indexes.values().map(|index| index.memory_bytes()).sum();
        let mut parts: BTreeMap<String, u64> = [
            ("memtables", memtables),
            ("indexes", indexes),
            ("block_cache", self.blocks.bytes()),
            ("filters_and_indexes", self.tables.memory_bytes()),
            ("value_tail", self.value_tail_bytes()),
            ("value_table_indexes", self.value_context.table_indexes.memory_bytes()),
            ("facts", self.facts.load().memory_bytes()),
            ("repaired_handles", self.value_context.repairs.memory_bytes()),
            ("cache_history", self.value_context.cache.memory_bytes()),
            ("locator", self.locating.as_ref().map_or(0, |locating| locating.figures().bytes)),
            ("map", self.mapping.as_ref().map_or(0, |mapping| mapping.figures().bytes)),
            ("deltas", self.deltas.memory_bytes()),
            ("iterators", self.iterator_bytes()),
            ("background", self.background_bytes()),
        ]
        .into_iter()
        .map(|(part, bytes)| (part.to_owned(), bytes))
        .collect();
        let total = parts.values().sum();
        parts.insert("total".to_owned(), total);
        parts.insert("budget".to_owned(), self.settings.memory_budget);
        parts
    }

    /// Memory of what the value lane wrote last, and of its open segment's footer.
    pub(crate) fn value_tail_bytes(&self) -> u64 {
        self.value_tail.memory_bytes() as u64 + self.value_lane.memory_bytes()
    }

    /// Memory of the cursors of users, what they have read ahead included.
    pub(crate) fn iterator_bytes(&self) -> u64 {
        let cursors = self.metrics.iterator_bytes.load(Ordering::Relaxed);
        cursors + self.io.meter.bytes_held(Purpose::Read)
    }

    /// Memory of tables in the making and of what compaction and verification have read ahead.
    pub(crate) fn background_bytes(&self) -> u64 {
        let others = Purpose::ALL.into_iter().filter(|purpose| *purpose != Purpose::Read);
        others.map(|purpose| self.io.meter.bytes_held(purpose)).sum()
    }

    /// Bytes of the database's files; zeros where the directory cannot be listed.
    pub(crate) fn disk_bytes(&self) -> DiskBytes {
        let written: BTreeMap<FileId, u64> = self
            .journal
            .segments()
            .into_iter()
            .map(|segment| {
                let bytes = segment.sealed.map(|sealed| sealed.bytes);
                (segment.id, bytes.unwrap_or_else(|| self.journal.segment_bytes()))
            })
            .collect();
        // What is newer than every segment was never begun: it is set aside for the next one.
        let newest = written.keys().max().copied();
        let view = self.view.load();
        let newest_values = FileId(view.newest_value_file());
        let mut total = DiskBytes::default();
        for entry in self.io.disk.read_dir(&self.dir).unwrap_or_default() {
            let Some((kind, id)) = parse_file_name(&entry.name) else { continue };
            let used = match kind {
                FileKind::Reserve => 0,
                FileKind::Journal if Some(id) > newest => 0,
                FileKind::Journal => written.get(&id).copied().unwrap_or(entry.len),
                FileKind::Value if id > newest_values => 0,
                FileKind::Value => match view.values.get(id) {
                    Some(TableEntry { file, .. }) => file.disk_bytes(),
                    None => entry.len,
                },
                FileKind::Manifest => self.manifest_bytes.load(Ordering::Relaxed),
                _ => entry.len,
            };
            let holes = match kind {
                FileKind::Value => view.values.get(id).map_or(0, |e| e.file.given_back_bytes()),
                _ => 0,
            };
            let taken = entry.len.saturating_sub(holes);
            let used = used.min(taken);
            total.written += used;
            total.set_aside += taken - used;
        }
        total
    }
}
