//! A disk around another one whose calls fail as planned.
//!
//! Counts every call by kind; a [`FaultPlan`] names the call that fails, how, and whether all
//! later ones do too. Clones are the same disk; safe to share between threads.
//!
//! I1: a fault hits only calls that could give it in reality. I2: interrupted and short transfers,
//! also persistent ones, let a caller that tries again make progress. I3: a sync that fails loses
//! the unsynced bytes on a memory disk.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;

use crate::base::sync::{Arc, Mutex};
use crate::io::clock::{Clock, SystemClock};
use crate::io::disk::{BatchRead, DirEntry, Disk, DiskFile, LockGuard, LockMode, OpenMode};
use crate::io::fault_disk::file::FaultFile;
use crate::io::memory_disk::MemoryDisk;
#[cfg(feature = "sim")]
use crate::io::native::NativeDisk;
use crate::io::seeded::Seeded;

/// Kinds of calls a disk serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Creating a file.
    Create,
    /// Opening a file, for reading or writing.
    Open,
    /// Reading from a file; each read of a batch counts.
    Read,
    /// Writing to a file.
    Write,
    /// Making a file's contents durable.
    Sync,
    /// Making a directory's names durable.
    SyncDir,
    /// Asking for a file's length.
    Len,
    /// Cutting or extending a file.
    SetLen,
    /// Reserving space.
    Allocate,
    /// Giving back a part of a file.
    Punch,
    /// Asking for a file's links and room.
    Footprint,
    /// Renaming.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a hard link.
    Link,
    /// Creating a directory.
    CreateDir,
    /// Removing a directory.
    RemoveDir,
    /// Listing a directory.
    ReadDir,
    /// Asking whether a path exists.
    Exists,
    /// Taking the lock.
    Lock,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Input/output error, on any call. A write may have written a part, a sync has lost what it
    /// was to make durable; other calls have done nothing.
    Eio,
    /// No space left, on calls that need space: create, write, allocate, punch, set_len, rename,
    /// link, create_dir.
    Enospc,
    /// Interrupted, on reads and writes; when persistent, every second one.
    Eintr,
    /// A read that brings about half of what was asked, at least one byte.
    ShortRead,
    /// A write that takes about half of what was given, at least one byte.
    ShortWrite,
    /// The file system cannot do it, on giving back parts of files and on links.
    Unsupported,
    /// Too many open files, on calls that open one.
    Emfile,
    /// A read that brings one flipped bit.
    BitFlip,
    /// The process is killed before the call, as by `kill -9`.
    Kill,
}

impl Fault {
    /// Every fault that a process lives to see.
    pub const ALL: [Self; 8] = [
        Self::Eio,
        Self::Enospc,
        Self::Eintr,
        Self::ShortRead,
        Self::ShortWrite,
        Self::Emfile,
        Self::BitFlip,
        Self::Unsupported,
    ];

    /// Whether a call of this kind can show this fault.
    #[must_use]
    pub fn applies_to(self, kind: CallKind) -> bool {
        use CallKind as K;
        match self {
            Self::Eio | Self::Kill => true,
            Self::Enospc => matches!(
                kind,
                K::Create
                    | K::Write
                    | K::Allocate
                    | K::Punch
                    | K::SetLen
                    | K::Rename
                    | K::Link
                    | K::CreateDir
            ),
            Self::Unsupported => matches!(kind, K::Punch | K::Link),
            Self::Eintr => matches!(kind, K::Read | K::Write),
            Self::ShortRead | Self::BitFlip => kind == K::Read,
            Self::ShortWrite => kind == K::Write,
            Self::Emfile => {
                matches!(kind, K::Create | K::Open | K::ReadDir | K::SyncDir | K::Lock)
            }
        }
    }

    fn error(self) -> io::Error {
        match self {
            Self::Enospc => Errno::NOSPC.into(),
            Self::Eintr => Errno::INTR.into(),
            Self::Emfile => Errno::MFILE.into(),
            Self::Unsupported => io::ErrorKind::Unsupported.into(),
            Self::Eio | Self::ShortRead | Self::ShortWrite | Self::BitFlip | Self::Kill => {
                Errno::IO.into()
            }
        }
    }
}

/// Which call fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Count only calls of this kind; `None` counts all.
    pub kind: Option<CallKind>,
    /// The call that fails, counted from 1 since the plan was set. Where the fault does not apply
    /// to that call, nothing happens (or, if persistent, it waits for one it applies to).
    pub at: u64,
    /// What goes wrong.
    pub fault: Fault,
    /// Whether all later calls fail too.
    pub persistent: bool,
}

/// A disk that fails as planned. Clones are the same disk.
#[derive(Clone)]
pub struct FaultDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

/// Counters and plan, shared by the disk and its files.
pub(super) struct Faults {
    state: Mutex<FaultState>,
}

struct FaultState {
    plan: Option<FaultPlan>,
    counted: u64,
    calls: u64,
    by_kind: BTreeMap<CallKind, u64>,
    triggered: u64,
    interrupted_last: bool,
    seeded: Seeded,
    delays: Option<Seeded>,
}

impl FaultState {
    /// Counts a call; gives the fault it is to show and a random number.
    fn next(&mut self, kind: CallKind) -> Option<(Fault, u64)> {
        self.calls += 1;
        *self.by_kind.entry(kind).or_default() += 1;
        let plan = self.plan?;
        if plan.kind.is_some_and(|wanted| wanted != kind) {
            return None;
        }
        self.counted += 1;
        let due = if plan.persistent { self.counted >= plan.at } else { self.counted == plan.at };
        if !due || !plan.fault.applies_to(kind) {
            return None;
        }
        if plan.fault == Fault::Eintr {
            self.interrupted_last = !self.interrupted_last;
            if !self.interrupted_last {
                return None;
            }
        }
        self.triggered += 1;
        if plan.fault == Fault::Kill {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
            // Should the signal be late: no call may happen after it.
            std::process::abort();
        }
        let random = self.seeded.next();
        Some((plan.fault, random))
    }

    /// How long a call is to wait: one in sixteen for up to a millisecond, and one in sixteen of
    /// those for up to twenty.
    fn delay(&mut self) -> Option<Duration> {
        let delays = self.delays.as_mut()?;
        if delays.below(16) > 0 {
            return None;
        }
        let micros_max = if delays.below(16) > 0 { 1_000 } else { 20_000 };
        Some(Duration::from_micros(delays.below(micros_max)))
    }
}

impl Faults {
    /// Counts a call, which waits if that is wanted; gives the fault it is to show and a random
    /// number.
    fn next(&self, kind: CallKind) -> Option<(Fault, u64)> {
        let (delay, fault) = {
            let mut state = self.state.lock();
            (state.delay(), state.next(kind))
        };
        if let Some(delay) = delay {
            SystemClock.sleep(delay);
        }
        fault
    }

    /// Counts a call that moves no bytes; fails as planned.
    fn check(&self, kind: CallKind) -> io::Result<()> {
        self.next(kind).map_or(Ok(()), |(fault, _)| Err(fault.error()))
    }
}

impl FaultDisk {
    /// Around any disk.
    pub(crate) fn new(inner: Arc<dyn Disk>) -> Self {
        let state = FaultState {
            plan: None,
            counted: 0,
            calls: 0,
            by_kind: BTreeMap::new(),
            triggered: 0,
            interrupted_last: false,
            seeded: Seeded::new(0),
            delays: None,
        };
        Self { inner, faults: Arc::new(Faults { state: Mutex::new(state) }) }
    }

    /// Around a disk in memory.
    #[must_use]
    pub fn over(disk: &MemoryDisk) -> Self {
        Self::new(Arc::new(disk.clone()))
    }

    #[cfg(feature = "sim")]
    /// Around the native disk.
    #[must_use]
    pub fn over_native() -> Self {
        Self::new(NativeDisk::new())
    }

    /// Sets what fails from here on, or nothing; the plan's count starts anew.
    pub fn set_plan(&self, plan: Option<FaultPlan>) {
        let mut state = self.faults.state.lock();
        state.plan = plan;
        state.counted = 0;
        state.interrupted_last = false;
    }

    /// Makes calls wait at random from here on, or no more, so that threads over a real disk meet
    /// in other orders than they usually do.
    pub fn set_delays(&self, seed: Option<u64>) {
        self.faults.state.lock().delays = seed.map(Seeded::new);
    }

    /// Calls so far, of all kinds.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.faults.state.lock().calls
    }

    /// Calls so far of one kind.
    #[must_use]
    pub fn calls_of(&self, kind: CallKind) -> u64 {
        self.faults.state.lock().by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Calls that were made to fail so far.
    #[must_use]
    pub fn triggered(&self) -> u64 {
        self.faults.state.lock().triggered
    }

    fn wrap(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultFile::new(file, self.faults.clone()))
    }
}

impl Disk for FaultDisk {
    fn create(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.faults.check(CallKind::Create)?;
        Ok(self.wrap(self.inner.create(path, mode)?))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.faults.check(CallKind::Open)?;
        Ok(self.wrap(self.inner.open(path, mode)?))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.faults.check(CallKind::Open)?;
        Ok(self.wrap(self.inner.open_write(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.check(CallKind::Rename)?;
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.faults.check(CallKind::Remove)?;
        self.inner.remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.check(CallKind::Link)?;
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.check(CallKind::CreateDir)?;
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.check(CallKind::RemoveDir)?;
        self.inner.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.faults.check(CallKind::ReadDir)?;
        self.inner.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.check(CallKind::SyncDir)?;
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.faults.check(CallKind::Exists)?;
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Box<dyn LockGuard>> {
        self.faults.check(CallKind::Lock)?;
        self.inner.lock(path, mode)
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

#[cfg(test)]
mod tests;
