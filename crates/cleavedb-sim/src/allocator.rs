//! An allocator that counts, so that a memory budget can be held against what is really in use.
//!
//! The binary and the test of bounds name it as their global allocator. Thread-safe. The counts of
//! a thread are exact; those of the process may be off by [`TOLD_BYTES`] for each thread that ever
//! ran: were every allocation told at once, the harness would spend a tenth of its time on that.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

use mimalloc::MiMalloc;

/// What a thread allocates or gives back before it tells so.
pub const TOLD_BYTES: i64 = 16 << 10;

// Signed: a thread may tell of what it freed before another one tells that it allocated it.
static IN_USE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

thread_local! {
    // Signed: a thread may free what another one allocated. Cells of numbers need no destructor,
    // so they can be reached while a thread ends.
    static IN_USE_HERE: Cell<i64> = const { Cell::new(0) };
    static PEAK_HERE: Cell<i64> = const { Cell::new(0) };
    static TOLD_HERE: Cell<i64> = const { Cell::new(0) };
}

/// The allocator of the other binaries, with a counter.
pub struct Counting;

fn grown(bytes: i64) {
    let here = IN_USE_HERE.get() + bytes;
    IN_USE_HERE.set(here);
    PEAK_HERE.set(PEAK_HERE.get().max(here));
    let untold = here - TOLD_HERE.get();
    if untold.abs() >= TOLD_BYTES {
        TOLD_HERE.set(here);
        let now = IN_USE.fetch_add(untold, Ordering::Relaxed) + untold;
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
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

// SAFETY: every method passes its arguments on to one allocator unchanged and returns what that
// returns, so its guarantees hold; counting touches no memory of the caller.
#[expect(unsafe_code, reason = "a global allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        grown(-(layout.size() as i64));
        // SAFETY: `pointer` came from `MiMalloc` with this layout, for all allocations do.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size() as i64);
        // SAFETY: as for `alloc`.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Both at once, as one that needs room for both would count.
        grown(bytes as i64);
        grown(-(layout.size() as i64));
        // SAFETY: as for `dealloc`; the caller guarantees that `bytes` is valid for the alignment.
        unsafe { MiMalloc.realloc(pointer, layout, bytes) }
    }
}

/// Bytes in use now.
#[must_use]
pub fn in_use() -> u64 {
    IN_USE.load(Ordering::Relaxed).max(0).unsigned_abs()
}

/// Starts a new peak from what is in use now.
pub fn reset_peak() {
    PEAK.store(IN_USE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Most bytes in use since the last reset.
#[must_use]
pub fn peak() -> u64 {
    PEAK.load(Ordering::Relaxed).max(0).unsigned_abs()
}
