//! Two branches of one history: a store is copied, and both copies go on. Their files have the same
//! identity, so checksums alone do not tell a value file of one from that of the other.
//!
//! Invariant T1: an answer is that of the own branch or an error, never that of the other one.

use std::path::PathBuf;

use cleavedb::StrategyKind;
use cleavedb::sim::{CrashMode, MemoryDisk};

use crate::form::Form;
use crate::kinds::Kinds;
use crate::session::{Check, Violation};
use crate::store::Store;
use crate::world::World;

/// Keys of the store, and steps within which its background work comes to an end.
const KEYS: u32 = 40;
const STEPS_MAX: u32 = 10_000;

/// The slot all is in; its keyspace has no merge operator.
const SLOT: u8 = 0;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// Values of both branches have the same length, so that their records stand at the same places.
fn value(branch: char, number: u32) -> Vec<u8> {
    format!("what branch {branch} says of {number:04}").into_bytes()
}

fn no_disk() -> Violation {
    Violation("no simulated disk".to_owned())
}

/// The store from which both branches come.
fn trunk(form: &Form, seed: u64) -> Check<MemoryDisk> {
    let world = World::simulated(seed);
    let mut store = Store::open(world.options(form), &world.path)?;
    store.create(form, SLOT)?;
    store.db.close()?;
    let disk = world.disk().ok_or_else(no_disk)?;
    Ok(disk.crash_image(CrashMode::All, 0))
}

/// A branch: every key is written, after `others` small writes that only take seqs.
fn grow(
    trunk: &MemoryDisk,
    form: &Form,
    branch: char,
    others: u32,
    seed: u64,
) -> Check<MemoryDisk> {
    let world = World::on(trunk.deep_clone(), seed);
    let store = Store::open(world.options(form), &world.path)?;
    let keyspace = store.keyspace(SLOT).ok_or_else(|| Violation("no keyspace".to_owned()))?;
    for _ in 0..others {
        keyspace.delete(b"nothing")?;
    }
    for number in 0..KEYS {
        keyspace.put(key(number), value(branch, number))?;
    }
    store.db.flush()?;
    if form.strategy != StrategyKind::Wisckey {
        // Written again in part, so that value tables take the place of segments.
        for number in (0..KEYS).filter(|number| number % 3 > 0) {
            keyspace.put(key(number), value(branch, number))?;
        }
        store.db.reclaim(None, &mut |_| {})?;
    }
    if !world.settle(STEPS_MAX) {
        return Err(Violation("background work does not come to an end".to_owned()));
    }
    store.db.close()?;
    let disk = world.disk().ok_or_else(no_disk)?;
    Ok(disk.crash_image(CrashMode::All, 0))
}

/// Value files of the same name and length with other contents: of the one branch, for the other.
fn exchangeable(own: &MemoryDisk, other: &MemoryDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = own.files().into_iter().map(|(path, _)| path);
    let is_value = |path: &PathBuf| path.extension().is_some_and(|e| e == "val" || e == "vtb");
    let values = paths.filter(is_value);
    let there = |path: &PathBuf| other.files().iter().any(|(name, _)| name == path);
    values
        .filter(there)
        .map(|path| (own.contents(&path), other.contents(&path), path))
        .filter(|(own, other, _)| own.len() == other.len() && own != other)
        .map(|(_, other, path)| (path, other))
        .collect()
}

/// Gives a branch value files of the other one and reads every key (T1), under each strategy and
/// over each index; returns the number of files given.
///
/// # Errors
/// A foreign answer; no error anywhere; nothing to exchange.
pub fn run(seed: u64) -> Check<u64> {
    let mut given = 0;
    let all = StrategyKind::ALL.into_iter();
    for (strategy, kinds) in all.flat_map(|s| [Kinds::Lsm, Kinds::Flex].map(|kinds| (s, kinds))) {
        let mut form = kinds.form(&Form::base());
        form.strategy = strategy;
        form.separate_at = Some(8);
        form.widths.value_segment_bytes = 512;
        let context = |v: Violation| v.context(format!("{}, {}", strategy.name(), kinds.name()));
        given += exchange(&form, seed).map_err(context)?;
    }
    Ok(given)
}

fn exchange(form: &Form, seed: u64) -> Check<u64> {
    let trunk = trunk(form, seed)?;
    let own = grow(&trunk, form, 'a', 0, seed)?;
    let other = grow(&trunk, form, 'b', 1, seed)?;
    let files = exchangeable(&own, &other);
    if files.is_empty() {
        return Err(Violation("the branches have no value file in common".to_owned()));
    }
    let is_table = |(path, _): &(PathBuf, Vec<u8>)| path.extension().is_some_and(|e| e == "vtb");
    if form.strategy != StrategyKind::Wisckey && !files.iter().any(is_table) {
        return Err(Violation("the branches have no value table in common".to_owned()));
    }
    for (path, bytes) in &files {
        let mixed = own.deep_clone();
        mixed.replace(path, bytes.clone()).map_err(|error| Violation(error.to_string()))?;
        look(mixed, form, seed).map_err(|v| v.context(path.display()))?;
    }
    Ok(files.len() as u64)
}

/// Reads a store of branch `a` that holds a file of the other one.
fn look(disk: MemoryDisk, form: &Form, seed: u64) -> Check {
    let world = World::on(disk, seed);
    let store = Store::open(world.options(form), &world.path)?;
    let keyspace = store.keyspace(SLOT).ok_or_else(|| Violation("no keyspace".to_owned()))?;
    let mut refused = 0;
    for number in 0..KEYS {
        match keyspace.get(key(number)) {
            Ok(Some(found)) if *found == *value('a', number) => {}
            Ok(found) => {
                return Err(Violation(format!("wrong: key {number} reads {found:?}")));
            }
            Err(error) if error.kind() == cleavedb::ErrorKind::Corruption => refused += 1,
            Err(error) => return Err(Violation(format!("another error: {error:?}"))),
        }
    }
    if refused == 0 {
        return Err(Violation("no read met the foreign file".to_owned()));
    }
    let report = store.db.verify(&mut |_, _| {})?;
    if report.problems.is_empty() {
        return Err(Violation("verify finds nothing".to_owned()));
    }
    Ok(())
}
