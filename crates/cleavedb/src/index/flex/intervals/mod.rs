//! The Flex index: every entry of a keyspace in order in a flexible space, found by a sparse index
//! in memory. The third layer of the paper, FlexDB, over tree and space.
//!
//! The space holds range tombstones, then groups of intervals; an interval is a few KiB of records,
//! named by a bound and found by a tag. A flush brings its entries to the intervals that they
//! belong to, in one group of operations that counts with the manifest edit that names it; there is
//! no level to merge into another one. What superseded entries leave behind goes when their
//! interval is written anew, what operations leave behind in segments goes by reclaim.
//!
//! Any number of threads read; a view is a tree, a sparse index and the files that these lead to,
//! none of which ever changes. Changes are made one at a time: from its preparation until it is
//! installed or dropped, a change has the space for itself. A flush may have threads bring in parts
//! of the key range side by side, for one group in the end. Invariants: FX-1 what is visible
//! changes by `install` alone. FX-2 a change that is dropped leaves the space as it was. FX-3 who
//! prepares a flush waits for a job, and a job never waits.

pub(crate) mod anchors;
mod apply;
mod cache;
mod cursor;
mod editor;
mod feed;
mod fetched;
mod few;
mod filter;
mod gathering;
mod jobs;
mod kept;
mod open;
mod parts;
mod pieces;
mod quiet;
pub(crate) mod run;
mod splices;
pub(crate) mod state;
mod superseded;
mod tail;
mod verify;
mod view;

use std::any::Any;
use std::time::Duration;

use crate::base::entry::Seq;
use crate::base::error::{Error, Result};
use crate::base::section::Section;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use crate::base::tombstone::{Fragments, RangeTombstone};
use crate::index::context::IndexContext;
use crate::index::flex::intervals::anchors::{Anchors, Mark};
use crate::index::flex::intervals::apply::{Applied, Applier, Judge};
use crate::index::flex::intervals::cache::IntervalCache;
use crate::index::flex::intervals::gathering::Gathering;
use crate::index::flex::intervals::jobs::Plans;
use crate::index::flex::intervals::parts::{Incoming, Numbers, Outcome, Scene, Share};
use crate::index::flex::intervals::state::{FlexState, encode_tombstones};
use crate::index::flex::intervals::view::{FlexView, Source};
use crate::index::flex::space::{Prepared as PreparedSpace, Space};
use crate::index::stripes::surviving_tombstones;
use crate::index::{
    Backlog, FlushInput, IndexJob, IndexView, KeyRange, Listener, OrderedIndex, Prepared,
    WorkReport,
};
use crate::io::Purpose;

pub(crate) use open::FlexSizes;

/// Sizes of intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlexLimits {
    /// Bytes of an interval from which it is split; one of a single key may be larger.
    pub(crate) interval_bytes_max: u64,
    /// Records behind those that are in order, at most 250: what a read sorts.
    pub(crate) tail_records_max: u16,
    /// Fragments of an interval from which it is written anew: what a read fetches.
    pub(crate) fragments_max: usize,
    /// Fragments from which an interval that was read past the cache is written in one piece.
    pub(crate) gathered_fragments_min: usize,
    /// Fragments beside the first ones that reads must have fetched of it before, at most 255.
    pub(crate) gathered_paid_min: usize,
    /// Bytes of such intervals that make a job: what is worth its syncs.
    pub(crate) gathered_bytes_min: u64,
    /// Intervals that work which rewrites them looks ahead at, to read them together.
    pub(crate) ahead_intervals_max: usize,
    /// Neighbours that work which goes over all of them reads together.
    pub(crate) together_intervals_max: usize,
    /// Bytes and groups of each part of a flush that is worth a thread and a segment of its own.
    pub(crate) part_bytes_min: u64,
    pub(crate) part_groups_min: usize,
    /// Threads there must be for each such part: the one that it runs on, and those that are left
    /// to who writes meanwhile.
    pub(crate) part_threads: usize,
    /// Intervals of a group.
    pub(crate) group_intervals_max: usize,
    /// Bytes of live data that a job moves, or of intervals that it looks at: how long a flush may
    /// have to wait for it.
    pub(crate) job_bytes_max: u64,
    /// Garbage up to which a reclaim has intervals written anew first, in percent of what is left
    /// alone.
    pub(crate) rewrite_garbage_percent_max: u64,
}

impl FlexLimits {
    /// What a database uses. An interval is a block and a half of the device: a read of a whole one
    /// is two or three. Thirty appends before it is written anew: mostly it is full before that,
    /// and is written once, in two. (With fifteen, as in the paper, a random load wrote half as
    /// much again.) Five if reads have fetched eight too many: about what it takes to write it.
    pub(crate) const USUAL: Self = Self {
        interval_bytes_max: 6 << 10,
        tail_records_max: 30,
        fragments_max: 31,
        gathered_fragments_min: 5,
        gathered_paid_min: 8,
        gathered_bytes_min: 1 << 20,
        ahead_intervals_max: 1,
        together_intervals_max: 32,
        part_bytes_min: 512 << 10,
        part_groups_min: 8,
        part_threads: 2,
        group_intervals_max: 64,
        job_bytes_max: 16 << 20,
        rewrite_garbage_percent_max: 125,
    };

    /// Past the page cache each fragment is a read of the device, and two of them come to what it
    /// costs to write an interval anew; there a device gives several times as much to who asks for
    /// many at once, and a part of a flush mostly waits for it. (Through the page cache, two parts
    /// on two processors took a tenth more of these a put and brought in no more.)
    fn where_reads_are(self, direct: bool) -> Self {
        let (fragments, paid, ahead, threads) =
            if direct { (2, 2, 32, 1) } else { (usize::MAX, usize::MAX, 1, usize::MAX) };
        Self {
            ahead_intervals_max: self.ahead_intervals_max.max(ahead),
            gathered_fragments_min: self.gathered_fragments_min.min(fragments),
            gathered_paid_min: self.gathered_paid_min.min(paid),
            part_threads: self.part_threads.min(threads),
            ..self
        }
    }
}

/// A Flex index of one keyspace.
pub(crate) struct FlexIndex {
    shared: Arc<Shared>,
}

/// What the index, its changes and its jobs share.
struct Shared {
    context: IndexContext,
    limits: FlexLimits,
    cache: Arc<IntervalCache>,
    gathering: Arc<Gathering>,
    writer: Mutex<Writer>,
    /// Told when the space is nobody's any more.
    released: Condvar,
    current: RwLock<Arc<FlexView>>,
    plans: Mutex<Plans>,
}

/// Who may change the space.
struct Writer {
    space: Space,
    /// A change is prepared and not installed yet.
    is_taken: bool,
    /// Stamp of the last contents there were.
    last_stamp: u64,
}

/// What a change makes of the index.
struct Next {
    prepared: PreparedSpace,
    anchors: Arc<Anchors>,
    tombstones: Arc<Fragments>,
    tombstone_bytes: u64,
    state: FlexState,
    /// Stamps of contents that were in the cache, and of those that took their place there.
    carried: Vec<(u64, u64)>,
    /// What listeners of parts had to say.
    sections: Vec<Section>,
}

/// A prepared change; takes itself back unless it is installed.
struct FlexChange {
    shared: Arc<Shared>,
    next: Option<Next>,
    /// What the plans are to be told of.
    done: jobs::Done,
    /// Held until the change is installed or dropped (J-1).
    _picked: Option<Arc<jobs::Picked>>,
}

impl Drop for FlexChange {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            let mut writer = self.shared.writer.lock();
            writer.space.withdraw(next.prepared);
            writer.is_taken = false;
            self.shared.released.notify_all();
        }
    }
}

/// What a change does to the intervals.
struct Work<'a> {
    /// What comes.
    incoming: Option<Incoming<'a>>,
    /// All range tombstones that are in force meanwhile.
    tombstones: &'a Fragments,
    /// Those that come with the entries: newer than all that is there.
    fresh: &'a Fragments,
    /// Those that are left afterwards.
    kept: Vec<RangeTombstone>,
    stripes: &'a [Seq],
    cancelled: Option<&'a crate::base::sync::atomic::AtomicBool>,
    purpose: Purpose,
    /// Largest seq that comes.
    largest_seq: Seq,
}

impl Shared {
    fn current(&self) -> Arc<FlexView> {
        self.current.read().clone()
    }

    /// Whether the disk is full: room is to be got back, and little of it to be taken.
    fn is_disk_full(&self) -> bool {
        self.context.is_disk_full.load(Ordering::Acquire)
    }

    /// The space, when it is nobody's.
    fn wait_for_writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        while writer.is_taken {
            self.released.wait(&mut writer);
        }
        writer
    }

    /// Changes intervals, and makes that durable. Whatever fails, the space is as it was.
    fn prepare(
        &self,
        writer: &mut Writer,
        view: &FlexView,
        work: Work<'_>,
        listener: &mut dyn Listener,
        run: impl FnOnce(&mut Applier<'_>) -> Result<()>,
    ) -> Result<(Next, Applied)> {
        let done = self.change(writer, view, work, listener, run);
        if done.is_err() {
            writer.space.roll_back();
        }
        done
    }

    fn change(
        &self,
        writer: &mut Writer,
        view: &FlexView,
        work: Work<'_>,
        listener: &mut dyn Listener,
        run: impl FnOnce(&mut Applier<'_>) -> Result<()>,
    ) -> Result<(Next, Applied)> {
        let is_same = work.kept == view.tombstones.tombstones();
        let bytes = encode_tombstones(&work.kept);
        if !is_same {
            let space = writer.space.making()?;
            space.update(0..view.tombstone_bytes, &bytes, 0)?;
            let tag = Mark::Tombstones.tag().filter(|_| !bytes.is_empty());
            if tag.is_some() && space.tree().tag(0) != tag {
                space.set_tag(0, tag)?;
            }
        }
        let tombstone_bytes = bytes.len() as u64;
        let numbers = Numbers::new(view.state.last_group, writer.last_stamp);
        let scene = Scene {
            source: &view.source,
            limits: self.limits,
            cache: &self.cache,
            judge: Judge {
                snapshots: work.stripes,
                tombstones: work.tombstones,
                fresh: work.fresh,
                operator: self.context.operator.clone(),
                cancelled: work.cancelled,
            },
            purpose: work.purpose,
            numbers: &numbers,
            first: tombstone_bytes,
            executor: &self.context.io.executor,
        };
        let done = match &work.incoming {
            Some(incoming) => scene.bring_in(&mut writer.space, incoming, listener),
            None => {
                let whole = Share::whole(&view.source.anchors, tombstone_bytes);
                scene.run(writer.space.making()?, &whole, listener, run)
            }
        };
        let last_group;
        // A change that fails or is taken back has used its stamps up: what it put into the cache
        // is nobody's.
        (last_group, writer.last_stamp) = numbers.last();
        let Outcome { groups, carried, applied, sections } = done?;
        let prepared = writer.space.commit()?;
        let mut state = view.state;
        state.totals.change(applied.come, applied.gone);
        state.space = prepared.state();
        state.last_group = last_group;
        state.largest_seq = state.largest_seq.max(work.largest_seq).max(applied.largest_seq);
        let tombstones = match is_same {
            true => Arc::clone(&view.tombstones),
            false => Arc::new(Fragments::build(work.kept)),
        };
        let anchors = Arc::new(Anchors::new(groups, tombstone_bytes));
        let next =
            Next { prepared, anchors, tombstones, tombstone_bytes, state, carried, sections };
        Ok((next, applied))
    }

    /// Makes a change of what is prepared: dropping it takes it back.
    fn hand_over(
        self: &Arc<Self>,
        mut writer: MutexGuard<'_, Writer>,
        next: Next,
        done: jobs::Done,
        picked: Option<Arc<jobs::Picked>>,
    ) -> FlexChange {
        writer.is_taken = true;
        drop(writer);
        FlexChange { shared: Arc::clone(self), next: Some(next), done, _picked: picked }
    }

    /// A change with the section that makes it count.
    fn described(&self, change: FlexChange, report: WorkReport) -> Prepared {
        let section = change.next.as_ref().map(|next| next.state.encode(self.context.keyspace));
        Prepared { sections: section.into_iter().collect(), change: Box::new(change), report }
    }
}

impl OrderedIndex for FlexIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        self.shared.current()
    }

    fn apply_flush(&self, input: FlushInput<'_>) -> Result<Prepared> {
        let FlushInput { entries, bytes, is_waited_for, tombstones, stripes, listeners } = input;
        let mut listener = listeners();
        let mut writer = self.shared.wait_for_writer();
        let view = self.shared.current();
        let newest = tombstones.iter().map(|tombstone| tombstone.seq).max().unwrap_or(0);
        let mut all = view.tombstones.tombstones();
        all.extend(tombstones.iter().cloned());
        let fresh = Fragments::build(tombstones);
        let fragments = Fragments::build(all);
        let is_empty = view.source.anchors.groups().is_empty();
        let kept = surviving_tombstones(&fragments, stripes, |_, _| !is_empty, &mut *listener);
        let shared = &self.shared;
        let work = Work {
            incoming: Some(Incoming {
                entries: &*entries,
                listeners: &*listeners,
                bytes,
                is_waited_for,
                // Each part begins a segment of its own.
                is_one_part: shared.is_disk_full(),
            }),
            tombstones: &fragments,
            fresh: &fresh,
            kept,
            stripes,
            cancelled: None,
            purpose: Purpose::Flush,
            largest_seq: newest,
        };
        let (mut next, applied) =
            shared.prepare(&mut writer, &view, work, &mut *listener, |_| Ok(()))?;
        let of_parts = std::mem::take(&mut next.sections);
        let done = jobs::Done::Flush(applied.bytes_in);
        let change = shared.hand_over(writer, next, done, None);
        let facts = listener.finish()?;
        let mut prepared = shared.described(change, applied.report("flush", "memtable"));
        prepared.sections.extend(facts.into_iter().chain(of_parts));
        Ok(prepared)
    }

    fn pick_job(&self) -> Option<Box<dyn IndexJob>> {
        jobs::pick(&self.shared)
    }

    fn pick_reclaim(&self) -> Option<Box<dyn IndexJob>> {
        jobs::pick_reclaim(&self.shared)
    }

    fn install(&self, change: Box<dyn Any + Send>) -> Result<()> {
        let mut change = change
            .downcast::<FlexChange>()
            .map_err(|_| Error::invalid("a change of another kind of index"))?;
        let Some(next) = change.next.take() else {
            self.shared.plans.lock().installed(None, &change.done);
            return Ok(());
        };
        let mut writer = self.shared.writer.lock();
        writer.is_taken = false;
        let published = writer.space.publish(next.prepared);
        self.shared.released.notify_all();
        published?;
        let view = FlexView {
            source: Arc::new(Source {
                space: writer.space.view(),
                cache: Arc::clone(&self.shared.cache),
                gathering: Arc::clone(&self.shared.gathering),
                anchors: next.anchors,
            }),
            pins: writer.space.pins(),
            tombstones: next.tombstones,
            tombstone_bytes: next.tombstone_bytes,
            state: next.state,
        };
        *self.shared.current.write() = Arc::new(view);
        let figures = jobs::Figures::of(&writer.space);
        drop(writer);
        self.shared.cache.carry(&next.carried);
        self.shared.plans.lock().installed(Some(figures), &change.done);
        Ok(())
    }

    fn buckets_changed(&self) {
        self.shared.plans.lock().look_again();
    }

    fn request_compaction(&self, range: KeyRange, _orders: bool) -> u64 {
        self.shared.plans.lock().request(range)
    }

    fn compaction_done(&self, ticket: u64) -> bool {
        self.shared.plans.lock().is_done(ticket)
    }

    fn backlog(&self) -> Backlog {
        self.shared.plans.lock().backlog()
    }

    fn reads_want_work(&self) -> bool {
        self.shared.gathering.is_due()
    }

    fn note_quiet(&self) -> bool {
        let data_bytes = self.shared.current().source.space.tree().length();
        self.shared.plans.lock().note_quiet(&self.shared.limits, data_bytes)
    }

    fn note_time(&self, now: Duration) -> bool {
        self.shared.plans.lock().note_time(now)
    }

    fn snapshot_sections(&self) -> Vec<Section> {
        vec![self.shared.current().state.encode(self.shared.context.keyspace)]
    }

    fn replay_floor(&self) -> Seq {
        // The logical log says what was done to the tree; entries come from the journal alone.
        0
    }

    fn retire(&self) {
        self.shared.writer.lock().space.retire();
    }
}

#[cfg(test)]
mod tests;
