//! The table's figures are those of the reports, each engine's by itself and by the other's.

use serde_json::json;

use super::*;
use crate::experiments::{Scale, find};

fn step(operations: u64, seconds: f64, settle: f64, index: [u64; 2]) -> Value {
    json!({"operations": operations, "seconds": seconds, "settle_seconds": settle,
        "device_write_amplification": 1.5, "index_bytes": 4096,
        "collection": {"index_reads": index[0], "index_writes": index[1]}})
}

fn came(steps: &[(&str, Value)]) -> Came {
    let labels: Vec<_> = steps.iter().map(|(label, _)| label).collect();
    let phases: Vec<_> = steps.iter().map(|(_, figures)| figures).collect();
    Came::Reports(vec![json!({"labels": labels, "phases": phases})])
}

fn results(of_wisckey: Vec<Came>, of_novkv: Vec<Came>) -> Vec<PartResult> {
    let experiment = find("novkv", Scale::new(1e-12).unwrap()).unwrap();
    let parts = [CLEANING, UPDATED, NOT_CLEANED].map(|what| {
        experiment.parts.iter().find(|part| part.name == name(1024, what)).unwrap().clone()
    });
    let both = of_wisckey.into_iter().zip(of_novkv);
    let result = |(part, (left, right))| {
        let by_engine = vec![(WISCKEY.to_owned(), left), (NOVKV.to_owned(), right)];
        PartResult { part, by_engine }
    };
    parts.into_iter().zip(both).map(result).collect()
}

/// One engine's runs: puts a second, reads of the four passes, updates with and without cleaning.
fn runs(puts: u64, passes: [u64; 4], updates: [u64; 2], index: [u64; 2]) -> Vec<Came> {
    let of = |operations| step(operations, 1.0, 1.0, index);
    let [before_1, before_2, after_1, after_2] = passes;
    vec![
        came(&[
            ("fillreplace", of(puts)),
            ("read, pass 1", of(after_1)),
            ("read, pass 2", of(after_2)),
        ]),
        came(&[
            ("fillrandom", of(1)),
            ("never rewritten, pass 1", of(before_1)),
            ("never rewritten, pass 2", of(before_2)),
            ("updates", of(updates[0])),
            ("after cleaning, pass 1", of(after_1)),
            ("after cleaning, pass 2", of(after_2)),
        ]),
        came(&[("fillrandom", of(1)), ("updates", of(updates[1]))]),
    ]
}

#[test]
fn each_figure_stands_by_engine_and_as_a_ratio_beside_the_paper() {
    let wisckey = runs(1000, [400, 500, 200, 500], [200, 400], [70, 30]);
    let novkv = runs(1980, [400, 500, 300, 250], [500, 600], [0, 0]);
    let text = markdown(&results(wisckey, novkv));
    let row = |what: &str| {
        let begin = format!("| 1024 B | {what} | ");
        let line = text.lines().find_map(|line| line.strip_prefix(begin.as_str()));
        line.unwrap_or_else(|| panic!("{what}: {text}")).to_owned()
    };
    assert_eq!(row("puts a second"), "1000 | 1980 | 1.98 | up to 1.98 |");
    assert_eq!(row("puts a second, settling included"), "500 | 990 | 1.98 |  |");
    assert_eq!(row("reads a second, pass 2"), "500 | 250 | 0.50 | up to 1.85 |");
    let pass = "reads after updates, pass 2 by the same when never rewritten";
    assert!(row(pass).starts_with("1.00 | 0.50 | 0.50 | 1: "), "{text}");
    let slower = "by how much cleaning slows updates down";
    assert!(row(slower).starts_with("1.00 | 0.20 | 0.20 | WiscKey up to 1.3"), "{text}");
    assert_eq!(row("gc_index_reads"), "70.00 | 0.00 | 0.00 | NovKV 0 |");
    assert_eq!(row("gc_index_writes"), "30.00 | 0.00 | 0.00 | NovKV 0 |");
    assert_eq!(row("index bytes after updates"), "4096 | 4096 | 1.00 |  |");
    assert_eq!(text.matches("| 1024 B |").count(), FIGURES.len());
    assert_eq!(text.matches("| 128 B |").count(), 0, "what was not run has no row");
}

#[test]
fn what_was_not_run_is_a_dash_or_nothing() {
    assert_eq!(markdown(&[]), "");
    let refused = || Came::NotRun("no reason".to_owned());
    let none = vec![refused(), refused(), refused()];
    let text = markdown(&results(none, runs(10, [1; 4], [2, 3], [0, 0])));
    assert!(text.contains("| 1024 B | puts a second | - | 10.00 | - | up to 1.98 |"), "{text}");
    let none = || vec![refused(), refused(), refused()];
    assert_eq!(markdown(&results(none(), none())), "");
}

#[test]
fn a_third_strategy_has_a_ratio_of_its_own() {
    let mut results = results(runs(10, [1; 4], [2, 3], [0, 0]), runs(20, [1; 4], [2, 3], [0, 0]));
    for (result, came) in results.iter_mut().zip(runs(15, [1; 4], [2, 3], [0, 0])) {
        result.by_engine.push((UNIFIED.to_owned(), came));
    }
    let text = markdown(&results);
    let row = "| 1024 B | puts a second | 10.00 | 20.00 | 15.00 | 1.50 | 2.00 | up to 1.98 |";
    assert!(text.contains(row), "{text}");
    let heading =
        "| cleavedb by cleavedb-wisckey | cleavedb-novkv by cleavedb-wisckey | the paper,";
    assert!(text.contains(heading), "{text}");
    let table = text.lines().filter(|line| line.starts_with('|'));
    assert!(table.clone().all(|line| line.matches('|').count() == 9), "{text}");
}
