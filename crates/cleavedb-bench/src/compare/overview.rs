//! Every peer and phase in one table, the worst for us first. Made from the lines of JSON that a
//! comparison keeps, so that the text and the page cannot differ.
//!
//! - O1: of each side the form with the higher median rate stands for it, phase by phase.
//! - O2: a ratio comes from rounds in which a run of both of these forms counts.
//! - O3: a peer that misses its floor in a phase is marked there and at the top.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compare::floor::{self, Floor, Shape};
use crate::compare::limits;
use crate::pairs::Spread;
use crate::phase::Phase;

const RATE: &str = "operations_per_second";
const CPU: &str = "cpu_us_per_operation";

/// The form of an engine that counts in one phase.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// Whether it goes past the page cache.
    pub(crate) direct: bool,
    /// Operations a second, median.
    pub(crate) rate: f64,
    /// Processor microseconds for an operation, median.
    pub(crate) cpu_us: f64,
}

impl Side {
    /// How it is called beside an engine's name.
    pub(crate) fn form(&self) -> &'static str {
        if self.direct { "direct" } else { "buffered" }
    }
}

/// One peer in one phase.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The comparison's title; empty where there is but one.
    pub(crate) comparison: String,
    /// The peer.
    pub(crate) peer: String,
    /// The phase.
    pub(crate) phase: Phase,
    /// Which comparison it is, and which phase of it, in the order they ran.
    pub(crate) place: (usize, usize),
    /// The better form of the engine that the claims are about.
    pub(crate) ours: Side,
    /// The better form of the peer.
    pub(crate) theirs: Side,
    /// Rate by rate.
    pub(crate) rate: Option<Spread>,
    /// Processor time by processor time.
    pub(crate) cpu: Option<Spread>,
    /// Whether the peer is as fast as it is known to be.
    pub(crate) floor: Floor,
    /// What the device alone would do.
    pub(crate) limit: Option<f64>,
}

impl Row {
    /// Its place: the median ratio of rates, unknown ones last.
    fn order(&self) -> f64 {
        self.rate.map_or(f64::INFINITY, |spread| spread.median)
    }

    /// The phase's name, with the comparison's before it where there are several.
    pub(crate) fn name(&self) -> String {
        match self.comparison.as_str() {
            "" => self.phase.to_string(),
            title => format!("{title}: {}", self.phase),
        }
    }

    /// The medians of both ratios.
    fn cell(&self) -> String {
        let short = |spread: Option<Spread>| {
            spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.2}", spread.median))
        };
        let mark = if self.invalid().is_some() { " INVALID" } else { "" };
        format!("{} / {}{mark}", short(self.rate), short(self.cpu))
    }

    /// The sentence that makes a comparison invalid, if this row does.
    pub(crate) fn invalid(&self) -> Option<String> {
        matches!(self.floor, Floor::Missed { .. })
            .then(|| format!("{}, {}: {}", self.peer, self.phase, self.floor))
    }
}

/// Runs of one form, by round.
type Runs<'a> = BTreeMap<u64, &'a Value>;

/// Runs of one engine by form (direct or not).
type Forms<'a> = BTreeMap<bool, Runs<'a>>;

/// Both sides of one comparison with one peer.
struct Versus<'a> {
    ours: Forms<'a>,
    theirs: Forms<'a>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

/// The lines of runs that `belongs` chooses, by form and round.
fn forms<'a>(lines: &[&'a Value], belongs: impl Fn(&Value) -> bool) -> Forms<'a> {
    let mut forms = Forms::new();
    for &run in lines.iter().filter(|run| flag(run, "/round/counts") && belongs(run)) {
        let number = run.pointer("/round/number").and_then(Value::as_u64).unwrap_or(0);
        forms.entry(flag(run, "/plan/settings/direct")).or_default().insert(number, run);
    }
    forms
}

/// Every comparison and peer, with the runs of both sides. The leading engine's runs are those of
/// all peers; lines of older comparisons, in which each peer had runs of its own, name it.
fn versus<'a>(lines: &[&'a Value]) -> BTreeMap<(&'a str, &'a str), Versus<'a>> {
    let leads = |run: &Value| text(run, "/plan/engine") == text(run, "/round/engine");
    let mut all = BTreeMap::new();
    for &run in lines.iter().filter(|run| run.get("round").is_some() && !leads(run)) {
        let (comparison, peer) = (text(run, "/round/comparison"), text(run, "/plan/engine"));
        all.entry((comparison, peer)).or_insert_with(|| {
            let of_it = |run: &Value| text(run, "/round/comparison") == comparison;
            let with_it = |run: &Value| ["", peer].contains(&text(run, "/round/against"));
            Versus {
                ours: forms(lines, |run| of_it(run) && leads(run) && with_it(run)),
                theirs: forms(lines, |run| of_it(run) && text(run, "/plan/engine") == peer),
            }
        });
    }
    all
}

/// The rows for some lines, worst first. Lines that belong to no round and runs that do not count
/// are left out; lines of limits give the limits.
pub(crate) fn rows(lines: &[&Value]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((comparison, peer), versus) in versus(lines) {
        let limits = lines.iter().find(|line| {
            line.get("limits").is_some() && text(line, "/limits/comparison") == comparison
        });
        let of_it = |line: &&Value| {
            line.get("round").is_some() && text(line, "/round/comparison") == comparison
        };
        let order = lines.iter().position(of_it).unwrap_or(0);
        let first = versus.ours.values().flat_map(BTreeMap::values).next();
        let phases = first.and_then(|run| run.get("phases")?.as_array());
        for (place, figures) in phases.into_iter().flatten().enumerate() {
            if let Ok(phase) = text(figures, "/phase").parse() {
                let row = versus.row((order, place), phase, comparison, peer, limits.copied());
                rows.extend(row);
            }
        }
    }
    rows.sort_by(|one, other| one.order().total_cmp(&other.order()));
    rows
}

impl Versus<'_> {
    fn row(
        &self,
        (order, place): (usize, usize),
        phase: Phase,
        comparison: &str,
        peer: &str,
        limits: Option<&Value>,
    ) -> Option<Row> {
        let (ours, theirs) = (better(&self.ours, place)?, better(&self.theirs, place)?);
        let (a, b) = (self.ours.get(&ours.direct)?, self.theirs.get(&theirs.direct)?);
        let measured: Vec<f64> =
            self.theirs.values().filter_map(|runs| median(runs, place, CPU)).collect();
        let mut shape = b.values().next().map(|run| Shape::of(run, place))?;
        shape.cut_short |= b.values().any(|run| Shape::of(run, place).cut_short);
        Some(Row {
            comparison: comparison.to_owned(),
            peer: peer.to_owned(),
            phase,
            place: (order, place),
            rate: ratio(a, b, place, RATE),
            cpu: ratio(a, b, place, CPU),
            floor: floor::judge(&shape, peer, phase, &measured),
            limit: limits.and_then(|limits| limits::of_phase(limits, phase)),
            ours,
            theirs,
        })
    }
}

fn figure(run: &Value, place: usize, name: &str) -> Option<f64> {
    run.get("phases")?.get(place)?.get(name)?.as_f64()
}

fn median(runs: &Runs<'_>, place: usize, name: &str) -> Option<f64> {
    let figures = runs.values().filter_map(|run| figure(run, place, name)).collect();
    Spread::of(figures).map(|spread| spread.median)
}

/// The form with the higher median rate.
fn better(forms: &Forms<'_>, place: usize) -> Option<Side> {
    let sides = forms.iter().filter_map(|(&direct, runs)| {
        let cpu_us = median(runs, place, CPU).unwrap_or(f64::NAN);
        Some(Side { direct, rate: median(runs, place, RATE)?, cpu_us })
    });
    sides.max_by(|one, other| one.rate.total_cmp(&other.rate))
}

/// A by B, round by round.
fn ratio(a: &Runs<'_>, b: &Runs<'_>, place: usize, name: &str) -> Option<Spread> {
    let of_round = |(number, run): (&u64, &&Value)| {
        Some(figure(run, place, name)? / figure(b.get(number)?, place, name)?)
    };
    Spread::of(a.iter().filter_map(of_round).collect())
}

/// Phase by engine: in each phase the ratio of rates and of processor time to each peer.
pub(crate) struct Matrix {
    /// Peers, the one with the worst ratio first.
    pub(crate) peers: Vec<String>,
    /// Phases in the order they ran, and their cells.
    pub(crate) phases: Vec<(String, Vec<Option<String>>)>,
}

/// The matrix of rows that are sorted, worst first.
pub(crate) fn matrix(rows: &[Row]) -> Matrix {
    let mut peers: Vec<String> = Vec::new();
    for row in rows {
        if !peers.contains(&row.peer) {
            peers.push(row.peer.clone());
        }
    }
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| row.place);
    let mut phases: Vec<(String, Vec<Option<String>>)> = Vec::new();
    for row in order {
        if phases.last().is_none_or(|(name, _)| *name != row.name()) {
            phases.push((row.name(), vec![None; peers.len()]));
        }
        let column = peers.iter().position(|peer| *peer == row.peer);
        let cells = phases.last_mut().map(|(_, cells)| cells);
        if let Some(cell) = cells.zip(column).and_then(|(cells, column)| cells.get_mut(column)) {
            *cell = Some(row.cell());
        }
    }
    Matrix { peers, phases }
}

#[cfg(test)]
mod tests;
