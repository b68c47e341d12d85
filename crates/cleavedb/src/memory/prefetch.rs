//! Asks the processor to bring memory near before it is read.
//!
//! A look-up in a table of many megabytes waits for memory, not for instructions; where the place
//! is known some time before it is read, the wait runs beside other work.

/// Begins to load the cache line of `value`; without effect where the processor has no such
/// instruction.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[expect(unsafe_code, reason = "the instruction takes an address")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction belongs to SSE, which every x86-64 processor has. It is a hint:
        // it faults at no address and changes nothing that a program can see, and the address is
        // that of a live reference besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}
