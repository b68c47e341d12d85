//! A growable byte buffer whose first byte lies on a page boundary, as direct I/O demands.
//!
//! Owned by one writer or reader; plain memory, no thread rule beyond `&mut`.
//!
//! I1: `len <= pages.len() * DIRECT_ALIGN`, and every byte of `pages` is initialised.

use std::ops::{Deref, DerefMut};

use crate::io::disk::DIRECT_ALIGN;

/// One page; its alignment is what the buffer exists for.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; DIRECT_ALIGN]);

const _: () = assert!(align_of::<Page>() == DIRECT_ALIGN && size_of::<Page>() == DIRECT_ALIGN);

/// A page-aligned byte buffer.
#[derive(Clone, Default)]
pub(crate) struct AlignedBuffer {
    pages: Vec<Page>,
    len: usize,
}

impl AlignedBuffer {
    /// An empty buffer; allocates nothing.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A buffer of `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::new();
        buffer.resize(len);
        buffer
    }

    /// A buffer of these bytes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.capacity() * DIRECT_ALIGN
    }

    /// Forgets the contents, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Sets the length; new bytes are zero.
    pub(crate) fn resize(&mut self, len: usize) {
        // Pages that are new are zero already.
        let (old, held) = (self.len, self.pages.len() * DIRECT_ALIGN);
        self.resize_stale(len);
        if let Some(stale) = self.get_mut(old..len.min(held)) {
            stale.fill(0);
        }
    }

    /// Sets the length; new bytes may be anything that the buffer held before.
    pub(crate) fn resize_stale(&mut self, len: usize) {
        self.grow_to(len);
        self.len = len;
    }

    /// Appends bytes.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let old = self.len;
        self.grow_to(old + bytes.len());
        self.len = old + bytes.len();
        if let Some(room) = self.get_mut(old..) {
            room.copy_from_slice(bytes);
        }
    }

    #[cfg(test)]
    /// Removes the first `count` bytes, moving the rest to the front.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.len);
        let len = self.len;
        self.copy_within(count..len, 0);
        self.len -= count;
    }

    fn grow_to(&mut self, len: usize) {
        let pages = len.div_ceil(DIRECT_ALIGN);
        if pages > self.pages.len() {
            self.pages.resize(pages, Page([0; DIRECT_ALIGN]));
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[expect(unsafe_code, reason = "views pages as bytes")]
    fn deref(&self) -> &[u8] {
        debug_assert!(self.len <= self.pages.len() * DIRECT_ALIGN);
        // SAFETY: `Page` is `repr(C)` over bytes without padding (asserted above), so the vector is
        // one run of `pages.len() * DIRECT_ALIGN` initialised bytes, of which `len` are viewed
        // (I1); the borrow of `self` keeps the vector in place.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast::<u8>(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    #[expect(unsafe_code, reason = "views pages as bytes")]
    fn deref_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.len <= self.pages.len() * DIRECT_ALIGN);
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes the view unique, and any byte
        // value is a valid `Page`.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast::<u8>(), self.len) }
    }
}

/// Whether a buffer's address, a length and an offset all suit direct I/O.
pub(crate) fn is_direct_aligned(buffer: &[u8], offset: u64) -> bool {
    let mask = DIRECT_ALIGN - 1;
    buffer.as_ptr().addr() & mask == 0 && buffer.len() & mask == 0 && offset & mask as u64 == 0
}

/// Copies as many bytes as both have; returns how many.
pub(crate) fn copy_prefix(to: &mut [u8], from: &[u8]) -> usize {
    let count = to.len().min(from.len());
    if let (Some(to), Some(from)) = (to.get_mut(..count), from.get(..count)) {
        to.copy_from_slice(from);
    }
    count
}

#[cfg(test)]
mod tests;
