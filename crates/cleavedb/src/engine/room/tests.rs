//! Delays are saved up until they are worth a sleep, and all of them are slept.

use super::*;

const MICROSECOND: Duration = Duration::from_micros(1);

#[test]
fn short_delays_are_saved_up_and_slept_together() {
    let gauge = PressureGauge::default();
    let mut slept = Vec::new();
    for write in 1..=1_250 {
        if let Some(due) = gauge.owe(MICROSECOND) {
            slept.push((write, due));
        }
    }
    let expected: Vec<_> = (1..=5).map(|n| (n * 250, SLEEP_MIN)).collect();
    assert_eq!(slept, expected);
}

#[test]
fn no_sleep_is_longer_than_the_longest_delay_and_the_rest_is_owed_on() {
    let gauge = PressureGauge::default();
    assert_eq!(gauge.owe(DELAY_MAX), Some(DELAY_MAX));
    assert_eq!(gauge.owe(MICROSECOND * 200), None);
    assert_eq!(gauge.owe(DELAY_MAX), Some(DELAY_MAX));
    assert_eq!(gauge.owe(MICROSECOND * 50), Some(SLEEP_MIN), "200 us were left");
    assert_eq!(gauge.owe(Duration::ZERO), None);
}

#[test]
fn what_was_slept_too_long_is_not_owed_again() {
    let gauge = PressureGauge::default();
    assert_eq!(gauge.owe(SLEEP_MIN), Some(SLEEP_MIN));
    gauge.overslept(MICROSECOND * 60);
    assert_eq!(gauge.owe(SLEEP_MIN), None);
    assert_eq!(gauge.owe(MICROSECOND * 60), Some(SLEEP_MIN));
    gauge.overslept(Duration::from_secs(3600));
    gauge.overslept(Duration::from_secs(3600));
    assert_eq!(gauge.owe(DELAY_MAX), None);
    assert_eq!(gauge.owe(SLEEP_MIN), Some(SLEEP_MIN), "an hour counts as the longest delay");
}

#[test]
fn what_many_writers_owe_is_slept_once() {
    let gauge = PressureGauge::default();
    let slept: Duration = std::thread::scope(|scope| {
        let write = || (0..10_000).filter_map(|_| gauge.owe(MICROSECOND * 3)).sum::<Duration>();
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let owed = MICROSECOND * 3 * 40_000;
    let rest = Duration::from_nanos(gauge.owed_nanos.load(Ordering::Relaxed) as u64);
    assert_eq!(slept + rest, owed);
    assert!(rest < SLEEP_MIN, "{rest:?}");
}
