//! A disk in memory that knows what a crash may take: strict POSIX, harsher than any file system
//! in use, so that a missing sync shows within a few crash images.
//!
//! A sync of a file covers its data and length and nothing else; a sync of a directory covers the
//! names in it and nothing else. [`MemoryDisk::crash_image`] builds a disk as a crash at this
//! moment could leave it. Clones are the same disk; one lock guards all of it.
//!
//! I1: reads see every change at once, synced or not. I2: a rename happens as a whole or not at
//! all. I3: a failed sync drops the unsynced bytes for ever, though reads still see them.
//! I4: no lock is held while the observer runs.

mod crash;
mod file;
mod image;
mod state;

use std::io;
use std::path::{Path, PathBuf};

use crate::base::sync::{Arc, Mutex};
use crate::io::disk::{BatchRead, DirEntry, Disk, DiskFile, LockGuard, LockMode, OpenMode};
use crate::io::held_locks::HeldLocks;
use crate::io::memory_disk::file::MemoryFile;
use crate::io::memory_disk::image::Image;
use crate::io::memory_disk::state::{
    DirectoryNode, FileNode, InodeId, NameKind, Node, ROOT, State, absolute,
};

pub use crash::CrashMode;

/// Called with the number of the mutating call about to happen (from 1) and the disk before it.
pub type Observer = Arc<dyn Fn(u64, &MemoryDisk) + Send + Sync>;

/// A file system in memory with crash images. Clones are the same disk. Paths start at the root,
/// also relative ones.
#[derive(Clone)]
pub struct MemoryDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    observer: Mutex<Option<Observer>>,
    locks: Mutex<HeldLocks<InodeId>>,
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::with_state(State::new())
    }

    fn with_state(state: State) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                observer: Mutex::new(None),
                locks: Mutex::new(HeldLocks::new()),
            }),
        }
    }

    /// The disk as a crash at this moment could leave it, chosen by mode and seed. Everything on
    /// it is durable; locks and observer are not carried over.
    #[must_use]
    pub fn crash_image(&self, mode: CrashMode, seed: u64) -> Self {
        Self::with_state(crash::crash_state(&self.shared.state.lock(), mode, seed))
    }

    /// An independent disk in the same state, unsynced changes included; no locks, no observer.
    #[must_use]
    pub fn deep_clone(&self) -> Self {
        let mut state = self.shared.state.lock().clone();
        for node in state.nodes.values_mut() {
            if let Node::File(file) = node {
                file.open = 0;
            }
        }
        Self::with_state(state)
    }

    /// Sets what is called before each mutating call. It may use the disk, also take crash images;
    /// mutating calls it makes itself are observed as well.
    pub fn set_observer(&self, observer: Option<Observer>) {
        let old = std::mem::replace(&mut *self.shared.observer.lock(), observer);
        drop(old);
    }

    /// Limits the bytes that all files together may have; `None` lifts the limit. A write that
    /// does not fit is cut short, then fails with "no space".
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().capacity = bytes;
    }

    /// Bytes that files may still grow by.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.shared.state.lock().room()
    }

    /// Mutating calls so far: creations, writes, length changes, allocations, syncs, renames,
    /// links, removals.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.shared.state.lock().calls
    }

    /// A hash of every path, length and byte as reads see them.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let state = self.shared.state.lock();
        state.visit_below(ROOT, Path::new("/"), &mut |path, _, node| {
            let path = path.as_os_str().as_encoded_bytes();
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(path);
            match node {
                Node::File(file) => file.live.digest(|bytes| hasher.update(bytes)),
                Node::Directory(_) => hasher.update(b"/"),
            }
        });
        hasher.digest()
    }

    /// Every file with its length, by path.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        self.shared.state.lock().visit_files(&mut |path, _, file| {
            files.push((path.to_owned(), file.live.len()));
        });
        files
    }

    /// The bytes of a file as reads see them; empty where there is none.
    #[must_use]
    pub fn contents(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let state = self.shared.state.lock();
        let inode = state.lookup(path.as_ref());
        inode.and_then(|inode| state.file(inode)).map_or_else(|_| Vec::new(), |f| f.live.to_bytes())
    }

    /// Gives a file these bytes, durably, creating it where its directory exists. For damage
    /// tests: not a mutating call.
    ///
    /// # Errors
    /// `NotFound` where the directory does not exist, `IsADirectory` where the path is one.
    pub fn replace(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let image = Arc::new(Image::from_bytes(&bytes.into()));
        let mut state = self.shared.state.lock();
        let slot = state.slot(path.as_ref())?;
        if let Ok(inode) = state.in_slot(&slot) {
            let file = state.file_mut(inode)?;
            file.live = image.clone();
            file.durable = image;
            file.pending.clear();
            return Ok(());
        }
        let file = FileNode { durable: image.clone(), live: image, ..FileNode::default() };
        let inode = state.add_node(Node::File(file));
        let directory = state.directory_mut(slot.directory)?;
        directory.live.insert(slot.name.clone(), inode);
        directory.durable.insert(slot.name, inode);
        Ok(())
    }

    /// Removes a file, durably. For damage tests: not a mutating call.
    ///
    /// # Errors
    /// `NotFound` where there is none.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let slot = state.slot(path.as_ref())?;
        let inode = state.in_slot(&slot)?;
        state.file(inode)?;
        state.pending_names.retain(|change| match &change.kind {
            NameKind::Link { slot: other, .. } | NameKind::Unlink { slot: other } => *other != slot,
            NameKind::Rename { to, .. } => *to != slot,
        });
        let directory = state.directory_mut(slot.directory)?;
        directory.live.remove(&slot.name);
        directory.durable.remove(&slot.name);
        Ok(())
    }

    /// Number of unsynced changes: of names and of files' contents.
    #[must_use]
    pub fn unsynced(&self) -> (usize, usize) {
        let state = self.shared.state.lock();
        let data = state.nodes.values().map(|node| match node {
            Node::File(file) => file.pending.len(),
            Node::Directory(_) => 0,
        });
        (state.pending_names.len(), data.sum())
    }

    /// Runs a mutating call: the observer first, with no lock held, then `change` under the lock
    /// with the call's number.
    fn mutate<T>(&self, change: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let observer = self.shared.observer.lock().clone();
        if let Some(observer) = observer {
            let next = self.mutations() + 1;
            observer(next, self);
        }
        let mut state = self.shared.state.lock();
        let call = state.begin_call();
        change(&mut state, call)
    }

    fn create_file(&self, path: &Path) -> io::Result<InodeId> {
        self.mutate(|state, call| {
            let slot = state.slot(path)?;
            if state.in_slot(&slot).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = state.add_node(Node::File(FileNode { open: 1, ..FileNode::default() }));
            state.change_names(call, NameKind::Link { slot, inode });
            Ok(inode)
        })
    }

    fn open_file(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.shared.state.lock();
        let inode = state.lookup(path)?;
        state.file_mut(inode)?.open += 1;
        drop(state);
        Ok(Arc::new(MemoryFile::new(self.clone(), inode, writable)))
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path, _mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.create_file(path)?;
        Ok(Arc::new(MemoryFile::new(self.clone(), inode, true)))
    }

    fn open(&self, path: &Path, _mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(path, false)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(path, true)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mutate(|state, call| {
            let from = state.slot(from)?;
            let to = state.slot(to)?;
            let inode = state.in_slot(&from)?;
            if let Ok(replaced) = state.in_slot(&to) {
                if replaced == inode {
                    return Ok(());
                }
                let moved_is_file = state.file(inode).is_ok();
                match state.directory(replaced) {
                    Ok(_) if moved_is_file => return Err(io::ErrorKind::IsADirectory.into()),
                    Ok(directory) if !directory.live.is_empty() => {
                        return Err(io::ErrorKind::DirectoryNotEmpty.into());
                    }
                    Err(_) if !moved_is_file => return Err(io::ErrorKind::NotADirectory.into()),
                    _ => {}
                }
            }
            state.change_names(call, NameKind::Rename { from, to, inode });
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.mutate(|state, call| {
            let slot = state.slot(path)?;
            let inode = state.in_slot(&slot)?;
            state.file(inode)?;
            state.change_names(call, NameKind::Unlink { slot });
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mutate(|state, call| {
            let inode = state.lookup(from)?;
            state.file(inode)?;
            let slot = state.slot(to)?;
            if state.in_slot(&slot).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.change_names(call, NameKind::Link { slot, inode });
            Ok(())
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.mutate(|state, call| {
            let exists = || io::Error::from(io::ErrorKind::AlreadyExists);
            if state.lookup(path).is_ok() {
                return Err(exists());
            }
            let slot = state.slot(path)?;
            let inode = state.add_node(Node::Directory(DirectoryNode::default()));
            state.change_names(call, NameKind::Link { slot, inode });
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.mutate(|state, call| {
            let slot = state.slot(path)?;
            let inode = state.in_slot(&slot)?;
            if !state.directory(inode)?.live.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            state.change_names(call, NameKind::Unlink { slot });
            Ok(())
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.shared.state.lock();
        let directory = state.directory(state.lookup(path)?)?;
        let entries = directory.live.iter().map(|(name, &inode)| {
            let file = state.file(inode).ok();
            DirEntry {
                name: name.clone(),
                is_dir: file.is_none(),
                len: file.map_or(0, |file| file.live.len()),
            }
        });
        Ok(entries.collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.mutate(|state, _| {
            let inode = state.lookup(path)?;
            state.directory(inode)?;
            state.sync_directory(inode);
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.shared.state.lock().lookup(path).is_ok())
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Box<dyn LockGuard>> {
        let path = absolute(path);
        if mode == LockMode::Exclusive && !self.exists(&path)? {
            let inode = self.create_file(&path)?;
            drop(MemoryFile::new(self.clone(), inode, true));
        }
        let inode = self.shared.state.lock().lookup(&path)?;
        if !self.shared.locks.lock().take(inode, mode) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { shared: self.shared.clone(), inode }))
    }

    fn read_batch(&self, reads: &mut [BatchRead]) {
        for read in reads {
            read.result = read.file.read_exact_at(&mut read.buffer, read.offset);
        }
    }

    fn batch_mode(&self) -> &'static str {
        "sequential"
    }
}

/// A lock on a file of the memory disk.
struct MemoryLock {
    shared: Arc<Shared>,
    inode: InodeId,
}

impl LockGuard for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.shared.locks.lock().give_back(self.inode);
    }
}

#[cfg(test)]
#[cfg(test)]
mod tests;
