//! Sums are found, divided and compared; what is missing is said.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &[&str]) -> Args {
    Line::parse_from(std::iter::once("count").chain(line.iter().copied())).args
}

#[test]
fn numbers_have_their_short_forms() {
    assert_eq!(number("20k"), Ok(20_000));
    assert_eq!((number("2M"), number("7")), (Ok(2_000_000), Ok(7)));
    assert!(["", "k", "0", "-1", "1.5k", "99999999999999999M"].iter().all(|t| number(t).is_err()));
    assert_eq!(args(&[]).num, 20_000);
}

#[test]
fn a_count_is_that_of_all_functions_for_one_operation() {
    let dump = "part: 2\nsummary: 990\n\nfn=(1) totals: 3\n16 5\ntotals: 1000\n";
    assert_eq!(total(dump), Some(1_000));
    assert_eq!((total("summary: 5\n"), total("totals: x\n")), (None, None));
    let report = serde_json::json!({"phases": [
        {},
        {"operations": 10, "device_bytes": {"written": 40}, "process_bytes": {"written": 50}},
    ]});
    let found = figures(&report, 1, 1_000).unwrap();
    assert_eq!((found.operations, found.instructions), (10, 100.0));
    assert_eq!((found.device_written, found.asked_written), (4.0, 5.0));
    assert_eq!(figures(&report, 0, 1_000), None);
    let other = Figures { instructions: 125.0, ..found };
    let all = [("cleavedb", vec![found]), ("fjall", vec![other])];
    let text = table(&args(&[]), "valgrind-1", &[Phase::ReadRandom], &all);
    assert!(text.contains("| readrandom | fjall | 10 | 125 | 1.250 | 4 | 5 |"), "{text}");
}

#[test]
fn without_valgrind_it_says_what_it_needs() {
    let why = count(&args(&["--valgrind", "/nonesuch/valgrind"])).unwrap_err();
    assert!(why.to_string().contains("counting needs valgrind"), "{why}");
    assert!(count(&args(&["--engines", "nonesuch"])).is_err());
    assert!(count(&args(&["--phases", "device"])).is_err());
}
