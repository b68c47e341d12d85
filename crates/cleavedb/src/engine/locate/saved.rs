//! The locator between two openings: written at close, loaded shard by shard while reads are served
//! already. Nothing depends on it: a checkpoint that is lost, damaged or outdated only leaves the
//! first gets to the index. The exact map is saved in the same way and loaded before the first read
//! (`engine/mapping/rebuild`); without its checkpoint it is made anew.
//!
//! Invariants: SV-1 the edit that names a checkpoint is written only if no edit with touches came
//! since its first shard was taken. SV-2 the file is durable before that edit. SV-3 a section is
//! read only as far as the file goes (rule F8).

use std::path::PathBuf;

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Arc, Mutex};
use crate::engine::Engine;
use crate::engine::locate::Locating;
use crate::engine::locate::edit::{LocatorEdit, SavedLocator};
use crate::engine::mapping::Mapping;
use crate::engine::state::{Draft, Publication};
use crate::io::disk::OpenMode;
use crate::io::executor::Priority;
use crate::io::{DiskFile, Purpose};
use crate::values::locator::Generation;
use crate::values::locator::checkpoint::{Section, Site};

/// What there is of checkpoints.
#[derive(Debug, Default)]
pub(crate) struct LocatorCheckpoint(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The one that counts.
    saved: Option<SavedLocator>,
    /// Shards are still being loaded from the one that counted at opening.
    is_loading: bool,
    /// That one, if it counts no more.
    outdated: Option<FileId>,
}

impl LocatorCheckpoint {
    /// What the manifest names at opening.
    pub(crate) fn new(saved: Option<SavedLocator>) -> Self {
        Self(Mutex::new(State { saved, ..State::default() }))
    }

    /// The checkpoint that counts.
    pub(crate) fn saved(&self) -> Option<SavedLocator> {
        self.0.lock().saved.clone()
    }

    /// Its number.
    pub(crate) fn id(&self) -> Option<FileId> {
        self.0.lock().saved.as_ref().map(|saved| saved.id)
    }
}

/// What is saved: the one table that the strategy has in memory.
#[derive(Clone, Copy)]
enum InMemory<'a> {
    Locator(&'a Locating),
    Map(&'a Mapping),
}

impl InMemory<'_> {
    fn generation(self) -> Generation {
        match self {
            Self::Locator(locating) => locating.generation(),
            Self::Map(mapping) => mapping.generation(),
        }
    }

    fn is_empty(self) -> bool {
        match self {
            Self::Locator(locating) => locating.figures().entries == 0,
            Self::Map(mapping) => mapping.figures().keys == 0,
        }
    }

    fn shards(self) -> usize {
        match self {
            Self::Locator(locating) => locating.locator.shards(),
            Self::Map(mapping) => mapping.map.shards(),
        }
    }

    fn encode_shard(self, number: usize, site: &Site) -> Option<Vec<u8>> {
        match self {
            Self::Locator(locating) => locating.locator.encode_shard(number, site),
            Self::Map(mapping) => mapping.map.encode_shard(number, site),
        }
    }
}

impl Engine {
    /// An edit with touches is durable: the checkpoint of before counts no more, and goes once
    /// nothing is loaded from it. Under the manifest lock.
    pub(crate) fn outdate_locator(&self) {
        if let Some(locating) = &self.locating {
            locating.raise_generation();
        }
        if let Some(mapping) = &self.mapping {
            mapping.raise_generation();
        }
        let mut state = self.locator_checkpoint.0.lock();
        if let Some(saved) = state.saved.take() {
            mark!("locator_checkpoint_outdated");
            match state.is_loading {
                true => state.outdated = Some(saved.id),
                false => self.obsolete.push(FileKind::Locator, saved.id),
            }
        }
    }

    /// Writes a checkpoint, where there is a locator. What fails is reported and otherwise ignored.
    pub(crate) fn save_locator(&self) {
        let table = match (&self.locating, &self.mapping) {
            (Some(locating), _) => InMemory::Locator(locating),
            (None, Some(mapping)) => InMemory::Map(mapping),
            (None, None) => return,
        };
        if self.locator_checkpoint.id().is_some() || table.is_empty() {
            return;
        }
        if let Err(error) = self.try_save_locator(table) {
            tracing::warn!(%error, "the table in memory is not saved; opening goes without");
        }
    }

    fn try_save_locator(&self, table: InMemory<'_>) -> Result<()> {
        let (id, generation) = (self.file_ids.next(), table.generation());
        let path = self.locator_path(id);
        let failed = |error| Error::io("saving the locator", &path, error);
        let file = self.io.disk.create(&path, OpenMode::default()).map_err(failed)?;
        let written = self.write_shards(table, &*file, id);
        let saved = written
            .and_then(|shards| {
                file.sync_data()?;
                self.io.disk.sync_dir(&self.dir)?;
                Ok(SavedLocator { id, generation, shards })
            })
            .map_err(failed)
            .and_then(|saved| self.name_checkpoint(table, saved));
        match saved {
            Ok(true) => {
                mark!("locator_saved");
                Ok(())
            }
            outcome => {
                self.obsolete.push(FileKind::Locator, id);
                outcome.map(drop)
            }
        }
    }

    fn write_shards(
        &self,
        table: InMemory<'_>,
        file: &dyn DiskFile,
        id: FileId,
    ) -> std::io::Result<Vec<u64>> {
        let mut offset = 0;
        let mut shards = Vec::new();
        for number in 0..table.shards() {
            let site = Site { uuid: self.uuid, file: id, offset };
            let section = table.encode_shard(number, &site).unwrap_or_default();
            file.write_all_at(&section, offset)?;
            self.io.meter.wrote(Purpose::Other, section.len() as u64);
            offset += section.len() as u64;
            shards.push(section.len() as u64);
        }
        Ok(shards)
    }

    /// SV-1.
    fn name_checkpoint(&self, table: InMemory<'_>, saved: SavedLocator) -> Result<bool> {
        let sections = vec![LocatorEdit::Saved(saved.clone()).encode()];
        let is_unchanged = || table.generation() == saved.generation;
        let draft = Draft { sections, condition: Some(&is_unchanged), ..Draft::default() };
        self.commit_draft(draft, |_| {
            self.locator_checkpoint.0.lock().saved = Some(saved.clone());
            Ok(Publication::default())
        })
    }

    /// Begins to load the checkpoint, where there is one.
    pub(crate) fn load_locator(self: &Arc<Self>) {
        let Some(locating) = &self.locating else { return };
        let Some(saved) = self.locator_checkpoint.saved() else { return };
        if locating.locator.shards() != saved.shards.len() {
            return;
        }
        self.locator_checkpoint.0.lock().is_loading = true;
        self.load_shard_later(Arc::new(saved), 0);
    }

    /// One shard at a time, so that other work gets its turn.
    fn load_shard_later(self: &Arc<Self>, saved: Arc<SavedLocator>, number: usize) {
        let engine = Arc::clone(self);
        let load = move || {
            if engine.cancelled.load(Ordering::Acquire) {
                return;
            }
            engine.load_shard(&saved, number);
            match number + 1 < saved.shards.len() {
                true => engine.load_shard_later(saved, number + 1),
                false => engine.end_loading(),
            }
        };
        self.io.executor.submit(Priority::Housekeeping, Box::new(load));
    }

    fn load_shard(&self, saved: &SavedLocator, number: usize) {
        let Some(locating) = &self.locating else { return };
        let site = |offset| Site { uuid: self.uuid, file: saved.id, offset };
        let loaded = match saved.section(number) {
            Some((offset, bytes)) => self
                .read_section(saved.id, offset, bytes)
                .and_then(|read| locating.locator.load_section(number, &read, &site(offset))),
            None => Ok(locating.locator.load_shard(number, None)),
        };
        match loaded {
            Ok(true) => mark!("locator_shard_loaded"),
            Ok(false) => {}
            Err(error) => {
                locating.locator.load_shard(number, None);
                tracing::warn!(shard = number, %error, "a part of the locator is filled by reads");
            }
        }
    }

    fn end_loading(&self) {
        let mut state = self.locator_checkpoint.0.lock();
        state.is_loading = false;
        if let Some(id) = state.outdated.take() {
            self.obsolete.push(FileKind::Locator, id);
        }
    }

    /// SV-3.
    pub(crate) fn read_section(&self, id: FileId, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let path = self.locator_path(id);
        let failed = |error| Error::io("loading the locator", &path, error);
        let file = self.io.disk.open(&path, OpenMode::default()).map_err(failed)?;
        let length = file.len().map_err(failed)?;
        if offset.saturating_add(bytes) > length {
            let error = Error::corruption("the locator's checkpoint ends early");
            return Err(error.in_file(&path).at_offset(length));
        }
        let mut buffer = vec![0; bytes as usize];
        file.read_exact_at(&mut buffer, offset).map_err(failed)?;
        self.io.meter.read(Purpose::Other, bytes);
        Ok(buffer)
    }

    fn locator_path(&self, id: FileId) -> PathBuf {
        self.dir.join(file_name(FileKind::Locator, id))
    }

    /// Checks every byte of the checkpoint that counts; its number and bytes.
    pub(crate) fn verify_locator(&self) -> Result<Option<(FileId, u64)>> {
        let Some(saved) = self.locator_checkpoint.saved() else { return Ok(None) };
        let checked = self.check_sections(&saved);
        // A flush may have outdated it meanwhile.
        match self.locator_checkpoint.id() == Some(saved.id) {
            true => checked.map(|()| Some((saved.id, saved.bytes()))),
            false => Ok(None),
        }
    }

    fn check_sections(&self, saved: &SavedLocator) -> Result<()> {
        let path = self.locator_path(saved.id);
        let failed = |error| Error::io("verifying the locator", &path, error);
        let length = self.io.disk.open(&path, OpenMode::default()).and_then(|file| file.len());
        if length.map_err(failed)? != saved.bytes() {
            let error = Error::corruption("the locator's checkpoint is not as long as it was");
            return Err(error.in_file(&path));
        }
        for (offset, bytes) in (0..saved.shards.len()).filter_map(|number| saved.section(number)) {
            let read = self.read_section(saved.id, offset, bytes)?;
            let site = Site { uuid: self.uuid, file: saved.id, offset };
            let used = match &self.mapping {
                None => Section::decode(&read, &site).map(|(_, used)| used),
                Some(mapping) => mapping.map.check_section(&read, &site),
            };
            let used = used.map_err(|error| error.in_file(&path))?;
            if used as u64 != bytes {
                let error = Error::corruption("a shard of the locator's checkpoint is shorter");
                return Err(error.in_file(&path).at_offset(offset));
            }
        }
        Ok(())
    }
}
