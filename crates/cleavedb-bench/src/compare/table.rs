//! The comparison as text: settings of both sides, one row of ratios for each phase, the waits, and
//! at the end every peer and phase, the worst first.

use std::fmt::Write as _;

use serde_json::Value;

use crate::compare::floor::Floor;
use crate::compare::overview::{Row, matrix};
use crate::pairs::{OTHERS_MAX, Rounds, Spread};
use crate::report::bytes;
use crate::runner::Plan;

/// Runs of A and of B that count, round by round.
type Pairs<'a> = Vec<(&'a Value, &'a Value)>;

/// What all runs have in common.
pub(super) fn heading(plan: &Plan, title: &str, rounds: usize) -> String {
    format!(
        "# Comparison{}{title}\n\n{} items of {} + {}{} bytes, {} threads, \
         batches of {}, zipf \
         {}, {}, seed {}; {rounds} interleaved rounds{}.\n",
        if title.is_empty() { "" } else { ": " },
        plan.num,
        plan.key_bytes,
        if plan.mixed_values { "64 to " } else { "" },
        plan.value_bytes,
        plan.threads,
        plan.batch,
        plan.zipf_exponent,
        if plan.settings.sync { "every write synced" } else { "writes survive the process" },
        plan.seed,
        plan.seconds.map_or_else(String::new, |seconds| format!(
            "; phases that do not load end after {seconds} s"
        )),
    )
}

/// A figure of one phase of a report.
fn figure(report: &Value, phase: usize, name: &str) -> f64 {
    let figure = report.get("phases").and_then(|phases| phases.get(phase)?.get(name)?.as_f64());
    figure.unwrap_or(f64::NAN)
}

fn text<'a>(report: &'a Value, name: &str) -> &'a str {
    report.get(name).and_then(Value::as_str).unwrap_or("?")
}

/// Median of one side's figure.
fn median(figures: Vec<f64>) -> String {
    Spread::of(figures).map_or_else(|| "-".to_owned(), |spread| short(spread.median))
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1_000.0 => format!("{f:.0}"),
        f if f >= 10.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

/// Speed of A by speed of B, and so on for what a call costs.
fn ratio(pairs: &Pairs<'_>, phase: usize, name: &str) -> String {
    let ratios = pairs.iter().map(|(a, b)| figure(a, phase, name) / figure(b, phase, name));
    Spread::of(ratios.collect()).map_or_else(|| "-".to_owned(), |spread| spread.to_string())
}

/// A heading, the settings, and the table of two contenders, each with its place in a round.
pub(super) fn ratios(one: (usize, &str), other: (usize, &str), rounds: &Rounds<Value>) -> String {
    let mut out = format!("\n## {} by {}\n\n", one.1, other.1);
    let pairs: Pairs<'_> = rounds
        .kept
        .iter()
        .filter_map(|round| Some((round.get(one.0)?.as_ref()?, round.get(other.0)?.as_ref()?)))
        .collect();
    let thrown_away = |place: usize| rounds.thrown_away.get(place).copied().unwrap_or(0);
    let thrown_away = (thrown_away(one.0), thrown_away(other.0));
    let Some(&(a, b)) = pairs.first() else {
        let _ = writeln!(
            out,
            "No pair counts: {} and {} runs were disturbed by other processes.",
            thrown_away.0, thrown_away.1
        );
        return out;
    };
    for report in [a, b] {
        let _ = writeln!(out, "- {}: {}", text(report, "engine"), text(report, "engine_settings"));
    }
    let peak = |report: &Value| {
        bytes(report.get("peak_memory_bytes").and_then(Value::as_u64).unwrap_or(0))
    };
    let _ = writeln!(
        out,
        "- {} pairs count, {} and {} runs thrown away; others took up to {:.2} of a processor{}; \
         peak memory {} and {}\n",
        pairs.len(),
        thrown_away.0,
        thrown_away.1,
        rounds.others,
        if rounds.others > OTHERS_MAX { " (disturbed: no figure counts)" } else { "" },
        peak(a),
        peak(b),
    );
    out.push_str(
        "| phase | A /s | B /s | A/B | CPU us A | CPU us B | A/B | device WA A | device WA B \
         | own WA A | own WA B | device read, written A | B |\n\
         |---|---:|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let phases = a.get("phases").and_then(Value::as_array).map_or(0, Vec::len);
    for phase in 0..phases {
        out.push_str(&row(&pairs, phase));
    }
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    for (name, reports) in [(one.1, ours), (other.1, theirs)] {
        out.push_str(&waits(name, &reports));
    }
    out
}

/// Device bytes read and written in a phase, medians over the runs.
fn moved(runs: &[&Value], phase: usize) -> String {
    let one = |name: &str| {
        let figure =
            |run: &&Value| run.get("phases")?.get(phase)?.get("device_bytes")?.get(name)?.as_f64();
        let figures = Spread::of(runs.iter().filter_map(figure).collect());
        figures.map_or_else(|| "-".to_owned(), |spread| bytes(spread.median as u64))
    };
    format!("{}, {}", one("read"), one("written"))
}

fn row(pairs: &Pairs<'_>, phase: usize) -> String {
    let sides = |name: &str| {
        let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let side = |reports: Vec<&Value>| {
            median(reports.into_iter().map(|report| figure(report, phase, name)).collect())
        };
        (side(a), side(b))
    };
    let first = pairs.first().map(|pair| pair.0);
    let name = first.and_then(|run| run.get("phases")?.get(phase)?.get("phase")?.as_str());
    let (speed, cpu) = ("operations_per_second", "cpu_us_per_operation");
    let ((sa, sb), (ca, cb)) = (sides(speed), sides(cpu));
    let (wa, wb) = sides("device_write_amplification");
    let (oa, ob) = sides("write_amplification");
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let (da, db) = (moved(&ours, phase), moved(&theirs, phase));
    format!(
        "| {} | {sa} | {sb} | {} | {ca} | {cb} | {} | {wa} | {wb} | {oa} | {ob} | {da} | {db} |\n",
        name.unwrap_or("?"),
        ratio(pairs, phase, speed),
        ratio(pairs, phase, cpu),
    )
}

/// The waits of all runs that count, with the engine's reasons; nothing if nobody waited.
pub(super) fn waits(name: &str, reports: &[&Value]) -> String {
    let mut lines = String::new();
    let phases = |run: &Value| run.get("phases").and_then(Value::as_array).map_or(0, Vec::len);
    for place in 0..reports.first().map_or(0, |run| phases(run)) {
        let figures: Vec<_> =
            reports.iter().filter_map(|run| run.get("phases")?.get(place)).collect();
        let phase = figures.first().map_or("?", |figures| text(figures, "phase"));
        if let Some(line) = crate::report::waits_of(&figures) {
            let _ = writeln!(lines, "- {phase}: {line}");
        }
    }
    if lines.is_empty() {
        return lines;
    }
    format!("\nWaits of {name} in the {} runs that count:\n\n{lines}", reports.len())
}

/// Every peer and phase, the worst first; nothing if no round counts.
pub(crate) fn overview(rows: &[Row]) -> String {
    let mut out = String::from("\n## Overview\n\n");
    if rows.is_empty() {
        out.push_str("No pair counts.\n");
        return out;
    }
    for why in rows.iter().filter_map(Row::invalid) {
        let _ =
            writeln!(out, "**INVALID**: {why}. A peer that is slow here makes its ratios void.\n");
    }
    let _ = writeln!(out, "{}\n", floor_note(rows));
    out.push_str("Rate A/B and processor time A/B of the better forms, the worst peer first:\n\n");
    let matrix = matrix(rows);
    let _ = writeln!(out, "| phase | {} |", matrix.peers.join(" | "));
    let _ = writeln!(out, "|---{}|", "|---".repeat(matrix.peers.len()));
    for (phase, cells) in &matrix.phases {
        let cells: Vec<_> = cells.iter().map(|cell| cell.as_deref().unwrap_or("")).collect();
        let _ = writeln!(out, "| {phase} | {} |", cells.join(" | "));
    }
    out.push_str(
        "\nEvery pair, the worst first:\n\n\
         | engine | phase | form A | form B | A /s | B /s | A/B | CPU us A | CPU us B | A/B \
         | limit /s | known speed of B |\n\
         |---|---|---|---|---:|---:|---|---:|---:|---|---:|---|\n",
    );
    for row in rows {
        let _ = writeln!(out, "| {} |", cells(row).join(" | "));
    }
    out
}

/// Whether peers were held against their known speed, in one sentence.
pub(crate) fn floor_note(rows: &[Row]) -> String {
    let other = rows.iter().find_map(|row| match &row.floor {
        Floor::OtherShape(why) => Some(why),
        _ => None,
    });
    let judged = rows.iter().filter(|row| matches!(row.floor, Floor::Reached { .. })).count();
    match other {
        Some(why) if judged == 0 => {
            format!("Peers are not held against their known speed: {why}.")
        }
        Some(why) => format!(
            "{judged} figures of peers reach their known speed; some comparisons are not held \
             against it: {why}."
        ),
        None => format!("{judged} figures of peers reach their known speed."),
    }
}

/// The cells of a row, for a table of either kind.
pub(crate) fn cells(row: &Row) -> Vec<String> {
    let spread =
        |spread: Option<Spread>| spread.map_or_else(|| "-".to_owned(), |spread| spread.to_string());
    vec![
        row.peer.clone(),
        row.name(),
        row.ours.form().to_owned(),
        row.theirs.form().to_owned(),
        short(row.ours.rate),
        short(row.theirs.rate),
        spread(row.rate),
        short(row.ours.cpu_us),
        short(row.theirs.cpu_us),
        spread(row.cpu),
        row.limit.map_or_else(|| "-".to_owned(), short),
        row.floor.to_string(),
    ]
}
