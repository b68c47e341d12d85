//! One page file: how to open and read it, and the pin that keeps it on disk.
//!
//! Shared by checkpoints and by whoever pins one. Invariants: PF-1 a file that a durable checkpoint
//! no longer needs, or that none ever named, is queued for removal when its last holder goes away
//! (rule F7), and no earlier. PF-2 a file that the published root names is not.

use std::path::{Path, PathBuf};

use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::names::{FileKind, file_name};
use crate::base::sync::Arc;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::index::flex::pages::PageContext;
use crate::index::flex::pages::format::{HEADER_BYTES, check_header, encode_header};
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Purpose};

/// A page file. Starts out doomed: it goes away with its last holder unless a durable checkpoint
/// names it.
pub(crate) struct PageFile {
    id: FileId,
    path: PathBuf,
    context: Arc<PageContext>,
    doomed: AtomicBool,
}

impl PageFile {
    /// The file of this number; opens nothing.
    pub(super) fn new(context: &Arc<PageContext>, id: FileId) -> Arc<Self> {
        Arc::new(Self {
            id,
            path: context.dir.join(file_name(FileKind::FlexPages, id)),
            context: Arc::clone(context),
            doomed: AtomicBool::new(true),
        })
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, with its header; nothing is durable yet.
    pub(super) fn create(&self) -> Result<Arc<dyn DiskFile>> {
        let disk = &self.context.io.disk;
        let file = disk
            .create(&self.path, OpenMode::default())
            .map_err(|e| Error::io("creating a page file", &self.path, e))?;
        file.write_all_at(&encode_header(&self.context.owner, self.id), 0)
            .map_err(|e| Error::io("writing a page file", &self.path, e))?;
        self.context.io.meter.wrote(Purpose::Flush, HEADER_BYTES);
        Ok(file)
    }

    /// Opens it for reading, proves its header and that it goes on to `end` at least; returns its
    /// length, too.
    pub(super) fn open(&self, end: u64, purpose: Purpose) -> Result<(Arc<dyn DiskFile>, u64)> {
        let disk = &self.context.io.disk;
        let file = disk.open(&self.path, OpenMode::default()).map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                return Error::corruption("a page file is missing").in_file(&self.path);
            }
            Error::io("opening a page file", &self.path, e)
        })?;
        let bytes = file.len().map_err(|e| Error::io("opening a page file", &self.path, e))?;
        if bytes < end.max(HEADER_BYTES) {
            let error = Error::corruption("a page file ends too early");
            return Err(self.damaged(bytes, error));
        }
        let mut header = vec![0; HEADER_BYTES as usize];
        let read = file.read_exact_at(&mut header, 0);
        self.context.io.meter.read(purpose, HEADER_BYTES);
        read.map_err(|e| self.unread(e, 0))?;
        check_header(&header, &self.context.owner, self.id).map_err(|e| self.damaged(0, e))?;
        Ok((file, bytes))
    }

    /// What a failed read of bytes that were written means.
    pub(super) fn unread(&self, e: std::io::Error, offset: u64) -> Error {
        if e.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.damaged(offset, Error::corruption("a page file ends too early"));
        }
        Error::io("reading a page file", &self.path, e).at_offset(offset)
    }

    /// The same error with file and offset.
    pub(super) fn damaged(&self, offset: u64, error: Error) -> Error {
        error.in_file(&self.path).at_offset(offset)
    }

    /// A durable checkpoint names the file.
    pub(super) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// No durable checkpoint needs the file any more: it goes away with its last holder.
    pub(in crate::index::flex) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire) {
            self.context.obsolete.push(FileKind::FlexPages, self.id);
        }
    }
}
