//! Commit: a leader takes the queue, waits for its turn, hands leadership on and writes one group
//! with one call, while the next leader encodes another (`turn`); only then it inserts into the
//! memtable, so that the next group is written meanwhile.
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

use crate::base::entry::{FileId, Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::conditional::{Condition, Members};
use crate::engine::lane::GroupPlace;
use crate::engine::large::LargePut;
use crate::engine::metrics::Operation;
use crate::engine::pacing::Reason;
use crate::io::Purpose;
use crate::log::batch::{BatchReader, Record, Separated};
use crate::log::format::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES};
use crate::log::separated::Slot;
use crate::memory::memtable::Memtable;
use crate::values::handle::Handle;
use crate::values::reader::Wanted;
use carry::{Carrying, NewVersion};
use publication::Publication;
use queue::{DONE, Follower, Place, Queue, TRY};
#[cfg(test)]
pub(crate) use turn::StopIfUnwound;
use turn::Turn;

pub(crate) mod carry;
mod publication;
mod queue;
mod signal;
mod turn;

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
    turn: Turn,
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
        let mut followers = Vec::new();
        self.commits.queue.lock().gather(&own, &mut followers);
        let logged = self.log_group(&mut own, &mut followers);
        let outcome = match logged {
            Ok(Some(logged)) => {
                let inserted = self.insert_group(&own, &followers, &logged);
                if let Err(error) = &inserted {
                    self.stop(error);
                }
                self.publish_group(&logged);
                self.have_written_back();
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
