//! The shared state in which the steps meet.

use std::path::PathBuf;

use crate::base::entry::{KeyspaceId, SEQ_MAX, Seq};
use crate::base::error::{Error, Result};
use crate::base::file_ids::FileIds;
use crate::base::marks::mark;
use crate::base::obsolete::ObsoleteFiles;
use crate::base::planted::planted;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, ArcSwap, Mutex};
use crate::base::widths::Widths;
use crate::engine::background::Background;
use crate::engine::catalogue::{Catalogue, KeyspaceEdit, KeyspaceState};
use crate::engine::commit::CommitQueue;
use crate::engine::deltas::DeltaStore;
use crate::engine::facts::FactSpills;
use crate::engine::gc::Collection;
use crate::engine::health::Health;
use crate::engine::lane::{JournalEdit, Lane};
use crate::engine::large::LargeFiles;
use crate::engine::locate::Locating;
use crate::engine::locate::edit::LocatorEdit;
use crate::engine::locate::saved::LocatorCheckpoint;
use crate::engine::logs::Logs;
use crate::engine::mapping::Mapping;
use crate::engine::metrics::Metrics;
use crate::engine::reserve::Reserve;
use crate::engine::room::PressureGauge;
use crate::engine::scattered::Scattered;
use crate::engine::settings::Settings;
use crate::engine::snapshots::Snapshots;
use crate::engine::timer::Timer;
use crate::engine::view::View;
use crate::index::IndexView;
use crate::io::Io;
use crate::io::disk::LockGuard;
use crate::log::writer::AppendError;
use crate::manifest::{Edit, Manifest};
use crate::memory::memtable::Memtable;
use crate::table::BlockCache;
use crate::table::cache::TableCache;
use crate::values::drops::directory::Facts;
use crate::values::drops::edit::FactsEdit;
use crate::values::edit::ValuesEdit;
use crate::values::file::{ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::strategy::Strategy;
use crate::values::strategy::kind::StrategyKind;
use crate::values::tail_buffer::TailBuffer;

/// One open database.
pub(crate) struct Engine {
    pub(crate) io: Io,
    pub(crate) dir: PathBuf,
    pub(crate) uuid: [u8; 16],
    pub(crate) settings: Settings,
    pub(crate) widths: Widths,
    /// What readers see.
    pub(crate) view: ArcSwap<View>,
    /// Serialises changes of `view`.
    pub(crate) publish: Mutex<()>,
    /// Newest seq readers see.
    pub(crate) visible: AtomicU64,
    /// Last seq that is in the indexes.
    pub(crate) flushed: AtomicU64,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) commits: CommitQueue,
    /// What the lanes of the log share.
    pub(crate) logs: Logs,
    pub(crate) journal: Lane,
    pub(crate) value_lane: Lane,
    /// Files of large values that no edit names yet.
    pub(crate) large: LargeFiles,
    /// The newest groups of the value lane.
    pub(crate) value_tail: TailBuffer,
    /// What value files are given to work with.
    pub(crate) value_context: Arc<ValueContext>,
    /// What scans have paid for values that stand apart.
    pub(crate) scattered: Scattered,
    /// How separated values are kept.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// Which one that is.
    pub(crate) strategy_kind: StrategyKind,
    /// What is known of records that nothing names any more; changes under the manifest lock.
    pub(crate) facts: ArcSwap<Facts>,
    /// How they leave memory.
    pub(crate) fact_spills: FactSpills,
    /// The locator, where the strategy has one.
    pub(crate) locating: Option<Arc<Locating>>,
    /// The map, where the strategy has one.
    pub(crate) mapping: Option<Arc<Mapping>>,
    /// What there is of either on disk.
    pub(crate) locator_checkpoint: LocatorCheckpoint,
    /// Number of the newest table of value files that a view has been published with.
    pub(crate) newest_value_table: AtomicU64,
    /// The list of files; `None` when read-only.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    /// Bytes of the manifest in force, without the room ahead of its tail.
    pub(crate) manifest_bytes: AtomicU64,
    pub(crate) catalogue: Mutex<Catalogue>,
    pub(crate) file_ids: Arc<FileIds>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Background,
    /// Buckets of deltas.
    pub(crate) deltas: Arc<DeltaStore>,
    /// Garbage collection of value files.
    pub(crate) gc: Collection,
    pub(crate) pressure: PressureGauge,
    pub(crate) reserve: Reserve,
    /// Set at close: running compactions give up.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// Serialises creation and dropping of keyspaces.
    pub(crate) creating: Mutex<()>,
    /// Set by the first call of close.
    pub(crate) closing: AtomicBool,
    /// Set under leadership when the journal is sealed for good.
    pub(crate) sealed: AtomicBool,
    /// Drives the background sync; `None` under the stepper.
    pub(crate) timer: Mutex<Option<Timer>>,
    /// Number of the next memtable.
    pub(crate) memtable_ids: AtomicU64,
    /// Held until the engine goes away; `None` when read-only.
    pub(crate) lock: Mutex<Option<Box<dyn LockGuard>>>,
}

/// The engine's own part of an edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineEdit {
    /// Everything at or below is in the indexes (rule S2). One number serves all keyspaces: they
    /// share the memtable, so a flush covers all of them.
    pub(crate) flushed_seq: Seq,
    /// No file number at or above this was given out when the edit was written.
    pub(crate) next_file_id: u64,
}

impl EngineEdit {
    /// The edit as a section.
    pub(crate) fn encode(self) -> Section {
        let mut payload = Vec::with_capacity(16);
        payload.extend_from_slice(&self.flushed_seq.to_le_bytes());
        payload.extend_from_slice(&self.next_file_id.to_le_bytes());
        Section { tag: SectionTag::ENGINE, payload }
    }

    /// The edit of a section.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = crate::base::codec::Reader::new(payload);
        let edit = Self { flushed_seq: reader.u64()?, next_file_id: reader.u64()? };
        if edit.flushed_seq > SEQ_MAX || edit.next_file_id > u64::MAX / 2 {
            return Err(Error::corruption("an edit states a number out of range"));
        }
        Ok(edit)
    }
}

/// An edit in the making.
#[derive(Default)]
pub(crate) struct Draft<'a> {
    /// What it says.
    pub(crate) sections: Vec<Section>,
    /// What each keyspace's part of it does to the counts of value files, and states of records.
    /// Left out where the keyspace was dropped: its entries were counted off then, and its records
    /// are dead.
    pub(crate) counts: Vec<(Arc<KeyspaceState>, Section)>,
    /// What must hold when it is committed.
    pub(crate) condition: Option<&'a dyn Fn() -> bool>,
}

impl Draft<'_> {
    /// Takes in what work on one keyspace prepared.
    pub(crate) fn add(&mut self, keyspace: &Arc<KeyspaceState>, prepared: Vec<Section>) {
        for section in prepared {
            if matches!(section.tag, SectionTag::VALUES | SectionTag::FACTS) {
                self.counts.push((Arc::clone(keyspace), section));
            } else {
                self.sections.push(section);
            }
        }
    }

    fn into_sections(self) -> Vec<Section> {
        let mut sections = self.sections;
        for (keyspace, section) in self.counts {
            if keyspace.dropped.load(Ordering::Acquire) {
                mark!("values_not_counted_for_dropped_keyspace");
            } else {
                sections.push(section);
            }
        }
        sections
    }
}

/// What an edit changes of what readers see, besides the table of value files.
#[derive(Default)]
pub(crate) struct Publication {
    /// Indexes that changed, or went away.
    pub(crate) indexes: Vec<(KeyspaceId, Option<Arc<dyn IndexView>>)>,
    /// The memtable that was written out.
    pub(crate) flushed: Option<Arc<Memtable>>,
}

impl Publication {
    fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.flushed.is_none()
    }
}

impl Engine {
    /// Commits an edit: appends it durably, then lets `install` publish it, all in manifest order.
    /// An error of the append stops the database, an error before it (nothing written) does not.
    pub(crate) fn commit_edit(
        &self,
        sections: Vec<Section>,
        install: impl FnOnce(&Self) -> Result<Publication>,
    ) -> Result<()> {
        self.commit_draft(Draft { sections, ..Draft::default() }, install).map(drop)
    }

    /// [`Engine::commit_edit`] of what depends on the state of that moment; false where nothing was
    /// done because the draft's condition does not hold any more.
    pub(crate) fn commit_draft(
        &self,
        draft: Draft<'_>,
        install: impl FnOnce(&Self) -> Result<Publication>,
    ) -> Result<bool> {
        let mut guard = self.manifest.lock();
        self.health.check_writable()?;
        let manifest = guard.as_mut().ok_or_else(|| Error::invalid("opened read-only"))?;
        if draft.condition.is_some_and(|holds| !holds()) {
            return Ok(false);
        }
        let mut sections = draft.into_sections();
        if !sections.iter().any(|section| section.tag == SectionTag::ENGINE) {
            sections.push(self.engine_edit(self.flushed.load(Ordering::Acquire)));
        }
        let values = self.changed_values(&mut sections)?;
        let facts = self.changed_facts(&sections, values.as_ref())?;
        let touches = sections.iter().any(LocatorEdit::touches);
        manifest.append(&Edit { sections }).map_err(|error| self.settle_append(error))?;
        if touches && !planted!("locator_checkpoint_never_outdated") {
            self.outdate_locator();
        }
        let publication = install(self).inspect_err(|error| self.stop(error))?;
        if let Some(facts) = facts {
            facts.settle(&self.facts.load());
            self.facts.store(Arc::new(facts));
        }
        self.publish_edit(publication, values);
        if self.is_roll_due(manifest) {
            mark!("manifest_rolled");
            let snapshot = self.snapshot_sections();
            match manifest.roll(snapshot, self.file_ids.next()) {
                Ok(()) => {}
                // The old manifest is still in force; the next edit tries again.
                Err(AppendError::Recoverable(error)) => {
                    mark!("manifest_roll_put_off");
                    tracing::warn!(%error, "the manifest could not be rolled");
                }
                Err(AppendError::Fatal(error)) => self.stop(&error),
            }
        }
        self.manifest_bytes.store(manifest.bytes(), Ordering::Relaxed);
        Ok(true)
    }

    /// The error of a failed append; the database stops unless the file is as it was before.
    fn settle_append(&self, error: AppendError) -> Error {
        match error {
            AppendError::Recoverable(error) => {
                self.note_full_disk(&error);
                error
            }
            AppendError::Fatal(error) => {
                self.stop(&error);
                error
            }
        }
    }

    /// Last seq that is in the indexes.
    pub(crate) fn flushed(&self) -> Seq {
        self.flushed.load(Ordering::Acquire)
    }

    /// The engine's own section.
    pub(crate) fn engine_edit(&self, flushed_seq: Seq) -> Section {
        EngineEdit { flushed_seq, next_file_id: self.file_ids.peek().0 }.encode()
    }

    /// The whole state as sections, for a fresh manifest. Under the manifest lock.
    pub(crate) fn snapshot_sections(&self) -> Vec<Section> {
        let catalogue = self.catalogue.lock();
        let mut keyspaces = vec![KeyspaceEdit::LastId { id: catalogue.last_id }];
        let mut indexes = Vec::new();
        for keyspace in catalogue.all() {
            keyspaces.push(KeyspaceEdit::Create {
                id: keyspace.id,
                name: keyspace.name.clone(),
                settings: keyspace.settings.clone(),
            });
            indexes.extend(keyspace.index.snapshot_sections());
        }
        let mut journal = Vec::new();
        for segment in self.journal.segments() {
            journal.push(JournalEdit::Added { id: segment.id });
            if let Some(sealed) = segment.sealed {
                journal.push(JournalEdit::Sealed { sealed, last_seq: segment.last_seq });
            }
        }
        let mut sections = vec![
            self.engine_edit(self.flushed.load(Ordering::Acquire)),
            self.strategy_kind.encode(),
            KeyspaceEdit::encode(&keyspaces),
            JournalEdit::encode(&journal),
        ];
        let view = self.view.load();
        if !view.values.is_empty() {
            sections.push(view.values.snapshot());
        }
        sections.extend(self.facts.load().snapshot());
        sections.extend(self.deltas.snapshot());
        let saved = self.locator_checkpoint.saved();
        sections.extend(saved.map(|saved| LocatorEdit::Saved(saved).encode()));
        sections.append(&mut indexes);
        sections
    }

    /// The facts after an edit; `None` where it changes nothing of them. Those about files that are
    /// gone go, too: a compaction may have met entries of a file that was removed while it ran.
    fn changed_facts(
        &self,
        sections: &[Section],
        values: Option<&ValueFiles>,
    ) -> Result<Option<Facts>> {
        let facts = self.facts.load();
        let stated = sections.iter().filter(|section| section.tag == SectionTag::FACTS);
        let edits: Vec<_> = stated.map(|s| FactsEdit::decode(&s.payload)).collect::<Result<_>>()?;
        if edits.is_empty() && (values.is_none() || facts.is_empty()) {
            return Ok(None);
        }
        let mut next = facts.apply(&edits)?;
        let view = self.view.load();
        let files = values.unwrap_or(&view.values);
        next.retain(|id| files.has_file(id));
        Ok(Some(next))
    }

    /// The file table after what an edit says of it, its sections made one; `None` where it says
    /// nothing. Under the manifest lock.
    fn changed_values(&self, sections: &mut Vec<Section>) -> Result<Option<ValueFiles>> {
        let mut edits = Vec::new();
        for section in sections.iter().filter(|section| section.tag == SectionTag::VALUES) {
            edits.extend(ValuesEdit::decode(&section.payload)?);
        }
        if edits.is_empty() {
            return Ok(None);
        }
        sections.retain(|section| section.tag != SectionTag::VALUES);
        sections.push(ValuesEdit::encode(&edits));
        let make = &mut |kind, id| ValueFile::new(&self.value_context, kind, id);
        self.view.load().values.apply(&edits, make).map(Some)
    }

    /// Publishes in one view what a durable edit changed (rule R12).
    pub(crate) fn publish_edit(&self, publication: Publication, values: Option<ValueFiles>) {
        if publication.is_empty() && values.is_none() {
            return;
        }
        let Publication { indexes, flushed } = publication;
        let _changing = self.publish.lock();
        let before = self.view.load_full();
        let values = values.map(Arc::new);
        if let Some((locating, values)) = self.locating.as_ref().zip(values.as_ref()) {
            locating.note_values(values);
        }
        let mut after = before.after_edit(indexes, flushed.as_ref(), values.clone());
        after.deltas = self.deltas.directory();
        let after = Arc::new(after);
        self.view.store(Arc::clone(&after));
        if let Some(values) = values {
            values.settle(&before.values);
            self.newest_value_table.fetch_max(after.value_table, Ordering::AcqRel);
        }
        self.refresh_pressure();
    }

    /// Freezes the active memtable, unless nothing was ever assigned to it. Under leadership.
    pub(crate) fn freeze_active(self: &Arc<Self>) -> Result<()> {
        if self.freeze_memtable() {
            self.schedule();
        }
        Ok(())
    }

    /// Freezes the active memtable; false where nothing was ever assigned to it.
    pub(crate) fn freeze_memtable(&self) -> bool {
        let last_seq = self.commits.allocated.load(Ordering::Acquire);
        {
            let _changing = self.publish.lock();
            let view = self.view.load_full();
            let frozen_seq = view
                .frozen
                .first()
                .map_or_else(|| self.flushed.load(Ordering::Acquire), |frozen| frozen.last_seq);
            if last_seq <= frozen_seq {
                return false;
            }
            let mark = self.logs.appended_bytes();
            self.view.store(Arc::new(view.freeze(self.new_memtable(), last_seq, mark)));
            self.refresh_pressure();
        }
        tracing::debug!(last_seq, "memtable frozen");
        true
    }

    /// An empty memtable.
    pub(crate) fn new_memtable(&self) -> Arc<Memtable> {
        let id = self.memtable_ids.fetch_add(1, Ordering::Relaxed);
        Memtable::new(id, self.widths.memtable_bytes)
    }
}
