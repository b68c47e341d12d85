//! Reads and replaces pointer files. Stateless; one writer at a time.
//!
//! Invariant P-1: a pointer file is complete and synced before it gets its name, so a crash never
//! leaves a bad one; whatever bad one is found is damage.

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::base::names::{CREATING, CURRENT, TEMPORARY_SUFFIX};
use crate::base::planted::planted;
use crate::io::disk::OpenMode;
use crate::io::{Io, Purpose};
use crate::log::writer::AppendError;
use crate::manifest::format::{POINTER_BYTES, Pointer, PointerKind};

/// Longest pointer file of any version that is read at all.
const POINTER_BYTES_MAX: u64 = 4096;

/// Name of the file.
pub(super) fn name(kind: PointerKind) -> &'static str {
    match kind {
        PointerKind::Current => CURRENT,
        PointerKind::Creating => CREATING,
    }
}

/// Reads a pointer file; `None` where there is none.
pub(super) fn read(io: &Io, dir: &Path, kind: PointerKind) -> Result<Option<Pointer>> {
    let path = dir.join(name(kind));
    let file = match io.disk.open(&path, OpenMode::default()) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("opening a pointer file", &path, e)),
    };
    let fail = |e| Error::io("reading a pointer file", &path, e);
    let len = file.len().map_err(fail)?;
    if len < POINTER_BYTES as u64 || len > POINTER_BYTES_MAX {
        let message = format!("pointer file of {len} bytes");
        return Err(Error::corruption(message).in_file(&path).at_offset(0));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(fail)?;
    io.meter.read(Purpose::Manifest, len);
    Pointer::decode(&bytes, kind).map(Some).map_err(|e| e.in_file(&path).at_offset(0))
}

/// Puts a pointer file in place of the one before, if any, in one atomic and durable step.
pub(super) fn replace(
    io: &Io,
    dir: &Path,
    kind: PointerKind,
    pointer: &Pointer,
) -> Result<(), AppendError> {
    let path = dir.join(name(kind));
    let temporary = dir.join(format!("{}{TEMPORARY_SUFFIX}", name(kind)));
    let recoverable =
        |e| AppendError::Recoverable(Error::io("writing a pointer file", &temporary, e));
    match io.disk.remove_file(&temporary) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(recoverable(e)),
        _ => {}
    }
    let file = io.disk.create(&temporary, OpenMode::default()).map_err(recoverable)?;
    let bytes = pointer.encode(kind);
    file.write_all_at(&bytes, 0).map_err(recoverable)?;
    io.meter.wrote(Purpose::Manifest, bytes.len() as u64);
    let fatal = |action: &str, e| AppendError::Fatal(Error::io(action, &path, e));
    file.sync_data().map_err(|e| fatal("syncing a pointer file", e))?;
    io.disk.rename(&temporary, &path).map_err(|e| fatal("renaming a pointer file", e))?;
    if kind == PointerKind::Creating || !planted!("skip_directory_sync") {
        io.disk.sync_dir(dir).map_err(|e| fatal("syncing the directory", e))?;
    }
    Ok(())
}
