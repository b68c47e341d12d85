//! Faults: every call of a workload made to fail in every way, once or from then on, also while
//! opening, recovering and in background steps.
//!
//! After the fault the database is crashed and reopened without it. Invariants: E1 no error before
//! the fault was met. E2 an error leaves the state before or after the operation, nothing else.
//! E3 after a failed sync no write is acknowledged until reopened, while reads work. E4 once
//! faults are off, reads work.

use std::sync::Mutex;

use cleavedb::sim::{CallKind, CrashMode, Fault, FaultDisk, FaultPlan, MemoryDisk};
use cleavedb::{Durability, Error, ErrorKind};

use crate::form::Form;
use crate::full;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded, spread, survey};
use crate::model::{self, Dump, State, dump_fingerprint};
use crate::operation::{Change, Operation, Payload, key_bytes};
use crate::progress::{Difference, Progress};
use crate::random::Random;
use crate::session::{Check, Violation, compare, lock, no_leaks, verify};
use crate::store::Store;
use crate::world::World;

/// Operations of one workload.
pub const LIST: usize = 24;

/// Background steps within which a small database must come to rest.
const STEPS_MAX: u32 = 10_000;

/// What has been counted.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Runs in which the fault was met.
    pub faults: u64,
    /// Runs in all.
    pub runs: u64,
    /// Runs after whose fault writes were refused until reopened.
    pub stopped: u64,
    /// Disks filled to the last byte.
    pub full: u64,
}

/// A workload under a fault.
struct Faulty<'a> {
    form: &'a Form,
    world: World,
    faults: FaultDisk,
    store: Option<Store>,
    /// What reads show, as far as it is known.
    state: State,
    progress: Progress,
    /// States that a commit of unknown outcome may turn out to have led to.
    alternatives: Vec<State>,
    /// A write or sync has been refused since the database was opened.
    stopped: bool,
    /// Whether the fault is a failed sync (E3).
    sync_fault: bool,
}

impl<'a> Faulty<'a> {
    fn new(form: &'a Form, plan: Option<FaultPlan>, seed: u64) -> Self {
        let (world, faults) = World::with_faults(MemoryDisk::new(), seed);
        let sync_fault =
            plan.is_some_and(|plan| plan.kind == Some(CallKind::Sync) && plan.fault == Fault::Eio);
        faults.set_plan(plan);
        Self {
            form,
            world,
            faults,
            store: None,
            state: State::default(),
            progress: Progress::new(State::default()),
            alternatives: Vec::new(),
            stopped: false,
            sync_fault,
        }
    }

    /// An error is right only after the fault, and only of some kinds.
    fn excuse(&self, error: &Error) -> Check {
        if self.faults.triggered() == 0 {
            return Err(Violation(format!("an error without a fault: {error:?}")));
        }
        match error.kind() {
            ErrorKind::Io
            | ErrorKind::NoSpace
            | ErrorKind::Stopped
            | ErrorKind::Corruption
            | ErrorKind::Closed => Ok(()),
            _ => Err(Violation(format!("a fault must not cause {error:?}"))),
        }
    }

    fn open(&mut self) -> Check {
        for _ in 0..2 {
            match Store::open(self.world.options(self.form), &self.world.path) {
                Ok(store) => {
                    self.store = Some(store);
                    self.stopped = false;
                    return self.create_keyspaces();
                }
                Err(error) => self.excuse(&error)?,
            }
        }
        Ok(())
    }

    fn create_keyspaces(&mut self) -> Check {
        let Some(store) = &mut self.store else { return Ok(()) };
        let mut errors = Vec::new();
        for slot in 0..3 {
            if store.keyspace(slot).is_none()
                && let Err(error) = store.create(self.form, slot)
            {
                errors.push(error);
            }
        }
        for slot in 0..3 {
            if store.keyspace(slot).is_some() {
                self.state.create(slot);
            } else {
                self.state.discard(slot);
            }
        }
        errors.iter().try_for_each(|error| self.excuse(error))
    }

    fn run(&mut self, operation: &Operation) -> Check {
        let Some(store) = &self.store else { return self.open() };
        let outcome = match operation {
            Operation::Write(change) => return self.write(&[*change], None),
            Operation::Batch(changes, sync) => {
                let durability = if *sync { Durability::Sync } else { Durability::Buffered };
                return self.write(changes, Some(durability));
            }
            Operation::Reopen(close) => return self.reopen(*close),
            Operation::Sync => store.db.sync().map(|()| true),
            Operation::Flush => store.db.flush().map(|()| true),
            Operation::Compact => store.db.compact().map(|()| false),
            Operation::Reclaim => store.db.reclaim(None, &mut |_| {}).map(|_| false),
            Operation::WaitIdle => store.db.wait_idle().map(|()| false),
            Operation::Step(count) => {
                self.world.step(*count);
                Ok(false)
            }
            Operation::Read(slot, read) => {
                let found = store.read(*slot, None, read);
                match found {
                    Ok(found) => {
                        let space = self.state.space(*slot);
                        let expected = space.map(|space| model::answer(&space.pairs, read));
                        if found != expected && self.alternatives.is_empty() {
                            return Err(Violation(format!("wrong: {read:?} under a fault")));
                        }
                        Ok(false)
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Ok(false),
        };
        match outcome {
            Ok(true) => self.progress.settle(),
            Ok(false) => {}
            Err(error) => self.excuse(&error)?,
        }
        Ok(())
    }

    fn write(&mut self, changes: &[Change], durability: Option<Durability>) -> Check {
        let legal = |change: &&Change| {
            !State::refuses(**change) && self.state.space(change.slot()).is_some()
        };
        let changes: Vec<Change> = changes.iter().filter(legal).copied().collect();
        let (Some(store), Some(&first)) = (&self.store, changes.first()) else { return Ok(()) };
        let mut next = self.state.clone();
        changes.iter().for_each(|&change| next.apply(change));
        let outcome = match durability {
            Some(durability) => store.batch(&changes, durability),
            None => store.change(first),
        };
        let durability = durability.unwrap_or(self.form.durability);
        match outcome {
            Ok(()) => {
                if self.stopped && self.sync_fault {
                    return Err(Violation("a write is acknowledged after a failed sync".into()));
                }
                self.alternatives.clear();
                self.progress.issue(next.clone());
                self.progress.acknowledge();
                if durability == Durability::Sync {
                    self.progress.settle();
                }
                self.state = next;
                Ok(())
            }
            Err(error) => {
                self.excuse(&error)?;
                self.stopped |= error.kind() != ErrorKind::NoSpace;
                self.unknown(next)
            }
        }
    }

    /// A commit failed: reads show the state before or after it (E2).
    fn unknown(&mut self, next: State) -> Check {
        let Some(store) = &self.store else { return Ok(()) };
        match store.dump() {
            Ok(dump) if dump_fingerprint(&dump) == self.state.fingerprint() => {
                self.alternatives.push(next);
            }
            Ok(dump) if dump_fingerprint(&dump) == next.fingerprint() => {
                self.alternatives.push(std::mem::replace(&mut self.state, next));
            }
            Ok(dump) => return self.known(&dump).map(|_| ()),
            Err(error) => {
                self.excuse(&error)?;
                self.alternatives.push(next);
            }
        }
        Ok(())
    }

    /// Which of the states that are possible a dump shows.
    fn known(&self, dump: &Dump) -> Check<State> {
        let fingerprint = dump_fingerprint(dump);
        let possible = std::iter::once(&self.state).chain(&self.alternatives);
        let mut possible = possible.filter(|state| state.fingerprint() == fingerprint);
        possible.next().cloned().ok_or_else(|| {
            let difference = Difference::between(&self.state.dump(), dump);
            Violation(format!("wrong: no possible state: {difference}"))
        })
    }

    fn reopen(&mut self, close: bool) -> Check {
        if let Some(store) = self.store.take() {
            let db = store.db.clone();
            drop(store);
            if close {
                match db.close() {
                    Ok(()) => self.progress.settle(),
                    Err(error) => self.excuse(&error)?,
                }
            }
        }
        self.open()?;
        self.adopt()
    }

    /// After reopening, what is there is certain.
    fn adopt(&mut self) -> Check {
        let Some(store) = &self.store else { return Ok(()) };
        match store.dump() {
            Ok(dump) => {
                let state = self.known(&dump).map_err(|v| v.context("reopened"))?;
                if state.fingerprint() != self.state.fingerprint() {
                    self.progress.issue(state.clone());
                    self.progress.acknowledge();
                }
                self.state = state;
                self.alternatives.clear();
                self.create_keyspaces()
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Faults off: reads work (E4); then a crash, and what it leaves is a prefix.
    fn end(&mut self, seed: u64) -> Check {
        self.faults.set_plan(None);
        if let Some(store) = &self.store {
            let dump = store.dump().map_err(|e| Violation(format!("reads do not go on: {e:?}")))?;
            let state = self.known(&dump)?;
            compare(store, &state)?;
            if self.stopped && self.sync_fault {
                self.refuses_writes(store)?;
            }
        }
        let Some(disk) = self.world.disk().cloned() else { return Ok(()) };
        for mode in [CrashMode::None, CrashMode::All, CrashMode::Sectors] {
            let image = disk.crash_image(mode, seed);
            self.after_crash(image).map_err(|v| v.context(format!("crash {mode:?}")))?;
        }
        if !self.world.settle(STEPS_MAX) {
            return Err(Violation("background work does not come to an end".to_owned()));
        }
        Ok(())
    }

    fn refuses_writes(&self, store: &Store) -> Check {
        let Some(keyspace) = store.keyspace(0) else { return Ok(()) };
        let value = Payload { tag: u32::MAX, bytes: 4 }.contents();
        match keyspace.put(key_bytes(3), value) {
            Err(error) if error.kind() == ErrorKind::Stopped => Ok(()),
            other => Err(Violation(format!("after a failed sync a put gives {other:?}"))),
        }
    }

    fn after_crash(&self, image: MemoryDisk) -> Check {
        let world = World::on(image, 1);
        let store = Store::open(world.options(self.form), &world.path)
            .map_err(|error| Violation(format!("unopenable: {error:?}")))?;
        let dump = store.dump()?;
        let fingerprint = dump_fingerprint(&dump);
        if !self.alternatives.iter().any(|state| state.fingerprint() == fingerprint) {
            self.progress.place(&dump, self.progress.after_power_loss())?;
        }
        verify(&store.db)?;
        if !world.settle(STEPS_MAX) {
            return Err(Violation("background work does not come to an end".to_owned()));
        }
        store.db.wait_idle()?;
        no_leaks(&store, &world)
    }
}

/// Runs a workload with a fault; returns whether it was met and whether writes stopped.
///
/// # Errors
/// The first promise that the fault breaks.
pub fn run(
    form: &Form,
    list: &[Operation],
    plan: Option<FaultPlan>,
    seed: u64,
) -> Check<(bool, bool)> {
    let mut faulty = Faulty::new(form, plan, seed);
    faulty.open()?;
    for (index, operation) in list.iter().enumerate() {
        faulty
            .run(operation)
            .map_err(|v| v.context(format!("operation {index}, {operation:?}")))?;
    }
    faulty.end(seed)?;
    Ok((faulty.faults.triggered() > 0, faulty.stopped))
}

/// Number of calls that a workload makes, in all and syncs.
fn count_calls(form: &Form, list: &[Operation], seed: u64) -> Check<(u64, u64)> {
    let mut faulty = Faulty::new(form, None, seed);
    faulty.open()?;
    for operation in list {
        faulty.run(operation)?;
    }
    Ok((faulty.faults.calls(), faulty.faults.calls_of(CallKind::Sync)))
}

/// Every fault at every call of one workload, or one in `one_in` of them.
///
/// # Errors
/// The first promise broken, with the plan that breaks it.
pub fn sweep(form: &Form, seed: u64, one_in: u64, budget: &Budget) -> Check<Figures> {
    let profile = Profile { weights: [64, 8, 0, 10, 12, 6], ..Profile::crash(LIST) };
    let list = Generator::list(seed, profile);
    let (calls, syncs) = count_calls(form, &list, seed).map_err(|v| v.context("no fault"))?;
    let mut plans = Vec::new();
    let mut random = Random::new(seed);
    // Syncs are few and decide most: all of them, and first.
    for persistent in [false, true] {
        let kind = Some(CallKind::Sync);
        plans.extend((1..=syncs).map(|at| FaultPlan { kind, at, fault: Fault::Eio, persistent }));
    }
    for persistent in [false, true] {
        for at in 1..=calls {
            let any = Fault::ALL.map(|fault| FaultPlan { kind: None, at, fault, persistent });
            plans.extend(any.into_iter().filter(|_| random.chance(1, one_in)));
        }
    }
    let mut figures = Figures::default();
    for plan in plans {
        if budget.is_spent() {
            break;
        }
        let name = format!("form \"{}\", {plan:?}", form.name);
        let outcome = guarded(&name, || run(form, &list, Some(plan), seed));
        let (met, stopped) = match outcome {
            Ok(outcome) => outcome,
            Err(violation) => {
                survey(Err(violation.context(name)))?;
                continue;
            }
        };
        figures.runs += 1;
        budget.count(u64::from(met));
        figures.faults += u64::from(met);
        figures.stopped += u64::from(stopped);
    }
    Ok(figures)
}

/// Sweeps seeds until the budget is spent.
///
/// # Errors
/// The first promise broken.
pub fn campaign(budget: &Budget, one_in: u64, seeds: u64) -> Check<Figures> {
    let total = Mutex::new(Figures::default());
    spread(budget, "faults", seeds, |seed| {
        let form = if seed == budget.seed { Form::base() } else { Form::drawn(seed) };
        let full = guarded("full", || full::sweep(&form, seed));
        let full = full.or_else(|violation| survey(Err(violation)).map(|()| 0))?;
        let figures = sweep(&form, seed, one_in, budget)?;
        let mut total = lock(&total);
        total.faults += figures.faults;
        total.runs += figures.runs;
        total.stopped += figures.stopped;
        total.full += full;
        Ok(())
    })?;
    let figures = lock(&total).clone();
    Ok(figures)
}
