//! An experiment's results as Markdown: settings, one table, what is lacking.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::execute::{Came, PartResult};
use super::{Experiment, Part, Scale, novkv, reads, sections, unified};
use crate::report::bytes;

const HEADING: &str = "\
| part | step | engine | /s | MB/s | avg us | p95 us | p99 us | read avg us | write avg us \
| CPU us | read from device | written to device | WA | RA | disk | settling s | the paper |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
";
/// Columns between the engine and the paper's word.
const FIGURES: usize = 14;

/// The whole text.
#[must_use]
pub fn markdown(experiment: &Experiment, scale: Scale, results: &[PartResult]) -> String {
    let mut out = format!("# {} by a factor of {}\n\n", experiment.name, scale.factor());
    let paper = experiment.paper_bytes;
    let scaled = (paper as f64 * scale.factor()) as u64;
    let _ = writeln!(
        out,
        "{} {} come to {}. {}: {}.\n",
        if experiment.of_paper { "The paper's" } else { "The" },
        bytes(paper),
        bytes(scaled),
        if experiment.of_paper { "Set-up of the paper" } else { "Set-up" },
        experiment.setup
    );
    for result in results {
        let _ = writeln!(out, "- {}", settings(&result.part));
    }
    out.push_str(&opened(results));
    out.push('\n');
    let last = if experiment.of_paper { "the paper" } else { "held against" };
    out.push_str(&HEADING.replace("the paper", last));
    for result in results {
        rows(&mut out, result);
    }
    for lacks in &experiment.lacks {
        let _ = writeln!(out, "| - | not measured: {lacks} | - |{} - |", " - |".repeat(FIGURES));
    }
    out.push_str(&sections::markdown(results));
    if experiment.name == "novkv" {
        out.push_str(&novkv::ratios(results));
    }
    if experiment.name == "unified" {
        out.push_str(&unified::tables(results));
    }
    out.push_str(&accounts(results));
    out
}

/// Everything a part sets.
fn settings(part: &Part) -> String {
    let plan = &part.plan;
    if let Some(inserts) = &part.inserts {
        return format!(
            "{}: a file of {}, {} pages inserted in {} s at most, buffered I/O, synced at the end",
            part.name,
            bytes(inserts.file_bytes),
            inserts.operations,
            inserts.seconds,
        );
    }
    let asked = plan.settings.tuning.asked();
    let asked: Vec<_> = asked.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let separate_at = plan.settings.tuning.separate_at;
    let mut text = format!(
        "{}: {} items of {} + {} bytes ({}), {} threads, zipf {}, memory {}, {} I/O, \
         background threads {}, separate_at {}; {}",
        part.name,
        plan.num,
        plan.key_bytes,
        plan.value_bytes,
        bytes(part.data_bytes()),
        plan.threads,
        plan.zipf_exponent,
        bytes(plan.settings.memory_budget),
        if plan.settings.direct { "direct" } else { "buffered" },
        plan.settings.background_threads,
        separate_at.map_or_else(|| "not set".to_owned(), |at| at.to_string()),
        if asked.is_empty() { "nothing else".to_owned() } else { asked.join(" ") },
    );
    if let Some(note) = &part.note {
        let _ = write!(text, ". {note}");
    }
    text
}

/// How engines were opened: each distinct text once.
fn opened(results: &[PartResult]) -> String {
    let mut texts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for result in results {
        for (engine, came) in &result.by_engine {
            let Came::Reports(reports) = came else { continue };
            let text = reports.first().and_then(|report| report.get("engine_settings")?.as_str());
            *texts.entry((engine.clone(), text.unwrap_or("?").to_owned())).or_default() += 1;
        }
    }
    let mut out = String::new();
    for ((engine, text), parts) in texts {
        let _ = writeln!(out, "- {engine} ({parts} parts): {text}");
    }
    out
}

fn rows(out: &mut String, result: &PartResult) {
    let part = &result.part;
    let mut paper = part.paper.as_str();
    let empty = " - |".repeat(FIGURES);
    for (engine, came) in &result.by_engine {
        match came {
            Came::NotRun(why) => {
                let _ =
                    writeln!(out, "| {} | not run: {why} | {engine} |{empty} {paper} |", part.name);
                paper = "";
            }
            Came::Reports(reports) => {
                for report in reports {
                    if let Some(recovery) = sections::recovery(reports, report) {
                        let _ = writeln!(out, "| {} | {recovery} | {engine} |{empty} |", part.name);
                    }
                    for (label, phase) in labelled(report) {
                        let figures = figures(phase);
                        let name = &part.name;
                        let _ = writeln!(out, "| {name} | {label} | {engine} |{figures} {paper} |");
                        paper = "";
                    }
                }
                if part.plan.settings.tuning.statistics {
                    for told in reads::told(reports) {
                        let _ = writeln!(out, "| {} | {told} | {engine} |{empty} |", part.name);
                    }
                }
            }
        }
    }
    if let Some(lacks) = &part.lacks {
        let _ = writeln!(out, "| {} | not measured: {lacks} | - |{empty} |", part.name);
    }
}

/// The phases of a report, each with the label of its step.
pub(super) fn labelled(report: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let list = |name: &str| report.get(name).and_then(Value::as_array);
    let labels = list("labels").into_iter().flatten().map(|label| label.as_str().unwrap_or("?"));
    labels.zip(list("phases").into_iter().flatten())
}

fn figures(phase: &Value) -> String {
    let at = |path: &str| phase.pointer(path).and_then(Value::as_f64);
    let whole = |path| at(path).map(|figure| figure as u64);
    let short = |figure: Option<f64>| match figure {
        None => "-".to_owned(),
        Some(figure) if figure >= 100.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.2}"),
    };
    let size = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), bytes);
    let wrote = at("/user_bytes_written").is_some_and(|written| written > 0.0);
    // What was read from the device by what the workload read, where it did nothing else.
    let moved = at("/megabytes_per_second").zip(at("/seconds")).map(|(mb, s)| mb * 1e6 * s);
    let read = at("/device_bytes/read").zip(moved.filter(|bytes| !wrote && *bytes > 0.0));
    let cells = [
        short(at("/operations_per_second")),
        short(at("/megabytes_per_second")),
        short(at("/latency_us/mean")),
        short(at("/latency_us/p95")),
        short(at("/latency_us/p99")),
        short(at("/read_latency_us/mean")),
        short(at("/write_latency_us/mean")),
        short(at("/cpu_us_per_operation")),
        size(whole("/device_bytes/read")),
        size(whole("/device_bytes/written")),
        short(at("/device_write_amplification").filter(|_| wrote)),
        short(read.map(|(read, moved)| read / moved)),
        size(whole("/disk_bytes")),
        short(at("/settle_seconds")),
    ];
    debug_assert_eq!(cells.len(), FIGURES);
    cells.iter().map(|cell| format!(" {cell} |")).collect()
}

/// What engines themselves say they wrote, and for what; the last report of each part.
fn accounts(results: &[PartResult]) -> String {
    let mut out = String::new();
    for result in results {
        for (engine, came) in &result.by_engine {
            let Came::Reports(reports) = came else { continue };
            let account = reports
                .last()
                .and_then(|report| report.pointer("/engine_stats/bytes_written")?.as_object());
            let Some(account) = account else { continue };
            let purposes: Vec<_> = account
                .iter()
                .map(|(purpose, count)| format!("{purpose} {}", bytes(count.as_u64().unwrap_or(0))))
                .collect();
            let name = &result.part.name;
            let _ = writeln!(
                out,
                "- {engine}, {name}, its own account of bytes written: {}",
                purposes.join(", ")
            );
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}
