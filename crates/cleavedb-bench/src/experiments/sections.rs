//! Tables beside an experiment's main one: shares of what the bare device did, space and writes,
//! the longest calls.

use std::fmt::Write as _;

use serde_json::Value;

use super::execute::{Came, PartResult};
use super::table::labelled;
use crate::phase::Phase;
use crate::report::{bytes, waits_of};

/// All sections that have something to say.
pub(super) fn markdown(results: &[PartResult]) -> String {
    let sections = [
        (
            "Against the bare device",
            "| part | step | engine | /s | CPU us | bare step | /s | ratio | device reads each \
             | merged each | device bytes read each |\n\
             |---|---|---|---:|---:|---|---:|---:|---:|---:|---:|\n",
            bare as fn(&Run<'_>) -> String,
        ),
        (
            "Writes and space",
            "| part | step | engine | WA, own account | WA, device | disk by data, most \
             | at the end | value files by data, most \
             | at the end | value files by live records, at the end |\n\
             |---|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
            space,
        ),
        (
            "Index and cleaning",
            "| part | step | engine | index bytes | gc_index_reads | gc_index_writes \
             | bytes moved | files rewritten |\n\
             |---|---|---|---:|---:|---:|---:|---:|\n",
            cleaning,
        ),
        (
            "Gets of one key with very many operands",
            "| part | step | engine | ms each |\n|---|---|---|---:|\n",
            many_operands,
        ),
        (
            "Longest calls",
            "| part | step | engine | p99.9 us | p99.99 us | longest ms \
             | long calls and reasons |\n\
             |---|---|---|---:|---:|---:|---|\n",
            longest,
        ),
    ];
    let runs: Vec<_> = results.iter().flat_map(runs).collect();
    let mut out = String::new();
    for (title, heading, rows) in sections {
        let rows: String = runs.iter().map(rows).collect();
        if !rows.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{heading}{rows}");
        }
    }
    out
}

/// A part on one engine.
struct Run<'a> {
    part: &'a str,
    engine: &'a str,
    /// Bytes of keys and values that are there after the load.
    data_bytes: f64,
    /// Labels and figures of its phases.
    phases: Vec<(&'a str, &'a Value)>,
}

fn runs(result: &PartResult) -> impl Iterator<Item = Run<'_>> {
    result.by_engine.iter().filter_map(|(engine, came)| {
        let Came::Reports(reports) = came else { return None };
        let phases = reports.iter().flat_map(labelled).collect();
        let data_bytes = result.part.data_bytes() as f64;
        Some(Run { part: &result.part.name, engine, data_bytes, phases })
    })
}

/// Gets of the one value or counter that was merged into without end.
fn many_operands(run: &Run<'_>) -> String {
    let mut out = String::new();
    for (label, figures) in &run.phases {
        if matches!(phase_of(figures), Some(Phase::ReadAppended | Phase::ReadHot)) {
            let ms = at(figures, "/latency_us/mean").map(|us| us / 1_000.0);
            let _ = writeln!(out, "| {} | {label} | {} | {} |", run.part, run.engine, shown(ms));
        }
    }
    out
}

fn phase_of(figures: &Value) -> Option<Phase> {
    figures.get("phase")?.as_str()?.parse().ok()
}

fn at(figures: &Value, pointer: &str) -> Option<f64> {
    figures.pointer(pointer)?.as_f64()
}

fn shown(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure >= 1_000.0 => format!("{figure:.0}"),
        Some(figure) if figure >= 100.0 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.3}"),
        None => "-".to_owned(),
    }
}

/// Each phase beside the bare ones of its kind that ran last before it.
fn bare(run: &Run<'_>) -> String {
    let (mut out, mut before) = (String::new(), Vec::<(Phase, &str, f64)>::new());
    for (label, figures) in &run.phases {
        let Some(phase) = phase_of(figures) else { continue };
        let rate = at(figures, "/operations_per_second");
        if phase.is_bare() {
            before.retain(|(other, ..)| *other != phase);
            before.extend(rate.map(|rate| (phase, *label, rate)));
        }
        let reads = |name: &str| {
            let count = at(figures, &format!("/device_requests/{name}"))?;
            Some(count / at(figures, "/operations")?.max(1.0))
        };
        let limits = before
            .iter()
            .filter(|(bare, ..)| !phase.is_bare() && phase.writes() == (*bare != Phase::BareReads));
        let own = [(None, "-", f64::NAN)];
        let limits: Vec<_> = limits.map(|(bare, name, rate)| (Some(*bare), *name, *rate)).collect();
        let listed = if phase.is_bare() { &own[..] } else { &limits[..] };
        for (bare, name, limit) in listed {
            let limit = bare.map(|_| *limit);
            let _ = writeln!(
                out,
                "| {} | {label} | {} | {} | {} | {name} | {} | {} | {} | {} | {} |",
                run.part,
                run.engine,
                shown(rate),
                shown(at(figures, "/cpu_us_per_operation")),
                shown(limit),
                shown(rate.zip(limit).map(|(rate, limit)| rate / limit)),
                shown(reads("reads")),
                shown(reads("reads_merged")),
                shown(reads("read_bytes")),
            );
        }
    }
    out
}

/// Write amplification and space of every phase of an engine that writes.
fn space(run: &Run<'_>) -> String {
    let mut out = String::new();
    for (label, figures) in &run.phases {
        let engine_writes = phase_of(figures).is_some_and(Phase::writes);
        if !engine_writes || run.data_bytes <= 0.0 {
            continue;
        }
        let by_data = |pointer| at(figures, pointer).filter(|bytes| *bytes > 0.0);
        let by_data = |pointer| shown(by_data(pointer).map(|bytes| bytes / run.data_bytes));
        let live = at(figures, "/value_live_bytes").filter(|bytes| *bytes > 0.0);
        let by_live = at(figures, "/value_file_bytes").zip(live).map(|(all, live)| all / live);
        let _ = writeln!(
            out,
            "| {} | {label} | {} | {} | {} | {} | {} | {} | {} | {} |",
            run.part,
            run.engine,
            shown(at(figures, "/write_amplification").filter(|figure| *figure > 0.0)),
            shown(at(figures, "/device_write_amplification")),
            by_data("/disk_bytes_max"),
            by_data("/disk_bytes"),
            by_data("/value_file_bytes_max"),
            by_data("/value_file_bytes"),
            shown(by_live),
        );
    }
    out
}

/// What cleaning did in every phase that writes, where the engine tells.
fn cleaning(run: &Run<'_>) -> String {
    let mut out = String::new();
    for (label, figures) in &run.phases {
        let count = |name: &str| figures.pointer(name).and_then(Value::as_u64);
        let Some(index_bytes) = count("/index_bytes") else { continue };
        if !phase_of(figures).is_some_and(Phase::writes) {
            continue;
        }
        let done = |name: &str| count(&format!("/collection/{name}")).unwrap_or(0);
        let _ = writeln!(
            out,
            "| {} | {label} | {} | {} | {} | {} | {} | {} |",
            run.part,
            run.engine,
            bytes(index_bytes),
            done("index_reads"),
            done("index_writes"),
            bytes(done("bytes_moved")),
            done("files"),
        );
    }
    out
}

/// The longest calls of every phase, with the engine's reasons.
fn longest(run: &Run<'_>) -> String {
    let mut out = String::new();
    for (label, figures) in &run.phases {
        let Some(max) = at(figures, "/latency_us/max") else { continue };
        let _ = writeln!(
            out,
            "| {} | {label} | {} | {} | {} | {} | {} |",
            run.part,
            run.engine,
            shown(at(figures, "/latency_us/p999")),
            shown(at(figures, "/latency_us/p9999")),
            shown(Some(max / 1e3)),
            waits_of(&[figures]).unwrap_or_else(|| "-".to_owned()),
        );
    }
    out
}

/// What opening after a crash took, beside what the killed process left, in words.
pub(super) fn recovery(reports: &[Value], report: &Value) -> Option<String> {
    let open = at(report, "/open_seconds")?;
    let mut text = format!("opened after a crash in {open:.3} s");
    if let Some(first) = at(report, "/first_get_seconds") {
        let _ = write!(text, ", first right get after {first:.3} s");
    }
    let before = reports.iter().rev().skip_while(|other| !std::ptr::eq(*other, report)).nth(1);
    let left = before.and_then(|before| {
        let last = before.get("phases")?.as_array()?.last()?;
        Some((last.get("disk_bytes")?.as_u64()?, before))
    });
    if let Some((disk, before)) = left {
        let _ = write!(text, "; {} of files were left", bytes(disk));
        let account = before.pointer("/engine_stats/bytes_written");
        if let Some(account) = account.and_then(Value::as_object) {
            let flushed = account.get("flush").and_then(Value::as_u64).unwrap_or(0);
            let _ = write!(text, ", {} of them flushed", bytes(flushed));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests;
