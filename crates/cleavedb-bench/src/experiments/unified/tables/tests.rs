//! Figures of the tables are those of the reports.

use serde_json::json;

use super::*;
use crate::experiments::{Scale, find};

const MIB: u64 = 1 << 20;

fn result(part: &str, reports: Vec<Value>) -> PartResult {
    let experiment = find("unified", Scale::new(1.0).unwrap()).unwrap();
    let part = experiment.parts.into_iter().find(|other| other.name == part).unwrap();
    let by_engine = vec![
        ("cleavedb".to_owned(), Came::Reports(reports)),
        ("other".to_owned(), Came::NotRun("it cannot".to_owned())),
    ];
    PartResult { part, by_engine }
}

#[test]
fn space_is_held_against_the_bound_and_the_garbage_always_allowed() {
    let part = "overwrite, uniform, space at most 1.25";
    let data = result(part, Vec::new()).part.data_bytes();
    let sample = |values: f64, live: f64| {
        json!({"operations": 1, "seconds": 1.0, "folder_bytes": 2 * data, "disk_bytes": data,
            "value_file_bytes": values * data as f64, "value_live_bytes": live * data as f64})
    };
    // 128 MiB are 0.027 of 5 GB.
    let samples = [sample(1.0, 1.0), sample(1.2, 0.8), sample(1.26, 1.2), sample(1.5, 1.0)];
    let overwrite = json!({"samples": samples, "value_file_bytes": data,
        "latency_us": {"p999": 7.0, "p9999": 9.0}, "write_amplification": 3.0,
        "device_write_amplification": 4.0, "collection": {"bytes_moved": MIB, "bytes_written": 0}});
    let reports = vec![json!({"labels": ["overwrite"], "phases": [overwrite]})];
    let text = markdown(&[result(part, reports)]);
    let row = "| cleavedb | 4 | 1.50 | 1.24 | 1.50 | 1.00 | 1.50 | 1.50 | 50.0 % | 25.0 % \
               | 50.0 % | 2.00 | 2.00 | 2.00 | 7.00 | 9.00 | 1.0 MiB | 0 B | 3.00 | 4.00 |";
    assert!(text.contains(row), "{text}");
    assert!(!text.contains("other") && text.matches("## ").count() == 1, "{text}");
}

#[test]
fn disk_after_deletes_is_told_by_what_was_there_before() {
    let sample = |seconds: f64, folder: u64| {
        json!({"seconds": seconds, "folder_bytes": folder * MIB,
            "disk_bytes": (folder - 20) * MIB, "value_file_bytes": 0})
    };
    let delete = json!({"samples": [sample(0.0, 1_000), sample(1.0, 1_100)],
        "engine_bytes_written": MIB, "collection": {"bytes_moved": MIB}});
    let rest = |cut_short: bool| {
        json!({"samples": [sample(0.0, 1_100), sample(2.5, 40), sample(3.5, 30), sample(9.0, 30)],
            "seconds": 9.0, "cut_short": cut_short, "engine_bytes_written": MIB,
            "collection": {"bytes_moved": 0}})
    };
    let text = |cut_short| {
        let phases = [delete.clone(), rest(cut_short)];
        let reports = vec![json!({"labels": ["delete", "left to itself"], "phases": phases})];
        markdown(&[result("delete one range", reports)])
    };
    let row = "| 1000.0 MiB | 1.1 GiB | 30.0 MiB | 3.0 % | 2.50 | 980.0 MiB | 10.0 MiB | 1.0 % \
               | 2.50 | 0 B | 3.50 | yes | 1.0 MiB | 2.0 MiB |";
    assert!(text(false).contains(row), "{}", text(false));
    assert!(text(true).contains("| no, time was up |"), "{}", text(true));
}

#[test]
fn scans_are_told_by_their_first_and_with_what_compaction_wrote() {
    let (mut labels, mut phases) = (vec!["updates".to_owned()], vec![json!({})]);
    for time in (0..=TIMES).map(Some).chain([None]) {
        labels.push(scan_label(50, time));
        phases.push(json!({"megabytes_per_second": 10.0 + time.unwrap_or(30) as f64}));
    }
    labels.push(COMPACT.to_owned());
    phases.push(json!({"seconds": 2.0, "engine_bytes_written": 3 * MIB}));
    let text = markdown(&[result(
        "scans over updates",
        vec![json!({"labels": labels, "phases": phases})],
    )]);
    let row = "| 50 | 10.00 | 11.00 | 12.00 | 13.00 | 14.00 | 15.00 | 16.00 | 1.60 | 40.00 | 4.00 \
               | 0 B | 2.00 | 3.0 MiB | 0.00 |";
    assert!(text.contains(row), "{text}");
}

#[test]
fn an_opening_tells_memory_before_and_after() {
    let locator = |bytes: u64| json!({"values": {"locator": {"bytes": bytes, "keys": bytes / 9}}});
    let reports = vec![
        json!({"labels": [], "phases": [], "open_seconds": null}),
        json!({"labels": ["readrandom"], "open_seconds": 0.25, "first_get_seconds": 0.5,
            "recovered": {"resident_bytes": [MIB, 3 * MIB], "memory_bytes": 2 * MIB,
                "opened": locator(0)},
            "resident_memory_bytes": 5 * MIB, "engine_stats": locator(9 * MIB),
            "phases": [{"disk_bytes": 7 * MIB, "memory_bytes": 4 * MIB, "operations": 100,
                "found": 99, "operations_per_second": 1_000.0, "latency_us": {"p99": 12.5}}]}),
    ];
    let text = markdown(&[result("open after a kill, 1000000 keys, files cached", reports)]);
    let row = "| 1000000 | 7.0 MiB | 0.250 | 0.500 | 1.0 MiB | 3.0 MiB | 5.0 MiB | 2.0 MiB \
               | 4.0 MiB | - | 9.0 MiB | 1048576 | 100 | 99 | 1000 | 12.50 |";
    assert!(text.contains(row), "{text}");
}
