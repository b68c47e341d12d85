//! Logging a group: prepared by the leader, written by whoever has the turn.
//!
//! A leader waits for the turn, which the leader before it may still have, and encodes its group
//! meanwhile: for the place where that group is to stand if the one being written gets there. Once
//! it has the turn it takes along who has come since, and lets go of leadership where nothing else
//! is to be done than to write: so the next group is encoded beside the writing of this one.
//!
//! Invariants: T1 the log and what is planned of it change in turn only; the turn is taken under
//! leadership, and held until the group is in the log or is not. T2 what was encoded ahead is
//! written only where file, place and seq have come out as planned; else it is encoded anew. T3
//! control tasks, conditions, syncs and large values are done under leadership and in turn: nothing
//! is logged, and nothing encoded, meanwhile.

use super::queue::Follower;
use super::signal::NEXT_SPINS;
use super::{Logged, Task, Work, members};
use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Mutex, MutexGuard, hint};
use crate::engine::Engine;
use crate::engine::conditional::Members;
use crate::engine::lane::{Group, LaneId};
use crate::engine::pacing::Reason;
use crate::log::format::FrameRef;
use crate::log::group::{Spot, encode_values};
use crate::log::separated::Slot;

/// Where a group of the value lane is to stand, and the seq it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    spot: Spot,
    base_seq: Seq,
}

/// The turn to write, and what leaders prepare while another has it.
#[derive(Default)]
pub(super) struct Turn {
    turn: Mutex<()>,
    /// Where the group behind the one in its turn is to stand. Leaders only.
    next: Mutex<Option<Planned>>,
    /// Memory for a group's bytes.
    spare: Mutex<Vec<u8>>,
}

/// A group of the value lane, encoded.
struct Ahead {
    planned: Planned,
    /// How many of its frames; those of who came later are not among them.
    frames: usize,
    bytes: Vec<u8>,
}

/// Frames of a group, with the seqs that they get.
struct Frames<'a> {
    frames: Vec<FrameRef<'a>>,
    /// In the value lane, the separated puts of each of them.
    slots: Vec<&'a [Slot]>,
    last_seq: Seq,
}

impl<'a> Frames<'a> {
    fn of(own: &'a Work, followers: &'a [Follower], base_seq: Seq) -> Result<Self> {
        let mut frames = Vec::with_capacity(1 + followers.len());
        let mut slots = Vec::new();
        let mut next_seq = base_seq;
        // An empty batch only asks for durability.
        for work in members(own, followers).filter(|work| work.count > 0) {
            let (count, payload) = (work.count, work.payload.as_slice());
            frames.push(FrameRef { base_seq: next_seq, count, payload });
            if work.lane() == Some(LaneId::Values) {
                slots.push(work.slots.as_slice());
            }
            next_seq += u64::from(count);
        }
        let last_seq = next_seq - 1;
        if last_seq > SEQ_MAX {
            // At a million operations a second that takes two thousand years.
            return Err(Error::corruption("the sequence numbers are used up"));
        }
        Ok(Self { frames, slots, last_seq })
    }

    fn group(&self, purpose: Option<crate::io::Purpose>) -> Group<'_> {
        let Self { frames, slots, last_seq } = self;
        Group { frames, slots, last_seq: *last_seq, purpose }
    }
}

impl Turn {
    /// Waits for the turn. Awake at first: the one who has it writes, which does not take long.
    fn wait(&self) -> MutexGuard<'_, ()> {
        for _ in 0..NEXT_SPINS {
            if let Some(turn) = self.turn.try_lock() {
                return turn;
            }
            hint::spin_loop();
        }
        self.turn.lock()
    }

    fn take_spare(&self) -> Vec<u8> {
        std::mem::take(&mut self.spare.lock())
    }
}

/// Stops the database where it goes away in a panic: how far the log got nobody knows then, and
/// whoever leads next would give the same seqs out again.
pub(crate) struct StopIfUnwound<'a> {
    engine: &'a Engine,
    /// Whether the thread was unwinding before: what it drops may write, and is no reason to stop.
    is_unwinding: bool,
}

impl<'a> StopIfUnwound<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        Self { engine, is_unwinding: std::thread::panicking() }
    }
}

impl Drop for StopIfUnwound<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_unwinding {
            let message = "a panic while a batch was logged; reopen the database";
            self.engine.stop(&Error::new(ErrorKind::Stopped, message));
        }
    }
}

impl Engine {
    /// The leader's part until its group is logged; lets go of leadership on the way. `None`: a
    /// control task, nothing to insert.
    pub(super) fn log_group(
        self: &Arc<Self>,
        own: &mut Work,
        followers: &mut Vec<Follower>,
    ) -> Result<Option<Logged>> {
        let turn = &self.commits.turn;
        let (held, ahead) = match turn.turn.try_lock() {
            Some(held) => (held, None),
            None => {
                let ahead = self.encode_ahead(own, followers);
                let held = turn.wait();
                self.commits.queue.lock().gather(own, followers);
                (held, ahead)
            }
        };
        let mut leads = true;
        let logged = self.log_in_turn(own, followers, ahead, &mut leads);
        drop(held);
        if leads {
            self.hand_over();
        }
        logged
    }

    /// Encodes a group for the place that is planned for it; `None` where it is not to be known.
    fn encode_ahead(&self, own: &Work, followers: &[Follower]) -> Option<Ahead> {
        let lane = members(own, followers).find_map(Work::lane);
        if lane != Some(LaneId::Values) || own.is_conditional() {
            return None;
        }
        let planned = (*self.commits.turn.next.lock())?;
        let frames = Frames::of(own, followers, planned.base_seq).ok()?;
        let mut bytes = self.commits.turn.take_spare();
        self.encode(&frames, 0, planned.spot, &mut bytes).ok()?;
        Some(Ahead { planned, frames: frames.frames.len(), bytes })
    }

    /// Encodes a group but for its first frames, which are in `bytes`.
    fn encode(
        &self,
        frames: &Frames<'_>,
        encoded: usize,
        spot: Spot,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let group = frames.group(None);
        let rest = group.value_frames().skip(encoded);
        encode_values(rest, self.logs.synced_seq(), spot, bytes)
    }

    /// Logs a group in its turn. `leads` is cleared where leadership was let go of.
    fn log_in_turn(
        self: &Arc<Self>,
        own: &mut Work,
        followers: &[Follower],
        ahead: Option<Ahead>,
        leads: &mut bool,
    ) -> Result<Option<Logged>> {
        self.health.check_writable()?;
        if self.sealed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the database is being closed"));
        }
        if self.run_control_task(own)? {
            return Ok(None);
        }
        self.check_conditions(own)?;
        let _stopping = StopIfUnwound::new(self);
        let own = &*own;
        let frees_space = own.frees_space && followers.iter().all(|f| f.work.frees_space);
        self.check_space(frees_space)?;
        let lane = members(own, followers).find_map(Work::lane);
        self.make_place(lane.unwrap_or(LaneId::Journal))?;
        let base_seq = self.commits.allocated.load(Ordering::Relaxed) + 1;
        let frames = Frames::of(own, followers, base_seq)?;
        let mut bytes = Vec::new();
        if lane == Some(LaneId::Values) {
            let planned = Planned { spot: self.value_lane.spot()?, base_seq };
            bytes = self.encoded(&frames, planned, ahead)?;
            if is_mere_write(own, followers) {
                let spot = planned.spot.behind(bytes.len() as u64);
                let next = Planned { spot, base_seq: frames.last_seq + 1 };
                *self.commits.turn.next.lock() = Some(next);
                *leads = false;
                self.hand_over();
            }
        }
        let logged =
            self.write_group(own, followers, &frames, (lane, base_seq), &mut bytes, frees_space);
        if lane == Some(LaneId::Values) && logged.is_ok() {
            bytes.clear();
            *self.commits.turn.spare.lock() = bytes;
        }
        logged.map(Some)
    }

    /// The bytes of a group at its place: those encoded ahead, where it has come out so (T2).
    fn encoded(&self, frames: &Frames<'_>, at: Planned, ahead: Option<Ahead>) -> Result<Vec<u8>> {
        let (encoded, mut bytes) = match ahead {
            Some(Ahead { planned, frames, bytes }) if planned == at => {
                mark!("group_encoded_ahead");
                (frames, bytes)
            }
            Some(Ahead { mut bytes, .. }) => {
                mark!("group_encoded_anew");
                bytes.clear();
                (0, bytes)
            }
            None => (0, self.commits.turn.take_spare()),
        };
        self.encode(frames, encoded, at.spot, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends a group to its lane, and syncs where one of it asks for that.
    fn write_group(
        self: &Arc<Self>,
        own: &Work,
        followers: &[Follower],
        frames: &Frames<'_>,
        (lane, base_seq): (Option<LaneId>, Seq),
        bytes: &mut Vec<u8>,
        frees_space: bool,
    ) -> Result<Logged> {
        let mut seq = base_seq;
        for work in members(own, followers) {
            work.large().iter().for_each(|put| put.begin(seq));
            seq += u64::from(work.count);
        }
        let purpose = own.extra.as_ref().and_then(|extra| extra.purpose);
        let place = match lane {
            Some(lane) => self.append_group(lane, &frames.group(purpose), bytes, frees_space),
            None => Ok(None),
        };
        let large = members(own, followers).flat_map(Work::large);
        let large_bytes: u64 = large.map(|put| put.end(place.is_ok())).sum();
        let place = place?;
        self.logs.add_bytes(large_bytes);
        let last_seq = frames.last_seq;
        self.commits.allocated.store(last_seq, Ordering::Release);
        if members(own, followers).any(|work| work.sync) {
            self.sync_group(frames.frames.is_empty())?;
        }
        let user_bytes = members(own, followers).map(|work| work.user_bytes).sum();
        self.metrics.user_bytes.fetch_add(user_bytes, Ordering::Relaxed);
        self.metrics.commits.fetch_add(frames.frames.len() as u64, Ordering::Relaxed);
        self.metrics.commit_groups.fetch_add(1, Ordering::Relaxed);
        let memtable = Arc::clone(&self.view.load().active);
        Ok(Logged { base_seq, last_seq, memtable, place })
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
}

/// Whether nothing is to be done under leadership but to write (T3).
fn is_mere_write(own: &Work, followers: &[Follower]) -> bool {
    !own.is_conditional()
        && members(own, followers).all(|work| !work.sync && work.large().is_empty())
}
