//! The runs of one comparison, each in a process of its own.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use serde_json::{Value, json};

use crate::compare::{Args, CHEAP_PAIRS, Contender, Progress, limits};
use crate::engine::Settings;
use crate::limit::Group;
use crate::pairs::{Course, Ended, OTHERS_MAX, Others, Rounds, run_rounds};
use crate::runner::Plan;
use crate::selftest::{self, SelfTest};

/// Shares of a memory group that an engine may use itself: with direct I/O nearly all of it,
/// otherwise the page cache wants its part.
const DIRECT_SHARE: f64 = 0.85;
const BUFFERED_SHARE: f64 = 0.5;

/// Time for each depth of the device's reads.
const READ_TIME: Duration = Duration::from_secs(1);
const CHEAP_READ_TIME: Duration = Duration::from_millis(100);

pub(super) struct Session<'a> {
    pub(super) args: &'a Args,
    pub(super) title: &'a str,
    pub(super) plan: Plan,
    pub(super) group: Option<&'a Group>,
    pub(super) progress: &'a mut Progress,
}

impl Session<'_> {
    pub(super) fn rounds(&self) -> usize {
        if self.args.cheap { CHEAP_PAIRS } else { self.args.pairs }
    }

    /// Measures what the machine can do, and keeps it.
    pub(super) fn limits(&self) -> Result<Value> {
        self.progress.note(&self.titled("the limits of the device"));
        let dir = self.folder()?;
        let time = if self.args.cheap { CHEAP_READ_TIME } else { READ_TIME };
        let line = json!({"limits": limits::measure(dir.path(), self.title, &self.plan, time)?});
        self.keep(&line)?;
        Ok(line)
    }

    /// All rounds of `contenders`, and why some have no run that counts.
    pub(super) fn rounds_of(
        &mut self,
        contenders: &[Contender],
    ) -> Result<(Rounds<Value>, Vec<String>)> {
        let wanted = self.rounds();
        // A cheap run claims nothing, so it may be disturbed; the table says by how much.
        let others_max = if self.args.cheap { f64::INFINITY } else { OTHERS_MAX };
        let watch = Others::watch();
        let mut runs =
            Runs { session: self, contenders, watch, out: Vec::new(), missing: Vec::new() };
        let rounds = run_rounds(wanted, contenders.len(), others_max, &mut runs)?;
        Ok((rounds, runs.missing))
    }

    fn titled(&self, what: &str) -> String {
        if self.title.is_empty() { what.to_owned() } else { format!("{}: {what}", self.title) }
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

    /// Compares a contender with a map.
    pub(super) fn test(&mut self, contender: Contender) -> Result<()> {
        let name = contender.name();
        let settings = self.settings(contender);
        let tested = format!("{name} {}", serde_json::to_string(&settings)?);
        if self.progress.tested.contains(&tested) {
            return Ok(());
        }
        self.progress.note(&self.titled(&format!("self-test of {name}")));
        let dir = self.folder()?;
        let store = dir.path().join("store");
        selftest::check(contender.known.open, &store, &settings, &SelfTest::default())
            .with_context(|| format!("{name} is not right, its figures mean nothing"))?;
        self.progress.tested.push(tested);
        Ok(())
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
        serde_json::from_slice(&output.stdout).context("its report")
    }

    /// Notes in a report which round it belongs to.
    fn mark(&self, report: &mut Value, ended: Ended) {
        if let Some(fields) = report.as_object_mut() {
            let round = json!({
                "comparison": self.title, "engine": self.args.engine, "number": ended.round,
                "attempt": ended.attempt, "others": ended.others, "counts": ended.counts,
                "memory_bytes": self.args.memory, "bounded": self.group.is_some(),
            });
            fields.insert("round".to_owned(), round);
        }
    }

    /// Appends a line to the file of lines.
    fn keep(&self, line: &Value) -> Result<()> {
        if let Some(path) = &self.args.out {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{line}")?;
        }
        Ok(())
    }
}

/// The runs of one comparison while they go on.
struct Runs<'a, 'b> {
    session: &'a mut Session<'b>,
    contenders: &'a [Contender],
    watch: Others,
    /// Places of those that could not be run.
    out: Vec<usize>,
    /// Why some have no run that counts.
    missing: Vec<String>,
}

impl Runs<'_, '_> {
    fn contender(&self, place: usize) -> Result<Contender> {
        self.contenders.get(place).copied().context("no such contender")
    }

    fn is_leading(&self, contender: Contender) -> bool {
        contender.known.name == self.session.args.engine
    }
}

impl Course for Runs<'_, '_> {
    type Outcome = Value;

    fn run(&mut self, round: usize, contender: usize) -> Result<Value> {
        let contender = self.contender(contender)?;
        let what = self.session.titled(&format!("round {round}: {}", contender.name()));
        self.session.progress.run(&what);
        self.session.process(contender)
    }

    fn others(&mut self) -> f64 {
        self.watch.share()
    }

    fn busiest(&self) -> String {
        self.watch.busiest()
    }

    fn ended(&mut self, report: &mut Value, ended: Ended) -> Result<()> {
        self.session.mark(report, ended);
        self.session.keep(report)?;
        forget_timelines(report);
        Ok(())
    }

    /// Nothing can be compared once no form of the leading engine runs.
    fn missing(&mut self, place: usize, why: Error, out: bool) -> Result<()> {
        let contender = self.contender(place)?;
        let why = format!("{}: {why:#}", contender.name());
        self.session.progress.note(&self.session.titled(&why));
        if out {
            self.out.push(place);
            let mut leading =
                self.contenders.iter().enumerate().filter(|(_, c)| self.is_leading(**c));
            if leading.all(|(place, _)| self.out.contains(&place)) {
                bail!(why);
            }
        }
        self.missing.push(why);
        Ok(())
    }
}

/// Timelines are in the file of lines; in memory those of hundreds of runs would be too much.
fn forget_timelines(report: &mut Value) {
    for phase in report.get_mut("phases").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = phase.as_object_mut() {
            fields.remove("timeline");
            fields.remove("disk_timeline");
        }
    }
}
