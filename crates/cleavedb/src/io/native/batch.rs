//! Many reads at once: io_uring, or a pool of threads where the kernel refuses it.
//!
//! Shared by all threads that use the disk. Rings are lent out, so at most as many exist as
//! batches ran at the same time; the decision for rings or threads is made once, at first use.

use std::sync::OnceLock;

use io_uring::IoUring;

use crate::base::marks::mark;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::io::disk::BatchRead;
use crate::io::native::read_threads::ReadThreads;
use crate::io::native::ring;

/// Idle rings kept for the next batches: more than cores is of no use.
const IDLE_RINGS_MAX: usize = 16;

/// How batches are read.
pub(super) struct Batches {
    idle_rings: Mutex<Vec<IoUring>>,
    /// Whether the kernel gave a ring at first use.
    ring_given: OnceLock<bool>,
    /// A ring failed since; no more are used.
    ring_failed: AtomicBool,
    threads: OnceLock<ReadThreads>,
}

impl Batches {
    /// Decides at first use.
    pub(super) fn new() -> Self {
        Self {
            idle_rings: Mutex::new(Vec::new()),
            ring_given: OnceLock::new(),
            ring_failed: AtomicBool::new(false),
            threads: OnceLock::new(),
        }
    }

    /// Never io_uring.
    #[cfg(test)]
    pub(super) fn without_ring() -> Self {
        let batches = Self::new();
        batches.ring_failed.store(true, Ordering::Relaxed);
        batches
    }

    /// See `Disk::batch_mode`.
    pub(super) fn mode(&self) -> &'static str {
        if self.uses_rings() { "io_uring" } else { "threads" }
    }

    /// See `Disk::read_batch`. Files without a descriptor are read one after another.
    pub(super) fn read(&self, reads: &mut [BatchRead]) {
        let mut batched: Vec<&mut BatchRead> = Vec::with_capacity(reads.len());
        for read in reads {
            if read.file.descriptor().is_some() && !read.buffer.is_empty() {
                batched.push(read);
            } else {
                read_alone(read);
            }
        }
        if let [single] = batched.as_mut_slice() {
            // One plain call costs less than a round through the ring.
            read_alone(single);
            return;
        }
        if batched.is_empty() {
            return;
        }
        if let Some(ring) = self.borrow_ring() {
            match ring::read_all(ring, &mut batched) {
                Ok(ring) => self.give_back(ring),
                Err(e) => {
                    mark!("ring_failed");
                    tracing::warn!(error = %e, "io_uring failed; batched reads use threads now");
                    self.ring_failed.store(true, Ordering::Relaxed);
                }
            }
        } else {
            self.threads.get_or_init(ReadThreads::new).read_all(&mut batched);
        }
    }

    fn uses_rings(&self) -> bool {
        if self.ring_failed.load(Ordering::Relaxed) {
            return false;
        }
        *self.ring_given.get_or_init(|| match ring::build() {
            Ok(ring) => {
                self.give_back(ring);
                true
            }
            Err(e) => {
                tracing::info!(error = %e, "no io_uring here; batched reads use threads");
                false
            }
        })
    }

    /// A ring nobody else uses; `None` where threads are to be used.
    fn borrow_ring(&self) -> Option<IoUring> {
        if !self.uses_rings() {
            return None;
        }
        let idle = self.idle_rings.lock().pop();
        // Out of descriptors or memory for another ring just now: threads serve this batch.
        idle.or_else(|| ring::build().ok())
    }

    fn give_back(&self, ring: IoUring) {
        let mut idle = self.idle_rings.lock();
        if idle.len() < IDLE_RINGS_MAX {
            idle.push(ring);
        }
    }
}

/// One plain read.
pub(super) fn read_alone(read: &mut BatchRead) {
    read.result = read.file.read_exact_at(&mut read.buffer, read.offset);
}
