//! `cleavedb-peers experiment`: every part on every engine, each in a process of its own.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::execute::{Stretch, run_all, run_stretch};
use super::{Experiment, NAMES, Scale, find, markdown};
use crate::engines;
use crate::peers::absent;

/// Number of the signal by which an abandoned process ends.
const ABORT_SIGNAL: i32 = 6;

/// What to reproduce.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The paper: wisckey, novkv, wayfinder, kdsep or flexdb.
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
    /// Prints the parts with their settings and runs nothing.
    #[arg(long)]
    pub list: bool,
    /// Folder in which stores are made and removed; the system's by default.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// File to which every run's report is appended as a line of JSON.
    #[arg(long)]
    pub out: Option<PathBuf>,
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
    let results = run_all(
        &experiment,
        &there,
        |stretch, dir| {
            progress(&format!("{}: {}", stretch.plan.engine, stretch.part));
            process(stretch, dir, args.out.as_deref())
        },
        || {
            Ok(Box::new(match &args.dir {
                Some(dir) => tempfile::tempdir_in(dir)?,
                None => tempfile::tempdir()?,
            }))
        },
    )?;
    Ok(markdown(&experiment, scale, &results) + &missing.concat())
}

fn planned(experiment: &Experiment) -> Vec<super::execute::PartResult> {
    let parts = experiment.parts.iter().cloned();
    parts.map(|part| super::execute::PartResult { part, by_engine: Vec::new() }).collect()
}

/// One stretch in a process of its own.
fn process(stretch: &Stretch, dir: &Path, out: Option<&Path>) -> Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["stretch", "--stretch", &serde_json::to_string(stretch)?, "--dir"]);
    let output = command.arg(dir).stderr(Stdio::inherit()).output()?;
    let ended = output.status;
    let as_planned =
        if stretch.crashes { ended.signal() == Some(ABORT_SIGNAL) } else { ended.success() };
    if !as_planned {
        bail!("{}, {}: the process ended with {ended}", stretch.plan.engine, stretch.part);
    }
    let report: Value = serde_json::from_slice(&output.stdout).context("the report of a run")?;
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
        std::process::abort();
    }
    Ok(())
}

fn progress(line: &str) {
    eprintln!("{line}");
}
