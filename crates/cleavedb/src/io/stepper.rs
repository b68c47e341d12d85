//! The executor of tests: nothing runs unless somebody asks, and a seed decides what runs next.
//!
//! A [`Stepper`] outlives databases: each database gets an attachment of its own, and shutting
//! one down drops only its steps. Steps run on the thread that asks, with no lock held.

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, Mutex};
use crate::io::executor::{Executor, Priority, SharedExecutor, Step};
use crate::io::seeded::Seeded;

/// A queue of background steps run one at a time, in an order drawn from a seed. Clones are the
/// same stepper.
#[derive(Clone)]
pub struct Stepper {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    queue: Vec<Queued>,
    seeded: Seeded,
    attachments: u64,
    steps_run: u64,
}

struct Queued {
    attachment: u64,
    step: Step,
}

impl Stepper {
    /// A stepper with no steps.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let seeded = Seeded::new(seed);
        let shared = Shared { queue: Vec::new(), seeded, attachments: 0, steps_run: 0 };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Runs one queued step, chosen by the seed; false where there is none.
    pub fn run_one(&self) -> bool {
        let step = {
            let mut shared = self.shared.lock();
            if shared.queue.is_empty() {
                return false;
            }
            let waiting = shared.queue.len();
            let chosen = shared.seeded.index(waiting);
            shared.steps_run += 1;
            // `remove`, not `swap_remove`: the order of the rest stays that of submission.
            shared.queue.remove(chosen).step
        };
        step();
        true
    }

    /// Runs steps, also those they queue, until none is left. Returns how many ran.
    pub fn run_all(&self) -> u64 {
        let mut count = 0;
        while self.run_one() {
            count += 1;
        }
        count
    }

    /// Number of queued steps.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.lock().queue.len()
    }

    #[cfg(feature = "sim")]
    /// Number of steps run so far.
    #[must_use]
    pub fn steps_run(&self) -> u64 {
        self.shared.lock().steps_run
    }

    /// An executor for one database, shut down on its own.
    pub(crate) fn attach(&self) -> SharedExecutor {
        let mut shared = self.shared.lock();
        shared.attachments += 1;
        Arc::new(Attachment {
            stepper: self.clone(),
            number: shared.attachments,
            closed: AtomicBool::new(false),
        })
    }
}

/// One database's share of a stepper.
struct Attachment {
    stepper: Stepper,
    number: u64,
    closed: AtomicBool,
}

impl Executor for Attachment {
    fn submit(&self, _priority: Priority, step: Step) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let queued = Queued { attachment: self.number, step };
        self.stepper.shared.lock().queue.push(queued);
    }

    fn help(&self) -> bool {
        self.stepper.run_one()
    }

    fn is_stepper(&self) -> bool {
        true
    }

    fn fork_join<'a>(&self, mut parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        while !parts.is_empty() {
            let chosen = self.stepper.shared.lock().seeded.index(parts.len());
            let part = parts.remove(chosen);
            part();
        }
    }

    fn parallelism(&self) -> usize {
        // Two, so that concurrent picks of compactions are met in simulation as well.
        2
    }

    fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        let dropped: Vec<Queued> = {
            let mut shared = self.stepper.shared.lock();
            let queue = std::mem::take(&mut shared.queue);
            let (own, others) =
                queue.into_iter().partition(|queued| queued.attachment == self.number);
            shared.queue = others;
            own
        };
        drop(dropped);
    }
}

#[cfg(test)]
mod tests;
