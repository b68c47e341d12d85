//! Replay of both lanes of the log at open.
//!
//! Invariants: P1 frames are applied in the order of their seqs, contiguous from the flushed seq on
//! over both lanes; at the first seq that neither lane has, the log ends. P2 a frame at or below
//! the flushed seq is never replayed (rule S2). P3 memory stays within a memtable's size, two
//! batches and a frame of each lane: what is full is flushed at once. P4 what lies beyond the end
//! is cut off in both lanes before anything is appended (rule R11). P5 where any frame says that
//! the missing seq was durable, it is not the end but damage.

use std::panic::resume_unwind;

use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, thread};
use crate::engine::Engine;
use crate::engine::lane::LaneId;
use crate::log::rewrite::{cut_tail, make_durable};
use crate::memory::memtable::Memtable;
use crate::values::edit::SealedValues;

mod batch;
mod lane;
mod large;

use batch::{Batch, NotInserted};
use lane::{Ended, LaneReplay};

/// The end of the log.
struct LogEnd {
    /// The large value that is not whole, if its record is the first that does not count.
    torn_large: Option<Error>,
}

impl Engine {
    /// Replays what is not in the indexes yet and cuts off what lies beyond the end.
    pub(crate) fn replay_logs(self: &Arc<Self>) -> Result<()> {
        let mut lanes =
            [LaneReplay::new(self, LaneId::Journal)?, LaneReplay::new(self, LaneId::Values)?];
        let flushed = self.flushed();
        for lane in &mut lanes {
            lane.advance()?;
            lane.skip_through(flushed)?;
        }
        let (mut batch, mut next) = (Batch::default(), Batch::default());
        loop {
            let memtable = Arc::clone(&self.view.load().active);
            next.clear();
            let end = self.insert_and_read(&batch, &memtable, &mut lanes, &mut next)?;
            std::mem::swap(&mut batch, &mut next);
            let is_full = memtable.memory_bytes() >= self.widths.memtable_bytes;
            let must_flush = is_full && !self.settings.read_only;
            if end.is_some() || must_flush {
                batch.insert(&memtable).map_err(|failed| located(failed, &lanes))?;
                batch.clear();
                let last_seq = self.commits.allocated.load(Ordering::Relaxed);
                self.visible.store(last_seq, Ordering::Release);
            }
            if must_flush {
                mark!("flush_during_replay");
                self.flush_replayed(&lanes)?;
            }
            if let Some(LogEnd { torn_large }) = end {
                return self.end_logs(lanes, torn_large);
            }
        }
    }

    /// Inserts a batch, and reads the next one meanwhile where there is much to insert.
    fn insert_and_read(
        &self,
        batch: &Batch,
        memtable: &Memtable,
        lanes: &mut [LaneReplay],
        next: &mut Batch,
    ) -> Result<Option<LogEnd>> {
        if !batch.is_long() {
            batch.insert(memtable).map_err(|failed| located(failed, lanes))?;
            return self.read_frames(lanes, next);
        }
        mark!("replay_by_two_threads");
        thread::scope(|scope| {
            let insert = || batch.insert(memtable);
            let inserting = thread::spawn_scoped(scope, "cleave-replay", insert)
                .map_err(|cause| Error::io("starting a thread for the log", &self.dir, cause))?;
            let end = self.read_frames(lanes, next);
            let inserted = inserting.join().unwrap_or_else(|panic| resume_unwind(panic));
            // What could not be inserted stands before what could not be read.
            inserted.map_err(|failed| located(failed, lanes))?;
            end
        })
    }

    /// Takes the next frames; says so where the log ends.
    fn read_frames(&self, lanes: &mut [LaneReplay], batch: &mut Batch) -> Result<Option<LogEnd>> {
        while !batch.is_full(self.widths.memtable_bytes) {
            let Some(number) = self.next_lane(lanes)? else {
                return Ok(Some(LogEnd { torn_large: None }));
            };
            let durable = lanes.iter().map(LaneReplay::durable_seq).max().unwrap_or(0);
            let Some(lane) = lanes.get_mut(number) else { break };
            if let Some(torn) = self.adopt_large(lane, durable)? {
                return Ok(Some(LogEnd { torn_large: Some(torn) }));
            }
            if let Some(frame) = lane.take()? {
                self.commits.allocated.store(frame.header.next_seq() - 1, Ordering::Relaxed);
                batch.push(lane.id(), lane.file(), &frame);
            }
            for lane in lanes.iter_mut() {
                lane.advance()?;
            }
        }
        Ok(None)
    }

    /// Number of the lane that has the next seq; `None` at the end.
    fn next_lane(&self, lanes: &[LaneReplay]) -> Result<Option<usize>> {
        let expected = self.commits.allocated.load(Ordering::Relaxed) + 1;
        for (number, lane) in lanes.iter().enumerate() {
            let Some(base_seq) = lane.next_base() else { continue };
            if base_seq < expected {
                return Err(lane.damaged(format!("seq {base_seq} stands in the log twice")));
            }
            if base_seq == expected {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Writes a full memtable out while replaying. What its handles name must be durable before
    /// (rule R10); where the rest of the log's tail is not, the tables become durable ahead of it,
    /// and what a crash then leaves is still a prefix.
    fn flush_replayed(self: &Arc<Self>, lanes: &[LaneReplay]) -> Result<()> {
        for lane in lanes.iter().filter(|lane| lane.id() == LaneId::Values) {
            if let Some((link, seed, good)) = lane.unsealed_part() {
                mark!("replayed_values_made_durable");
                make_durable(&self.io, &link.path, seed, &good)?;
            }
        }
        self.freeze_memtable();
        self.flush_oldest()?;
        Ok(())
    }

    /// Ends both lanes at the last seq that was applied (P4, P5): what comes next is not there, or
    /// names a large value of which that is so.
    fn end_logs(&self, mut lanes: [LaneReplay; 2], torn_large: Option<Error>) -> Result<()> {
        let last_seq = self.commits.allocated.load(Ordering::Relaxed);
        let is_gap = lanes.iter().any(|lane| lane.next_base().is_some());
        if is_gap {
            mark!("gap_across_lanes");
        }
        for lane in &mut lanes {
            lane.cut_here()?;
        }
        let durable = lanes.iter().map(LaneReplay::durable_seq).max().unwrap_or(0);
        if durable > last_seq {
            mark!("log_ends_below_watermark");
            if let Some(error) = torn_large {
                return Err(error);
            }
            let ends = lanes.iter().find(|lane| lane.is_torn());
            let ends = ends.or_else(|| lanes.iter().find(|lane| lane.cut_seq() == 0));
            let message = format!("seq {} is missing, though it was durable", last_seq + 1);
            return Err(match ends.or(lanes.first()) {
                Some(lane) => lane.damaged(message),
                None => Error::corruption(message),
            });
        }
        let cut = lanes.iter().map(LaneReplay::cut_seq).max().unwrap_or(0);
        self.logs.replayed(last_seq, cut);
        for lane in lanes {
            for ended in lane.into_ended() {
                self.end_segment(&ended)?;
            }
        }
        Ok(())
    }

    /// Seals in memory what was read, and on disk cuts what a crash left behind it.
    fn end_segment(&self, ended: &Ended) -> Result<()> {
        let Ended { lane, link, good, last_seq, .. } = ended;
        let is_unsealed = link.sealed.is_none();
        if is_unsealed && !self.settings.read_only {
            if let Some((at, reason)) = ended.torn {
                mark!("torn_tail_cut");
                tracing::warn!(file = %link.path.display(), at, reason, "torn tail cut");
            }
            if ended.is_cut {
                mark!("cut_beyond_gap");
                if *lane == LaneId::Values {
                    mark!("values_cut_beyond_gap");
                }
                tracing::warn!(file = %link.path.display(), at = good.bytes, "cut beyond a gap");
            }
            cut_tail(&self.io, &link.path, ended.seed, good)?;
        }
        let values = (is_unsealed && *lane == LaneId::Values).then_some(SealedValues {
            sealed: *good,
            last_seq: *last_seq,
            totals: ended.totals,
        });
        if *lane == LaneId::Values
            && let Some(entry) = self.view.load().values.get(link.id)
        {
            entry.file.raise_readable(good.bytes);
        }
        // A reader cuts nothing: to it the file stays one that may have a torn end.
        if !is_unsealed || !self.settings.read_only {
            self.lane(*lane).replayed(link.id, *last_seq, *good, values);
        }
        Ok(())
    }
}

/// Why a frame could not be inserted, with where it stands.
fn located(failed: NotInserted, lanes: &[LaneReplay]) -> Error {
    let lane = lanes.iter().find(|lane| lane.id() == failed.lane);
    match lane.and_then(|lane| lane.path_of(failed.file)) {
        Some(path) => failed.error.in_file(path).at_offset(failed.at),
        None => failed.error,
    }
}
