//! What the counting allocator says of the process; alone in its process, as the test of bounds.
//! Were its counts to stay at zero, every bound on memory would hold.

use std::hint::black_box;
use std::thread;

use cleavedb_sim::allocator::{Counting, TOLD_BYTES, in_use, peak, reset_peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BYTES: usize = 1 << 20;

/// What this thread, that of the work, and that of the test harness may not have told yet.
const SLACK_BYTES: u64 = 4 * TOLD_BYTES.unsigned_abs();

#[test]
fn the_process_holds_what_its_threads_hold_in_large_pieces_and_in_small_ones() {
    for piece in [BYTES, 1000] {
        reset_peak();
        let before = in_use();
        let pieces = BYTES / piece;
        let allocate =
            move || black_box((0..pieces).map(|_| vec![1_u8; piece]).collect::<Vec<_>>());
        let held = thread::spawn(allocate).join().unwrap();
        let whole = (pieces * piece) as u64;
        let now = in_use();
        assert!(now + SLACK_BYTES >= before + whole, "{piece}: {before}, then {now}");
        // By another thread than the one that allocated it.
        drop(held);
        let after = in_use();
        assert!(after <= before + SLACK_BYTES, "{piece}: {before}, then {after}");
        assert!(peak() + SLACK_BYTES >= before + whole, "{piece}: {before}, at most {}", peak());
    }
}
