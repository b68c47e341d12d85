//! Facts leave memory and manifest for files of their own once there are more of them than is
//! wanted: in the background, one spill at a time.
//!
//! Invariants: FS-1 the file and its name are durable before the edit that names it, and files that
//! the edit merges into it go after it (rule F9). FS-2 the manifest is rolled after a spill that is
//! due, not before it, so that a new manifest names facts and does not repeat them; unless it has
//! grown far by then. FS-3 nothing depends on a spill: one that fails leaves all as it was, and is
//! tried again once there is twice as much for it.

use std::collections::BTreeSet;

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, parse_file_name};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::engine::Engine;
use crate::engine::state::Publication;
use crate::manifest::Manifest;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::FactsEdit;
use crate::values::drops::spilled::merge::{PART_BYTES, Spill, SpilledFigures, plan};
use crate::values::drops::spilled::named::SpilledFile;

/// A manifest that waits for a spill is rolled all the same once it is so many times as long as it
/// should be.
const ROLL_PATIENCE: u64 = 4;

/// A manifest is rolled with this part of its bytes of facts at most, unless it grew far.
const ROLLED_PART: u64 = 4;

/// What is known of spills.
#[derive(Debug, Default)]
pub(crate) struct FactSpills {
    is_running: AtomicBool,
    /// Bytes of facts in memory from which on the next one is worth trying, after one failed.
    retry_bytes: AtomicU64,
    /// The manifest is to be rolled once facts have left memory.
    roll_waits: AtomicBool,
    /// Files of facts that could not be read: they stay as they are.
    unreadable: Mutex<BTreeSet<FileId>>,
}

impl Engine {
    /// Writes facts to a file where there are too many in memory, or too much room is taken by
    /// those that count no more.
    pub(crate) fn spill_facts(&self) {
        // What is left of a full disk is for what frees some.
        if self.reserve.is_given_up() || self.fact_spills.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let facts = self.facts.load_full();
        if let Some(merged) = self.planned_spill(&facts) {
            let id = self.file_ids.next();
            let spilled = self.spill(&facts, &merged, id);
            let retry_bytes = match &spilled {
                Ok(()) => 0,
                Err(error) => {
                    self.note_failed_spill(id, error);
                    facts.stated_bytes().saturating_mul(2).max(1)
                }
            };
            self.fact_spills.retry_bytes.store(retry_bytes, Ordering::Release);
        }
        self.fact_spills.is_running.store(false, Ordering::Release);
    }

    /// Whether the manifest is to be rolled now (FS-2).
    pub(crate) fn is_roll_due(&self, manifest: &Manifest) -> bool {
        let bytes_max = self.widths.manifest_bytes_max;
        if !manifest.needs_roll(bytes_max) {
            return false;
        }
        let is_short = !manifest.needs_roll(bytes_max.saturating_mul(ROLL_PATIENCE));
        let waits = is_short && self.is_spill_due(self.facts.load().stated_bytes(), true);
        if waits {
            mark!("manifest_roll_waits_for_facts");
        }
        self.fact_spills.roll_waits.store(waits, Ordering::Release);
        !waits
    }

    /// Whether so many bytes of facts are to leave memory.
    fn is_spill_due(&self, stated_bytes: u64, roll_waits: bool) -> bool {
        let bytes_max = self.widths.facts_bytes_max;
        let bytes_max = match roll_waits {
            // What stays is repeated by the new manifest.
            true if bytes_max < u64::MAX => {
                bytes_max.min(self.widths.manifest_bytes_max / ROLLED_PART)
            }
            _ => bytes_max,
        };
        let retry_bytes = self.fact_spills.retry_bytes.load(Ordering::Acquire);
        stated_bytes > bytes_max && stated_bytes >= retry_bytes
    }

    /// The files of facts to merge into the next one, where one is due.
    fn planned_spill(&self, facts: &Facts) -> Option<Vec<FileId>> {
        let stated_bytes = facts.stated_bytes();
        let roll_waits = self.fact_spills.roll_waits.load(Ordering::Acquire);
        let is_due = self.is_spill_due(stated_bytes, roll_waits);
        if self.fact_spills.retry_bytes.load(Ordering::Acquire) > 0 && !is_due {
            return None;
        }
        let unreadable = self.fact_spills.unreadable.lock().clone();
        let readable = facts.spilled().filter(|spilled| !unreadable.contains(&spilled.id()));
        let figures: Vec<SpilledFigures> = readable.map(|spilled| spilled.figures()).collect();
        plan(stated_bytes, is_due, self.widths.facts_bytes_max, &figures)
    }

    fn spill(&self, facts: &Facts, merged: &[FileId], id: FileId) -> Result<()> {
        let spill = Spill {
            io: &self.io,
            dir: &self.dir,
            uuid: &self.uuid,
            id,
            part_bytes_max: PART_BYTES,
            is_cancelled: &|| self.cancelled.load(Ordering::Acquire),
        };
        let spilled = spill.write(facts, merged)?;
        let synced = self.io.disk.sync_dir(&self.dir);
        let synced = synced.map_err(|e| Error::io("syncing the directory", &self.dir, e));
        // Who knows what other names it was to keep.
        synced.inspect_err(|error| self.stop(error))?;
        self.name_spilled(spilled, merged)
    }

    /// FS-1.
    fn name_spilled(&self, spilled: SpilledFile, merged: &[FileId]) -> Result<()> {
        let bytes = spilled.bytes;
        let (spilled, merged) = (vec![spilled], merged.to_vec());
        let edit = FactsEdit { spilled, merged, ..FactsEdit::default() };
        let is_merge = !edit.merged.is_empty();
        self.commit_edit(vec![edit.encode()], |_| Ok(Publication::default()))?;
        mark!("facts_spilled");
        if is_merge {
            mark!("facts_merged");
        }
        tracing::info!(bytes, is_merge, "facts spilled");
        Ok(())
    }

    fn note_failed_spill(&self, id: FileId, error: &Error) {
        if error.kind() != ErrorKind::Closed {
            tracing::warn!(%error, "facts stay in memory");
        }
        self.obsolete.push(FileKind::Facts, id);
        let name = error.file().and_then(|file| file.file_name()).and_then(|name| name.to_str());
        let file = name.and_then(parse_file_name).filter(|file| file.0 == FileKind::Facts);
        if let Some((_, id)) = file.filter(|_| error.kind() == ErrorKind::Corruption) {
            mark!("facts_file_unreadable");
            self.fact_spills.unreadable.lock().insert(id);
        }
    }
}
