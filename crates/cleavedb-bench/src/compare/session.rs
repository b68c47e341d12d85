//! The runs of one comparison, each in a process of its own.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::compare::{Args, CHEAP_PAIRS, Contender, Progress, limits, round_of, table};
use crate::engine::Settings;
use crate::engines::Known;
use crate::limit::Group;
use crate::pairs::{Ended, OTHERS_MAX, Others, Rounds, run_rounds};
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
    /// Engines and forms that have passed the self-test.
    pub(super) tested: Vec<String>,
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

    /// All rounds with one peer: the tables and the lines that count.
    pub(super) fn against(
        &mut self,
        one: &'static Known,
        other: &'static Known,
    ) -> Result<(String, Vec<Value>)> {
        let contenders = round_of(one, other);
        for &contender in &contenders {
            self.test(contender)?;
        }
        let rounds = self.run(one, other, &contenders)?;
        let mut text = String::new();
        for (a, ours) in contenders.iter().enumerate().filter(|(_, c)| c.known.name == one.name) {
            for (b, theirs) in contenders.iter().enumerate() {
                if theirs.known.name == other.name && stand_together(*ours, *theirs) {
                    text.push_str(&table::ratios((a, &ours.name()), (b, &theirs.name()), &rounds));
                }
            }
        }
        Ok((text, rounds.kept.into_iter().flatten().collect()))
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

    fn test(&mut self, contender: Contender) -> Result<()> {
        let name = contender.name();
        if self.tested.contains(&name) {
            return Ok(());
        }
        self.progress.note(&self.titled(&format!("self-test of {name}")));
        let dir = self.folder()?;
        let settings = self.settings(contender);
        let store = dir.path().join("store");
        selftest::check(contender.known.open, &store, &settings, &SelfTest::default())
            .with_context(|| format!("{name} is not right, its figures mean nothing"))?;
        self.tested.push(name);
        Ok(())
    }

    fn run(
        &mut self,
        one: &Known,
        other: &Known,
        contenders: &[Contender],
    ) -> Result<Rounds<Value>> {
        let mut watch = Others::watch();
        let wanted = self.rounds();
        // A cheap run claims nothing, so it may be disturbed; the table says by how much.
        let others_max = if self.args.cheap { f64::INFINITY } else { OTHERS_MAX };
        let session = std::cell::RefCell::new(&mut *self);
        run_rounds(
            wanted,
            contenders.len(),
            others_max,
            |round, place| {
                let contender = *contenders.get(place).context("no such contender")?;
                let mut session = session.borrow_mut();
                let what = format!("{}, round {round}: {}", other.name, contender.name());
                let what = session.titled(&what);
                session.progress.run(&what);
                session.process(contender)
            },
            || watch.share(),
            |reports, ended| {
                let session = session.borrow();
                for report in reports {
                    session.mark(report, one, other, ended);
                    session.keep(report)?;
                    forget_timelines(report);
                }
                Ok(())
            },
        )
    }

    /// Notes in a report which round it belongs to.
    fn mark(&self, report: &mut Value, one: &Known, other: &Known, ended: Ended) {
        if let Some(fields) = report.as_object_mut() {
            let round = json!({
                "comparison": self.title, "engine": one.name, "against": other.name,
                "number": ended.number, "others": ended.others, "counts": ended.counts,
                "memory_bytes": self.args.memory, "bounded": self.group.is_some(),
            });
            fields.insert("round".to_owned(), round);
        }
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

    /// Appends a line to the file of lines.
    fn keep(&self, line: &Value) -> Result<()> {
        if let Some(path) = &self.args.out {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{line}")?;
        }
        Ok(())
    }
}

/// Whether a table of these two forms is listed: those of one kind, and all forms of one side where
/// the other has but one.
fn stand_together(one: Contender, other: Contender) -> bool {
    one.direct == other.direct || !one.known.direct || !other.known.direct
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
