//! Creation of a database as one atomic step, and how an unfinished one is told from a damaged
//! one (promise P5).
//!
//! The first durable file, besides the lock, is the marker `CREATING`; the last step is to
//! remove it, after `CURRENT` is durable. Hence:
//!
//! | `CURRENT` | `CREATING` | other files of ours | state |
//! |---|---|---|---|
//! | there | any | any | present (its contents are checked when it is opened) |
//! | missing | there | only what creation makes | unfinished: cleared and begun again |
//! | missing | missing | none but the lock | absent |
//! | missing | any | anything else | corruption: never an empty database |
//!
//! Called by one thread, which holds the lock of the directory.

use std::path::Path;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::{
    CREATING, CURRENT, FileKind, OPTIONS, RESERVE, TEMPORARY_SUFFIX, parse_file_name,
};
use crate::io::Io;
use crate::io::disk::{DirEntry, OpenMode};
use crate::log::format::{SEGMENT_HEADER_BYTES, is_zero};
use crate::log::writer::AppendError;
use crate::manifest::FIRST_MANIFEST;
use crate::manifest::format::{Pointer, PointerKind};
use crate::manifest::pointer;

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No file of ours, or no directory.
    Absent,
    /// A creation that a crash or an error cut short: [`clear_unfinished`], then create.
    Unfinished,
    /// A database, perhaps a damaged one: open it.
    Present,
}

/// Says what a directory holds. Reads names, and of an unfinished creation its journal; writes
/// nothing.
pub(crate) fn probe(io: &Io, dir: &Path) -> Result<State> {
    let entries = match io.disk.read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(State::Absent),
        Err(e) => return Err(Error::io("listing the database directory", dir, e)),
    };
    if entries.iter().any(|entry| entry.name == CURRENT) {
        return Ok(State::Present);
    }
    let ours: Vec<&DirEntry> = entries
        .iter()
        .filter(|entry| is_ours(&entry.name) && kind_of(&entry.name) != Some(FileKind::Lock))
        .collect();
    if ours.is_empty() {
        return Ok(State::Absent);
    }
    // The marker itself, or its draft, may be all that a crash left, in whatever shape.
    let draft = format!("{CREATING}{TEMPORARY_SUFFIX}");
    if ours.iter().all(|entry| entry.name == draft) {
        return Ok(State::Unfinished);
    }
    let lost = |why: &str| Error::corruption(format!("CURRENT is missing and {why}")).in_file(dir);
    match pointer::read(io, dir, PointerKind::Creating) {
        Ok(Some(_)) => {}
        Ok(None) => return Err(lost("no creation was under way")),
        Err(error) => return Err(error),
    }
    let of_kind = |kind| ours.iter().filter(|e| kind_of(&e.name) == Some(kind)).count();
    if of_kind(FileKind::Table) > 0
        || of_kind(FileKind::Value) > 0
        || of_kind(FileKind::Large) > 0
        || of_kind(FileKind::ValueTable) > 0
        || of_kind(FileKind::Bucket) > 0
        || of_kind(FileKind::FlexPages) > 0
        || of_kind(FileKind::FlexSegment) > 0
        || of_kind(FileKind::FlexLog) > 0
        || of_kind(FileKind::Facts) > 0
        || of_kind(FileKind::Manifest) > 1
        || of_kind(FileKind::Journal) > 1
    {
        return Err(lost("there are files that creation does not make"));
    }
    for journal in ours.iter().filter(|e| kind_of(&e.name) == Some(FileKind::Journal)) {
        if !is_blank_segment(io, &dir.join(&journal.name))? {
            return Err(lost("there is a journal with contents"));
        }
    }
    Ok(State::Unfinished)
}

/// Writes the marker: the first step of creation after taking the lock, before any other file is
/// made. Does nothing where it is there already.
pub(crate) fn begin_creation(io: &Io, dir: &Path, uuid: &[u8; 16]) -> Result<(), AppendError> {
    let path = dir.join(CREATING);
    let exists = io.disk.exists(&path).map_err(|e| {
        AppendError::Recoverable(Error::io("looking for the creation marker", &path, e))
    })?;
    if exists {
        // Its contents were synced before it got its name; the name itself perhaps not.
        return io
            .disk
            .sync_dir(dir)
            .map_err(|e| AppendError::Fatal(Error::io("syncing the directory", dir, e)));
    }
    let birth = Pointer { uuid: *uuid, manifest_id: FIRST_MANIFEST };
    pointer::replace(io, dir, PointerKind::Creating, &birth)
}

/// Removes what an unfinished creation left, all but lock and marker, so that it can begin again.
pub(crate) fn clear_unfinished(io: &Io, dir: &Path) -> Result<()> {
    mark!("creation_begun_again");
    let entries =
        io.disk.read_dir(dir).map_err(|e| Error::io("listing the database directory", dir, e))?;
    for entry in entries.iter().filter(|entry| is_ours(&entry.name)) {
        if !matches!(kind_of(&entry.name), Some(FileKind::Lock | FileKind::Creating)) {
            remove(io, &dir.join(&entry.name))?;
        }
    }
    io.disk.sync_dir(dir).map_err(|e| Error::io("syncing the directory", dir, e))
}

/// Removes the marker, after `CURRENT` has become durable: the last step of creation. Also
/// removes drafts of pointer files and manifests other than `keep`, which a crash may have left.
pub(super) fn finish(io: &Io, dir: &Path, keep: FileId) -> Result<()> {
    let entries =
        io.disk.read_dir(dir).map_err(|e| Error::io("listing the database directory", dir, e))?;
    let drafts = [CURRENT, CREATING].map(|name| format!("{name}{TEMPORARY_SUFFIX}"));
    let mut removed = false;
    for entry in &entries {
        let stray = match parse_file_name(&entry.name) {
            Some((FileKind::Creating, _)) => true,
            Some((FileKind::Manifest, id)) => id != keep,
            _ => drafts.contains(&entry.name),
        };
        if stray {
            remove(io, &dir.join(&entry.name))?;
            removed = true;
        }
    }
    if removed {
        io.disk.sync_dir(dir).map_err(|e| Error::io("syncing the directory", dir, e))?;
    }
    Ok(())
}

fn remove(io: &Io, path: &Path) -> Result<()> {
    io.disk.remove_file(path).map_err(|e| Error::io("removing a left-over file", path, e))
}

/// The kind of a file of ours, seen through a temporary suffix.
fn kind_of(name: &str) -> Option<FileKind> {
    parse_file_name(name).map(|(kind, _)| kind)
}

/// Whether a name is one that the engine gives, finished or draft.
fn is_ours(name: &str) -> bool {
    let stem = name.strip_suffix(TEMPORARY_SUFFIX).unwrap_or(name);
    parse_file_name(stem).is_some() || [OPTIONS, RESERVE].contains(&stem)
}

/// Whether a journal holds nothing but (some of) its header.
pub(crate) fn is_blank_segment(io: &Io, path: &Path) -> Result<bool> {
    let fail = |e| Error::io("reading a journal that nothing names", path, e);
    let file = io.disk.open(path, OpenMode::default()).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    let mut offset = SEGMENT_HEADER_BYTES as u64;
    let mut buffer = vec![0; 64 << 10];
    while offset < len {
        let count = file.read_at(&mut buffer, offset).map_err(fail)?;
        let read = buffer.get(..count).unwrap_or_default();
        if count == 0 {
            break;
        }
        if !is_zero(read) {
            return Ok(false);
        }
        offset += count as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
