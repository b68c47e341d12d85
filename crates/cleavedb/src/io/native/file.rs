//! An open file of the native disk: buffered, direct, or both descriptors of one file.

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use crate::base::marks::mark;
use crate::io::aligned::{AlignedBuffer, copy_prefix, is_direct_aligned};
use crate::io::disk::{DIRECT_ALIGN, DiskFile, Footprint};

/// Most bytes one bounced read brings; longer reads take several.
const BOUNCE_BYTES_MAX: usize = 1 << 20;
/// Largest bounce buffer a thread keeps for its next read.
const BOUNCE_BYTES_KEPT: usize = 128 << 10;

thread_local! {
    static BOUNCE: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new());
}

/// An open file.
#[derive(Debug)]
pub(super) struct NativeFile {
    main: OwnedFd,
    direct: Direct,
}

#[derive(Debug)]
enum Direct {
    No,
    /// `main` is the direct descriptor; the file is only read.
    Main,
    /// A second descriptor, for the aligned writes.
    Second(OwnedFd),
}

impl NativeFile {
    /// A buffered file, with a direct descriptor beside it where there is one.
    pub(super) fn new(main: OwnedFd, direct: Option<OwnedFd>) -> Self {
        Self { main, direct: direct.map_or(Direct::No, Direct::Second) }
    }

    /// A file open for direct reads only.
    pub(super) fn direct_only(main: OwnedFd) -> Self {
        Self { main, direct: Direct::Main }
    }

    fn direct(&self) -> Option<&OwnedFd> {
        match &self.direct {
            Direct::No => None,
            Direct::Main => Some(&self.main),
            Direct::Second(descriptor) => Some(descriptor),
        }
    }
}

/// Reads through an aligned buffer; short where the wanted range is longer than one bounce.
fn read_bounced(descriptor: &OwnedFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let span = direct_span(offset, buffer.len().min(BOUNCE_BYTES_MAX));
    BOUNCE.with_borrow_mut(|bounce| {
        if bounce.len() < span.len {
            bounce.resize(span.len);
        }
        let target = bounce.get_mut(..span.len).unwrap_or(&mut []);
        let read = rustix::io::pread(descriptor, target, span.start)?;
        let wanted = bounce.get(..read).and_then(|got| got.get(span.skip..)).unwrap_or(&[]);
        let count = copy_prefix(buffer, wanted);
        if span.len > BOUNCE_BYTES_KEPT {
            *bounce = AlignedBuffer::new();
        }
        Ok(count)
    })
}

/// The aligned range that covers a wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectSpan {
    /// First byte of the aligned range in the file.
    pub(super) start: u64,
    /// Its length.
    pub(super) len: usize,
    /// Bytes of it before the wanted range.
    pub(super) skip: usize,
}

/// The smallest aligned range that covers `len` bytes at `offset`.
pub(super) fn direct_span(offset: u64, len: usize) -> DirectSpan {
    let align = DIRECT_ALIGN as u64;
    let skip = offset % align;
    let len = (skip as usize + len).next_multiple_of(DIRECT_ALIGN);
    DirectSpan { start: offset - skip, len, skip: skip as usize }
}

impl DiskFile for NativeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.direct() {
            Some(direct) if !is_direct_aligned(buffer, offset) => {
                read_bounced(direct, buffer, offset)
            }
            Some(direct) => Ok(rustix::io::pread(direct, buffer, offset)?),
            None => Ok(rustix::io::pread(&self.main, buffer, offset)?),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let descriptor = match &self.direct {
            Direct::Second(direct) if is_direct_aligned(bytes, offset) => direct,
            _ => &self.main,
        };
        Ok(rustix::io::pwrite(descriptor, bytes, offset)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not retried, whatever the error (I1 of the module).
        Ok(rustix::fs::fdatasync(&self.main)?)
    }

    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.main)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.main, len))?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let old = self.len()?;
        if len <= old {
            return Ok(());
        }
        let flags = FallocateFlags::empty();
        match retry_on_intr(|| rustix::fs::fallocate(&self.main, flags, old, len - old)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                mark!("fallocate_refused");
                self.set_len(len)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| rustix::fs::fallocate(&self.main, flags, offset, len)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                mark!("punch_refused_by_file_system");
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(e) => Err(e.into()),
        }
    }

    fn footprint(&self) -> io::Result<Footprint> {
        /// The unit in which a file's blocks are counted, whatever the block is.
        const UNIT_BYTES: u64 = 512;
        let stat = rustix::fs::fstat(&self.main)?;
        let units = u64::try_from(stat.st_blocks).unwrap_or(0);
        #[allow(clippy::useless_conversion, reason = "narrower on other machines")]
        let links = u64::try_from(stat.st_nlink).unwrap_or(u64::MAX);
        Ok(Footprint { links, allocated_bytes: units.saturating_mul(UNIT_BYTES) })
    }

    #[expect(unsafe_code, reason = "rustix has no sync_file_range")]
    fn start_write_back(&self, offset: u64, len: u64) {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        // SAFETY: takes no pointers; the descriptor is open while `self` lives. Advice only: an
        // error here is reported by the sync that follows.
        unsafe {
            libc::sync_file_range(self.main.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
        }
    }

    fn drop_cached(&self, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(&self.main, offset, NonZeroU64::new(len), Advice::DontNeed);
    }

    fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        if self.is_direct() {
            return false;
        }
        let wanted = buffer.len();
        let mut parts = [IoSliceMut::new(buffer)];
        // A kernel or a file system that can not promise not to wait refuses.
        preadv2(&self.main, &mut parts, offset, ReadWriteFlags::NOWAIT) == Ok(wanted)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.direct().unwrap_or(&self.main).as_raw_fd())
    }
}
