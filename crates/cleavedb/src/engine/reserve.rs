//! The reserve file: room given up when the disk is full, so that deletes, flush and compaction
//! can make more.
//!
//! Invariants: RV-1 file and flag change together under one lock, which is the innermost but for
//! the disk's: who finds the flag unset finds a reserve to give up. RV-2 the reserve is in place
//! only if the file is as long as it should be: its name alone may be what a crash has left.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::RESERVE;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::io::disk::OpenMode;

/// Segments of room that a rewrite may need before it frees any.
const REWRITE_SEGMENTS: u64 = 2;

/// Whether the reserve is in place.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    given_up: Arc<AtomicBool>,
    /// Held while the file is made or goes (RV-1).
    changing: Mutex<()>,
}

impl Reserve {
    /// Whether the disk was full and the reserve has not been restored since.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// The same, for who is below the engine.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// Whether somebody is making the file, or giving it up.
    #[cfg(test)]
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.try_lock().is_none()
    }
}

impl Engine {
    /// Gives the reserve up where an operation met a full disk; true where that made room.
    pub(crate) fn note_full_disk(&self, error: &Error) -> bool {
        if error.kind() != ErrorKind::NoSpace {
            return false;
        }
        let _changing = self.reserve.changing.lock();
        if self.reserve.given_up.swap(true, Ordering::AcqRel) {
            return false;
        }
        mark!("reserve_given_up");
        tracing::warn!(%error, "the disk is full: only deletes are accepted until there is room");
        self.io.disk.remove_file(&self.dir.join(RESERVE)).is_ok()
    }

    /// Refuses writes that need room while the disk is full, unless there is room again.
    pub(crate) fn check_space(self: &Arc<Self>, frees_space: bool) -> Result<()> {
        if !self.reserve.is_given_up() || frees_space {
            return Ok(());
        }
        self.retry_after_full_disk();
        if !self.reserve.is_given_up() {
            return Ok(());
        }
        let message = "the disk is full; make room, or delete keys: deletes are still accepted";
        Err(Error::new(ErrorKind::NoSpace, message).in_file(&self.dir))
    }

    /// Sets the reserve aside (again); true when it is in place.
    pub(crate) fn restore_reserve(&self) -> bool {
        // It was given up for a rewrite that is under way, too: that must have room besides.
        let besides = match self.reserve.is_given_up() && self.gc.needs_room() {
            true => REWRITE_SEGMENTS * self.widths.value_segment_bytes,
            false => 0,
        };
        let _changing = self.reserve.changing.lock();
        let outcome = self.create_reserve(besides);
        match &outcome {
            Ok(()) => {
                if self.reserve.given_up.swap(false, Ordering::AcqRel) {
                    mark!("reserve_restored");
                    tracing::info!("there is room on the disk again");
                }
            }
            Err(error) => tracing::debug!(%error, "no room for the reserve"),
        }
        outcome.is_ok()
    }

    fn create_reserve(&self, besides: u64) -> Result<()> {
        let bytes = self.settings.reserve_bytes;
        if bytes == 0 {
            return Ok(());
        }
        let path = self.dir.join(RESERVE);
        let disk = &self.io.disk;
        let failed = |cause| Error::io("setting room aside", &path, cause);
        let file = match disk.exists(&path).map_err(failed)? {
            true => disk.open_write(&path).map_err(failed)?,
            false => disk.create(&path, OpenMode::default()).map_err(failed)?,
        };
        // RV-2; where the file system sets nothing aside, the length is all that can be asked for.
        if file.len().map_err(failed)? >= bytes {
            return Ok(());
        }
        let allocated = match besides {
            0 => file.allocate(bytes),
            _ => file.allocate(bytes.saturating_add(besides)).and_then(|()| file.set_len(bytes)),
        };
        allocated.map_err(|cause| {
            let _ = disk.remove_file(&path);
            failed(cause)
        })
    }

    /// Sets the reserve aside at open; a full disk is no reason not to open.
    pub(crate) fn open_reserve(&self) {
        if !self.restore_reserve() {
            self.reserve.given_up.store(true, Ordering::Release);
        }
    }
}
