//! The part of the file table that says which files were rewritten, and into which containers.
//!
//! Invariants: FC-1 a file is a segment (epoch 0) or in exactly one container (epoch 1 and up).
//! FC-2 a container holds at least one file, and leaves with its last one. FC-3 rewriting takes
//! files together with all others of their container: files are merged, never split (rule R2).

use std::collections::BTreeSet;

use crate::base::entry::FileId;
use crate::base::error::Result;
use crate::base::names::FileKind;
use crate::base::sync::Arc;
use crate::log::footer::Totals;
use crate::log::separated::SEPARATED_BYTES_MIN;
use crate::values::container::Container;
use crate::values::edit::{ContainerInfo, ValuesEdit};
use crate::values::file_table::{FileOf, ValueFiles, refused};

/// A file that was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovedFile {
    /// Its number.
    pub(crate) id: FileId,
    /// How often it was rewritten; at least once.
    pub(crate) epoch: u32,
    /// What it is in now.
    pub(crate) container: FileId,
    /// Index entries that name it.
    pub(crate) refs: u64,
    /// Bytes of the records that they name, as their handles have them.
    pub(crate) ref_bytes: u64,
}

/// A container in force.
#[derive(Clone)]
pub(crate) struct ContainerEntry {
    /// The container, pinned.
    pub(crate) container: Arc<Container>,
    /// What its records come to.
    pub(crate) totals: Totals,
    /// The files in it, ascending by number.
    files: Vec<FileId>,
}

impl MovedFile {
    fn count(&mut self, refs: i64, ref_bytes: i64) -> Option<()> {
        let refs = self.refs.checked_add_signed(refs)?;
        let ref_bytes = self.ref_bytes.checked_add_signed(ref_bytes)?;
        let least = refs.checked_mul(SEPARATED_BYTES_MIN as u64)?;
        if (refs == 0) != (ref_bytes == 0) || ref_bytes < least {
            return None;
        }
        (self.refs, self.ref_bytes) = (refs, ref_bytes);
        Some(())
    }
}

impl ValueFiles {
    /// The containers, ascending by number.
    pub(crate) fn containers(&self) -> impl DoubleEndedIterator<Item = &ContainerEntry> {
        self.containers.iter()
    }

    /// The container of this number.
    pub(crate) fn container(&self, id: FileId) -> Option<&ContainerEntry> {
        self.find_container(id).ok().and_then(|at| self.containers.get(at))
    }

    /// The files that were rewritten, ascending by number.
    pub(crate) fn moved(&self) -> impl Iterator<Item = &MovedFile> {
        self.moved.iter()
    }

    /// The rewritten file of this number.
    pub(crate) fn get_moved(&self, id: FileId) -> Option<&MovedFile> {
        self.find_moved(id).ok().and_then(|at| self.moved.get(at))
    }

    /// The files in a container, ascending by number.
    pub(crate) fn files_in(&self, container: FileId) -> impl Iterator<Item = &MovedFile> {
        let files = self.container(container).map(|entry| entry.files.as_slice());
        files.unwrap_or_default().iter().filter_map(|&id| self.get_moved(id))
    }

    /// Whether removing these files removes every container with all of its files or leaves it
    /// alone: its records go only with it.
    pub(crate) fn takes_whole_containers(&self, ids: &BTreeSet<FileId>) -> bool {
        self.containers.iter().all(|entry| {
            let taken = entry.files.iter().filter(|id| ids.contains(id)).count();
            taken == 0 || taken == entry.files.len()
        })
    }

    /// Index entries that name files of a container, and the bytes of the records they name.
    pub(crate) fn refs_in(&self, container: FileId) -> (u64, u64) {
        self.files_in(container)
            .fold((0, 0), |(refs, bytes), file| (refs + file.refs, bytes + file.ref_bytes))
    }

    /// Index entries that name any file, large values among them, and the bytes of what they name.
    pub(crate) fn all_refs(&self) -> (u64, u64) {
        let segments = self.iter().map(|entry| (entry.state.refs, entry.state.ref_bytes));
        let moved = self.moved.iter().map(|file| (file.refs, file.ref_bytes));
        let large = self.large().filter(|entry| entry.refs > 0);
        let large = large.filter_map(|entry| Some((entry.refs, entry.info?.value_bytes)));
        let all = segments.chain(moved).chain(large);
        all.fold((0, 0), |sum, (refs, bytes)| (sum.0 + refs, sum.1 + bytes))
    }

    /// Whether there is a file of this number, whatever it is in; large values aside.
    pub(crate) fn has_file(&self, id: FileId) -> bool {
        self.get(id).is_some() || self.get_moved(id).is_some()
    }

    fn find_moved(&self, id: FileId) -> Result<usize, usize> {
        self.moved.binary_search_by_key(&id, |file| file.id)
    }

    fn find_container(&self, id: FileId) -> Result<usize, usize> {
        self.containers.binary_search_by_key(&id, |entry| entry.container.id())
    }

    /// Puts files in force into a new container.
    pub(super) fn rewrite(&mut self, info: &ContainerInfo, file_of: &mut FileOf<'_>) -> Result<()> {
        self.check_new(info)?;
        let mut left = Vec::new();
        for &(id, epoch) in &info.files {
            let (before, refs, ref_bytes) = match self.get_moved(id) {
                Some(file) => {
                    left.push(file.container);
                    (file.epoch, file.refs, file.ref_bytes)
                }
                None => {
                    let state = self.named(id)?.state;
                    if state.sealed.is_none() {
                        return Err(refused(id, "is rewritten while it grows"));
                    }
                    (0, state.refs, state.ref_bytes)
                }
            };
            if before.checked_add(1) != Some(epoch) {
                return Err(refused(id, "is rewritten in an epoch that does not follow"));
            }
            let container = info.sealed.id;
            self.entries.retain(|entry| entry.file.id() != id);
            self.moved.retain(|file| file.id != id);
            self.insert_moved(MovedFile { id, epoch, container, refs, ref_bytes })?;
        }
        let is_taken = |id: &FileId| info.files.binary_search_by_key(id, |file| file.0).is_ok();
        let splits = |entry: &&ContainerEntry| {
            left.contains(&entry.container.id()) && !entry.files.iter().all(is_taken)
        };
        if let Some(split) = self.containers.iter().find(splits) {
            return Err(refused(split.container.id(), "is a container that rewriting splits"));
        }
        self.containers.retain(|entry| !left.contains(&entry.container.id()));
        self.insert_container(info, file_of)
    }

    /// Takes in files that no edit before has named, with their container.
    pub(super) fn hold(&mut self, info: &ContainerInfo, file_of: &mut FileOf<'_>) -> Result<()> {
        self.check_new(info)?;
        for &(id, epoch) in &info.files {
            if self.has_file(id) {
                return Err(refused(id, "is added twice"));
            }
            let container = info.sealed.id;
            self.insert_moved(MovedFile { id, epoch, container, refs: 0, ref_bytes: 0 })?;
        }
        self.insert_container(info, file_of)
    }

    /// A container has files (FC-2), and a number that no other one has, not even one that leaves
    /// with the same edit: its file is there still (rule R17).
    fn check_new(&self, info: &ContainerInfo) -> Result<()> {
        let id = info.sealed.id;
        if info.files.is_empty() {
            return Err(refused(id, "is a container without files"));
        }
        if self.container(id).is_some() || self.has_file(id) {
            return Err(refused(id, "is a container that is added twice"));
        }
        Ok(())
    }

    fn insert_moved(&mut self, file: MovedFile) -> Result<()> {
        let Err(at) = self.find_moved(file.id) else {
            return Err(refused(file.id, "is rewritten twice"));
        };
        self.moved.insert(at, file);
        Ok(())
    }

    fn insert_container(&mut self, info: &ContainerInfo, file_of: &mut FileOf<'_>) -> Result<()> {
        let id = info.sealed.id;
        let Err(at) = self.find_container(id) else {
            return Err(refused(id, "is a container that is added twice"));
        };
        let file = file_of(FileKind::ValueTable, id);
        let container = Container::new(file, info.sealed);
        let files = info.files.iter().map(|file| file.0).collect();
        self.containers.insert(at, ContainerEntry { container, totals: info.totals, files });
        Ok(())
    }

    /// Counts for a file that was rewritten, if it is one.
    pub(super) fn count_moved(
        &mut self,
        id: FileId,
        refs: i64,
        ref_bytes: i64,
    ) -> Option<Result<()>> {
        let at = self.find_moved(id).ok()?;
        let counted = self.moved.get_mut(at)?.count(refs, ref_bytes);
        Some(counted.ok_or_else(|| refused(id, "is counted wrongly since it was rewritten")))
    }

    /// Takes out a file that was rewritten, and its container with the last one; false where it is
    /// none.
    pub(super) fn remove_moved(&mut self, id: FileId) -> bool {
        let Some(container) = self.get_moved(id).map(|file| file.container) else { return false };
        self.moved.retain(|file| file.id != id);
        if let Ok(at) = self.find_container(container)
            && let Some(entry) = self.containers.get_mut(at)
        {
            entry.files.retain(|&file| file != id);
            if entry.files.is_empty() {
                self.containers.remove(at);
            }
        }
        true
    }

    /// What [`ValueFiles::settle`] does for containers.
    pub(super) fn settle_containers(&self, before: &Self) {
        for entry in &before.containers {
            if self.container(entry.container.id()).is_none() {
                entry.container.file().doom();
            }
        }
        for entry in &self.containers {
            entry.container.file().keep();
        }
    }

    /// The edits that make this part of the table out of nothing.
    pub(super) fn add_container_edits(&self, edits: &mut Vec<ValuesEdit>) {
        for ContainerEntry { container, totals, .. } in &self.containers {
            let files = self.files_in(container.id()).map(|file| (file.id, file.epoch)).collect();
            let info = ContainerInfo { sealed: container.sealed(), totals: *totals, files };
            edits.push(ValuesEdit::Held(Arc::new(info)));
        }
        for file in self.moved.iter().filter(|file| file.refs > 0) {
            // Counts far below 2^63: a file of that many bytes cannot be.
            let (refs, ref_bytes) = (file.refs as i64, file.ref_bytes as i64);
            edits.push(ValuesEdit::Counted { id: file.id, refs, ref_bytes });
        }
    }
}

#[cfg(test)]
mod tests;
