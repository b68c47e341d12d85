//! Runs a part on an engine: its steps in stretches between crashes, each stretch on the store
//! that the one before left.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inserts::{self, Inserts, Way};
use super::{Experiment, Part, Step};
use crate::distribution::Permutation;
use crate::engine::{Engine, Settings};
use crate::engines;
use crate::measure::resident_memory_bytes;
use crate::runner::{Plan, Silent, run_opened, run_steps};

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
    /// Whether the page cache forgets the store's files before it is opened.
    #[serde(default)]
    pub forgets: bool,
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
    let empty = |plan: &Plan, recovers, forgets| Stretch {
        experiment: experiment.name.to_owned(),
        part: part.name.clone(),
        plan: plan.clone(),
        labels: Vec::new(),
        steps: Vec::new(),
        crashes: false,
        recovers,
        forgets,
        inserts: None,
    };
    let (mut done, mut current) = (Vec::new(), empty(&plan, false, false));
    for step in &part.steps {
        match step {
            Step::Run { label, plan: own } => {
                let settings = plan.settings.clone();
                let own = Plan { engine: engine.to_owned(), settings, ..(**own).clone() };
                current.labels.push(label.clone());
                current.steps.push(own);
            }
            Step::Crash { cold } => {
                let before = std::mem::replace(&mut current, empty(&plan, true, *cold));
                done.push(Stretch { crashes: true, ..before });
            }
            Step::Reopen(settings) => {
                let direct = settings.direct && engines::find(engine)?.direct;
                plan.settings = Settings { direct, ..(**settings).clone() };
                done.push(std::mem::replace(&mut current, empty(&plan, false, false)));
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
            forgets: false,
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
    let (plan, steps) = (&stretch.plan, &stretch.steps);
    let mut recovered = None;
    let report = if stretch.recovers {
        let (engine, found) = recover(stretch, dir).with_context(what)?;
        recovered = Some(found);
        run_opened(engine, plan, steps, dir, &mut Silent)
    } else {
        run_steps(plan, steps, dir, &mut Silent)
    };
    let mut value = serde_json::to_value(&report.with_context(what)?)?;
    name_report(&mut value, stretch, recovered);
    Ok(value)
}

/// What opening a store took that was left by a crash.
#[derive(Clone, Debug, Serialize)]
struct Recovered {
    /// Seconds from opening it to having it open.
    open_seconds: f64,
    /// Seconds from opening it to having read what was stored last.
    first_get_seconds: f64,
    /// Resident memory of the process before opening and after that get.
    resident_bytes: [u64; 2],
    /// Memory the engine says it uses after that get.
    memory_bytes: u64,
    /// The engine's statistics after that get.
    opened: Value,
}

/// Opens the store, which stays open, with all that is measured of it.
fn recover(stretch: &Stretch, dir: &Path) -> Result<(Box<dyn Engine>, Recovered)> {
    let plan = &stretch.plan;
    let data = plan.dataset();
    let num = plan.num.max(1);
    // The end of a random load: the end of the log.
    let key = data.key(Permutation::new(num, plan.seed).apply(num - 1));
    if stretch.forgets {
        forget_files(dir).context("emptying the page cache of the store")?;
    }
    let resident = resident_memory_bytes();
    let before = Instant::now();
    let engine = engines::open(&plan.engine, dir, &plan.settings)?;
    let open_seconds = before.elapsed().as_secs_f64();
    let mut right = false;
    engine.get(&key, &mut |value| right = data.is_value_of(&key, value))?;
    let first_get_seconds = before.elapsed().as_secs_f64();
    ensure!(right, "key {} is lost or wrong after the crash", key.escape_ascii());
    let (resident_read, stats) = (resident_memory_bytes(), engine.stats());
    let recovered = Recovered {
        open_seconds,
        first_get_seconds,
        resident_bytes: [resident, resident_read],
        memory_bytes: stats.memory_bytes,
        opened: stats.detail,
    };
    Ok((engine, recovered))
}

/// Syncs the files of a store, and has the page cache forget them.
fn forget_files(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget_files(&entry.path())?;
        } else if entry.file_type()?.is_file() {
            let file = std::fs::File::open(entry.path())?;
            rustix::fs::fdatasync(&file)?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Puts the names of a stretch into its report.
fn name_report(report: &mut Value, stretch: &Stretch, recovered: Option<Recovered>) {
    if let Some(fields) = report.as_object_mut() {
        // A run without an engine has no report of its own plan.
        fields.entry("plan").or_insert_with(|| json!(stretch.plan));
        fields.insert("experiment".to_owned(), json!(stretch.experiment));
        fields.insert("part".to_owned(), json!(stretch.part));
        fields.insert("contender".to_owned(), json!(stretch.plan.engine));
        fields.insert("labels".to_owned(), json!(stretch.labels));
        let open_seconds = recovered.as_ref().map(|found| found.open_seconds);
        fields.insert("open_seconds".to_owned(), json!(open_seconds));
        let first_get_seconds = recovered.as_ref().map(|found| found.first_get_seconds);
        fields.insert("first_get_seconds".to_owned(), json!(first_get_seconds));
        fields.insert("recovered".to_owned(), json!(recovered));
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
    one: impl FnMut(&Stretch, &Path) -> Result<Value>,
    folder: impl FnMut() -> Result<Box<dyn AsRef<Path>>>,
) -> Result<Vec<PartResult>> {
    run_each(experiment, engines, one, folder, |_| None, |_| Ok(()))
}

/// The same; what `kept` has the reports of is not run again, and `after` hears of all results
/// after each part.
///
/// # Errors
/// As of [`run_all`], and those of `after`.
pub fn run_each(
    experiment: &Experiment,
    engines: &[String],
    mut one: impl FnMut(&Stretch, &Path) -> Result<Value>,
    mut folder: impl FnMut() -> Result<Box<dyn AsRef<Path>>>,
    kept: impl Fn(&[Stretch]) -> Option<Vec<Value>>,
    mut after: impl FnMut(&[PartResult]) -> Result<()>,
) -> Result<Vec<PartResult>> {
    let mut results = Vec::new();
    let mut all = |stretches: &[Stretch]| -> Result<Vec<Value>> {
        if let Some(reports) = kept(stretches) {
            return Ok(reports);
        }
        let dir = folder()?;
        let store = (*dir).as_ref().join("store");
        stretches.iter().map(|stretch| one(stretch, &store)).collect()
    };
    for part in &experiment.parts {
        let mut by_engine = Vec::new();
        if let Some(inserts) = &part.inserts {
            for way in Way::ALL {
                let reports = all(&[Stretch::of_inserts(experiment, part, way, inserts)])?;
                let refused = reports.first().and_then(|report| report.get("refused")?.as_str());
                let came = match refused {
                    Some(why) => Came::NotRun(why.to_owned()),
                    None => Came::Reports(reports),
                };
                by_engine.push((way.name().to_owned(), came));
            }
            results.push(PartResult { part: part.clone(), by_engine });
            after(&results)?;
            continue;
        }
        for engine in engines {
            let came = match part.obstacle(engine) {
                Some(why) => Came::NotRun(why.to_owned()),
                None => Came::Reports(all(&stretches(experiment, part, engine)?)?),
            };
            by_engine.push((engine.clone(), came));
        }
        results.push(PartResult { part: part.clone(), by_engine });
        after(&results)?;
    }
    Ok(results)
}
