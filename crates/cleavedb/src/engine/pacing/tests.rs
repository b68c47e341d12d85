//! Delays as a pure function of the backlog.

use super::*;

fn widths() -> Widths {
    Widths::for_budget(256 << 20)
}

#[test]
fn a_small_backlog_costs_nothing() {
    let pressure =
        Pressure { frozen: 1, level0_runs: 16, pending_bytes: 1 << 20, ..Pressure::default() };
    assert_eq!(pace(pressure, 1024, &widths()), Pace::Free);
}

#[test]
fn delays_grow_with_the_backlog_and_the_write_until_the_stop() {
    let widths = widths();
    let mut last = Duration::ZERO;
    for runs in 33..48 {
        let pressure = Pressure { level0_runs: runs, ..Pressure::default() };
        let Pace::Delay(delay, Reason::Level0) = pace(pressure, 64 << 10, &widths) else {
            panic!("no delay at {runs} runs");
        };
        assert!(delay > last && delay <= DELAY_MAX);
        let Pace::Delay(smaller, _) = pace(pressure, 1 << 10, &widths) else { panic!() };
        assert!(smaller < delay);
        last = delay;
    }
    let pressure = Pressure { level0_runs: 48, ..Pressure::default() };
    assert_eq!(pace(pressure, 1, &widths), Pace::Stop(Reason::Level0));
}

#[test]
fn garbage_slows_writers_down_and_never_stops_them() {
    let widths = widths();
    let of = |value_garbage| {
        let pressure = Pressure { value_garbage, ..Pressure::default() };
        pace(pressure, 64 << 10, &widths)
    };
    assert_eq!((of(0), of(100)), (Pace::Free, Pace::Free));
    let delay = |value_garbage| match of(value_garbage) {
        Pace::Delay(delay, Reason::ValueGarbage) => delay,
        other => panic!("{other:?}"),
    };
    assert!(delay(101) < delay(105) && delay(105) < delay(109));
    assert!(delay(110) == DELAY_MAX && delay(10_000) == DELAY_MAX);
}

#[test]
fn debt_and_memtables_stop_writers_too() {
    let widths = widths();
    let debt = Pressure { pending_bytes: widths.level_base_bytes_min * 128, ..Pressure::default() };
    assert_eq!(pace(debt, 1, &widths), Pace::Stop(Reason::Compaction));
    let frozen = Pressure { frozen: widths.frozen_memtables_max + 1, ..Pressure::default() };
    assert_eq!(pace(frozen, 1, &widths), Pace::Stop(Reason::Memtables));
}
