//! Exact instructions for an operation, for differences that are too small for times: each
//! engine's run under callgrind (part of valgrind), which counts what every thread executes.
//!
//! - N1: callgrind writes down what it has counted whenever
//!   [`phase_boundary`](crate::measure::phase_boundary) is entered, which is just before and just
//!   after a phase, settling included. So a phase's count is one number, over all threads, shared
//!   libraries included, and no second run has to be subtracted.
//! - N2: while a phase is counted, nothing looks at the engine from outside.
//! - N3: the workload's own work (choosing, making and checking pairs) counts as well, the same
//!   for every engine: true ratios lie a little further from 1 than printed ones.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::data::parse_key_bytes;
use crate::engine::Settings;
use crate::engines;
use crate::peers::absent;
use crate::phase::Phase;
use crate::runner::Plan;

/// Matches the function at whose entry callgrind writes down what it counted.
const BOUNDARY: &str = "*phase_boundary*";

/// What to count.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Engines, with commas; ratios are to the first.
    #[arg(long, default_value = "cleavedb,rocksdb,fjall")]
    pub engines: String,
    /// Phases, with commas.
    #[arg(long, default_value = "fillrandom,overwrite,readrandom,seekrandom")]
    pub phases: String,
    /// Items loaded; 20k is 20,000.
    #[arg(long, default_value = "20k", value_parser = number)]
    pub num: u64,
    /// Operations of each other phase; as many as items by default.
    #[arg(long, value_parser = number)]
    pub ops: Option<u64>,
    /// Bytes of each key: 16 to 48.
    #[arg(long, default_value_t = crate::data::KEY_BYTES, value_parser = parse_key_bytes)]
    pub key_size: usize,
    /// Bytes of each value.
    #[arg(long, default_value_t = 1_024)]
    pub value_size: usize,
    /// Threads. Callgrind lets one run at a time.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Writes committed together.
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Bytes of memory for each engine. Little, so that so few items reach the device, too.
    #[arg(long, default_value_t = 16 << 20)]
    pub memory: u64,
    /// Past the page cache, where an engine can.
    #[arg(long)]
    pub direct: bool,
    /// Seed of keys, values and choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder in which stores are made and removed; the system's by default.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// The command of valgrind.
    #[arg(long, default_value = "valgrind")]
    pub valgrind: PathBuf,
}

/// A number such as 20000, 20k or 2M.
fn number(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (text.trim_end_matches('k'), 1_000),
        Some(b'M') => (text.trim_end_matches('M'), 1_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|&number| number > 0).ok_or_else(|| format!("'{text}' is no number of items"))
}

/// What was counted of one engine in one phase, for one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    operations: u64,
    instructions: f64,
    device_written: f64,
    asked_written: f64,
}

/// Counts all of it. Gives a table in Markdown, and which engines could not be counted.
///
/// # Errors
/// Unknown names, no valgrind, nothing to count.
pub fn count(args: &Args) -> Result<(String, Vec<String>)> {
    let phases = Phase::parse_list(&args.phases).map_err(anyhow::Error::msg)?;
    ensure!(!phases.contains(&Phase::Device), "the device executes nothing");
    let mut names = Vec::new();
    for name in args.engines.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        engines::find(name)?;
        names.push(name);
    }
    let tool = version(&args.valgrind)?;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        eprintln!("counting {name}");
        let counted = match absent(name) {
            Some(why) => Err(anyhow::anyhow!("ABSENT: {why}")),
            None => one(args, name, &phases),
        };
        match counted {
            Ok(figures) => all.push((name, figures)),
            Err(why) => failed.push(format!("{name}: {why:#}")),
        }
    }
    Ok((table(args, &tool, &phases, &all), failed))
}

/// The version of valgrind.
fn version(valgrind: &Path) -> Result<String> {
    let output = Command::new(valgrind).arg("--version").output().with_context(|| {
        format!(
            "'{}' does not run; counting needs valgrind (its package has that name nearly \
             everywhere), or --valgrind with its place",
            valgrind.display()
        )
    })?;
    ensure!(output.status.success(), "'{} --version' failed", valgrind.display());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Counts one engine, in a process and a store of its own.
fn one(args: &Args, name: &str, phases: &[Phase]) -> Result<Vec<Figures>> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }?;
    let counts = dir.path().join("counts");
    let settings = Settings {
        direct: args.direct && engines::find(name)?.direct,
        memory_budget: args.memory,
        ..Settings::default()
    };
    let plan = Plan {
        engine: name.to_owned(),
        phases: phases.to_vec(),
        num: args.num,
        operations: args.ops,
        key_bytes: args.key_size,
        value_bytes: args.value_size,
        threads: args.threads,
        batch: args.batch,
        seed: args.seed,
        counted: true,
        settings,
        ..Plan::default()
    };
    let mut command = Command::new(&args.valgrind);
    command.args(["-q", "--tool=callgrind", "--fair-sched=try"]);
    command.arg(format!("--dump-before={BOUNDARY}"));
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(std::env::current_exe()?);
    command.args(["run", "--plan", &serde_json::to_string(&plan)?, "--dir"]);
    command.arg(dir.path().join("store"));
    let output = command.stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        bail!("{}: {}", output.status, last_lines(&String::from_utf8_lossy(&output.stderr)));
    }
    let report: Value = serde_json::from_slice(&output.stdout).context("its report")?;
    (0..phases.len())
        .map(|place| {
            // Dumps are numbered from 1 on; the first holds what came before the first phase.
            let dump = dir.path().join(format!("counts.{}", 2 * place + 2));
            let text = fs::read(&dump).with_context(|| format!("{}", dump.display()))?;
            let instructions = total(&String::from_utf8_lossy(&text))
                .with_context(|| format!("{} has no sum", dump.display()))?;
            figures(&report, place, instructions).context("its report lacks a phase")
        })
        .collect()
}

/// Where an engine died, for a message.
fn last_lines(text: &str) -> String {
    const LINES: usize = 5;
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("; ")
}

/// The sum over all functions and threads in what callgrind wrote.
fn total(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: ")).and_then(|sum| sum.parse().ok())
}

fn figures(report: &Value, place: usize, instructions: u64) -> Option<Figures> {
    let phase = report.get("phases")?.get(place)?;
    let operations = phase.get("operations")?.as_u64()?;
    let each = |count: u64| count as f64 / operations.max(1) as f64;
    let written = |name: &str| phase.get(name)?.get("written")?.as_u64().map(each);
    Some(Figures {
        operations,
        instructions: each(instructions),
        device_written: written("device_bytes")?,
        asked_written: written("process_bytes")?,
    })
}

fn table(args: &Args, tool: &str, phases: &[Phase], all: &[(&str, Vec<Figures>)]) -> String {
    let mut out = format!(
        "# Instructions for an operation\n\n{} items of {} + {} bytes, {} threads, batches \
         of {}, {} bytes of memory, {}, seed {}; {tool}. All threads count, and what an engine \
         does until it has settled; so does the workload's own part, the same for each.\n\n\
         | phase | engine | operations | instructions | by the first engine's | bytes to the \
         device | bytes asked to be written |\n|---|---|---:|---:|---:|---:|---:|\n",
        args.num,
        args.key_size,
        args.value_size,
        args.threads,
        args.batch,
        args.memory,
        if args.direct { "direct I/O" } else { "buffered I/O" },
        args.seed,
    );
    for (place, phase) in phases.iter().enumerate() {
        let first = all.first().and_then(|(_, figures)| figures.get(place));
        for (name, figures) in all {
            let Some(figures) = figures.get(place) else { continue };
            let ratio = first.map_or(f64::NAN, |one| figures.instructions / one.instructions);
            let _ = writeln!(
                out,
                "| {phase} | {name} | {} | {:.0} | {ratio:.3} | {:.0} | {:.0} |",
                figures.operations,
                figures.instructions,
                figures.device_written,
                figures.asked_written,
            );
        }
    }
    out
}

#[cfg(test)]
mod tests;
