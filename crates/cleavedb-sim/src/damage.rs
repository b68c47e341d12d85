//! Damage at rest: every byte of a small store is damaged in every way, one at a time, and the
//! store must give right answers or typed errors, and `verify` must notice.
//!
//! Invariants: D1 an answer is right or an error, never another one. D2 keys that a scan returns
//! before its error are right and without a gap. D3 only the end of a lane's newest segment may be
//! taken for a torn write, and only where its end or a zeroed sector says so; the end of the
//! manifest only where that changes no answer.

mod chosen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleavedb::ErrorKind;
use cleavedb::sim::{CrashMode, MemoryDisk};

use crate::branches;
use crate::damage::chosen::Chosen;
use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::harness::{Budget, guarded, spread, survey};
use crate::model::{Dump, Pair};
use crate::operation::Operation;
use crate::progress::{Progress, Window};
use crate::random::Random;
use crate::session::{Check, Session, Violation, lock};
use crate::store::Store;
use crate::world::{SIMULATED_PATH, World};

/// Bytes that a device damages at once.
const SECTOR: usize = 512;

/// One way to damage a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Some bits of one byte.
    Flip(usize, u8),
    /// A sector of zeros.
    Zero(usize),
    /// Two sectors exchanged.
    Swap(usize, usize),
    /// Cut.
    Truncate(usize),
    /// Bytes behind the end.
    Append(Vec<u8>),
    /// No bytes.
    Empty,
    /// No file.
    Remove,
    /// The bytes of another file of its kind, or of itself earlier.
    Copy(Vec<u8>, &'static str),
}

/// What has been counted.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Damaged copies looked at.
    pub damaged: u64,
    /// Kinds of files damaged.
    pub kinds: std::collections::BTreeSet<String>,
    /// Copies whose damage `verify`, or already opening, reported.
    pub detected: u64,
    /// Copies whose damage hit bytes that count, so that it had to be reported.
    pub live: u64,
    /// Copies in which the end of the newest journal was taken for a torn write.
    pub torn: u64,
}

impl Figures {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        self.damaged += other.damaged;
        self.kinds.extend(other.kinds.iter().cloned());
        self.detected += other.detected;
        self.live += other.live;
        self.torn += other.torn;
    }
}

/// A store to damage, with what it must answer.
pub struct Specimen {
    disk: MemoryDisk,
    older: Vec<MemoryDisk>,
    form: Form,
    expected: Dump,
    progress: Progress,
    clean: bool,
}

/// The extension of a file, or its name where it has none.
fn kind_of(path: &Path) -> String {
    let part = path.extension().or_else(|| path.file_name());
    part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Specimen {
    /// Builds a store with one of every kind of file: tables on several levels, a manifest, and a
    /// journal with entries that no table holds. `clean` says whether it was closed.
    ///
    /// # Errors
    /// What the engine must not refuse.
    pub fn build(seed: u64, form: Form, operations: usize, clean: bool) -> Check<Self> {
        let world = World::simulated(seed);
        let mut session = Session::start(world.clone(), form.clone())?;
        let weights = [80, 0, 0, 8, 12, 0];
        let profile = Profile { weights, value_bytes_max: 300, ..Profile::crash(operations) };
        let mut older = Vec::new();
        let list = Generator::list(seed, profile);
        let copy_at = list.len() * 2 / 3;
        for (index, operation) in list.iter().enumerate() {
            session.run(operation)?;
            if index == copy_at {
                older.extend(world.disk().map(|disk| disk.crash_image(CrashMode::All, 0)));
            }
        }
        let tail = Profile { weights: [1, 0, 0, 0, 0, 0], operations: 16, ..profile };
        session.run(&Operation::WaitIdle)?;
        for operation in Generator::list(seed ^ 1, tail) {
            session.run(&operation)?;
        }
        session.run(&Operation::Sync)?;
        // Files that are about to be removed hold nothing to lose.
        session.run(&Operation::WaitIdle)?;
        if !world.settle(10_000) {
            return Err(Violation("background work does not come to an end".to_owned()));
        }
        let expected = session.state().dump();
        let mut image = world.disk().map(|disk| disk.crash_image(CrashMode::All, 0));
        let progress = lock(&session.progress).clone();
        session.close()?;
        if clean {
            image = world.disk().map(|disk| disk.crash_image(CrashMode::All, 0));
        }
        let disk = image.ok_or_else(|| Violation("no simulated disk".to_owned()))?;
        Ok(Self { disk, older, form, expected, progress, clean })
    }

    /// Files of the store with their contents.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let below = |path: &PathBuf| path.starts_with(SIMULATED_PATH);
        let paths = self.disk.files().into_iter().map(|(path, _)| path).filter(below);
        paths.map(|path| (path.clone(), self.disk.contents(&path))).collect()
    }

    /// The newest file of a kind; not the blank one that waits to become the next journal.
    fn newest(&self, kind: &str) -> Option<PathBuf> {
        let is_begun = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
        let files = self.files().into_iter().filter(|(_, bytes)| is_begun(bytes));
        files.map(|(path, _)| path).filter(|path| kind_of(path) == kind).max()
    }

    /// Every damage to a file: all of them, or one in `one_in` of those by byte.
    #[must_use]
    pub fn damages(&self, path: &Path, bytes: &[u8], one_in: u64, seed: u64) -> Vec<Damage> {
        let mut random = Random::new(seed);
        let mut damages = vec![Damage::Empty, Damage::Remove];
        for at in 0..bytes.len() {
            // Room set aside for later, and what fills a block, is all alike: a part of it will do.
            if is_room(bytes, at) && !random.chance(1, 64) {
                continue;
            }
            for mask in [0x01, 0x80, 0xff] {
                if random.chance(1, one_in) {
                    damages.push(Damage::Flip(at, mask));
                }
            }
            if random.chance(1, one_in) {
                damages.push(Damage::Truncate(at));
            }
        }
        for at in (0..bytes.len()).step_by(SECTOR) {
            damages.push(Damage::Zero(at));
            damages.push(Damage::Swap(at, random.index(bytes.len().div_ceil(SECTOR)) * SECTOR));
        }
        damages.push(Damage::Append(vec![0; 40]));
        damages.push(Damage::Append(random.bits().to_le_bytes().repeat(9)));
        damages.push(Damage::Append(bytes.get(..bytes.len().min(900)).unwrap_or(bytes).to_vec()));
        for (other, contents) in self.files() {
            if other != path && kind_of(&other) == kind_of(path) {
                damages.push(Damage::Copy(contents, "sibling"));
            }
        }
        for older in &self.older {
            let contents = older.contents(path);
            if !contents.is_empty() {
                damages.push(Damage::Copy(contents, "older"));
            }
        }
        damages.retain(|damage| damage.apply(bytes).as_deref() != Some(bytes));
        damages
    }

    /// Damages a copy in one way and looks at it.
    ///
    /// # Errors
    /// A wrong answer, a silent loss, or damage that nothing reports.
    pub fn examine(
        &self,
        path: &Path,
        bytes: &[u8],
        damage: &Damage,
        figures: &mut Figures,
    ) -> Check {
        let copy = self.disk.deep_clone();
        match damage.apply(bytes) {
            Some(changed) => copy.replace(path, changed).map_err(|e| Violation(e.to_string()))?,
            None => copy.remove(path).map_err(|e| Violation(e.to_string()))?,
        }
        figures.damaged += 1;
        figures.kinds.insert(kind_of(path));
        let counts = self.counts(path, bytes, damage);
        let may_be_torn = self.may_be_torn(path, damage);
        let world = World::on(copy, 1);
        let (reported, torn) = match Store::open(world.options(&self.form), &world.path) {
            Err(error) if harmless(path) => {
                return Err(Violation(format!(
                    "a file without contents blocks opening: {error:?}"
                )));
            }
            Err(error) => {
                typed(&error)?;
                (true, false)
            }
            Ok(store) => self.look(&store, may_be_torn)?,
        };
        // The end of an edit that was being written looks the same; the answers were right.
        let torn = torn || (!reported && self.is_cut_end(path, damage));
        figures.torn += u64::from(torn);
        figures.live += u64::from(counts && !torn);
        figures.detected += u64::from(counts && !torn && reported);
        if counts && !torn && !reported {
            return Err(Violation("neither opening nor verify notices".to_owned()));
        }
        Ok(())
    }

    /// Whether the damage changes bytes that mean something.
    fn counts(&self, path: &Path, bytes: &[u8], damage: &Damage) -> bool {
        if harmless(path) {
            return false;
        }
        let kind = kind_of(path);
        if kind == "dlt" && matches!(damage, Damage::Append(_)) {
            // Bytes behind the committed ones mean nothing: a flush may have failed there.
            return false;
        }
        if matches!(kind.as_str(), "fxs" | "fxp") {
            // What lives in them stands beside what no longer does: whatever a read meets of it,
            // `look` demands of `verify` as well. Of a segment that is written to nothing may live
            // any more; the newest page of the tree always does.
            return kind == "fxp" && matches!(damage, Damage::Empty | Damage::Remove);
        }
        if !matches!(kind.as_str(), "log" | "val" | "man" | "fxl") {
            return true;
        }
        // Zeros behind the last record are room for the next one.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        match damage {
            Damage::Flip(at, _) | Damage::Zero(at) => *at < used,
            Damage::Swap(a, b) => (*a).min(*b) < used,
            Damage::Truncate(length) => *length < used,
            Damage::Append(_) => false,
            Damage::Empty | Damage::Remove | Damage::Copy(..) => used > 0,
        }
    }

    fn may_be_torn(&self, path: &Path, damage: &Damage) -> bool {
        let is_log = matches!(kind_of(path).as_str(), "log" | "val");
        // A large value beyond the mark is like a frame there, and so is all that follows.
        let is_large = kind_of(path) == "big";
        !self.clean && (is_large || is_log && self.is_cut_end(path, damage))
    }

    /// Whether the damage may look like the end of a write that a crash cut short.
    fn is_cut_end(&self, path: &Path, damage: &Damage) -> bool {
        let cut = !matches!(damage, Damage::Flip(..) | Damage::Append(_) | Damage::Remove);
        let kind = kind_of(path);
        let may_end = matches!(kind.as_str(), "log" | "val" | "man");
        cut && may_end && self.newest(&kind).as_deref() == Some(path)
    }

    /// Reads everything; returns whether the damage was reported and whether a torn end was cut.
    fn look(&self, store: &Store, may_be_torn: bool) -> Check<(bool, bool)> {
        let mut failed = false;
        let mut torn = false;
        let mut expected = self.expected.clone();
        if may_be_torn {
            match store.dump() {
                Ok(dump) => {
                    let all = Window { low: 0, high: self.progress.issued() };
                    let index = self.progress.place(&dump, all)?;
                    torn = dump != expected;
                    let state = self.progress.state(index).map(crate::model::State::dump);
                    expected = state.unwrap_or(dump);
                }
                Err(error) => {
                    typed(&error)?;
                    return self.look_at_part(store).map(|()| (true, false));
                }
            }
        }
        for (name, pairs) in &expected {
            let keyspace = match store.db.existing_keyspace(name) {
                Ok(Some(keyspace)) => keyspace,
                Ok(None) => return Err(Violation(format!("keyspace {name} is silently gone"))),
                Err(error) => {
                    typed(&error)?;
                    failed = true;
                    continue;
                }
            };
            let everything = || keyspace.range::<Vec<u8>>(..);
            failed |= scan_is_prefix(pairs.iter(), everything())?;
            failed |= scan_is_prefix(pairs.iter().rev(), everything().rev())?;
            for (key, value) in pairs {
                match keyspace.get(key) {
                    Ok(Some(found)) if *found == **value => {}
                    Ok(found) => {
                        let key = key.escape_ascii();
                        return Err(Violation(format!("wrong: {name}/{key} reads {found:?}")));
                    }
                    Err(error) => {
                        typed(&error)?;
                        failed = true;
                    }
                }
            }
        }
        let noticed = match store.db.verify(&mut |_, _| {}) {
            Ok(report) => !report.problems.is_empty(),
            Err(error) => {
                typed(&error)?;
                true
            }
        };
        if failed && !noticed {
            return Err(Violation("reads fail, yet verify finds nothing".to_owned()));
        }
        Ok((noticed, torn))
    }

    /// Looks at a store whose end was lost and of which not all can be read: what was durable
    /// superseded values that are gone since. What can be read must have been there at some time,
    /// and verification must say that something is wrong.
    fn look_at_part(&self, store: &Store) -> Check {
        let mut known = std::collections::BTreeSet::new();
        for state in (0..=self.progress.issued()).filter_map(|at| self.progress.state(at)) {
            for (name, pairs) in state.dump() {
                known.extend(pairs.into_iter().map(|(key, value)| (name.clone(), key, value)));
            }
        }
        for name in self.expected.keys() {
            let Ok(Some(keyspace)) = store.db.existing_keyspace(name) else { continue };
            for item in keyspace.range::<Vec<u8>>(..) {
                let (key, value) = match item {
                    Ok(pair) => pair,
                    Err(error) => {
                        typed(&error)?;
                        continue;
                    }
                };
                if !known.contains(&(name.clone(), key.to_vec(), value.to_vec())) {
                    let key = key.escape_ascii();
                    return Err(Violation(format!("wrong: {name}/{key} was never {value:?}")));
                }
            }
        }
        match store.db.verify(&mut |_, _| {}) {
            Ok(report) if report.problems.is_empty() => {
                Err(Violation("reads fail, yet verify finds nothing".to_owned()))
            }
            Ok(_) => Ok(()),
            Err(error) => typed(&error),
        }
    }

    /// Examines every damage to every file, to the last one if `whole`, else until the budget is
    /// spent; returns what was counted.
    ///
    /// # Errors
    /// The first that breaks a promise.
    pub fn examine_all(
        &self,
        one_in: u64,
        seed: u64,
        budget: &Budget,
        whole: bool,
    ) -> Check<Figures> {
        let mut figures = Figures::default();
        for (path, bytes) in self.files() {
            for damage in self.damages(&path, &bytes, one_in, seed) {
                if !whole && budget.is_spent() {
                    return Ok(figures);
                }
                let name = format!("{} {}", path.display(), damage.name());
                budget.count(1);
                let outcome = guarded(&name, || self.examine(&path, &bytes, &damage, &mut figures));
                survey(outcome.map_err(|v| v.context(name)))?;
            }
        }
        Ok(figures)
    }
}

/// Whether a byte stands in a stretch of zeros that is too long for a record, or behind all others.
fn is_room(bytes: &[u8], at: usize) -> bool {
    /// Bytes on either side.
    const NEAR: usize = 32;
    let near = bytes.get(at.saturating_sub(NEAR)..(at + NEAR).min(bytes.len()));
    near.is_some_and(|near| near.iter().all(|&byte| byte == 0))
}

/// Files that hold nothing that an answer depends on: `OPTIONS` is written anew at each open.
fn harmless(path: &Path) -> bool {
    matches!(kind_of(path).as_str(), "LOCK" | "RESERVE" | "OPTIONS")
}

/// Errors that damage may cause.
fn typed(error: &cleavedb::Error) -> Check {
    match error.kind() {
        ErrorKind::Corruption
        | ErrorKind::Io
        | ErrorKind::Unsupported
        | ErrorKind::Mismatch
        | ErrorKind::NotFound
        | ErrorKind::Stopped => Ok(()),
        _ => Err(Violation(format!("an error that damage must not cause: {error:?}"))),
    }
}

/// Whether a scan ended with an error; what came before must be right (D2).
fn scan_is_prefix<'a>(
    mut expected: impl Iterator<Item = &'a Pair>,
    scan: impl Iterator<Item = cleavedb::Result<(cleavedb::Value, cleavedb::Value)>>,
) -> Check<bool> {
    for item in scan {
        let (key, value) = match item {
            Ok(pair) => pair,
            Err(error) => return typed(&error).map(|()| true),
        };
        if expected.next().is_none_or(|(k, v)| **k != *key || **v != *value) {
            return Err(Violation(format!("wrong: a scan returns {key:?} out of place")));
        }
    }
    match expected.next() {
        None => Ok(false),
        Some((key, _)) => {
            Err(Violation(format!("silently lost: a scan ends before {}", key.escape_ascii())))
        }
    }
}

impl Damage {
    /// The damaged contents; `None` where the file is removed.
    #[must_use]
    pub fn apply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut changed = bytes.to_vec();
        match self {
            Self::Flip(at, mask) => changed[*at] ^= mask,
            Self::Zero(at) => {
                let end = (at + SECTOR).min(changed.len());
                changed[*at..end].fill(0);
            }
            Self::Swap(a, b) => {
                for step in 0..SECTOR {
                    if a + step < changed.len() && b + step < changed.len() {
                        changed.swap(a + step, b + step);
                    }
                }
            }
            Self::Truncate(length) => changed.truncate(*length),
            Self::Append(junk) => changed.extend_from_slice(junk),
            Self::Empty => changed.clear(),
            Self::Remove => return None,
            Self::Copy(other, _) => changed.clone_from(other),
        }
        Some(changed)
    }

    /// What is done, without contents.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Append(junk) => format!("append {} bytes", junk.len()),
            Self::Copy(_, from) => format!("copy of {from}"),
            other => format!("{other:?}"),
        }
    }
}

/// Builds and damages stores until the budget is spent, the first three in any case whole.
///
/// # Errors
/// The first damage that breaks a promise.
pub fn campaign(budget: &Budget, one_in: u64, runs: u64) -> Check<Figures> {
    let total = std::sync::Mutex::new(Figures::default());
    let exchanged = guarded("branches", || branches::run(budget.seed))?;
    lock(&total).damaged += exchanged;
    let chosen = Chosen::of(budget);
    spread(budget, "damage", runs.max(6), |seed| {
        let is_whole = chosen.is_whole(seed);
        let clean = seed == chosen.locator || seed.is_multiple_of(2) && !is_whole;
        let operations = if seed == chosen.tables { 120 } else { 60 };
        let specimen = Specimen::build(seed, chosen.form(seed), operations, clean)?;
        chosen.check(seed, &specimen)?;
        let figures = specimen.examine_all(one_in, seed, budget, is_whole)?;
        lock(&total).add(&figures);
        Ok(())
    })?;
    let figures = lock(&total).clone();
    Ok(figures)
}

/// Files by kind, for reports.
#[must_use]
pub fn kinds(specimen: &Specimen) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for (path, _) in specimen.files() {
        *kinds.entry(kind_of(&path)).or_default() += 1;
    }
    kinds
}
