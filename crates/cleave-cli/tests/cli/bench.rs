//! `bench`: a tiny run of every phase.

use cleavedb_bench::phase::Phase;

use crate::support::{NONE, Place, cleave};

const TINY: [&str; 8] =
    ["--num", "2k", "--ops", "500", "--device-bytes", "4MiB", "--scan-length", "300"];

#[test]
fn every_phase_runs_and_reports() {
    let place = Place::new();
    let arguments = [TINY.as_slice(), &["--phases", "all", "--threads", "2", "--json"]].concat();
    let json = place.run("bench", arguments).json();
    let phases = json["phases"].as_array().unwrap();
    // The device's own phase reports apart from the others.
    assert_eq!(phases.len(), Phase::ALL.len() - 1);
    for phase in phases {
        assert!(phase["operations_per_second"].as_f64().unwrap() > 0.0, "{phase}");
        assert!(phase["latency_us"]["p99"].as_f64().unwrap() > 0.0, "{phase}");
    }
    let find = |name: &str| phases.iter().find(|phase| phase["phase"] == name).unwrap();
    assert_eq!(find("readrandom")["found"], 500);
    assert_eq!(find("readmissing")["found"], 0);
    assert_eq!(find("scan")["operations"], 2000);
    assert!(find("fillrandom")["write_amplification"].as_f64().unwrap() > 0.5);
    assert!(json["device"]["sequential_write_megabytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(place.store().exists());
    assert!(place.run("verify", NONE).ok().starts_with("sound"));
}

#[test]
fn batches_sync_and_a_time_limit() {
    let arguments = [
        "bench",
        "--phases",
        "fillrandom,overwrite",
        "--num",
        "500",
        "--batch",
        "50",
        "--sync",
        "--value-size",
        "1k",
        "--seconds",
        "5",
        "--memory-budget",
        "16MiB",
    ];
    let text = cleave(arguments).ok();
    assert!(text.contains("fillrandom") && text.contains("synced"), "{text}");
}

#[test]
fn wrong_settings_are_named() {
    cleave(["bench", "--phases", "nonesuch"]).fails(2, "nonesuch");
    cleave(["bench", "--engine", "nonesuch"]).fails(2, "nonesuch");
    cleave(["bench", "--threads", "0"]).fails(2, "threads");
    cleave(["bench", "--num", "x"]).fails(2, "num");
    cleave(["bench", "--seconds", "-1"]).fails(2, "seconds");
}
