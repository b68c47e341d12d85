//! Many reads at once: io_uring, or a pool of threads where the kernel refuses it.
//!
//! Shared by all threads that use the disk. Rings are lent out, so at most as many exist as
//! batches ran at the same time; the decision for rings or threads is made once, at first use.

use std::sync::OnceLock;

use io_uring::IoUring;

use crate::base::marks::mark;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::io::disk::{BatchRead, ReadsUnderWay};
use crate::io::native::read_threads::{ReadThreads, ThreadReads};
use crate::io::native::ring::{self, RingReads};

/// Idle rings kept for the next batches: for some scans, each with several batches under way.
const IDLE_RINGS_MAX: usize = 32;

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
                Err(e) => self.note_failed_ring(&e),
            }
        } else {
            self.threads.get_or_init(ReadThreads::new).read_all(&mut batched);
        }
    }

    /// See `Disk::start_batch`. A file without a descriptor is read at once, and so is what lies in
    /// the page cache: one call brings it, where a ring takes one to begin and one to end.
    pub(super) fn start(self: &Arc<Self>, mut reads: Vec<BatchRead>) -> Box<dyn ReadsUnderWay> {
        let cached = reads.iter_mut().map(read_cached).take_while(|is_cached| *is_cached).count();
        if cached > 0 && cached == reads.len() {
            return Box::new(CachedReads(reads));
        }
        let mut under_way = Vec::with_capacity(reads.len() - cached);
        for (number, read) in reads.iter_mut().enumerate().skip(cached) {
            if read.file.descriptor().is_some() && !read.buffer.is_empty() {
                under_way.push((number, read.take()));
            } else {
                read_alone(read);
            }
        }
        let (numbers, begun): (Vec<usize>, Vec<BatchRead>) = under_way.into_iter().unzip();
        let begun = match self.borrow_ring() {
            _ if begun.is_empty() => Begun::Nothing,
            Some(ring) => Begun::Ring(Box::new(RingReads::start(ring, begun))),
            None => Begun::Threads(self.threads.get_or_init(ReadThreads::new).start(begun)),
        };
        Box::new(UnderWay { batches: Arc::clone(self), reads, numbers, begun })
    }

    fn note_failed_ring(&self, error: &std::io::Error) {
        mark!("ring_failed");
        tracing::warn!(%error, "io_uring failed; batched reads use threads now");
        self.ring_failed.store(true, Ordering::Relaxed);
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

/// Reads of what lay in the page cache.
struct CachedReads(Vec<BatchRead>);

impl ReadsUnderWay for CachedReads {
    fn finish(self: Box<Self>) -> Vec<BatchRead> {
        self.0
    }

    fn came_at_once(&self) -> bool {
        true
    }
}

/// Reads that were begun.
struct UnderWay {
    batches: Arc<Batches>,
    /// All that were given, those on their way without their buffers.
    reads: Vec<BatchRead>,
    /// Which of them are on their way.
    numbers: Vec<usize>,
    begun: Begun,
}

enum Begun {
    Nothing,
    Ring(Box<RingReads>),
    Threads(ThreadReads),
}

impl UnderWay {
    /// Waits for those in a ring, and gives the ring back.
    fn finish_ring(&self, reads: RingReads) -> Vec<BatchRead> {
        let (reads, ring) = reads.finish();
        match ring {
            Ok(ring) => self.batches.give_back(ring),
            Err(e) => self.batches.note_failed_ring(&e),
        }
        reads
    }
}

impl ReadsUnderWay for UnderWay {
    fn finish(mut self: Box<Self>) -> Vec<BatchRead> {
        let ended = match std::mem::replace(&mut self.begun, Begun::Nothing) {
            Begun::Nothing => Vec::new(),
            Begun::Ring(reads) => self.finish_ring(*reads),
            Begun::Threads(reads) => reads.finish(),
        };
        let mut reads = std::mem::take(&mut self.reads);
        for (&number, ended) in self.numbers.iter().zip(ended) {
            if let Some(read) = reads.get_mut(number) {
                *read = ended;
            }
        }
        reads
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // The kernel writes to the buffers until the reads end, which is soon; threads own what
        // they read.
        if let Begun::Ring(reads) = std::mem::replace(&mut self.begun, Begun::Nothing) {
            mark!("reads_under_way_dropped");
            self.finish_ring(*reads);
        }
    }
}

/// One plain read, if it need not wait.
fn read_cached(read: &mut BatchRead) -> bool {
    let is_cached = read.file.read_cached_at(&mut read.buffer, read.offset);
    if is_cached {
        read.result = Ok(());
    }
    is_cached
}

/// One plain read.
pub(super) fn read_alone(read: &mut BatchRead) {
    read.result = read.file.read_exact_at(&mut read.buffer, read.offset);
}
