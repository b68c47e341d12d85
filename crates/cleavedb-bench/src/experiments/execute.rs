//! Runs a part on an engine: its steps in stretches between crashes, each stretch on the store
//! that the one before left.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inserts::{self, Inserts, Way};
use super::{Experiment, Part, Step};
use crate::engines;
use crate::runner::{Plan, Silent, run_steps};

/// Steps of a part up to its end or to a crash, on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretch {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the part.
    pub part: String,
    /// The part's plan with the engine's name.
    pub plan: Plan,
    /// Labels of the steps.
    pub labels: Vec<String>,
    /// Plans of the steps.
    pub steps: Vec<Plan>,
    /// Whether the process is to be killed at the end.
    pub crashes: bool,
    /// Whether the store was left by a crash.
    pub recovers: bool,
    /// Pages to insert into a file, instead of steps on an engine.
    #[serde(default)]
    pub inserts: Option<(Way, Inserts)>,
}

/// The stretches of a part on the engine called `engine`.
///
/// # Errors
/// An unknown engine.
pub fn stretches(experiment: &Experiment, part: &Part, engine: &str) -> Result<Vec<Stretch>> {
    let mut plan = Plan { engine: engine.to_owned(), ..part.plan.clone() };
    // An engine that cannot go past the page cache goes through it; its settings say so.
    plan.settings.direct &= engines::find(engine)?.direct;
    let empty = |recovers| Stretch {
        experiment: experiment.name.to_owned(),
        part: part.name.clone(),
        plan: plan.clone(),
        labels: Vec::new(),
        steps: Vec::new(),
        crashes: false,
        recovers,
        inserts: None,
    };
    let (mut done, mut current) = (Vec::new(), empty(false));
    for step in &part.steps {
        match step {
            Step::Run { label, plan: own } => {
                let settings = plan.settings.clone();
                let own = Plan { engine: engine.to_owned(), settings, ..(**own).clone() };
                current.labels.push(label.clone());
                current.steps.push(own);
            }
            Step::Crash => {
                let next = empty(true);
                let before = std::mem::replace(&mut current, next);
                done.push(Stretch { crashes: true, ..before });
            }
        }
    }
    done.push(current);
    Ok(done)
}

impl Stretch {
    /// The one that inserts pages in one way.
    fn of_inserts(experiment: &Experiment, part: &Part, way: Way, inserts: &Inserts) -> Self {
        Self {
            experiment: experiment.name.to_owned(),
            part: part.name.clone(),
            plan: Plan { engine: way.name().to_owned(), ..part.plan.clone() },
            labels: vec!["4 KiB at random blocks".to_owned()],
            steps: Vec::new(),
            crashes: false,
            recovers: false,
            inserts: Some((way, inserts.clone())),
        }
    }

    /// The same so that the store is left as by a killed process, where it is to be; the process
    /// that runs it has to end without closing anything.
    #[must_use]
    pub fn abandoned(mut self) -> Self {
        self.plan.abandoned = self.crashes;
        if let Some(last) = self.steps.last_mut() {
            last.abandoned = self.crashes;
        }
        self
    }
}

/// Runs one stretch. Gives the report of the run with the names of experiment, part and steps
/// beside it, and the seconds that opening the store took.
///
/// # Errors
/// Those of the run.
pub fn run_stretch(stretch: &Stretch, dir: &Path) -> Result<Value> {
    let what = || format!("{}, {}", stretch.experiment, stretch.part);
    if let Some((way, pages)) = &stretch.inserts {
        let mut value = inserts::run(*way, pages, dir).with_context(what)?;
        name_report(&mut value, stretch, None);
        return Ok(value);
    }
    let before = Instant::now();
    // Opened once more for the time alone: a run has other things to do first.
    let open_seconds = if stretch.recovers {
        let engine = engines::open(&stretch.plan.engine, dir, &stretch.plan.settings);
        let seconds = before.elapsed().as_secs_f64();
        drop(engine.with_context(what)?);
        Some(seconds)
    } else {
        None
    };
    let report = run_steps(&stretch.plan, &stretch.steps, dir, &mut Silent).with_context(what)?;
    let mut value = serde_json::to_value(&report)?;
    name_report(&mut value, stretch, open_seconds);
    Ok(value)
}

/// Puts the names of a stretch into its report.
fn name_report(report: &mut Value, stretch: &Stretch, open_seconds: Option<f64>) {
    if let Some(fields) = report.as_object_mut() {
        // A run without an engine has no report of its own plan.
        fields.entry("plan").or_insert_with(|| json!(stretch.plan));
        fields.insert("experiment".to_owned(), json!(stretch.experiment));
        fields.insert("part".to_owned(), json!(stretch.part));
        fields.insert("contender".to_owned(), json!(stretch.plan.engine));
        fields.insert("labels".to_owned(), json!(stretch.labels));
        fields.insert("open_seconds".to_owned(), json!(open_seconds));
    }
}

/// What came of a part on an engine.
#[derive(Clone, Debug)]
pub enum Came {
    /// A report for each stretch.
    Reports(Vec<Value>),
    /// Why it was not run.
    NotRun(String),
}

/// A part with what came of it on each engine.
#[derive(Clone, Debug)]
pub struct PartResult {
    /// The part.
    pub part: Part,
    /// Engine and what came of it.
    pub by_engine: Vec<(String, Came)>,
}

/// Runs every part on every engine, each on an empty store below `folder()`; `one` runs a stretch.
///
/// # Errors
/// The first error of a run.
pub fn run_all(
    experiment: &Experiment,
    engines: &[String],
    mut one: impl FnMut(&Stretch, &Path) -> Result<Value>,
    mut folder: impl FnMut() -> Result<Box<dyn AsRef<Path>>>,
) -> Result<Vec<PartResult>> {
    let mut results = Vec::new();
    for part in &experiment.parts {
        let mut by_engine = Vec::new();
        if let Some(inserts) = &part.inserts {
            for way in Way::ALL {
                let dir = folder()?;
                let stretch = Stretch::of_inserts(experiment, part, way, inserts);
                let report = one(&stretch, &(*dir).as_ref().join("store"))?;
                let came = match report.get("refused").and_then(Value::as_str) {
                    Some(why) => Came::NotRun(why.to_owned()),
                    None => Came::Reports(vec![report]),
                };
                by_engine.push((way.name().to_owned(), came));
            }
            results.push(PartResult { part: part.clone(), by_engine });
            continue;
        }
        for engine in engines {
            let came = match part.obstacle(engine) {
                Some(why) => Came::NotRun(why.to_owned()),
                None => {
                    let dir = folder()?;
                    let store = (*dir).as_ref().join("store");
                    let stretches = stretches(experiment, part, engine)?;
                    let reports = stretches.iter().map(|stretch| one(stretch, &store));
                    Came::Reports(reports.collect::<Result<_>>()?)
                }
            };
            by_engine.push((engine.clone(), came));
        }
        results.push(PartResult { part: part.clone(), by_engine });
    }
    Ok(results)
}
