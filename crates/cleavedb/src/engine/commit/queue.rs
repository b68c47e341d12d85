//! Who waits to commit, who may lead, and what a leader takes along.

use std::collections::VecDeque;

use crate::base::error::Result;
use crate::base::sync::{Arc, Mutex};
use crate::engine::commit::signal::{NEXT_SPINS, SPINS, Signal};
use crate::engine::commit::{Task, Work};
use crate::engine::lane::LaneId;

/// Largest group: keeps the first writer's wait short.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Nobody leads: the waiter is to lead, unless another has come first.
pub(super) const TRY: u8 = 1;
/// The waiter's work was done by a leader.
pub(super) const DONE: u8 = 2;

/// A writer that waits for its leader, or for its turn to lead.
pub(super) struct Waiter {
    work: Mutex<Option<Work>>,
    pub(super) outcome: Mutex<Option<Result<()>>>,
    pub(super) signal: Signal,
    /// Whether it was the first in the queue when it came: its turn is next.
    is_next: bool,
}

impl Waiter {
    fn new(work: Work, is_next: bool) -> Self {
        let (work, outcome) = (Mutex::new(Some(work)), Mutex::new(None));
        Self { work, outcome, signal: Signal::new(), is_next }
    }

    /// Waits until its work is done or it is to try to lead.
    pub(super) fn wait(&self) -> u8 {
        self.signal.wait(if self.is_next { NEXT_SPINS } else { SPINS })
    }
}

/// One member of a group besides the leader.
pub(super) struct Follower {
    pub(super) waiter: Arc<Waiter>,
    pub(super) work: Work,
}

/// What a group holds so far, which decides what else it takes along.
struct Gathering {
    /// Whether it takes anything.
    is_open: bool,
    bytes: usize,
    lane: Option<LaneId>,
}

impl Gathering {
    fn of(own: &Work) -> Self {
        Self { is_open: own.is_plain(), bytes: own.payload.len(), lane: own.lane() }
    }

    /// Whether this work goes along: only plain writes of one lane do, up to the size of a group.
    fn takes(&self, work: &Work) -> bool {
        let one_lane = self.lane.is_none() || work.lane().is_none_or(|own| self.lane == Some(own));
        let fits = self.bytes + work.payload.len() <= GROUP_BYTES_MAX;
        self.is_open && work.is_plain() && fits && one_lane
    }

    fn add(&mut self, work: &Work) {
        self.bytes += work.payload.len();
        self.lane = self.lane.or(work.lane());
    }
}

/// Writers in the order of their coming, and whether one leads.
#[derive(Default)]
pub(super) struct Queue {
    leading: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

/// What became of a writer that has come.
pub(super) enum Place {
    /// It leads.
    Leader(Work),
    /// It waits.
    Waiter(Arc<Waiter>),
}

impl Queue {
    /// Makes a writer that has just come the leader if nobody leads and the first waiting work
    /// either goes along with its own or there is none; else it waits. (Writers that come could
    /// else keep for ever from its turn what no group takes along.)
    pub(super) fn enter(&mut self, work: Work) -> Place {
        if !self.leading && self.first_goes_along(&work) {
            self.leading = true;
            return Place::Leader(work);
        }
        let waiter = Arc::new(Waiter::new(work, self.waiting.is_empty()));
        self.waiting.push_back(Arc::clone(&waiter));
        Place::Waiter(waiter)
    }

    fn first_goes_along(&self, work: &Work) -> bool {
        let gathering = Gathering::of(work);
        self.waiting.front().is_none_or(|first| {
            let first = first.work.lock();
            first.as_ref().is_some_and(|first| gathering.takes(first))
        })
    }

    /// Makes a waiter that was told to try the leader; `None` where another came first: it has
    /// taken the waiter's work along, or will tell the waiter again.
    pub(super) fn take_lead(&mut self, waiter: &Arc<Waiter>) -> Option<Work> {
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

    /// Takes what goes along with a leader's work, and with its followers so far, off the queue: a
    /// group is one write to one file and never half there.
    pub(super) fn gather(&mut self, own: &Work, followers: &mut Vec<Follower>) {
        let mut gathering = Gathering::of(own);
        followers.iter().for_each(|follower| gathering.add(&follower.work));
        while let Some(waiter) = self.waiting.front() {
            let taken = waiter.work.lock().take_if(|work| gathering.takes(work));
            let Some(work) = taken else { break };
            gathering.add(&work);
            if let Some(waiter) = self.waiting.pop_front() {
                followers.push(Follower { waiter, work });
            }
        }
    }

    /// Lets go of leadership; the waiter that is to be woken, if it was not told before.
    pub(super) fn let_go(&mut self) -> Option<Arc<Waiter>> {
        self.leading = false;
        self.waiting.front().filter(|first| first.signal.change(Signal::IDLE, TRY)).cloned()
    }
}

impl Work {
    /// Whether it can share a group with other writes.
    fn is_plain(&self) -> bool {
        self.task == Task::Write && !self.is_conditional()
    }

    /// The lane it is for; `None` where there is nothing to log.
    pub(super) fn lane(&self) -> Option<LaneId> {
        let lane = if self.slots.is_empty() { LaneId::Journal } else { LaneId::Values };
        (self.count > 0).then_some(lane)
    }
}

#[cfg(test)]
mod tests;
