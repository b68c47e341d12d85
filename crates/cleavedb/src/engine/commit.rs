//! Commit: a leader takes the queue, writes one group with one call, hands leadership on, and
//! only then inserts into the memtable, so that the next group is written meanwhile.
//!
//! Invariants: M1 seqs are contiguous in log order; a group that failed before it was logged takes
//! none. M2 visibility advances in seq order and never goes back: a group publishes when its
//! predecessor has, one without operations not at all. M3 no group is logged after one whose sync
//! failed (the leader checks health first). M4 a lone writer pays no hand-over: it finds no leader,
//! leads, and wakes nobody. M5 leadership is never given to a thread that may be asleep or off its
//! core: it is let go of, and the first waiter is told to try. Until it does, any writer that
//! runs may lead and take the waiting work with it; and since the first waiter was told,
//! none waits for ever.

use std::time::Duration;

use crate::base::entry::{FileId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::conditional::{Condition, Members};
use crate::engine::lane::{Group, GroupPlace, LaneId};
use crate::engine::large::LargePut;
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::io::Purpose;
use crate::log::batch::{BatchReader, Record, Separated};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameRef};
use crate::log::separated::Slot;
use crate::memory::memtable::Memtable;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use carry::{Carrying, NewVersion};
use publication::Publication;
use queue::{DONE, Follower, Place, Queue, TRY};

pub(crate) mod carry;
mod publication;
mod queue;
mod signal;

/// What a caller wants done under commit leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Log and insert the payload.
    Write,
    /// Freeze the active memtable, so that a flush writes it out.
    Freeze,
    /// Seal the open segments and begin the next ones.
    Roll,
    /// Seal the open value segment, if any, and begin the next one.
    RollValues,
    /// Seal the open segments for good: nothing is accepted afterwards.
    Seal,
}

/// One caller's work.
pub(crate) struct Work {
    /// What to do.
    pub(crate) task: Task,
    /// Encoded records of the batch.
    pub(crate) payload: Vec<u8>,
    /// The separated puts in it; with one at least, the batch goes to the value lane.
    pub(crate) slots: Vec<Slot>,
    /// Operations in it.
    pub(crate) count: u32,
    /// Key and value bytes in it.
    pub(crate) user_bytes: u64,
    /// Whether it must be durable when acknowledged.
    pub(crate) sync: bool,
    /// Whether it only frees space (deletes): allowed on a full disk.
    pub(crate) frees_space: bool,
    /// What most works do without.
    pub(crate) extra: Option<Box<Extra>>,
}

/// The rarer parts of a [`Work`], apart from it so that every put moves few bytes about.
#[derive(Default)]
pub(crate) struct Extra {
    /// Large values that it puts, which stand in their files already.
    pub(crate) large: Vec<LargePut>,
    /// Written only if this holds.
    pub(crate) condition: Option<Condition>,
    /// What must hold of each operation, where they are written one without the other.
    pub(crate) members: Members,
    /// What the bytes count as; `None`: as the lane's.
    pub(crate) purpose: Option<Purpose>,
    /// Done under leadership after a control task: nothing is appended meanwhile.
    pub(crate) afterwards: Option<Afterwards>,
}

/// What a caller does as the leader.
pub(crate) type Afterwards = Box<dyn Fn(&Arc<Engine>) -> Result<()> + Send>;

impl Work {
    /// A control task without payload.
    pub(crate) fn control(task: Task) -> Self {
        Self {
            task,
            payload: Vec::new(),
            slots: Vec::new(),
            count: 0,
            user_bytes: 0,
            sync: false,
            frees_space: true,
            extra: None,
        }
    }

    /// Large values that it puts.
    fn large(&self) -> &[LargePut] {
        self.extra.as_ref().map_or(&[], |extra| &extra.large)
    }

    /// Whether it, or an operation of it, is written only if something holds.
    fn is_conditional(&self) -> bool {
        let is = |extra: &Extra| extra.condition.is_some() || !extra.members.is_empty();
        self.extra.as_deref().is_some_and(is)
    }
}

/// The queue of writers and the order of visibility.
#[derive(Default)]
pub(crate) struct CommitQueue {
    queue: Mutex<Queue>,
    /// Last seq given out; written by leaders only.
    pub(crate) allocated: AtomicU64,
    publication: Publication,
    /// Of the value cache.
    carrying: Carrying,
}

/// A group that has been logged.
struct Logged {
    base_seq: Seq,
    last_seq: Seq,
    memtable: Arc<Memtable>,
    /// Where its frames stand, in the value lane.
    place: Option<GroupPlace>,
}

/// Works of a group in the order of their frames.
fn members<'a>(own: &'a Work, followers: &'a [Follower]) -> impl Iterator<Item = &'a Work> {
    std::iter::once(own).chain(followers.iter().map(|follower| &follower.work))
}

impl Engine {
    /// Commits one caller's work; returns when it is visible (and durable, if it asked for that).
    pub(crate) fn commit(self: &Arc<Self>, work: Work) -> Result<()> {
        let start = self.io.clock.now();
        let is_write = work.task == Task::Write;
        let outcome = self.enqueue(work);
        if is_write {
            self.metrics.record(Operation::Write, self.io.clock.now().saturating_sub(start));
        }
        outcome
    }

    fn enqueue(self: &Arc<Self>, work: Work) -> Result<()> {
        let place = self.commits.queue.lock().enter(work);
        let waiter = match place {
            Place::Leader(work) => return self.lead(work),
            Place::Waiter(waiter) => waiter,
        };
        while waiter.wait() == TRY {
            let work = self.commits.queue.lock().take_lead(&waiter);
            if let Some(work) = work {
                return self.lead(work);
            }
        }
        let outcome = waiter.outcome.lock().take();
        outcome.unwrap_or_else(|| Err(Error::invalid("a waiting batch lost its outcome")))
    }

    /// Leads one group: logs it, hands leadership on, inserts, publishes, wakes the followers.
    fn lead(self: &Arc<Self>, mut own: Work) -> Result<()> {
        let followers = self.commits.queue.lock().gather(&own);
        let logged = self.log_group(&mut own, &followers);
        self.hand_over();
        let outcome = match logged {
            Ok(Some(logged)) => {
                let inserted = self.insert_group(&own, &followers, &logged);
                if let Err(error) = &inserted {
                    self.stop(error);
                }
                self.publish_group(&logged);
                self.start_write_back();
                inserted
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        for follower in followers {
            *follower.waiter.outcome.lock() = Some(outcome.clone());
            follower.waiter.signal.set(DONE);
        }
        outcome
    }

    /// Lets go of leadership and tells the first waiter (M5).
    fn hand_over(&self) {
        let first = self.commits.queue.lock().let_go();
        if let Some(first) = first {
            first.signal.wake();
        }
    }

    /// Does what a control task asks for; false where there is something to write.
    fn run_control_task(self: &Arc<Self>, own: &Work) -> Result<bool> {
        match own.task {
            Task::Write => return Ok(false),
            Task::Freeze => self.freeze_active()?,
            Task::Roll => self.roll_lanes()?,
            Task::RollValues => self.roll_lane(LaneId::Values)?,
            Task::Seal => self.seal_last_segment()?,
        }
        let afterwards = own.extra.as_ref().and_then(|extra| extra.afterwards.as_ref());
        afterwards.map_or(Ok(true), |then| then(self).map(|()| true))
    }

    /// The leader's part under leadership. `None`: a control task, nothing to insert.
    fn log_group(
        self: &Arc<Self>,
        own: &mut Work,
        followers: &[Follower],
    ) -> Result<Option<Logged>> {
        self.health.check_writable()?;
        if self.sealed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        if self.run_control_task(own)? {
            return Ok(None);
        }
        self.check_conditions(own)?;
        let own = &*own;
        let frees_space = own.frees_space && followers.iter().all(|f| f.work.frees_space);
        self.check_space(frees_space)?;
        let lane = members(own, followers).find_map(Work::lane);
        self.make_place(lane.unwrap_or(LaneId::Journal))?;
        let base_seq = self.commits.allocated.load(Ordering::Relaxed) + 1;
        let mut next_seq = base_seq;
        let mut sync = own.sync;
        let mut user_bytes = own.user_bytes;
        let mut frames = Vec::with_capacity(1 + followers.len());
        let mut slots = Vec::new();
        for work in members(own, followers) {
            // An empty batch only asks for durability.
            if work.count > 0 {
                let (count, payload) = (work.count, work.payload.as_slice());
                work.large().iter().for_each(|put| put.begin(next_seq));
                frames.push(FrameRef { base_seq: next_seq, count, payload });
                if lane == Some(LaneId::Values) {
                    slots.push(work.slots.as_slice());
                }
                next_seq += u64::from(count);
            }
        }
        for follower in followers {
            sync |= follower.work.sync;
            user_bytes += follower.work.user_bytes;
        }
        let last_seq = next_seq - 1;
        if last_seq > SEQ_MAX {
            // At a million operations a second that takes two thousand years.
            return Err(Error::corruption("the sequence numbers are used up"));
        }
        let purpose = own.extra.as_ref().and_then(|extra| extra.purpose);
        let group = Group { frames: &frames, slots: &slots, last_seq, purpose };
        let place = match lane {
            Some(lane) => self.append_group(lane, &group, frees_space),
            None => Ok(None),
        };
        let large = members(own, followers).flat_map(Work::large);
        let large_bytes: u64 = large.map(|put| put.end(place.is_ok())).sum();
        let place = place?;
        self.logs.add_bytes(large_bytes);
        self.commits.allocated.store(last_seq, Ordering::Release);
        if sync {
            self.sync_group(frames.is_empty())?;
        }
        self.metrics.user_bytes.fetch_add(user_bytes, Ordering::Relaxed);
        self.metrics.commits.fetch_add(frames.len() as u64, Ordering::Relaxed);
        self.metrics.commit_groups.fetch_add(1, Ordering::Relaxed);
        let memtable = Arc::clone(&self.view.load().active);
        Ok(Some(Logged { base_seq, last_seq, memtable, place }))
    }

    /// Makes durable what has been logged; where the group logged nothing, says so in the log.
    fn sync_group(&self, is_empty: bool) -> Result<()> {
        let start = self.io.clock.now();
        self.sync_logs()?;
        let waited = self.io.clock.now().saturating_sub(start);
        self.metrics.stalled(Reason::JournalSync, waited);
        if is_empty { self.append_watermark() } else { Ok(()) }
    }

    /// The leader's look at what must hold for its own work, when every earlier write is visible.
    fn check_conditions(&self, own: &mut Work) -> Result<()> {
        if !own.is_conditional() {
            return Ok(());
        }
        self.wait_turn(self.commits.allocated.load(Ordering::Relaxed));
        if let Some(condition) = own.extra.as_ref().and_then(|extra| extra.condition.as_ref()) {
            condition.check(self)?;
        }
        Members::take_out(own, self)
    }

    /// Freezes the memtable or rolls the lane where either is full.
    fn make_place(self: &Arc<Self>, lane: LaneId) -> Result<()> {
        let view = self.view.load();
        let full = view.active.memory_bytes() >= self.widths.memtable_bytes
            || self.logs.unflushed_bytes() >= self.unflushed_bytes_max();
        if full && view.frozen.len() < self.widths.frozen_memtables_max {
            drop(view);
            let start = self.io.clock.now();
            self.freeze_active()?;
            let waited = self.io.clock.now().saturating_sub(start);
            self.metrics.stalled(Reason::Freeze, waited);
        }
        let is_full = self.lane(lane).segment_bytes() >= self.segment_bytes_max(lane);
        if is_full || !self.lane(lane).is_open() {
            self.roll_lane(lane)?;
        }
        self.prepare_next_segment(lane);
        Ok(())
    }

    /// Inserts every record of a group; record `i` of a batch has its base seq plus `i`.
    fn insert_group(&self, own: &Work, followers: &[Follower], logged: &Logged) -> Result<()> {
        let mut seq = logged.base_seq;
        let mut frame_start = logged.place.map_or(0, |place| place.start);
        for work in members(own, followers).filter(|work| work.count > 0) {
            let place = logged.place.map(|GroupPlace { file, .. }| PayloadPlace {
                file,
                offset: frame_start + FRAME_HEADER_BYTES as u64,
            });
            let (payload, count) = (&work.payload, work.count);
            insert_batch(&logged.memtable, payload, count, seq, place, &mut |put| {
                self.carry_over(put);
            })?;
            frame_start += (payload.len() + FRAME_OVERHEAD_BYTES) as u64;
            seq += u64::from(count);
        }
        debug_assert_eq!(seq, logged.last_seq + 1);
        Ok(())
    }

    /// Makes a group visible once its predecessor is (M2).
    fn publish_group(&self, logged: &Logged) {
        if logged.last_seq < logged.base_seq {
            // A group without operations shares its place with the one after it, which may have
            // published already: what is visible must not go back.
            return self.wait_turn(logged.base_seq - 1);
        }
        let seqs = (logged.base_seq, logged.last_seq);
        let clock = self.io.clock.as_ref();
        let waited = self.commits.publication.publish(&self.visible, seqs, clock);
        self.count_wait(waited);
    }

    /// Waits as a writer until everything up to `seq` is visible; a long wait is counted.
    fn wait_turn(&self, seq: Seq) {
        let waited = self.wait_published(seq);
        self.count_wait(waited);
    }

    fn count_wait(&self, waited: Duration) {
        if !waited.is_zero() {
            self.metrics.stalled(Reason::Publication, waited);
        }
    }

    /// Waits until everything up to `seq` is visible; for how long, if it had to sleep.
    /// Terminates: groups publish in order, and every logged group publishes.
    pub(crate) fn wait_published(&self, seq: Seq) -> Duration {
        self.commits.publication.wait(&self.visible, seq, self.io.clock.as_ref())
    }
}

/// Where a payload of the value lane stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadPlace {
    /// The segment.
    pub(crate) file: FileId,
    /// Offset of the payload's first byte.
    pub(crate) offset: u64,
}

/// Inserts the records of one batch from `seq` on; separated puts, which have been proved or are
/// the caller's own, as their handles, and each is shown to `inserted`.
pub(crate) fn insert_batch(
    memtable: &Memtable,
    payload: &[u8],
    count: u32,
    mut seq: Seq,
    place: Option<PayloadPlace>,
    inserted: &mut dyn FnMut(&NewVersion<'_>),
) -> Result<()> {
    let records = match place {
        None => BatchReader::new(payload, count),
        Some(_) => BatchReader::of_values(payload, count, None),
    };
    for record in records {
        let record = record?;
        let Record { kind, keyspace, key, value, separated } = record;
        match (kind, separated, place) {
            (Kind::RangeDelete, ..) => memtable.insert_range_delete(keyspace, key, value, seq),
            (Kind::PutSeparated, Some(Separated { start, record }), Some(place)) => {
                let offset = place.offset + start as u64;
                let bytes = record.bytes() as u32;
                let handle = Handle { file: place.file, epoch: 0, offset, bytes };
                let older = memtable.insert_over(keyspace, key, seq, kind, &handle.encode());
                let wanted = Wanted { handle, keyspace, key, seq };
                inserted(&NewVersion { wanted, record: &record, older });
            }
            _ => memtable.insert(keyspace, key, seq, kind, value),
        }
        seq += 1;
    }
    Ok(())
}
