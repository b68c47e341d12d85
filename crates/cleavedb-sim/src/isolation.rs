//! Isolation under real threads: transfers that keep a sum, versions that must move together,
//! counters that must not lose an increment; merges that keep a sum, and are folded meanwhile.
//!
//! Invariants: I1 every snapshot shows the same sums. I2 the parts of one batch are seen all or
//! none. I3 what one thread saw, it sees again or newer. I4 a successful swap counts once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cleavedb::{
    Batch, Db, Deltas, Durability, Keyspace, KeyspaceOptions, Snapshot, StrategyKind, operators,
};

use crate::form::Form;
use crate::kinds::Kinds;
use crate::model::slot_name;
use crate::random::{Random, mix};
use crate::session::{Check, Violation};
use crate::store::{index_of, keyspace_options};
use crate::world::World;

/// Threads that write; each owns its accounts.
const WRITERS: u64 = 3;
/// Accounts of one writer.
const ACCOUNTS: u64 = 40;
/// What every account begins with.
const BEGINNING: u64 = 1000;
/// Values from this length on are kept apart in histories that do so: about half of them.
const SEPARATE_AT: u32 = 100;
/// Balances of one writer that change by merges; all of them together are zero.
const BALANCES: u64 = 24;
/// Keys that one batch writes the same version to.
const TOGETHER: u64 = 5;

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Batches committed.
    pub transfers: u64,
    /// Snapshots summed.
    pub snapshots: u64,
    /// Swaps that succeeded.
    pub swaps: u64,
}

struct Bank {
    db: Db,
    /// Accounts are spread over two keyspaces.
    keyspaces: [Keyspace; 2],
    /// Balances, which are merged into.
    balances: Keyspace,
    transfers: AtomicU64,
    snapshots: AtomicU64,
    swaps: AtomicU64,
    done: AtomicBool,
}

fn account(owner: u64, number: u64) -> String {
    format!("account/{owner:02}/{number:04}")
}

fn balance_key(owner: u64, number: u64) -> String {
    format!("balance/{owner:02}/{number:04}")
}

fn balance(bytes: &[u8]) -> Check<i64> {
    let bytes = bytes.try_into().map_err(|_| Violation("not a balance".to_owned()))?;
    Ok(i64::from_le_bytes(bytes))
}

fn version_key(owner: u64, number: u64) -> String {
    format!("version/{owner:02}/{number}")
}

fn number(bytes: &[u8]) -> Check<u64> {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.split('/').next());
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Violation(format!("not a number: {}", bytes.escape_ascii())))
}

/// A number, padded so that blocks and tables fill.
fn padded(number: u64) -> String {
    format!("{number}/{}", "-".repeat((number % 190) as usize))
}

impl Bank {
    fn keyspace(&self, number: u64) -> &Keyspace {
        &self.keyspaces[(number % 2) as usize]
    }

    fn found(&self) -> Check {
        for owner in 0..WRITERS {
            let mut batch = self.db.batch();
            for number in 0..ACCOUNTS {
                batch.put(self.keyspace(number), account(owner, number), padded(BEGINNING));
            }
            for number in 0..TOGETHER {
                batch.put(self.keyspace(number), version_key(owner, number), padded(0));
            }
            batch.commit(Durability::Buffered)?;
        }
        Ok(())
    }

    fn write(&self, owner: u64, seed: u64, count: u64) -> Check {
        let mut random = Random::new(seed ^ owner);
        for version in 1..=count {
            let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
            if from == to {
                continue;
            }
            let read = |number: u64| -> Check<u64> {
                let value = self.keyspace(number).get(account(owner, number))?;
                value.map_or(Err(Violation("an account is gone".to_owned())), |v| self::number(&v))
            };
            let (has, gets) = (read(from)?, read(to)?);
            let amount = random.below(has + 1);
            let mut batch = self.db.batch();
            batch.put(self.keyspace(from), account(owner, from), padded(has - amount));
            batch.put(self.keyspace(to), account(owner, to), padded(gets + amount));
            for number in 0..TOGETHER {
                batch.put(self.keyspace(number), version_key(owner, number), padded(version));
            }
            self.move_balances(owner, &mut random, &mut batch)?;
            let durability =
                if random.chance(1, 50) { Durability::Sync } else { Durability::Buffered };
            batch.commit(durability)?;
            self.transfers.fetch_add(1, Ordering::Relaxed);
            if random.chance(1, 400) {
                self.db.flush()?;
            }
        }
        Ok(())
    }

    /// Moves amounts between balances by merges; now and then all that one of them has, which is
    /// deleted, or put anew. Only this writer changes them.
    fn move_balances(&self, owner: u64, random: &mut Random, batch: &mut Batch) -> Check {
        let (from, to) = (random.below(BALANCES), random.below(BALANCES));
        if from == to {
            return Ok(());
        }
        let (from, to) = (balance_key(owner, from), balance_key(owner, to));
        let amount = random.below(1000).cast_signed();
        match random.below(20) {
            choice @ 0..2 => {
                let has = self.balances.get(&from)?.map_or(Ok(0), |value| balance(&value))?;
                if choice == 0 {
                    batch.delete(&self.balances, &from);
                } else {
                    batch.put(&self.balances, &from, (has - amount).to_le_bytes());
                    batch.merge(&self.balances, &from, (amount - has).to_le_bytes());
                }
                batch.merge(&self.balances, &to, has.to_le_bytes());
            }
            _ => {
                batch.merge(&self.balances, &from, (-amount).to_le_bytes());
                batch.merge(&self.balances, &to, amount.to_le_bytes());
            }
        }
        Ok(())
    }

    /// All balances of a snapshot, seen in three ways.
    fn balances(&self, snapshot: &Snapshot) -> Check {
        let (mut forward, mut backward, mut by_key) = (0, 0, 0);
        for item in snapshot.prefix(&self.balances, "balance/") {
            forward += balance(&item?.1)?;
        }
        for item in snapshot.prefix(&self.balances, "balance/").rev() {
            backward += balance(&item?.1)?;
        }
        let all = (0..WRITERS).flat_map(|o| (0..BALANCES).map(move |n| balance_key(o, n)));
        for (number, key) in all.clone().enumerate() {
            // Some one by one, the rest together.
            if number.is_multiple_of(3) {
                by_key += snapshot.get(&self.balances, key)?.map_or(Ok(0), |v| balance(&v))?;
            }
        }
        let rest =
            all.enumerate().filter(|(number, _)| !number.is_multiple_of(3)).map(|(_, key)| key);
        for value in snapshot.multi_get(&self.balances, rest)?.into_iter().flatten() {
            by_key += balance(&value)?;
        }
        if [forward, backward, by_key] == [0; 3] {
            return Ok(());
        }
        Err(Violation(format!("balances {forward}, {backward} and {by_key} instead of 0")))
    }

    fn watch(&self) -> Check {
        let mut seen = vec![0; WRITERS as usize];
        while !self.done.load(Ordering::Relaxed) {
            let snapshot = self.db.snapshot();
            self.sums(&snapshot)?;
            self.balances(&snapshot)?;
            for owner in 0..WRITERS {
                let version = self.version(&snapshot, owner)?;
                let former = &mut seen[owner as usize];
                if version < *former {
                    return Err(Violation(format!("stale: version {version} after {former}")));
                }
                *former = version;
            }
            // The same snapshot again, after others have written.
            self.sums(&snapshot)?;
            self.balances(&snapshot)?;
            self.together()?;
            self.snapshots.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sums(&self, snapshot: &Snapshot) -> Check {
        let mut forward = 0;
        let mut backward = 0;
        for keyspace in &self.keyspaces {
            for item in snapshot.prefix(keyspace, "account/") {
                forward += number(&item?.1)?;
            }
            for item in snapshot.prefix(keyspace, "account/").rev() {
                backward += number(&item?.1)?;
            }
        }
        let mut by_key = 0;
        for part in 0..2 {
            let all = (0..WRITERS).flat_map(|o| (0..ACCOUNTS).map(move |n| (o, n)));
            let keys = all.filter(|(_, n)| n % 2 == part).map(|(o, n)| account(o, n));
            for value in snapshot.multi_get(self.keyspace(part), keys)?.into_iter().flatten() {
                by_key += number(&value)?;
            }
        }
        let right = WRITERS * ACCOUNTS * BEGINNING;
        if [forward, backward, by_key] == [right; 3] {
            return Ok(());
        }
        Err(Violation(format!("sums {forward}, {backward} and {by_key} instead of {right}")))
    }

    fn version(&self, snapshot: &Snapshot, owner: u64) -> Check<u64> {
        let mut versions = Vec::new();
        for part in 0..TOGETHER {
            let value = snapshot.get(self.keyspace(part), version_key(owner, part))?;
            versions.push(value.map_or(Err(Violation("no version".to_owned())), |v| number(&v))?);
        }
        if versions.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(Violation(format!("fractured: {versions:?}")));
        }
        Ok(versions[0])
    }

    /// What is read at once without a snapshot is of one moment, too.
    fn together(&self) -> Check {
        for (owner, part) in (0..WRITERS).flat_map(|owner| [(owner, 0), (owner, 1)]) {
            let numbers = (0..TOGETHER).filter(|number| number % 2 == part);
            let keys = numbers.map(|number| version_key(owner, number));
            let values = self.keyspace(part).multi_get(keys)?;
            let versions = values.iter().flatten().map(|value| number(value));
            let versions = versions.collect::<Check<Vec<u64>>>()?;
            if versions.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(Violation(format!("fractured without a snapshot: {versions:?}")));
            }
        }
        Ok(())
    }

    /// Collects value files all the time.
    fn collect(&self) -> Check {
        while !self.done.load(Ordering::Relaxed) {
            self.db.reclaim(None, &mut |_| {})?;
        }
        Ok(())
    }

    fn swap(&self, count: u64) -> Check {
        for _ in 0..count {
            loop {
                let old = self.keyspaces[0].get("counter")?;
                let next = old.as_ref().map_or(Ok(0), |value| number(value))? + 1;
                let new = padded(next);
                let expected = old.as_deref();
                let key = "counter";
                if self.keyspaces[0].compare_and_swap(key, expected, Some(new.as_bytes()))? {
                    self.swaps.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The indexes of a history.
#[must_use]
pub fn kinds_of(seed: u64) -> Kinds {
    Kinds::in_turn(mix(seed))
}

/// All values apart, in files so small that they are collected all the time; some apart, some not;
/// none. In some histories the longer ones have files of their own.
fn form_of(seed: u64) -> Form {
    let mut form = Form::find("real disk, threads");
    form.separate_at = match seed % 3 {
        0 => None,
        1 => Some(0),
        _ => Some(SEPARATE_AT),
    };
    form.widths.value_segment_bytes = 2 << 10;
    // Accounts lie in slots 0 and 1: where there are both kinds, each batch is of both.
    form = kinds_of(seed).form(&form);
    form.deltas = if seed.is_multiple_of(5) { Deltas::Inline } else { Deltas::Buckets };
    let strategies = StrategyKind::ALL.len() as u64;
    form.strategy = StrategyKind::ALL[(seed / 3 % strategies) as usize];
    if seed.is_multiple_of(4) {
        form.widths.large_value_bytes = u64::from(SEPARATE_AT);
        form.widths.large_chunk_bytes = 64;
    }
    form
}

/// One history: writers, watchers and swappers at once, on the real disk or in memory.
///
/// # Errors
/// The first anomaly.
pub fn run(seed: u64, transfers: u64) -> Check<Figures> {
    let form = form_of(seed);
    let world = World::native().map_err(|error| Violation(error.to_string()))?;
    let db = world.options(&form).open(&world.path)?;
    let first = db.keyspace(&slot_name(0), keyspace_options(&form, 0))?;
    let second = db.keyspace(&slot_name(1), keyspace_options(&form, 1))?;
    let options = KeyspaceOptions::new().merge_operator(operators::I64_ADD).deltas(form.deltas);
    let options = options.index(index_of(&form, 1));
    let separate_at = form.separate_at.map(|bytes| bytes.min(8));
    let balances = db.keyspace("balances", options.separate_at(separate_at))?;
    let bank = Bank {
        db,
        keyspaces: [first, second],
        balances,
        transfers: AtomicU64::new(0),
        snapshots: AtomicU64::new(0),
        swaps: AtomicU64::new(0),
        done: AtomicBool::new(false),
    };
    bank.found()?;
    std::thread::scope(|scope| {
        let bank = &bank;
        let watcher = scope.spawn(|| bank.watch());
        let collector = scope.spawn(|| bank.collect());
        let mut workers = Vec::new();
        for owner in 0..WRITERS {
            workers.push(scope.spawn(move || bank.write(owner, seed, transfers)));
        }
        for _ in 0..2 {
            workers.push(scope.spawn(|| bank.swap(transfers / 4)));
        }
        let mut outcome = Ok(());
        let panicked = || Err(Violation("panic: a thread ended".to_owned()));
        for worker in workers {
            outcome = outcome.and(worker.join().unwrap_or_else(|_| panicked()));
        }
        bank.done.store(true, Ordering::Relaxed);
        let outcome = outcome.and(watcher.join().unwrap_or_else(|_| panicked()));
        outcome.and(collector.join().unwrap_or_else(|_| panicked()))
    })?;
    let counter = bank.keyspaces[0].get("counter")?.map_or(Ok(0), |value| number(&value))?;
    let swaps = bank.swaps.load(Ordering::Relaxed);
    if counter != swaps {
        return Err(Violation(format!("lost update: {swaps} swaps count {counter}")));
    }
    bank.sums(&bank.db.snapshot())?;
    bank.balances(&bank.db.snapshot())?;
    Ok(Figures {
        transfers: bank.transfers.load(Ordering::Relaxed),
        snapshots: bank.snapshots.load(Ordering::Relaxed),
        swaps,
    })
}
