//! Closing under load: threads write and compact on the real disk while another closes. Stores with
//! an LSM-tree, a Flex index and both take turns; in the last, each write is a batch over both.
//!
//! Invariants: C1 a write is acknowledged and found at the next open, or refused with `Closed`.
//! C2 a compaction that is cut short leaves no trace. C3 closing ends.

use std::sync::atomic::{AtomicU64, Ordering};

use cleavedb::{Db, Durability, ErrorKind, IndexKind, Keyspace, KeyspaceOptions};

use crate::form::Form;
use crate::harness::{Budget, guarded};
use crate::kinds::Kinds;
use crate::random::Random;
use crate::session::{Check, Violation, verify};
use crate::world::World;

/// Threads that write; each counts its own keys up.
const WRITERS: u64 = 2;
/// Keys of one writer: few, so that versions pile up and compactions have work.
const KEYS: u64 = 3000;
/// Bytes of a value, and of those that are kept apart.
const VALUE_BYTES: usize = 60;
const LONG_BYTES: usize = 120;
/// Most writes of all threads before closing begins.
const WRITES_MAX: u64 = 3000;

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Databases closed under load.
    pub closings: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Calls refused since the database was closed.
    pub refused: u64,
}

fn key(writer: u64, version: u64) -> String {
    format!("{writer}/{:04}", version % KEYS)
}

/// One in four is kept apart, so that both lanes are in use at every moment.
fn value(version: u64) -> String {
    if version.is_multiple_of(4) {
        return format!("{version:0LONG_BYTES$}");
    }
    format!("{version:0VALUE_BYTES$}")
}

/// True where a call was done, false where it was refused since the database is closed.
fn done(outcome: cleavedb::Result<()>) -> Check<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Closed => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A database and what its writers have been told.
struct Load {
    db: Db,
    /// One for each index, all of the same contents.
    keyspaces: Vec<Keyspace>,
    /// The newest version each writer has acknowledged.
    acknowledged: [AtomicU64; WRITERS as usize],
}

impl Load {
    /// Writes versions after `from` until it is refused.
    fn write(&self, writer: u64, from: u64) -> Check<u64> {
        for version in from + 1.. {
            if !done(self.put(key(writer, version), value(version)))? {
                return Ok(1);
            }
            self.acknowledged[writer as usize].store(version, Ordering::Release);
        }
        Ok(0)
    }

    /// Puts into all keyspaces, or into none.
    fn put(&self, key: String, value: String) -> cleavedb::Result<()> {
        if let [only] = self.keyspaces.as_slice() {
            return only.put(key, value);
        }
        let mut batch = self.db.batch();
        for keyspace in &self.keyspaces {
            batch.put(keyspace, &key, &value);
        }
        batch.commit(Durability::Buffered)
    }

    /// Compacts everything again and again until it is refused.
    fn compact(&self) -> Check<u64> {
        loop {
            for keyspace in &self.keyspaces {
                if !done(keyspace.compact())? {
                    return Ok(1);
                }
            }
        }
    }

    fn sum(&self) -> u64 {
        self.acknowledged.iter().map(|newest| newest.load(Ordering::Acquire)).sum()
    }

    /// Exactly what was acknowledged is there, and the store is sound.
    fn check(&self, former: &[u64]) -> Check {
        let writers = former.iter().enumerate();
        for (keyspace, (writer, newest)) in
            self.keyspaces.iter().flat_map(|keyspace| writers.clone().map(move |w| (keyspace, w)))
        {
            for version in newest.saturating_sub(KEYS - 1).max(1)..=*newest {
                let found = keyspace.get(key(writer as u64, version))?;
                if found.as_deref() != Some(value(version).as_bytes()) {
                    let found = found.map(|value| value.escape_ascii().to_string());
                    return Err(Violation(format!("version {version} of {newest}: {found:?}")));
                }
            }
        }
        verify(&self.db)
    }
}

/// One opening, a load of random length, and the closing in the midst of it.
fn round(world: &World, form: &Form, random: &mut Random, newest: &mut [u64]) -> Check<Figures> {
    let db = world.options(form).open(&world.path)?;
    let keyspace = |index: IndexKind| {
        let options = KeyspaceOptions::default().separate_at(form.separate_at).index(index);
        db.keyspace(&format!("counted by {index:?}"), options)
    };
    let kinds = [Some(form.index), form.odd_index].into_iter().flatten();
    let keyspaces = kinds.map(keyspace).collect::<cleavedb::Result<Vec<_>>>()?;
    let load = Load { db, keyspaces, acknowledged: Default::default() };
    load.check(newest)?;
    let (before, writes) = (newest.iter().sum::<u64>(), random.below(WRITES_MAX));
    for (counter, newest) in load.acknowledged.iter().zip(&*newest) {
        counter.store(*newest, Ordering::Release);
    }
    let refused = std::thread::scope(|scope| {
        let load = &load;
        let mut threads = Vec::new();
        for (writer, &from) in newest.iter().enumerate() {
            threads.push(scope.spawn(move || load.write(writer as u64, from)));
        }
        threads.push(scope.spawn(|| load.compact()));
        while load.sum() < before + writes && !threads.iter().any(|thread| thread.is_finished()) {
            std::thread::yield_now();
        }
        let mut outcome = load.db.clone().close().map(|()| 0).map_err(Violation::from);
        for thread in threads {
            let panicked = |_| Err(Violation("panic: a thread ended".to_owned()));
            let ended = thread.join().unwrap_or_else(panicked);
            outcome = outcome.and_then(|sum| Ok(sum + ended?));
        }
        outcome
    })?;
    for (newest, counter) in newest.iter_mut().zip(&load.acknowledged) {
        *newest = counter.load(Ordering::Acquire);
    }
    Ok(Figures { closings: 1, writes: load.sum() - before, refused })
}

/// Tables of some thousand entries: a merge takes long enough to be cut short, and has few syncs.
fn form() -> Form {
    let apart = Form::find("real disk, threads, values apart");
    let mut form = Form { name: "closing".to_owned(), ..apart };
    form.separate_at = Some(LONG_BYTES as u32);
    form.widths.memtable_bytes = 64 << 10;
    form.widths.journal_segment_bytes = 256 << 10;
    form.widths.value_segment_bytes = 256 << 10;
    form.widths.replay_bytes_max = 512 << 10;
    form.widths.block_bytes = 1 << 10;
    form.widths.table_bytes = 512 << 10;
    form.widths.level_base_bytes_min = 512 << 10;
    form.widths.subcompaction_bytes_min = 128 << 10;
    form
}

/// Closes under load until the budget is spent, at least once, one store after the other.
///
/// # Errors
/// What was lost, or should not be there.
pub fn campaign(budget: &Budget) -> Check<Figures> {
    let form = form();
    let store = |kinds: Kinds| {
        let world = World::native().map_err(|error| Violation(error.to_string()))?;
        Ok((world, kinds.form(&form), vec![0; WRITERS as usize]))
    };
    let mut stores = Kinds::ALL.into_iter().map(store).collect::<Check<Vec<_>>>()?;
    let mut random = Random::new(budget.seed);
    let mut total = Figures::default();
    while total.closings == 0 || !budget.is_spent() {
        let turn = total.closings as usize % stores.len();
        let Some((world, form, newest)) = stores.get_mut(turn) else { break };
        // The long values, in segments or each in a file of its own; not often, since a file system
        // takes its time for inodes where thousands have just been deleted.
        let is_large = total.closings % 8 == 1;
        form.widths.large_value_bytes = if is_large { LONG_BYTES as u64 - 1 } else { 8 << 20 };
        let name = format!("{} {} SEED={}", form.name, total.closings, budget.seed);
        let figures = guarded(&name, || round(world, form, &mut random, newest));
        let figures = figures.map_err(|violation| violation.context(name))?;
        total.closings += 1;
        total.writes += figures.writes;
        total.refused += figures.refused;
        budget.count(1);
    }
    Ok(total)
}
