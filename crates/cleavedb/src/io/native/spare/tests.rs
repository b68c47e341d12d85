//! What is kept, and how much.

use super::{BUFFER_BYTES_MAX, SPARE, SPARE_BYTES_MAX, give, take};
use crate::io::aligned::AlignedBuffer;

/// On a thread of its own, which keeps nothing yet.
fn afresh(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(test).join().expect("the test holds"));
}

fn kept() -> (usize, usize) {
    SPARE.with_borrow(|spare| {
        assert_eq!(spare.bytes, spare.buffers.iter().map(AlignedBuffer::capacity).sum::<usize>());
        (spare.buffers.len(), spare.bytes)
    })
}

#[test]
fn a_buffer_that_is_long_enough_is_taken_again() {
    afresh(|| {
        let mut buffer = take(5000);
        assert_eq!((buffer.len(), buffer.iter().any(|byte| *byte != 0)), (5000, false));
        buffer.fill(7);
        let place = buffer.as_ptr();
        give(buffer);
        give(take(4096));
        assert_eq!(kept().0, 1, "the first one again");
        let longer = take(20_000);
        assert_eq!((longer.len(), kept().0), (20_000, 1));
        let again = take(8192);
        assert_eq!((again.as_ptr(), again.len(), kept()), (place, 8192, (0, 0)));
        assert_eq!(again.iter().filter(|byte| **byte == 7).count(), 5000, "with what it held");
    });
}

#[test]
fn what_is_kept_is_bounded() {
    afresh(|| {
        for _ in 0..100 {
            give(AlignedBuffer::zeroed(100 << 10));
        }
        let (count, bytes) = kept();
        assert!(bytes <= SPARE_BYTES_MAX && count == SPARE_BYTES_MAX / (100 << 10));
        (0..count).for_each(|_| drop(take(1)));
        assert_eq!(kept(), (0, 0));
        give(AlignedBuffer::zeroed(BUFFER_BYTES_MAX + 1));
        assert_eq!(kept(), (0, 0), "one that is too long");
    });
}
