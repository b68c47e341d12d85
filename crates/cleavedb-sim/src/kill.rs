//! Kills of real processes on a real directory: a child writes and reports what was acknowledged,
//! dies at a random moment or at the n-th call to the disk, and the parent looks at what is left.
//!
//! Invariants: K1 what was acknowledged is there. K2 at most one commit more is there. K3 the
//! state is one that the model passed through.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cleavedb::Durability;
use cleavedb::sim::{Environment, Fault, FaultDisk, FaultPlan};

use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded};
use crate::kinds::Kinds;
use crate::model::State;
use crate::operation::{Change, Operation};
use crate::progress::{Progress, Window};
use crate::random::Random;
use crate::session::{Check, Violation, compare, verify};
use crate::store::Store;

/// Operations that a child would run if it lived.
const LIST: usize = 4000;

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Children killed at a random moment.
    pub by_time: u64,
    /// Children that died at a chosen call.
    pub by_call: u64,
    /// Commits acknowledged before the kills.
    pub commits: u64,
}

impl Figures {
    /// Adds those of another killer.
    fn add(&mut self, other: &Self) {
        self.by_time += other.by_time;
        self.by_call += other.by_call;
        self.commits += other.commits;
    }
}

fn list(seed: u64) -> Vec<Operation> {
    let profile = Profile { weights: [90, 0, 0, 4, 0, 0], ..Profile::crash(LIST) };
    let mut list = Generator::list(seed, profile);
    list.retain(|operation| {
        matches!(
            operation,
            Operation::Write(_)
                | Operation::Batch(..)
                | Operation::Sync
                | Operation::Flush
                | Operation::Compact
                | Operation::Reclaim
        )
    });
    list
}

/// The changes of an operation that the engine accepts.
fn changes(operation: &Operation) -> Vec<Change> {
    let all = match operation {
        Operation::Write(change) => vec![*change],
        Operation::Batch(changes, _) => changes.clone(),
        _ => Vec::new(),
    };
    all.into_iter().filter(|change| change.slot() < 3 && !State::refuses(*change)).collect()
}

/// The child: writes to the database in `path` and reports each acknowledged commit with one byte
/// on standard output; the first byte says that the keyspaces exist. With an odd seed its calls to
/// the disk wait at random, so that its threads meet in other orders than they usually do.
///
/// # Errors
/// Any error of the engine; the parent sees an early end.
pub fn child(path: &Path, seed: u64, dies_at: Option<u64>, form: &Form) -> Check {
    let disk = FaultDisk::over_native();
    disk.set_plan(dies_at.map(|at| FaultPlan {
        kind: None,
        at,
        fault: Fault::Kill,
        persistent: false,
    }));
    disk.set_delays((seed & 1 == 1).then_some(seed));
    let options = form.options().environment(Environment::faults_threaded(&disk));
    let mut store = Store::open(options, path)?;
    for slot in 0..3 {
        store.create(form, slot)?;
    }
    let mut pipe = std::io::stdout().lock();
    let mut report = || pipe.write_all(b".").and_then(|()| pipe.flush());
    report().map_err(|error| Violation(error.to_string()))?;
    for operation in list(seed) {
        let changes = changes(&operation);
        match &operation {
            Operation::Sync => store.db.sync()?,
            Operation::Flush => store.db.flush()?,
            Operation::Compact => store.db.compact()?,
            Operation::Reclaim => drop(store.db.reclaim(None, &mut |_| {})?),
            _ if changes.is_empty() => {}
            Operation::Batch(_, sync) => {
                let durability = if *sync { Durability::Sync } else { Durability::Buffered };
                store.batch(&changes, durability)?;
                report().map_err(|error| Violation(error.to_string()))?;
            }
            _ => {
                store.change(changes[0])?;
                report().map_err(|error| Violation(error.to_string()))?;
            }
        }
    }
    Ok(())
}

/// The states that a child's commits lead through.
fn states(from: &State, seed: u64) -> Progress {
    let mut progress = Progress::new(from.clone());
    let mut state = from.clone();
    for operation in list(seed) {
        let changes = changes(&operation);
        if changes.is_empty() {
            continue;
        }
        changes.iter().for_each(|&change| state.apply(change));
        progress.issue(state.clone());
        progress.acknowledge();
    }
    progress
}

/// Kills children that write to one directory, again and again.
pub struct Killer {
    program: std::path::PathBuf,
    directory: tempfile::TempDir,
    form: Form,
    state: State,
    random: Random,
    /// The call at which the last of those died that were to die at one.
    call: u64,
    /// Counts so far.
    pub figures: Figures,
}

impl Killer {
    /// A killer of children that run `program` (this crate's binary).
    ///
    /// # Errors
    /// Those of creating a directory.
    pub fn new(program: &Path, seed: u64, form: Form) -> Check<Self> {
        let directory = tempfile::Builder::new().prefix("cleavedb-kill").tempdir();
        let directory = directory.map_err(|error| Violation(error.to_string()))?;
        let mut state = State::default();
        (0..3).for_each(|slot| state.create(slot));
        let random = Random::new(seed);
        let program = program.to_owned();
        Ok(Self { program, directory, form, state, random, call: 0, figures: Figures::default() })
    }

    /// The call at which the next child is to die: the first ones one by one, later ones in steps,
    /// since there are many of them.
    fn next_call(&mut self) -> u64 {
        // So wide that a third of the rounds of a run goes as far as all of them.
        self.call += 1 + self.random.below(1 + self.call / 4);
        self.call
    }

    fn spawn(&self, seed: u64, dies_at: Option<u64>) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.arg("child").arg(self.directory.path().join("db")).arg(seed.to_string());
        command.arg("--form").arg(&self.form.name);
        if let Some(at) = dies_at {
            command.arg("--dies-at").arg(at.to_string());
        }
        let said = std::fs::File::create(self.said_path())?;
        command.stdout(Stdio::piped()).stderr(said).stdin(Stdio::null()).spawn()
    }

    /// Where a child's errors go.
    fn said_path(&self) -> std::path::PathBuf {
        self.directory.path().join("said")
    }

    /// One child, one kill, one look.
    ///
    /// # Errors
    /// What was lost, or should not be there.
    pub fn round(&mut self, dies_at: Option<u64>) -> Check {
        let seed = self.random.bits();
        let delay = Duration::from_micros(self.random.below(40_000));
        let fails = |error: std::io::Error| Violation(error.to_string());
        let mut child = self.spawn(seed, dies_at).map_err(fails)?;
        let mut pipe = child.stdout.take().ok_or_else(|| Violation("no pipe".to_owned()))?;
        let mut reported = Vec::new();
        if dies_at.is_none() {
            let mut ready = [0];
            let count = pipe.read(&mut ready).map_err(fails)?;
            reported.extend_from_slice(&ready[..count]);
            std::thread::sleep(delay);
            child.kill().map_err(fails)?;
        }
        pipe.read_to_end(&mut reported).map_err(fails)?;
        let status = child.wait().map_err(fails)?;
        if let Some(code) = status.code()
            && code != 0
        {
            let said = std::fs::read_to_string(self.said_path()).map_err(fails)?;
            let message = format!("the child failed with exit code {code}, seed {seed}: {said}");
            return Err(Violation(message));
        }
        let acknowledged = reported.len().saturating_sub(1);
        self.figures.commits += acknowledged as u64;
        match dies_at {
            Some(_) => self.figures.by_call += 1,
            None => self.figures.by_time += 1,
        }
        self.look(seed, acknowledged)
            .map_err(|v| v.context(format!("killed after {acknowledged} commits, list {seed}")))
    }

    fn look(&mut self, seed: u64, acknowledged: usize) -> Check {
        let progress = states(&self.state, seed);
        let high = (acknowledged + 1).min(progress.issued());
        let path = self.directory.path().join("db");
        let store = Store::open(self.form.options(), &path)
            .map_err(|error| Violation(format!("unopenable: {error:?}")))?;
        let window = Window { low: acknowledged, high };
        let index = progress.place(&store.dump()?, window)?;
        if let Some(state) = progress.state(index) {
            self.state = state.clone();
        }
        compare(&store, &self.state)?;
        verify(&store.db)?;
        Ok(store.db.close()?)
    }

    /// Starts over in an empty directory.
    ///
    /// # Errors
    /// Those of removing the old one.
    pub fn start_over(&mut self) -> Check {
        let path = self.directory.path().join("db");
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(|error| Violation(error.to_string()))?;
        }
        self.state = State::default();
        (0..3).for_each(|slot| self.state.create(slot));
        Ok(())
    }
}

/// Kills until the budget is spent or `kills` are done: half of them at random moments, half at
/// chosen calls, of which the first ones fall into the creation of the database. Stores over each
/// index, and over both, take turns.
///
/// # Errors
/// The first loss.
pub fn campaign(program: &Path, budget: &Budget, kills: u64) -> Check<Figures> {
    let form = Form::find("real disk, threads, values apart");
    let new = |kinds: Kinds| Killer::new(program, budget.seed, kinds.form(&form));
    let mut killers = Kinds::ALL.into_iter().map(new).collect::<Check<Vec<Killer>>>()?;
    let count = killers.len() as u64;
    for number in 0..kills {
        if budget.is_spent() {
            break;
        }
        let Some(killer) = killers.get_mut((number % count) as usize) else { break };
        let name = format!("kill {number} SEED={}, form \"{}\"", budget.seed, killer.form.name);
        // Of one of them the odd rounds; it has one of `count` of the kills.
        let round = number / count;
        let dies_at = (round % 2 == 1).then(|| killer.next_call());
        if dies_at.is_some() && round % 4 == 1 {
            killer.start_over()?;
        }
        guarded(&name, || killer.round(dies_at)).map_err(|v| v.context(name))?;
        budget.count(1);
    }
    let mut total = Figures::default();
    killers.iter().for_each(|killer| total.add(&killer.figures));
    Ok(total)
}
