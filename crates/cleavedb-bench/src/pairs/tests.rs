//! Verdicts, disturbed pairs, and the kernel's accounts.

use std::cell::RefCell;
use std::time::Duration;

use super::*;

#[test]
fn a_claim_needs_the_median_and_the_lowest_pair() {
    let spread = |figures: &[f64]| Spread::of(figures.to_vec()).unwrap();
    let close = spread(&[1.9, 2.0, 2.1, 2.05, 1.95]);
    assert!((close.median - 2.0).abs() < 1e-9);
    assert!(close.is_at_least(2.0) && !close.is_at_least(2.01));
    // The median is the same; one pair lies too low.
    let wide = spread(&[1.5, 2.0, 2.1, 2.05, 1.95]);
    assert!(!wide.is_at_least(2.0) && wide.is_at_least(1.57));
    assert!((wide.claim().unwrap() - 1.5 / 0.95).abs() < 1e-9);
    // Four pairs are too few for any claim.
    let few = spread(&[2.0; 4]);
    assert!(!few.is_at_least(1.0) && few.claim().is_none());
    assert_eq!(few.to_string(), "2.00 (4 of 5 pairs)");
    assert!((spread(&[1.0, 3.0]).median - 2.0).abs() < 1e-9);
    assert_eq!(Spread::of(Vec::new()), None);
    assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
}

#[test]
fn disturbed_pairs_are_repeated_in_order() {
    let sides = RefCell::new(Vec::new());
    let mut shares = [0.0, 0.1, 0.0, 0.5, 0.0, 0.15].into_iter();
    let run = |side| {
        sides.borrow_mut().push(side);
        Ok(sides.borrow().len())
    };
    let pairs = run_pairs(2, OTHERS_MAX, run, || shares.next().unwrap()).unwrap();
    assert_eq!(pairs.kept, [(1, 2), (5, 6)]);
    assert_eq!(pairs.thrown_away, 1);
    assert!((pairs.others - 0.15).abs() < 1e-9);
    assert_eq!(*sides.borrow(), [Side::A, Side::B].repeat(3));
}

#[test]
fn a_busy_machine_ends_with_fewer_pairs() {
    let mut runs = 0;
    let run = |_| {
        runs += 1;
        Ok(())
    };
    let pairs = run_pairs(5, OTHERS_MAX, run, || 1.0).unwrap();
    assert_eq!((pairs.kept.len(), pairs.thrown_away, runs), (0, 20, 40));
}

#[test]
fn the_kernels_accounts_are_read_right() {
    let stat = "cpu  10 20 30 1000 500 1 2 3 99 99\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
    assert_eq!(busy_ticks(stat), 10 + 20 + 30 + 1 + 2 + 3);
    let own = "7 (a) b c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0 5";
    assert_eq!(own_ticks(own), 127);
    assert_eq!((busy_ticks(""), own_ticks("")), (0, 0));
}

#[test]
fn own_work_is_not_that_of_others() {
    let before = ticks();
    let start = Instant::now();
    let mut sum = 0u64;
    let mut after = before;
    // Until the kernel has brought both accounts up to date; it does not do so at once.
    while (after.0 == before.0 || after.1 == before.1) && start.elapsed() < Duration::from_secs(60)
    {
        sum = std::hint::black_box(sum + 1);
        after = ticks();
    }
    assert!(after.1 > before.1, "no time was charged");
    assert!(after.0 > before.0, "the machine was never busy");
}
