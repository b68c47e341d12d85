//! Pairs of processes, one of each engine, until the ratios may be believed; the table of them.
//!
//! - C1: an engine's figures count only after it has passed the self-test, in the form in which it
//!   is measured.
//! - C2: every run begins with an empty folder, and both sides of a pair have one plan.
//! - C3: where an engine can be opened buffered and direct, both are measured, and the table says
//!   which.

mod table;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::engine::Settings;
use crate::engines::{self, Known};
use crate::limit::Group;
use crate::pairs::{OTHERS_MAX, Others, PAIRS_MIN, Pairs, Side, run_pairs};
use crate::peers::absent;
use crate::phase::Phase;
use crate::runner::Plan;
use crate::selftest::{self, SelfTest};

/// Pairs loaded and pairs of runs in the cheap mode.
const CHEAP_NUM: u64 = 20_000;
const CHEAP_PAIRS: usize = 1;

/// Shares of a memory group that an engine may use itself: with direct I/O nearly all of it,
/// otherwise the page cache wants its part.
const DIRECT_SHARE: f64 = 0.85;
const BUFFERED_SHARE: f64 = 0.5;

/// Phases compared where none are named.
const PHASES: &str = "fillrandom,overwrite,readrandom,readmissing,seekrandom,scan,ycsb";

/// What to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The engine that the claims are about.
    #[arg(long, default_value = "cleavedb")]
    pub engine: String,
    /// The others, with commas, or `all` for all that are there.
    #[arg(long, default_value = "rocksdb,fjall")]
    pub against: String,
    /// Phases, with commas.
    #[arg(long, default_value = PHASES)]
    pub phases: String,
    /// Items loaded.
    #[arg(long, default_value_t = 1_000_000)]
    pub num: u64,
    /// Operations of each other phase; as many as items by default.
    #[arg(long)]
    pub ops: Option<u64>,
    /// Bytes of each value, or of the largest. Separated are values from 1 KiB on.
    #[arg(long, default_value_t = 1_024)]
    pub value_size: usize,
    /// Values of 64 bytes up to that size, each doubling as often as the next.
    #[arg(long)]
    pub mixed: bool,
    /// Exponent of the phases readzipf, overwritezipf and up2x.
    #[arg(long, default_value_t = crate::distribution::ZIPF_EXPONENT)]
    pub zipf: f64,
    /// Keys fetched together by multiget.
    #[arg(long, default_value_t = 32)]
    pub multi: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Writes committed together.
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Longest time of one phase in seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Bytes of memory for everything.
    #[arg(long, default_value_t = 256 << 20)]
    pub memory: u64,
    /// Every write on the device before it is acknowledged.
    #[arg(long)]
    pub sync: bool,
    /// Pairs of runs.
    #[arg(long, default_value_t = PAIRS_MIN)]
    pub pairs: usize,
    /// One pair of 20,000 items: to see that all works; no claim comes of it.
    #[arg(long)]
    pub cheap: bool,
    /// Seed of keys, values and choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder in which stores are made and removed; the system's by default.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Folder of the kernel's memory groups; a group below it bounds each run.
    #[arg(long, default_value = crate::limit::GROUPS)]
    pub groups: PathBuf,
    /// File to which every run's report is appended as a line of JSON.
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// An engine in one form.
#[derive(Clone, Copy, Debug)]
struct Contender {
    known: &'static Known,
    direct: bool,
}

impl Contender {
    fn name(self) -> String {
        format!("{}, {}", self.known.name, if self.direct { "direct" } else { "buffered" })
    }
}

/// Runs the comparison and gives it as a text in Markdown.
///
/// # Errors
/// Unknown names, an engine that fails the self-test, or the first error of a run.
pub fn compare(args: &Args) -> Result<String> {
    let first = engines::all().find(|known| known.name == args.engine);
    let first = first.with_context(|| format!("there is no engine '{}'", args.engine))?;
    let (others, missing) = contenders(args)?;
    let group = Group::create(&args.groups, args.memory);
    let session = Session { args, plan: plan(args)?, group: group.as_ref().ok() };
    let mut text = table::heading(&session.plan, session.pairs());
    match &group {
        Ok(group) => text.push_str(&format!(
            "Memory: a group of the kernel with {} bytes for each run, page cache included.\n",
            group.bytes()
        )),
        Err(why) => text.push_str(&format!(
            "Memory: not bounded by the kernel ({why:#}). Direct I/O on both sides is the equal \
             comparison; where an engine is buffered, it has the page cache besides.\n"
        )),
    }
    text.extend(missing.iter().map(|line| format!("\n{line}\n")));
    let mut tested = Vec::new();
    for other in others {
        let one = Contender { known: first, direct: other.direct && first.direct };
        for contender in [one, other] {
            if !tested.contains(&contender.name()) {
                session.test(contender)?;
                tested.push(contender.name());
            }
        }
        let pairs = session.run(one, other)?;
        text.push_str(&table::ratios(&one.name(), &other.name(), &pairs));
    }
    Ok(text)
}

/// Every form of the engines named, and a line for each that is absent.
fn contenders(args: &Args) -> Result<(Vec<Contender>, Vec<String>)> {
    let all = args.against == "all";
    let names: Vec<&str> = args.against.split(',').map(str::trim).collect();
    for name in names.iter().filter(|_| !all) {
        engines::find(name)?;
    }
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for known in engines::all() {
        let asked = if all {
            !["memory", args.engine.as_str()].contains(&known.name)
        } else {
            names.contains(&known.name)
        };
        if !asked {
            continue;
        }
        if let Some(why) = absent(known.name) {
            missing.push(format!("ABSENT: {}: {why}", known.name));
            continue;
        }
        there.push(Contender { known, direct: false });
        if known.direct {
            there.push(Contender { known, direct: true });
        }
    }
    ensure!(!there.is_empty(), "no engine to compare with is there: {}", missing.join("; "));
    Ok((there, missing))
}

fn plan(args: &Args) -> Result<Plan> {
    ensure!(args.zipf > 0.0 && args.zipf.is_finite(), "--zipf takes a number above 0");
    let settings = Settings { sync: args.sync, ..Settings::default() };
    Ok(Plan {
        phases: Phase::parse_list(&args.phases).map_err(anyhow::Error::msg)?,
        num: if args.cheap { args.num.min(CHEAP_NUM) } else { args.num },
        operations: args.ops,
        value_bytes: args.value_size,
        mixed_values: args.mixed,
        zipf_exponent: args.zipf,
        multi_get_keys: args.multi,
        threads: args.threads,
        batch: args.batch,
        seconds: args.seconds,
        seed: args.seed,
        settings,
        ..Plan::default()
    })
}

struct Session<'a> {
    args: &'a Args,
    plan: Plan,
    group: Option<&'a Group>,
}

impl Session<'_> {
    fn pairs(&self) -> usize {
        if self.args.cheap { CHEAP_PAIRS } else { self.args.pairs }
    }

    fn folder(&self) -> Result<tempfile::TempDir> {
        Ok(match &self.args.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }?)
    }

    fn settings(&self, contender: Contender) -> Settings {
        let share = match self.group {
            None => 1.0,
            Some(_) if contender.direct => DIRECT_SHARE,
            Some(_) => BUFFERED_SHARE,
        };
        let memory_budget = (self.args.memory as f64 * share) as u64;
        Settings { direct: contender.direct, memory_budget, ..self.plan.settings.clone() }
    }

    fn test(&self, contender: Contender) -> Result<()> {
        progress(&format!("self-test of {}", contender.name()));
        let dir = self.folder()?;
        let settings = self.settings(contender);
        let store = dir.path().join("store");
        selftest::check(contender.known.open, &store, &settings, &SelfTest::default())
            .with_context(|| format!("{} is not right, its figures mean nothing", contender.name()))
            .map(drop)
    }

    fn run(&self, one: Contender, other: Contender) -> Result<Pairs<Value>> {
        let mut watch = Others::watch();
        let mut runs = 0;
        run_pairs(
            self.pairs(),
            // A cheap run claims nothing, so it may be disturbed; the table says by how much.
            if self.args.cheap { f64::INFINITY } else { OTHERS_MAX },
            |side| {
                runs += 1;
                let contender = if side == Side::A { one } else { other };
                progress(&format!("run {runs}: {}", contender.name()));
                self.process(contender)
            },
            || watch.share(),
        )
    }

    /// One run in a process of its own.
    fn process(&self, contender: Contender) -> Result<Value> {
        let dir = self.folder()?;
        let settings = self.settings(contender);
        let plan = Plan { engine: contender.known.name.into(), settings, ..self.plan.clone() };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--plan", &serde_json::to_string(&plan)?, "--dir"]);
        command.arg(dir.path().join("store"));
        if let Some(group) = self.group {
            command.arg("--group").arg(group.path());
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("the run of {} ended with {}", contender.name(), output.status);
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("its report")?;
        if let Some(path) = &self.args.out {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{report}")?;
        }
        Ok(report)
    }
}

fn progress(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests;
