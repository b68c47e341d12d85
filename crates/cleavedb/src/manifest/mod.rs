//! Which files make up the database: a log of edits, each one atomic and durable before it is
//! acknowledged, and the pointer file that names the log in force.
//!
//! Owned by one thread at a time (the engine keeps it behind its edit lock).
//!
//! Invariants:
//! M-1 edits are numbered without gap over the life of the database, across rolled manifests;
//! M-2 the first edit of a manifest is a snapshot: the files before it are not needed;
//! M-3 `CURRENT` names a manifest only after that manifest and its name are durable, and the old
//!     one is removed only after the new `CURRENT` is;
//! M-4 after a failure whose outcome is not known nothing more is written (promise P6).

use std::path::{Path, PathBuf};

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::planted::planted;
use crate::base::section::Section;
use crate::io::{Io, Purpose};
use crate::log::format::{FORMAT_VERSION, FrameRef};
use crate::log::reader::{End, ReadOptions, SegmentReader};
use crate::log::writer::{AppendError, Resume, SegmentSpec, SegmentWriter};

pub(crate) mod dump;
pub(crate) mod format;

mod birth;
mod pointer;

pub(crate) use birth::{State, begin_creation, clear_unfinished, is_blank_segment, probe};
pub(crate) use format::Edit;
use format::{Pointer, PointerKind};

/// Number of a database's first manifest; the engine gives out numbers from 2 on.
pub(crate) const FIRST_MANIFEST: FileId = FileId(1);

/// Zeroed space kept ahead of the manifest's tail: some hundreds of edits, so that a full disk
/// still takes the edits that free space.
const PREALLOCATE_BYTES: u64 = 64 << 10;

/// What was found at open.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    /// Identity of the database.
    pub(crate) uuid: [u8; 16],
    /// Format number of the files.
    pub(crate) format_version: u32,
    /// Number of the manifest in force.
    pub(crate) manifest_id: FileId,
    /// The snapshot and every edit after it.
    pub(crate) edits: Vec<Edit>,
    /// How the manifest ended.
    pub(crate) end: End,
    /// Bytes up to there.
    pub(crate) bytes: u64,
}

/// The manifest in force.
pub(crate) struct Manifest {
    io: Io,
    dir: PathBuf,
    uuid: [u8; 16],
    writer: SegmentWriter,
    next_edit: u64,
    /// Sections of newer builds, kept through rolls.
    unknown: Vec<Section>,
    snapshot_bytes: u64,
    was_torn: bool,
    stopped: bool,
}

impl Manifest {
    /// Creates the manifest of a new database, as the last step of its creation: makes all files
    /// made so far durable, then the pointer, then removes the marker. The caller has called
    /// [`begin_creation`] before it made any file other than the lock.
    pub(crate) fn create(
        io: &Io,
        dir: &Path,
        uuid: [u8; 16],
        snapshot: Vec<Section>,
    ) -> Result<Self, AppendError> {
        begin_creation(io, dir, &uuid)?;
        let manifest = Self::begin(io, dir, uuid, FIRST_MANIFEST, 1, Edit { sections: snapshot })?;
        manifest.put_in_force()?;
        birth::finish(io, dir, FIRST_MANIFEST).map_err(AppendError::Fatal)?;
        Ok(manifest)
    }

    /// Opens the manifest in force for appending: reads it, cuts what a crash left behind its
    /// last edit, and makes durable what was read.
    pub(crate) fn open(io: &Io, dir: &Path) -> Result<(Self, Recovered)> {
        let (recovered, resume) = read(io, dir)?;
        let path = dir.join(file_name(FileKind::Manifest, recovered.manifest_id));
        let spec = spec(recovered.uuid, recovered.manifest_id, 0);
        let writer = SegmentWriter::resume(io, &path, &spec, resume.writer)?;
        // The name in CURRENT, too, may have been read from memory only.
        io.disk.sync_dir(dir).map_err(|e| Error::io("syncing the directory", dir, e))?;
        birth::finish(io, dir, recovered.manifest_id)?;
        let manifest = Self {
            io: io.clone(),
            dir: dir.to_owned(),
            uuid: recovered.uuid,
            writer,
            next_edit: resume.next_edit,
            unknown: recovered.edits.iter().flat_map(Edit::unknown).cloned().collect(),
            snapshot_bytes: resume.snapshot_bytes,
            was_torn: matches!(recovered.end, End::Torn { .. }),
            stopped: false,
        };
        Ok((manifest, recovered))
    }

    /// Reads the manifest in force and writes nothing.
    pub(crate) fn read_only(io: &Io, dir: &Path) -> Result<Recovered> {
        read(io, dir).map(|(recovered, _)| recovered)
    }

    /// Appends an edit and makes it durable. After a fatal error the outcome is not known until
    /// the database is reopened.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<(), AppendError> {
        self.check_running()?;
        let payload = edit.encode().map_err(AppendError::Recoverable)?;
        let frame = FrameRef { base_seq: self.next_edit, count: 1, payload: &payload };
        let appended = self.writer.append_frames(&[frame], self.next_edit - 1);
        let synced = appended.and_then(|_| {
            if planted!("skip_manifest_sync") {
                return Ok(());
            }
            self.writer.sync().map_err(AppendError::Fatal)
        });
        match synced {
            Ok(()) => {
                self.next_edit += 1;
                Ok(())
            }
            Err(error) => {
                self.stopped |= error.is_fatal();
                Err(error)
            }
        }
    }

    /// Whether the manifest should be rolled: its edits outgrow `bytes_max` and the snapshot
    /// they stand on, or a torn tail was cut off it.
    pub(crate) fn needs_roll(&self, bytes_max: u64) -> bool {
        let edits_bytes = self.writer.bytes().saturating_sub(self.snapshot_bytes);
        self.was_torn || edits_bytes > bytes_max.max(self.snapshot_bytes)
    }

    /// Begins a new manifest, numbered `next_id`, with a snapshot of everything the edits so far
    /// amount to, and removes the old one. Where the error is recoverable the old one is still
    /// in force.
    pub(crate) fn roll(
        &mut self,
        snapshot: Vec<Section>,
        next_id: FileId,
    ) -> Result<(), AppendError> {
        self.check_running()?;
        let old_path = self.writer.path().to_owned();
        match self.begin_next(snapshot, next_id) {
            Ok(next) => *self = next,
            Err(error) => {
                mark!("manifest_roll_failed");
                self.stopped |= error.is_fatal();
                if !error.is_fatal() && self.writer.id() != next_id {
                    let path = self.dir.join(file_name(FileKind::Manifest, next_id));
                    drop(self.io.disk.remove_file(&path));
                }
                return Err(error);
            }
        }
        mark!("manifest_rolled");
        // What cannot be removed now is removed by the next open.
        drop(self.io.disk.remove_file(&old_path));
        Ok(())
    }

    fn begin_next(&self, snapshot: Vec<Section>, id: FileId) -> Result<Self, AppendError> {
        if id <= self.writer.id() {
            let message = format!("manifest {id} would not be newer than {}", self.writer.id());
            return Err(AppendError::Recoverable(Error::invalid(message)));
        }
        let mut sections = snapshot;
        sections.extend(self.unknown.iter().cloned());
        let edit = Edit { sections };
        let next = Self::begin(&self.io, &self.dir, self.uuid, id, self.next_edit, edit)?;
        next.put_in_force()?;
        Ok(next)
    }

    /// Writes and syncs a new manifest that nothing names yet.
    fn begin(
        io: &Io,
        dir: &Path,
        uuid: [u8; 16],
        id: FileId,
        first_edit: u64,
        snapshot: Edit,
    ) -> Result<Self, AppendError> {
        let path = dir.join(file_name(FileKind::Manifest, id));
        let writer = SegmentWriter::create(io, &path, &spec(uuid, id, first_edit))?;
        let mut manifest = Self {
            io: io.clone(),
            dir: dir.to_owned(),
            uuid,
            writer,
            next_edit: first_edit,
            unknown: snapshot.unknown().cloned().collect(),
            snapshot_bytes: 0,
            was_torn: false,
            stopped: false,
        };
        manifest.append(&snapshot)?;
        manifest.snapshot_bytes = manifest.writer.bytes();
        Ok(manifest)
    }

    /// Makes the file's name durable, then `CURRENT` (M-3).
    fn put_in_force(&self) -> Result<(), AppendError> {
        let failed = |e| Error::io("syncing the directory", &self.dir, e);
        self.io.disk.sync_dir(&self.dir).map_err(|e| AppendError::Fatal(failed(e)))?;
        let pointer = Pointer { uuid: self.uuid, manifest_id: self.writer.id() };
        pointer::replace(&self.io, &self.dir, PointerKind::Current, &pointer)
    }

    fn check_running(&self) -> Result<(), AppendError> {
        if !self.stopped {
            return Ok(());
        }
        let message = "an earlier write to the manifest failed; reopen the database";
        let error = Error::new(ErrorKind::Stopped, message).in_file(self.writer.path());
        Err(AppendError::Fatal(error))
    }

    #[cfg(test)]
    /// Number of the manifest in force.
    pub(crate) fn id(&self) -> FileId {
        self.writer.id()
    }

    #[cfg(test)]
    /// Identity of the database.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Length of the manifest in bytes, the room ahead of its tail left out.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }
}

fn spec(uuid: [u8; 16], id: FileId, first_edit: u64) -> SegmentSpec {
    SegmentSpec {
        kind: FileKind::Manifest,
        id,
        uuid,
        predecessor: None,
        first_seq: first_edit,
        purpose: Purpose::Manifest,
        preallocate_bytes: PREALLOCATE_BYTES,
    }
}

/// What appending goes on from.
struct Position {
    writer: Resume,
    next_edit: u64,
    snapshot_bytes: u64,
}

fn read(io: &Io, dir: &Path) -> Result<(Recovered, Position)> {
    let pointer = match pointer::read(io, dir, PointerKind::Current)? {
        Some(pointer) => pointer,
        None => return Err(no_database(io, dir)?),
    };
    let Pointer { uuid, manifest_id: id } = pointer;
    let path = dir.join(file_name(FileKind::Manifest, id));
    let exists = io.disk.exists(&path).map_err(|e| Error::io("looking for a file", &path, e))?;
    if !exists {
        let message = "the manifest that CURRENT names is missing";
        return Err(Error::corruption(message).in_file(&path));
    }
    let options = ReadOptions {
        kind: FileKind::Manifest,
        id,
        uuid,
        sealed: None,
        contiguous: true,
        purpose: Purpose::Manifest,
    };
    let mut reader = SegmentReader::open(io, &path, options)?;
    let mut edits = Vec::new();
    let mut snapshot_bytes = 0;
    while let Some(frame) = reader.next_frame()? {
        let at = |error: Error| error.in_file(&path).at_offset(frame.offset);
        if frame.header.count != 1 {
            return Err(at(Error::corruption("frame of the manifest that is not one edit")));
        }
        edits.push(Edit::decode(frame.payload).map_err(at)?);
        if edits.len() == 1 {
            snapshot_bytes = frame.offset + frame.header.frame_bytes();
        }
    }
    let (Some(end), Some(next_edit), false) =
        (reader.end().cloned(), reader.next_seq(), edits.is_empty())
    else {
        // It was durable before CURRENT named it, so no crash explains this.
        let message = "the manifest in force has no snapshot";
        return Err(Error::corruption(message).in_file(&path).at_offset(0));
    };
    let writer = reader.good_part();
    let recovered = Recovered {
        uuid,
        format_version: FORMAT_VERSION,
        manifest_id: id,
        edits,
        end,
        bytes: writer.sealed.bytes,
    };
    Ok((recovered, Position { writer, next_edit, snapshot_bytes }))
}

/// The error for a directory without `CURRENT`.
fn no_database(io: &Io, dir: &Path) -> Result<Error> {
    let message = match probe(io, dir)? {
        State::Unfinished => "the creation of the database was not finished",
        State::Absent | State::Present => "there is no database here",
    };
    Ok(Error::new(ErrorKind::NotFound, message).in_file(dir))
}

#[cfg(test)]
mod tests;
