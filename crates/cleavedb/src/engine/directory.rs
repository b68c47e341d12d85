//! The directory of a new database: made with all the folders above it, and made durable.
//!
//! One thread. Invariant: D1 when [`sync_folders`] has returned, no crash takes the directory's
//! name away, whoever made it and its folders, and whenever.

use std::io::ErrorKind as Cause;
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::io::Io;

/// Creates the directory and the folders above it that are missing.
pub(crate) fn create_folders(io: &Io, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for folder in dir.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        match io.disk.create_dir(folder) {
            Ok(()) => break,
            Err(cause) => match cause.kind() {
                Cause::AlreadyExists => break,
                Cause::NotFound => missing.push(folder),
                _ => return Err(failed(folder, cause)),
            },
        }
    }
    for folder in missing.into_iter().rev() {
        match io.disk.create_dir(folder) {
            Err(cause) if cause.kind() != Cause::AlreadyExists => {
                return Err(failed(folder, cause));
            }
            _ => {}
        }
    }
    Ok(())
}

fn failed(folder: &Path, cause: std::io::Error) -> Error {
    Error::io("creating the database directory", folder, cause)
}

/// Makes the name of the directory durable, and the names of all folders on the way to it. Also
/// where they were there already: an earlier attempt may have ended between creating and syncing,
/// and nobody can tell.
pub(crate) fn sync_folders(io: &Io, dir: &Path) -> Result<()> {
    for folder in folders_above(dir) {
        match io.disk.sync_dir(folder) {
            Ok(()) => {}
            Err(cause) if is_not_ours(&cause) => {}
            Err(cause) => return Err(Error::io("sync of a parent directory", folder, cause)),
        }
    }
    Ok(())
}

/// Whether a folder refuses to be synced because it is not one that we could have made: it may not
/// be read, nothing can be created in it, or its file system has no such call.
fn is_not_ours(cause: &std::io::Error) -> bool {
    matches!(
        cause.kind(),
        Cause::PermissionDenied
            | Cause::ReadOnlyFilesystem
            | Cause::Unsupported
            | Cause::InvalidInput
    )
}

/// The folders that hold a name on the way to `dir`, nearest first; the working directory stands
/// for the beginning of a relative path.
fn folders_above(dir: &Path) -> impl Iterator<Item = &Path> {
    let named = |folder: &'_ Path| folder.as_os_str().is_empty();
    dir.ancestors().skip(1).map(move |folder| if named(folder) { Path::new(".") } else { folder })
}

#[cfg(test)]
mod tests;
