//! Which delays belong to which wait, and which waits are listed.

use super::*;

fn stalls(figures: &[(&str, u64, u64)]) -> Stalls {
    let one =
        |&(name, count, micros): &(&str, u64, u64)| (name.to_owned(), Stall { count, micros });
    figures.iter().map(one).collect()
}

fn wait(at_seconds: f64, milliseconds: f64) -> Wait {
    Wait { at_seconds, milliseconds, reasons: Vec::new() }
}

#[test]
fn stalls_are_read_from_statistics_and_subtracted() {
    let detail = serde_json::json!({
        "stalls": {"full": {"count": 3, "micros": 90}, "slow": {"count": 1, "micros": 5}},
    });
    let now = stalls_of(&detail);
    assert_eq!(now, stalls(&[("full", 3, 90), ("slow", 1, 5)]));
    assert_eq!(
        grown(&stalls(&[("full", 1, 30), ("slow", 1, 5)]), &now),
        stalls(&[("full", 2, 60)])
    );
    assert_eq!(grown(&now, &now), stalls(&[]));
    assert_eq!(stalls_of(&Value::Null), stalls(&[]));
}

#[test]
fn a_wait_has_the_reasons_that_grew_around_it() {
    let grown = [
        Grown { from_seconds: 0.0, to_seconds: 0.5, reasons: stalls(&[("early", 1, 900_000)]) },
        Grown {
            from_seconds: 1.0,
            to_seconds: 1.5,
            reasons: stalls(&[("slow", 9, 1_000), ("full", 1, 80_000)]),
        },
    ];
    assert_eq!(explained(wait(1.2, 100.0), &grown).reasons, ["full", "slow"]);
    // It began before the first look and ended after it.
    assert_eq!(explained(wait(0.6, 200.0), &grown).reasons, ["early"]);
    assert!(explained(wait(0.9, 100.0), &grown).reasons.is_empty());
    assert!(explained(wait(1.2, 100.0), &[]).reasons.is_empty());
}

#[test]
fn only_the_longest_of_all_threads_are_listed() {
    let (mut one, mut other) = (Long::default(), Long::default());
    for milliseconds in 0..60 {
        let thread = if milliseconds % 2 == 0 { &mut one } else { &mut other };
        thread.record(1.0, Duration::from_millis(milliseconds));
    }
    one.merge(other);
    assert_eq!((one.count, one.longest.len()), (40, WAITS_LISTED_MAX));
    let longest: Vec<_> = one.longest.iter().map(|wait| wait.milliseconds.round() as u64).collect();
    assert_eq!(longest, (40..60).rev().collect::<Vec<_>>());
}
