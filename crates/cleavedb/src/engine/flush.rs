//! Flush: the oldest frozen memtable becomes tables of every keyspace, in one manifest edit.

use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::FileKind;
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::deltas::flush::FlushedDeltas;
use crate::engine::lane::JournalEdit;
use crate::engine::large::naming_section;
use crate::engine::metrics::Operation;
use crate::engine::state::{Draft, Publication};
use crate::engine::touching::Touching;
use crate::engine::view::Frozen;
use crate::index::{FlushInput, Prepared, WorkReport};

/// One keyspace's part of a flush.
struct Part {
    keyspace: Arc<KeyspaceState>,
    prepared: Prepared,
}

impl Engine {
    /// Writes out the oldest frozen memtable; false if there is none.
    pub(crate) fn flush_oldest(&self) -> Result<bool> {
        let view = self.view.load_full();
        let Some(frozen) = view.frozen.last() else { return Ok(false) };
        self.health.check_writable()?;
        let start = self.io.clock.now();
        // Batches logged before the freeze may still be arriving.
        self.wait_published(frozen.last_seq);
        let table = &frozen.table;
        if table.last_seq() > frozen.last_seq || table.first_seq() <= self.flushed() {
            return Err(Error::corruption(format!(
                "memtable {} holds seqs {} to {}, outside {} to {}",
                table.id(),
                table.first_seq(),
                table.last_seq(),
                self.flushed() + 1,
                frozen.last_seq
            )));
        }
        // Rule R10: what the edit calls flushed must not be ahead of the durable log.
        self.sync_logs()?;
        // Rule R4: snapshots are listed after the freeze.
        let stripes = self.snapshots.stripes();
        if !stripes.is_empty() {
            mark!("flush_with_snapshot");
        }
        let touching = self.touching_of_flush(frozen, &stripes)?;
        let deltas = self.flush_deltas(&frozen.table, &stripes)?;
        let mut parts = Vec::new();
        for id in frozen.table.keyspaces() {
            let part = self.flush_keyspace((frozen, &deltas), id, &stripes, touching.as_ref())?;
            parts.extend(part);
        }
        let report = self.install_flush(frozen, (parts, deltas), touching.as_ref())?;
        let took = self.io.clock.now().saturating_sub(start);
        self.metrics.record(Operation::Flush, took);
        self.metrics.flushes.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            memtable = frozen.table.id(),
            user_bytes = frozen.table.user_bytes(),
            bytes = report.bytes_written,
            entries = report.entries_out,
            micros = took.as_micros() as u64,
            reason = "memtable frozen",
            "flush"
        );
        Ok(true)
    }

    fn flush_keyspace(
        &self,
        (frozen, deltas): (&Frozen, &FlushedDeltas),
        id: KeyspaceId,
        stripes: &[u64],
        touching: Option<&Touching>,
    ) -> Result<Option<Part>> {
        let Some(keyspace) = self.catalogue.lock().numbered(id) else {
            mark!("flush_skipped_dropped_keyspace");
            return Ok(None);
        };
        let listeners = self.entry_listeners(self.flushed(), touching.cloned());
        let prepared = keyspace.index.apply_flush(FlushInput {
            entries: Box::new(|| deltas.rest(id, frozen.table.cursor(id))),
            bytes: frozen.table.user_bytes(),
            is_waited_for: self.is_room_scarce(),
            tombstones: frozen.table.tombstones(id),
            stripes,
            listeners: Box::new(|| Box::new(listeners.make(id))),
        })?;
        Ok(Some(Part { keyspace, prepared }))
    }

    /// The last seq that no index needs from the journal once everything up to `flushed` is written
    /// out.
    fn replayed_no_more(&self, flushed: u64) -> u64 {
        let catalogue = self.catalogue.lock();
        let floors = catalogue.all().map(|keyspace| keyspace.index.replay_floor());
        floors.filter(|&floor| floor > 0).map(|floor| floor - 1).fold(flushed, u64::min)
    }

    /// Commits all parts and the end of the memtable as one edit.
    fn install_flush(
        &self,
        frozen: &Frozen,
        (parts, deltas): (Vec<Part>, FlushedDeltas),
        touching: Option<&Touching>,
    ) -> Result<WorkReport> {
        let mut total = WorkReport { kind: "flush", ..WorkReport::default() };
        let removed = self.journal.superfluous(self.replayed_no_more(frozen.last_seq));
        let mut sections: Vec<Section> = vec![self.engine_edit(frozen.last_seq)];
        if planted!("flush_forgets_flushed_seq") {
            sections = vec![self.engine_edit(self.flushed.load(Ordering::Acquire))];
        }
        let edits: Vec<_> = removed.iter().map(|&id| JournalEdit::Removed { id }).collect();
        if !edits.is_empty() {
            mark!("journal_segment_removed");
            sections.push(JournalEdit::encode(&edits));
        }
        let large = self.large.named_by_flush(frozen.last_seq);
        sections.extend(naming_section(&large));
        if let Some(touching) = touching {
            sections.extend(touching.sections(&self.view.load().values));
        }
        sections.extend(deltas.section());
        let mut draft = Draft { sections, ..Draft::default() };
        let mut installs = Vec::new();
        for Part { keyspace, prepared } in parts {
            total.bytes_written += prepared.report.bytes_written;
            total.entries_in += prepared.report.entries_in;
            total.entries_out += prepared.report.entries_out;
            draft.add(&keyspace, prepared.sections);
            installs.push((keyspace, prepared.change));
        }
        self.commit_draft(draft, |engine| {
            let are_buckets_new = deltas.changes_buckets();
            engine.install_deltas(deltas);
            let mut changed = Vec::new();
            for (keyspace, change) in installs {
                // A keyspace dropped meanwhile takes the files and drops them with the rest.
                keyspace.index.install(change)?;
                if keyspace.dropped.load(Ordering::Acquire) {
                    mark!("keyspace_dropped_during_flush");
                    keyspace.index.retire();
                } else {
                    changed.push((keyspace.id, Some(keyspace.index.view())));
                }
            }
            engine.forget_dropped_of(&frozen.table);
            if are_buckets_new {
                changed.extend(engine.bucketed_views());
            }
            engine.flushed.store(frozen.last_seq, Ordering::Release);
            engine.logs.set_flushed_bytes(frozen.journal_mark);
            engine.large.forget(&large);
            engine.journal.forget(&removed);
            engine.value_lane.forget(&engine.value_lane.superfluous(frozen.last_seq));
            for &id in &removed {
                engine.obsolete.push(FileKind::Journal, id);
            }
            Ok(Publication { indexes: changed, flushed: Some(Arc::clone(&frozen.table)) })
        })?;
        if let Some(touching) = touching {
            touching.publish(&self.view.load().values);
        }
        Ok(total)
    }
}
