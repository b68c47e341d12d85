//! An open file of the memory disk. Keeps its inode alive, also without a name.

use std::io;

use crate::base::sync::Arc;
use crate::io::disk::{DiskFile, Footprint};
use crate::io::memory_disk::MemoryDisk;
use crate::io::memory_disk::state::{DataChange, DataKind, InodeId};

/// An open file; counted in its inode's `open` by whoever made it.
pub(super) struct MemoryFile {
    disk: MemoryDisk,
    inode: InodeId,
    writable: bool,
}

/// Longest file this disk holds: what a test needs, and no allocation by a hostile length.
const FILE_BYTES_MAX: u64 = 1 << 36;

impl MemoryFile {
    pub(super) fn new(disk: MemoryDisk, inode: InodeId, writable: bool) -> Self {
        Self { disk, inode, writable }
    }

    /// Applies a change to the live image and remembers it as unsynced. A write that the disk has
    /// no room for is cut short; returns the bytes written.
    fn change(&self, kind: DataKind) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let end = match &kind {
            DataKind::Write { offset, bytes } => offset.saturating_add(bytes.len() as u64),
            DataKind::SetLen(len) => *len,
            DataKind::Punch { .. } => 0,
        };
        if end > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.disk.mutate(|state, call| {
            let room = state.room();
            let file = state.file_mut(self.inode)?;
            let kind = fitting(kind, file.live.len().saturating_add(room))?;
            let written = match &kind {
                DataKind::Write { bytes, .. } => bytes.len(),
                DataKind::SetLen(_) | DataKind::Punch { .. } => 0,
            };
            kind.apply(Arc::make_mut(&mut file.live));
            file.pending.push(DataChange { call, kind });
            Ok(written)
        })
    }
}

/// The part of a change with which the file does not grow beyond `len_max`.
fn fitting(kind: DataKind, len_max: u64) -> io::Result<DataKind> {
    match kind {
        DataKind::Write { offset, bytes } => {
            let fits = len_max.saturating_sub(offset).min(bytes.len() as u64) as usize;
            match bytes.get(..fits) {
                Some(_) if fits == bytes.len() => Ok(DataKind::Write { offset, bytes }),
                Some(part) if fits > 0 => Ok(DataKind::Write { offset, bytes: part.into() }),
                _ => Err(io::ErrorKind::StorageFull.into()),
            }
        }
        DataKind::SetLen(len) if len > len_max => Err(io::ErrorKind::StorageFull.into()),
        other => Ok(other),
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let image = self.disk.shared.state.lock().file(self.inode)?.live.clone();
        Ok(image.read(offset, buffer))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.change(DataKind::Write { offset, bytes: bytes.into() })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.mutate(|state, _| {
            let file = state.file_mut(self.inode)?;
            if !file.pending.is_empty() {
                let durable = Arc::make_mut(&mut file.durable);
                for change in file.pending.drain(..) {
                    change.kind.apply(durable);
                }
            }
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.shared.state.lock().file(self.inode)?.live.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(DataKind::SetLen(len)).map(|_| ())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len <= self.len()? {
            return Ok(());
        }
        self.change(DataKind::SetLen(len)).map(|_| ())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(DataKind::Punch { offset, len }).map(|_| ())
    }

    fn footprint(&self) -> io::Result<Footprint> {
        let state = self.disk.shared.state.lock();
        let mut links = 0;
        state.visit_files(&mut |_, inode, _| links += u64::from(inode == self.inode));
        let allocated_bytes = state.file(self.inode)?.live.allocated_bytes();
        Ok(Footprint { links, allocated_bytes })
    }

    fn fail_sync(&self) {
        let mut state = self.disk.shared.state.lock();
        if let Ok(file) = state.file_mut(self.inode) {
            file.pending.clear();
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.disk.shared.state.lock();
        if let Ok(file) = state.file_mut(self.inode) {
            file.open -= 1;
        }
    }
}
