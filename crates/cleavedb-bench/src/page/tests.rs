//! A page holds every engine and phase, escapes what it is given, and keeps plans apart.

use super::*;

fn run(engine: &str, threads: u64, speed: f64) -> String {
    serde_json::json!({
        "engine": format!("{engine} <1>"),
        "engine_settings": "cache & \"more\"",
        "plan": {
            "engine": engine, "num": 10, "value_bytes": 100, "mixed_values": false,
            "threads": threads, "batch": 1, "zipf_exponent": 0.99, "seed": 1,
            "settings": {"sync": false, "direct": engine == "rocksdb"},
        },
        "phases": [{
            "phase": "fillrandom", "operations_per_second": speed,
            "cpu_us_per_operation": 3.5, "device_write_amplification": 2.0,
            "disk_bytes": 4096.0,
            "latency_us": {"p50": 1.0, "p99": 5.0, "p999": 9.0, "p9999": 20.0, "max": 300.0},
            "timeline": [[0.1, 10], [0.2, 20]],
            "disk_timeline": [[0.0, 0], [0.4, 4096]],
            "device_bytes": {"read": 0, "written": 2048},
            "waits": {
                "above_ms": 20, "count": 1, "stalls": {},
                "longest": [{"at_seconds": 0.1, "milliseconds": 33.0, "reasons": ["full <up>"]}],
            },
        }],
    })
    .to_string()
}

#[test]
fn engines_phases_and_plots_stand_on_the_page() {
    let lines = [run("cleavedb", 2, 10.0), run("rocksdb", 2, 30.0), run("cleavedb", 2, 30.0)];
    let page = page(&lines.join("\n")).unwrap();
    assert!(page.contains("<td>cleavedb<td>2<td class=text>cleavedb &lt;1&gt;: cache &amp;"));
    assert!(page.contains("rocksdb, direct"));
    // The median of two runs.
    assert!(page.contains("<tr><td>cleavedb<td>20.0<td>3.50<td>1.00"), "{page}");
    assert_eq!(page.matches("<svg").count(), 6);
    assert_eq!(page.matches("<h2>").count(), 1);
}

#[test]
fn disturbed_runs_are_left_out() {
    let disturbed = |speed: f64, counts: bool| {
        let mut line: Value = serde_json::from_str(&run("cleavedb", 2, speed)).unwrap();
        line["round"] = serde_json::json!({"counts": counts});
        line.to_string()
    };
    let both = [disturbed(10.0, true), disturbed(30.0, false)].join("\n");
    assert!(page(&both).unwrap().contains("<tr><td>cleavedb<td>10.0<td>"));
    assert!(page(&disturbed(30.0, false)).unwrap().contains("<tr><td>cleavedb<td>30.0<td>"));
}

#[test]
fn plans_are_kept_apart() {
    let page = page(&[run("cleavedb", 1, 10.0), run("cleavedb", 2, 30.0)].join("\n")).unwrap();
    assert_eq!(page.matches("<h2>").count(), 2);
}

#[test]
fn figures_that_are_nothing_make_no_plot() {
    let page = page(&run("cleavedb", 1, 0.0)).unwrap();
    assert_eq!(page.matches("<svg").count(), 5);
}

#[test]
fn what_is_no_run_is_refused() {
    assert!(page("").is_err());
    assert!(page("{\"a\":1}").is_err());
    assert!(page("nonsense").is_err());
}

#[test]
fn overview_limits_and_waits_stand_on_the_page() {
    let line = |engine: &str, speed: f64| {
        let mut line: Value = serde_json::from_str(&run(engine, 2, speed)).unwrap();
        line["round"] = serde_json::json!({
            "comparison": "some", "engine": "cleavedb", "against": "rocksdb", "number": 1,
            "counts": true, "memory_bytes": 1,
        });
        line.to_string()
    };
    let limits = r#"{"limits": {"comparison": "some", "writes": {"pairs_per_second": 777.0}}}"#;
    let lines = [limits, &line("cleavedb", 10.0), &line("rocksdb", 30.0)].join("\n");
    let page = page(&lines).unwrap();
    assert!(page.contains("<th>rocksdb\n<tr><td>some: fillrandom<td>0.33 / 1.00"), "{page}");
    assert!(page.contains("load's bytes 777/s"));
    assert!(page.contains("the longest 33 ms after 0.1 s (full &lt;up&gt;)"));
    assert!(page.contains("<td>2.0 KiB"));
    let text = overview(&lines).unwrap();
    assert!(text.contains("| some: fillrandom | 0.33 / 1.00 |"), "{text}");
}
