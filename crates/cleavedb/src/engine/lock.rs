//! The lock of a database directory: one writer, or any number of readers.
//!
//! Writers lock `LOCK` exclusively, creating it; readers share it. A reader never writes (promise
//! P21), so where `LOCK` is missing, in a copy of the data files or on a medium that cannot be
//! written, it shares a lock on `CURRENT` instead, which every database has. Writers look at that
//! one, too, after they hold `LOCK`; and a reader that holds `CURRENT` looks for `LOCK` once more:
//! so whichever of the two comes later sees the other.

use std::io::ErrorKind as Cause;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::{CURRENT, LOCK};
use crate::io::Io;
use crate::io::disk::{LockGuard, LockMode};

/// Takes the lock for a writer.
pub(crate) fn lock_for_writing(io: &Io, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let failed = |cause| refusal(dir, cause);
    let lock = io.disk.lock(&dir.join(LOCK), LockMode::Exclusive).map_err(failed)?;
    let current = dir.join(CURRENT);
    if io.disk.exists(&current).map_err(failed)? {
        // Given back at once: readers that come later find `LOCK`.
        drop(io.disk.lock(&current, LockMode::Exclusive).map_err(failed)?);
    }
    Ok(lock)
}

/// Takes the lock for a reader of a directory that holds a database. `None` where the file system
/// has no locks: no writer can have taken one either.
pub(crate) fn lock_for_reading(io: &Io, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    let share = |name: &str| io.disk.lock(&dir.join(name), LockMode::Shared);
    loop {
        let current = match share(LOCK) {
            Err(cause) if cause.kind() == Cause::NotFound => share(CURRENT),
            outcome => return granted(dir, outcome),
        };
        let lock = granted(dir, current)?;
        if !io.disk.exists(&dir.join(LOCK)).map_err(|cause| refusal(dir, cause))? {
            return Ok(lock);
        }
    }
}

fn granted(
    dir: &Path,
    outcome: std::io::Result<Box<dyn LockGuard>>,
) -> Result<Option<Box<dyn LockGuard>>> {
    match outcome {
        Ok(lock) => Ok(Some(lock)),
        Err(cause) if cause.kind() == Cause::Unsupported => Ok(None),
        Err(cause) => Err(refusal(dir, cause)),
    }
}

fn refusal(dir: &Path, cause: std::io::Error) -> Error {
    match cause.kind() {
        Cause::WouldBlock => {
            Error::new(ErrorKind::InUse, "the database is open elsewhere; close it there first")
                .in_file(dir)
        }
        _ => Error::io("locking the database", dir, cause),
    }
}
