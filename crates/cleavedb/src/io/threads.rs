//! The production executor: named threads over five queues.
//!
//! `threads` workers take any step but what is awaited; one more worker takes only flushes and one
//! takes housekeeping and flushes, so that long compactions can delay neither. The former run at a
//! lower priority of the system's scheduler: where threads are more than processors, a writer or
//! reader that loses its processor to a compaction waits for milliseconds, and compaction can
//! wait. They take a flush, which writers may wait for, only where no other worker is free for it.
//! A compaction that cannot wait, or that writers are held back for, is for `threads` workers of
//! the usual priority: a thread that has lowered its own may not raise it again. One more waits
//! for the device to take what writers have logged, and for nothing else: it is woken by itself.
//!
//! I1: a step runs exactly once, or is dropped unrun by `shutdown`.
//! I2: no lock is held while a step runs or is dropped.
//! I3: after `shutdown` returns no step runs, except the one that called it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::sync::thread::{self, JoinHandle};
use crate::base::sync::{Arc, Condvar, Mutex};
use crate::io::executor::{Executor, Priority, Step, WAITS_MAX};

/// Steps of the system's priority ("nice") that compaction is below others: it has about a
/// thirtieth of their share of a processor that both want. Where it falls behind, what comes next
/// runs at the usual priority; until then a merge that has begun goes on with that little.
const COMPACTION_PRIORITY_STEPS: i32 = 15;
/// The same for flushes and housekeeping: a third. Writers that fill a memtable meanwhile sleep
/// until one is done.
const FLUSH_PRIORITY_STEPS: i32 = 5;

/// Threads that run background steps. Dropping the pool shuts it down.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    threads: usize,
}

struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    wake_write_back: Condvar,
}

#[derive(Default)]
struct Queues {
    flush: VecDeque<Step>,
    awaited: VecDeque<Step>,
    compaction: VecDeque<Step>,
    housekeeping: VecDeque<Step>,
    write_back: VecDeque<Step>,
    /// Workers for flushes that wait for a step or were woken for one.
    idle: usize,
    closed: bool,
}

/// Which queues a worker serves.
#[derive(Clone, Copy)]
enum Role {
    Any,
    FlushOnly,
    HousekeepingFirst,
    AwaitedOnly,
    WriteBackOnly,
}

impl Role {
    fn priority_steps(self) -> i32 {
        match self {
            Self::Any => COMPACTION_PRIORITY_STEPS,
            Self::FlushOnly | Self::HousekeepingFirst => FLUSH_PRIORITY_STEPS,
            Self::AwaitedOnly | Self::WriteBackOnly => 0,
        }
    }

    /// Whether flushes are left to it while it waits.
    fn is_for_flushes(self) -> bool {
        matches!(self, Self::FlushOnly | Self::HousekeepingFirst)
    }
}

impl Queues {
    fn take(&mut self, role: Role) -> Option<Step> {
        let spare_flush = self.flush.len() > self.idle;
        match role {
            Role::Any => self
                .flush
                .pop_front_if(|_| spare_flush)
                .or_else(|| self.compaction.pop_front())
                .or_else(|| self.housekeeping.pop_front()),
            Role::FlushOnly => self.flush.pop_front(),
            Role::HousekeepingFirst => {
                self.housekeeping.pop_front().or_else(|| self.flush.pop_front())
            }
            Role::AwaitedOnly => self.awaited.pop_front(),
            Role::WriteBackOnly => self.write_back.pop_front(),
        }
    }
}

impl ThreadPool {
    /// A pool that runs up to `threads` (at least 1) compaction-class steps at once.
    ///
    /// # Errors
    /// Where the system refuses a thread; those already started end.
    pub(crate) fn new(threads: usize) -> io::Result<Arc<Self>> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues::default()),
            wake: Condvar::new(),
            wake_write_back: Condvar::new(),
        });
        let pool =
            Arc::new(Self { shared: shared.clone(), workers: Mutex::new(Vec::new()), threads });
        for number in 0..threads {
            pool.start(&format!("cleave-work-{number}"), Role::Any)?;
            pool.start(&format!("cleave-wait-{number}"), Role::AwaitedOnly)?;
        }
        pool.start("cleave-flush", Role::FlushOnly)?;
        pool.start("cleave-keep", Role::HousekeepingFirst)?;
        pool.start("cleave-log", Role::WriteBackOnly)?;
        Ok(pool)
    }

    fn start(&self, name: &str, role: Role) -> io::Result<()> {
        let shared = self.shared.clone();
        let worker = thread::spawn(name, move || shared.work(role))?;
        self.workers.lock().push(worker);
        Ok(())
    }
}

impl Shared {
    fn wake_of(&self, role: Role) -> &Condvar {
        if matches!(role, Role::WriteBackOnly) { &self.wake_write_back } else { &self.wake }
    }

    fn work(&self, role: Role) {
        lower_priority(role.priority_steps());
        loop {
            let step = {
                let mut queues = self.queues.lock();
                loop {
                    if let Some(step) = queues.take(role) {
                        if queues.flush.len() > queues.idle {
                            // Others left it to this worker.
                            self.wake.notify_all();
                        }
                        break step;
                    }
                    if queues.closed {
                        return;
                    }
                    queues.idle += usize::from(role.is_for_flushes());
                    self.wake_of(role).wait(&mut queues);
                    queues.idle -= usize::from(role.is_for_flushes());
                }
            };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(step)) {
                if cfg!(shuttle) {
                    resume_unwind(payload);
                }
                tracing::error!(message = panic_text(&*payload), "background step panicked");
            }
        }
    }
}

/// Lowers the priority of this thread, and of those that it starts. Whoever may not, goes on as is.
fn lower_priority(steps: i32) {
    // Elsewhere this would be the priority of the whole process.
    if steps > 0 && cfg!(all(target_os = "linux", not(shuttle), not(miri))) {
        let _ = rustix::process::nice(steps);
    }
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

impl Executor for ThreadPool {
    fn submit(&self, priority: Priority, step: Step) {
        let refused = {
            let mut queues = self.shared.queues.lock();
            if queues.closed {
                Some(step)
            } else {
                match priority {
                    Priority::Flush => queues.flush.push_back(step),
                    Priority::Awaited => queues.awaited.push_back(step),
                    Priority::Compaction => queues.compaction.push_back(step),
                    Priority::Housekeeping => queues.housekeeping.push_back(step),
                    Priority::WriteBack => queues.write_back.push_back(step),
                }
                None
            }
        };
        if refused.is_some() {
            return;
        }
        if priority == Priority::WriteBack {
            self.shared.wake_write_back.notify_all();
        } else {
            // All of them: the one woken alone might not serve this queue.
            self.shared.wake.notify_all();
        }
    }

    fn help(&self) -> bool {
        false
    }

    fn is_stepper(&self) -> bool {
        false
    }

    /// Helpers are started for the occasion: parts are long (sub-compactions), and borrowing
    /// pool workers could wait behind the very step that forks.
    fn fork_join<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        run_parts(parts, self.threads);
    }

    fn fork_join_waits<'a>(&self, parts: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        run_parts(parts, WAITS_MAX);
    }

    fn parallelism(&self) -> usize {
        self.threads
    }

    fn shutdown(&self) {
        let dropped = {
            let mut queues = self.shared.queues.lock();
            let idle = queues.idle;
            std::mem::replace(&mut *queues, Queues { closed: true, idle, ..Queues::default() })
        };
        self.shared.wake.notify_all();
        self.shared.wake_write_back.notify_all();
        drop(dropped);
        let workers = std::mem::take(&mut *self.workers.lock());
        let own = thread::current().id();
        for worker in workers {
            if worker.thread().id() != own {
                // Steps' panics are caught, so a join error cannot carry news.
                let _ = worker.join();
            }
        }
    }
}

/// Runs all parts on the caller's thread and helpers, so many threads in all.
fn run_parts<'a>(parts: Vec<Box<dyn FnOnce() + Send + 'a>>, threads: usize) {
    let helpers = parts.len().min(threads).saturating_sub(1);
    let parts = Mutex::new(parts.into_iter());
    let panics = Mutex::new(Vec::new());
    let run = || {
        loop {
            let next = parts.lock().next();
            let Some(part) = next else { return };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(part)) {
                panics.lock().push(payload);
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..helpers {
            // Refused a thread: this one does the work.
            let _ = thread::spawn_scoped(scope, &format!("cleave-part-{number}"), run);
        }
        run();
    });
    if let Some(payload) = panics.into_inner().pop() {
        resume_unwind(payload);
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
