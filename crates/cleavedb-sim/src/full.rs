//! A full disk: writes fail with a typed error and lose nothing, reads and deletes go on, and
//! writes resume once there is room.
//!
//! Invariants: N1 the only error is `NoSpace`. N2 what was acknowledged stays. N3 deletes, flush
//! and compaction find room in the reserve. N4 no reopening is needed.

use cleavedb::ErrorKind;
use cleavedb::sim::CrashMode;

use crate::form::Form;
use crate::kinds::Kinds;
use crate::model::{State, dump_fingerprint};
use crate::operation::{Change, Edge, Payload, Span, key_bytes};
use crate::progress::Difference;
use crate::random::Random;
use crate::session::{Check, Violation, compare, verify};
use crate::store::Store;
use crate::world::World;

/// Puts within which every disk of this family is full.
const PUTS_MAX: u32 = 4000;

struct Filler {
    store: Store,
    state: State,
    random: Random,
}

impl Filler {
    /// Puts until the disk is full; the put that failed is not there.
    fn fill(&mut self) -> Check {
        for tag in 0..PUTS_MAX {
            let key = self.random.below(400) as u16;
            let bytes = self.random.within(1, 900) as u32;
            let change = Change::Put(1, key, Payload { tag: tag * 2 + 1, bytes });
            let mut next = self.state.clone();
            next.apply(change);
            match self.store.change(change) {
                Ok(()) => self.state = next,
                Err(error) if error.kind() == ErrorKind::NoSpace => return self.settled(&next),
                Err(error) => return Err(Violation(format!("a full disk gives {error:?}"))),
            }
        }
        Err(Violation("the disk does not get full".to_owned()))
    }

    /// Reads show the state before or after the commit that failed.
    fn settled(&mut self, next: &State) -> Check {
        let dump = self.store.dump().map_err(|e| Violation(format!("reads stop: {e:?}")))?;
        let fingerprint = dump_fingerprint(&dump);
        if fingerprint == next.fingerprint() {
            self.state = next.clone();
        } else if fingerprint != self.state.fingerprint() {
            let difference = Difference::between(&self.state.dump(), &dump);
            return Err(Violation(format!("a full disk loses: {difference}")));
        }
        compare(&self.store, &self.state)
    }

    /// Deletes most keys, at once or one by one, compacts, and lets the background collect value
    /// files, unasked: none of that may fail.
    fn make_room(&mut self, at_once: bool) -> Check {
        let there = |key: &u16| self.state.get(1, &key_bytes(*key)).is_some();
        let all = Span { from: Edge::With(1), to: Edge::With(400) };
        let changes: Vec<Change> = match at_once {
            true => vec![Change::DeleteRange(1, all)],
            false => {
                let keys = (0..400).filter(|key| key % 8 != 0).filter(there);
                keys.map(|key| Change::Delete(1, key)).collect()
            }
        };
        for change in changes {
            self.store
                .change(change)
                .map_err(|e| Violation(format!("a delete on a full disk gives {e:?}")))?;
            self.state.apply(change);
        }
        self.store.db.flush().map_err(|e| Violation(format!("a flush of deletes: {e:?}")))?;
        self.store.db.compact().map_err(|e| Violation(format!("a compaction: {e:?}")))?;
        self.store.db.wait_idle().map_err(|e| Violation(format!("background work: {e:?}")))?;
        compare(&self.store, &self.state)
    }
}

/// Fills a disk of `capacity` bytes, makes room, fills it again, enlarges it, writes on.
///
/// # Errors
/// The first promise broken.
pub fn run(form: &Form, seed: u64, capacity: u64) -> Check {
    let world = World::simulated(seed);
    let Some(disk) = world.disk().cloned() else { return Ok(()) };
    let mut store = Store::open(world.options(form), &world.path)?;
    let mut state = State::default();
    for slot in 0..3 {
        store.create(form, slot)?;
        state.create(slot);
    }
    disk.set_capacity(Some(capacity));
    let mut filler = Filler { store, state, random: Random::new(seed) };
    for round in 0..3 {
        let context = |v: Violation| v.context(format!("round {round}"));
        filler.fill().map_err(context)?;
        filler.make_room(round == 1).map_err(|v| {
            let (room, files) = (disk.room(), disk.files());
            context(v).context(format!("{room} bytes of room, {files:?}"))
        })?;
        let change = Change::Put(1, 1, Payload { tag: round, bytes: 100 });
        filler.store.change(change).map_err(|e| {
            let (room, files) = (disk.room(), disk.files());
            Violation(format!("round {round}: room was made, yet {e:?}: {room} of {files:?}"))
        })?;
        filler.state.apply(change);
    }
    filler.fill()?;
    disk.set_capacity(None);
    let change = Change::Put(1, 2, Payload { tag: 9, bytes: 2000 });
    let outcome = filler.store.change(change);
    outcome.map_err(|e| Violation(format!("the disk was enlarged, yet {e:?}")))?;
    filler.state.apply(change);
    verify(&filler.store.db)?;
    filler.store.db.sync()?;
    let image = disk.crash_image(CrashMode::None, seed);
    let world = World::on(image, seed);
    let store = Store::open(world.options(form), &world.path)
        .map_err(|error| Violation(format!("unopenable: {error:?}")))?;
    compare(&store, &filler.state).map_err(|v| v.context("after a crash"))
}

/// Indexes of the disks of a seed.
const KINDS: [Kinds; 4] = [Kinds::Lsm, Kinds::Flex, Kinds::Both, Kinds::Flex];

/// Seed of a disk that one segment would nearly fill if the reserve were no bound to it.
pub(crate) const LARGE_SEGMENT: u64 = 8_085_173_633_232_393_019;

/// Some disks of different sizes for a seed.
///
/// # Errors
/// The first promise broken.
pub fn sweep(form: &Form, seed: u64) -> Check<u64> {
    let mut random = Random::new(seed);
    for kinds in KINDS {
        fill(kinds.form(form), &mut random)?;
    }
    usual(form, random.bits())?;
    Ok(KINDS.len() as u64 + 1)
}

/// A disk under a Flex index of usual sizes: its segments would take all of the disk if the reserve
/// were no bound to them.
///
/// # Errors
/// The first promise broken.
pub fn usual(form: &Form, seed: u64) -> Check {
    let mut form = Kinds::Flex.form(form);
    form.widths.block_bytes = 4096;
    // The more is in the index, the larger its segments.
    form.separate_at = None;
    form.name = format!("{}, of usual sizes", form.name);
    fill(form, &mut Random::new(seed))
}

/// A disk of some size.
fn fill(mut form: Form, random: &mut Random) -> Check {
    // Without a reserve nothing is promised; it must hold what deletes, flush and compaction need.
    form.reserve_bytes = 128 << 10;
    // The naive index rewrites everything at each flush.
    form.mixed = false;
    form.widths.journal_segment_bytes = form.widths.journal_segment_bytes.min(4 << 10);
    form.widths.memtable_bytes = form.widths.memtable_bytes.min(4 << 10);
    let capacity = form.reserve_bytes + random.within(200 << 10, 300 << 10);
    run(&form, random.bits(), capacity)
        .map_err(|v| v.context(format!("disk of {capacity} bytes, form \"{}\"", form.name)))
}

#[cfg(test)]
mod tests;
