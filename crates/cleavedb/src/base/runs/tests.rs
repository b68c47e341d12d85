//! Runs of bytes.

use super::*;

fn run(start: u64, end: u64) -> Run {
    Run { start, end }
}

#[test]
fn only_whole_blocks_are_given_back() {
    assert_eq!(run(0, 4096).whole_blocks(4096), Some(run(0, 4096)));
    assert_eq!(run(1, 8191).whole_blocks(4096), None);
    assert_eq!(run(1, 8192).whole_blocks(4096), Some(run(4096, 8192)));
    assert_eq!(run(4095, 12_289).whole_blocks(4096), Some(run(4096, 12_288)));
    assert_eq!(run(u64::MAX - 10, u64::MAX).whole_blocks(4096), None);
    assert_eq!(whole_block_bytes(&[run(1, 5000), run(8000, 20_000)], 4096), 8192);
}

#[test]
fn bytes_are_found_in_their_run() {
    let runs = [run(10, 20), run(30, 31)];
    for (offset, found) in [(9, None), (10, Some(0)), (19, Some(0)), (20, None), (30, Some(1))] {
        assert_eq!(run_at(&runs, offset), found.and_then(|at: usize| runs.get(at).copied()));
    }
    assert_eq!(run_at(&runs, 31), None);
    assert!(are_within(&[run(11, 20), run(30, 31)], &runs));
    assert!(!are_within(&[run(11, 21)], &runs) && !are_within(&[run(25, 26)], &runs));
}

#[test]
fn what_lies_between_runs() {
    let runs = [run(10, 20), run(30, 40)];
    assert_eq!(between(&runs, 0, 50), [run(0, 10), run(20, 30), run(40, 50)]);
    assert_eq!(between(&runs, 12, 35), [run(20, 30)]);
    assert_eq!(between(&runs, 10, 20), []);
    assert_eq!(between(&[], 3, 5), [run(3, 5)]);
}
