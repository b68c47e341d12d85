//! Every lock, atomic and thread of the engine comes from here, so that a model checker can stand
//! in: with `--cfg shuttle` the same names schedule deterministically under shuttle.
//!
//! Locks do not poison: a panic while one is held is a bug, and data behind a lock is only ever
//! changed in ways that are valid at every step.

#[cfg(not(shuttle))]
mod native;
#[cfg(not(shuttle))]
pub(crate) use native::*;

#[cfg(shuttle)]
mod checked;
#[cfg(shuttle)]
pub(crate) use checked::*;

#[cfg(all(test, shuttle))]
pub(crate) mod schedules;

/// Atomics of figures that are counted and shown; no thread acts on their order, so that under
/// shuttle they are no steps of a schedule.
pub(crate) mod figures {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}
