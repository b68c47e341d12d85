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

use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::conditional::Condition;
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::log::batch::BatchReader;
use crate::log::format::FrameRef;
use crate::memory::memtable::Memtable;
use publication::Publication;
use signal::Signal;

mod publication;
mod signal;

/// What a caller wants done under commit leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Log and insert the payload.
    Write,
    /// Freeze the active memtable, so that a flush writes it out.
    Freeze,
    /// Seal the open journal segment and begin the next.
    RollJournal,
    /// Seal the open journal segment for good: nothing is accepted afterwards.
    Seal,
}

/// One caller's work.
pub(crate) struct Work {
    /// What to do.
    pub(crate) task: Task,
    /// Encoded records of the batch.
    pub(crate) payload: Vec<u8>,
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
}

impl Work {
    /// A control task without payload.
    pub(crate) fn control(task: Task) -> Self {
        Self {
            task,
            payload: Vec::new(),
            count: 0,
            user_bytes: 0,
            sync: false,
            frees_space: true,
            condition: None,
        }
    }

    /// Whether it can share a group with other writes.
    fn is_plain(&self) -> bool {
        self.task == Task::Write && self.condition.is_none()
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

    /// Bytes of its payload if it can share a group with other writes.
    fn plain_bytes(&self) -> Option<usize> {
        self.work.lock().as_ref().filter(|work| work.is_plain()).map(|work| work.payload.len())
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
        let goes_along = |first: &Arc<Waiter>| {
            let bytes = first.plain_bytes().filter(|_| work.is_plain());
            bytes.is_some_and(|bytes| work.payload.len() + bytes <= GROUP_BYTES_MAX)
        };
        !self.leading && self.waiting.front().is_none_or(goes_along)
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
                self.journal.start_write_back();
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

    /// Takes plain writes off the queue, up to the size of a group.
    fn gather(&self, own: &Work) -> Vec<Follower> {
        let mut followers = Vec::new();
        if !own.is_plain() {
            return followers;
        }
        let mut bytes = own.payload.len();
        let mut queue = self.commits.queue.lock();
        while let Some(waiter) = queue.waiting.front() {
            let mut slot = waiter.work.lock();
            match slot.take() {
                Some(work) if work.is_plain() && bytes + work.payload.len() <= GROUP_BYTES_MAX => {
                    drop(slot);
                    bytes += work.payload.len();
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

    /// The leader's part under leadership. `None`: a control task, nothing to insert.
    fn log_group(self: &Arc<Self>, own: &Work, followers: &[Follower]) -> Result<Option<Logged>> {
        self.health.check_writable()?;
        if self.sealed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        match own.task {
            Task::Freeze => return self.freeze_active().map(|()| None),
            Task::RollJournal if self.journal.open_segment_is_empty() => return Ok(None),
            Task::RollJournal => return self.roll_journal().map(|()| None),
            Task::Seal => return self.seal_last_segment().map(|()| None),
            Task::Write => {}
        }
        if let Some(condition) = &own.condition {
            self.wait_turn(self.commits.allocated.load(Ordering::Relaxed));
            condition.check(self)?;
        }
        let frees_space = own.frees_space && followers.iter().all(|f| f.work.frees_space);
        self.check_space(frees_space)?;
        self.make_place()?;
        let base_seq = self.commits.allocated.load(Ordering::Relaxed) + 1;
        let mut next_seq = base_seq;
        let mut sync = own.sync;
        let mut user_bytes = own.user_bytes;
        let mut frames = Vec::with_capacity(1 + followers.len());
        for work in std::iter::once(own).chain(followers.iter().map(|f| &f.work)) {
            // An empty batch only asks for durability.
            if work.count > 0 {
                let (count, payload) = (work.count, work.payload.as_slice());
                frames.push(FrameRef { base_seq: next_seq, count, payload });
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
        self.append_group(&frames, last_seq, frees_space)?;
        self.commits.allocated.store(last_seq, Ordering::Release);
        if sync {
            let start = self.io.clock.now();
            self.sync_journal()?;
            let waited = self.io.clock.now().saturating_sub(start);
            self.metrics.stalled(Reason::JournalSync, waited);
            if frames.is_empty() && !self.journal.open_segment_is_empty() {
                self.append_watermark()?;
            }
        }
        self.metrics.user_bytes.fetch_add(user_bytes, Ordering::Relaxed);
        self.metrics.commits.fetch_add(frames.len() as u64, Ordering::Relaxed);
        self.metrics.commit_groups.fetch_add(1, Ordering::Relaxed);
        let memtable = Arc::clone(&self.view.load().active);
        Ok(Some(Logged { base_seq, last_seq, memtable }))
    }

    /// Freezes the memtable or rolls the journal where either is full.
    fn make_place(self: &Arc<Self>) -> Result<()> {
        let view = self.view.load();
        let full = view.active.memory_bytes() >= self.widths.memtable_bytes
            || self.journal.unflushed_bytes() >= self.widths.replay_bytes_max;
        if full && view.frozen.len() < self.widths.frozen_memtables_max {
            drop(view);
            let start = self.io.clock.now();
            self.freeze_active()?;
            let waited = self.io.clock.now().saturating_sub(start);
            self.metrics.stalled(Reason::Freeze, waited);
        }
        if self.journal.segment_bytes() >= self.widths.journal_segment_bytes {
            self.roll_journal()?;
        }
        self.prepare_next_segment();
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
    for work in std::iter::once(own).chain(followers.iter().map(|f| &f.work)) {
        insert_batch(&logged.memtable, &work.payload, work.count, seq)?;
        seq += u64::from(work.count);
    }
    debug_assert_eq!(seq, logged.last_seq + 1);
    Ok(())
}

/// Inserts the records of one batch from `seq` on.
pub(crate) fn insert_batch(
    memtable: &Memtable,
    payload: &[u8],
    count: u32,
    mut seq: Seq,
) -> Result<()> {
    for record in BatchReader::new(payload, count) {
        let record = record?;
        match record.kind {
            Kind::RangeDelete => {
                memtable.insert_range_delete(record.keyspace, record.key, record.value, seq);
            }
            kind => memtable.insert(record.keyspace, record.key, seq, kind, record.value),
        }
        seq += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
