//! A bump allocator: many small allocations out of few large blocks, freed all at once.
//!
//! Shared by any number of threads; an allocation is one atomic add unless a block runs out.
//! Invariants: A1 an address handed out is aligned to [`ALIGNMENT`], belongs to one caller and
//! stays valid until the arena is dropped. A2 blocks grow with what is held, from
//! [`BLOCK_BYTES_MIN`] to [`BLOCK_BYTES_MAX`], and what would take more than a quarter of one gets
//! its own, so that what is held stays in proportion to what was asked for. A3
//! [`Arena::memory_bytes`] is what the allocator and the kernel were asked for, to the byte. A4 a
//! block of a layout aligned to [`BLOCK_BYTES_MAX`] is a piece of [`huge`], any other is from the
//! global allocator.

use std::alloc::Layout;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::memory::huge;

#[cfg(test)]
mod tests;

/// Alignment of every allocation: that of the pointers in a tower.
pub(super) const ALIGNMENT: usize = if align_of::<AtomicPtr<u8>>() > align_of::<u64>() {
    align_of::<AtomicPtr<u8>>()
} else {
    align_of::<u64>()
};
/// Smallest block: a memtable of a few entries stays small.
const BLOCK_BYTES_MIN: usize = 1 << 10;
/// Largest block: a huge page where the system has them, and small next to a memtable of a size to
/// hold one.
const BLOCK_BYTES_MAX: usize = huge::HUGE_BYTES;
/// A block is a quarter of what is held already.
const GROWTH_DIVISOR: usize = 4;
/// An allocation above this part of a block gets a block of its own, so that the rest of the
/// current block is not thrown away.
const OWN_BLOCK_DIVISOR: usize = 4;

/// One piece of memory (A4).
struct Block {
    start: NonNull<u8>,
    layout: Layout,
    /// Bytes given out; goes beyond the capacity when an allocation did not fit.
    used: AtomicUsize,
}

/// Blocks of one owner.
pub(super) struct Arena {
    /// The block that allocations come from; null before the first one.
    current: CachePadded<AtomicPtr<Block>>,
    /// Bytes of all blocks and their headers.
    held_bytes: AtomicUsize,
    /// Every block, from `Box::into_raw`; grows under the lock, freed on drop.
    blocks: Mutex<Vec<*mut Block>>,
}

// SAFETY: blocks are plain memory owned by the arena, without thread affinity; `blocks` is only
// reached under its lock and `current` is atomic (A1 gives each address to one caller).
#[expect(unsafe_code, reason = "raw block pointers carry no thread affinity")]
unsafe impl Send for Arena {}
// SAFETY: as above: all shared state is atomic or behind the lock.
#[expect(unsafe_code, reason = "all shared state is atomic or behind the lock")]
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without blocks.
    pub(super) fn new() -> Self {
        Self {
            current: CachePadded::new(AtomicPtr::new(std::ptr::null_mut())),
            held_bytes: AtomicUsize::new(0),
            blocks: Mutex::new(Vec::new()),
        }
    }

    /// Bytes taken so far (A3).
    pub(super) fn memory_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Uninitialised memory of `bytes` (at most `isize::MAX` less one alignment), valid until the
    /// arena is dropped (A1). Aborts when the system is out of memory, as the allocator does.
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let current = self.current.load(Ordering::Acquire);
        match Self::carve(current, bytes) {
            Some(address) => address,
            None => self.allocate_slowly(bytes),
        }
    }

    /// The next `bytes` of a block, if they fit and are not so many as to need one of their own.
    #[expect(unsafe_code, reason = "reads a block behind a raw pointer")]
    #[inline]
    fn carve(block: *mut Block, bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: a non-null block came from `Box::into_raw`, was published with Release and read
        // with Acquire, and is freed only when the arena is dropped.
        let block = unsafe { block.as_ref()? };
        if bytes > block.layout.size() / OWN_BLOCK_DIVISOR {
            return None;
        }
        let offset = block.used.fetch_add(bytes, Ordering::Relaxed);
        if offset.checked_add(bytes)? > block.layout.size() {
            return None;
        }
        // SAFETY: offset + bytes lie within the block's allocation; the atomic add gave this
        // stretch to nobody else (A1).
        Some(unsafe { block.start.add(offset) })
    }

    /// Takes a new block, unless another thread did so meanwhile.
    #[cold]
    fn allocate_slowly(&self, bytes: usize) -> NonNull<u8> {
        let mut blocks = self.blocks.lock();
        let held = self.held_bytes.load(Ordering::Relaxed);
        let block_bytes = (held / GROWTH_DIVISOR)
            .clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
            .next_multiple_of(ALIGNMENT);
        if bytes > block_bytes / OWN_BLOCK_DIVISOR {
            let (block, address) = Self::new_block(bytes, bytes);
            self.adopt(&mut blocks, block, bytes);
            return address;
        }
        // Under the lock: whoever held it before may have brought a block with room.
        if let Some(address) = Self::carve(self.current.load(Ordering::Acquire), bytes) {
            return address;
        }
        let (block, address) = Self::new_block(block_bytes, bytes);
        self.adopt(&mut blocks, block, block_bytes);
        self.current.store(block, Ordering::Release);
        address
    }

    /// A block of `capacity` bytes whose first `used` bytes are given out already.
    #[expect(unsafe_code, reason = "takes memory from the global allocator")]
    fn new_block(capacity: usize, used: usize) -> (*mut Block, NonNull<u8>) {
        assert!(used <= capacity && capacity > 0);
        let is_huge = capacity == BLOCK_BYTES_MAX;
        let alignment = if is_huge { BLOCK_BYTES_MAX } else { ALIGNMENT };
        let Ok(layout) = Layout::from_size_align(capacity, alignment) else {
            std::alloc::handle_alloc_error(Layout::new::<Block>());
        };
        let start = if is_huge {
            huge::map()
        } else {
            // SAFETY: the size is not zero (asserted).
            NonNull::new(unsafe { std::alloc::alloc(layout) })
        };
        let Some(start) = start else { std::alloc::handle_alloc_error(layout) };
        let block = Block { start, layout, used: AtomicUsize::new(used) };
        (Box::into_raw(Box::new(block)), start)
    }

    /// Takes over a block: from here on it is counted, and freed on drop.
    fn adopt(&self, blocks: &mut Vec<*mut Block>, block: *mut Block, capacity: usize) {
        let before = blocks.capacity();
        blocks.push(block);
        let list_bytes = (blocks.capacity() - before) * size_of::<*mut Block>();
        self.held_bytes.fetch_add(capacity + size_of::<Block>() + list_bytes, Ordering::Relaxed);
    }
}

impl Drop for Arena {
    #[expect(unsafe_code, reason = "gives blocks back to where they came from")]
    fn drop(&mut self) {
        for block in self.blocks.lock().drain(..) {
            // SAFETY: the pointer came from `Box::into_raw`, stands in the list once, and with
            // `&mut self` nobody can reach the arena's memory any more.
            let block = unsafe { Box::from_raw(block) };
            if block.layout.align() == BLOCK_BYTES_MAX {
                // SAFETY: mapped by `new_block` (A4), and out of reach as above.
                unsafe { huge::unmap(block.start) };
            } else {
                // SAFETY: allocated with this layout by `new_block`.
                unsafe { std::alloc::dealloc(block.start.as_ptr(), block.layout) };
            }
        }
    }
}
