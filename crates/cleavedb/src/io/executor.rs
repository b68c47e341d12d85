//! Background work: steps handed to an executor (threads in production, one seeded stepper in
//! tests, where nothing runs unless somebody asks).

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::{Arc, Mutex};

/// Which queue a step goes to; earlier variants run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Writers wait for it.
    Flush,
    /// Compaction that somebody waits for, or that pays for itself in the reads beside it.
    Awaited,
    /// Keeps reads short and space bounded.
    Compaction,
    /// Periodic sync, deletion of obsolete files.
    Housekeeping,
    /// Starts the write-back of what writers have logged. It computes nothing and waits for a busy
    /// device, beside all others.
    WriteBack,
}

/// One piece of background work. It must not panic; errors go into the engine's shared state.
pub(crate) type Step = Box<dyn FnOnce() + Send>;

/// Waits for the device that go on at once: what is synced together takes one commit of the file
/// system's own journal instead of one each, and a device serves several flushes at a time.
pub(crate) const WAITS_MAX: usize = 8;

/// Runs background steps.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Queues a step. After [`Executor::shutdown`] steps are dropped unrun.
    fn submit(&self, priority: Priority, step: Step);
    /// Called by someone who waits for background work, with no lock held: the stepper runs one
    /// queued step and returns true, or false if there is none. Threads: always false, and the
    /// caller blocks on its condition variable.
    fn help(&self) -> bool;
    /// Whether callers must use [`Executor::help`] instead of blocking.
    fn is_stepper(&self) -> bool;
    /// Runs all of `parts` and returns when every one is done; in parallel where there are
    /// threads, one after another (in seeded order) in the stepper. A part's panic is passed on
    /// to the caller; with threads, once all other parts are done.
    fn fork_join<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>);
    /// The same for up to [`WAITS_MAX`] parts that wait for the device rather than compute, as
    /// syncs do: all at once, however few processors there are.
    fn fork_join_waits<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        self.fork_join(parts);
    }
    /// Number of compaction-class steps that may run at once.
    fn parallelism(&self) -> usize;
    /// Stops taking steps and waits for running ones.
    fn shutdown(&self);
}

/// A shared executor.
pub(crate) type SharedExecutor = Arc<dyn Executor>;

/// Parts of a fork.
pub(crate) type Parts<'a> = Vec<Box<dyn FnOnce() + Send + 'a>>;

/// What `run` makes of each item, in their order, the first failure of them in its place; so many
/// lanes take them one after the other, and each is taken whatever became of the others.
pub(crate) fn side_by_side<T: Send, U: Send>(
    items: Vec<T>,
    lanes: usize,
    fork_join: &dyn for<'a> Fn(Parts<'a>),
    run: &(dyn Fn(T) -> Result<U> + Sync),
) -> Result<Vec<U>> {
    let lanes = lanes.min(items.len());
    let slots: Vec<Mutex<Option<Result<U>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let queue = Mutex::new(items.into_iter().zip(&slots));
    let lane = || {
        loop {
            let next = queue.lock().next();
            let Some((item, slot)) = next else { break };
            let made = run(item);
            *slot.lock() = Some(made);
        }
    };
    let parts = (0..lanes).map(|_| Box::new(lane) as Box<dyn FnOnce() + Send + '_>);
    fork_join(parts.collect());
    let lost = || Err(Error::new(ErrorKind::Stopped, "a part of background work was not run"));
    slots.iter().map(|slot| slot.lock().take().unwrap_or_else(lost)).collect()
}
