//! The disk of production: Linux files through plain system calls.
//!
//! Durable writes and syncs are `pwrite` and `fdatasync`, so that fault injection and crash tools
//! see them; io_uring serves batched reads only ([`batch`]). All types may be shared by threads.
//!
//! I1: no sync is ever retried. I2: a direct file accepts any buffer and offset; what is not
//! aligned goes through a bounce buffer (reads) or a second, buffered descriptor (writes).

mod batch;
mod file;
mod lock;
mod read_threads;
mod ring;
mod spare;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::base::marks::mark;
use crate::base::sync::Arc;
use crate::io::disk::ReadsUnderWay;
use crate::io::disk::{BatchRead, DirEntry, Disk, DiskFile, LockGuard, LockMode, OpenMode};
use crate::io::native::batch::Batches;
use crate::io::native::file::NativeFile;

/// The operating system's file systems.
pub(crate) struct NativeDisk {
    batches: Arc<Batches>,
}

impl NativeDisk {
    /// The disk. Rings for batched reads are made at first use.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { batches: Arc::new(Batches::new()) })
    }

    /// A disk that never uses io_uring, as where the kernel refuses it.
    #[cfg(test)]
    pub(crate) fn without_ring() -> Arc<Self> {
        Arc::new(Self { batches: Arc::new(Batches::without_ring()) })
    }
}

/// Permissions of new files and directories, before the process's mask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

fn open_path(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, FILE_MODE))?)
}

/// A second descriptor for direct I/O; `None` where the file system refuses.
fn open_direct(path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC;
    match retry_on_intr(|| rustix::fs::open(path, flags, FILE_MODE)) {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            mark!("direct_io_refused");
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

fn advise(descriptor: &OwnedFd, mode: OpenMode) {
    if mode.random {
        // Advice only: a refusal changes speed, not answers.
        let _ = rustix::fs::fadvise(descriptor, 0, None, Advice::Random);
    }
}

impl Disk for NativeDisk {
    fn create(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        // Created without O_DIRECT: a refused flag would leave the file behind.
        let main = open_path(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        advise(&main, mode);
        // The file exists by now: out of descriptors, say, it is better written buffered than left.
        let direct =
            if mode.direct { open_direct(path, OFlags::RDWR).ok().flatten() } else { None };
        Ok(Arc::new(NativeFile::new(main, direct)))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if mode.direct
            && let Some(direct) = open_direct(path, OFlags::RDONLY)?
        {
            return Ok(Arc::new(NativeFile::direct_only(direct)));
        }
        let main = open_path(path, OFlags::RDONLY)?;
        advise(&main, mode);
        Ok(Arc::new(NativeFile::new(main, None)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(NativeFile::new(open_path(path, OFlags::RDWR)?, None)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlink(path)?)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::link(from, to)?)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::mkdir(path, DIRECTORY_MODE)?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::rmdir(path)?)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let directory = open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed while we looked.
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e.into()),
            };
            entries.push(DirEntry {
                name: name.to_string_lossy().into_owned(),
                is_dir: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                len: u64::try_from(stat.st_size).unwrap_or(0),
            });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let directory = open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(rustix::fs::fsync(&directory)?)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::stat(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Box<dyn LockGuard>> {
        Ok(Box::new(lock::NativeLock::take(path, mode)?))
    }

    fn read_batch(&self, reads: &mut [BatchRead]) {
        self.batches.read(reads);
    }

    fn start_batch(&self, reads: Vec<BatchRead>) -> Box<dyn ReadsUnderWay> {
        self.batches.start(reads)
    }

    fn batch_mode(&self) -> &'static str {
        self.batches.mode()
    }
}

#[cfg(test)]
mod tests;
