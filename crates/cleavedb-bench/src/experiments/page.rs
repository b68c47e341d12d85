//! An experiment as one page: the text of its Markdown, and plots of every curve and part.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use super::execute::{Came, PartResult};
use super::table::labelled;
use super::unified;
use crate::page::curves::curve;
use crate::page::plots::{Line, bars};
use crate::page::{HEAD, escape, machine};
use crate::phase::Phase;

/// The page of an experiment with this text and these results.
pub(super) fn page(text: &str, results: &[PartResult]) -> Result<String> {
    let mut out = HEAD.replace("Engines compared", "An experiment");
    let _ = writeln!(out, "<p>{}</p>", escape(&machine()));
    let (head, tables) = text.split_once("\n## ").unwrap_or((text, ""));
    let (title, rest) = head.split_once('\n').unwrap_or((head, ""));
    out.push_str(&html(title));
    out.push_str("<h2>Plots</h2>\n<p>Logarithmic scales upwards.</p>\n<div class=plots>");
    for plot in curves(results).into_iter().chain(steps(results)) {
        out.push_str(&curve(&plot.title, &plot.axis, &plot.lines)?);
    }
    for series in unified::plots(results) {
        out.push_str(&series.svg()?);
    }
    for result in results.iter().filter(|result| result.part.curve.is_none()) {
        let title = format!("{}: operations a second", result.part.name);
        let named = rates(result).into_iter();
        let named = named.map(|(engine, label, rate)| (format!("{engine}, {label}"), rate));
        out.push_str(&bars(&title, &named.collect::<Vec<_>>())?);
    }
    out.push_str("</div>\n<h2>Figures</h2>\n");
    out.push_str(&html(rest));
    if !tables.is_empty() {
        out.push_str(&html(&format!("## {tables}")));
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

/// Fewest steps that make a curve.
const STEPS_MIN: usize = 3;

/// The plots of steps of one part whose names differ in the number at their ends: their rates.
fn steps(results: &[PartResult]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    for result in results {
        let points = rates(result).into_iter().filter_map(|(engine, label, rate)| {
            let (words, number) = label.rsplit_once(' ')?;
            Some((engine, words, number.parse::<f64>().ok()?, rate?))
        });
        for (engine, words, number, rate) in points {
            let title = format!("{}: {words}, operations a second", result.part.name);
            if plots.last().is_none_or(|plot| plot.title != title) {
                plots.push(Plot { title, axis: words.to_owned(), lines: Vec::new() });
            }
            if let Some(plot) = plots.last_mut() {
                plot.add(engine, number, rate);
            }
        }
    }
    plots.retain(|plot| plot.lines.iter().any(|(_, points)| points.len() >= STEPS_MIN));
    plots
}

/// Rates of a part's steps on every engine.
fn rates(result: &PartResult) -> Vec<(&str, &str, Option<f64>)> {
    let steps = result.by_engine.iter().flat_map(|(engine, came)| {
        phases(came).map(move |(label, figures)| {
            let rate = figures.get("operations_per_second").and_then(Value::as_f64);
            (engine.as_str(), label, rate)
        })
    });
    steps.collect()
}

fn phases(came: &Came) -> impl Iterator<Item = (&str, &Value)> {
    let reports = match came {
        Came::Reports(reports) => reports.as_slice(),
        Came::NotRun(_) => &[],
    };
    reports.iter().flat_map(labelled)
}

fn phase_of(figures: &Value) -> Option<Phase> {
    figures.get("phase")?.as_str()?.parse().ok()
}

/// A plot to draw.
#[derive(Debug)]
struct Plot {
    title: String,
    axis: String,
    lines: Vec<Line>,
}

impl Plot {
    fn add(&mut self, name: &str, x: f64, y: f64) {
        match self.lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push((x, y)),
            None => self.lines.push((name.to_owned(), vec![(x, y)])),
        }
    }
}

/// The plots of all curves: for each of their steps the rate, and of steps that write also write
/// amplification and size. What the bare device did stands among the rates of its kind.
fn curves(results: &[PartResult]) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    let mut add = |title: String, axis: &str, name: &str, point: (f64, f64)| {
        let known = plots.iter().position(|plot| plot.title == title);
        if known.is_none() {
            plots.push(Plot { title, axis: axis.to_owned(), lines: Vec::new() });
        }
        let last = plots.len().saturating_sub(1);
        if let Some(plot) = plots.get_mut(known.unwrap_or(last)) {
            plot.add(name, point.0, point.1);
        }
    };
    for result in results {
        let Some(place) = &result.part.curve else { continue };
        for (engine, came) in &result.by_engine {
            let all: Vec<_> = phases(came).collect();
            for (label, figures) in &all {
                let Some(phase) = phase_of(figures).filter(|phase| !phase.is_bare()) else {
                    continue;
                };
                for (what, name, factor) in shown(phase, result.part.data_bytes()) {
                    let Some(figure) = figures.get(name).and_then(Value::as_f64) else { continue };
                    let title = format!("{}: {label}, {what}", place.name);
                    add(title.clone(), &place.axis, engine, (place.at, figure * factor));
                    let bare = all.iter().filter(|_| name == MEGABYTES && factor > 0.0);
                    for (label, figures) in bare {
                        let limits = phase_of(figures).is_some_and(|bare| {
                            bare.is_bare() && phase.writes() == (bare != Phase::BareReads)
                        });
                        let rate = figures.get(name).and_then(Value::as_f64).filter(|_| limits);
                        if let Some(rate) = rate {
                            let name = format!("{label}, beside {engine}");
                            add(title.clone(), &place.axis, &name, (place.at, rate));
                        }
                    }
                }
            }
        }
    }
    plots
}

const MEGABYTES: &str = "megabytes_per_second";

/// What is plotted of a phase: words, name of the figure, and what to multiply it with.
fn shown(phase: Phase, data_bytes: u64) -> Vec<(&'static str, &'static str, f64)> {
    let by_data = 1.0 / (data_bytes.max(1) as f64);
    let mut all = if phase.loads() || matches!(phase, Phase::SeekRandom | Phase::Scan) {
        vec![("MB/s", MEGABYTES, 1.0)]
    } else {
        vec![("operations a second", "operations_per_second", 1.0)]
    };
    if phase.writes() {
        all.push(("device write amplification", "device_write_amplification", 1.0));
    }
    if phase.writes() && !phase.loads() {
        all.push(("disk by data, most", "disk_bytes_max", by_data));
        all.push(("value files by data, most", "value_file_bytes_max", by_data));
    }
    all
}

/// Headings, lists, tables and lines of the Markdown that is made here.
fn html(text: &str) -> String {
    let (mut out, mut open) = (String::new(), "");
    for line in text.lines() {
        let block = match line {
            line if line.starts_with('|') => "table",
            line if line.starts_with("- ") => "ul",
            _ => "",
        };
        if block != open {
            if !open.is_empty() {
                let _ = writeln!(out, "</{open}>");
            }
            if !block.is_empty() {
                let _ = writeln!(out, "<{block}>");
            }
        }
        let first = block != open;
        open = block;
        if line.starts_with("|---") || line.is_empty() {
            continue;
        }
        if block == "table" {
            let cell = if first { "th" } else { "td" };
            out.push_str("<tr>");
            let cells = line.trim_start_matches("| ").trim_end_matches('|').trim_end();
            for text in cells.split(" | ") {
                let kind = if text.parse::<f64>().is_ok() { "" } else { " class=text" };
                let _ = write!(out, "<{cell}{kind}>{}", escape(text.trim()));
            }
            out.push('\n');
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = writeln!(out, "<li>{}", escape(item));
        } else if let Some(title) = line.strip_prefix("## ") {
            let _ = writeln!(out, "<h2>{}</h2>", escape(title));
        } else if let Some(title) = line.strip_prefix("# ") {
            let _ = writeln!(out, "<h1>{}</h1>", escape(title));
        } else {
            let _ = writeln!(out, "<p>{}</p>", escape(line));
        }
    }
    if !open.is_empty() {
        let _ = writeln!(out, "</{open}>");
    }
    out
}

#[cfg(test)]
mod tests;
