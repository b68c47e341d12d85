//! One run of an operation list against engine and model, every answer compared at once.
//!
//! Owns the database, its world and everything that pins it. Invariant V1: after every operation
//! `state` is what the engine must show.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cleavedb::{Db, Durability, ErrorKind, RangeIter, Snapshot};

use crate::explain::explain;
use crate::form::Form;
use crate::model::{self, Answer, Pair, State};
use crate::operation::key_bytes;
use crate::operation::{
    Change, Edge, Expect, HELD, Operation, Payload, Read, SLOTS, SNAPSHOTS, Span,
};
use crate::progress::{Difference, Progress};
use crate::store::Store;
use crate::world::World;

/// A promise broken: what was seen and what should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl Violation {
    /// The same with `context` in front.
    #[must_use]
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        Self(format!("{context}: {}", self.0))
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<cleavedb::Error> for Violation {
    fn from(error: cleavedb::Error) -> Self {
        Self(format!("unexpected error: {error:?}"))
    }
}

impl From<String> for Violation {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// Outcome of a check.
pub type Check<T = ()> = Result<T, Violation>;

/// Locks, also after a panic elsewhere: the harness reports that panic itself.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Held {
    iterator: RangeIter,
    rest: VecDeque<Pair>,
    slot: u8,
}

/// A run in progress.
pub struct Session {
    /// Where it runs.
    pub world: World,
    /// Commits so far, shared with whoever observes the disk.
    pub progress: Arc<Mutex<Progress>>,
    form: Form,
    store: Option<Store>,
    state: State,
    snapshots: Vec<Option<(Snapshot, State)>>,
    held: Vec<Option<Held>>,
    trail: DefaultHasher,
    checkpoints: u32,
}

impl Session {
    /// Creates a database with the first three keyspaces.
    ///
    /// # Errors
    /// What the engine must not refuse.
    pub fn create(world: World, form: Form, progress: Arc<Mutex<Progress>>) -> Check<Self> {
        let mut session = Self::closed(world, form, progress, State::default());
        session.open()?;
        for slot in 0..3 {
            session.create_keyspace(slot)?;
        }
        Ok(session)
    }

    /// Opens a database that shows `state`, and goes on from there. Keyspaces without pairs may
    /// be there or not.
    ///
    /// # Errors
    /// What the engine must not refuse.
    pub fn resume(
        world: World,
        form: Form,
        progress: Arc<Mutex<Progress>>,
        state: State,
    ) -> Check<Self> {
        let mut session = Self::closed(world, form, progress, state);
        session.open()?;
        for slot in 0..SLOTS {
            let exists = session.store()?.keyspace(slot).is_some();
            match (exists, session.state.space(slot).is_some()) {
                (true, false) => session.state.create(slot),
                (false, true) => session.state.discard(slot),
                _ => {}
            }
        }
        Ok(session)
    }

    fn closed(world: World, form: Form, progress: Arc<Mutex<Progress>>, state: State) -> Self {
        Self {
            world,
            progress,
            form,
            store: None,
            state,
            snapshots: (0..SNAPSHOTS).map(|_| None).collect(),
            held: (0..HELD).map(|_| None).collect(),
            trail: DefaultHasher::new(),
            checkpoints: 0,
        }
    }

    /// A run that creates the database in `world` and begins with nothing.
    ///
    /// # Errors
    /// What the engine must not refuse.
    pub fn start(world: World, form: Form) -> Check<Self> {
        Self::create(world, form, Arc::new(Mutex::new(Progress::new(State::default()))))
    }

    /// Hash of all answers so far.
    #[must_use]
    pub fn trail(&self) -> u64 {
        self.trail.finish()
    }

    /// The state that the engine must show.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    fn store(&self) -> Check<&Store> {
        self.store.as_ref().ok_or_else(|| Violation("the database is not open".to_owned()))
    }

    fn open(&mut self) -> Check {
        let options = self.world.options(&self.form);
        self.store = Some(Store::open(options, &self.world.path)?);
        Ok(())
    }

    /// Runs one operation.
    ///
    /// # Errors
    /// The first difference between engine and model.
    pub fn run(&mut self, operation: &Operation) -> Check {
        match operation {
            Operation::Write(change) => self.write(*change),
            Operation::Batch(changes, sync) => self.batch(changes, *sync),
            Operation::Swap(slot, key, expect, new) => self.swap(*slot, *key, *expect, *new),
            Operation::Read(slot, read) => self.read(*slot, read),
            Operation::TakeSnapshot(place) => self.take_snapshot(*place),
            Operation::ReadSnapshot(place, slot, read) => self.read_snapshot(*place, *slot, read),
            Operation::DropSnapshot(place) => {
                self.snapshots[usize::from(*place)] = None;
                Ok(())
            }
            Operation::Hold(place, slot, span) => self.hold(*place, *slot, *span),
            Operation::Advance(place, count, back) => self.advance(*place, *count, *back),
            Operation::Drain(place) => self.drain(*place),
            Operation::Sync => {
                self.store()?.db.sync()?;
                lock(&self.progress).settle();
                Ok(())
            }
            Operation::Flush => {
                self.store()?.db.flush()?;
                lock(&self.progress).settle();
                Ok(())
            }
            Operation::Compact => Ok(self.store()?.db.compact()?),
            Operation::CompactRange(slot, span) => self.compact_range(*slot, *span),
            Operation::Reclaim => self.reclaim(),
            Operation::Step(count) => {
                self.world.step(*count);
                Ok(())
            }
            Operation::WaitIdle => Ok(self.store()?.db.wait_idle()?),
            Operation::Tick(milliseconds) => {
                self.world.advance(Duration::from_millis(u64::from(*milliseconds)));
                Ok(())
            }
            Operation::Reopen(close) => self.reopen(*close),
            Operation::Checkpoint => self.checkpoint(),
            Operation::Create(slot) => self.create_keyspace(*slot),
            Operation::Discard(slot) => self.discard_keyspace(*slot),
            Operation::Verify => self.verify(),
            Operation::Stats => self.stats(),
        }
    }

    fn write(&mut self, change: Change) -> Check {
        if self.state.space(change.slot()).is_none() {
            return Ok(());
        }
        if State::refuses(change) {
            return match self.store()?.change(change) {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
                // From just behind a key to that key: reversed or empty, it holds nothing.
                Ok(()) if is_adjacent(change) => Ok(()),
                other => Err(Violation(format!("{change:?} should be refused, is {other:?}"))),
            };
        }
        let mut next = self.state.clone();
        next.apply(change);
        lock(&self.progress).issue(next.clone());
        self.store()?.change(change)?;
        self.committed(next, self.form.durability);
        Ok(())
    }

    fn committed(&mut self, next: State, durability: Durability) {
        let mut progress = lock(&self.progress);
        progress.acknowledge();
        if durability == Durability::Sync {
            progress.settle();
        }
        drop(progress);
        self.state = next;
    }

    fn batch(&mut self, changes: &[Change], sync: bool) -> Check {
        let durability = if sync { Durability::Sync } else { Durability::Buffered };
        let legal =
            |change: &Change| !State::refuses(*change) && self.state.space(change.slot()).is_some();
        let changes: Vec<Change> = changes.iter().copied().filter(legal).collect();
        if changes.is_empty() {
            return Ok(self.store()?.batch(&changes, Durability::Buffered)?);
        }
        let mut next = self.state.clone();
        changes.iter().for_each(|&change| next.apply(change));
        lock(&self.progress).issue(next.clone());
        self.store()?.batch(&changes, durability)?;
        self.committed(next, durability);
        Ok(())
    }

    fn swap(&mut self, slot: u8, key: u16, expect: Expect, new: Option<Payload>) -> Check {
        let Some(keyspace) = self.store()?.keyspace(slot).cloned() else { return Ok(()) };
        let (matches, expected) = self.state.expectation(slot, key, expect);
        let new = new.map(Payload::contents);
        let mut next = self.state.clone();
        if matches {
            next.set(slot, &key_bytes(key), new.clone());
            lock(&self.progress).issue(next.clone());
        }
        let swapped =
            keyspace.compare_and_swap(key_bytes(key), expected.as_deref(), new.as_deref())?;
        if swapped != matches {
            return Err(Violation(format!("swap returned {swapped} instead of {matches}")));
        }
        if matches {
            self.committed(next, self.form.durability);
        }
        Ok(())
    }

    fn read(&mut self, slot: u8, read: &Read) -> Check {
        let found = self.store()?.read(slot, None, read)?;
        let expected = self.state.space(slot).map(|space| model::answer(&space.pairs, read));
        self.same(expected, found, read)
    }

    fn same(&mut self, expected: Option<Answer>, found: Option<Answer>, what: &Read) -> Check {
        found.hash(&mut self.trail);
        if expected == found {
            return Ok(());
        }
        Err(Violation(format!("{what:?}: {}", explain(expected.as_ref(), found.as_ref()))))
    }

    fn take_snapshot(&mut self, place: u8) -> Check {
        let snapshot = self.store()?.db.snapshot();
        self.snapshots[usize::from(place)] = Some((snapshot, self.state.clone()));
        Ok(())
    }

    fn read_snapshot(&mut self, place: u8, slot: u8, read: &Read) -> Check {
        let Some((snapshot, state)) = &self.snapshots[usize::from(place)] else { return Ok(()) };
        let Some(space) = self.state.space(slot) else { return Ok(()) };
        // Through a handle made later the snapshot sees a keyspace that was still empty.
        let pairs = state.pairs_of(slot, space.generation);
        let expected = Some(model::answer(&pairs, read));
        let found = self.store()?.read(slot, Some(snapshot), read)?;
        self.same(expected, found, read).map_err(|v| v.context(format!("snapshot {place}")))
    }

    fn hold(&mut self, place: u8, slot: u8, span: Span) -> Check {
        let Some(space) = self.state.space(slot) else { return Ok(()) };
        let rest = model::list(&space.pairs, &span.bounds()).into();
        let Some(iterator) = self.store()?.range(slot, None, span.bounds()) else { return Ok(()) };
        self.held[usize::from(place)] = Some(Held { iterator, rest, slot });
        Ok(())
    }

    fn advance(&mut self, place: u8, count: u8, back: bool) -> Check {
        let Some(held) = &mut self.held[usize::from(place)] else { return Ok(()) };
        for _ in 0..count {
            let (expected, found) = if back {
                (held.rest.pop_back(), held.iterator.next_back())
            } else {
                (held.rest.pop_front(), held.iterator.next())
            };
            let found = found.transpose()?.map(|(key, value)| (key.to_vec(), value.to_vec()));
            found.hash(&mut self.trail);
            if expected != found {
                let (want, have) = (places(vec![expected]), places(vec![found]));
                return Err(Violation(format!(
                    "held iterator: {}",
                    explain(Some(&want), Some(&have))
                )));
            }
        }
        Ok(())
    }

    fn drain(&mut self, place: u8) -> Check {
        while self.held[usize::from(place)].as_ref().is_some_and(|held| !held.rest.is_empty()) {
            self.advance(place, 1, false)?;
        }
        // One more, which must find the end.
        self.advance(place, 1, false)?;
        self.held[usize::from(place)] = None;
        Ok(())
    }

    fn compact_range(&mut self, slot: u8, span: Span) -> Check {
        match self.store()?.keyspace(slot) {
            Some(keyspace) => Ok(keyspace.compact_range(span.bounds())?),
            None => Ok(()),
        }
    }

    /// What was asked for in vain would be asked for again and again in the background.
    fn reclaim(&mut self) -> Check {
        let reclaimed = self.store()?.db.reclaim(None, &mut |_| {})?;
        lock(&self.progress).settle();
        if !reclaimed.is_complete {
            return Err(Violation(format!("without a limit of time: {reclaimed:?}")));
        }
        Ok(())
    }

    fn unpin(&mut self) {
        self.snapshots.iter_mut().for_each(|place| *place = None);
        self.held.iter_mut().for_each(|place| *place = None);
    }

    /// Closes the database, everything that pins it first.
    ///
    /// # Errors
    /// An error of closing.
    pub fn close(&mut self) -> Check {
        self.unpin();
        if let Some(store) = self.store.take() {
            let db = store.db.clone();
            let keyspace = store.keyspace(1).cloned();
            drop(store);
            db.close()?;
            lock(&self.progress).settle();
            if let Some(keyspace) = keyspace
                && let Ok(value) = keyspace.get(b"closed")
            {
                return Err(Violation(format!("a closed database answers: {value:?}")));
            }
        }
        Ok(())
    }

    fn reopen(&mut self, close: bool) -> Check {
        if close {
            self.close()?;
        } else {
            self.unpin();
            drop(self.store.take());
            lock(&self.progress).settle();
        }
        self.open()
    }

    fn checkpoint(&mut self) -> Check {
        self.checkpoints += 1;
        let path = self.world.path.with_extension(format!("checkpoint{}", self.checkpoints));
        self.store()?.db.checkpoint(&path)?;
        let copy = Store::open(self.world.options(&self.form), &path)
            .map_err(|error| Violation::from(error).context("opening the checkpoint"))?;
        self.compare(&copy).map_err(|v| v.context("checkpoint"))?;
        // The copy is a database of its own: what is written there must not show here.
        if let Some(keyspace) = copy.keyspace(0) {
            keyspace.put(b"only in the copy", b"1")?;
        }
        copy.db.flush()?;
        copy.db.close()?;
        self.world.remove_directory(&path)?;
        Ok(())
    }

    fn create_keyspace(&mut self, slot: u8) -> Check {
        let form = self.form.clone();
        let store = self.store.as_mut().ok_or_else(|| Violation("not open".to_owned()))?;
        store.create(&form, slot)?;
        self.state.create(slot);
        Ok(())
    }

    fn discard_keyspace(&mut self, slot: u8) -> Check {
        if self.state.space(slot).is_none() {
            let store = self.store()?;
            return match store.db.drop_keyspace(&model::slot_name(slot)) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                other => Err(Violation(format!("dropping what is not there gives {other:?}"))),
            };
        }
        for place in &mut self.held {
            if place.as_ref().is_some_and(|held| held.slot == slot) {
                *place = None;
            }
        }
        let mut next = self.state.clone();
        next.discard(slot);
        lock(&self.progress).issue(next.clone());
        let store = self.store.as_mut().ok_or_else(|| Violation("not open".to_owned()))?;
        let dead = store.discard(slot)?;
        self.committed(next, Durability::Buffered);
        match dead.map(|keyspace| keyspace.get(b"x")) {
            Some(Ok(value)) => Err(Violation(format!("a dropped keyspace answers: {value:?}"))),
            Some(Err(error)) if error.kind() != ErrorKind::Closed => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn verify(&mut self) -> Check {
        verify(&self.store()?.db)
    }

    fn stats(&mut self) -> Check {
        let store = self.store()?;
        let stats = store.db.stats();
        let names = store.db.keyspaces().len();
        if stats.keyspaces.len() != names {
            let count = stats.keyspaces.len();
            return Err(Violation(format!("statistics of {count} keyspaces of {names}")));
        }
        Ok(())
    }

    fn compare(&self, store: &Store) -> Check {
        compare(store, &self.state)
    }

    /// Compares everything, forward and backward, verifies, and does it again after reopening.
    ///
    /// # Errors
    /// The first difference.
    pub fn finish(&mut self) -> Check {
        for place in 0..HELD {
            if self.held[usize::from(place)].is_some() {
                self.drain(place)?;
            }
        }
        self.compare(self.store()?)?;
        self.verify()?;
        self.reopen(true)?;
        self.compare(self.store()?).map_err(|v| v.context("after reopening"))?;
        self.verify().map_err(|v| v.context("after reopening"))?;
        self.store()?.db.wait_idle()?;
        no_leaks(self.store()?, &self.world)?;
        self.close()
    }
}

fn places(places: Vec<Option<Pair>>) -> Answer {
    Answer::Places(places)
}

fn is_adjacent(change: Change) -> bool {
    match change {
        Change::DeleteRange(_, Span { from: Edge::With(from), to: Edge::With(to) }) => {
            let mut next = key_bytes(to);
            next.push(0);
            next == key_bytes(from)
        }
        _ => false,
    }
}

/// Compares a database with a state, forward and backward.
///
/// # Errors
/// The differences.
pub fn compare(store: &Store, state: &State) -> Check {
    let expected = state.dump();
    for (direction, found) in [("forward", store.dump()?), ("backward", store.dump_backward()?)] {
        if expected != found {
            let difference = Difference::between(&expected, &found);
            return Err(Violation(format!("full scan {direction}: {difference}")));
        }
    }
    Ok(())
}

/// Runs `verify`, which must find nothing.
///
/// # Errors
/// Its findings.
pub fn verify(db: &Db) -> Check {
    let report = db.verify(&mut |_, _| {})?;
    match report.problems.first() {
        None => Ok(()),
        Some(problem) => Err(Violation(format!(
            "verify finds {} problems, first {:?} at {:?}: {}",
            report.problems.len(),
            problem.file,
            problem.offset,
            problem.message
        ))),
    }
}

/// Every file must be one of ours, and every table one that an index names. Nothing may be pinned
/// and no work due.
///
/// # Errors
/// The file that should not be there.
pub fn no_leaks(store: &Store, world: &World) -> Check {
    // Removal is background work of its own; on a real disk it happens when a thread gets there.
    for _ in 0..200 {
        let settled = world.settle(1000);
        if (settled && files_match(store, world).is_ok()) || world.disk().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    files_match(store, world)
}

fn files_match(store: &Store, world: &World) -> Check {
    let names = world.file_names();
    if let Some(unknown) = names.iter().find(|name| !is_ours(name)) {
        return Err(Violation(format!("unknown file {unknown}")));
    }
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
    let tables: usize = [".tbl", ".fxp", ".fxs", ".fxl"].into_iter().map(count).sum();
    let (saved, found) = (count(".loc"), (tables, count(".dlt"), count(".drp")));
    let stats = store.db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let (buckets, facts) = (stats.deltas.buckets, stats.collection.facts_files);
    let named = (levels.map(|level| level.files).sum(), buckets as usize, facts as usize);
    if found != named || saved > 1 {
        let found = format!("{found:?} of indexes, buckets, facts, {saved} locators on disk");
        return Err(Violation(format!("{found}, {named:?} in force: {names:?}")));
    }
    // One more may be there, blank.
    let values = names.iter().filter(|n| n.ends_with(".val") || n.ends_with(".vtb")).count() as u64;
    let in_force = stats.values.files;
    if values != in_force && values != in_force + 1 {
        return Err(Violation(format!("{values} value files, {in_force} in force: {names:?}")));
    }
    let large = count(".big") as u64;
    let in_force = stats.values.large_files;
    if large != in_force {
        return Err(Violation(format!("{large} large values, {in_force} in force: {names:?}")));
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    let fixed = ["CURRENT", "OPTIONS", "LOCK", "RESERVE"];
    let Some((stem, extension)) = name.split_once('.') else { return fixed.contains(&name) };
    stem.len() >= 6
        && stem.bytes().all(|byte| byte.is_ascii_digit())
        && "log tbl val big vtb loc dlt drp man fxp fxs fxl"
            .split(' ')
            .any(|known| known == extension)
}
