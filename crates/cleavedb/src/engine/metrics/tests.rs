//! Histograms: buckets and percentiles.

use super::*;

#[test]
fn every_duration_falls_into_a_bucket_within_an_eighth() {
    let mut ns = 8u64;
    while ns < 1 << 40 {
        let upper = upper_bound_of(bucket_of(ns));
        assert!(upper >= ns, "{ns} above its bucket's bound {upper}");
        assert!(upper - ns <= ns / 8 + 1, "{ns} far below its bucket's bound {upper}");
        ns += ns / 7 + 1;
    }
}

#[test]
fn percentiles_of_a_known_distribution() {
    let distribution = Distribution::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let distribution = &distribution;
            let record = |micros| distribution.record(Duration::from_micros(micros));
            scope.spawn(move || (1..=250).for_each(|at| record(thread * 250 + at)));
        }
    });
    let figures = distribution.percentiles();
    assert_eq!(figures.count, 1000);
    assert!((figures.mean_us - 500.5).abs() < 1.0);
    assert!((500.0..=570.0).contains(&figures.p50_us), "{}", figures.p50_us);
    assert!((990.0..=1000.0).contains(&figures.p99_us), "{}", figures.p99_us);
    assert_eq!(figures.max_us, 1000.0);
}

#[test]
fn operands_of_reads_are_counted_by_powers_of_two() {
    let counts = OperandCounts::default();
    for operands in [1, 1, 2, 3, 4, 5, 8, 9, 1 << 40] {
        counts.record(operands);
    }
    let wanted = [(1, 2), (2, 1), (4, 2), (8, 2), (16, 1), (1 << 31, 1)];
    assert_eq!(counts.counts().collect::<Vec<_>>(), wanted);
}

/// Threads take turns of their own; each begins with a get that is timed.
#[test]
fn one_get_of_eight_is_timed() {
    let timed = || {
        let gets = 5 * GETS_PER_TIMED;
        let turns: Vec<bool> = (0..gets).map(|_| is_get_timed()).collect();
        let expected = (0..gets).map(|number| number % GETS_PER_TIMED == 0);
        assert!(turns.iter().copied().eq(expected), "{turns:?}");
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(timed)));
    });
}
