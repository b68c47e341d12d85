//! Value files that nobody needs any more.

use std::collections::BTreeSet;

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::engine::Engine;
use crate::engine::state::{Draft, Publication};
use crate::values::edit::ValuesEdit;
use crate::values::file_table::{TableEntry, ValueFiles};

impl Engine {
    /// Removes value files that no index entry names and that hold nothing unflushed (rule R8). The
    /// newest segment stays: what a crash left newer than all that the manifest names was begun,
    /// and named, after it, so its edit must have been lost.
    pub(crate) fn remove_dead_value_files(&self) -> Result<bool> {
        let dead = self.dead_value_files(&self.view.load().values);
        if dead.is_empty() {
            return Ok(false);
        }
        let freed: u64 = {
            let view = self.view.load();
            let segments = dead.iter().filter_map(|&id| view.values.get(id));
            let large = dead.iter().filter_map(|&id| view.values.get_large(id)?.info);
            let segments: u64 = segments.map(|entry| entry.file.disk_bytes()).sum();
            let containers = view.values.containers().filter(|entry| {
                let mut files = view.values.files_in(entry.container.id());
                files.any(|file| dead.contains(&file.id))
            });
            let containers: u64 = containers.map(|entry| entry.container.sealed().bytes).sum();
            segments + containers + large.map(|info| info.sealed.bytes).sum::<u64>()
        };
        let edits: Vec<_> = dead.iter().map(|&id| ValuesEdit::Removed { id }).collect();
        // Housekeeping may run twice at a time, and a rewrite may have put some of them into a
        // container with others since: that goes with all of its files, in the next turn.
        let is_unchanged = || {
            let view = self.view.load();
            let now = self.dead_value_files(&view.values);
            dead.is_subset(&now) && view.values.takes_whole_containers(&dead)
        };
        let sections = vec![ValuesEdit::encode(&edits)];
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        let is_done = self.commit_draft(draft, |_| Ok(Publication::default()))?;
        if is_done {
            mark!("gc_removed_dead_unread");
            self.metrics.collection.removed(dead.len() as u64, freed);
            tracing::info!(files = dead.len(), reason = "no entry names it", "value files removed");
        }
        Ok(is_done)
    }

    fn dead_value_files(&self, values: &ValueFiles) -> BTreeSet<FileId> {
        let flushed = self.flushed();
        let mut older = values.iter();
        older.next_back();
        let is_dead =
            |entry: &&TableEntry| entry.state.is_dead(flushed) && !self.is_mapped(entry.file.id());
        let dead = older.filter(is_dead);
        let large = values.large().filter(|entry| entry.is_dead(flushed));
        // Those of a container all together: its records go only with it.
        let is_dead = |id: FileId| values.refs_in(id).0 == 0 && !self.is_mapped(id);
        let containers = values.containers().map(|entry| entry.container.id());
        let moved = containers.filter(|&id| is_dead(id)).flat_map(|id| values.files_in(id));
        let dead = dead.map(|entry| entry.file.id()).chain(large.map(|entry| entry.file.id()));
        dead.chain(moved.map(|file| file.id)).collect()
    }
}
