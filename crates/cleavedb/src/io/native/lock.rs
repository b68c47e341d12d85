//! A lock on a file, shared or exclusive: against other processes by `flock`, against this one also
//! by a registry, because some network file systems turn `flock` into a lock per process.
//!
//! Both end when the guard is dropped; the kernel ends the first when the process does, however
//! it ends, so a killed owner leaves no stale lock. A lock counts only on the file that has the
//! name: one that was removed between opening and locking is let go again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::io::disk::{LockGuard, LockMode};
use crate::io::held_locks::HeldLocks;

/// Device and inode of a file.
type Place = (u64, u64);

/// Every file this process holds locked. A standard mutex: a `static` needs a constant
/// constructor, which the model checker's mutex has not.
static HELD: std::sync::Mutex<HeldLocks<Place>> = std::sync::Mutex::new(HeldLocks::new());

/// Holds the lock.
#[derive(Debug)]
pub(super) struct NativeLock {
    place: Place,
    descriptor: OwnedFd,
}

impl NativeLock {
    /// Takes the lock, creating the file for an exclusive one; `WouldBlock` where it is held.
    pub(super) fn take(path: &Path, mode: LockMode) -> io::Result<Self> {
        let (flags, operation) = match mode {
            LockMode::Shared => (OFlags::RDONLY, FlockOperation::NonBlockingLockShared),
            LockMode::Exclusive => {
                (OFlags::RDWR | OFlags::CREATE, FlockOperation::NonBlockingLockExclusive)
            }
        };
        loop {
            let lock = Self::take_opened(super::open_path(path, flags)?, mode, operation)?;
            if place_of(path)? == Some(lock.place) {
                return Ok(lock);
            }
        }
    }

    fn take_opened(
        descriptor: OwnedFd,
        mode: LockMode,
        operation: FlockOperation,
    ) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&descriptor)?;
        let place = (stat.st_dev, stat.st_ino);
        if !held().take(place, mode) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let error = match rustix::fs::flock(&descriptor, operation) {
            Ok(()) => return Ok(Self { place, descriptor }),
            Err(Errno::WOULDBLOCK) => io::ErrorKind::WouldBlock.into(),
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => io::ErrorKind::Unsupported.into(),
            Err(error) => error.into(),
        };
        held().give_back(place);
        Err(error)
    }
}

/// The file that has the name now; `None` for no file.
fn place_of(path: &Path) -> io::Result<Option<Place>> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn held() -> std::sync::MutexGuard<'static, HeldLocks<Place>> {
    HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl LockGuard for NativeLock {}

impl Drop for NativeLock {
    fn drop(&mut self) {
        // Unlocked before the registry forgets it: whoever sees the place free gets the lock.
        let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
        held().give_back(self.place);
    }
}
