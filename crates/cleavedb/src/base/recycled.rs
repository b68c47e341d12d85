//! Buffers of some length that a thread leaves to its next reads, so that what is about to be
//! filled is not allocated and zeroed each time.
//!
//! One list for each thread, bounded in bytes and in buffers. Invariants: RB-1 what a buffer holds
//! when it is taken is what an earlier read of this process brought, or zeros: whoever reads into
//! it hands out only what the read has filled. RB-2 a buffer comes back once nobody has a part of
//! it any more, on whichever thread that is. RB-3 nobody pins much more than was asked for.

use std::cell::RefCell;
use std::ops::Deref;

/// Bytes that a thread keeps.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Buffers that a thread keeps.
const KEPT_MAX: usize = 16;

/// Shortest and longest buffer that is kept: a shorter one is allocated as fast, and what is read
/// into it may be kept for long; a longer one is mostly transfer.
const BUFFER_BYTES_MIN: usize = 8 << 10;
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// Lengths are rounded up to this when a buffer is made, so that it also serves somewhat longer
/// reads.
const ROUND_BYTES: usize = 8 << 10;

#[derive(Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Bytes that were read into what [`take`] gave.
#[derive(Debug, Default)]
pub(crate) struct Recycled(Vec<u8>);

impl Recycled {
    /// The owner of a buffer from here on.
    pub(crate) fn new(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }

    /// Memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Deref for Recycled {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.0));
    }
}

/// A buffer of `len` bytes with any contents.
pub(crate) fn take(len: usize) -> Vec<u8> {
    if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&len) {
        return vec![0; len];
    }
    // A thread that ends has no list any more.
    let kept = KEPT.try_with(|kept| kept.borrow_mut().take(len)).ok().flatten();
    let mut buffer = match kept {
        Some(buffer) => buffer,
        None => Vec::with_capacity(len.next_multiple_of(ROUND_BYTES)),
    };
    // Zeroes what the buffer has not held before only.
    buffer.resize(len, 0);
    buffer
}

/// Keeps a buffer for a next read, if there is room.
fn give(buffer: Vec<u8>) {
    if (BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
        let _ = KEPT.try_with(|kept| kept.borrow_mut().give(buffer));
    }
}

impl Kept {
    /// Of the buffers that are long enough, and not much longer (RB-3), the one with the least to
    /// be zeroed; of several the shortest.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let suits = |buffer: &Vec<u8>| (len..=2 * len).contains(&buffer.capacity());
        let cost = |buffer: &Vec<u8>| (len.saturating_sub(buffer.len()), buffer.len());
        let buffers = self.buffers.iter().enumerate().filter(|(_, buffer)| suits(buffer));
        let (number, _) = buffers.min_by_key(|(_, buffer)| cost(buffer))?;
        let buffer = self.buffers.swap_remove(number);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    fn give(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        // The oldest go: what is asked for now is like what came last.
        while self.bytes > KEPT_BYTES_MAX || self.buffers.len() > KEPT_MAX {
            let oldest = self.buffers.remove(0);
            self.bytes -= oldest.capacity();
        }
    }
}

#[cfg(test)]
mod tests;
