//! The experiments of the five papers that CleaveDB learns from, as data: parts with the papers'
//! sizes, thresholds and phases, over the same runner and engines as every other measurement. One
//! more, `values`, has no paper: it holds values stored apart against what the device can do. Nor
//! has `unified`: it watches stores over time, under updates, deletes, scans and after a kill.
//!
//! - X1: pair sizes, ratios, thresholds and thread counts are the paper's; numbers of items and
//!   operations, and sizes of memory and files, are the paper's times one factor, with a least
//!   size below which an engine would not work or a figure would be noise.
//! - X2: what no engine here can do stands in the plan as something lacking, and in the table as a
//!   line of its own; nothing is left out in silence.
//! - X3: every part says which of its settings an engine did not take.

#[cfg(feature = "peers")]
pub mod command;
pub mod execute;
mod flexdb;
pub mod inserts;
mod kdsep;
mod novkv;
#[cfg(feature = "peers")]
mod page;
mod reads;
mod sections;
mod table;
mod unified;
mod values;
mod wayfinder;
mod wisckey;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::data::{KEY_BYTES, KEY_BYTES_MAX};
use crate::engine::Settings;
use crate::phase::Phase;
use crate::runner::Plan;
use crate::tuning::Tuning;

pub use inserts::Inserts;
pub use table::markdown;

/// Fewest items and operations of a part.
const COUNT_MIN: u64 = 100;
/// Least memory of an engine.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Least size of a memtable and of a file.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// By what the papers' sizes are multiplied.
#[derive(Clone, Copy, Debug)]
pub struct Scale(f64);

impl Scale {
    /// # Errors
    /// A factor that is not above 0 and at most 1.
    pub fn new(factor: f64) -> Result<Self> {
        ensure!(factor > 0.0 && factor <= 1.0, "a factor is above 0 and at most 1, not {factor}");
        Ok(Self(factor))
    }

    /// The factor.
    #[must_use]
    pub fn factor(self) -> f64 {
        self.0
    }

    /// Items or operations.
    #[must_use]
    pub fn count(self, paper: u64) -> u64 {
        self.times(paper).max(COUNT_MIN)
    }

    /// Items of `pair` bytes in `paper` bytes of data.
    #[must_use]
    pub fn items(self, paper: u64, pair: Pair) -> u64 {
        self.count(paper / pair.bytes())
    }

    /// Bytes of a memtable or a file.
    #[must_use]
    pub fn file(self, paper: u64) -> u64 {
        self.times(paper).max(FILE_BYTES_MIN)
    }

    /// Bytes of an engine's memory.
    #[must_use]
    pub fn memory(self, paper: u64) -> u64 {
        self.times(paper).max(MEMORY_BYTES_MIN)
    }

    fn times(self, paper: u64) -> u64 {
        (paper as f64 * self.0).round() as u64
    }
}

/// Bytes of a pair as the paper has them. Keys have at least [`KEY_BYTES`] here; the value makes up
/// for the difference, so that a pair is as large as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Bytes of a key in the paper.
    pub key: u64,
    /// Bytes of a value in the paper.
    pub value: u64,
}

impl Pair {
    /// Bytes of key and value.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.key + self.value
    }

    /// Bytes of a key here.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        usize::try_from(self.key).unwrap_or(KEY_BYTES_MAX).clamp(KEY_BYTES, KEY_BYTES_MAX)
    }

    /// Bytes of a value here.
    #[must_use]
    pub fn value_bytes(self) -> usize {
        let key = self.key_bytes() as u64;
        usize::try_from(self.bytes().saturating_sub(key)).unwrap_or(usize::MAX)
    }

    /// What is otherwise than in the paper, if anything is.
    #[must_use]
    pub fn note(self) -> Option<String> {
        let here = self.key_bytes();
        (self.key != here as u64).then(|| {
            let (key, value, value_here) = (self.key, self.value, self.value_bytes());
            format!(
                "Pairs of {key} + {value} bytes in the paper are {here} + {value_here} bytes here."
            )
        })
    }
}

/// One thing done in a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A phase with a plan of its own.
    Run {
        /// What it is called in the table.
        label: String,
        /// Its one phase, operations, threads, shares.
        plan: Box<Plan>,
    },
    /// The process is killed (`SIGKILL`) without closing the store; the next step opens it again,
    /// and how long that takes, and the first get with it, is measured.
    Crash {
        /// Whether the page cache forgets the store's files in between.
        cold: bool,
    },
    /// The store is closed and opened again with these settings, its caches empty.
    Reopen(Box<Settings>),
}

impl Step {
    /// A phase with the operations of `base`.
    #[must_use]
    pub fn phase(base: &Plan, phase: Phase) -> Self {
        Self::run(phase.name(), Plan { phases: vec![phase], ..base.clone() })
    }

    /// A phase with operations of its own.
    #[must_use]
    pub fn operations(base: &Plan, phase: Phase, operations: u64) -> Self {
        let operations = Some(operations);
        Self::run(phase.name(), Plan { phases: vec![phase], operations, ..base.clone() })
    }

    /// A plan under a label.
    #[must_use]
    pub fn run(label: impl Into<String>, plan: Plan) -> Self {
        Self::Run { label: label.into(), plan: Box::new(plan) }
    }
}

/// What an engine must have for a part to mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Need {
    /// Values stored apart whose cleaning can be switched off.
    CleaningOff,
    /// The same, or a bound on space that can put cleaning off for the length of a part.
    CleaningLate,
    /// Files that outlive the process.
    Files,
    /// A bound on the bytes of files with values apart.
    SpaceBound,
    /// No such bound.
    Unbounded,
    /// Keyspaces that can be dropped.
    Keyspaces,
    /// What only a build with the feature `widths` sets, of CleaveDB alone.
    Widths,
}

/// Where a part stands among others that differ in one figure: they make a curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// What the parts have in common.
    pub name: String,
    /// What the figure is.
    pub axis: String,
    /// The figure.
    pub at: f64,
}

/// One part of an experiment: settings, items, steps on one store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its name, unique in the experiment.
    pub name: String,
    /// What the paper found there, with its own figures.
    pub paper: String,
    /// Engine settings, items and values; the engine's name is filled in.
    pub plan: Plan,
    /// In order.
    pub steps: Vec<Step>,
    /// Pages that the file system itself inserts into a file as large as the items, instead of
    /// steps on engines.
    pub inserts: Option<Inserts>,
    /// What an engine must have.
    pub needs: Vec<Need>,
    /// What of the paper's part no engine here can show.
    pub lacks: Option<String>,
    /// What is otherwise than in the paper.
    pub note: Option<String>,
    /// Where it stands on a curve.
    pub curve: Option<Curve>,
}

impl Part {
    /// A part that every engine can run.
    #[must_use]
    pub fn new(name: impl Into<String>, paper: &str, plan: Plan, steps: Vec<Step>) -> Self {
        let (name, paper) = (name.into(), paper.to_owned());
        let needs = Vec::new();
        Self {
            name,
            paper,
            plan,
            steps,
            inserts: None,
            needs,
            lacks: None,
            note: None,
            curve: None,
        }
    }

    /// A part without engines: `operations` pages inserted, for `seconds` at most.
    #[must_use]
    pub fn of_inserts(name: &str, paper: &str, plan: Plan, operations: u64, seconds: f64) -> Self {
        let part = Self::new(name, paper, plan, Vec::new());
        let (file_bytes, seed) = (part.data_bytes(), part.plan.seed);
        Self { inserts: Some(Inserts { file_bytes, operations, seconds, seed }), ..part }
    }

    /// The same for engines that have something.
    #[must_use]
    pub fn needing(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// The same, with what no engine here can show.
    #[must_use]
    pub fn lacking(mut self, lacks: impl Into<String>) -> Self {
        self.lacks = Some(lacks.into());
        self
    }

    /// The same as a point of a curve.
    #[must_use]
    pub fn at(mut self, name: &str, axis: &str, at: f64) -> Self {
        self.curve = Some(Curve { name: name.to_owned(), axis: axis.to_owned(), at });
        self
    }

    /// The same with pairs of which the paper's keys are not as long as those here.
    #[must_use]
    pub fn with_pairs(mut self, pair: Pair) -> Self {
        self.note = pair.note();
        self
    }

    /// Makes every step go past the page cache.
    pub fn go_direct(&mut self) {
        self.plan.settings.direct = true;
        for step in &mut self.steps {
            if let Step::Reopen(settings) = step {
                settings.direct = true;
            }
        }
    }

    /// Bytes of keys and values of the items.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.plan.num * (self.plan.key_bytes + self.plan.value_bytes) as u64
    }

    /// Why the engine called `engine` does not run this part, if it does not.
    #[must_use]
    pub fn obstacle(&self, engine: &str) -> Option<&'static str> {
        let is_cleavedb = engine.starts_with("cleavedb");
        self.needs.iter().find_map(|need| match need {
            Need::Files if engine == "memory" => Some("it keeps nothing on disk"),
            Need::CleaningOff if engine != "rocksdb-blob" => {
                Some("no cleaning of values stored apart that could be switched off")
            }
            Need::CleaningLate if engine != "rocksdb-blob" && !is_cleavedb => {
                Some("no cleaning of values stored apart that could be put off")
            }
            Need::SpaceBound if !is_cleavedb => {
                Some("no bound on the size of files with values apart")
            }
            Need::Unbounded if is_cleavedb => Some("its bounds are parts of their own"),
            Need::Keyspaces if !is_cleavedb => Some("no keyspace that could be dropped"),
            Need::Widths if !is_cleavedb => Some("what varies is CleaveDB's own"),
            Need::Widths if !cfg!(feature = "widths") => Some("a build without `widths`"),
            Need::Files
            | Need::CleaningOff
            | Need::CleaningLate
            | Need::SpaceBound
            | Need::Unbounded
            | Need::Keyspaces
            | Need::Widths => None,
        })
    }
}

/// All parts of one paper's experiments.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The paper's short name, or what is measured where no paper stands behind it.
    pub name: &'static str,
    /// Whether a paper stands behind it.
    pub of_paper: bool,
    /// The paper's set-up in words, as far as parts do not say it.
    pub setup: String,
    /// Bytes of the paper's data that the factor applies to.
    pub paper_bytes: u64,
    /// What no part shows.
    pub lacks: Vec<&'static str>,
    /// In order.
    pub parts: Vec<Part>,
}

/// Names of the experiments.
pub const NAMES: [&str; 7] =
    ["wisckey", "novkv", "wayfinder", "kdsep", "flexdb", "values", "unified"];

/// The experiments of the paper called `name`.
///
/// # Errors
/// A sentence that names those there are.
pub fn find(name: &str, scale: Scale) -> Result<Experiment> {
    Ok(match name {
        "wisckey" => wisckey::experiment(scale),
        "novkv" => novkv::experiment(scale),
        "wayfinder" => wayfinder::experiment(scale),
        "kdsep" => kdsep::experiment(scale),
        "flexdb" => flexdb::experiment(scale),
        "values" => values::experiment(scale),
        "unified" => unified::experiment(scale),
        _ => bail!("there is no experiment '{name}'; choose one of {}", NAMES.join(", ")),
    })
}

/// A plan for items of one size.
fn plan(num: u64, pair: Pair, memory_budget: u64, direct: bool, tuning: Tuning) -> Plan {
    let (key_bytes, value_bytes) = (pair.key_bytes(), pair.value_bytes());
    let mut plan = Plan { num, key_bytes, value_bytes, ..Plan::default() };
    plan.phases.clear();
    plan.settings.memory_budget = memory_budget;
    plan.settings.direct = direct;
    plan.settings.tuning = tuning;
    plan
}

/// The steps of YCSB's core workloads, A B C D E F, `operations` each (a tenth for E's scans).
fn ycsb(base: &Plan, operations: u64) -> Vec<Step> {
    let six = [Phase::YcsbA, Phase::YcsbB, Phase::YcsbC, Phase::YcsbD, Phase::YcsbE, Phase::YcsbF];
    let steps = six.into_iter().map(|phase| {
        let share = if phase == Phase::YcsbE { 10 } else { 1 };
        Step::operations(base, phase, (operations / share).max(1))
    });
    steps.collect()
}

#[cfg(test)]
mod tests;
