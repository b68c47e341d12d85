//! An exclusive lock on a file: against other processes by `flock`, against this one also by a
//! registry, because some network file systems turn `flock` into a lock per process.
//!
//! Both end when the guard is dropped; the kernel ends the first when the process does, however
//! it ends, so a killed owner leaves no stale lock.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::io::disk::LockGuard;

/// Device and inode of every file this process holds locked. A standard mutex: a `static` needs
/// a constant constructor, which the model checker's mutex has not.
static HELD: std::sync::Mutex<BTreeSet<(u64, u64)>> = std::sync::Mutex::new(BTreeSet::new());

/// Holds the lock.
#[derive(Debug)]
pub(super) struct NativeLock {
    place: (u64, u64),
    descriptor: OwnedFd,
}

impl NativeLock {
    /// Takes the lock, creating the file; `WouldBlock` where it is held.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let descriptor = super::open_path(path, OFlags::RDWR | OFlags::CREATE)?;
        let stat = rustix::fs::fstat(&descriptor)?;
        let place = (stat.st_dev, stat.st_ino);
        if !held().insert(place) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { place, descriptor }),
            Err(e) => {
                held().remove(&place);
                Err(if e == Errno::WOULDBLOCK {
                    io::ErrorKind::WouldBlock.into()
                } else {
                    e.into()
                })
            }
        }
    }
}

fn held() -> std::sync::MutexGuard<'static, BTreeSet<(u64, u64)>> {
    HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl LockGuard for NativeLock {}

impl Drop for NativeLock {
    fn drop(&mut self) {
        // Unlocked before the registry forgets it: whoever sees the place free gets the lock.
        let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
        held().remove(&self.place);
    }
}
