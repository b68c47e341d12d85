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

#[test]
fn a_timeline_stays_short_and_even() {
    let mut timeline = Timeline::default();
    for second in 0..100_000u32 {
        timeline.look(f64::from(second), u64::from(second) * 2);
    }
    let looks = timeline.into_looks();
    assert!((LOOKS_MAX / 2 - 1..LOOKS_MAX).contains(&looks.len()), "{}", looks.len());
    let steps: Vec<_> = looks.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(steps.iter().all(|step| *step == steps[0]), "uneven");
    assert!(looks.last().unwrap().0 > 99_000.0);
}

#[test]
fn the_kernels_line_of_a_device_is_understood() {
    let before = DeviceRequests::parse("  10 2 80 5 20 3 160 9 0 1 2 0 0 0 0 4 5\n").unwrap();
    let known = DeviceRequests {
        reads: 10,
        reads_merged: 2,
        read_bytes: 80 * 512,
        writes: 20,
        written_bytes: 160 * 512,
    };
    assert_eq!(before, known);
    let after = DeviceRequests::parse("13 2 104 5 20 3 160 9 0 1 2").unwrap();
    let grown = after.since(before);
    assert_eq!((grown.reads, grown.read_bytes, grown.writes), (3, 24 * 512, 0));
    assert!(DeviceRequests::parse("1 2 3").is_none() && DeviceRequests::parse("").is_none());
    assert!(DeviceRequests::of(Path::new("/nonexistent")).is_none());
}
