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
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<h2>").count(), 1);
}

#[test]
fn plans_are_kept_apart() {
    let page = page(&[run("cleavedb", 1, 10.0), run("cleavedb", 2, 30.0)].join("\n")).unwrap();
    assert_eq!(page.matches("<h2>").count(), 2);
}

#[test]
fn figures_that_are_nothing_make_no_plot() {
    let page = page(&run("cleavedb", 1, 0.0)).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
}

#[test]
fn what_is_no_run_is_refused() {
    assert!(page("").is_err());
    assert!(page("{\"a\":1}").is_err());
    assert!(page("nonsense").is_err());
}
