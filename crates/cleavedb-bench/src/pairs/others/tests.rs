//! The kernel's accounts.

use std::time::Duration;

use super::*;

#[test]
fn the_kernels_accounts_are_read_right() {
    let stat = "cpu  10 20 30 1000 500 1 2 3 99 99\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
    assert_eq!(busy_ticks(stat, &[0, 1, 2, 5, 6, 7]), 10 + 20 + 30 + 1 + 2 + 3);
    let own = "7 (a) b c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0 5";
    assert_eq!(own_ticks(own), 127);
    let kernel = "9 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 5 40 0 0 20 0 1 0 5";
    assert_eq!(kernel_ticks(kernel), 45);
    assert_eq!(kernel_ticks(own), 0);
    assert_eq!((name_of(own).as_str(), name_of("").as_str()), ("a) b c", ""));
    assert_eq!((busy_ticks("", &[0]), own_ticks(""), kernel_ticks("")), (0, 0, 0));
}

#[test]
fn who_has_grown_most_is_named_first() {
    let ticks = |others: &[(u32, &str, u64)], stolen| Ticks {
        others: others
            .iter()
            .map(|&(number, name, ticks)| (number, (name.into(), ticks)))
            .collect(),
        stolen,
        ..Ticks::default()
    };
    let before = ticks(&[(1, "init", 50), (2, "idle", 7), (3, "gone", 9)], 4);
    let after = ticks(&[(1, "init", 53), (2, "idle", 7), (9, "new", 20)], 5);
    let expected = [("new (9)", 20), ("init (1)", 3), ("the machine's host", 1)];
    let expected = expected.map(|(name, ticks)| (name.to_owned(), ticks));
    assert_eq!(after.grown(&before), expected);
}

#[test]
fn own_work_is_not_that_of_others() {
    let before = Ticks::now();
    let start = Instant::now();
    let mut sum = 0u64;
    let mut after = Ticks::now();
    // Until the kernel has brought both accounts up to date; it does not do so at once.
    while (after.busy == before.busy || after.own == before.own)
        && start.elapsed() < Duration::from_secs(60)
    {
        sum = std::hint::black_box(sum + 1);
        after = Ticks::now();
    }
    assert!(after.own > before.own, "no time was charged");
    assert!(after.busy > before.busy, "the machine was never busy");
    assert!(!after.others.contains_key(&std::process::id()));
}
