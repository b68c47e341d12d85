//! The better forms, their ratios, the order, and what makes a comparison invalid.

use super::*;

fn run(engine: &str, direct: bool, number: u64, phases: &[(&str, f64, f64)]) -> Value {
    let phases: Vec<_> = phases
        .iter()
        .map(|(phase, rate, cpu)| serde_json::json!({"phase": phase, RATE: rate, CPU: cpu}))
        .collect();
    serde_json::json!({
        "plan": {
            "engine": engine, "num": 5_000_000, "threads": 2, "value_bytes": 1_024, "batch": 1,
            "settings": {"direct": direct},
        },
        "round": {
            "comparison": "", "engine": "cleavedb", "number": number, "attempt": 1,
            "counts": true, "memory_bytes": 2u64 << 30,
        },
        "phases": phases,
    })
}

fn rounds() -> Vec<Value> {
    let mut lines = Vec::new();
    for number in 1..=5 {
        let more = number as f64;
        // Our better form loads buffered and reads directly, theirs the other way round.
        let ours = [("fillrandom", 300.0 + more, 6.0), ("readrandom", 50.0, 60.0)];
        lines.push(run("cleavedb", false, number, &ours));
        lines.push(run(
            "cleavedb",
            true,
            number,
            &[("fillrandom", 200.0, 7.0), ("readrandom", 100.0, 20.0)],
        ));
        lines.push(run(
            "rocksdb",
            false,
            number,
            &[("fillrandom", 90.0, 12.0), ("readrandom", 200.0, 50.0)],
        ));
        lines.push(run(
            "rocksdb",
            true,
            number,
            &[("fillrandom", 100.0, 10.0), ("readrandom", 40.0, 90.0)],
        ));
    }
    lines
}

fn rows_of(lines: &[Value]) -> Vec<Row> {
    rows(&lines.iter().collect::<Vec<_>>())
}

#[test]
fn the_better_form_of_each_side_counts() {
    let rows = rows_of(&rounds());
    let [read, load] = rows.as_slice() else { panic!("{rows:?}") };
    // Worst first.
    assert_eq!((read.phase, load.phase), (Phase::ReadRandom, Phase::FillRandom));
    assert_eq!((load.ours.form(), load.theirs.form()), ("buffered", "direct"));
    assert_eq!((read.ours.form(), read.theirs.form()), ("direct", "buffered"));
    let rate = load.rate.unwrap();
    assert!((rate.median - 3.03).abs() < 1e-9 && (rate.lowest - 3.01).abs() < 1e-9);
    // Processor time of the forms that count, not of the cheaper ones.
    assert!((load.cpu.unwrap().median - 0.6).abs() < 1e-9);
    assert!((read.cpu.unwrap().median - 0.4).abs() < 1e-9);
}

#[test]
fn a_peer_below_its_floor_makes_the_comparison_invalid() {
    let rows = rows_of(&rounds());
    let invalid: Vec<_> = rows.iter().filter_map(Row::invalid).collect();
    // 50 us for a read, known to be 40; the load reaches its 12.
    let [only] = invalid.as_slice() else { panic!("{invalid:?}") };
    assert!(only.starts_with("rocksdb, readrandom: MISSED: 50.0 us, known 40"), "{only}");
    let matrix = matrix(&rows);
    assert_eq!(matrix.peers, ["rocksdb"]);
    let cell = |text: &str| vec![Some(text.to_owned())];
    let [load, read] = matrix.phases.as_slice() else { panic!("{:?}", matrix.phases) };
    assert_eq!(*load, ("fillrandom".to_owned(), cell("3.03 / 0.60")));
    assert_eq!(*read, ("readrandom".to_owned(), cell("0.50 / 0.40 INVALID")));
}

#[test]
fn rounds_that_do_not_count_are_left_out() {
    let mut lines = rounds();
    let mut disturbed = run("cleavedb", false, 6, &[("fillrandom", 1e9, 1.0)]);
    disturbed["round"]["counts"] = false.into();
    lines.push(disturbed);
    lines.push(serde_json::json!({"plan": {"engine": "cleavedb"}, "phases": []}));
    assert_eq!(rows_of(&lines)[1].rate.unwrap().pairs, 5);
    // A round of which one side is missing makes no ratio.
    lines.push(run("cleavedb", false, 7, &[("fillrandom", 300.0, 6.0)]));
    assert_eq!(rows_of(&lines)[1].rate.unwrap().pairs, 5);
    assert!(rows_of(&[]).is_empty());
}

#[test]
fn limits_belong_to_their_comparison() {
    let mut lines = rounds();
    let limits = |name: &str, figure: f64| {
        let inner = serde_json::json!({"comparison": name, "reads_per_second": figure});
        serde_json::json!({"limits": inner})
    };
    lines.push(limits("another", 1.0));
    lines.push(limits("", 22_000.0));
    let rows = rows_of(&lines);
    assert_eq!((rows[0].limit, rows[1].limit), (Some(22_000.0), None));
}

/// One run of the leading engine is the partner of every peer of its round.
#[test]
fn all_peers_share_the_leading_engines_runs() {
    let mut lines = rounds();
    for number in 1..=5 {
        lines.push(run("fjall", false, number, &[("fillrandom", 50.0, 12.0)]));
    }
    let fjall: Vec<_> = rows_of(&lines).into_iter().filter(|row| row.peer == "fjall").collect();
    let [load] = fjall.as_slice() else { panic!("{fjall:?}") };
    let rate = load.rate.unwrap();
    assert!(rate.pairs == 5 && (rate.median - 6.06).abs() < 1e-9, "{rate:?}");
}

/// Comparisons stand in the order they ran; what one has not leaves its cell empty.
#[test]
fn the_matrix_has_a_row_for_every_phase_of_every_comparison() {
    let with = |comparison: &str, engine: &str, phases: &[(&str, f64, f64)]| {
        let mut line = run(engine, false, 1, phases);
        line["round"]["comparison"] = comparison.into();
        line
    };
    let two = [("fillbatch", 100.0, 1.0), ("readrandom", 100.0, 1.0)];
    let slow = [("fillbatch", 50.0, 2.0), ("readrandom", 400.0, 1.0)];
    let lines = [
        with("usual", "cleavedb", &two[1..]),
        with("usual", "redb", &slow[1..]),
        with("batches", "cleavedb", &two),
        with("batches", "fjall", &slow),
    ];
    let matrix = matrix(&rows_of(&lines));
    assert_eq!(matrix.peers, ["fjall", "redb"]);
    let cell = |text: &str| Some(text.to_owned());
    let expected = [
        ("usual: readrandom".to_owned(), vec![None, cell("0.25 / 1.00")]),
        ("batches: fillbatch".to_owned(), vec![cell("2.00 / 0.50"), None]),
        ("batches: readrandom".to_owned(), vec![cell("0.25 / 1.00"), None]),
    ];
    assert_eq!(matrix.phases, expected);
}

/// Lines of older comparisons say whom a run stood against.
#[test]
fn runs_for_one_peer_are_not_anothers() {
    let with = |mut line: Value, peer: &str| {
        line["round"]["against"] = peer.into();
        line
    };
    let lines = [
        with(run("cleavedb", false, 1, &[("fillrandom", 100.0, 1.0)]), "rocksdb"),
        with(run("rocksdb", false, 1, &[("fillrandom", 100.0, 1.0)]), "rocksdb"),
        with(run("cleavedb", false, 1, &[("fillrandom", 300.0, 1.0)]), "fjall"),
        with(run("fjall", false, 1, &[("fillrandom", 100.0, 1.0)]), "fjall"),
    ];
    let rows = rows_of(&lines);
    let rates: Vec<_> = rows.iter().map(|row| (row.peer.as_str(), row.ours.rate)).collect();
    assert_eq!(rates, [("rocksdb", 100.0), ("fjall", 300.0)]);
}
