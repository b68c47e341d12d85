//! What is done for a lane ahead of need, so that writers wait little when it is rolled: its bytes
//! are on their way to the device, and the next segment's file is there, blank.
//!
//! A blank file is named by nothing and holds nothing. Whoever opens the database treats it as what
//! it is, a segment that was never begun: the writer removes it, the reader leaves it alone.
//! Invariant: A1 a blank file is used only where its number is above that of every segment.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::file_name;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::lane::{Lane, LaneId};
use crate::io::executor::Priority;
use crate::log::writer::BlankSegment;

/// The next segment's file.
#[derive(Default)]
pub(super) struct Ahead {
    blank: Mutex<Option<BlankSegment>>,
    /// Whether the open segment's successor has been asked for.
    asked: AtomicBool,
    /// Whether a step that starts write-back is queued.
    is_write_back_queued: AtomicBool,
}

impl Ahead {
    /// A new segment is open: its successor may be asked for.
    pub(super) fn ask_again(&self) {
        self.asked.store(false, Ordering::Release);
    }
}

/// Bytes of a segment after which their write-back is started: few enough that a sync finds
/// little to write, many enough for the device.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// Bytes that write-back may be behind before a writer starts it by itself, and waits as long as
/// the device is busy: what a sync finds to write then stays little, and writers that are faster
/// than the device become as fast as it is.
const WRITE_BACK_LAG_BYTES: u64 = 4 << 20;

/// A segment is rolled by the group after the one that filled it: a part of its size beyond that
/// is set aside as well, as much as the largest group takes.
const OVERSHOOT_PART: u64 = 64;

impl Lane {
    /// Appended bytes whose write-back has not been started.
    pub(crate) fn write_back_lag(&self) -> u64 {
        self.segment_bytes().saturating_sub(self.write_back_bytes.load(Ordering::Relaxed))
    }

    /// Starts writing back what was appended, where that is much. The call waits where the device
    /// is busy.
    fn start_write_back(&self) {
        let from = self.write_back_bytes.load(Ordering::Relaxed);
        let to = self.segment_bytes();
        if to < from + WRITE_BACK_BYTES {
            return;
        }
        let change = (Ordering::Relaxed, Ordering::Relaxed);
        if self.write_back_bytes.compare_exchange(from, to, change.0, change.1).is_err() {
            return;
        }
        // Where the segment changes meanwhile, the hint is for the wrong file, and no more.
        let handle = self.tail.lock().handle.clone();
        if let Some(handle) = handle {
            handle.start_write_back(from, to - from);
        }
    }
}

impl Engine {
    /// Has what was appended to either lane written back, where that is much. Not under leadership.
    pub(crate) fn have_written_back(self: &Arc<Self>) {
        for id in LaneId::ALL {
            let lane = self.lane(id);
            let lag = lane.write_back_lag();
            if lag >= WRITE_BACK_LAG_BYTES {
                lane.start_write_back();
            } else if lag >= WRITE_BACK_BYTES {
                self.queue_write_back(id);
            }
        }
    }

    fn queue_write_back(self: &Arc<Self>, id: LaneId) {
        let queued = &self.lane(id).ahead.is_write_back_queued;
        if queued.load(Ordering::Relaxed) || queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = Arc::clone(self);
        let step = move || {
            let lane = engine.lane(id);
            // Before the look at how much there is: who appends more asks again.
            lane.ahead.is_write_back_queued.store(false, Ordering::Release);
            lane.start_write_back();
        };
        self.io.executor.submit(Priority::WriteBack, Box::new(step));
    }

    /// Has the next segment's file made in the background once the open segment is half full.
    pub(crate) fn prepare_next_segment(self: &Arc<Self>, id: LaneId) {
        let due = self.lane(id).segment_bytes() >= self.segment_bytes_max(id) / 2;
        let asked = &self.lane(id).ahead.asked;
        if !due || asked.load(Ordering::Acquire) || asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = Arc::clone(self);
        let step = move || {
            if let Err(error) = engine.make_blank_segment(id) {
                match error.kind() {
                    // The leader makes the file, and room, when it needs them.
                    ErrorKind::NoSpace | ErrorKind::Closed => {}
                    _ => engine.stop(&error),
                }
            }
        };
        self.io.executor.submit(Priority::Housekeeping, Box::new(step));
    }

    fn make_blank_segment(&self, lane: LaneId) -> Result<()> {
        self.health.check_writable()?;
        if self.reserve.is_given_up() || self.lane(lane).ahead.blank.lock().is_some() {
            return Ok(());
        }
        let id = self.file_ids.next();
        let path = self.dir.join(file_name(lane.file_kind(), id));
        let full = self.segment_bytes_max(lane);
        let bytes = full + full / OVERSHOOT_PART;
        let blank = BlankSegment::create(&self.io, &path, id, bytes)?;
        self.io
            .disk
            .sync_dir(&self.dir)
            .map_err(|cause| Error::io("sync of the directory", &self.dir, cause))?;
        *self.lane(lane).ahead.blank.lock() = Some(blank);
        mark!("blank_segment_made");
        // The roll is near: the less there is to sync by then, the shorter it is.
        self.sync_logs()
    }

    /// The blank file, if it is there and may be used (A1).
    pub(super) fn take_blank_segment(&self, id: LaneId) -> Option<BlankSegment> {
        let blank = self.lane(id).ahead.blank.lock().take()?;
        let newest = self.lane(id).tail.lock().segments.back().map(|segment| segment.id);
        if newest.is_none_or(|newest| newest < blank.id()) {
            return Some(blank);
        }
        // A roll that did not wait for it came first.
        self.remove_blank(&blank);
        None
    }

    /// Removes the blank files: the database is being closed.
    pub(crate) fn drop_blank_segments(&self) {
        for id in LaneId::ALL {
            let blank = self.lane(id).ahead.blank.lock().take();
            if let Some(blank) = blank {
                self.remove_blank(&blank);
            }
        }
    }

    fn remove_blank(&self, blank: &BlankSegment) {
        if let Err(error) = self.io.disk.remove_file(blank.path()) {
            // Not lost: the next open removes what the manifest does not name.
            tracing::warn!(file = %blank.path().display(), %error, "a blank segment stays");
        }
    }
}
