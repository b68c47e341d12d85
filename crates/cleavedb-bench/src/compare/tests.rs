//! Plans, contenders, and the table.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &[&str]) -> Args {
    Line::parse_from(std::iter::once("compare").chain(line.iter().copied())).args
}

#[test]
fn plans_travel_to_the_other_process() {
    let plan = plan(&args(&["--cheap", "--value-size", "77", "--sync"])).unwrap();
    assert_eq!((plan.num, plan.value_bytes, plan.settings.sync), (CHEAP_NUM, 77, true));
    let there = serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(format!("{there:?}"), format!("{plan:?}"));
    assert!(super::plan(&args(&["--phases", "nonesuch"])).is_err());
    assert!(super::plan(&args(&["--zipf", "0"])).is_err());
}

#[test]
fn every_form_of_an_engine_takes_part() {
    let (there, missing) = contenders(&args(&["--against", "cleavedb,fjall"])).unwrap();
    let names: Vec<_> = there.iter().map(|contender| contender.name()).collect();
    assert_eq!(names, ["cleavedb, buffered", "cleavedb, direct", "fjall, buffered"]);
    assert!(missing.is_empty());
    assert!(contenders(&args(&["--against", "nonesuch"])).is_err());
}

#[test]
fn the_table_has_ratios_of_pairs() {
    let report = |speed: f64| {
        serde_json::json!({
            "engine": "x 1", "engine_settings": "plain", "peak_memory_bytes": 1024,
            "phases": [{
                "phase": "readrandom", "operations_per_second": speed,
                "cpu_us_per_operation": 5.0, "device_write_amplification": 0.0,
            }],
        })
    };
    let kept = (0..5).map(|n| (report(200.0 + f64::from(n)), report(100.0))).collect();
    let pairs = Pairs { kept, thrown_away: 3, others: 0.1 };
    let text = table::ratios("one", "other", &pairs);
    assert!(text.contains("2.02 (2.00 to 2.04), at least 2.02"), "{text}");
    assert!(text.contains("3 thrown away") && text.contains("x 1: plain"), "{text}");
    let none = Pairs { kept: Vec::new(), thrown_away: 20, others: 0.0 };
    assert!(table::ratios("one", "other", &none).contains("No pair counts"));
}
