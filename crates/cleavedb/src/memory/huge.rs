//! Memory in pieces as large as a huge page, at bounds of one, from the kernel itself.
//!
//! For such a piece an allocator takes twice its bytes, gives what is left over on both sides to
//! whoever asks next, and by what is freed learns to give back ever less: with glibc a process held
//! two to three times the bytes that were in use. From the kernel it is what was asked for, and
//! freed means gone.

use std::ptr::NonNull;

/// Bytes of a piece, and what its address is a multiple of.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// A new piece, of zeros; `None` when the system is out of memory.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "maps memory")]
pub(super) fn map() -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at a place that the kernel chooses touches no other memory.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * HUGE_BYTES, access, flags) };
    let mapped = NonNull::new(mapped.ok()?.cast::<u8>())?;
    let before = mapped.as_ptr().align_offset(HUGE_BYTES);
    // SAFETY: twice the bytes are mapped, so a piece lies within them from its first bound on.
    let piece = unsafe { mapped.add(before) };
    // SAFETY: what lies before and behind the piece belongs to the mapping above and was given to
    // nobody; both are whole pages, as the mapping and the piece begin with one. Refused, it stays
    // mapped, untouched, and takes address space only.
    let trimmed = unsafe {
        let behind = piece.add(HUGE_BYTES).as_ptr();
        let head = if before == 0 { Ok(()) } else { munmap(mapped.as_ptr().cast(), before) };
        head.and(munmap(behind.cast(), HUGE_BYTES - before))
    };
    debug_assert!(trimmed.is_ok(), "{trimmed:?}");
    // A walk through 4 KiB pages misses the TLB at nearly every node.
    // SAFETY: the piece is ours, and the advice changes no contents. A system without huge pages
    // refuses, which changes nothing.
    let _ = unsafe { madvise(piece.as_ptr().cast(), HUGE_BYTES, Advice::LinuxHugepage) };
    Some(piece)
}

/// Gives a piece back.
///
/// # Safety
/// It came from [`map`], and nobody reaches its memory any more.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "unmaps memory")]
pub(super) unsafe fn unmap(piece: NonNull<u8>) {
    // SAFETY: the caller's promise: these are the bytes of one piece, and unused.
    let unmapped = unsafe { rustix::mm::munmap(piece.as_ptr().cast(), HUGE_BYTES) };
    debug_assert!(unmapped.is_ok(), "{unmapped:?}");
}

/// Where there is no such call, from the allocator.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod allocated {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use super::HUGE_BYTES;

    const LAYOUT: Layout = match Layout::from_size_align(HUGE_BYTES, HUGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<u8>(),
    };

    /// A new piece; `None` when the system is out of memory.
    #[expect(unsafe_code, reason = "takes memory from the global allocator")]
    pub(in crate::memory) fn map() -> Option<NonNull<u8>> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(LAYOUT) })
    }

    /// Gives a piece back.
    ///
    /// # Safety
    /// It came from [`map`], and nobody reaches its memory any more.
    #[expect(unsafe_code, reason = "gives memory back to the global allocator")]
    pub(in crate::memory) unsafe fn unmap(piece: NonNull<u8>) {
        // SAFETY: the caller's promise: allocated with this layout.
        unsafe { std::alloc::dealloc(piece.as_ptr(), LAYOUT) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use allocated::{map, unmap};

#[cfg(test)]
mod tests;
