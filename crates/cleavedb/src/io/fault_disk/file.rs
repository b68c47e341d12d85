//! A file of the fault disk.

use std::io;

use crate::base::sync::Arc;
use crate::io::disk::{DiskFile, Footprint};
use crate::io::fault_disk::{CallKind, Fault, Faults};

/// Passes calls on, unless the plan says otherwise. Has no descriptor, so that batched reads come
/// through here one by one.
pub(super) struct FaultFile {
    inner: Arc<dyn DiskFile>,
    faults: Arc<Faults>,
}

impl FaultFile {
    pub(super) fn new(inner: Arc<dyn DiskFile>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

/// About half, at least one.
fn half(len: usize) -> usize {
    len.div_ceil(2)
}

impl DiskFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.faults.next(CallKind::Read) {
            None => self.inner.read_at(buffer, offset),
            Some((Fault::ShortRead, _)) => {
                let part = half(buffer.len());
                let part = buffer.get_mut(..part).unwrap_or(&mut []);
                self.inner.read_at(part, offset)
            }
            Some((Fault::BitFlip, random)) => {
                let count = self.inner.read_at(buffer, offset)?;
                let bit = random % (count.max(1) as u64 * 8);
                if let Some(byte) = buffer.get_mut((bit / 8) as usize).filter(|_| count > 0) {
                    *byte ^= 1 << (bit % 8);
                }
                Ok(count)
            }
            Some((fault, _)) => Err(fault.error()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let part = bytes.get(..half(bytes.len())).unwrap_or(&[]);
        match self.faults.next(CallKind::Write) {
            None => self.inner.write_at(bytes, offset),
            Some((Fault::ShortWrite, _)) => self.inner.write_at(part, offset),
            Some((Fault::Eio, random)) => {
                if random.is_multiple_of(2) {
                    // A part got through before the device failed.
                    let _ = self.inner.write_at(part, offset);
                }
                Err(Fault::Eio.error())
            }
            Some((fault, _)) => Err(fault.error()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Err(e) = self.faults.check(CallKind::Sync) {
            self.inner.fail_sync();
            return Err(e);
        }
        self.inner.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.faults.check(CallKind::Len)?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check(CallKind::SetLen)?;
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.faults.check(CallKind::Allocate)?;
        self.inner.allocate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.faults.check(CallKind::Punch)?;
        self.inner.punch(offset, len)
    }

    fn footprint(&self) -> io::Result<Footprint> {
        self.faults.check(CallKind::Footprint)?;
        self.inner.footprint()
    }

    fn start_write_back(&self, offset: u64, len: u64) {
        self.inner.start_write_back(offset, len);
    }

    fn drop_cached(&self, offset: u64, len: u64) {
        self.inner.drop_cached(offset, len);
    }

    fn fail_sync(&self) {
        self.inner.fail_sync();
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}
