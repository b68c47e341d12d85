//! The comparison as text: settings of both sides, one row of ratios for each phase.

use std::fmt::Write as _;

use serde_json::Value;

use crate::data::KEY_BYTES;
use crate::pairs::{OTHERS_MAX, Pairs, Spread};
use crate::report::bytes;
use crate::runner::Plan;

/// What all runs have in common.
pub(super) fn heading(plan: &Plan, pairs: usize) -> String {
    format!(
        "# Comparison\n\n{} items of {KEY_BYTES} + {}{} bytes, {} threads, batches of {}, zipf \
         {}, {}, seed {}; {pairs} interleaved pairs.\n",
        plan.num,
        if plan.mixed_values { "64 to " } else { "" },
        plan.value_bytes,
        plan.threads,
        plan.batch,
        plan.zipf_exponent,
        if plan.settings.sync { "every write synced" } else { "writes survive the process" },
        plan.seed,
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
fn ratio(pairs: &Pairs<Value>, phase: usize, name: &str) -> String {
    let ratios = pairs.kept.iter();
    let ratios = ratios.map(|(a, b)| figure(a, phase, name) / figure(b, phase, name));
    Spread::of(ratios.collect()).map_or_else(|| "-".to_owned(), |spread| spread.to_string())
}

/// A heading, the settings, and the table of one comparison.
pub(super) fn ratios(one: &str, other: &str, pairs: &Pairs<Value>) -> String {
    let mut out = format!("\n## {one} by {other}\n\n");
    let Some((a, b)) = pairs.kept.first() else {
        let _ =
            writeln!(out, "No pair counts: other processes disturbed all {}.", pairs.thrown_away);
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
        "- {} pairs count, {} thrown away; others took up to {:.2} of a processor{}; peak memory \
         {} and {}\n",
        pairs.kept.len(),
        pairs.thrown_away,
        pairs.others,
        if pairs.others > OTHERS_MAX { " (disturbed: no figure counts)" } else { "" },
        peak(a),
        peak(b),
    );
    out.push_str(
        "| phase | A /s | B /s | A/B | CPU us A | CPU us B | A/B | device WA A | device WA B |\n\
         |---|---:|---:|---|---:|---:|---|---:|---:|\n",
    );
    let phases = a.get("phases").and_then(Value::as_array).map_or(0, Vec::len);
    for phase in 0..phases {
        let sides = |name: &str| {
            let side = |pick: fn(&(Value, Value)) -> &Value| {
                let reports = pairs.kept.iter().map(pick);
                median(reports.map(|report| figure(report, phase, name)).collect())
            };
            (side(|pair| &pair.0), side(|pair| &pair.1))
        };
        let name = a.get("phases").and_then(|phases| phases.get(phase)?.get("phase")?.as_str());
        let (speed, cpu) = ("operations_per_second", "cpu_us_per_operation");
        let ((sa, sb), (ca, cb)) = (sides(speed), sides(cpu));
        let (wa, wb) = sides("device_write_amplification");
        let _ = writeln!(
            out,
            "| {} | {sa} | {sb} | {} | {ca} | {cb} | {} | {wa} | {wb} |",
            name.unwrap_or("?"),
            ratio(pairs, phase, speed),
            ratio(pairs, phase, cpu),
        );
    }
    out
}
