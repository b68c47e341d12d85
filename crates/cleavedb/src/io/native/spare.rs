//! Aligned buffers that a thread's batched reads leave to its next ones, so that what the kernel is
//! about to fill is not allocated and zeroed each time.
//!
//! One list for each thread, bounded in bytes. What a buffer holds when it is taken is what an
//! earlier read of this process brought: a reader hands out only what its own read has filled.

use std::cell::RefCell;

use crate::io::aligned::AlignedBuffer;

/// Bytes that a thread keeps.
const SPARE_BYTES_MAX: usize = 1 << 20;
/// Longest buffer that is kept.
const BUFFER_BYTES_MAX: usize = 256 << 10;

#[derive(Default)]
struct Spare {
    buffers: Vec<AlignedBuffer>,
    bytes: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// A buffer of `len` bytes with any contents.
pub(super) fn take(len: usize) -> AlignedBuffer {
    let kept = SPARE.with_borrow_mut(|spare| {
        // The last one is the likeliest to be in the processor's cache.
        let fits = |buffer: &AlignedBuffer| buffer.capacity() >= len;
        let number = spare.buffers.iter().rposition(fits)?;
        let buffer = spare.buffers.swap_remove(number);
        spare.bytes -= buffer.capacity();
        Some(buffer)
    });
    match kept {
        Some(mut buffer) => {
            buffer.resize_stale(len);
            buffer
        }
        None => AlignedBuffer::zeroed(len),
    }
}

/// Keeps a buffer for the next read, if there is room.
pub(super) fn give(buffer: AlignedBuffer) {
    SPARE.with_borrow_mut(|spare| {
        let bytes = buffer.capacity();
        if bytes <= BUFFER_BYTES_MAX && spare.bytes + bytes <= SPARE_BYTES_MAX {
            spare.bytes += bytes;
            spare.buffers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests;
