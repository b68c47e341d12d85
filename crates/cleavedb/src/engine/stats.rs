//! Memory by part, and disk bytes.

use std::collections::BTreeMap;

use crate::base::names::{FileKind, parse_file_name};
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;

impl Engine {
    /// Bytes of memory by part, with "total" and "budget".
    pub(crate) fn memory_usage(&self) -> BTreeMap<String, u64> {
        let view = self.view.load();
        let memtables = view.memtables().map(|table| table.memory_bytes()).sum();
        let mut parts: BTreeMap<String, u64> = [
            ("memtables", memtables),
            ("block_cache", self.blocks.bytes()),
            ("filters_and_indexes", self.tables.memory_bytes()),
            ("iterators", self.metrics.iterator_bytes.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .map(|(part, bytes)| (part.to_owned(), bytes))
        .collect();
        let total = parts.values().sum();
        parts.insert("total".to_owned(), total);
        parts.insert("budget".to_owned(), self.settings.memory_budget);
        parts
    }

    /// Bytes of all files of the database, the reserve left out; 0 where the directory cannot be
    /// listed.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let entries = self.io.disk.read_dir(&self.dir).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                parse_file_name(&entry.name).is_some_and(|(kind, _)| kind != FileKind::Reserve)
            })
            .map(|entry| entry.len)
            .sum()
    }
}
