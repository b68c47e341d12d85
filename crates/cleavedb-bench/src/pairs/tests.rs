//! Verdicts, disturbed pairs, and the kernel's accounts.

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
fn disturbed_rounds_are_repeated_in_order() {
    let mut order = Vec::new();
    let mut heard = Vec::new();
    let mut shares = [0.0, 0.1, 0.0, 0.5, 0.0, 0.15].into_iter();
    let run = |round, contender| {
        order.push((round, contender));
        Ok(order.len())
    };
    let rounds = run_rounds(
        2,
        3,
        OTHERS_MAX,
        run,
        || shares.next().unwrap(),
        |outcomes, ended| {
            heard.push((outcomes.len(), ended.number, ended.counts));
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(rounds.kept, [[1, 2, 3], [7, 8, 9]]);
    assert_eq!(rounds.thrown_away, 1);
    assert!((rounds.others - 0.15).abs() < 1e-9);
    let expected: Vec<_> = (1..=3).flat_map(|round| (0..3).map(move |one| (round, one))).collect();
    assert_eq!(order, expected);
    assert_eq!(heard, [(3, 1, true), (3, 2, false), (3, 3, true)]);
}

#[test]
fn a_busy_machine_ends_with_fewer_rounds() {
    let mut runs = 0;
    let run = |_, _| {
        runs += 1;
        Ok(())
    };
    let rounds = run_rounds(5, 2, OTHERS_MAX, run, || 1.0, |_, _| Ok(())).unwrap();
    assert_eq!((rounds.kept.len(), rounds.thrown_away, runs), (0, 20, 40));
}

#[test]
fn the_kernels_accounts_are_read_right() {
    let stat = "cpu  10 20 30 1000 500 1 2 3 99 99\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
    assert_eq!(busy_ticks(stat), 10 + 20 + 30 + 1 + 2 + 3);
    let own = "7 (a) b c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0 5";
    assert_eq!(own_ticks(own), 127);
    let kernel = "9 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 5 40 0 0 20 0 1 0 5";
    assert_eq!(kernel_ticks(kernel), 45);
    assert_eq!(kernel_ticks(own), 0);
    assert_eq!((busy_ticks(""), own_ticks(""), kernel_ticks("")), (0, 0, 0));
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
