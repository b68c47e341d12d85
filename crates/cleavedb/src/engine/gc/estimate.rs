//! How much of each value file is still live, by samples of their records.
//!
//! A look costs some look-ups a file, so it comes after every tenth part of the value files'
//! bytes written, and once when writing has ceased.

use std::collections::BTreeMap;

use crate::base::entry::FileId;
use crate::base::error::{ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::commit::{Task, Work};
use crate::engine::gc::newest::Moment;
use crate::index::KeyRange;
use crate::io::Purpose;
use crate::log::footer::{Footer, Line};
use crate::log::reader::ReadOptions;
use crate::values::file_table::TableEntry;
use crate::values::sample::Sample;
use crate::values::segment::{read_footer, scan_punched};
use crate::values::strategy::{Liveness, RecordPlace};

/// A new look is due once this part of the value files' bytes has been written.
const LOOK_PART: u64 = 10;

/// Indexes are compacted once this part of their entries names files that are gone: there are about
/// as many tombstones, which go with them.
pub(super) const DANGLING_PART: u64 = 4;

/// What of the newest records, which no collection may touch yet, must be dead for it to be worth
/// while to make them collectable.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadTail {
    /// Percent of their bytes.
    pub(super) percent: u64,
    /// Bytes.
    pub(super) bytes_min: u64,
}

impl Engine {
    /// Looks at the samples anew, if that is due; whether it was because writing has ceased.
    pub(super) fn refresh_estimates(&self) -> Result<bool> {
        let view = self.view.load_full();
        let appended = self.logs.appended_bytes();
        let visible = self.visible.load(Ordering::Acquire);
        let files = view.values.iter().map(|entry| &entry.file);
        let large = view.values.large().map(|entry| &entry.file);
        let all_bytes: u64 = files.chain(large).map(|file| file.disk_bytes()).sum();
        let (look, mut samples) = {
            let mut known = self.gc.state.lock();
            let written = appended.saturating_sub(known.looked_bytes);
            if !known.look && written < all_bytes / LOOK_PART {
                return Ok(false);
            }
            known.refused.retain(|_, error| error.kind() != ErrorKind::Conflict);
            known.looked_bytes = appended;
            known.looked_seq = visible;
            (std::mem::take(&mut known.look), std::mem::take(&mut known.samples))
        };
        let flushed = self.flushed();
        let taken = self.gc.taken();
        let mut kept = BTreeMap::new();
        for entry in view.values.iter().filter(|entry| entry.state.is_settled(flushed)) {
            let id = entry.file.id();
            if taken.contains(&id) {
                continue;
            }
            let known = samples.remove(&id);
            match self.looked_at(entry, known) {
                Ok(sample) => drop(kept.insert(id, sample)),
                // The rest is looked at none the less; what cannot be read is not collected.
                Err(error) => self.settle_collection(id, error)?,
            }
        }
        mark!("gc_estimated");
        self.gc.state.lock().samples = kept;
        self.retire_dead_large(&view)?;
        Ok(look)
    }

    fn looked_at(&self, entry: &TableEntry, known: Option<Sample>) -> Result<Sample> {
        let mut sample = match known {
            Some(sample) => sample,
            None => Sample::draw(&self.value_context, &entry.file, &self.lines_of(entry)?)?,
        };
        sample.refresh(&mut |place| self.is_live(place))?;
        Ok(sample)
    }

    fn is_live(&self, place: &RecordPlace<'_>) -> Result<bool> {
        let liveness = self.asks_index()?.liveness(place, &Moment::now(self))?;
        Ok(matches!(liveness, Liveness::Live { .. }))
    }

    /// The records of a sealed file, but those that were dropped.
    pub(crate) fn lines_of(&self, entry: &TableEntry) -> Result<Vec<Line>> {
        let Some(values) = entry.state.sealed else { return Ok(Vec::new()) };
        let (file, purpose) = (&entry.file, Purpose::Collection);
        let (path, sealed) = (file.path(), &values.sealed);
        let disk_file = file.disk_file()?;
        let footer = read_footer(&self.io, &*disk_file, path, file.seed(), sealed, purpose)?;
        if let Some(mut footer) = footer {
            if let Some(punched) = &entry.punched {
                footer.lines.retain(|line| !punched.has(line));
            }
            return Ok(footer.lines);
        }
        let options = ReadOptions {
            kind: FileKind::Value,
            id: file.id(),
            uuid: self.uuid,
            sealed: Some(*sealed),
            contiguous: false,
            purpose,
        };
        let payload = scan_punched(&self.io, path, options, entry.punched.as_ref())?.encode();
        payload.map_or(Ok(Vec::new()), |payload| Footer::decode(&payload).map(|f| f.lines))
    }

    /// Seals the open segment, and freezes the memtable, where much of what no collection may touch
    /// yet is dead; false where that is not so, or has been done.
    pub(super) fn end_dead_tail(self: &Arc<Self>, limit: DeadTail) -> Result<bool> {
        let (open_bytes, open_dead) = match self.value_lane.open_lines() {
            Some((id, lines)) => self.dead_bytes(id, Ok(lines)),
            None => (0, 0),
        };
        if is_much(open_bytes, open_dead, limit) {
            mark!("gc_open_segment_ended");
            self.commit(Work::control(Task::RollValues))?;
        }
        let (mut bytes, mut dead) = (0, 0);
        let (view, flushed) = (self.view.load_full(), self.flushed());
        for entry in view.values.iter() {
            if entry.state.sealed.is_some() && !entry.state.is_settled(flushed) {
                let lines = self.lines_of(entry);
                let (of_file, dead_of_file) = self.dead_bytes(entry.file.id(), lines);
                bytes += of_file;
                dead += dead_of_file;
            }
        }
        let unfrozen = self.visible.load(Ordering::Acquire) > self.last_frozen();
        if !unfrozen || !is_much(bytes, dead, limit) {
            return Ok(false);
        }
        mark!("gc_flush_asked_for");
        self.commit(Work::control(Task::Freeze))?;
        // What the flush makes collectable is to be looked at.
        self.gc.look_anew();
        Ok(true)
    }

    /// Has the indexes compacted where many of their entries name files that are gone: once much
    /// has been deleted, they are what takes room. False where that is not so, or has been asked
    /// for.
    pub(super) fn compact_dead_indexes(self: &Arc<Self>) -> Result<bool> {
        let entries: u64 = {
            let view = self.view.load();
            view.indexes.values().map(|index| index.space().entries).sum()
        };
        let dangling = self.gc.state.lock().dangling;
        if dangling == 0 || dangling.saturating_mul(DANGLING_PART) < entries {
            return Ok(false);
        }
        let frozen = self.last_frozen();
        if self.visible.load(Ordering::Acquire) > frozen {
            // What deleted them goes down with them. The end of the flush comes back here.
            self.commit(Work::control(Task::Freeze))?;
            return Ok(true);
        }
        if self.flushed() < frozen {
            return Ok(false);
        }
        mark!("gc_dead_index_compacted");
        self.gc.state.lock().dangling = 0;
        let keyspaces: Vec<_> = self.catalogue.lock().all().cloned().collect();
        for keyspace in keyspaces {
            keyspace.index.request_compaction(KeyRange::default(), false);
        }
        Ok(true)
    }

    /// Bytes of these records, and how many of them are dead; none where they cannot be read.
    fn dead_bytes(&self, id: FileId, lines: Result<Vec<Line>>) -> (u64, u64) {
        let sampled = lines.and_then(|lines| {
            let bytes: u64 = lines.iter().map(|line| u64::from(line.bytes)).sum();
            let entry = self.view.load().values.get(id).cloned();
            let Some(TableEntry { file, .. }) = entry else { return Ok((0, 0)) };
            let mut sample = Sample::draw(&self.value_context, &file, &lines)?;
            sample.refresh(&mut |place| self.is_live(place))?;
            let live = sample.live_share().unwrap_or(1.0);
            Ok((bytes, (bytes as f64 * (1.0 - live)) as u64))
        });
        sampled.unwrap_or_else(|error| {
            tracing::warn!(file = %id, %error, "a value file's records cannot be looked at");
            (0, 0)
        })
    }
}

pub(super) fn is_much(bytes: u64, dead: u64, limit: DeadTail) -> bool {
    dead > 0 && bytes >= limit.bytes_min && dead * 100 >= bytes * limit.percent
}
