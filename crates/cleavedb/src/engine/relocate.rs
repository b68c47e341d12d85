//! Relocation: a compaction of the last level that was asked to puts the values of its entries in
//! the entries' order, so that scans read neighbours together. Only where they are not in order
//! already; and only for strategies that go by facts, or by the map. Where entries are bare, the
//! map says where their records stand, and is told where they went.
//!
//! Invariants, the rules being those of the design:
//! RL-1 a record keeps key and seq; it goes into a file of a new number, in a container of its own.
//! RL-2 one edit has the new container, the new handles, the counts of both files, and the fact
//!      that exactly this record was moved out of its old file (rules R7, R8). Where there is a
//!      map, it is told after the edit, of each record by its exact old place: what a flush or a
//!      collection has put there since stays (rule R23). From before the edit until then the new
//!      containers count as named, and nobody collects them.
//! RL-3 views of before pin what they read; a crash leaves at most containers that nothing names.
//! RL-4 a record that cannot be had stays what it is: of an entry that no live view sees it may be
//!      gone (rule R19), and damage is told by whoever wants the value. So does one that there is
//!      no memory left to tell the map of: the next compaction that orders values goes on there.

use std::ops::Range;

use crate::base::entry::{FileId, KeyspaceId, Kind};
use crate::base::error::{ErrorKind, Result};
use crate::base::file_ids::FileIds;
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::locate::edit::LocatorEdit;
use crate::engine::locate::swing::Moved;
use crate::engine::mapping::find::handle_at;
use crate::engine::mapping::moved::MovedInMap;
use crate::engine::mapping::{Arriving, Mapping};
use crate::index::Passing;
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::drops::batch::FactBatch;
use crate::values::edit::{ContainerInfo, ValuesEdit};
use crate::values::file::{ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::locator::place::Place;
use crate::values::map::{Map, Moves, place};
use crate::values::reader::records::StoredRecord;
use crate::values::reader::{ValueReader, Wanted};
use crate::values::ref_changes::RefChanges;
use crate::values::strategy::Strategy;
use crate::values::table::writer::{GROUP_BYTES, TablePlace, ValueTableOptions, ValueTableWriter};
use crate::values::tail_buffer::TailBuffer;

/// Records this part of a good read apart are read in one piece, as a scan does.
const GAP_PART: u64 = 4;

/// Bytes of records that are read together, at most, one record excepted.
const READ_BYTES: u64 = 4 << 20;

/// The part of the memory budget for that.
const MEMORY_PART: u64 = 32;

/// The part of the memory budget, for each part of a compaction, in which the news for locator or
/// map are noted: of four values of 1 KiB for each KiB of the budget.
const MOVED_PART: u64 = 16;

/// The epoch of a file that was never anywhere but in its container.
const FIRST_EPOCH: u32 = 1;

/// The relocation of one compaction, shared by its parts.
pub(crate) struct Relocations {
    context: Arc<ValueContext>,
    /// Pinned: what the entries name.
    files: Arc<ValueFiles>,
    /// Empty: all that is in an index is in its file, too.
    tail: TailBuffer,
    file_ids: Arc<FileIds>,
    strategy: Arc<dyn Strategy>,
    /// Bytes at which a container is ended and the next begun.
    container_bytes: u64,
    read_bytes: u64,
    /// Values of which a device read brings so many bytes on average are in order already: a scan
    /// would gain nothing worth writing them anew.
    order_bytes: u64,
    moved_bytes: usize,
    direct: bool,
    /// Whether there is a locator to be told.
    tells_locator: bool,
    /// The map that is to be told.
    mapping: Option<Arc<Mapping>>,
    done: Mutex<Done>,
    telling: Mutex<Telling>,
}

/// The map is about to be told.
#[derive(Default)]
struct Telling {
    moves: Option<Moves<Arc<Map>>>,
    arriving: Vec<Arriving>,
}

/// What the parts have done, which counts once the edit is durable.
#[derive(Default)]
struct Done {
    made: Vec<Arc<ValueFile>>,
    moved: Vec<Moved>,
    moved_in_map: Vec<MovedInMap>,
    records: u64,
    bytes: u64,
}

/// The relocation of one part of a compaction.
pub(crate) struct Relocation {
    all: Arc<Relocations>,
    keyspace: KeyspaceId,
    /// The container that is being written, and its only file.
    open: Option<(FileId, ValueTableWriter)>,
    containers: Vec<ContainerInfo>,
    done: Done,
    moved: Option<Moved>,
    moved_in_map: MovedInMap,
    held: HeldMemory,
}

/// What an entry names.
#[derive(Clone, Copy)]
struct Named {
    /// Its number among the entries.
    entry: usize,
    handle: Handle,
    /// Where the map has it; `None` if the entry has the handle.
    place: Option<place::Place>,
}

/// What a listener keeps account of.
pub(crate) struct Account<'a> {
    /// Index entries by file.
    pub(crate) changes: &'a mut RefChanges,
    /// What is to be known of the records that were left, where facts say so.
    pub(crate) facts: Option<&'a mut FactBatch>,
}

impl Relocations {
    /// The relocation of a part of the compaction.
    pub(crate) fn part(self: &Arc<Self>, keyspace: KeyspaceId) -> Relocation {
        Relocation {
            all: Arc::clone(self),
            keyspace,
            open: None,
            containers: Vec::new(),
            done: Done::default(),
            moved: self.tells_locator.then(|| Moved::new(self.moved_bytes)),
            moved_in_map: MovedInMap::default(),
            held: HeldMemory::new(&self.context.io.meter, Purpose::Compaction),
        }
    }

    /// Whether any part has written anything.
    fn has_written(&self) -> bool {
        !self.done.lock().made.is_empty()
    }

    /// The edit is about to be made: where the map is to be told after it, what it has to say of
    /// that (MO-5, MJ-3).
    pub(crate) fn before_edit(&self) -> Option<Section> {
        let mapping = self.mapping.as_ref().filter(|_| self.has_written())?;
        let made = &self.done.lock().made;
        *self.telling.lock() = Telling {
            moves: Moves::begin(Arc::clone(&mapping.map)),
            arriving: made.iter().map(|file| mapping.expect(file.id())).collect(),
        };
        Some(LocatorEdit::Touched.encode())
    }

    /// After the edit, if there was one.
    fn tell_map(&self, done: Option<&Done>, engine: &Engine) {
        let Telling { moves, arriving } = std::mem::take(&mut *self.telling.lock());
        let Some((mapping, moves)) = self.mapping.as_ref().zip(moves) else { return };
        // What was of a keyspace that has been dropped since may be gone.
        let view = engine.view.load();
        let is_there = |file: &Arc<ValueFile>| view.values.container(file.id()).is_some();
        let done = done.filter(|done| done.made.iter().all(is_there));
        for moved in done.map(|done| &done.moved_in_map).into_iter().flatten() {
            let kept = moved.swing(mapping, &moves, &self.context.cache);
            for (container, bytes) in kept {
                mapping.kept_for(container, bytes, engine.snapshots.stripes());
            }
        }
        moves.publish(mapping.generation());
        drop(arriving);
    }
}

impl Relocation {
    /// Puts what these entries name in their order, where it is not.
    pub(crate) fn order(
        &mut self,
        entries: &mut [Passing],
        account: &mut Account<'_>,
    ) -> Result<()> {
        let mut rest = 0..entries.len();
        while !rest.is_empty() {
            let batch = self.next_batch(entries, &mut rest);
            if let Some(entries) = entries.get_mut(batch) {
                self.order_batch(entries, account)?;
            }
        }
        Ok(())
    }

    /// The next entries whose records can be read together.
    fn next_batch(&self, entries: &[Passing], rest: &mut Range<usize>) -> Range<usize> {
        let start = rest.start;
        let mut bytes = 0;
        for entry in entries.get(rest.clone()).unwrap_or_default() {
            let named = self.named((0, entry));
            bytes += named.map_or(0, |named| u64::from(named.handle.bytes));
            if bytes > self.all.read_bytes && rest.start > start {
                break;
            }
            rest.start += 1;
        }
        start..rest.start
    }

    fn named(&self, (entry, passing): (usize, &Passing)) -> Option<Named> {
        let all = &self.all;
        if passing.kind == Kind::PutSeparated {
            // What cannot be resolved fails the compaction elsewhere.
            let handle = all.strategy.resolve(&passing.value).ok()?;
            return (!handle.is_large()).then_some(Named { entry, handle, place: None });
        }
        let mapping = all.mapping.as_ref().filter(|_| passing.kind == Kind::PutBare)?;
        if self.moved_in_map.used_bytes() >= all.moved_bytes {
            return None;
        }
        let key = mapping.key(self.keyspace, &passing.key);
        let place = mapping.place_of(&key, passing.seq)?;
        // One that was collected since the files were pinned is in order there.
        let handle = handle_at(&all.files, &place)?;
        Some(Named { entry, handle, place: Some(place) })
    }

    fn order_batch(&mut self, entries: &mut [Passing], account: &mut Account<'_>) -> Result<()> {
        let all = Arc::clone(&self.all);
        let reader = ValueReader { context: &all.context, files: &all.files, tail: &all.tail };
        let named: Vec<Named> =
            entries.iter().enumerate().filter_map(|entry| self.named(entry)).collect();
        let wanted: Vec<Wanted<'_>> = named
            .iter()
            .filter_map(|&Named { entry, handle, .. }| {
                let Passing { key, seq, .. } = entries.get(entry)?;
                Some(Wanted { handle, keyspace: self.keyspace, key, seq: *seq })
            })
            .collect();
        let gap_bytes = all.order_bytes / GAP_PART;
        let plan = reader.plan_records(&wanted, gap_bytes, Purpose::Compaction);
        // One more where a container ends among them.
        if plan.needless_reads(all.order_bytes) <= 1 {
            mark!("values_in_order_already");
            return Ok(());
        }
        self.held.set(plan.bytes() + self.memory_bytes());
        let mut records = reader.read_records(&plan, &wanted, Purpose::Compaction);
        records.sort_unstable_by_key(|(number, _)| *number);
        for (number, record) in records {
            let Some(named) = named.get(number) else { continue };
            let Some(entry) = entries.get_mut(named.entry) else { continue };
            match record {
                Ok(record) => self.relocate(entry, named, &record, account)?,
                Err(error) => {
                    mark!("values_left_unordered");
                    tracing::debug!(%error, "a value stays where it is");
                }
            }
        }
        self.held.set(self.memory_bytes());
        Ok(())
    }

    /// Writes a record anew, and gives its entry the new handle, if it has one.
    fn relocate(
        &mut self,
        entry: &mut Passing,
        named: &Named,
        record: &StoredRecord,
        account: &mut Account<'_>,
    ) -> Result<()> {
        mark!("value_relocated");
        let container_bytes = self.all.container_bytes;
        let (file, writer) = self.writer()?;
        let now = writer.add(file, &record.record()?, record.body)?;
        let is_full = writer.estimated_bytes() >= container_bytes;
        let container = writer.container();
        let TablePlace { offset, bytes } = now;
        match named.place {
            Some(from) => {
                mark!("bare_entry_relocated");
                let to = place::Place { container, file, offset, bytes };
                self.moved_in_map.note(self.keyspace, &entry.key, from, to);
            }
            None => {
                let now = Handle { file, epoch: FIRST_EPOCH, offset, bytes };
                self.hand_over(entry, &named.handle, &now, account);
            }
        }
        if let Some(moved) = &mut self.moved {
            let from = Place::of(record.container, record.offset, record.bytes());
            let to = Place::of(container, offset, bytes);
            moved.note(self.keyspace, &entry.key, from, to);
        }
        self.done.records += 1;
        self.done.bytes += u64::from(bytes);
        if is_full {
            self.end_container()?;
        }
        Ok(())
    }

    /// Gives an entry the handle of where its record is now.
    fn hand_over(
        &self,
        entry: &mut Passing,
        before: &Handle,
        now: &Handle,
        account: &mut Account<'_>,
    ) {
        entry.value = now.encode().to_vec();
        let strategy = &self.all.strategy;
        if !planted!("relocation_keeps_counts") {
            strategy.died(before, account.changes);
            strategy.born(now, account.changes);
        }
        if let Some(facts) = &mut account.facts
            && !planted!("relocated_record_not_stated")
        {
            facts.add_moved(before.file, self.keyspace, &entry.key, entry.seq);
        }
    }

    /// The container that is being written, and the number of its file.
    fn writer(&mut self) -> Result<(FileId, &mut ValueTableWriter)> {
        if self.open.is_none() {
            let (all, context) = (&self.all, &self.all.context);
            let (file, container) = (all.file_ids.next(), all.file_ids.next());
            let options = ValueTableOptions {
                uuid: context.uuid,
                container,
                sources: vec![file],
                group_bytes: GROUP_BYTES,
                purpose: Purpose::Compaction,
                direct: all.direct,
                limited: true,
            };
            let path = context.dir.join(file_name(FileKind::ValueTable, container));
            self.open = Some((file, ValueTableWriter::create(&context.io, &path, &options)?));
        }
        match &mut self.open {
            Some((file, writer)) => Ok((*file, writer)),
            None => Err(crate::base::error::Error::invalid("no value table is being written")),
        }
    }

    fn end_container(&mut self) -> Result<()> {
        let Some((file, writer)) = self.open.take() else { return Ok(()) };
        let written = writer.finish()?;
        // Removed with its last holder, unless the edit names it.
        let made = ValueFile::new(&self.all.context, FileKind::ValueTable, written.sealed.id);
        self.done.made.push(made);
        self.containers.push(ContainerInfo {
            sealed: written.sealed,
            totals: written.properties.totals,
            files: vec![(file, FIRST_EPOCH)],
        });
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let of_locator = self.moved.as_ref().map_or(0, Moved::memory_bytes);
        (of_locator + self.moved_in_map.memory_bytes()) as u64
    }

    /// Ends the last container; what the edit has to say of all of them before anything is counted
    /// of their files.
    pub(crate) fn finish(mut self) -> Result<Option<Section>> {
        self.end_container()?;
        let edits: Vec<_> = std::mem::take(&mut self.containers)
            .into_iter()
            .map(|info| ValuesEdit::Held(Arc::new(info)))
            .collect();
        let mut done = self.all.done.lock();
        done.made.append(&mut self.done.made);
        done.moved.extend(self.moved.take());
        done.moved_in_map.push(std::mem::take(&mut self.moved_in_map));
        done.records += self.done.records;
        done.bytes += self.done.bytes;
        Ok((!edits.is_empty()).then(|| ValuesEdit::encode(&edits)))
    }
}

impl Engine {
    /// Whether `compact` is to put the values of a keyspace in order.
    pub(crate) fn orders_values(&self, keyspace: &KeyspaceState) -> bool {
        let is_mapped = || self.mapping.as_ref().is_some_and(|mapping| mapping.live().records > 0);
        self.strategy.collection().moves_records()
            && keyspace.placement.separate_at.is_some()
            && (self.view.load().values.are_named() || is_mapped())
    }

    /// The relocation of a compaction that is about to begin, should it be one that orders values.
    pub(crate) fn begin_relocations(&self, keyspace: &KeyspaceState) -> Option<Arc<Relocations>> {
        let has_room = !self.reserve.is_given_up() && !self.relocation_found_full();
        // What a map that is still to be loaded says is no answer, and nobody may tell it anything.
        let is_waiting = self.mapping.as_ref().is_some_and(|mapping| mapping.map.is_waiting());
        if !has_room || is_waiting || !self.orders_values(keyspace) {
            return None;
        }
        let budget = self.settings.memory_budget;
        Some(Arc::new(Relocations {
            context: Arc::clone(&self.value_context),
            files: Arc::clone(&self.view.load().values),
            tail: TailBuffer::new(0),
            file_ids: Arc::clone(&self.file_ids),
            strategy: Arc::clone(&self.strategy),
            container_bytes: self.widths.value_segment_bytes,
            order_bytes: self.widths.value_order_bytes,
            read_bytes: (budget / MEMORY_PART).min(READ_BYTES),
            moved_bytes: (budget / MOVED_PART) as usize,
            direct: self.settings.direct_writes,
            tells_locator: self.locating.is_some(),
            mapping: self.mapping.clone(),
            done: Mutex::new(Done::default()),
            telling: Mutex::new(Telling::default()),
        }))
    }

    /// A compaction has ended: its edit is durable and has what was written (true), or that is of
    /// no use, and goes at once.
    pub(crate) fn end_relocations(&self, relocations: Arc<Relocations>, outcome: &Result<bool>) {
        if matches!(outcome, Ok(false)) && relocations.has_written() {
            relocations.tell_map(None, self);
            drop(relocations);
            self.remove_obsolete();
            return;
        }
        if let Err(error) = outcome {
            relocations.tell_map(None, self);
            if error.kind() == ErrorKind::NoSpace {
                mark!("relocation_found_full");
                self.scattered.found_full.store(true, Ordering::Release);
            }
            return;
        }
        if !relocations.has_written() {
            return;
        }
        mark!("relocation_in_force");
        let done = std::mem::take(&mut *relocations.done.lock());
        done.made.iter().for_each(|file| file.keep());
        relocations.tell_map(Some(&done), self);
        let figures = &self.metrics.collection;
        figures.records_relocated.fetch_add(done.records, Ordering::Relaxed);
        figures.bytes_relocated.fetch_add(done.bytes, Ordering::Relaxed);
        if let Some(locating) = &self.locating {
            // After the edit: until then places of the new containers are nobody's (rule R17).
            let cache = &self.value_context.cache;
            done.moved.iter().for_each(|moved| moved.swing(locating, cache));
        }
    }

    pub(crate) fn relocation_found_full(&self) -> bool {
        self.scattered.found_full.load(Ordering::Acquire)
    }
}
