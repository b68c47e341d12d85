//! The one seam between the engine and a file system.
//!
//! Three implementations: native, memory (crash images) and fault injection around either.
//! Errors are plain `io::Error`s; callers add the file and turn them into the engine's error.
//! `Interrupted` and short transfers are handled by the provided `*_all` / `*_exact` methods.

use std::io;
use std::path::Path;

use crate::base::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenMode {
    /// Bypass the page cache (`O_DIRECT`) where the file system can. Buffers, offsets and lengths
    /// that are multiples of [`DIRECT_ALIGN`] go straight to the device; others work too, at the
    /// cost of a copy. Falls back to buffered where refused.
    pub(crate) direct: bool,
    /// The reads to come are random (kernel advice).
    pub(crate) random: bool,
}

/// Alignment of direct I/O: the logical block of every SSD in use.
pub(crate) const DIRECT_ALIGN: usize = 4096;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirEntry {
    /// File name without its directory.
    pub(crate) name: String,
    /// Whether it is a directory.
    pub(crate) is_dir: bool,
    /// Length in bytes of a file.
    pub(crate) len: u64,
}

/// Who else may hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Other shared holders, no exclusive one.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Holds a lock on a path until dropped.
pub(crate) trait LockGuard: Send + Sync {}

/// Read `buffer.len()` bytes at `offset` of `file`; `result` holds the outcome afterwards.
pub(crate) struct BatchRead {
    /// The file to read.
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where to start.
    pub(crate) offset: u64,
    /// Where the bytes go; its whole length is wanted.
    pub(crate) buffer: Vec<u8>,
    /// `Err(UnexpectedEof)` where the file ends before the buffer is full.
    pub(crate) result: io::Result<()>,
}

impl BatchRead {
    /// Takes buffer and outcome out.
    pub(crate) fn take(&mut self) -> Self {
        let buffer = std::mem::take(&mut self.buffer);
        let result = std::mem::replace(&mut self.result, Ok(()));
        Self { file: Arc::clone(&self.file), offset: self.offset, buffer, result }
    }
}

/// Reads that were begun together. Whoever drops them does without: what is under way then ends
/// unseen.
pub(crate) trait ReadsUnderWay: Send {
    /// Waits for the end of all of them; they come back in the order they were given.
    fn finish(self: Box<Self>) -> Vec<BatchRead>;
    /// Whether none of them had to wait for a device: all that was wanted lay in memory when they
    /// were begun. Who can not tell says no.
    fn came_at_once(&self) -> bool {
        false
    }
}

/// Reads that ended when they were begun.
struct EndedReads(Vec<BatchRead>);

impl ReadsUnderWay for EndedReads {
    fn finish(self: Box<Self>) -> Vec<BatchRead> {
        self.0
    }
}

/// A file system.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Creates a new file for reading and writing; fails if the name is taken.
    fn create(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing (to cut a torn tail).
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames, replacing `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates one directory; `AlreadyExists` where it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Lists a directory, sorted by name.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Takes a lock without waiting; `WouldBlock` where a holder, in this process or another one,
    /// stands against it. An exclusive lock creates its file; a shared one writes nothing, is
    /// `NotFound` where there is no file, and `Unsupported` where the file system has no locks.
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Box<dyn LockGuard>>;
    /// Performs many reads at once (io_uring, or a pool of threads where the kernel refuses it).
    fn read_batch(&self, reads: &mut [BatchRead]);
    /// Begins many reads and does not wait for them; [`ReadsUnderWay::finish`] does. A disk on
    /// which nothing goes on by itself performs them at once.
    fn start_batch(&self, mut reads: Vec<BatchRead>) -> Box<dyn ReadsUnderWay> {
        self.read_batch(&mut reads);
        Box::new(EndedReads(reads))
    }
    /// How [`Disk::read_batch`] works here: "io_uring", "threads" or "sequential".
    fn batch_mode(&self) -> &'static str;
}

/// What a file takes of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Names that it has.
    pub(crate) links: u64,
    /// Bytes of the blocks that hold it.
    pub(crate) allocated_bytes: u64,
}

/// An open file. All methods take `&self`; concurrent calls are allowed.
pub(crate) trait DiskFile: Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the contents (and the length, where it grew) durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros) to `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves zeroed space up to `len`, growing the file.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Gives back the blocks of a range, which reads as zeros from here on; the length stays. Whole
    /// blocks only: what is a part of one is overwritten with zeros. `Unsupported` where the file
    /// system cannot.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// How many names the file has, and what it takes of the disk.
    fn footprint(&self) -> io::Result<Footprint>;
    /// Starts writing back a range without waiting for it.
    fn start_write_back(&self, _offset: u64, _len: u64) {}
    /// Drops a range from the page cache: it will not be read soon.
    fn drop_cached(&self, _offset: u64, _len: u64) {}
    #[cfg(any(test, feature = "sim"))]
    /// Injected failure of [`DiskFile::sync_data`]: unsynced bytes will never reach the device,
    /// though reads still see them. Only the memory disk can do that.
    fn fail_sync(&self) {}
    /// Whether the file is open for direct I/O.
    fn is_direct(&self) -> bool {
        false
    }
    /// Fills `buffer` if that needs no waiting for a device, and says if it did; what the buffer
    /// holds otherwise is to be read in another way, which also shows errors. False where a file
    /// can not tell.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> bool {
        false
    }
    /// The descriptor, for io_uring; `None` where there is none.
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Reads exactly `buffer.len()` bytes; `UnexpectedEof` where the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
