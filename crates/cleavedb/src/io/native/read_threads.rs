//! Batched reads where the kernel has no io_uring for us: threads that each do one plain read at
//! a time; awaited at once, or begun and awaited later.
//!
//! Shared by all callers. Threads are started as reads wait, up to a limit, and end with the pool;
//! the caller reads along, so a batch ends also where no thread could be started.

use std::collections::VecDeque;
use std::io;

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::thread::{self, JoinHandle};
use crate::base::sync::{Arc, Condvar, Mutex};
use crate::io::disk::{BatchRead, DiskFile};

/// Threads at most: the depth at which the device is nearly at its limit.
const THREADS_MAX: usize = 32;

/// The pool.
pub(super) struct ReadThreads {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

/// One read, with everything it needs, so that it borrows nothing from the caller.
struct Job {
    file: Arc<dyn DiskFile>,
    offset: u64,
    buffer: Vec<u8>,
    number: usize,
    batch: Arc<Batch>,
}

/// Where the reads of one call come together.
#[derive(Default)]
struct Batch {
    done: Mutex<Vec<Done>>,
    wake: Condvar,
    /// Nobody waits any more.
    abandoned: AtomicBool,
}

/// Reads that were begun.
pub(super) struct ThreadReads {
    shared: Arc<Shared>,
    batch: Arc<Batch>,
    /// Without their buffers.
    reads: Vec<BatchRead>,
}

struct Done {
    number: usize,
    buffer: Vec<u8>,
    result: io::Result<()>,
}

impl Job {
    fn run(mut self) {
        if self.batch.abandoned.load(Ordering::Relaxed) {
            return;
        }
        let result = self.file.read_exact_at(&mut self.buffer, self.offset);
        let Self { file, buffer, number, batch, .. } = self;
        // Before the caller goes on: the last handle must not be closed behind its back.
        drop(file);
        batch.done.lock().push(Done { number, buffer, result });
        batch.wake.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job.run();
                queue = self.queue.lock();
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                self.wake.wait(&mut queue);
                queue.idle -= 1;
            }
        }
    }
}

impl ReadThreads {
    /// A pool without threads yet.
    pub(super) fn new() -> Self {
        Self { shared: Arc::new(Shared::default()), workers: Mutex::new(Vec::new()) }
    }

    /// Performs all reads.
    pub(super) fn read_all(&self, reads: &mut [&mut BatchRead]) {
        let begun = self.start(reads.iter_mut().map(|read| read.take()).collect());
        for (read, ended) in reads.iter_mut().zip(begun.finish()) {
            **read = ended;
        }
    }

    /// Begins all reads.
    pub(super) fn start(&self, mut reads: Vec<BatchRead>) -> ThreadReads {
        let batch = Arc::new(Batch::default());
        let jobs = reads.iter_mut().enumerate().map(|(number, read)| Job {
            file: read.file.clone(),
            offset: read.offset,
            buffer: std::mem::take(&mut read.buffer),
            number,
            batch: batch.clone(),
        });
        let short_of = {
            let mut queue = self.shared.queue.lock();
            queue.jobs.extend(jobs);
            queue.jobs.len().saturating_sub(queue.idle)
        };
        self.shared.wake.notify_all();
        self.grow(short_of);
        ThreadReads { shared: Arc::clone(&self.shared), batch, reads }
    }

    /// Starts up to `count` more threads; a refusal is no error, there is the caller.
    fn grow(&self, count: usize) {
        let mut workers = self.workers.lock();
        for _ in 0..count.min(THREADS_MAX.saturating_sub(workers.len())) {
            let shared = self.shared.clone();
            match thread::spawn("cleave-read", move || shared.work()) {
                Ok(worker) => workers.push(worker),
                Err(_) => return,
            }
        }
    }
}

impl ThreadReads {
    /// Waits for all of them, and reads along.
    pub(super) fn finish(mut self) -> Vec<BatchRead> {
        let mut reads = std::mem::take(&mut self.reads);
        while self.batch.done.lock().len() < reads.len() {
            let job = self.shared.queue.lock().jobs.pop_front();
            let Some(job) = job else { break };
            job.run();
        }
        let mut done = self.batch.done.lock();
        while done.len() < reads.len() {
            self.batch.wake.wait(&mut done);
        }
        for outcome in done.drain(..) {
            if let Some(read) = reads.get_mut(outcome.number) {
                read.buffer = outcome.buffer;
                read.result = outcome.result;
            }
        }
        drop(done);
        reads
    }
}

impl Drop for ThreadReads {
    fn drop(&mut self) {
        self.batch.abandoned.store(true, Ordering::Relaxed);
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_all();
        for worker in std::mem::take(&mut *self.workers.lock()) {
            // A reader has no panic to report: its reads return errors.
            let _ = worker.join();
        }
    }
}
