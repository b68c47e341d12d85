//! What every test family needs: seed and budget from the environment, panics and hangs turned
//! into violations, work spread over threads.
//!
//! The watchdog is one thread per process; everything else is plain functions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use crate::random::mix;
use crate::session::{Check, Violation, lock};

/// Where a family begins and when it ends: at a time, or when enough has been counted. Clones
/// count together.
#[derive(Clone, Debug)]
pub struct Budget {
    /// First seed.
    pub seed: u64,
    end: End,
    counted: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    At(Instant),
    Count(u64),
}

impl Budget {
    /// From `SEED` and `BUDGET_S`, with defaults for either.
    #[must_use]
    pub fn from_environment(default_seconds: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Self::new(number("SEED").unwrap_or(1), number("BUDGET_S").unwrap_or(default_seconds))
    }

    /// From `BUDGET_S` where it is set, else until `count` cases have been counted.
    #[must_use]
    pub fn timed_or_until(seed: u64, count: u64) -> Self {
        let named = std::env::var("BUDGET_S").ok().and_then(|text| text.parse().ok());
        named.map_or_else(|| Self::until(seed, count), |seconds| Self::new(seed, seconds))
    }

    /// A budget of so many seconds from now.
    #[must_use]
    pub fn new(seed: u64, seconds: u64) -> Self {
        let end = End::At(Instant::now() + Duration::from_secs(seconds));
        Self { seed, end, counted: Arc::default() }
    }

    /// A budget that ends when `count` cases have been counted, however long it takes.
    #[must_use]
    pub fn until(seed: u64, count: u64) -> Self {
        Self { seed, end: End::Count(count), counted: Arc::default() }
    }

    /// Counts cases: operations, crash states, faults.
    pub fn count(&self, cases: u64) {
        self.counted.fetch_add(cases, Ordering::Relaxed);
    }

    /// Whether the time is up, or enough counted.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        match self.end {
            End::At(end) => Instant::now() >= end,
            End::Count(count) => self.counted.load(Ordering::Relaxed) >= count,
        }
    }

    /// The seed of run `number`: runs of neighbouring first seeds share nothing.
    #[must_use]
    pub fn seed_of(&self, number: u64) -> u64 {
        if number == 0 { self.seed } else { mix(self.seed ^ mix(number)) }
    }
}

/// The outcome; under `SURVEY` a violation is printed and the family goes on.
///
/// # Errors
/// The violation, if it ends the family.
pub fn survey(outcome: Check) -> Check {
    if std::env::var_os("SURVEY").is_none() {
        return outcome;
    }
    if let Err(violation) = outcome {
        println!("survey: {violation}");
    }
    Ok(())
}

/// Number of threads that families may use: `WORKERS`, default one.
#[must_use]
pub fn workers() -> u64 {
    let named = std::env::var("WORKERS").ok().and_then(|text| text.parse().ok());
    named.unwrap_or(1).max(1)
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static GUARDED: RefCell<bool> = const { RefCell::new(false) };
}

fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDED.with(|guarded| *guarded.borrow()) {
                PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string()));
            } else {
                former(info);
            }
        }));
    });
}

/// Runs `work`; a panic within becomes a violation that begins with "panic".
///
/// # Errors
/// Those of `work`.
pub fn guarded<T>(name: &str, work: impl FnOnce() -> Check<T>) -> Check<T> {
    install_hook();
    let _watch = Watch::begin(name);
    let before = GUARDED.with(|guarded| guarded.replace(true));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.with(|guarded| guarded.replace(before));
    outcome.unwrap_or_else(|_| {
        let message = PANIC.with(|panic| panic.borrow_mut().take()).unwrap_or_default();
        Err(Violation(format!("panic: {message}")))
    })
}

/// Longest time one run may take before it counts as hung. The longest crash runs, whose states are
/// crashed again and those again, take half a minute, and more on a busy machine.
const HANG: Duration = Duration::from_secs(300);

static RUNNING: Mutex<BTreeMap<u64, (String, Instant)>> = Mutex::new(BTreeMap::new());

struct Watch(u64);

impl Watch {
    fn begin(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static WATCHDOG: Once = Once::new();
        WATCHDOG.call_once(|| {
            std::thread::spawn(watch_forever);
        });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&RUNNING).insert(number, (name.to_owned(), Instant::now()));
        Self(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&RUNNING).remove(&self.0);
    }
}

fn watch_forever() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = lock(&RUNNING);
        if running.values().any(|(_, since)| since.elapsed() > HANG) {
            for (name, since) in running.values() {
                println!("VIOLATION hang: {name} runs for {} s", since.elapsed().as_secs());
            }
            std::process::exit(1);
        }
    }
}

/// Runs `work` with run numbers 0, 1, 2.. on [`workers`] threads until the budget is spent, at
/// least `least` runs, or a run fails. Returns the number of runs.
///
/// # Errors
/// The first failure, its seed in front.
pub fn spread(
    budget: &Budget,
    family: &str,
    least: u64,
    work: impl Fn(u64) -> Check + Sync,
) -> Check<u64> {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let over = number >= least && budget.is_spent();
                    if over || failed.load(Ordering::Relaxed) {
                        next.fetch_sub(1, Ordering::Relaxed);
                        break;
                    }
                    let seed = budget.seed_of(number);
                    let name = format!("{family} SEED={seed}");
                    if let Err(violation) = guarded(&name, || work(seed)) {
                        failed.store(true, Ordering::Relaxed);
                        lock(&failure).get_or_insert(violation.context(name));
                    }
                }
            });
        }
    });
    let failure = lock(&failure).take();
    match failure {
        Some(violation) => Err(violation),
        None => Ok(next.load(Ordering::Relaxed)),
    }
}
