//! Time arrives as an argument.
//!
//! The engine asks a [`Clock`]; production hands it the system's monotonic clock, tests one that
//! stands still until somebody sleeps. Both are shared freely between threads.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(test, feature = "sim"))]
use crate::base::sync::{Arc, Mutex};

/// A monotonic clock.
pub(crate) trait Clock: Send + Sync + 'static {
    /// Time since some fixed point; never goes back.
    fn now(&self) -> Duration;
    /// Waits. The simulated clock moves on instead.
    fn sleep(&self, duration: Duration);
    /// The identity of a new database: random in production; in simulation it follows from the
    /// time, so that a run is reproducible.
    fn unique(&self) -> [u8; 16] {
        (self.now().as_nanos() ^ UNIQUE_BASE).to_le_bytes()
    }
}

/// Keeps the identity of a database created at time zero from being all zeros.
const UNIQUE_BASE: u128 = 0x636c_6561_7665_6462_636c_6561_7665_6462;

/// The system's monotonic clock, as the system counts it: every read and write asks it twice, so
/// nothing is subtracted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        // Neither is negative: it counts from the start of the system.
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock everyone else uses")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn unique(&self) -> [u8; 16] {
        let mut bytes = UNIQUE_BASE.to_le_bytes();
        // Small requests do not fail once the system has booted; the base would still be valid.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        bytes
    }
}

/// A clock that stands still until somebody sleeps or it is told to advance. Clones are the same
/// clock.
#[cfg(any(test, feature = "sim"))]
#[derive(Clone, Debug, Default)]
pub struct SimulatedClock {
    now: Arc<Mutex<Duration>>,
}

#[cfg(any(test, feature = "sim"))]
impl SimulatedClock {
    /// A clock at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on.
    pub fn advance(&self, duration: Duration) {
        let mut now = self.now.lock();
        *now = now.saturating_add(duration);
    }

    /// Time since the clock was made: the sum of all sleeps and advances.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        *self.now.lock()
    }
}

#[cfg(any(test, feature = "sim"))]
impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}
