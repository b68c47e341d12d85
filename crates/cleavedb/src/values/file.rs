//! One value file: how to read it, how far, and the pin that keeps it on disk.
//!
//! Shared by snapshots of the file table and by readers. Invariants: V1 a file that a durable edit
//! removed, or that none ever named, is queued for removal when its last holder goes away (rule
//! F7), and no earlier. V2 a live file is never queued. V3 nothing is read beyond `readable`, which
//! only grows and never exceeds what was written. V4 of a file that an edit dropped runs of there
//! are several of these, each holding the next one: the runs are queued when the last holder of one
//! from before the edit, and of all that came before that one, goes away.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc as SlotArc, Weak};

use crate::base::checksum::file_seed;
use crate::base::entry::FileId;
use crate::base::error::{Error, Result};
use crate::base::marks::mark;
use crate::base::names::{FileKind, file_name};
use crate::base::obsolete::ObsoleteFiles;
use crate::base::runs::{Run, whole_block_bytes};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, ArcSwap, Mutex};
use crate::io::disk::OpenMode;
use crate::io::{DiskFile, Io, Purpose};
use crate::values::cache::ValueCache;
use crate::values::edit::SealedValues;
use crate::values::repairs::Repairs;
use crate::values::segment::read_totals;
use crate::values::table::reader::LoadedIndexes;

/// What value files are given to work with.
pub(crate) struct ValueContext {
    /// Disk and meter.
    pub(crate) io: Io,
    /// Directory of the database.
    pub(crate) dir: PathBuf,
    /// The database.
    pub(crate) uuid: [u8; 16],
    /// Where files go that nobody needs any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// Whether sealed files are read past the page cache.
    pub(crate) direct_reads: bool,
    /// Which of them are open.
    pub(crate) open_files: Arc<OpenFiles>,
    /// Values that gets have read.
    pub(crate) cache: ValueCache,
    /// Key indexes of value tables that are in memory.
    pub(crate) table_indexes: Arc<LoadedIndexes>,
    /// Handles that were found to be of an earlier epoch.
    pub(crate) repairs: Repairs,
    /// Bytes of a block of the file system.
    pub(crate) hole_block_bytes: u64,
}

/// Where a file keeps its descriptor.
pub(crate) type Slot = ArcSwap<Option<Arc<dyn DiskFile>>>;

/// Bounds how many files readers have opened: whoever opens one more closes the one that was opened
/// longest ago. Descriptors that the lane lends do not count.
pub(crate) struct OpenFiles {
    max: usize,
    /// In the order of opening; a file that was closed meanwhile may stand here still.
    opened: Mutex<VecDeque<Weak<Slot>>>,
}

impl OpenFiles {
    /// At most `max` files.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, opened: Mutex::new(VecDeque::new()) }
    }

    /// One file more is open, by way of this slot.
    pub(crate) fn opened(&self, slot: &SlotArc<Slot>) {
        let closed = {
            let mut opened = self.opened.lock();
            opened.push_back(SlotArc::downgrade(slot));
            let is_one_more = opened.len() > self.max;
            is_one_more.then(|| opened.pop_front()).flatten()
        };
        if let Some(slot) = closed.and_then(|slot| slot.upgrade()) {
            mark!("value_file_closed_for_another");
            slot.store(Arc::new(None));
        }
    }
}

/// A value file. Starts out doomed: it goes away with its last holder unless a durable edit names
/// it.
pub(crate) struct ValueFile {
    kind: FileKind,
    id: FileId,
    seed: u32,
    path: PathBuf,
    context: Arc<ValueContext>,
    handle: SlotArc<Slot>,
    readable: AtomicU64,
    doomed: AtomicBool,
    holes: SlotArc<Holes>,
    /// The file from an edit on that dropped these runs.
    next: Mutex<Option<Next>>,
    /// Whether its footer was seen to be that of the segment that was sealed.
    is_seen: AtomicBool,
}

/// What comes after a file: the same file, and the runs that it is without.
type Next = (Arc<ValueFile>, Arc<[Run]>);

/// What the disk knows of a file's holes: of the file, so that it is shared by all that stand for
/// it one after the other.
#[derive(Debug, Default)]
struct Holes {
    /// Bytes that were given back.
    given_back: AtomicU64,
    /// They are not given back: the file system cannot, or the file has other names.
    are_refused: AtomicBool,
}

impl ValueFile {
    /// The file of this number, a segment or that of one large value; opens nothing.
    pub(crate) fn new(context: &Arc<ValueContext>, kind: FileKind, id: FileId) -> Arc<Self> {
        Arc::new(Self {
            kind,
            id,
            seed: file_seed(&context.uuid, id.0),
            path: context.dir.join(file_name(kind, id)),
            context: Arc::clone(context),
            handle: SlotArc::new(ArcSwap::from_pointee(None)),
            readable: AtomicU64::new(0),
            doomed: AtomicBool::new(true),
            holes: SlotArc::new(Holes::default()),
            next: Mutex::new(None),
            is_seen: AtomicBool::new(false),
        })
    }

    /// The same file for views of after an edit that dropped a part of it; kept by the edit that
    /// names the file already.
    pub(crate) fn after_punch(&self) -> Arc<Self> {
        Arc::new(Self {
            kind: self.kind,
            id: self.id,
            seed: self.seed,
            path: self.path.clone(),
            context: Arc::clone(&self.context),
            handle: SlotArc::new(ArcSwap::from_pointee(None)),
            readable: AtomicU64::new(self.readable()),
            doomed: AtomicBool::new(false),
            holes: SlotArc::clone(&self.holes),
            next: Mutex::new(None),
            is_seen: AtomicBool::new(false),
        })
    }

    /// A durable edit dropped these runs: views from it on have `next`, and once the last holder of
    /// this one is gone nobody reads them (V4).
    pub(crate) fn followed_by(&self, next: &Arc<Self>, runs: &Arc<[Run]>) {
        *self.next.lock() = Some((Arc::clone(next), Arc::clone(runs)));
    }

    /// The whole blocks in runs that were dropped are given back.
    pub(crate) fn gave_back(&self, bytes: u64) -> u64 {
        let before = self.holes.given_back.fetch_max(bytes, Ordering::AcqRel);
        bytes.saturating_sub(before)
    }

    /// Dropped runs are not given back, nor will others be.
    pub(crate) fn refuse_holes(&self) {
        self.holes.are_refused.store(true, Ordering::Release);
    }

    /// Whether dropping runs of the file frees nothing.
    pub(crate) fn refuses_holes(&self) -> bool {
        self.holes.are_refused.load(Ordering::Acquire)
    }

    /// Bytes that were given back.
    pub(crate) fn given_back_bytes(&self) -> u64 {
        self.holes.given_back.load(Ordering::Acquire)
    }

    /// Bytes of it that are on disk, as far as it may be read.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.readable().saturating_sub(self.given_back_bytes())
    }

    /// Bytes that giving back these runs frees, or has freed.
    pub(crate) fn freed_by(&self, runs: &[Run]) -> u64 {
        match self.refuses_holes() {
            true => self.given_back_bytes(),
            false => whole_block_bytes(runs, self.context.hole_block_bytes),
        }
    }

    /// Number of the file.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// The database.
    pub(crate) fn uuid(&self) -> &[u8; 16] {
        &self.context.uuid
    }

    /// Key indexes of value tables that are in memory.
    pub(crate) fn table_indexes(&self) -> &Arc<LoadedIndexes> {
        &self.context.table_indexes
    }

    /// Handles that were found to be of an earlier epoch.
    pub(crate) fn repairs(&self) -> &Repairs {
        &self.context.repairs
    }

    /// Disk and meter.
    pub(crate) fn io(&self) -> &Io {
        &self.context.io
    }

    /// Seed of every checksum in it.
    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that may be read.
    pub(crate) fn readable(&self) -> u64 {
        self.readable.load(Ordering::Acquire)
    }

    /// Bytes up to here have been written: by the lane after each group, and at replay and
    /// sealing.
    pub(crate) fn raise_readable(&self, end: u64) {
        self.readable.fetch_max(end, Ordering::AcqRel);
    }

    /// Lends readers the descriptor with which the file is being written: while it grows, what was
    /// just written is in the page cache, and reading past that would wait for the device.
    pub(crate) fn lend(&self, file: Arc<dyn DiskFile>) {
        self.handle.store(Arc::new(Some(file)));
    }

    /// Gives up the descriptor, if any; the next read opens the file anew, past the page cache if
    /// so wanted. The lane does so when it has sealed the file, and whoever needs descriptors.
    pub(crate) fn close(&self) {
        self.handle.store(Arc::new(None));
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
                return Error::corruption("a value file is missing").in_file(&self.path);
            }
            Error::io("opening a value file", &self.path, e)
        })?;
        self.handle.store(Arc::new(Some(Arc::clone(&file))));
        self.context.open_files.opened(&self.handle);
        Ok(file)
    }

    /// Whether a sealed segment is the one that was sealed, as far as its footer tells: who knows
    /// of a record no more than its place and its key would take one of another history. Reads
    /// some bytes the first time.
    pub(crate) fn is_as_sealed(&self, values: &SealedValues) -> Result<bool> {
        if self.is_seen.load(Ordering::Acquire) {
            return Ok(true);
        }
        let (disk_file, purpose) = (self.disk_file()?, Purpose::Read);
        let totals =
            read_totals(self.io(), &*disk_file, &self.path, self.seed, &values.sealed, purpose)?;
        // One that was cut and sealed at replay has no footer: that was now, or has been verified.
        let is_same = totals.is_none_or(|totals| totals == values.totals);
        self.is_seen.store(is_same, Ordering::Release);
        Ok(is_same)
    }

    /// A durable edit names the file.
    pub(crate) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    /// A durable edit removed the file: it goes away with its last holder.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        let next = self.next.lock().take();
        if let Some((_next, runs)) = next {
            self.context.obsolete.push_runs(self.id, runs);
        }
        if self.doomed.load(Ordering::Acquire) {
            self.context.obsolete.push(self.kind, self.id);
        }
    }
}

#[cfg(test)]
mod tests;
