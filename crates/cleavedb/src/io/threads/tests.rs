//! Who runs when, and how the pool ends.

#![cfg(not(miri))]

use super::*;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// A gate that threads pass once it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock();
        while !*open {
            self.0.1.wait(&mut open);
        }
    }
}

#[test]
fn all_else_runs_while_compactions_hold_every_worker_for_them() {
    let pool = ThreadPool::new(2).unwrap();
    let (gate, done) = (Gate::default(), Arc::new((Mutex::new(0), Condvar::new())));
    for _ in 0..6 {
        let gate = gate.clone();
        pool.submit(Priority::Compaction, Box::new(move || gate.pass()));
    }
    let each = [
        Priority::Flush,
        Priority::Housekeeping,
        Priority::Flush,
        Priority::Awaited,
        Priority::WriteBack,
    ];
    for priority in each {
        let done = done.clone();
        pool.submit(
            priority,
            Box::new(move || {
                *done.0.lock() += 1;
                done.1.notify_all();
            }),
        );
    }
    // Hangs if any had to wait for a compaction: those wait for the gate below.
    let mut count = done.0.lock();
    while *count < each.len() {
        done.1.wait(&mut count);
    }
    drop(count);
    gate.open();
    pool.shutdown();
}

/// The priority at which a step of this class runs.
#[cfg(target_os = "linux")]
fn priority_of(pool: &ThreadPool, priority: Priority) -> i32 {
    let (sender, receiver) = std::sync::mpsc::channel();
    let step = move || sender.send(rustix::process::getpriority_process(None)).unwrap();
    pool.submit(priority, Box::new(step));
    receiver.recv().unwrap().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn flushes_run_at_a_lower_priority_and_compactions_that_can_wait_at_one_far_below() {
    let usual = rustix::process::getpriority_process(None).unwrap();
    let pool = ThreadPool::new(2).unwrap();
    let below = |steps: i32| (usual + steps).min(19);
    for _ in 0..20 {
        assert_eq!(priority_of(&pool, Priority::Compaction), below(COMPACTION_PRIORITY_STEPS));
        assert_eq!(priority_of(&pool, Priority::Awaited), usual);
        assert_eq!(priority_of(&pool, Priority::WriteBack), usual);
        flush_workers_wait(&pool);
        assert_eq!(priority_of(&pool, Priority::Flush), below(FLUSH_PRIORITY_STEPS));
    }
    pool.shutdown();
}

/// Returns once both workers that flushes are for wait for a step.
fn flush_workers_wait(pool: &ThreadPool) {
    while pool.shared.queues.lock().idle < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn every_worker_takes_flushes_while_those_for_them_are_busy() {
    let pool = ThreadPool::new(2).unwrap();
    let gate = Gate::default();
    let (begun, all) = (Arc::new(AtomicUsize::new(0)), Gate::default());
    for _ in 0..4 {
        let (gate, begun, all) = (gate.clone(), begun.clone(), all.clone());
        pool.submit(
            Priority::Flush,
            Box::new(move || {
                if begun.fetch_add(1, Ordering::SeqCst) == 3 {
                    all.open();
                }
                gate.pass();
            }),
        );
    }
    // Hangs unless all four run at once.
    all.pass();
    gate.open();
    pool.shutdown();
}

#[test]
fn workers_end_in_good_order_whether_they_wait_or_work() {
    for busy in [false, true] {
        let pool = ThreadPool::new(2).unwrap();
        let gate = Gate::default();
        if busy {
            let gate = gate.clone();
            pool.submit(Priority::Flush, Box::new(move || gate.pass()));
        } else {
            flush_workers_wait(&pool);
        }
        let workers = std::mem::take(&mut *pool.workers.lock());
        gate.open();
        pool.shutdown();
        assert!(workers.into_iter().all(|worker| worker.join().is_ok()), "busy: {busy}");
        assert_eq!(pool.shared.queues.lock().idle, 0);
    }
}

#[test]
fn a_panicking_step_takes_no_worker_along() {
    let pool = ThreadPool::new(1).unwrap();
    let gate = Gate::default();
    for _ in 0..5 {
        pool.submit(Priority::Compaction, Box::new(|| panic!("on purpose")));
    }
    let opened = gate.clone();
    pool.submit(Priority::Compaction, Box::new(move || opened.open()));
    gate.pass();
    pool.shutdown();
}

#[test]
fn shutdown_waits_for_running_steps_and_drops_the_rest() {
    let pool = ThreadPool::new(1).unwrap();
    let (started, gate, ran) = (Gate::default(), Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (begun, hold, count) = (started.clone(), gate.clone(), ran.clone());
    pool.submit(
        Priority::Compaction,
        Box::new(move || {
            begun.open();
            hold.pass();
            count.fetch_add(1, Ordering::SeqCst);
        }),
    );
    started.pass();
    let count = ran.clone();
    let late = Box::new(move || {
        count.fetch_add(100, Ordering::SeqCst);
    });
    pool.submit(Priority::Compaction, late.clone());
    let stopper = {
        let pool = pool.clone();
        thread::spawn("stopper", move || pool.shutdown()).unwrap()
    };
    while !pool.shared.queues.lock().closed {
        thread::yield_now();
    }
    gate.open();
    stopper.join().unwrap();
    pool.submit(Priority::Flush, late);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(Arc::strong_count(&ran), 1, "steps that never ran are dropped");
}

#[test]
fn the_last_handle_may_go_away_inside_a_step() {
    let pool = ThreadPool::new(2).unwrap();
    let gate = Gate::default();
    let (opened, held) = (gate.clone(), pool.clone());
    pool.submit(
        Priority::Flush,
        Box::new(move || {
            opened.pass();
            drop(held);
        }),
    );
    drop(pool);
    gate.open();
}

#[test]
fn fork_join_runs_every_part_and_passes_a_panic_on() {
    let pool = ThreadPool::new(2).unwrap();
    let mut results = [0; 20];
    let parts = results.iter_mut().enumerate().map(|(number, result)| {
        Box::new(move || *result = number * number) as Box<dyn FnOnce() + Send + '_>
    });
    pool.fork_join(parts.collect());
    assert!(results.iter().enumerate().all(|(number, result)| *result == number * number));

    let ran = AtomicUsize::new(0);
    let part = |fails: bool| {
        let ran = &ran;
        Box::new(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            assert!(!fails, "on purpose");
        }) as Box<dyn FnOnce() + Send + '_>
    };
    let parts = vec![part(false), part(true), part(false)];
    let outcome = catch_unwind(AssertUnwindSafe(|| pool.fork_join(parts)));
    assert!(outcome.is_err());
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}
