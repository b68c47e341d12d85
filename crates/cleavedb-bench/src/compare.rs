//! Rounds of processes, one of each engine and form, until the ratios may be believed; the table
//! of them. All peers share the rounds, and so the runs of the leading engine.
//!
//! - C1: an engine's figures count only after it has passed the self-test, in the form in which it
//!   is measured.
//! - C2: every run begins with an empty folder, and both sides of a pair have one plan.
//! - C3: where an engine can be opened buffered and direct, both are measured in every round; the
//!   tables show both, and the overview the better one of each side.

mod floor;
mod limits;
pub(crate) mod overview;
mod progress;
mod session;
pub mod suites;
pub(crate) mod table;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::compare::session::Session;
use crate::data::parse_key_bytes;
use crate::engine::Settings;
use crate::engines::{self, Known};
use crate::limit::Group;
use crate::pairs::{PAIRS_MIN, Rounds};
use crate::peers::absent;
use crate::phase::Phase;
use crate::runner::Plan;

pub use progress::Progress;

pub(crate) use limits::sentences as limit_sentences;

/// Pairs loaded and rounds of runs in the cheap mode.
const CHEAP_NUM: u64 = 20_000;
const CHEAP_PAIRS: usize = 1;

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
    /// Bytes of each key: 16 to 48.
    #[arg(long, default_value_t = crate::data::KEY_BYTES, value_parser = parse_key_bytes)]
    pub key_size: usize,
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
    /// Longest time of one phase in seconds; loads are never cut short.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Bytes of memory for everything.
    #[arg(long, default_value_t = 256 << 20)]
    pub memory: u64,
    /// Every write on the device before it is acknowledged.
    #[arg(long)]
    pub sync: bool,
    /// Rounds; in each, every engine runs once in every form.
    #[arg(long, default_value_t = PAIRS_MIN)]
    pub pairs: usize,
    /// One round of 20,000 items: to see that all works; no claim comes of it.
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

    /// Every form of an engine.
    fn forms(known: &'static Known) -> impl Iterator<Item = Self> {
        [false, true]
            .into_iter()
            .filter(|&direct| known.direct || !direct)
            .map(move |direct| Self { known, direct })
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Found {
    /// All of it in Markdown.
    pub text: String,
    /// Peers that could not be measured, and why.
    pub failed: Vec<String>,
}

/// Runs the comparison called `title` (empty where it is the only one). What one peer fails at is
/// kept and said; the others go on.
///
/// # Errors
/// Unknown names, no peer at all, or the system's.
pub fn compare(args: &Args, title: &str, progress: &mut Progress) -> Result<Found> {
    let first = engines::all().find(|known| known.name == args.engine);
    let first = first.with_context(|| format!("there is no engine '{}'", args.engine))?;
    let (others, missing) = peers(args)?;
    let group = Group::create(&args.groups, args.memory);
    let plan = plan(args)?;
    let mut session = Session { args, title, plan, group: group.as_ref().ok(), progress };
    let mut text = table::heading(&session.plan, title, session.rounds());
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
    let mut lines = vec![session.limits()?];
    text.extend(lines.iter().map(|line| format!("\nLimits: {}\n", limits::sentences(line))));
    let mut failed = Vec::new();
    let contenders = tested(&mut session, first, &others, &mut failed);
    match contenders.and_then(|contenders| {
        session.rounds_of(&contenders).map(|(rounds, missing)| (contenders, rounds, missing))
    }) {
        Ok((contenders, rounds, missing)) => {
            failed.extend(missing);
            text.push_str(&tables(&contenders, first, &others, &rounds));
            lines.extend(rounds.kept.into_iter().flatten().flatten());
        }
        Err(why) => failed.push(format!("{why:#}")),
    }
    for why in &failed {
        let _ = write!(text, "\nFAILED: {why}\n");
    }
    text.push_str(&table::overview(&overview::rows(&lines.iter().collect::<Vec<_>>())));
    Ok(Found { text, failed })
}

/// The contenders that are right, in the order of the first round. What is wrong with a peer goes
/// to `failed`.
fn tested(
    session: &mut Session<'_>,
    first: &'static Known,
    others: &[&'static Known],
    failed: &mut Vec<String>,
) -> Result<Vec<Contender>> {
    let mut right = Vec::new();
    for contender in contenders(first, others) {
        match session.test(contender) {
            Ok(()) => right.push(contender),
            Err(why) if contender.known.name == first.name => return Err(why),
            Err(why) => failed.push(format!("{why:#}")),
        }
    }
    Ok(right)
}

/// The tables of every peer, of each form beside its like.
fn tables(
    contenders: &[Contender],
    first: &Known,
    others: &[&'static Known],
    rounds: &Rounds<Value>,
) -> String {
    let forms = |name: &'static str| {
        contenders.iter().enumerate().filter(move |(_, contender)| contender.known.name == name)
    };
    let mut text = String::new();
    for other in others {
        for (a, ours) in forms(first.name) {
            for (b, theirs) in forms(other.name) {
                if stand_together(*ours, *theirs) {
                    text.push_str(&table::ratios((a, &ours.name()), (b, &theirs.name()), rounds));
                }
            }
        }
    }
    text
}

/// Whether a table of these two forms is listed: those of one kind, and all forms of one side
/// where the other has but one.
fn stand_together(one: Contender, other: Contender) -> bool {
    one.direct == other.direct || !one.known.direct || !other.known.direct
}

/// The peers named, and a line for each that is absent.
fn peers(args: &Args) -> Result<(Vec<&'static Known>, Vec<String>)> {
    let all = args.against == "all";
    let names: Vec<&str> = args.against.split(',').map(str::trim).collect();
    for name in names.iter().filter(|_| !all) {
        engines::find(name)?;
    }
    let asked = |known: &&Known| {
        let other = !["memory", args.engine.as_str()].contains(&known.name);
        if all { other } else { names.contains(&known.name) }
    };
    let mut there = Vec::new();
    let mut missing = Vec::new();
    for known in engines::all().filter(asked) {
        match absent(known.name) {
            Some(why) => missing.push(format!("ABSENT: {}: {why}", known.name)),
            None => there.push(known),
        }
    }
    ensure!(!there.is_empty(), "no engine to compare with is there: {}", missing.join("; "));
    Ok((there, missing))
}

/// Every form of every engine, those of the first one spread evenly among the others.
fn contenders(first: &'static Known, others: &[&'static Known]) -> Vec<Contender> {
    let mut all: Vec<_> = others.iter().flat_map(|other| Contender::forms(other)).collect();
    let forms: Vec<_> = Contender::forms(first).collect();
    let each = all.len().div_ceil(forms.len().max(1));
    for (place, form) in forms.into_iter().enumerate() {
        all.insert((place * (each + 1)).min(all.len()), form);
    }
    all
}

/// Runs that a comparison needs if none is repeated, for the line of progress.
///
/// # Errors
/// Unknown names, no peer at all.
pub fn runs_ahead(args: &Args) -> Result<usize> {
    let first = engines::all().find(|known| known.name == args.engine);
    let first = first.with_context(|| format!("there is no engine '{}'", args.engine))?;
    let rounds = if args.cheap { CHEAP_PAIRS } else { args.pairs };
    Ok(contenders(first, &peers(args)?.0).len() * rounds)
}

fn plan(args: &Args) -> Result<Plan> {
    let seconds = args.seconds.unwrap_or(1.0);
    ensure!(seconds > 0.0 && seconds.is_finite(), "--seconds takes a number above 0");
    ensure!(args.zipf > 0.0 && args.zipf.is_finite(), "--zipf takes a number above 0");
    let settings = Settings { sync: args.sync, ..Settings::default() };
    Ok(Plan {
        phases: Phase::parse_list(&args.phases).map_err(anyhow::Error::msg)?,
        num: if args.cheap { args.num.min(CHEAP_NUM) } else { args.num },
        operations: args.ops,
        key_bytes: args.key_size,
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

#[cfg(test)]
mod tests;
