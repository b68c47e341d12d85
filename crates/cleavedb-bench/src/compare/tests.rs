//! Plans, contenders, and the table.

use clap::Parser;

use super::*;
use crate::pairs::Rounds;

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
fn every_form_of_every_engine_is_in_a_round_once() {
    let known = |name: &str| engines::all().find(|known| known.name == name).unwrap();
    let names = |others: &[&str]| {
        let others: Vec<_> = others.iter().map(|name| known(name)).collect();
        let round = contenders(known("cleavedb"), &others);
        round.into_iter().map(Contender::name).collect::<Vec<_>>()
    };
    let both = ["cleavedb, buffered", "rocksdb, buffered", "cleavedb, direct", "rocksdb, direct"];
    assert_eq!(names(&["rocksdb"]), both);
    assert_eq!(names(&["fjall"]), ["cleavedb, buffered", "fjall, buffered", "cleavedb, direct"]);
    let three = names(&["rocksdb", "fjall"]);
    assert_eq!((three.len(), three[0].as_str()), (5, "cleavedb, buffered"));
    assert_eq!(three[3], "cleavedb, direct");
}

#[test]
fn peers_are_found_and_runs_counted() {
    let (there, missing) = peers(&args(&["--against", "fjall,redb"])).unwrap();
    assert_eq!(there.iter().map(|known| known.name).collect::<Vec<_>>(), ["fjall", "redb"]);
    assert!(missing.is_empty());
    assert!(peers(&args(&["--against", "nonesuch"])).is_err());
    assert_eq!(runs_ahead(&args(&["--against", "fjall,redb"])).unwrap(), 4 * 5);
    assert_eq!(runs_ahead(&args(&["--against", "fjall", "--cheap"])).unwrap(), 3);
    assert!(runs_ahead(&args(&["--engine", "nonesuch"])).is_err());
}

fn report(speed: f64) -> serde_json::Value {
    serde_json::json!({
        "engine": "x 1", "engine_settings": "plain", "peak_memory_bytes": 1024,
        "plan": {"engine": "x", "threads": 1},
        "round": {"comparison": "", "engine": "x", "against": "y", "number": 1, "counts": true},
        "phases": [{
            "phase": "readrandom", "operations_per_second": speed,
            "cpu_us_per_operation": 5.0, "device_write_amplification": 0.0,
            "device_bytes": {"read": 4096, "written": 0},
            "waits": {
                "above_ms": 20, "count": 1, "stalls": {},
                "longest": [{"at_seconds": 1.0, "milliseconds": 25.0, "reasons": []}],
            },
        }],
    })
}

#[test]
fn the_table_has_ratios_of_pairs() {
    let round = |n| vec![Some(report(200.0 + f64::from(n))), Some(report(100.0))];
    let mut kept: Vec<_> = (0..5).map(round).collect();
    // Half a pair is none.
    kept.push(vec![Some(report(9_999.0)), None]);
    let rounds = Rounds { kept, thrown_away: vec![1, 2, 4], others: 0.1 };
    let text = table::ratios((0, "one"), (1, "other"), &rounds);
    assert!(text.contains("2.02 (2.00 to 2.04), at least 2.02"), "{text}");
    assert!(
        text.contains("- 5 pairs count, 1 and 2 runs thrown away") && text.contains("x 1: plain"),
        "{text}"
    );
    assert!(text.contains("| 4.0 KiB, 0 B | 4.0 KiB, 0 B |"), "{text}");
    assert!(text.contains("Waits of one in the 5 runs that count"), "{text}");
    assert!(text.contains("5 calls above 20 ms, the longest 25 ms after 1.0 s (no reason told)"));
    let none = Rounds { kept: Vec::new(), thrown_away: vec![20, 0], others: 0.0 };
    let text = table::ratios((0, "one"), (1, "other"), &none);
    assert!(text.contains("No pair counts: 20 and 0 runs were disturbed"), "{text}");
}

#[test]
fn the_overview_says_whether_peers_were_judged() {
    let (mut ours, mut theirs) = (report(200.0), report(100.0));
    theirs["plan"]["engine"] = "y".into();
    let text = table::overview(&overview::rows(&[&ours, &theirs]));
    assert!(text.contains("not held against their known speed: 1 threads"), "{text}");
    assert!(text.contains("| phase | y |\n|---|---|\n| readrandom | 2.00 / 1.00 |"), "{text}");
    assert!(text.contains("| y | readrandom | buffered | buffered | 200.0 | 100.0 |"), "{text}");
    assert!(!text.contains("INVALID"));
    // The shape of the known figures, and a peer that is slow in it.
    for run in [&mut ours, &mut theirs] {
        run["plan"] = serde_json::json!({
            "engine": run["plan"]["engine"], "threads": 2, "num": 5_000_000, "value_bytes": 1_024,
        });
        run["round"]["memory_bytes"] = (2u64 << 30).into();
        run["round"]["against"] = "rocksdb".into();
    }
    theirs["plan"]["engine"] = "rocksdb".into();
    theirs["phases"][0]["cpu_us_per_operation"] = 50.0.into();
    let text = table::overview(&overview::rows(&[&ours, &theirs]));
    assert!(text.contains("**INVALID**: rocksdb, readrandom: MISSED: 50.0 us"), "{text}");
    assert!(table::overview(&[]).contains("No pair counts"));
}
