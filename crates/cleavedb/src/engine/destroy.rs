//! Removing a database.

use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::names::{CURRENT, LOCK, is_draft, parse_file_name};
use crate::engine::lock::lock_for_writing;
use crate::io::Io;
use crate::io::disk::LockGuard;
use crate::manifest::{State, probe};

/// Removes every file of ours in `dir`, and the directory if nothing else is in it. The pointer
/// goes first, durably: what a crash leaves is never taken for a database.
pub(crate) fn destroy(io: &Io, dir: &Path) -> Result<()> {
    // What an interrupted destroy left is an error to `probe`, but can be destroyed again.
    if matches!(probe(io, dir), Ok(State::Absent)) {
        return Err(
            Error::new(ErrorKind::NotFound, "there is no database in this directory").in_file(dir)
        );
    }
    let held = lock_for_writing(io, dir)?;
    remove_files(io, dir, Some(held))
}

/// Removes every file of ours, then the lock that is held, if it could be taken.
pub(crate) fn remove_files(io: &Io, dir: &Path, held: Option<Box<dyn LockGuard>>) -> Result<()> {
    let failed = |cause| Error::io("removing the database", dir, cause);
    remove_if_there(io, &dir.join(CURRENT))?;
    io.disk.sync_dir(dir).map_err(failed)?;
    for entry in io.disk.read_dir(dir).map_err(failed)? {
        let ours = parse_file_name(&entry.name).is_some() || is_draft(&entry.name);
        if ours && !entry.is_dir && entry.name != LOCK {
            remove_if_there(io, &dir.join(&entry.name))?;
        }
    }
    // Removed while held: nobody else can hold a lock on this file and think that it counts.
    remove_if_there(io, &dir.join(LOCK))?;
    drop(held);
    if io.disk.read_dir(dir).map_err(failed)?.is_empty() {
        io.disk.remove_dir(dir).map_err(failed)?;
    }
    Ok(())
}

fn remove_if_there(io: &Io, path: &Path) -> Result<()> {
    match io.disk.remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("removing a file", path, cause))
        }
        _ => Ok(()),
    }
}
