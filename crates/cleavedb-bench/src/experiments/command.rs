//! `cleavedb-peers experiment`: every part on every engine, each in a process of its own.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

use super::execute::{PartResult, Stretch, run_each, run_stretch};
use super::{Experiment, NAMES, Part, Scale, find, markdown, page};
use crate::engines;
use crate::peers::absent;

/// Number of the signal by which an abandoned process ends: nothing can be done about it.
const KILL_SIGNAL: i32 = 9;

/// What to reproduce.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The paper: wisckey, novkv, wayfinder, kdsep or flexdb; or values or unified, which have
    /// none.
    pub name: String,
    /// By what the paper's numbers of items and operations and its memory are multiplied.
    #[arg(long, default_value_t = 0.000_1)]
    pub scale: f64,
    /// Engines, with commas.
    #[arg(long, default_value = "cleavedb,rocksdb,rocksdb-blob,leveldb")]
    pub engines: String,
    /// Only parts whose name contains this.
    #[arg(long)]
    pub part: Option<String>,
    /// Past the page cache in every part, so that memory is equal; engines that cannot say so.
    #[arg(long)]
    pub direct: bool,
    /// Prints the parts with their settings and runs nothing.
    #[arg(long)]
    pub list: bool,
    /// Folder in which stores are made and removed; the system's by default.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// File to which every run's report is appended as a line of JSON.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Folder for `runs.jsonl`, `experiment.md` and `experiment.html`, written after each part.
    /// Runs that it already holds are not run again: an experiment that was stopped goes on.
    #[arg(long, conflicts_with = "out")]
    pub folder: Option<PathBuf>,
}

/// Runs the experiment and gives it as a text in Markdown.
///
/// # Errors
/// Unknown names, or the first error of a run.
pub fn experiment(args: &Args) -> Result<String> {
    let scale = Scale::new(args.scale)?;
    let mut experiment = find(&args.name, scale)?;
    if let Some(wanted) = &args.part {
        experiment.parts.retain(|part| part.name.contains(wanted.as_str()));
        ensure!(!experiment.parts.is_empty(), "no part of {} has '{wanted}'", NAMES.join(", "));
    }
    if args.direct {
        experiment.parts.iter_mut().for_each(Part::go_direct);
    }
    if args.list {
        return Ok(markdown(&experiment, scale, &planned(&experiment)));
    }
    let mut missing = Vec::new();
    let mut there = Vec::new();
    for name in args.engines.split(',').map(str::trim) {
        engines::find(name)?;
        match absent(name) {
            Some(why) => missing.push(format!("\nABSENT: {name}: {why}\n")),
            None => there.push(name.to_owned()),
        }
    }
    ensure!(!there.is_empty(), "no engine is there: {}", missing.concat());
    let missing = missing.concat();
    let keeper = Keeper::new(args)?;
    let begun = Instant::now();
    let runs = experiment.parts.len() * there.len();
    let mut run = 0;
    let results = run_each(
        &experiment,
        &there,
        |stretch, dir| {
            run += usize::from(!dir.exists());
            progress(&format!(
                "{:.0} s, run {run} of {runs} at most: {}: {}",
                begun.elapsed().as_secs_f64(),
                stretch.plan.engine,
                stretch.part
            ));
            process(stretch, dir, keeper.runs.as_deref())
        },
        || {
            Ok(Box::new(match &args.dir {
                Some(dir) => tempfile::tempdir_in(dir)?,
                None => tempfile::tempdir()?,
            }))
        },
        |stretches| keeper.kept(stretches),
        |results| keeper.write(&(markdown(&experiment, scale, results) + &missing), results),
    )?;
    Ok(markdown(&experiment, scale, &results) + &missing)
}

/// Where runs and results are kept.
struct Keeper {
    folder: Option<PathBuf>,
    /// The file of lines.
    runs: Option<PathBuf>,
    /// Reports that were there before.
    before: Vec<Value>,
}

impl Keeper {
    fn new(args: &Args) -> Result<Self> {
        let Some(folder) = &args.folder else {
            return Ok(Self { folder: None, runs: args.out.clone(), before: Vec::new() });
        };
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        let runs = folder.join("runs.jsonl");
        let lines = if runs.exists() { fs::read_to_string(&runs)? } else { String::new() };
        // A process that is killed may leave half a line; its run is done again.
        let before = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !lines.is_empty() && !lines.ends_with('\n') {
            fs::write(&runs, lines + "\n")?;
        }
        Ok(Self { folder: Some(folder.clone()), runs: Some(runs), before })
    }

    /// The reports of all of `stretches`, if each was run just so.
    fn kept(&self, stretches: &[Stretch]) -> Option<Vec<Value>> {
        let one = |stretch: &Stretch| {
            let asked = serde_json::to_string(stretch).ok()?;
            let known =
                |report: &&Value| report.get("asked").and_then(Value::as_str) == Some(&asked);
            self.before.iter().rfind(known).cloned()
        };
        stretches.iter().map(one).collect()
    }

    fn write(&self, text: &str, results: &[PartResult]) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::write(folder.join("experiment.md"), text)?;
        Ok(fs::write(folder.join("experiment.html"), page::page(text, results)?)?)
    }
}

fn planned(experiment: &Experiment) -> Vec<PartResult> {
    let parts = experiment.parts.iter().cloned();
    parts.map(|part| PartResult { part, by_engine: Vec::new() }).collect()
}

/// One stretch in a process of its own.
fn process(stretch: &Stretch, dir: &Path, out: Option<&Path>) -> Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    let asked = serde_json::to_string(stretch)?;
    command.args(["stretch", "--stretch", &asked, "--dir"]);
    let output = command.arg(dir).stderr(Stdio::inherit()).output()?;
    let ended = output.status;
    let as_planned =
        if stretch.crashes { ended.signal() == Some(KILL_SIGNAL) } else { ended.success() };
    if !as_planned {
        bail!("{}, {}: the process ended with {ended}", stretch.plan.engine, stretch.part);
    }
    let mut report: Value =
        serde_json::from_slice(&output.stdout).context("the report of a run")?;
    if let Some(fields) = report.as_object_mut() {
        fields.insert("asked".to_owned(), Value::String(asked));
    }
    if let Some(path) = out {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{report}")?;
    }
    Ok(report)
}

/// The other side of [`experiment`]: runs a stretch given as JSON, prints its report, and dies
/// without closing the store where that is the plan.
///
/// # Errors
/// Those of the run.
pub fn stretch(json: &str, dir: &Path) -> Result<()> {
    let stretch: Stretch = serde_json::from_str(json).context("the stretch")?;
    let stretch = stretch.abandoned();
    let report = run_stretch(&stretch, dir)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{report}")?;
    out.flush()?;
    if stretch.crashes {
        kill_process(getpid(), Signal::KILL).context("ending as by SIGKILL")?;
    }
    Ok(())
}

fn progress(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests;
