//! Crash states: before every call that changes the disk, every image that a loss of power may
//! leave is reopened and must show one prefix of history.
//!
//! A run collects the images of one operation while the engine works and checks them afterwards,
//! so the engine is never entered twice at once. Invariants: C1 a crash state counts once per
//! distinct image. C2 an image met again is still held against the window of its moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cleavedb::sim::{CrashMode, MemoryDisk};

use crate::form::Form;
use crate::generator::{Generator, Profile};
use crate::model::{self, State};
use crate::operation::{Operation, Read, SLOTS};
use crate::progress::{Progress, Window};
use crate::random::Random;
use crate::session::{Check, Session, Violation, compare, lock, no_leaks, verify};
use crate::store::Store;
use crate::world::World;

/// Background steps within which a small database must come to rest.
const STEPS_MAX: u32 = 10_000;

/// States of a list after which none of them is crashed again. The doubling of
/// [`Depth::resume_one_in`] alone does not make every list end: where a recovery meets some hundred
/// states, as with many small files, each crash begets several others.
const NESTED_STATES_MAX: u64 = 8_000;

/// How thoroughly crash states are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Crashes within the recovery from a crash.
    pub nested: u32,
    /// One in this many states is written to and crashed again; with each crash within a crash,
    /// one in twice as many. A recovery meets more states than this, so that without the doubling
    /// a list would hardly end: most states would be those of the innermost crashes.
    pub resume_one_in: u64,
    /// One in this many mutating calls is looked at.
    pub calls_one_in: u64,
}

impl Depth {
    /// Every call, some states crashed again.
    pub const FULL: Self = Self { nested: 3, resume_one_in: 40, calls_one_in: 1 };
    /// Every call, nothing nested.
    pub const FLAT: Self = Self { nested: 0, resume_one_in: 0, calls_one_in: 1 };
}

/// What has been counted.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Distinct images reopened.
    pub states: u64,
    /// Images met, those met before included.
    pub met: u64,
    /// Mutating calls before which images were taken.
    pub points: u64,
    /// States that were crashed again during or after their recovery.
    pub nested: u64,
}

impl Figures {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.met += other.met;
        self.points += other.points;
        self.nested += other.nested;
    }
}

/// An image with what it may show.
struct Candidate {
    image: MemoryDisk,
    window: Window,
    mode: CrashMode,
    point: u64,
}

type Candidates = Arc<Mutex<Vec<Candidate>>>;

/// Looks at the crash states of runs under one form.
pub struct Crasher {
    form: Form,
    /// Counts so far.
    pub figures: Figures,
    depth: Depth,
    random: Random,
    /// What the images met so far show.
    seen: HashMap<u64, u64>,
}

impl Crasher {
    /// A crasher for a form; `seed` decides what is sampled.
    #[must_use]
    pub fn new(form: Form, depth: Depth, seed: u64) -> Self {
        Self {
            form,
            figures: Figures::default(),
            depth,
            random: Random::new(seed),
            seen: HashMap::new(),
        }
    }

    /// Creates a database, runs a list, and checks every crash state on the way.
    ///
    /// # Errors
    /// The first state that breaks a promise.
    pub fn run(&mut self, operations: &[Operation]) -> Check {
        let world = World::simulated(self.random.bits());
        let progress = Arc::new(Mutex::new(Progress::new(State::default())));
        let candidates = self.watch(&world, &progress);
        let session = Session::create(world.clone(), self.form.clone(), progress);
        let outcome = session.and_then(|mut session| {
            let nested = self.depth.nested;
            self.drain(&session, &candidates, nested).map_err(|v| v.context("while creating"))?;
            self.follow(&mut session, operations, &candidates, nested)?;
            session.close()?;
            self.drain(&session, &candidates, nested).map_err(|v| v.context("while closing"))
        });
        world.unobserve();
        outcome
    }

    /// Continues from an image that is known to show `state`.
    ///
    /// # Errors
    /// As [`Crasher::run`].
    pub fn run_from(&mut self, image: &MemoryDisk, state: State, list: &[Operation]) -> Check {
        let nested = self.depth.nested;
        self.continue_from(image.deep_clone(), state, list, nested)
    }

    fn continue_from(
        &mut self,
        image: MemoryDisk,
        state: State,
        list: &[Operation],
        nested: u32,
    ) -> Check {
        let world = World::on(image, self.random.bits());
        let progress = Arc::new(Mutex::new(Progress::new(state.clone())));
        let candidates = self.watch(&world, &progress);
        let outcome = Session::resume(world.clone(), self.form.clone(), progress, state).and_then(
            |mut session| {
                self.drain(&session, &candidates, nested)
                    .map_err(|v| v.context("while recovering"))?;
                self.follow(&mut session, list, &candidates, nested)
            },
        );
        world.unobserve();
        outcome
    }

    fn follow(
        &mut self,
        session: &mut Session,
        operations: &[Operation],
        candidates: &Candidates,
        nested: u32,
    ) -> Check {
        for (index, operation) in operations.iter().enumerate() {
            let context = |v: Violation| v.context(format!("operation {index}, {operation:?}"));
            session.run(operation).map_err(context)?;
            self.drain(session, candidates, nested).map_err(context)?;
        }
        Ok(())
    }

    /// Takes images before every mutating call.
    fn watch(&mut self, world: &World, progress: &Arc<Mutex<Progress>>) -> Candidates {
        let candidates = Candidates::default();
        let (to, progress) = (candidates.clone(), progress.clone());
        let random = Mutex::new(Random::new(self.random.bits()));
        let one_in = self.depth.calls_one_in;
        world.observe(move |point, disk| {
            let mut random = lock(&random);
            if !random.chance(1, one_in) {
                return;
            }
            let (power, kill) = {
                let progress = lock(&progress);
                (progress.after_power_loss(), progress.after_kill())
            };
            for mode in CrashMode::ALL {
                // What the kernel was given survives a kill of the process.
                let window = if mode == CrashMode::All { kill } else { power };
                let image = disk.crash_image(mode, random.bits());
                lock(&to).push(Candidate { image, window, mode, point });
            }
        });
        candidates
    }

    fn drain(&mut self, session: &Session, candidates: &Candidates, nested: u32) -> Check {
        let taken = std::mem::take(&mut *lock(candidates));
        let mut point = None;
        for candidate in taken {
            if point != Some(candidate.point) {
                point = Some(candidate.point);
                self.figures.points += 1;
            }
            let progress = lock(&session.progress).clone();
            let context = format!("crash before call {}, {:?}", candidate.point, candidate.mode);
            self.check(candidate, &progress, nested).map_err(|v| v.context(context))?;
        }
        Ok(())
    }

    fn check(&mut self, candidate: Candidate, progress: &Progress, nested: u32) -> Check {
        self.figures.met += 1;
        let digest = candidate.image.digest();
        if let Some(&fingerprint) = self.seen.get(&digest) {
            return match progress.find(fingerprint, candidate.window) {
                Some(_) => Ok(()),
                None => Err(Violation(format!(
                    "lost: the image shows an older state than {:?}",
                    candidate.window
                ))),
            };
        }
        self.figures.states += 1;
        let resumed = self.resumes(nested);
        let kept = resumed.then(|| candidate.image.deep_clone());
        let index = self.reopen(candidate.image, progress, candidate.window)?;
        let Some(state) = progress.state(index) else { return Ok(()) };
        self.seen.insert(digest, state.fingerprint());
        if let Some(image) = kept {
            self.figures.nested += 1;
            let profile = Profile { weights: [70, 0, 0, 10, 20, 0], ..Profile::crash(3) };
            let list = Generator::list(self.random.bits(), profile);
            self.continue_from(image, state.clone(), &list, nested - 1)
                .map_err(|v| v.context("crashed again"))?;
        }
        Ok(())
    }

    /// Whether to write to a state and crash again, where `nested` crashes are left.
    fn resumes(&mut self, nested: u32) -> bool {
        let one_in = self.depth.resume_one_in << (self.depth.nested - nested);
        let is_chosen = nested > 0 && one_in > 0 && self.random.chance(1, one_in);
        is_chosen && self.figures.states < NESTED_STATES_MAX
    }

    /// Reopens an image and looks at everything; returns the commit that it shows.
    fn reopen(&mut self, image: MemoryDisk, progress: &Progress, window: Window) -> Check<usize> {
        let form = if self.random.chance(1, 6) {
            // What a store has from its creation on.
            let Form { index, odd_index, mixed, strategy, .. } = self.form;
            let mut form = Form::drawn(self.random.bits());
            // Nodes of a Flex index's tree are as wide as when it was made, by that of blocks.
            form.widths.block_bytes = self.form.widths.block_bytes;
            Form { index, odd_index, mixed, strategy, ..form }
        } else {
            self.form.clone()
        };
        let world = World::on(image, self.random.bits());
        let store = Store::open(world.options(&form), &world.path)
            .map_err(|error| Violation(format!("unopenable: {error:?}")))?;
        let dump = store.dump()?;
        let index = progress.place(&dump, window)?;
        let Some(state) = progress.state(index) else { return Ok(index) };
        compare(&store, state)?;
        self.probe(&store, state)?;
        verify(&store.db)?;
        if !world.settle(STEPS_MAX) {
            return Err(Violation("background work does not come to an end".to_owned()));
        }
        store.db.wait_idle()?;
        no_leaks(&store, &world)?;
        if self.random.chance(3, 4) {
            write_and_take_back(&store).map_err(|v| v.context("writing after recovery"))?;
        }
        if self.random.chance(1, 16) {
            drop(store);
            let store = Store::open(world.options(&form), &world.path)
                .map_err(|error| Violation(format!("unopenable a second time: {error:?}")))?;
            compare(&store, state).map_err(|v| v.context("opened a second time"))?;
        }
        Ok(index)
    }

    /// Some point reads.
    fn probe(&mut self, store: &Store, state: &State) -> Check {
        for slot in 0..SLOTS {
            let Some(space) = state.space(slot) else { continue };
            if store.keyspace(slot).is_none() {
                continue;
            }
            let mut keys: Vec<u16> = Vec::new();
            for _ in 0..4 {
                keys.push(self.random.below(40) as u16);
            }
            let reads = keys.iter().map(|&key| Read::Get(key));
            for read in reads.chain([Read::MultiGet(keys.clone())]) {
                let expected = Some(model::answer(&space.pairs, &read));
                let found = store.read(slot, None, &read)?;
                if expected != found {
                    return Err(Violation(format!("{read:?} differs from the scan")));
                }
            }
        }
        Ok(())
    }
}

/// Writes go on after a recovery, with seqs that were cut off given out again; what is there stays
/// as it was.
fn write_and_take_back(store: &Store) -> Check {
    let Some(keyspace) = (0..SLOTS).find_map(|slot| store.keyspace(slot)) else { return Ok(()) };
    let (key, value) = (b"written after recovery", [b'w'; 200]);
    keyspace.put(key, value)?;
    match keyspace.get(key)? {
        Some(found) if *found == value => Ok(keyspace.delete(key)?),
        found => Err(Violation(format!("reads {found:?}"))),
    }
}
