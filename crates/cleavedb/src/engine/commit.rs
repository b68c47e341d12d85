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

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::entry::{FileId, Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::conditional::Condition;
use crate::engine::lane::{Group, GroupPlace, LaneId};
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::log::batch::{BatchReader, Record, Separated};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameRef};
use crate::log::separated::Slot;
use crate::memory::memtable::Memtable;
use crate::values::handle::Handle;

mod publication;
mod signal;

use publication::Publication;
use signal::Signal;

/// What a caller wants done under commit leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Log and insert the payload.
    Write,
    /// Freeze the active memtable, so that a flush writes it out.
    Freeze,
    /// Seal the open segments and begin the next ones.
    Roll,
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
    /// Written only if this holds.
    pub(crate) condition: Option<Condition>,
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
            condition: None,
            afterwards: None,
        }
    }

    /// Whether it can share a group with other writes.
    fn is_plain(&self) -> bool {
        self.task == Task::Write && self.condition.is_none()
    }

    /// Whether it can share a group with one other: both plain, of one lane, not too large.
    fn goes_along(&self, leader: &Work) -> bool {
        let lanes = (leader.lane(), self.lane());
        let is_one_lane = !matches!(lanes, (Some(one), Some(other)) if one != other);
        let bytes = leader.payload.len() + self.payload.len();
        leader.is_plain() && self.is_plain() && is_one_lane && bytes <= GROUP_BYTES_MAX
    }

    /// The lane it is for; `None` where there is nothing to log.
    fn lane(&self) -> Option<LaneId> {
        let lane = if self.slots.is_empty() { LaneId::Journal } else { LaneId::Values };
        (self.count > 0).then_some(lane)
    }
}

/// Largest group: keeps the first writer's wait short.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Nobody leads: the waiter is to lead, unless another has come first.
const TRY: u8 = 1;
const DONE: u8 = 2;

/// A writer that waits for its leader, or for its turn to lead.
struct Waiter {
    work: Mutex<Option<Work>>,
    outcome: Mutex<Option<Result<()>>>,
    signal: Signal,
}

impl Waiter {
    fn new(work: Work) -> Self {
        Self { work: Mutex::new(Some(work)), outcome: Mutex::new(None), signal: Signal::new() }
    }

    /// Whether its work can share a group with this one.
    fn goes_along(&self, leader: &Work) -> bool {
        self.work.lock().as_ref().is_some_and(|work| work.goes_along(leader))
    }
}

#[derive(Default)]
struct Queue {
    leading: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

impl Queue {
    /// Whether a writer that has just come may lead: nobody does, and the waiting work either goes
    /// along with its own or there is none. (Else writers that come could keep for ever from its
    /// turn what no group takes along.)
    fn admits(&self, work: &Work) -> bool {
        !self.leading && self.waiting.front().is_none_or(|first| first.goes_along(work))
    }

    /// Makes a waiter that was told to try the leader; `None` where another came first: it has
    /// taken the waiter's work along, or will tell the waiter again.
    fn take_lead(&mut self, waiter: &Arc<Waiter>) -> Option<Work> {
        // Work leaves the queue at its front only, and the waiter was there when it was told.
        let is_first = self.waiting.front().is_some_and(|first| Arc::ptr_eq(first, waiter));
        if is_first && !self.leading {
            self.leading = true;
            self.waiting.pop_front();
            return waiter.work.lock().take();
        }
        // Done may have come meanwhile, and stays.
        waiter.signal.change(TRY, Signal::IDLE);
        None
    }
}

/// The queue of writers and the order of visibility.
#[derive(Default)]
pub(crate) struct CommitQueue {
    queue: Mutex<Queue>,
    /// Last seq given out; written by leaders only.
    pub(crate) allocated: AtomicU64,
    publication: Publication,
}

/// One member of a group besides the leader.
struct Follower {
    waiter: Arc<Waiter>,
    work: Work,
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
        let waiter = {
            let mut queue = self.commits.queue.lock();
            if queue.admits(&work) {
                queue.leading = true;
                drop(queue);
                return self.lead(work);
            }
            let waiter = Arc::new(Waiter::new(work));
            queue.waiting.push_back(Arc::clone(&waiter));
            waiter
        };
        while waiter.signal.wait() == TRY {
            let work = self.commits.queue.lock().take_lead(&waiter);
            if let Some(work) = work {
                return self.lead(work);
            }
        }
        let outcome = waiter.outcome.lock().take();
        outcome.unwrap_or_else(|| Err(Error::invalid("a waiting batch lost its outcome")))
    }

    /// Leads one group: logs it, hands leadership on, inserts, publishes, wakes the followers.
    fn lead(self: &Arc<Self>, own: Work) -> Result<()> {
        let followers = self.gather(&own);
        let logged = self.log_group(&own, &followers);
        self.hand_over();
        let outcome = match logged {
            Ok(Some(logged)) => {
                let inserted = insert_group(&own, &followers, &logged);
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

    /// Takes plain writes of one lane off the queue, up to the size of a group: so a group is one
    /// write to one file and never half there.
    fn gather(&self, own: &Work) -> Vec<Follower> {
        let mut followers = Vec::new();
        if !own.is_plain() {
            return followers;
        }
        let mut bytes = own.payload.len();
        let mut lane = own.lane();
        let mut queue = self.commits.queue.lock();
        while let Some(waiter) = queue.waiting.front() {
            let mut slot = waiter.work.lock();
            match slot.take() {
                Some(work)
                    if work.is_plain()
                        && bytes + work.payload.len() <= GROUP_BYTES_MAX
                        && (lane.is_none() || work.lane().is_none_or(|own| lane == Some(own))) =>
                {
                    drop(slot);
                    bytes += work.payload.len();
                    lane = lane.or(work.lane());
                    if let Some(waiter) = queue.waiting.pop_front() {
                        followers.push(Follower { waiter, work });
                    }
                }
                other => {
                    *slot = other;
                    break;
                }
            }
        }
        followers
    }

    /// Lets go of leadership and tells the first waiter (M5).
    fn hand_over(&self) {
        let first = {
            let mut queue = self.commits.queue.lock();
            queue.leading = false;
            queue.waiting.front().filter(|first| first.signal.change(Signal::IDLE, TRY)).cloned()
        };
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
            Task::Seal => self.seal_last_segment()?,
        }
        own.afterwards.as_ref().map_or(Ok(true), |then| then(self).map(|()| true))
    }

    /// The leader's part under leadership. `None`: a control task, nothing to insert.
    fn log_group(self: &Arc<Self>, own: &Work, followers: &[Follower]) -> Result<Option<Logged>> {
        self.health.check_writable()?;
        if self.sealed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        if self.run_control_task(own)? {
            return Ok(None);
        }
        if let Some(condition) = &own.condition {
            self.wait_turn(self.commits.allocated.load(Ordering::Relaxed));
            condition.check(self)?;
        }
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
        let group = Group { frames: &frames, slots: &slots, last_seq };
        let place = match lane {
            Some(lane) => self.append_group(lane, &group, frees_space)?,
            None => None,
        };
        self.commits.allocated.store(last_seq, Ordering::Release);
        if sync {
            let start = self.io.clock.now();
            self.sync_logs()?;
            let waited = self.io.clock.now().saturating_sub(start);
            self.metrics.stalled(Reason::JournalSync, waited);
            if frames.is_empty() {
                self.append_watermark()?;
            }
        }
        self.metrics.user_bytes.fetch_add(user_bytes, Ordering::Relaxed);
        self.metrics.commits.fetch_add(frames.len() as u64, Ordering::Relaxed);
        self.metrics.commit_groups.fetch_add(1, Ordering::Relaxed);
        let memtable = Arc::clone(&self.view.load().active);
        Ok(Some(Logged { base_seq, last_seq, memtable, place }))
    }

    /// Freezes the memtable or rolls the lane where either is full.
    fn make_place(self: &Arc<Self>, lane: LaneId) -> Result<()> {
        let view = self.view.load();
        let full = view.active.memory_bytes() >= self.widths.memtable_bytes
            || self.logs.unflushed_bytes() >= self.widths.replay_bytes_max;
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

/// Inserts every record of a group; record `i` of a batch has its base seq plus `i`.
fn insert_group(own: &Work, followers: &[Follower], logged: &Logged) -> Result<()> {
    let mut seq = logged.base_seq;
    let mut frame_start = logged.place.map_or(0, |place| place.start);
    for work in members(own, followers).filter(|work| work.count > 0) {
        let place = logged.place.map(|GroupPlace { file, .. }| PayloadPlace {
            file,
            offset: frame_start + FRAME_HEADER_BYTES as u64,
        });
        insert_batch(&logged.memtable, &work.payload, work.count, seq, place)?;
        frame_start += (work.payload.len() + FRAME_OVERHEAD_BYTES) as u64;
        seq += u64::from(work.count);
    }
    debug_assert_eq!(seq, logged.last_seq + 1);
    Ok(())
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
/// the caller's own, as their handles.
pub(crate) fn insert_batch(
    memtable: &Memtable,
    payload: &[u8],
    count: u32,
    mut seq: Seq,
    place: Option<PayloadPlace>,
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
                memtable.insert(keyspace, key, seq, kind, &handle.encode());
            }
            _ => memtable.insert(keyspace, key, seq, kind, value),
        }
        seq += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
