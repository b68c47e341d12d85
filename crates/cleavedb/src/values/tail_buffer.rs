//! The newest frames of the value lane, in memory: a value that was just written is read from here,
//! not from the device.
//!
//! Shared: the lane pushes each group it wrote, any thread reads. Invariants: B1 what is held never
//! exceeds the bound; the oldest groups give way. B2 groups are never changed once pushed, so a
//! reader shares them without a copy. B3 an accelerator only: whoever finds nothing here reads the
//! file.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc as BytesArc;

use crate::base::entry::FileId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};

/// Groups held at most, however small: keeps the search short and the bookkeeping bounded.
const GROUPS_MAX: usize = 4096;

/// Memory of a group beside its bytes: its place in the queue and the two counters.
const GROUP_OVERHEAD_BYTES: usize = 96;

/// A buffer with more unused room than this, and than what is in it, is not kept for its contents.
const UNUSED_BYTES_MAX: usize = 1024;

/// What one write brought to a file.
struct Group {
    file: FileId,
    start: u64,
    bytes: BytesArc<Vec<u8>>,
}

impl Group {
    /// Memory held.
    fn weight(&self) -> usize {
        self.bytes.capacity() + GROUP_OVERHEAD_BYTES
    }
}

#[derive(Default)]
struct Groups {
    /// Ascending by file and start.
    queue: VecDeque<Group>,
    bytes: usize,
}

/// The newest frames of the value lane.
pub(crate) struct TailBuffer {
    groups: Mutex<Groups>,
    /// File of the oldest group, [`NONE`] without any: most gets are of older files, and take no
    /// lock that they all share.
    oldest: AtomicU64,
    bytes_max: usize,
}

/// Above every file's number.
const NONE: u64 = u64::MAX;

impl TailBuffer {
    /// A buffer that holds at most `bytes_max` bytes; zero holds nothing.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { groups: Mutex::new(Groups::default()), oldest: AtomicU64::new(NONE), bytes_max }
    }

    /// Takes what was written at `start` of `file`, which must lie behind everything pushed before.
    /// Returns an empty vector for the next group: with the memory of one that gave way, where
    /// nobody reads that any more, or of this one, where it is mostly empty.
    pub(crate) fn push(&self, file: FileId, start: u64, bytes: Vec<u8>) -> Vec<u8> {
        let unused = bytes.capacity() - bytes.len();
        if unused > bytes.len().max(UNUSED_BYTES_MAX) {
            let copy = bytes.as_slice().to_vec();
            drop(self.push(file, start, copy));
            return emptied(bytes);
        }
        let group = Group { file, start, bytes: BytesArc::new(bytes) };
        let weight = group.weight();
        let mut gone = Vec::new();
        {
            let mut groups = self.groups.lock();
            let is_newer = groups.queue.back().is_none_or(|last| {
                (last.file, last.start + last.bytes.len() as u64) <= (file, start)
            });
            debug_assert!(is_newer, "the lane pushes in order");
            // A group that alone exceeds the bound leaves nothing: what is older than a gap is
            // hardly asked for.
            let room = self.bytes_max.saturating_sub(weight);
            while groups.bytes > room || groups.queue.len() >= GROUPS_MAX {
                let Some(oldest) = groups.queue.pop_front() else { break };
                groups.bytes -= oldest.weight();
                gone.push(oldest);
            }
            if weight <= self.bytes_max && is_newer {
                groups.bytes += weight;
                groups.queue.push_back(group);
            } else {
                gone.push(group);
            }
            let oldest = groups.queue.front().map_or(NONE, |oldest| oldest.file.0);
            self.oldest.store(oldest, Ordering::Release);
        }
        // Freed, or reused, outside of the lock.
        let free = gone.into_iter().filter_map(|group| BytesArc::try_unwrap(group.bytes).ok());
        emptied(free.max_by_key(Vec::capacity).unwrap_or_default())
    }

    /// `length` bytes at `offset` of `file`, if they are all here: a shared buffer, and where in it
    /// they are.
    pub(crate) fn get(
        &self,
        file: FileId,
        offset: u64,
        length: usize,
    ) -> Option<(BytesArc<Vec<u8>>, Range<usize>)> {
        if file.0 < self.oldest.load(Ordering::Acquire) {
            return None;
        }
        let groups = self.groups.lock();
        let behind =
            groups.queue.partition_point(|group| (group.file, group.start) <= (file, offset));
        let group = groups.queue.get(behind.checked_sub(1)?)?;
        let from = usize::try_from(offset.checked_sub(group.start)?).ok()?;
        let range = from..from.checked_add(length)?;
        (group.file == file && range.end <= group.bytes.len())
            .then(|| (BytesArc::clone(&group.bytes), range))
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.lock().bytes
    }
}

/// The memory without the contents.
fn emptied(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.clear();
    bytes
}

#[cfg(test)]
mod tests;
