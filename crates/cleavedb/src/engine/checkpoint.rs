//! Checkpoints: a second database directory made of hard links, at one commit point.
//!
//! The open segments of both lanes are sealed first (rule F9), so every linked file is one that
//! nobody writes any more. The list of files is taken before anything more is logged, under the
//! manifest lock, so no edit comes between.

use std::io::ErrorKind as Cause;
use std::path::Path;

use crate::base::entry::FileId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::runs::{Run, between};
use crate::base::section::{Section, SectionTag};
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::commit::{Afterwards, Extra, Task, Work};
use crate::engine::destroy::remove_files;
use crate::engine::directory::sync_folders;
use crate::engine::lane::JournalEdit;
use crate::engine::lock::lock_for_writing;
use crate::engine::view::View;
use crate::io::Purpose;
use crate::io::disk::OpenMode;
use crate::log::writer::AppendError;
use crate::manifest::{self, Manifest};
use crate::values::drops::directory::Facts;

/// What a checkpoint is made of.
struct Collected {
    sections: Vec<Section>,
    view: Arc<View>,
    /// Pins the files of facts.
    facts: Arc<Facts>,
}

impl Engine {
    /// Makes `target` a database equal to this one at this moment.
    pub(crate) fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        let exists = self.io.disk.exists(target);
        if exists.map_err(|cause| Error::io("looking for the target", target, cause))? {
            return Err(
                Error::new(ErrorKind::AlreadyExists, "the target exists already").in_file(target)
            );
        }
        self.health.check_writable()?;
        self.io
            .disk
            .create_dir(target)
            .map_err(|cause| Error::io("creating the checkpoint", target, cause))?;
        let held = lock_for_writing(&self.io, target);
        let outcome = match &held {
            Ok(_) => self.fill(target),
            Err(error) => Err(error.clone()),
        };
        if outcome.is_err() {
            // Links left behind would keep the room of files that are removed here, and the next
            // try would find the folder.
            mark!("failed_checkpoint_removed");
            if let Err(error) = remove_files(&self.io, target, held.ok()) {
                tracing::warn!(target = %target.display(), %error, "a failed checkpoint stays");
            }
        }
        outcome
    }

    /// Makes the checkpoint in its directory.
    fn fill(self: &Arc<Self>, target: &Path) -> Result<()> {
        manifest::begin_creation(&self.io, target, &self.uuid).map_err(AppendError::into_error)?;
        let Collected { sections, view, facts } = self.collect(target)?;
        // The view pins its tables and value files.
        for index in view.indexes.values() {
            for file in index.files() {
                self.link(file.kind, file.id, target)?;
            }
        }
        for entry in view.values.iter() {
            let runs = entry.punched.as_ref().map(|punched| Arc::clone(&punched.runs));
            self.link_around(FileKind::Value, entry.file.id(), target, &runs.unwrap_or_default())?;
        }
        for entry in view.values.containers() {
            self.link(FileKind::ValueTable, entry.container.id(), target)?;
        }
        for bucket in view.deltas.iter() {
            self.link(FileKind::Bucket, bucket.info().id, target)?;
        }
        for spilled in facts.spilled() {
            self.link(FileKind::Facts, spilled.id(), target)?;
        }
        // Those that only the log names among them; the roll has made these durable.
        for entry in view.values.large() {
            self.link(FileKind::Large, entry.file.id(), target)?;
        }
        Manifest::create(&self.io, target, self.uuid, sections).map_err(AppendError::into_error)?;
        sync_folders(&self.io, target)?;
        tracing::info!(target = %target.display(), "checkpoint made");
        Ok(())
    }

    /// Seals the open segments and says, before anything more is logged, what the database is made
    /// of: a lane that went on while the other is linked would leave a gap of seqs.
    fn collect(self: &Arc<Self>, target: &Path) -> Result<Collected> {
        let collected: Arc<Mutex<Option<Collected>>> = Arc::default();
        let (place, target) = (Arc::clone(&collected), target.to_owned());
        let afterwards: Afterwards = Box::new(move |engine| {
            *place.lock() = Some(engine.collect_sealed(&target)?);
            Ok(())
        });
        let extra = Extra { afterwards: Some(afterwards), ..Extra::default() };
        self.commit(Work { extra: Some(Box::new(extra)), ..Work::control(Task::Roll) })?;
        let collected = collected.lock().take();
        collected.ok_or_else(|| Error::invalid("a checkpoint without a list of files"))
    }

    /// The list of files, and links to the journals. Under leadership, the lanes just rolled.
    fn collect_sealed(&self, target: &Path) -> Result<Collected> {
        // No edit until the list is complete; the journals it names cannot be unlinked before.
        let _edits_wait = self.manifest.lock();
        let mut sections = self.snapshot_sections();
        // The copy finds its values without a locator's checkpoint.
        let is_left_out = |tag| matches!(tag, SectionTag::JOURNAL | SectionTag::LOCATOR);
        sections.retain(|section| !is_left_out(section.tag));
        let mut journal = Vec::new();
        for segment in self.journal.segments() {
            let Some(sealed) = segment.sealed else { continue };
            self.link(FileKind::Journal, segment.id, target)?;
            journal.push(JournalEdit::Added { id: segment.id });
            journal.push(JournalEdit::Sealed { sealed, last_seq: segment.last_seq });
        }
        sections.push(JournalEdit::encode(&journal));
        Ok(Collected { sections, view: self.view.load_full(), facts: self.facts.load_full() })
    }

    /// Links one file; copies it where it cannot be linked: on another file system, or one without
    /// hard links, or where the file has as many as it may have.
    fn link(&self, kind: FileKind, id: FileId, target: &Path) -> Result<()> {
        self.link_around(kind, id, target, &[])
    }

    /// [`Self::link`] of a file of which these runs are no part any more: a copy does without. The
    /// list of files and their runs are of one moment, and the view of that moment is held: what an
    /// edit drops later is given back only after that, and not where there is another name then.
    fn link_around(&self, kind: FileKind, id: FileId, target: &Path, runs: &[Run]) -> Result<()> {
        let name = file_name(kind, id);
        let (from, to) = (self.dir.join(&name), target.join(&name));
        match self.io.disk.hard_link(&from, &to) {
            Ok(()) => Ok(()),
            Err(cause) if needs_copy(cause.kind()) => {
                mark!("checkpoint_file_copied");
                self.copy(&from, &to, runs).map_err(|cause| Error::io("copying", &from, cause))
            }
            Err(cause) => Err(Error::io("linking", &from, cause)),
        }
    }

    fn copy(&self, from: &Path, to: &Path, runs: &[Run]) -> std::io::Result<()> {
        const STEP_BYTES: usize = 1 << 20;
        let source = self.io.disk.open(from, OpenMode::default())?;
        let copy = self.io.disk.create(to, OpenMode::default())?;
        let mut buffer = vec![0; STEP_BYTES];
        for part in between(runs, 0, u64::MAX) {
            let mut offset = part.start;
            loop {
                let left = usize::try_from(part.end - offset).unwrap_or(STEP_BYTES);
                let room = buffer.get_mut(..left.min(STEP_BYTES)).unwrap_or_default();
                let count = source.read_at(room, offset)?;
                let Some(bytes) = room.get(..count).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                copy.write_all_at(bytes, offset)?;
                self.io.meter.wrote(Purpose::Other, count as u64);
                offset += count as u64;
            }
        }
        // The last part may be a hole.
        copy.set_len(source.len()?)?;
        copy.sync_data()
    }
}

/// Whether a link that failed so says that there is none to be had.
fn needs_copy(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::CrossesDevices | Cause::PermissionDenied | Cause::Unsupported | Cause::TooManyLinks
    )
}
