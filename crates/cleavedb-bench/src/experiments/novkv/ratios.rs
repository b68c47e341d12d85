//! The experiment's figures side by side for every size of value, with the ratios of the
//! strategies: `novkv` by `wisckey` is what the paper's claims are about.

use std::fmt::Write as _;

use serde_json::Value;

use super::{PASSES, PASSES_AFTER, PASSES_BEFORE, UPDATES, VALUE_BYTES, name};
use crate::experiments::execute::{Came, PartResult};
use crate::experiments::table::labelled;
use crate::phase::Phase;

/// The engines of which the paper compares the strategies.
const WISCKEY: &str = "cleavedb-wisckey";
const NOVKV: &str = "cleavedb-novkv";
/// The default, which the paper does not have.
const UNIFIED: &str = "cleavedb";

/// A figure of one engine at one size of value.
struct Figure {
    what: &'static str,
    /// Part and step, and what is wanted of it.
    of: fn(&Found<'_>) -> Option<f64>,
    /// What the paper says of it.
    paper: &'static str,
}

const FIGURES: [Figure; 13] = [
    Figure {
        what: "puts a second",
        of: |found| found.rate(CLEANING, Phase::FillReplace.name(), false),
        paper: "up to 1.98",
    },
    Figure {
        what: "puts a second, settling included",
        of: |found| found.rate(CLEANING, Phase::FillReplace.name(), true),
        paper: "",
    },
    Figure { what: "updates a second", of: |found| found.rate(UPDATED, UPDATES, false), paper: "" },
    Figure {
        what: "updates a second, settling included",
        of: |found| found.rate(UPDATED, UPDATES, true),
        paper: "",
    },
    Figure {
        what: "reads a second, pass 1",
        of: |found| found.rate(CLEANING, PASSES[0], false),
        paper: "slightly above 1",
    },
    Figure {
        what: "reads a second, pass 2",
        of: |found| found.rate(CLEANING, PASSES[1], false),
        paper: "up to 1.85",
    },
    Figure {
        what: "reads after updates, pass 1 by the same when never rewritten",
        of: |found| found.passes(0),
        paper: "",
    },
    Figure {
        what: "reads after updates, pass 2 by the same when never rewritten",
        of: |found| found.passes(1),
        paper: "1: handles are repaired",
    },
    Figure {
        what: "write amplification of updates, by the device",
        of: |found| found.at(UPDATED, UPDATES, "/device_write_amplification"),
        paper: "lower",
    },
    Figure {
        what: "index bytes after updates",
        of: |found| found.at(UPDATED, UPDATES, "/index_bytes"),
        paper: "",
    },
    Figure {
        what: "by how much cleaning slows updates down",
        of: slowdown,
        paper: "WiscKey up to 1.3, NovKV 0.1",
    },
    Figure {
        what: "gc_index_reads",
        of: |found| found.at(UPDATED, UPDATES, "/collection/index_reads"),
        paper: "NovKV 0",
    },
    Figure {
        what: "gc_index_writes",
        of: |found| found.at(UPDATED, UPDATES, "/collection/index_writes"),
        paper: "NovKV 0",
    },
];

/// Parts by the second half of their names.
const CLEANING: &str = "cleaning";
const UPDATED: &str = "updates";
const NOT_CLEANED: &str = "updates, not cleaning";

/// What was found of one engine at one size of value.
struct Found<'a> {
    results: &'a [PartResult],
    engine: &'a str,
    value: u64,
}

impl Found<'_> {
    fn step(&self, part: &str, label: &str) -> Option<&Value> {
        let wanted = name(self.value, part);
        let result = self.results.iter().find(|result| result.part.name == wanted)?;
        let (_, came) = result.by_engine.iter().find(|(engine, _)| engine == self.engine)?;
        let Came::Reports(reports) = came else { return None };
        let found = reports.iter().flat_map(labelled).find(|(step, _)| *step == label);
        found.map(|(_, figures)| figures)
    }

    fn at(&self, part: &str, label: &str, pointer: &str) -> Option<f64> {
        self.step(part, label)?.pointer(pointer)?.as_f64()
    }

    /// Operations a second, with what had to be done afterwards or without.
    fn rate(&self, part: &str, label: &str, settled: bool) -> Option<f64> {
        let at = |pointer| self.at(part, label, pointer);
        let settling = if settled { at("/settle_seconds")? } else { 0.0 };
        let seconds = at("/seconds")? + settling;
        Some(at("/operations")? / seconds).filter(|_| seconds > 0.0)
    }

    /// The rate of a pass after updates by that of the same pass before.
    fn passes(&self, pass: usize) -> Option<f64> {
        let rate = |labels: [&str; 2]| self.rate(UPDATED, labels.get(pass)?, false);
        quotient(rate(PASSES_AFTER), rate(PASSES_BEFORE))
    }
}

/// The time that cleaning adds to updates by the time that they take without.
fn slowdown(found: &Found<'_>) -> Option<f64> {
    let rate = |part| found.rate(part, UPDATES, true);
    quotient(rate(NOT_CLEANED), rate(UPDATED)).map(|factor| factor - 1.0)
}

fn quotient(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    let (left, right) = (left?, right?);
    (right > 0.0).then(|| left / right)
}

fn shown(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure.abs() >= 100.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.2}"),
        None => "-".to_owned(),
    }
}

/// One table: a row for each size of value and figure, a column for each engine. Empty where
/// nothing was run.
pub(crate) fn markdown(results: &[PartResult]) -> String {
    let mut engines: Vec<&str> = Vec::new();
    for (engine, _) in results.iter().flat_map(|result| &result.by_engine) {
        if !engines.contains(&engine.as_str()) {
            engines.push(engine);
        }
    }
    // The ratio that the paper tells stands there in any case, and last.
    let others =
        [UNIFIED, NOVKV].into_iter().filter(|name| *name == NOVKV || engines.contains(name));
    let others: Vec<_> = others.collect();
    let mut rows = String::new();
    for value in VALUE_BYTES {
        for figure in &FIGURES {
            let of = |engine| (figure.of)(&Found { results, engine, value });
            let figures: Vec<_> = engines.iter().map(|engine| of(engine)).collect();
            if figures.iter().all(Option::is_none) {
                continue;
            }
            let cells: String = figures.iter().map(|f| format!(" {} |", shown(*f))).collect();
            let ratio =
                |other: &&'static str| format!(" {} |", shown(quotient(of(other), of(WISCKEY))));
            let ratios: String = others.iter().map(ratio).collect();
            let (what, paper) = (figure.what, figure.paper);
            let _ = writeln!(rows, "| {value} B | {what} |{cells}{ratios} {paper} |");
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let columns: String = engines.iter().map(|engine| format!(" {engine} |")).collect();
    let ratios: String = others.iter().map(|other| format!(" {other} by {WISCKEY} |")).collect();
    let rules = "---:|".repeat(engines.len() + others.len());
    format!(
        "\n## The strategies, size by size\n\n\
         | values | figure |{columns}{ratios} the paper, NovKV by WiscKey |\n\
         |---|---|{rules}---|\n{rows}"
    )
}

#[cfg(test)]
mod tests;
