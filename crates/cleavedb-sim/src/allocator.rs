//! An allocator that counts, so that a memory budget can be held against what is really in use.
//!
//! The binary and the test of bounds name it as their global allocator. Thread-safe; counts are
//! relaxed, so a peak may be off by what other threads allocate at that moment.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Signed: a thread may free what another one allocated. Cells of numbers need no destructor,
    // so they can be reached while a thread ends.
    static IN_USE_HERE: Cell<i64> = const { Cell::new(0) };
    static PEAK_HERE: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator with a counter.
pub struct Counting;

fn grown(bytes: usize) {
    let now = IN_USE.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    PEAK.fetch_max(now, Ordering::Relaxed);
    let here = IN_USE_HERE.get() + bytes as i64;
    IN_USE_HERE.set(here);
    PEAK_HERE.set(PEAK_HERE.get().max(here));
}

fn shrunk(bytes: usize) {
    IN_USE.fetch_sub(bytes as u64, Ordering::Relaxed);
    IN_USE_HERE.set(IN_USE_HERE.get() - bytes as i64);
}

/// Runs `work` and returns the most bytes that this thread had in use meanwhile beyond what it
/// began with.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = IN_USE_HERE.get();
    PEAK_HERE.set(before);
    let outcome = work();
    (outcome, PEAK_HERE.get().saturating_sub(before).unsigned_abs())
}

/// A moment of one thread, to count from: what other threads allocate meanwhile, that of the test
/// harness for one, does not count.
#[derive(Clone, Copy, Debug)]
pub struct Moment(i64);

impl Moment {
    /// This moment of this thread.
    #[must_use]
    pub fn now() -> Self {
        Self(IN_USE_HERE.get())
    }

    /// Bytes that this thread allocated since and has not given back.
    #[must_use]
    pub fn held(self) -> u64 {
        (IN_USE_HERE.get() - self.0).max(0).unsigned_abs()
    }
}

// SAFETY: every method passes its arguments on to the system's allocator unchanged and returns what
// that returns, so its guarantees hold; counting touches no memory of the caller.
#[expect(unsafe_code, reason = "a global allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrunk(layout.size());
        // SAFETY: `pointer` came from `System` with this layout, for all allocations do.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        grown(bytes);
        shrunk(layout.size());
        // SAFETY: as for `dealloc`; the caller guarantees that `bytes` is valid for the alignment.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Bytes in use now.
#[must_use]
pub fn in_use() -> u64 {
    IN_USE.load(Ordering::Relaxed)
}

/// Starts a new peak from what is in use now.
pub fn reset_peak() {
    PEAK.store(in_use(), Ordering::Relaxed);
}

/// Most bytes in use since the last reset.
#[must_use]
pub fn peak() -> u64 {
    PEAK.load(Ordering::Relaxed)
}
