//! Runs as one page that needs nothing else: tables and plots, made from the lines of JSON that a
//! comparison keeps. Plots are vector graphics within the page.
//!
//! - G1: figures of several runs of one engine in one form are medians; their number is printed.
//!   Runs that others disturbed are left out.
//! - G2: runs with different plans are not mixed: each plan has a part of its own.

pub(crate) mod curves;
pub(crate) mod plots;
pub(crate) mod series;
mod tables;

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::compare::{limit_sentences, overview, table};
use crate::pairs::Spread;

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

    /// A timeline of the first run: seconds and steps, or bytes.
    fn timeline(&self, phase: &str, name: &str) -> Vec<(f64, f64)> {
        let looks = self.phases(phase).next().and_then(|figures| figures.get(name));
        let looks = looks.and_then(Value::as_array).into_iter().flatten();
        looks.filter_map(|look| Some((look.get(0)?.as_f64()?, look.get(1)?.as_f64()?))).collect()
    }
}

/// Runs and limits from lines of JSON.
fn parse(lines: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (number, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Value =
            serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
        let known = line.get("phases").is_some() || line.get("limits").is_some();
        ensure!(known, "line {} is no run", number + 1);
        all.push(line);
    }
    Ok(all)
}

/// The overview of some lines of JSON in Markdown.
///
/// # Errors
/// A line that is neither a run nor limits.
pub fn overview(lines: &str) -> Result<String> {
    let all = parse(lines)?;
    Ok(table::overview(&overview::rows(&all.iter().collect::<Vec<_>>())))
}

/// The page for some lines of JSON, one run each.
///
/// # Errors
/// A line that is neither a run nor limits; no run at all.
pub fn page(lines: &str) -> Result<String> {
    let all = parse(lines)?;
    let mut runs: Vec<&Value> = all.iter().filter(|line| line.get("phases").is_some()).collect();
    ensure!(!runs.is_empty(), "there is no run");
    let disturbed = |run: &Value| run.pointer("/round/counts") == Some(&Value::Bool(false));
    // Better a page of disturbed runs than none.
    if !runs.iter().all(|run| disturbed(run)) {
        runs.retain(|run| !disturbed(run));
    }
    let mut out = String::from(HEAD);
    let _ = writeln!(out, "<h1>Engines compared</h1><p>{}</p>", escape(&machine()));
    tables::overview(&mut out, &overview::rows(&all.iter().collect::<Vec<_>>()));
    let mut plans: Vec<String> = Vec::new();
    for run in &runs {
        let plan = plan_of(run);
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    for plan in plans {
        let same: Vec<_> = runs.iter().copied().filter(|run| plan_of(run) == plan).collect();
        let title = same.first().and_then(|run| run.pointer("/round/comparison"));
        let limits =
            all.iter().find(|line| title.is_some() && line.pointer("/limits/comparison") == title);
        part(&mut out, &plan, limits, &same)?;
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

/// What a plan asks for beside the engine and how it is opened.
fn plan_of(run: &Value) -> String {
    let figure =
        |pointer: &str| run.pointer(pointer).map_or_else(|| "?".to_owned(), Value::to_string);
    let title = run.pointer("/round/comparison").and_then(Value::as_str).unwrap_or_default();
    format!(
        "{title}{}{} items, values of {} bytes{}, {} threads, batches of {}, zipf {}, seed {}, {}",
        if title.is_empty() { "" } else { ": " },
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

fn part(out: &mut String, plan: &str, limits: Option<&Value>, runs: &[&Value]) -> Result<()> {
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
    let _ = writeln!(out, "<h2>{}</h2>", escape(plan));
    if let Some(limits) = limits {
        let _ = writeln!(out, "<p>Limits: {}</p>", escape(&limit_sentences(limits)));
    }
    out.push_str("<table><tr><th>engine<th>runs<th class=text>opened with\n");
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
    // Groups without this phase have nothing to show, but keep their colours.
    let _ = writeln!(out, "<h3>{}</h3>", escape(phase));
    tables::phase(out, phase, groups);
    out.push_str("<div class=plots>");
    let bars = |title: &str, name: &str| {
        let all = groups.iter().map(|group| (group.name.clone(), group.median(phase, name)));
        plots::bars(title, &all.collect::<Vec<_>>())
    };
    out.push_str(&bars("operations in a second", "operations_per_second")?);
    out.push_str(&bars("processor microseconds for an operation", "cpu_us_per_operation")?);
    out.push_str(&bars("device write amplification", "device_write_amplification")?);
    let percentiles = groups.iter().map(|group| {
        let figures = PERCENTILES.iter().enumerate().filter_map(|(place, name)| {
            Some((place as f64, group.median(phase, &format!("latency_us.{name}"))?))
        });
        (group.name.clone(), figures.collect())
    });
    out.push_str(&plots::percentiles(&PERCENTILES, &percentiles.collect::<Vec<_>>())?);
    let lines = |name: &str| {
        let all = groups.iter().map(|group| (group.name.clone(), group.timeline(phase, name)));
        all.collect::<Vec<_>>()
    };
    let steps = "steps done over seconds; flat is standing still";
    out.push_str(&plots::timelines(steps, &lines("timeline"), true)?);
    let size = "MiB on disk over seconds, settling included";
    let disk = lines("disk_timeline").into_iter().map(|(name, looks)| {
        let looks = looks.into_iter().map(|(x, y)| (x, y / f64::from(1 << 20)));
        (name, looks.collect::<Vec<_>>())
    });
    out.push_str(&plots::timelines(size, &disk.collect::<Vec<_>>(), false)?);
    out.push_str("</div>\n");
    tables::waits(out, phase, groups);
    Ok(())
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1_000.0 => format!("{f:.0}"),
        f if f >= 10.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Processor, memory and kernel of the machine that the page is made on.
pub(crate) fn machine() -> String {
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

pub(crate) const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width\"><title>Engines compared</title><style>\
body{font:14px sans-serif;margin:2em auto;padding:0 1em;max-width:1240px;color:#222}\
table{border-collapse:collapse;margin:.5em 0}\
.wide{overflow-x:auto}\
td,th{border:1px solid #ccc;padding:2px 8px;text-align:right;vertical-align:top}\
td:first-child,th:first-child,td.text,th.text{text-align:left}\
.bad{background:#fdd}.warn{background:#fdd;padding:.5em;border:1px solid #c00}\
.plots{display:flex;flex-wrap:wrap;align-items:flex-start}\
svg{margin:4px;max-width:100%;height:auto}\
</style></head><body>\n";

#[cfg(test)]
mod tests;
