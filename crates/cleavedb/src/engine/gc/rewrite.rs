//! Collection by facts: containers are rewritten in key order, without those of their records that
//! facts kill, and their files keep their numbers. The index is neither asked nor written.
//!
//! Invariants, the rules being those of the design:
//! RW-1 only what grows no more and is wholly flushed is rewritten (R9), and all files of a
//!      container together (R2).
//! RW-2 the facts are taken first, the list of snapshots after (R4). Facts are of flushed versions,
//!      which are durable: nothing needs to be synced but the new container.
//! RW-3 one edit puts the files into the new container, each with its next epoch, and discards the
//!      facts that were taken, and no later one (R3).
//! RW-4 views of before pin what they read; a crash leaves at most a container that nothing names.
//! RW-5 the newest segment stays a segment: what is newer than all that the manifest names is a
//!      sign of a lost edit (`recover`).

use std::collections::{BTreeMap, BTreeSet};

use crate::base::checksum::KeyedHash;
use crate::base::entry::{FileId, KeyspaceId, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name, parse_file_name};
use crate::base::planted::planted;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::commit::{Task, Work};
use crate::engine::locate::swing::Moved;
use crate::engine::mapping::judge::MapJudge;
use crate::engine::mapping::moved::MovedInMap;
use crate::engine::memory::BLOCKS_BUDGET_PART;
use crate::engine::state::{Draft, Publication};
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::drops::batch::FactBatch;
use crate::values::drops::pinned::{PinnedFacts, Verdict};
use crate::values::edit::{ContainerInfo, ValuesEdit};
use crate::values::file::ValueFile;
use crate::values::file_table::ValueFiles;
use crate::values::locator::place::Place;
use crate::values::map::place::Snapshots;
use crate::values::map::{Map, Moves};
use crate::values::rewrite::{
    Judge, JudgedRecord, MovedRecord, READER_AND_WRITER_BYTES, Rewrite, RewriteContext, Rewritten,
    Source,
};
use crate::values::table::writer::{GROUP_BYTES, WrittenTable};

/// The part of the memory budget that a rewrite may take, but not more than a whole segment needs:
/// where the survivors have room, they are read once, in the order of writing, and else most of
/// them a second time, one by one.
const MEMORY_PART: u64 = 4;
/// The part of it that a rewrite may take in any case.
const MEMORY_PART_MIN: u64 = 16;
/// What survivors that are rewritten together may fill of what readers and writer leave of that:
/// the rest is for keys.
const SURVIVORS_PERCENT: u64 = 75;
/// The part of the memory budget that may be taken by what the locator is told afterwards.
const MOVED_PART: u64 = 16;
/// Least of it.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// A step handles this part of a segment's bytes: some milliseconds of a device's time.
const STEP_PART: u64 = 16;
/// Containers that are merged at once, at most: each needs a read of its own at a time.
const VICTIMS_MAX: usize = 16;

/// A container that is to be rewritten: a segment, or a value table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Victim {
    /// Its own number.
    id: FileId,
    /// Its files, and their epochs.
    files: Vec<(FileId, u32)>,
}

/// A rewrite in progress.
pub(super) struct Rewriting {
    victims: Vec<Victim>,
    container: FileId,
    facts: PinnedFacts,
    _held_facts: HeldMemory,
    rewrite: Rewrite,
    snapshots: Vec<Seq>,
    keyspaces: BTreeSet<KeyspaceId>,
    /// Records that a snapshot keeps.
    held: u64,
    /// Bytes of the records that were judged.
    judged_bytes: u64,
    /// Where survivors went, for the locator.
    moved: Option<Moved>,
    /// The same, for the map.
    moved_in_map: MovedInMap,
    held_moved: HeldMemory,
    /// Superseded records of each file that were known of at the beginning.
    superseded: BTreeMap<FileId, u64>,
}

/// Says which records facts kill.
struct FactJudge<'a> {
    facts: &'a mut PinnedFacts,
    snapshots: &'a [Seq],
    keyspaces: &'a BTreeSet<KeyspaceId>,
    held: &'a mut u64,
    judged_bytes: &'a mut u64,
    container: FileId,
    moved: Option<&'a mut Moved>,
}

impl Judge for FactJudge<'_> {
    fn keeps(&mut self, record: &JudgedRecord<'_>) -> Result<bool> {
        let JudgedRecord { keyspace, key, seq, source, .. } = *record;
        *self.judged_bytes += record.bytes();
        if !self.keyspaces.contains(&keyspace) {
            mark!("gc_record_of_dropped_keyspace");
            return Ok(false);
        }
        let snapshots = if planted!("gc_facts_ignore_snapshots") { &[] } else { self.snapshots };
        let verdict = self.facts.judge(source, keyspace, key, seq, snapshots);
        match verdict {
            Verdict::Held(_) => *self.held += 1,
            Verdict::Superseded(_) => mark!("gc_fact_killed"),
            Verdict::Moved | Verdict::Unknown => {}
        }
        Ok(!verdict.is_dead())
    }

    fn moved(&mut self, record: &MovedRecord<'_>) {
        let Some(moved) = &mut self.moved else { return };
        let MovedRecord { keyspace, key, from, place, now, .. } = *record;
        let from = Place::of(from, place.offset, place.bytes);
        moved.note(keyspace, key, from, Place::of(self.container, now.offset, now.bytes));
    }
}

impl Rewriting {
    /// Files of the victims, and their epochs before.
    fn files(&self) -> impl Iterator<Item = (FileId, u32)> {
        self.victims.iter().flat_map(|victim| victim.files.iter().copied())
    }

    /// Numbers of the victims.
    pub(super) fn victims(&self) -> impl Iterator<Item = FileId> {
        self.victims.iter().map(|victim| victim.id)
    }
}

impl Engine {
    /// Goes on with a rewrite, or begins the most pressing one; false if nothing is due.
    pub(super) fn rewrite_once(self: &Arc<Self>) -> Result<bool> {
        let current = self.gc.state.lock().rewriting.take();
        if let Some(rewriting) = current {
            let gone_on = self.go_on_rewriting(rewriting);
            let mut known = self.gc.state.lock();
            known.needs_room = known.rewriting.is_some();
            return gone_on.map(|()| true);
        }
        let mut has_worked = self.remove_dead_value_files()?;
        has_worked |= self.expect_garbage()?;
        has_worked |= self.succeed_dead_newest()?;
        let victims = self.pick_containers();
        let Some(&first) = victims.first() else { return Ok(has_worked) };
        if self.succeed_victim(&victims)? {
            return Ok(true);
        }
        match self.begin_rewrite(&victims) {
            // In steps, so that other background work gets its turn.
            Ok(Some(rewriting)) => {
                let mut known = self.gc.state.lock();
                (known.rewriting, known.needs_room) = (Some(rewriting), true);
            }
            // They went away meanwhile, or may not be touched yet: another look will tell.
            Ok(None) => return Ok(has_worked),
            Err(error) => {
                self.settle_collection(blamed(&victims, &error).unwrap_or(first), error)?
            }
        }
        Ok(true)
    }

    /// Memory that a rewrite may take.
    fn rewrite_memory(&self) -> u64 {
        let budget = self.settings.memory_budget;
        // Out of what the block cache can spare: the budget holds all the same.
        let spare = self.blocks.capacity().saturating_sub(budget / BLOCKS_BUDGET_PART);
        let share = (budget / MEMORY_PART).min(spare).max(budget / MEMORY_PART_MIN);
        let enough = 2 * (self.widths.value_segment_bytes + READER_AND_WRITER_BYTES);
        share.min(enough).max(MEMORY_BYTES_MIN)
    }

    /// Containers to rewrite together: the most pressing one, and more as long as what lives in all
    /// of them makes one container.
    fn pick_containers(&self) -> Vec<FileId> {
        let appended = self.logs.appended_bytes();
        let found_full = self.gc.state.lock().rewrite_found_full;
        if found_full.is_some_and(|at| appended - at < self.widths.value_segment_bytes) {
            return Vec::new();
        }
        let (ranked, figures) = self.ranked_victims();
        let of_id = |id: &FileId| figures.iter().find(|file| file.id == *id).copied();
        let ranked: Vec<_> = ranked.iter().filter_map(of_id).collect();
        let room = self.rewrite_memory().saturating_sub(READER_AND_WRITER_BYTES);
        let room = room.max(MEMORY_BYTES_MIN / 4) * SURVIVORS_PERCENT / 100;
        let bytes_max = self.widths.value_segment_bytes.min(room);
        let chosen = self.strategy.victims().together(&ranked, bytes_max, VICTIMS_MAX);
        if chosen.len() > 1 {
            mark!("gc_containers_merged");
        }
        chosen
    }

    /// Begins a segment after the newest one where that is to be rewritten (RW-5).
    fn succeed_victim(self: &Arc<Self>, victims: &[FileId]) -> Result<bool> {
        let newest = self.view.load().newest_value_file();
        let is_due = victims.contains(&FileId(newest)) && !self.value_lane.is_open();
        // What is left of the disk is for what frees some.
        if !is_due || self.reserve.is_given_up() {
            return Ok(false);
        }
        mark!("gc_newest_victim_succeeded");
        self.commit(Work::control(Task::RollValues))?;
        Ok(self.view.load().newest_value_file() > newest)
    }

    fn begin_rewrite(&self, ids: &[FileId]) -> Result<Option<Rewriting>> {
        let view = self.view.load_full();
        let newest = FileId(view.newest_value_file());
        let mut victims = Vec::with_capacity(ids.len());
        let mut sources = Vec::with_capacity(ids.len());
        for &id in ids.iter().filter(|&&id| id != newest) {
            // After the view was taken: what it has is not arriving any more, or the map is still
            // to be told of it (MO-5).
            if self.mapping.as_ref().is_some_and(|mapping| mapping.is_arriving(id)) {
                mark!("gc_container_arriving");
                continue;
            }
            let Some((victim, source)) = self.victim(&view.values, id)? else { continue };
            victims.push(victim);
            sources.push(source);
        }
        if victims.is_empty() {
            return Ok(None);
        }
        let files_of = |victim: &Victim| victim.files.iter().map(|file| file.0).collect();
        let by_source: Vec<Vec<FileId>> = victims.iter().map(files_of).collect();
        // RW-2.
        let facts = self.facts.load_full().pin(&by_source)?;
        let snapshots = self.snapshots.stripes();
        let keyspaces = self.catalogue.lock().all().map(|keyspace| keyspace.id).collect();
        let container = self.file_ids.next();
        let context = RewriteContext {
            io: self.io.clone(),
            directory: self.dir.clone(),
            uuid: self.uuid,
            group_bytes: GROUP_BYTES,
            step_bytes: self.widths.value_segment_bytes / STEP_PART,
            direct: self.settings.direct_writes,
            limited: true,
            memory_bytes_max: self.rewrite_memory(),
        };
        let files = by_source.concat();
        let rewrite = Rewrite::begin(&context, sources, container, files.clone())?;
        let (held, judged_bytes) = (0, 0);
        let locating = self.locating.as_ref();
        let of_file = |&file: &FileId| Some((file, locating?.superseded_in(file)));
        let superseded = files.iter().filter_map(of_file).collect();
        let moved_bytes = (self.settings.memory_budget / MOVED_PART).max(MEMORY_BYTES_MIN);
        let moved = locating.map(|_| Moved::new(moved_bytes as usize));
        let held_moved = HeldMemory::new(&self.io.meter, Purpose::Collection);
        let mut held_facts = HeldMemory::new(&self.io.meter, Purpose::Collection);
        held_facts.set(facts.memory_bytes());
        Ok(Some(Rewriting {
            victims,
            container,
            facts,
            _held_facts: held_facts,
            rewrite,
            snapshots,
            keyspaces,
            held,
            judged_bytes,
            moved,
            moved_in_map: MovedInMap::default(),
            held_moved,
            superseded,
        }))
    }

    /// A container as it is now; `None` where it is gone, or may not be touched yet (RW-1).
    fn victim(&self, files: &ValueFiles, id: FileId) -> Result<Option<(Victim, Source)>> {
        if let Some(entry) = files.container(id) {
            let table = Arc::clone(entry.container.table(Purpose::Collection)?);
            let files = files.files_in(id).map(|file| (file.id, file.epoch)).collect();
            mark!("gc_container_rewritten");
            return Ok(Some((Victim { id, files }, Source::Table { table })));
        }
        let entry = files.get(id);
        let entry = entry.filter(|entry| entry.state.is_settled(self.flushed()));
        Ok(entry.and_then(|entry| {
            let sealed = entry.state.sealed?;
            let (file, punched) = (Arc::clone(&entry.file), entry.punched.clone());
            let victim = Victim { id, files: vec![(id, 0)] };
            Some((victim, Source::Segment { file, sealed, punched }))
        }))
    }

    /// One step of a rewrite, and what follows if it is the last one.
    fn go_on_rewriting(self: &Arc<Self>, mut rewriting: Rewriting) -> Result<()> {
        let is_cancelled = self.cancelled.load(Ordering::Acquire);
        let stepped = match is_cancelled {
            true => Err(Error::new(ErrorKind::Closed, "the database is being closed")),
            false => self.step_rewrite(&mut rewriting),
        };
        let done = match stepped {
            Ok(None) => {
                let bytes = rewriting.moved.as_ref().map_or(0, Moved::memory_bytes)
                    + rewriting.moved_in_map.memory_bytes();
                rewriting.held_moved.set(bytes as u64);
                self.gc.state.lock().rewriting = Some(rewriting);
                return Ok(());
            }
            Ok(Some(done)) => self.install_rewrite(&rewriting, done),
            Err(error) => Err(error),
        };
        let Err(error) = done else { return Ok(()) };
        if error.kind() == ErrorKind::NoSpace {
            let appended = self.logs.appended_bytes();
            let mut known = self.gc.state.lock();
            known.rewrite_found_full = Some(appended);
            // Whoever asked is not to wait for what cannot be done now.
            known.asked = None;
        }
        let victims: Vec<FileId> = rewriting.victims().collect();
        match blamed(&victims, &error).or(victims.first().copied()) {
            Some(victim) => self.settle_collection(victim, error),
            None => Ok(()),
        }
    }

    /// One step, by facts or by the map.
    fn step_rewrite(&self, rewriting: &mut Rewriting) -> Result<Option<Rewritten>> {
        let (container, sources) = (rewriting.container, rewriting.victims().collect::<Vec<_>>());
        let Rewriting { facts, rewrite, snapshots, keyspaces, held, judged_bytes, moved, .. } =
            rewriting;
        if let Some(mapping) = &self.mapping {
            let (engine, sources, moved) = (self, &sources[..], &mut rewriting.moved_in_map);
            return rewrite.step(&mut MapJudge {
                engine,
                mapping,
                sources,
                container,
                keyspaces,
                held,
                judged_bytes,
                moved,
            });
        }
        let moved = moved.as_mut();
        let judge = FactJudge { facts, snapshots, keyspaces, held, judged_bytes, container, moved };
        rewrite.step(&mut { judge })
    }

    /// Puts the new container into force (RW-3).
    fn install_rewrite(&self, rewriting: &Rewriting, done: Rewritten) -> Result<()> {
        // Removed with its last holder, unless the edit names it.
        let made = done.written.as_ref().map(|_| {
            ValueFile::new(&self.value_context, FileKind::ValueTable, rewriting.container)
        });
        let mut facts = FactBatch::new(KeyedHash::new(&self.uuid));
        facts.discard(rewriting.facts.discards());
        if planted!("gc_discards_late_facts") {
            rewriting.files().for_each(|(file, _)| facts.drop_file(file));
        }
        let mut sections = vec![ValuesEdit::encode(&edits_of(rewriting, done.written.as_ref()))];
        sections.extend(facts.encode());
        let before = self.view.load_full();
        // Before the edit (MO-5, MJ-3).
        let moves = self.begin_moves(&mut sections);
        let mapping = self.mapping.as_ref();
        let _arriving = mapping.map(|mapping| mapping.expect(rewriting.container));
        // Compaction may have found that nothing names some of them: all begins anew then.
        let is_unchanged = || {
            let files = &self.view.load().values;
            rewriting.victims.iter().all(|victim| victim.is_in_force(files))
        };
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        let is_done = self.commit_draft(draft, |_| Ok(Publication::default()));
        self.tell_map(rewriting, moves, matches!(is_done, Ok(true)));
        if !is_done? {
            return Ok(());
        }
        mark!("gc_container_in_force");
        if let Some(made) = made {
            made.keep();
        }
        self.note_rewrite(rewriting, &done);
        self.tell_locator(rewriting);
        if let Some(locating) = self.locating.as_ref().filter(|_| done.written.is_none()) {
            locating.left_dangling(rewriting.victims.iter().map(|v| v.refs(&before.values)).sum());
        }
        let is_in_vain = rewriting.victims.iter().all(|victim| victim.is_container())
            && done.records_dropped == 0
            && rewriting.held == 0
            // What flushes superseded may have been another key's: that is counted off now.
            && rewriting.superseded.values().all(|&records| records == 0);
        if is_in_vain {
            // Left alone from here on, or it would be done again and again.
            let message = "a value table has records that nothing names and no fact kills";
            let name = file_name(FileKind::ValueTable, rewriting.container);
            let error = Error::corruption(message).in_file(&self.dir.join(name));
            self.settle_collection(rewriting.container, error)?;
        }
        Ok(())
    }

    /// After the edit; where there was none, nothing has moved.
    fn tell_map(&self, rewriting: &Rewriting, moves: Option<Moves<Arc<Map>>>, is_done: bool) {
        let Some((mapping, moves)) = self.mapping.as_ref().zip(moves) else { return };
        if is_done {
            let moved = &rewriting.moved_in_map;
            moved.swing(mapping, &moves, &self.value_context.cache);
            mapping.kept_for(rewriting.container, moved.kept_bytes, self.snapshots.stripes());
        }
        moves.publish(mapping.generation());
        mapping.retain(&self.view.load().values);
        mapping.map.prune_chains(&Snapshots::new(self.snapshots.stripes()));
    }

    /// After the edit: until then places of the new container are nobody's (rule R17).
    fn tell_locator(&self, rewriting: &Rewriting) {
        let Some((locating, moved)) = self.locating.as_ref().zip(rewriting.moved.as_ref()) else {
            return;
        };
        moved.swing(locating, &self.value_context.cache);
        locating.collected(&rewriting.superseded);
        locating.retain(&self.view.load().values);
        locating.locator.prune_chains(self.snapshots.stripes().first().copied());
    }

    fn note_rewrite(&self, rewriting: &Rewriting, done: &Rewritten) {
        let figures = &self.metrics.collection;
        let relaxed = Ordering::Relaxed;
        figures.collected.fetch_add(rewriting.victims.len() as u64, relaxed);
        figures.records_moved.fetch_add(done.records_kept, relaxed);
        figures.bytes_moved.fetch_add(done.bytes_kept, relaxed);
        figures.records_dead.fetch_add(done.records_dropped, relaxed);
        figures.records_held.fetch_add(rewriting.held, relaxed);
        let freed = rewriting.judged_bytes.saturating_sub(done.bytes_kept);
        figures.removed(rewriting.victims.len() as u64, freed);
        tracing::info!(
            containers = rewriting.victims.len(),
            into = %rewriting.container,
            records_kept = done.records_kept,
            records_dropped = done.records_dropped,
            bytes_kept = done.bytes_kept,
            facts = rewriting.facts.counts().facts,
            "value files rewritten"
        );
    }
}

/// The container that an error names, among those that are rewritten together: the others are as
/// good as before.
fn blamed(victims: &[FileId], error: &Error) -> Option<FileId> {
    let name = error.file()?.file_name()?.to_str()?;
    let (kind, id) = parse_file_name(name)?;
    let is_source = matches!(kind, FileKind::Value | FileKind::ValueTable);
    (is_source && victims.contains(&id)).then_some(id)
}

/// What puts the files into the new container, or away where nothing survived.
fn edits_of(rewriting: &Rewriting, written: Option<&WrittenTable>) -> Vec<ValuesEdit> {
    let files = rewriting.files();
    let Some(WrittenTable { sealed, properties }) = written else {
        return files.map(|(id, _)| ValuesEdit::Removed { id }).collect();
    };
    let mut files: Vec<_> = files.map(|(id, epoch)| (id, epoch + 1)).collect();
    files.sort_unstable();
    let info = ContainerInfo { sealed: *sealed, totals: properties.totals, files };
    vec![ValuesEdit::Rewritten(Arc::new(info))]
}

impl Victim {
    /// Index entries that name its files.
    fn refs(&self, files: &ValueFiles) -> u64 {
        match files.get(self.id) {
            Some(entry) => entry.state.refs,
            None => files.refs_in(self.id).0,
        }
    }

    /// Whether it is a value table, not a segment.
    fn is_container(&self) -> bool {
        self.files.iter().all(|&(_, epoch)| epoch > 0)
    }

    /// Whether the table has it as it was when the rewrite began.
    fn is_in_force(&self, files: &ValueFiles) -> bool {
        let is_there = |&(id, epoch): &(FileId, u32)| match epoch {
            0 => files.get(id).is_some(),
            _ => files.get_moved(id).is_some_and(|file| file.epoch == epoch),
        };
        self.files.iter().all(is_there)
    }
}
