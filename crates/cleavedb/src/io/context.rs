//! What every component that touches files is given.

use std::io;

use crate::base::sync::Arc;
use crate::io::clock::{Clock, SystemClock};
use crate::io::disk::Disk;
use crate::io::executor::SharedExecutor;
use crate::io::limiter::RateLimiter;
use crate::io::meter::Meter;
use crate::io::native::NativeDisk;
use crate::io::threads::ThreadPool;

/// Disk, clock, executor, meter and limiter of one database. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Io {
    /// Where files are.
    pub(crate) disk: Arc<dyn Disk>,
    /// What time it is.
    pub(crate) clock: Arc<dyn Clock>,
    /// Who runs background work.
    pub(crate) executor: SharedExecutor,
    /// Bytes by purpose.
    pub(crate) meter: Arc<Meter>,
    /// Limit of background writes (flush, compaction).
    pub(crate) limiter: Arc<RateLimiter>,
}

impl Io {
    /// Puts a context together; `rate_limit` in bytes per second, 0 for none.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        executor: SharedExecutor,
        rate_limit: u64,
    ) -> Self {
        let limiter = Arc::new(RateLimiter::new(clock.clone(), rate_limit));
        Self { disk, clock, executor, meter: Arc::new(Meter::default()), limiter }
    }

    /// A context over any disk with a simulated clock and a stepper of seed 0, for unit tests.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn simulated(disk: Arc<dyn Disk>) -> Self {
        let clock = Arc::new(crate::io::clock::SimulatedClock::new());
        Self::new(disk, clock, crate::io::stepper::Stepper::new(0).attach(), 0)
    }
}

/// The number of background threads that 0 stands for: one per core, at least two.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2)
}

/// The context of production: the native disk, the system's clock and a pool of `threads` (0 =
/// [`default_threads`]); `rate_limit` in bytes per second, 0 for none.
///
/// # Errors
/// Where the system refuses a thread.
pub(crate) fn native_io(threads: usize, rate_limit: u64) -> io::Result<Io> {
    let threads = if threads == 0 { default_threads() } else { threads };
    let pool = ThreadPool::new(threads)?;
    Ok(Io::new(NativeDisk::new(), Arc::new(SystemClock), pool, rate_limit))
}
