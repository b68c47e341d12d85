//! What the harness needs and users do not: simulated disk and clock, the seeded stepper, tiny
//! widths, marks and planted bugs. Only with feature `sim` (marks: `marks`); no promise of
//! stability.
//!
//! A test makes a [`MemoryDisk`], a [`Stepper`] and a [`SimulatedClock`], opens a database in
//! [`Environment::simulated`], lets [`MemoryDisk::crash_image`] build the disks a crash could
//! leave, and opens databases on those. [`FaultDisk`] makes chosen calls fail.

pub mod fuzz;
pub mod locator;
pub mod map;
pub mod tree;

#[cfg(feature = "marks")]
pub use crate::base::marks::marks;
#[cfg(feature = "planted")]
pub use crate::base::planted::plant;
pub use crate::base::widths::{DeltaWidths, Widths};
pub use crate::io::clock::SimulatedClock;
pub use crate::io::fault_disk::{CallKind, Fault, FaultDisk, FaultPlan};
pub use crate::io::memory_disk::{CrashMode, MemoryDisk, Observer};
pub use crate::io::stepper::Stepper;

use crate::base::sync::Arc;
use crate::io::clock::{Clock, SystemClock};
use crate::io::context::{Io, default_threads};
use crate::io::disk::Disk;
use crate::io::native::NativeDisk;
use crate::io::threads::ThreadPool;

/// The world a database runs in: disk, clock and who runs background steps. May be used for any
/// number of databases, at the same time or one after another.
#[derive(Clone)]
pub struct Environment {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    runner: Runner,
}

#[derive(Clone)]
enum Runner {
    Stepper(Stepper),
    Threads,
}

impl Environment {
    /// Nothing real: steps run when the stepper is asked, time moves when somebody sleeps.
    #[must_use]
    pub fn simulated(disk: &MemoryDisk, stepper: &Stepper, clock: &SimulatedClock) -> Self {
        Self::stepped(Arc::new(disk.clone()), stepper, clock)
    }

    /// As [`Environment::simulated`], over a disk whose calls can be made to fail.
    #[must_use]
    pub fn with_disk_faults(disk: &FaultDisk, stepper: &Stepper, clock: &SimulatedClock) -> Self {
        Self::stepped(Arc::new(disk.clone()), stepper, clock)
    }

    /// The native disk, but steps run when the stepper is asked and time is simulated.
    #[must_use]
    pub fn native_stepped(stepper: &Stepper) -> Self {
        Self::stepped(NativeDisk::new(), stepper, &SimulatedClock::new())
    }

    /// A disk in memory under real threads and the real clock.
    #[must_use]
    pub fn memory_threaded(disk: &MemoryDisk) -> Self {
        Self::threaded(Arc::new(disk.clone()))
    }

    /// A disk whose calls can be made to fail, under real threads and the real clock.
    #[must_use]
    pub fn faults_threaded(disk: &FaultDisk) -> Self {
        Self::threaded(Arc::new(disk.clone()))
    }

    fn stepped(disk: Arc<dyn Disk>, stepper: &Stepper, clock: &SimulatedClock) -> Self {
        let runner = Runner::Stepper(stepper.clone());
        Self { disk, clock: Arc::new(clock.clone()), runner }
    }

    fn threaded(disk: Arc<dyn Disk>) -> Self {
        Self { disk, clock: Arc::new(SystemClock), runner: Runner::Threads }
    }

    /// The context for one database: its own executor, meter and limiter. `threads` (0 = one per
    /// core) count only where real threads run; `rate_limit` in bytes per second, 0 for none.
    pub(crate) fn into_io(self, threads: usize, rate_limit: u64) -> std::io::Result<Io> {
        let executor = match &self.runner {
            Runner::Stepper(stepper) => stepper.attach(),
            Runner::Threads => {
                ThreadPool::new(if threads == 0 { default_threads() } else { threads })?
            }
        };
        Ok(Io::new(self.disk, self.clock, executor, rate_limit))
    }
}
