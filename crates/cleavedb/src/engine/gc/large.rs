//! Large values that are superseded, while entries that no view sees still name them.
//!
//! Such a file is wholly live or wholly dead, so nothing of it is ever moved. Compaction finds out
//! in time that nothing names it; until then the index is asked about its key whenever estimates
//! are made anew. A file that is dead waits for its removal like one that was collected (GC2, GC3).

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::marks::mark;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::gc::newest::Moment;
use crate::engine::view::View;
use crate::values::edit::LargeInfo;
use crate::values::file_table::LargeEntry;
use crate::values::handle::Handle;
use crate::values::large::reader::read_header;
use crate::values::strategy::{Liveness, RecordPlace};

impl Engine {
    /// Looks at all large values that no collection has found dead yet.
    pub(super) fn retire_dead_large(&self, view: &View) -> Result<()> {
        let (flushed, taken) = (self.flushed(), self.gc.taken());
        let mut dead = Vec::new();
        for entry in view.values.large().filter(|entry| entry.refs > 0) {
            let id = entry.file.id();
            let Some(info) = entry.info.filter(|_| entry.is_settled(flushed)) else { continue };
            if taken.contains(&id) {
                continue;
            }
            match self.is_superseded(entry, info) {
                Ok(true) => dead.push(id),
                Ok(false) => {}
                Err(error) => self.settle_collection(id, error)?,
            }
        }
        self.retire_large(&dead)
    }

    /// Bytes of the files of large values that are live, as far as is known.
    pub(crate) fn live_large_bytes(&self, view: &View) -> u64 {
        let flushed = self.flushed();
        let known = self.gc.state.lock();
        let is_waiting = |entry: &LargeEntry| known.retiring.contains_key(&entry.file.id());
        let live = view.values.large().filter(|&e| !e.is_dead(flushed) && !is_waiting(e));
        live.map(|entry| entry.file.readable()).sum()
    }

    fn is_superseded(&self, entry: &LargeEntry, info: LargeInfo) -> Result<bool> {
        let (header, _) = read_header(&entry.file, &*entry.file.disk_file()?)?;
        let handle = Handle::of_large(entry.file.id(), info.value_bytes as u32);
        let (keyspace, key, seq) = (header.keyspace, header.key.as_slice(), info.seq);
        let place = RecordPlace { keyspace, key, seq, handle };
        let liveness = self.asks_index()?.liveness(&place, &Moment::now(self))?;
        Ok(liveness == Liveness::Dead)
    }

    /// What superseded them becomes durable before they may go.
    fn retire_large(&self, dead: &[FileId]) -> Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        mark!("large_value_found_dead");
        let barrier = self.visible.load(Ordering::Acquire);
        self.sync_logs()?;
        let mut known = self.gc.state.lock();
        known.retiring.extend(dead.iter().map(|&id| (id, barrier)));
        Ok(())
    }
}
