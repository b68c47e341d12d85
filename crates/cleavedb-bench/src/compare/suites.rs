//! The whole comparison with one command: every peer, every workload, one page.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::compare::{self, Args, Progress};
use crate::pairs::PAIRS_MIN;

/// Items, and memory for everything, at scale 1: the shape in which peers' speed is known.
const ITEMS: f64 = 5e6;
const MEMORY_BYTES: f64 = (2u64 << 30) as f64;

/// Least of both: below it an engine has no room to be itself.
const ITEMS_MIN: u64 = 10_000;
const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct All {
    /// Folder for `runs.jsonl`, `comparison.md` and `report.html`; created if need be.
    #[arg(long)]
    pub out: PathBuf,
    /// Size of everything. 1 is 5 million items of 1 KiB with 2 GiB of memory.
    #[arg(long, default_value_t = 0.2)]
    pub scale: f64,
    /// The engine that the claims are about.
    #[arg(long, default_value = "cleavedb")]
    pub engine: String,
    /// The others, with commas, or `all` for all that are there.
    #[arg(long, default_value = "all")]
    pub against: String,
    /// Suites, with commas; `values` stands for those of values stored apart. Without this, all
    /// but these.
    #[arg(long)]
    pub suites: Option<String>,
    /// Rounds; in each, every engine runs once in every form.
    #[arg(long, default_value_t = PAIRS_MIN)]
    pub pairs: usize,
    /// One round of at most 20,000 items: to see that all works; no claim comes of it.
    #[arg(long)]
    pub cheap: bool,
    /// Longest time of one phase in seconds, 0 for no limit; loads are never cut short.
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Seed of keys, values and choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder in which stores are made and removed; the system's by default.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Folder of the kernel's memory groups; a group below it bounds each run.
    #[arg(long, default_value = crate::limit::GROUPS)]
    pub groups: PathBuf,
}

/// Workloads that share a store and a plan.
struct Suite {
    name: &'static str,
    phases: &'static str,
    value_bytes: usize,
    threads: usize,
    sync: bool,
    /// Share of the scale's items.
    items: f64,
    /// Engines where all are asked for.
    against: &'static str,
}

/// Each begins with an empty store.
const SUITES: &[Suite] = &[
    Suite {
        name: "usual",
        phases: "fillrandom,overwrite,readrandom,readzipf,readmissing,multiget,seekrandom,\
                 seekreverse,scan,scanreverse,overwritezipf,ycsb,deleterandom",
        ..Suite::COMMON
    },
    Suite { name: "sequential", phases: "fillseq", ..Suite::COMMON },
    Suite { name: "batches", phases: "fillbatch,readrandom", ..Suite::COMMON },
    Suite { name: "sorted batches", phases: "fillsorted", ..Suite::COMMON },
    Suite { name: "merges", phases: "rmwrandom,mergerandom,up2x", ..Suite::COMMON },
    Suite { name: "one thread", phases: "fillrandom,readrandom", threads: 1, ..Suite::COMMON },
    Suite { name: "16 threads", phases: "fillrandom,readrandom", threads: 16, ..Suite::COMMON },
    Suite {
        name: "32 threads",
        phases: "fillrandom,readrandom,ycsb-a",
        threads: 32,
        ..Suite::COMMON
    },
    Suite {
        name: "synced",
        phases: "fillrandom",
        threads: 1,
        sync: true,
        items: 0.005,
        ..Suite::COMMON
    },
    Suite {
        name: "synced 64 threads",
        phases: "fillrandom",
        threads: 64,
        sync: true,
        items: 0.05,
        ..Suite::COMMON
    },
    Suite {
        name: "100 bytes",
        phases: "fillrandom,overwrite,readrandom,seekrandom",
        value_bytes: 100,
        items: 2.0,
        ..Suite::COMMON
    },
    Suite {
        name: "16 KiB",
        phases: "fillrandom,overwrite,readrandom,seekrandom",
        value_bytes: 16 << 10,
        items: 0.0625,
        ..Suite::COMMON
    },
];

/// Loads of values stored apart, each against the engines that are held against it. Only run when
/// named: others have most of it.
const VALUES: &[Suite] = &[
    Suite {
        name: "values by one thread",
        phases: "fillrandom",
        threads: 1,
        against: SEPARATING,
        ..Suite::COMMON
    },
    Suite {
        name: "values by two threads",
        phases: "fillrandom",
        against: SEPARATING,
        ..Suite::COMMON
    },
    Suite {
        name: "values in sorted batches",
        phases: "fillsorted",
        against: "lmdb,redb",
        ..Suite::COMMON
    },
];

/// RocksDB, and engines that keep values apart.
const SEPARATING: &str = "rocksdb,rocksdb-blob,fjall-blob";

impl Suite {
    const COMMON: Self = Self {
        name: "",
        phases: "",
        value_bytes: 1_024,
        threads: 2,
        sync: false,
        items: 1.0,
        against: "all",
    };

    fn args(&self, all: &All) -> Args {
        let num = ((ITEMS * all.scale * self.items) as u64).max(ITEMS_MIN);
        Args {
            engine: all.engine.clone(),
            against: if all.against == "all" { self.against.into() } else { all.against.clone() },
            phases: self.phases.to_owned(),
            num,
            ops: None,
            key_size: crate::data::KEY_BYTES,
            value_size: self.value_bytes,
            mixed: false,
            zipf: crate::distribution::ZIPF_EXPONENT,
            multi: 32,
            threads: self.threads,
            batch: 1,
            seconds: (all.seconds > 0.0).then_some(all.seconds),
            memory: ((MEMORY_BYTES * all.scale) as u64).max(MEMORY_BYTES_MIN),
            sync: self.sync,
            pairs: all.pairs,
            cheap: all.cheap,
            seed: all.seed,
            dir: all.dir.clone(),
            groups: all.groups.clone(),
            out: Some(all.out.join("runs.jsonl")),
        }
    }
}

/// The suites asked for.
fn chosen(all: &All) -> Result<Vec<&'static Suite>> {
    let Some(names) = &all.suites else { return Ok(SUITES.iter().collect()) };
    let mut suites = Vec::new();
    for name in names.split(',').map(str::trim) {
        if name == "values" {
            suites.extend(VALUES);
            continue;
        }
        suites.push(every().find(|suite| suite.name == name).with_context(|| {
            let known: Vec<_> = every().map(|suite| suite.name).collect();
            format!("there is no suite '{name}'; choose from {}; values", known.join("; "))
        })?);
    }
    Ok(suites)
}

fn every() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().chain(VALUES)
}

/// Runs everything and writes the three files after each suite, so that a comparison that is
/// stopped has what it found.
///
/// # Errors
/// Unknown names, a folder that holds runs already, the system's; at the end, peers that failed.
pub fn run(all: &All) -> Result<()> {
    ensure!(all.scale > 0.0 && all.scale.is_finite(), "--scale takes a number above 0");
    ensure!(all.seconds >= 0.0 && all.seconds.is_finite(), "--seconds takes a number, or 0");
    let suites = chosen(all)?;
    fs::create_dir_all(&all.out).with_context(|| format!("{}", all.out.display()))?;
    let runs = all.out.join("runs.jsonl");
    ensure!(!runs.exists(), "{} exists; name another folder", runs.display());
    let ahead: Result<Vec<usize>> =
        suites.iter().map(|suite| compare::runs_ahead(&suite.args(all))).collect();
    let mut progress = Progress::of(ahead?.into_iter().sum());
    let (mut text, mut failed) = (String::new(), Vec::new());
    for suite in suites {
        let found = compare::compare(&suite.args(all), suite.name, &mut progress)?;
        let _ = writeln!(text, "{}", found.text);
        failed.extend(found.failed.into_iter().map(|why| format!("{}: {why}", suite.name)));
        let lines = fs::read_to_string(&runs)?;
        let overview = crate::page::overview(&lines)?;
        fs::write(all.out.join("comparison.md"), format!("{text}\n# All suites\n{overview}"))?;
        // Without a single run there is no page.
        if lines.lines().any(|line| line.contains("\"phases\":")) {
            fs::write(all.out.join("report.html"), crate::page::page(&lines)?)?;
        }
    }
    ensure!(failed.is_empty(), "not everything could be measured: {}", failed.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests;
