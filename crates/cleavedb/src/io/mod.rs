//! Disk, clock, executor and byte meter: everything the engine asks of the world.

pub(crate) mod aligned;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod disk;
pub(crate) mod executor;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod fault_disk;
mod held_locks;
pub(crate) mod limiter;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod memory_disk;
pub(crate) mod meter;
pub(crate) mod native;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod seeded;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod stepper;
pub(crate) mod threads;
pub(crate) mod writer;

pub(crate) use context::Io;
pub(crate) use disk::DiskFile;
pub(crate) use meter::Purpose;
