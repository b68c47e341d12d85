//! One bucket's file: how to read it, and the pin that keeps it on disk.
//!
//! Shared by all versions of a bucket and by readers. Invariants: BP-1 a file that a durable edit
//! removed, or that none ever named, is queued for removal when its last holder goes away (rule
//! F7), and no earlier. BP-2 a file that an edit names is not.

use std::path::{Path, PathBuf};
use std::sync::Arc as SlotArc;

use crate::base::checksum::{KeyedHash, file_seed};
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::obsolete::ObsoleteFiles;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::figures::AtomicU64;
use crate::base::sync::{Arc, ArcSwap};
use crate::deltas::bucket::format::Reading;
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Io, Purpose};
use crate::values::file::{OpenFiles, Slot};

/// Bytes of a page of the sorted part, one key with more of its own excepted.
pub(crate) const PAGE_BYTES: usize = 4 << 10;

/// Pieces of a chunk that have the bytes of a page: a look-up walks over one, and memory holds a
/// bound for each.
const PIECES_A_PAGE: usize = 4;

/// What buckets are given to work with.
pub(crate) struct DeltaContext {
    /// Disk and meter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// Hash of keys in filters.
    pub(crate) hash: KeyedHash,
    /// Where files go that nobody needs any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// Which of them are open.
    pub(crate) open_files: Arc<OpenFiles>,
    /// Whether reads bypass the page cache.
    pub(crate) direct_reads: bool,
    /// Bytes of a page: [`PAGE_BYTES`].
    pub(crate) page_bytes: usize,
    /// What gets have read.
    pub(crate) counters: DeltaCounters,
}

impl DeltaContext {
    /// How chunks are taken to memory.
    pub(crate) fn reading(&self) -> Reading {
        Reading { hash: self.hash, piece_bytes: self.page_bytes / PIECES_A_PAGE }
    }
}

/// What gets have asked of buckets, and what it took.
#[derive(Debug, Default)]
pub(crate) struct DeltaCounters {
    /// Look-ups of a key in a bucket.
    pub(crate) gets: AtomicU64,
    /// Buckets whose index and filters came to memory, with one read each.
    pub(crate) loads: AtomicU64,
    /// Reads of a page of a sorted part.
    pub(crate) page_reads: AtomicU64,
    /// Reads of an unsorted part, or of some of it.
    pub(crate) unsorted_reads: AtomicU64,
}

/// The file of a bucket. Starts out doomed: it goes away with its last holder unless a durable edit
/// names it.
pub(crate) struct BucketFile {
    id: FileId,
    seed: u32,
    path: PathBuf,
    context: Arc<DeltaContext>,
    handle: SlotArc<Slot>,
    doomed: AtomicBool,
}

impl BucketFile {
    /// The file of this number; opens nothing.
    pub(crate) fn new(context: &Arc<DeltaContext>, id: FileId) -> Arc<Self> {
        Arc::new(Self {
            id,
            seed: file_seed(&context.uuid, id.0),
            path: context.dir.join(file_name(FileKind::Bucket, id)),
            context: Arc::clone(context),
            handle: SlotArc::new(ArcSwap::from_pointee(None)),
            doomed: AtomicBool::new(true),
        })
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Seed of every checksum in it.
    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it works with.
    pub(crate) fn context(&self) -> &Arc<DeltaContext> {
        &self.context
    }

    /// Memory held while nothing of it is.
    pub(crate) fn memory_bytes(&self) -> usize {
        let counts = 4 * size_of::<usize>();
        counts + size_of::<Self>() + size_of::<Slot>() + self.path.as_os_str().len()
    }

    /// A durable edit names the file.
    pub(crate) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// A durable edit removed the file: it goes away with its last holder.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// The open file.
    pub(crate) fn disk_file(&self) -> Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.handle.load().as_ref() {
            return Ok(Arc::clone(file));
        }
        // Two threads may both open it; one descriptor is closed again.
        let mode = OpenMode { direct: self.context.direct_reads, random: true };
        let file = self.context.io.disk.open(&self.path, mode).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                return Error::corruption("a bucket is missing").in_file(&self.path);
            }
            Error::io("opening a bucket", &self.path, e)
        })?;
        self.handle.store(Arc::new(Some(Arc::clone(&file))));
        self.context.open_files.opened(&self.handle);
        Ok(file)
    }

    /// Reads so many bytes.
    pub(crate) fn read(&self, offset: u64, bytes: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes as usize];
        let read = self.disk_file()?.read_exact_at(&mut buffer, offset);
        self.context.io.meter.read(purpose, bytes);
        read.map_err(|e| self.unread(e, offset))?;
        Ok(buffer)
    }

    /// What a failed read of committed bytes means.
    pub(crate) fn unread(&self, e: std::io::Error, offset: u64) -> Error {
        if e.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.damaged(offset, Error::corruption("a bucket ends too early"));
        }
        Error::io("reading a bucket", &self.path, e).at_offset(offset)
    }

    /// The same error with file and offset.
    pub(crate) fn damaged(&self, offset: u64, error: Error) -> Error {
        error.in_file(&self.path).at_offset(offset)
    }
}

impl Drop for BucketFile {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            self.context.obsolete.push(FileKind::Bucket, self.id);
        }
    }
}
