//! CleaveDB beside its peers: which there are, whether they are right, and how fast each is.
//!
//! Every run is a process of its own, so that processor time, memory and bytes are its alone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use cleavedb_bench::peers::absent;
use cleavedb_bench::selftest::{SelfTest, check};
use cleavedb_bench::{Plan, Settings, Silent, compare, count, engines, experiments, limit};

#[derive(Parser)]
#[command(version, about = "Measures CleaveDB beside other engines.")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the engines and which of them are absent on this machine.
    List,
    /// Compares engines with a map, with reopening in between.
    Selftest {
        /// Engines, with commas; all that are there by default.
        engines: Option<String>,
    },
    /// One run of one engine, a report as JSON.
    Run {
        /// The plan as JSON.
        #[arg(long)]
        plan: String,
        /// Folder of the store.
        #[arg(long)]
        dir: PathBuf,
        /// Memory group to run in.
        #[arg(long)]
        group: Option<PathBuf>,
    },
    /// The whole comparison: every engine, every workload; figures, tables and a page in a folder.
    ///
    /// Example: cleavedb-peers all --out comparison --cheap
    All(compare::suites::All),
    /// Interleaved rounds in which every engine runs once in every form; tables of ratios.
    ///
    /// Example: cleavedb-peers compare --against rocksdb,fjall --cheap
    Compare(compare::Args),
    /// The experiments of a paper, scaled by one factor; a table with the paper's own words.
    ///
    /// Example: cleavedb-peers experiment wayfinder --scale 0.001 --engines cleavedb,rocksdb-blob
    Experiment(experiments::command::Args),
    /// What `experiment` runs in a process of its own.
    #[command(hide = true)]
    Stretch {
        /// The steps as JSON.
        #[arg(long)]
        stretch: String,
        /// Folder of the store.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Exact instructions and bytes for an operation, counted by callgrind (valgrind).
    ///
    /// Example: cleavedb-peers count --engines cleavedb,rocksdb --phases fillrandom,readrandom
    Count(count::Args),
    /// One page with plots, made from the lines that `compare --out` keeps.
    Page {
        /// The lines of JSON.
        runs: PathBuf,
        /// The page to write.
        page: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::List => list(),
        Command::Selftest { engines } => selftest(engines.as_deref()),
        Command::Run { plan, dir, group } => run(&plan, &dir, group.as_deref()),
        Command::Page { runs, page } => write_page(&runs, &page),
        Command::Compare(args) => compare_some(&args),
        Command::Count(args) => count_some(&args),
        Command::All(all) => compare::suites::run(&all),
        Command::Experiment(args) => {
            experiments::command::experiment(&args).map(|text| print(&text))
        }
        Command::Stretch { stretch, dir } => experiments::command::stretch(&stretch, &dir),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cleavedb-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The result of a command.
fn print(text: &str) {
    println!("{text}");
}

fn compare_some(args: &compare::Args) -> Result<()> {
    let mut progress = compare::Progress::of(compare::runs_ahead(args)?);
    let found = compare::compare(args, "", &mut progress)?;
    print(&found.text);
    ensure!(found.failed.is_empty(), "not everything was measured: {}", found.failed.join("; "));
    Ok(())
}

fn count_some(args: &count::Args) -> Result<()> {
    let (text, failed) = count::count(args)?;
    print(&text);
    ensure!(failed.is_empty(), "not everything was counted: {}", failed.join("; "));
    Ok(())
}

fn list() -> Result<()> {
    for known in engines::all() {
        let io = if known.direct { "buffered and direct" } else { "buffered" };
        let there =
            absent(known.name).map_or_else(|| "there".to_owned(), |why| format!("ABSENT: {why}"));
        print(&format!("{:<16} {io:<20} {there}", known.name));
    }
    Ok(())
}

fn selftest(names: Option<&str>) -> Result<()> {
    let mut failed = 0;
    for known in engines::all().filter(|known| known.name != "memory") {
        if names.is_some_and(|names| !names.split(',').any(|name| name == known.name)) {
            continue;
        }
        if let Some(why) = absent(known.name) {
            print(&format!("{:<16} ABSENT: {why}", known.name));
            continue;
        }
        let dir = tempfile::tempdir()?;
        let settings = Settings { memory_budget: 32 << 20, ..Settings::default() };
        match check(known.open, &dir.path().join("store"), &settings, &SelfTest::default()) {
            Ok(passed) => print(&format!(
                "{:<16} passed: {}, {} calls, reopened {} times",
                known.name, passed.engine, passed.calls, passed.reopened
            )),
            Err(error) => {
                failed += 1;
                print(&format!("{:<16} FAILED: {error:#}", known.name));
            }
        }
    }
    ensure!(failed == 0, "{failed} engines failed");
    Ok(())
}

fn write_page(runs: &Path, page: &Path) -> Result<()> {
    let lines = std::fs::read_to_string(runs).with_context(|| format!("{}", runs.display()))?;
    std::fs::write(page, cleavedb_bench::page::page(&lines)?)
        .with_context(|| format!("{}", page.display()))
}

fn run(plan: &str, dir: &Path, group: Option<&Path>) -> Result<()> {
    if let Some(group) = group {
        limit::join(group)?;
    }
    let plan: Plan = serde_json::from_str(plan).context("the plan")?;
    let report = cleavedb_bench::run(&plan, dir, &mut Silent)?;
    print(&serde_json::to_string(&report)?);
    Ok(())
}
