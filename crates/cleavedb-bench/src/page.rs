//! Runs as one page that needs nothing else: tables and plots, made from the lines of JSON that a
//! comparison keeps. Plots are vector graphics within the page.
//!
//! - G1: figures of several runs of one engine in one form are medians; their number is printed.
//! - G2: runs with different plans are not mixed: each plan has a part of its own.

mod plots;

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::pairs::Spread;
use crate::report::bytes;

/// Runs of one engine in one form.
struct Group<'a> {
    name: String,
    runs: Vec<&'a Value>,
}

/// Percentiles shown, as they are named in a report.
const PERCENTILES: [&str; 5] = ["p50", "p99", "p999", "p9999", "max"];

impl Group<'_> {
    /// The phases called `phase` of all runs.
    fn phases<'a>(&'a self, phase: &'a str) -> impl Iterator<Item = &'a Value> {
        let all = self.runs.iter().filter_map(|run| run.get("phases")?.as_array()).flatten();
        all.filter(move |figures| figures.get("phase").and_then(Value::as_str) == Some(phase))
    }

    /// Median of a figure, `a.b` for one within another.
    fn median(&self, phase: &str, name: &str) -> Option<f64> {
        let pointer = format!("/{}", name.replace('.', "/"));
        let figures = self.phases(phase).filter_map(|figures| figures.pointer(&pointer)?.as_f64());
        Spread::of(figures.collect()).map(|spread| spread.median)
    }

    /// The timeline of the first run: seconds and steps.
    fn timeline(&self, phase: &str) -> Vec<(f64, f64)> {
        let looks = self.phases(phase).next().and_then(|figures| figures.get("timeline"));
        let looks = looks.and_then(Value::as_array).into_iter().flatten();
        looks.filter_map(|look| Some((look.get(0)?.as_f64()?, look.get(1)?.as_f64()?))).collect()
    }
}

/// The page for some lines of JSON, one run each.
///
/// # Errors
/// A line that is no run; no line at all.
pub fn page(lines: &str) -> Result<String> {
    let mut runs = Vec::new();
    for (number, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let run: Value =
            serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
        ensure!(run.get("phases").is_some(), "line {} is no run", number + 1);
        runs.push(run);
    }
    ensure!(!runs.is_empty(), "there is no run");
    let mut out = String::from(HEAD);
    let _ = writeln!(out, "<h1>Engines compared</h1><p>{}</p>", escape(&machine()));
    let mut plans: Vec<String> = Vec::new();
    for run in &runs {
        let plan = plan_of(run);
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    for plan in plans {
        let same: Vec<_> = runs.iter().filter(|run| plan_of(run) == plan).collect();
        part(&mut out, &plan, &same)?;
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

/// What a plan asks for beside the engine and how it is opened.
fn plan_of(run: &Value) -> String {
    let figure =
        |pointer: &str| run.pointer(pointer).map_or_else(|| "?".to_owned(), Value::to_string);
    format!(
        "{} items, values of {} bytes{}, {} threads, batches of {}, zipf {}, seed {}, {}",
        figure("/plan/num"),
        figure("/plan/value_bytes"),
        if figure("/plan/mixed_values") == "true" { " at most, mixed" } else { "" },
        figure("/plan/threads"),
        figure("/plan/batch"),
        figure("/plan/zipf_exponent"),
        figure("/plan/seed"),
        if figure("/plan/settings/sync") == "true" { "synced" } else { "not synced" },
    )
}

fn part(out: &mut String, plan: &str, runs: &[&Value]) -> Result<()> {
    let text = |run: &Value, pointer: &str| {
        run.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned()
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut phases: Vec<String> = Vec::new();
    for &run in runs {
        let direct = run.pointer("/plan/settings/direct").and_then(Value::as_bool) == Some(true);
        let name = text(run, "/plan/engine") + if direct { ", direct" } else { "" };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { name, runs: vec![run] }),
        }
        for figures in run.get("phases").and_then(Value::as_array).into_iter().flatten() {
            let phase = text(figures, "/phase");
            if !phases.contains(&phase) {
                phases.push(phase);
            }
        }
    }
    let _ =
        writeln!(out, "<h2>{}</h2>\n<table><tr><th>engine<th>runs<th>opened with", escape(plan));
    for group in &groups {
        let settings = group
            .runs
            .first()
            .map(|run| format!("{}: {}", text(run, "/engine"), text(run, "/engine_settings")));
        let settings = escape(&settings.unwrap_or_default());
        let _ = writeln!(
            out,
            "<tr><td>{}<td>{}<td class=text>{settings}",
            escape(&group.name),
            group.runs.len()
        );
    }
    out.push_str("</table>\n");
    phases.iter().try_for_each(|phase| one_phase(out, phase, &groups))
}

fn one_phase(out: &mut String, phase: &str, groups: &[Group<'_>]) -> Result<()> {
    let _ = writeln!(
        out,
        "<h3>{}</h3>\n<table><tr><th>engine<th>/s<th>CPU us<th>p50 us<th>p99<th>p99.9<th>p99.99\
         <th>max<th>device WA<th>disk",
        escape(phase)
    );
    for group in groups {
        let mut row = format!("<tr><td>{}", escape(&group.name));
        let names = ["operations_per_second", "cpu_us_per_operation"].map(str::to_owned);
        let latencies = PERCENTILES.map(|name| format!("latency_us.{name}"));
        let rest = ["device_write_amplification".to_owned()];
        for name in names.iter().chain(&latencies).chain(&rest) {
            let figure = group.median(phase, name);
            let _ = write!(row, "<td>{}", figure.map_or_else(|| "-".to_owned(), short));
        }
        let disk = group.median(phase, "disk_bytes").map(|figure| bytes(figure as u64));
        let _ = writeln!(out, "{row}<td>{}", disk.unwrap_or_default());
    }
    out.push_str("</table>\n<div>");
    let bars = |title: &str, name: &str| {
        let all = groups.iter().map(|group| (group.name.clone(), group.median(phase, name)));
        let known: Vec<_> = all.filter_map(|(name, figure)| Some((name, figure?))).collect();
        plots::bars(title, &known)
    };
    out.push_str(&bars("operations in a second", "operations_per_second")?);
    out.push_str(&bars("processor microseconds for an operation", "cpu_us_per_operation")?);
    let percentiles = groups.iter().map(|group| {
        let figures = PERCENTILES.iter().enumerate().filter_map(|(place, name)| {
            Some((place as f64, group.median(phase, &format!("latency_us.{name}"))?))
        });
        (group.name.clone(), figures.collect())
    });
    out.push_str(&plots::percentiles(&PERCENTILES, &percentiles.collect::<Vec<_>>())?);
    let timelines = groups.iter().map(|group| (group.name.clone(), group.timeline(phase)));
    out.push_str(&plots::timelines(&timelines.collect::<Vec<_>>())?);
    out.push_str("</div>\n");
    Ok(())
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1_000.0 => format!("{f:.0}"),
        f if f >= 10.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Processor, memory and kernel of the machine that the page is made on.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).trim().to_owned()
    };
    format!(
        "{} processors ({}), {} of memory, Linux {}",
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
<title>Engines compared</title><style>\
body{font:14px sans-serif;margin:2em auto;max-width:1240px;color:#222}\
table{border-collapse:collapse;margin:.5em 0}\
td,th{border:1px solid #ccc;padding:2px 8px;text-align:right}\
td:first-child,th:first-child,td.text{text-align:left}\
svg{margin:4px;max-width:100%;height:auto}\
</style></head><body>\n";

#[cfg(test)]
mod tests;
