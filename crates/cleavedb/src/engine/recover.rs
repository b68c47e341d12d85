//! Opening: find or create the database, rebuild the state that the manifest describes, replay
//! the journal, and begin a fresh segment.
//!
//! Every step may be cut short by a crash and is repeated by the next open (promise P4): the
//! manifest is only read, replayed memtables reach the indexes by ordinary flushes, and a torn tail
//! is cut before anything is written after it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::file_ids::FileIds;
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name, is_draft, parse_file_name};
use crate::base::obsolete::ObsoleteFiles;
use crate::base::section::Section;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, ArcSwap, Mutex, figures};
use crate::base::usual::UsualRun;
use crate::base::widths::Widths;
use crate::deltas::directory::Directory;
use crate::engine::Engine;
use crate::engine::background::Background;
use crate::engine::catalogue::{Catalogue, KeyspaceEdit, KeyspaceState, Placement};
use crate::engine::commit::CommitQueue;
use crate::engine::deltas::DeltaStore;
use crate::engine::deltas::index::BucketedIndex;
use crate::engine::described::Described;
use crate::engine::directory::{create_folders, sync_folders};
use crate::engine::facts::FactSpills;
use crate::engine::gc::Collection;
use crate::engine::health::Health;
use crate::engine::lane::{JournalEdit, Lane, LaneId, Segment};
use crate::engine::large::LargeFiles;
use crate::engine::locate::Locating;
use crate::engine::locate::saved::LocatorCheckpoint;
use crate::engine::locate::streak::Streak;
use crate::engine::lock::{lock_for_reading, lock_for_writing};
use crate::engine::logs::Logs;
use crate::engine::mapping::Mapping;
use crate::engine::memory::TABLES_BUDGET_PART_MAX;
use crate::engine::metrics::Metrics;
use crate::engine::reserve::Reserve;
use crate::engine::room::PressureGauge;
use crate::engine::scattered::Scattered;
use crate::engine::settings::{Deltas, KeyspaceSettings, Settings};
use crate::engine::snapshots::Snapshots;
use crate::engine::state::{EngineEdit, Publication};
use crate::engine::view::View;
use crate::index::IndexContext;
use crate::io::Io;
use crate::io::disk::LockGuard;
use crate::log::writer::AppendError;
use crate::manifest::{self, Manifest, State};
use crate::memory::memtable::Memtable;
use crate::table::BlockCache;
use crate::table::cache::TableCache;
use crate::values::cache::ValueCache;
use crate::values::drops::directory::Facts;
use crate::values::file::{OpenFiles, ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::repairs::Repairs;
use crate::values::strategy::Collects;
use crate::values::strategy::kind::StrategyKind;
use crate::values::table::reader::LoadedIndexes;
use crate::values::tail_buffer::TailBuffer;

/// File numbers skipped at open: more than can have been given out between the last durable edit
/// and a crash, so that no number is used twice (rule F6) even where a file's name was lost.
const FILE_IDS_SKIPPED: u64 = 1_000;

/// The part of the memory budget that key indexes of value tables may take: some three bytes for a
/// value of 1 KiB, so that this much serves 20 budgets of values.
const INDEX_BUDGET_PART: u64 = 16;
/// The part of it for handles of earlier epochs: what is forgotten costs a search, one read like a
/// read by place.
const REPAIR_PART: u64 = 64;

impl Engine {
    /// Opens the database in `dir`.
    pub(crate) fn open(
        io: Io,
        dir: &Path,
        settings: Settings,
        widths: Widths,
    ) -> Result<Arc<Self>> {
        let executor = Arc::clone(&io.executor);
        let opened = Self::open_in(io, dir, settings, widths);
        if opened.is_err() {
            executor.shutdown();
        }
        opened
    }

    fn open_in(io: Io, dir: &Path, settings: Settings, widths: Widths) -> Result<Arc<Self>> {
        let lock = find_or_create(&io, dir, &settings)?;
        let (manifest, recovered) = if settings.read_only {
            (None, Manifest::read_only(&io, dir)?)
        } else {
            let (manifest, recovered) = Manifest::open(&io, dir)?;
            (Some(manifest), recovered)
        };
        tracing::debug!(format_version = recovered.format_version, "manifest read");
        let state = Described::from_edits(recovered.edits).map_err(|e| e.in_file(dir))?;
        check_strategy(state.strategy, &settings).map_err(|e| e.in_file(dir))?;
        let next_file_id = state.engine.next_file_id;
        let engine = Self::build(io, dir, (settings, widths), recovered.uuid, state, manifest)?;
        engine.manifest_bytes.store(recovered.bytes, Ordering::Relaxed);
        engine.check_files(recovered.manifest_id, next_file_id)?;
        engine.refuse_lost_segments()?;
        if !engine.settings.read_only {
            engine.remove_orphans(recovered.manifest_id)?;
        }
        *engine.lock.lock() = lock;
        let opened = engine.replay_and_start();
        if opened.is_err() {
            engine.health.close();
        }
        opened.map(|()| engine)
    }

    fn replay_and_start(self: &Arc<Self>) -> Result<()> {
        let opened = self.view.load_full();
        self.load_map();
        self.replay_logs()?;
        if !self.settings.read_only {
            self.remove_large_orphans()?;
            self.open_reserve();
            self.name_sealed_values()?;
        }
        self.restore_map(&opened)?;
        drop(opened);
        if !self.settings.read_only {
            let predecessor = self.seal_lane(LaneId::Journal)?;
            self.begin_segment(LaneId::Journal, predecessor)?;
            self.write_options_file();
            self.drop_runs_again();
            self.balance_memory();
            self.refresh_backlog();
            self.start_timer()?;
            self.schedule();
            self.schedule_housekeeping();
            self.load_locator();
        }
        tracing::info!(
            dir = %self.dir.display(),
            last_seq = self.visible.load(Ordering::Relaxed),
            keyspaces = self.catalogue.lock().all().count(),
            "opened"
        );
        Ok(())
    }

    /// Puts the shared state together; nothing is written.
    fn build(
        io: Io,
        dir: &Path,
        (settings, widths): (Settings, Widths),
        uuid: [u8; 16],
        state: Described,
        manifest: Option<Manifest>,
    ) -> Result<Arc<Self>> {
        let (obsolete, flushed) = (Arc::<ObsoleteFiles>::default(), state.engine.flushed_seq);
        let (blocks, tables) = caches(&io, dir, uuid, (&settings, &widths));
        let how = (&settings, &widths, state.strategy);
        let value_context = value_context(&io, dir, uuid, how, (&blocks, &obsolete));
        let values = described_files(&value_context, &state)?;
        let facts = described_facts(&value_context, &state, &values)?;
        let mapping = Mapping::open(&settings, &widths, &uuid, &state, &values);
        let locating = Locating::open(&settings, &widths, &uuid, &state, (&values, &facts));
        let value_segments = unflushed_segments(&values, flushed);
        let view = first_view(widths.memtable_bytes, values, flushed);
        let engine = Arc::new(Self {
            file_ids: Arc::new(FileIds::new(FileId(first_free_id(&io, dir, &state)?))),
            deltas: DeltaStore::open(&value_context, &settings, &widths, &state.deltas)?,
            locating,
            mapping,
            locator_checkpoint: LocatorCheckpoint::new(state.locator.clone()),
            facts: ArcSwap::from_pointee(facts),
            fact_spills: FactSpills::default(),
            newest_value_table: AtomicU64::new(view.value_table),
            view: ArcSwap::from_pointee(view),
            publish: Mutex::new(()),
            visible: AtomicU64::new(flushed),
            flushed: AtomicU64::new(flushed),
            snapshots: Arc::new(Snapshots::default()),
            commits: CommitQueue::default(),
            logs: Logs::new(flushed, sealed_bytes(state.segments.iter().chain(&value_segments))),
            journal: Lane::new(state.segments, flushed),
            value_lane: Lane::new(value_segments, flushed),
            large: LargeFiles::default(),
            value_tail: TailBuffer::new(widths.value_tail_bytes),
            value_context,
            scattered: Scattered::default(),
            strategy: state.strategy.strategy(),
            strategy_kind: state.strategy,
            manifest: Mutex::new(manifest),
            manifest_bytes: AtomicU64::new(0),
            catalogue: Mutex::new(Catalogue::default()),
            obsolete,
            blocks,
            tables,
            health: Health::default(),
            metrics: Arc::new(Metrics::default()),
            background: Background::default(),
            gc: Collection::default(),
            pressure: PressureGauge::default(),
            reserve: Reserve::default(),
            cancelled: Arc::new(AtomicBool::new(false)),
            creating: Mutex::new(()),
            closing: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            timer: Mutex::new(None),
            memtable_ids: AtomicU64::new(1),
            lock: Mutex::new(None),
            io,
            dir: dir.to_owned(),
            uuid,
            settings,
            widths,
        });
        engine.recover_keyspaces(state.keyspaces, state.indexes, state.last_keyspace)?;
        Ok(engine)
    }

    fn recover_keyspaces(
        &self,
        keyspaces: BTreeMap<KeyspaceId, (String, KeyspaceSettings)>,
        mut sections: BTreeMap<KeyspaceId, Vec<Section>>,
        last_id: u32,
    ) -> Result<()> {
        self.commits.allocated.store(self.flushed(), Ordering::Relaxed);
        let mut views = Vec::new();
        for (id, (name, settings)) in keyspaces {
            let sections = sections.remove(&id).unwrap_or_default();
            let keyspace = self.keyspace_state(id, name, settings, &sections)?;
            views.push((id, Some(keyspace.index.view())));
            self.catalogue.lock().insert(Arc::new(keyspace));
        }
        self.catalogue.lock().last_id = last_id;
        self.publish_edit(Publication { indexes: views, flushed: None }, None);
        Ok(())
    }

    /// Builds a keyspace's index from its sections; empty for a new one.
    pub(crate) fn keyspace_state(
        &self,
        id: KeyspaceId,
        name: String,
        settings: KeyspaceSettings,
        sections: &[Section],
    ) -> Result<KeyspaceState> {
        let operator =
            settings.merge_operator.as_deref().and_then(|name| self.settings.operator(name));
        let context = IndexContext {
            io: self.io.clone(),
            dir: self.dir.clone(),
            uuid: self.uuid,
            keyspace: id,
            file_ids: Arc::clone(&self.file_ids),
            tables: Arc::clone(&self.tables),
            open_files: Arc::clone(&self.value_context.open_files),
            obsolete: Arc::clone(&self.obsolete),
            is_disk_full: self.reserve.flag(),
            reserve_bytes: self.settings.reserve_bytes,
            widths: self.widths.clone(),
            compression: settings.compression.clone(),
            // ED-2.
            operator: operator.clone().filter(|_| settings.deltas != Some(Deltas::Buckets)),
            direct_reads: self.settings.direct_reads,
            direct_writes: self.settings.direct_writes,
        };
        let mut index = settings.index.recover(context, sections)?;
        if settings.deltas == Some(Deltas::Buckets) {
            index = BucketedIndex::new(index, id, operator.clone(), &self.deltas);
        }
        let placement = Placement {
            strategy: Arc::clone(&self.strategy),
            separate_at: settings.separate_at.map(|bytes| bytes as usize),
            compression: settings.value_compression,
            hash: KeyedHash::new(&self.uuid),
        };
        let dropped = AtomicBool::new(false);
        let (usual_run, scans_cached) = (UsualRun::default(), figures::AtomicBool::new(false));
        Ok(KeyspaceState {
            id,
            name,
            settings,
            operator,
            placement,
            index,
            dropped,
            usual_run,
            scans_cached,
            unlocated: Streak::default(),
        })
    }

    /// Files that the manifest names, itself included, in order.
    fn named_files(&self, manifest: FileId) -> Vec<(FileKind, FileId)> {
        let mut named: Vec<(FileKind, FileId)> = vec![(FileKind::Manifest, manifest)];
        let view = self.view.load_full();
        for index in view.indexes.values() {
            named.extend(index.files().into_iter().map(|file| (file.kind, file.id)));
        }
        named.extend(self.journal.segments().into_iter().map(|s| (FileKind::Journal, s.id)));
        named.extend(view.values.iter().map(|entry| (FileKind::Value, entry.file.id())));
        let containers = view.values.containers();
        named.extend(containers.map(|entry| (FileKind::ValueTable, entry.container.id())));
        named.extend(view.deltas.iter().map(|bucket| (FileKind::Bucket, bucket.info().id)));
        let facts = self.facts.load_full();
        named.extend(facts.spilled().map(|spilled| (FileKind::Facts, spilled.id())));
        named.extend(view.values.large().map(|entry| (FileKind::Large, entry.file.id())));
        named.sort_unstable();
        named
    }

    /// Removes files of ours that no edit names: what a crash left half-made (rule F7). Large
    /// values wait for the replay, since a record may name them.
    fn remove_orphans(&self, manifest: FileId) -> Result<()> {
        let named = self.named_files(manifest);
        let entries = list(&self.io, &self.dir)?;
        for (kind, id) in &named {
            let name = file_name(*kind, *id);
            if !entries.iter().any(|entry| entry.name == name) {
                return Err(Error::corruption("a file that the manifest names is missing")
                    .in_file(&self.dir.join(name)));
            }
        }
        for entry in entries {
            let orphan = match parse_file_name(&entry.name) {
                Some((FileKind::Locator, id)) => self.locator_checkpoint.id() != Some(id),
                Some(file) if is_numbered(file.0) => named.binary_search(&file).is_err(),
                _ => is_draft(&entry.name) && !entry.is_dir,
            };
            if orphan {
                let path = self.dir.join(&entry.name);
                mark!("orphan_removed");
                tracing::info!(file = %path.display(), "removed a file that nothing names");
                self.io
                    .disk
                    .remove_file(&path)
                    .map_err(|cause| Error::io("removing an orphan", &path, cause))?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// What the parts of the manifest say of each other. Readers check it, too: to go on would give
    /// wrong answers, not errors.
    fn check_files(&self, manifest: FileId, next_file_id: u64) -> Result<()> {
        let lost = |what: String| Err(Error::corruption(what).in_file(&self.dir));
        let flushed = self.flushed();
        for (keyspace, index) in self.view.load_full().indexes.iter() {
            let last = index.largest_seq();
            if last > flushed {
                // Replay would give the seqs above `flushed` to other operations.
                let id = keyspace.0;
                return lost(format!("keyspace {id} holds seq {last}, but {flushed} is flushed"));
            }
        }
        self.check_buckets()?;
        let mut ids: Vec<_> = self.named_files(manifest).into_iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        // The number of a manifest is taken after its first edit is put together.
        if let Some(id) = ids.iter().find(|id| id.0 >= next_file_id && **id != manifest) {
            return lost(format!("file {id} is in force, but {next_file_id} is the next number"));
        }
        match ids.iter().zip(ids.iter().skip(1)).find(|(one, next)| one == next) {
            Some((twice, _)) => lost(format!("the manifest names file {twice} twice")),
            None => Ok(()),
        }
    }

    /// A segment newer than every named one holds frames only after the edit that names it is
    /// durable: if that edit is not there, the manifest has lost its end.
    fn refuse_lost_segments(&self) -> Result<()> {
        let newest_journal = self.journal.segments().into_iter().map(|segment| segment.id).max();
        // The newest value file is never removed, so what is newer was begun after it.
        let newest_values = self.view.load().values.iter().next_back().map(|e| e.file.id());
        for entry in list(&self.io, &self.dir)? {
            let (newest, id) = match parse_file_name(&entry.name) {
                Some((FileKind::Journal, id)) => (newest_journal, id),
                Some((FileKind::Value, id)) => (newest_values, id),
                _ => continue,
            };
            let path = self.dir.join(&entry.name);
            if newest.is_none_or(|newest| id > newest)
                && !manifest::is_blank_segment(&self.io, &path)?
            {
                let message =
                    "a log with contents that the manifest does not name: its end is lost";
                return Err(Error::corruption(message).in_file(&path));
            }
        }
        Ok(())
    }
}

/// Takes the lock and makes sure that there is a database, creating it where that is wanted.
fn find_or_create(io: &Io, dir: &Path, settings: &Settings) -> Result<Option<Box<dyn LockGuard>>> {
    let absent =
        || Error::new(ErrorKind::NotFound, "there is no database in this directory").in_file(dir);
    let may_create = settings.create_if_missing && !settings.read_only;
    if !may_create && manifest::probe(io, dir)? != State::Present {
        return Err(absent());
    }
    if settings.read_only {
        let lock = lock_for_reading(io, dir)?;
        // It may have been destroyed before the lock was taken.
        return match manifest::probe(io, dir)? {
            State::Present => Ok(lock),
            State::Absent | State::Unfinished => Err(absent()),
        };
    }
    create_folders(io, dir)?;
    let lock = lock_for_writing(io, dir)?;
    match manifest::probe(io, dir)? {
        State::Present if settings.error_if_exists => {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "there is a database already").in_file(dir)
            );
        }
        State::Present => {}
        State::Absent | State::Unfinished if !may_create => return Err(absent()),
        State::Absent => {
            sync_folders(io, dir)?;
            create(io, dir, settings)?;
        }
        State::Unfinished => {
            mark!("creation_restarted");
            sync_folders(io, dir)?;
            manifest::clear_unfinished(io, dir)?;
            create(io, dir, settings)?;
        }
    }
    Ok(Some(lock))
}

/// Creates an empty database, crash-atomically.
fn create(io: &Io, dir: &Path, settings: &Settings) -> Result<()> {
    let uuid = io.clock.unique();
    manifest::begin_creation(io, dir, &uuid).map_err(AppendError::into_error)?;
    let first = EngineEdit { flushed_seq: 0, next_file_id: manifest::FIRST_MANIFEST.0 + 1 };
    let snapshot = vec![
        first.encode(),
        settings.strategy.unwrap_or_default().encode(),
        KeyspaceEdit::encode(&[]),
        JournalEdit::encode(&[]),
    ];
    Manifest::create(io, dir, uuid, snapshot).map_err(AppendError::into_error)?;
    Ok(())
}

/// What was recorded must match what is asked for, where something is asked for.
fn check_strategy(recorded: StrategyKind, settings: &Settings) -> Result<()> {
    match settings.strategy {
        Some(asked) if asked != recorded => {
            let message = format!("the database was created with strategy {recorded}, not {asked}");
            Err(Error::new(ErrorKind::Mismatch, message))
        }
        _ => Ok(()),
    }
}

fn list(io: &Io, dir: &Path) -> Result<Vec<crate::io::disk::DirEntry>> {
    io.disk.read_dir(dir).map_err(|cause| Error::io("listing the database", dir, cause))
}

/// The first file number that was certainly never given out.
fn first_free_id(io: &Io, dir: &Path, state: &Described) -> Result<u64> {
    let seen = list(io, dir)?
        .iter()
        .filter_map(|entry| parse_file_name(&entry.name))
        .map(|(_, id)| id.0)
        .max()
        .unwrap_or(0);
    Ok(seen.max(state.engine.next_file_id) + FILE_IDS_SKIPPED)
}

/// The caches of blocks and of open tables.
fn caches(
    io: &Io,
    dir: &Path,
    uuid: [u8; 16],
    (settings, widths): (&Settings, &Widths),
) -> (Arc<BlockCache>, Arc<TableCache>) {
    let budget = settings.memory_budget;
    let blocks = Arc::new(BlockCache::new((budget / 2).min(widths.block_cache_bytes_max)));
    let tables = Arc::new(TableCache::new(
        io,
        dir.to_owned(),
        uuid,
        &blocks,
        settings.open_files_max,
        budget / TABLES_BUDGET_PART_MAX,
        settings.direct_reads,
    ));
    (blocks, tables)
}

/// What value files are given to work with.
fn value_context(
    io: &Io,
    dir: &Path,
    uuid: [u8; 16],
    (settings, widths, strategy): (&Settings, &Widths, StrategyKind),
    (blocks, obsolete): (&Arc<BlockCache>, &Arc<ObsoleteFiles>),
) -> Arc<ValueContext> {
    let goes_by_facts = matches!(strategy.strategy().collection(), Collects::Facts);
    Arc::new(ValueContext {
        io: io.clone(),
        dir: dir.to_owned(),
        uuid,
        obsolete: Arc::clone(obsolete),
        direct_reads: settings.direct_reads,
        open_files: Arc::new(OpenFiles::new(settings.open_files_max / 2)),
        cache: ValueCache::new(blocks),
        hole_block_bytes: widths.hole_block_bytes,
        table_indexes: LoadedIndexes::new(settings.memory_budget / INDEX_BUDGET_PART),
        repairs: Repairs::new(if goes_by_facts { settings.memory_budget / REPAIR_PART } else { 0 }),
    })
}

/// What there is to be seen before any keyspace is.
fn first_view(memtable_bytes: u64, values: ValueFiles, flushed: Seq) -> View {
    View {
        active: Memtable::new(0, memtable_bytes),
        frozen: Vec::new(),
        indexes: Arc::default(),
        values: Arc::new(values),
        deltas: Directory::default(),
        value_table: 0,
        flushed,
    }
}

/// Bytes of the sealed ones among these.
fn sealed_bytes<'a>(segments: impl Iterator<Item = &'a Segment>) -> u64 {
    segments.filter_map(|segment| segment.sealed).map(|sealed| sealed.bytes).sum()
}

/// The value files that the manifest describes.
fn described_files(context: &Arc<ValueContext>, state: &Described) -> Result<ValueFiles> {
    let nothing = ValueFiles::default();
    let files = nothing.apply(&state.values, &mut |kind, id| ValueFile::new(context, kind, id));
    let files = files.map_err(|error| error.in_file(&context.dir))?;
    files.settle(&nothing);
    Ok(files)
}

/// What the manifest states of records, as far as their files are there (rule R3).
fn described_facts(
    context: &Arc<ValueContext>,
    state: &Described,
    files: &ValueFiles,
) -> Result<Facts> {
    let nothing = Facts::in_store(KeyedHash::new(&context.uuid), context);
    let mut facts = nothing.apply(&state.facts).map_err(|error| error.in_file(&context.dir))?;
    facts.retain(|id| files.has_file(id));
    facts.settle(&nothing);
    Ok(facts)
}

/// Whether files of this kind have a number, and are named by the manifest where in force.
fn is_numbered(kind: FileKind) -> bool {
    use FileKind::{Bucket, Facts, FlexLog, FlexPages, FlexSegment, Journal, Manifest, Table};
    use FileKind::{Value, ValueTable};
    let is_flex = matches!(kind, FlexLog | FlexPages | FlexSegment);
    is_flex || matches!(kind, Bucket | Facts | Journal | Table | Manifest | Value | ValueTable)
}

/// The value files that may hold anything unflushed, as segments of their lane.
fn unflushed_segments(values: &ValueFiles, flushed: Seq) -> VecDeque<Segment> {
    let open = values.iter().filter(|entry| !entry.state.is_settled(flushed));
    open.map(|entry| {
        let sealed = entry.state.sealed;
        Segment {
            id: entry.file.id(),
            last_seq: sealed.map_or(0, |sealed| sealed.last_seq),
            sealed: sealed.map(|sealed| sealed.sealed),
        }
    })
    .collect()
}
