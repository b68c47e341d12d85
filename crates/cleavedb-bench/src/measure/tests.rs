//! Percentiles, extremes, processor time.

use super::*;

#[test]
fn percentiles_of_merged_threads() {
    let (mut a, mut b) = (Latencies::default(), Latencies::default());
    for micros in 1..=500 {
        a.record(Duration::from_micros(micros));
        b.record(Duration::from_micros(500 + micros));
    }
    a.merge(&b);
    let summary = a.summary();
    assert_eq!(summary.count, 1000);
    assert!((summary.p50 / 500.0 - 1.0).abs() < 0.01, "{summary:?}");
    assert!((summary.p99 / 990.0 - 1.0).abs() < 0.01, "{summary:?}");
    assert!((summary.max / 1000.0 - 1.0).abs() < 0.01, "{summary:?}");
}

#[test]
fn extremes_are_counted() {
    let mut latencies = Latencies::default();
    latencies.record(Duration::ZERO);
    latencies.record(Duration::from_secs(1 << 40));
    assert_eq!(latencies.summary().count, 2);
}

#[test]
fn processor_time_advances_with_work() {
    let before = processor_time();
    let mut sum = 0u64;
    while processor_time() == before {
        sum = std::hint::black_box(sum + 1);
    }
    assert!(processor_time() > before);
}
