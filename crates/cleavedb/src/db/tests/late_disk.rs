//! A disk that tells which reads are under way at once, and makes a call when a file is created.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use super::novkv::try_open;
use super::*;
use crate::base::widths::Widths;
use crate::io::Purpose;
use crate::io::disk::{
    BatchRead, DirEntry, Disk, DiskFile, LockGuard, LockMode, OpenMode, ReadsUnderWay,
};
use crate::io::meter::Meter;

/// Reads that were given to a disk together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Submissions, by how many reads each had.
    pub(super) submitted: Vec<usize>,
    /// Reads that were begun and not waited for yet, and their bytes.
    pub(super) under_way: (usize, usize),
    /// The most of either that there were at once.
    pub(super) most: (usize, usize),
    /// What the meter had counted when reads were begun, and when somebody waited for them.
    pub(super) calls: Vec<(u64, u64)>,
}

impl Seen {
    fn submit(&mut self, reads: &[BatchRead]) {
        self.submitted.push(reads.len());
        self.under_way.0 += reads.len();
        self.under_way.1 += bytes_of(reads);
        self.most.0 = self.most.0.max(self.under_way.0);
        self.most.1 = self.most.1.max(self.under_way.1);
    }

    fn end(&mut self, reads: &[BatchRead]) {
        self.under_way.0 -= reads.len();
        self.under_way.1 -= bytes_of(reads);
    }
}

fn bytes_of(reads: &[BatchRead]) -> usize {
    reads.iter().map(|read| read.buffer.len()).sum()
}

/// A disk on which reads that are begun end when somebody waits for them.
#[derive(Clone)]
pub(super) struct Late {
    disk: MemoryDisk,
    /// Of the database that was opened last.
    meter: std::sync::Arc<Mutex<Option<Arc<Meter>>>>,
    seen: std::sync::Arc<Mutex<Seen>>,
    at_creation: std::sync::Arc<Mutex<Option<AtCreation>>>,
}

type AtCreation = (&'static str, Box<dyn FnOnce() + Send>);

struct LateReads {
    late: Late,
    calls: u64,
    reads: Vec<BatchRead>,
}

impl Late {
    /// Around this one.
    pub(super) fn new(disk: &MemoryDisk) -> Self {
        Self {
            disk: disk.clone(),
            meter: Default::default(),
            seen: Default::default(),
            at_creation: Default::default(),
        }
    }

    fn calls(&self) -> u64 {
        self.meter.lock().unwrap().as_ref().map_or(0, |meter| meter.read_calls(Purpose::Read))
    }

    /// What it sees of a call.
    pub(super) fn seen(&self, call: impl FnOnce()) -> Seen {
        *self.seen.lock().unwrap() = Seen::default();
        call();
        self.seen.lock().unwrap().clone()
    }

    /// Has a call made when the next file is created whose name ends so.
    pub(super) fn at_creation(&self, end: &'static str, call: impl FnOnce() + Send + 'static) {
        *self.at_creation.lock().unwrap() = Some((end, Box::new(call)));
    }

    /// Opens a database on it.
    pub(super) fn open(&self, options: Options, widths: Widths) -> Db {
        let io = Io::simulated(Arc::new(self.clone()));
        *self.meter.lock().unwrap() = Some(Arc::clone(&io.meter));
        try_open(io, options, widths).unwrap()
    }
}

impl ReadsUnderWay for LateReads {
    fn finish(mut self: Box<Self>) -> Vec<BatchRead> {
        let mut seen = self.late.seen.lock().unwrap();
        seen.calls.push((self.calls, self.late.calls()));
        seen.end(&self.reads);
        drop(seen);
        self.late.disk.read_batch(&mut self.reads);
        std::mem::take(&mut self.reads)
    }
}

impl Disk for Late {
    fn create(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let is_it = |(end, _): &mut (&str, _)| path.to_string_lossy().ends_with(*end);
        let call = self.at_creation.lock().unwrap().take_if(is_it);
        if let Some((_, call)) = call {
            call();
        }
        self.disk.create(path, mode)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, mode)
    }
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_write(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.read_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Box<dyn LockGuard>> {
        self.disk.lock(path, mode)
    }
    fn read_batch(&self, reads: &mut [BatchRead]) {
        self.seen.lock().unwrap().submit(reads);
        self.disk.read_batch(reads);
        self.seen.lock().unwrap().end(reads);
    }
    fn start_batch(&self, reads: Vec<BatchRead>) -> Box<dyn ReadsUnderWay> {
        self.seen.lock().unwrap().submit(&reads);
        Box::new(LateReads { calls: self.calls(), late: self.clone(), reads })
    }
    fn batch_mode(&self) -> &'static str {
        "late"
    }
}
