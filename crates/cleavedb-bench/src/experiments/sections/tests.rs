//! Ratios, space and waits are those of the reports.

use serde_json::json;

use super::*;
use crate::experiments::{Scale, find};

fn result(phases: &[Value]) -> PartResult {
    let experiment = find("values", Scale::new(1e-12).unwrap()).unwrap();
    let part = experiment.parts.iter().find(|part| part.name.starts_with("cold")).unwrap();
    let labels: Vec<_> = phases.iter().map(|phase| phase["phase"].clone()).collect();
    let (first, second) = phases.split_at(phases.len() / 2);
    let (first_labels, second_labels) = labels.split_at(phases.len() / 2);
    let reports = vec![
        json!({"labels": first_labels, "phases": first}),
        json!({"labels": second_labels, "phases": second}),
    ];
    let by_engine = vec![("cleavedb".to_owned(), Came::Reports(reports))];
    PartResult { part: part.clone(), by_engine }
}

#[test]
fn a_phase_stands_beside_the_last_bare_one_of_its_kind() {
    let rate = |phase: &str, rate: f64| {
        json!({"phase": phase, "operations_per_second": rate, "operations": 10,
            "device_requests": {"reads": 25, "reads_merged": 5, "read_bytes": 40_960}})
    };
    let phases = [
        rate("barewrites", 400.0),
        rate("fillrandom", 100.0),
        rate("barereads", 999.0),
        // The store is opened anew here.
        rate("barereads", 50.0),
        rate("readonce", 40.0),
        rate("overwrite", 200.0),
    ];
    let text = markdown(&[result(&phases)]);
    let ratio = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        (cells[2].to_owned(), cells[6].to_owned(), cells[8].to_owned(), cells[9].to_owned())
    };
    let rows = text.lines().filter(|line| line.starts_with("| cold"));
    let ratios: Vec<_> = rows.take(6).map(ratio).collect();
    let expected = [
        ("barewrites", "-", "-"),
        ("fillrandom", "barewrites", "0.250"),
        ("barereads", "-", "-"),
        ("barereads", "-", "-"),
        ("readonce", "barereads", "0.800"),
        ("overwrite", "barewrites", "0.500"),
    ]
    .map(|(step, bare, ratio)| (step.into(), bare.into(), ratio.into(), "2.500".into()));
    assert_eq!(ratios, expected, "{text}");
}

#[test]
fn space_is_told_by_the_loads_bytes_and_by_live_records() {
    let data = find("values", Scale::new(1e-12).unwrap()).unwrap();
    let data = data.parts.iter().find(|part| part.name.starts_with("cold")).unwrap().data_bytes();
    let written = json!({"phase": "overwrite", "write_amplification": 2.5,
        "device_write_amplification": 3.0, "disk_bytes_max": data * 2, "disk_bytes": data,
        "value_file_bytes_max": data * 3, "value_file_bytes": data, "value_live_bytes": data / 2,
        "latency_us": {"p999": 1.0, "p9999": 2.0, "max": 33_000.0},
        "waits": {"above_ms": 20, "count": 1, "stalls": {},
            "longest": [{"at_seconds": 0.1, "milliseconds": 33.0, "reasons": ["garbage"]}]}});
    let text = markdown(&[result(&[written])]);
    let shown = "| 2.500 | 3.000 | 2.000 | 1.000 | 3.000 | 1.000 | 2.000 |";
    assert!(text.contains(shown), "{text}");
    assert!(text.contains("| 1.000 | 2.000 | 33.000 | 1 calls above 20 ms, the longest 33 ms"));
    assert!(text.contains("(garbage)"));
    assert_eq!(markdown(&[]), "");
}

#[test]
fn cleaning_is_told_of_phases_that_write_where_the_engine_tells() {
    let collection = json!({"index_reads": 7, "index_writes": 3, "bytes_moved": 2048, "files": 5});
    let text = markdown(&[result(&[
        json!({"phase": "overwrite", "index_bytes": 4096, "collection": collection}),
        json!({"phase": "readrandom", "index_bytes": 8192, "collection": collection}),
        json!({"phase": "fillrandom", "index_bytes": null, "collection": null}),
    ])]);
    assert!(text.contains("| overwrite | cleavedb | 4.0 KiB | 7 | 3 | 2.0 KiB | 5 |"), "{text}");
    assert!(!text.contains("8.0 KiB") && !text.contains("| fillrandom | cleavedb | 0 B"), "{text}");
}

#[test]
fn recovery_tells_what_was_left_and_flushed() {
    let reports = [
        json!({"phases": [{"disk_bytes": 1_024}], "engine_stats": {"bytes_written": {"flush": 0}}}),
        json!({"open_seconds": 0.5, "first_get_seconds": 0.75}),
    ];
    assert_eq!(
        recovery(&reports, &reports[1]).unwrap(),
        "opened after a crash in 0.500 s, first right get after 0.750 s; 1.0 KiB of files were \
         left, 0 B of them flushed"
    );
    assert!(recovery(&reports, &reports[0]).is_none());
}
