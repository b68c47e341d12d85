//! Relocation: a compaction of the last level that was asked to puts the values of its entries in
//! the entries' order, so that scans read neighbours together. Only where they are not in order
//! already; and only for strategies that go by facts.
//!
//! Invariants, the rules being those of the design:
//! RL-1 a record keeps key and seq; it goes into a file of a new number, in a container of its own.
//! RL-2 one edit has the new container, the new handles, the counts of both files, and the fact
//!      that exactly this record was moved out of its old file (rules R7, R8).
//! RL-3 views of before pin what they read; a crash leaves at most containers that nothing names.
//! RL-4 a record that cannot be had stays what it is: of an entry that no live view sees it may be
//!      gone (rule R19), and damage is told by whoever wants the value.

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
use crate::engine::locate::swing::Moved;
use crate::index::Passing;
use crate::io::Purpose;
use crate::io::meter::HeldMemory;
use crate::values::drops::batch::FactBatch;
use crate::values::edit::{ContainerInfo, ValuesEdit};
use crate::values::file::{ValueContext, ValueFile};
use crate::values::file_table::ValueFiles;
use crate::values::handle::Handle;
use crate::values::locator::place::Place;
use crate::values::reader::records::StoredRecord;
use crate::values::reader::{ValueReader, Wanted};
use crate::values::ref_changes::RefChanges;
use crate::values::strategy::{Collects, Strategy};
use crate::values::table::writer::{GROUP_BYTES, ValueTableOptions, ValueTableWriter};
use crate::values::tail_buffer::TailBuffer;

/// Records this part of a good read apart are read in one piece, as a scan does.
const GAP_PART: u64 = 4;

/// Bytes of records that are read together, at most, one record excepted.
const READ_BYTES: u64 = 4 << 20;

/// The part of the memory budget for that.
const MEMORY_PART: u64 = 32;

/// The part of the memory budget, for each part of a compaction, in which the locator's news are
/// noted: of four values of 1 KiB for each KiB of the budget.
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
    done: Mutex<Done>,
}

/// What the parts have done, which counts once the edit is durable.
#[derive(Default)]
struct Done {
    made: Vec<Arc<ValueFile>>,
    moved: Vec<Moved>,
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
    held: HeldMemory,
}

/// What a listener keeps account of.
pub(crate) struct Account<'a> {
    /// Index entries by file.
    pub(crate) changes: &'a mut RefChanges,
    /// What is to be known of the records that were left.
    pub(crate) facts: &'a mut FactBatch,
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
            held: HeldMemory::new(&self.context.io.meter, Purpose::Compaction),
        }
    }

    /// Whether any part has written anything.
    fn has_written(&self) -> bool {
        !self.done.lock().made.is_empty()
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
            let handle = self.handle(entry);
            bytes += handle.map_or(0, |handle| u64::from(handle.bytes));
            if bytes > self.all.read_bytes && rest.start > start {
                break;
            }
            rest.start += 1;
        }
        start..rest.start
    }

    fn handle(&self, entry: &Passing) -> Option<Handle> {
        if entry.kind != Kind::PutSeparated {
            return None;
        }
        // What cannot be resolved fails the compaction elsewhere.
        let handle = self.all.strategy.resolve(&entry.value).ok()?;
        (!handle.is_large()).then_some(handle)
    }

    fn order_batch(&mut self, entries: &mut [Passing], account: &mut Account<'_>) -> Result<()> {
        let all = Arc::clone(&self.all);
        let reader = ValueReader { context: &all.context, files: &all.files, tail: &all.tail };
        let named: Vec<(usize, Handle)> = entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| Some((number, self.handle(entry)?)))
            .collect();
        let wanted: Vec<Wanted<'_>> = named
            .iter()
            .filter_map(|&(number, handle)| {
                let Passing { key, seq, .. } = entries.get(number)?;
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
            let Some(&(entry, handle)) = named.get(number) else { continue };
            let Some(entry) = entries.get_mut(entry) else { continue };
            match record {
                Ok(record) => self.relocate(entry, &handle, &record, account)?,
                Err(error) => {
                    mark!("values_left_unordered");
                    tracing::debug!(%error, "a value stays where it is");
                }
            }
        }
        self.held.set(self.memory_bytes());
        Ok(())
    }

    /// Writes a record anew, and gives its entry the new handle.
    fn relocate(
        &mut self,
        entry: &mut Passing,
        before: &Handle,
        record: &StoredRecord,
        account: &mut Account<'_>,
    ) -> Result<()> {
        mark!("value_relocated");
        let container_bytes = self.all.container_bytes;
        let (file, writer) = self.writer()?;
        let now = writer.add(file, &record.record()?, record.body)?;
        let is_full = writer.estimated_bytes() >= container_bytes;
        let container = writer.container();
        let handle = Handle { file, epoch: FIRST_EPOCH, offset: now.offset, bytes: now.bytes };
        entry.value = handle.encode().to_vec();
        let strategy = &self.all.strategy;
        if !planted!("relocation_keeps_counts") {
            strategy.died(before, account.changes);
            strategy.born(&handle, account.changes);
        }
        if !planted!("relocated_record_not_stated") {
            account.facts.add_moved(before.file, self.keyspace, &entry.key, entry.seq);
        }
        if let Some(moved) = &mut self.moved {
            let from = Place::of(record.container, record.offset, record.bytes());
            let to = Place::of(container, now.offset, now.bytes);
            moved.note(self.keyspace, &entry.key, from, to);
        }
        self.done.records += 1;
        self.done.bytes += u64::from(now.bytes);
        if is_full {
            self.end_container()?;
        }
        Ok(())
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
        self.moved.as_ref().map_or(0, |moved| moved.memory_bytes() as u64)
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
        done.records += self.done.records;
        done.bytes += self.done.bytes;
        Ok((!edits.is_empty()).then(|| ValuesEdit::encode(&edits)))
    }
}

impl Engine {
    /// Whether `compact` is to put the values of a keyspace in order.
    pub(crate) fn orders_values(&self, keyspace: &KeyspaceState) -> bool {
        let goes_by_facts = matches!(self.strategy.collection(), Collects::Facts);
        goes_by_facts
            && keyspace.placement.separate_at.is_some()
            && self.view.load().values.are_named()
    }

    /// The relocation of a compaction that is about to begin, should it be one that orders values.
    pub(crate) fn begin_relocations(&self, keyspace: &KeyspaceState) -> Option<Arc<Relocations>> {
        let has_room = !self.reserve.is_given_up() && !self.relocation_found_full();
        if !has_room || !self.orders_values(keyspace) {
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
            done: Mutex::new(Done::default()),
        }))
    }

    /// A compaction has ended: its edit is durable, or what it wrote is of no use.
    pub(crate) fn end_relocations(&self, relocations: &Relocations, outcome: &Result<()>) {
        if let Err(error) = outcome {
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
