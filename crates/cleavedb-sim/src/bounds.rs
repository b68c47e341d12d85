//! Bounds: memory, open files and disk space of a load many times larger than the budget, on a
//! real directory with real threads.
//!
//! Needs [`crate::allocator::Counting`] as the global allocator, or memory reads as zero.

use std::io;

use cleavedb::{Db, Durability, Keyspace, KeyspaceOptions, Options};

use crate::allocator;
use crate::kinds::Kinds;
use crate::random::Random;
use crate::session::{Check, Violation};

/// Memory beyond a tenth above the budget that is allowed: code paths, thread stacks' buffers.
const SLACK_BYTES: u64 = 16 << 20;

/// Most memory that putting or reading a value as a stream may take, however long the value.
const STREAM_BYTES_MAX: u64 = 4 << 20;

/// Descriptors that are not tables: journal, manifest, directory, lock, standard streams.
const FILES_BESIDE_TABLES: usize = 24;

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Bytes of memory the database was given.
    pub budget: u64,
    /// Bytes written by the user.
    pub loaded: u64,
    /// Most bytes of memory in use, over what was in use before.
    pub peak: u64,
    /// Most descriptors open, over what was open before.
    pub descriptors: usize,
    /// Bytes on disk / live bytes at the end.
    pub space_amplification: f64,
    /// Bytes written to files / bytes written by the user.
    pub write_amplification: f64,
    /// Files of indexes on disk at the end.
    pub files: usize,
}

impl Figures {
    /// Those of several loads: the most of each, and what was loaded in all.
    fn add(&mut self, other: &Self) {
        self.budget = other.budget;
        self.loaded += other.loaded;
        self.peak = self.peak.max(other.peak);
        self.descriptors = self.descriptors.max(other.descriptors);
        self.space_amplification = self.space_amplification.max(other.space_amplification);
        self.write_amplification = self.write_amplification.max(other.write_amplification);
        self.files += other.files;
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

struct Loader {
    db: Db,
    /// One for each index, all of the same contents.
    keyspaces: Vec<Keyspace>,
    random: Random,
    keys: u64,
    value: Vec<u8>,
    descriptors: usize,
    written: u64,
}

impl Loader {
    /// Writes random keys and now and then reads: gets, and an iterator held across writes.
    fn load(&mut self, bytes: u64) -> Check {
        let goal = self.written + bytes;
        let mut held = None;
        let mut count = 0_u64;
        while self.written < goal {
            let key = format!("key{:012}", self.random.below(self.keys));
            let noise = self.random.bits().to_le_bytes();
            let at = self.random.index(self.value.len() - noise.len());
            self.value[at..at + noise.len()].copy_from_slice(&noise);
            let mut batch = self.db.batch();
            for keyspace in &self.keyspaces {
                batch.put(keyspace, &key, &self.value);
                self.written += (key.len() + self.value.len()) as u64;
            }
            batch.commit(Durability::Buffered)?;
            count += 1;
            let turn = self.random.index(self.keyspaces.len());
            let Some(keyspace) = self.keyspaces.get(turn) else { break };
            if count.is_multiple_of(64) {
                keyspace.get(format!("key{:012}", self.random.below(self.keys)))?;
            }
            if count.is_multiple_of(4096) {
                self.descriptors = self.descriptors.max(descriptors());
                held = Some(keyspace.iter());
            }
            if let Some(iterator) = &mut held
                && count.is_multiple_of(32)
                && iterator.next().transpose()?.is_none()
            {
                held = None;
            }
        }
        Ok(())
    }
}

/// The shares of the load, of ten, that stores of each kind take.
const SHARES: [(Kinds, u64); 3] = [(Kinds::Lsm, 4), (Kinds::Flex, 4), (Kinds::Both, 2)];

/// Loads `times` the budget over keys that are all overwritten, into a store with an LSM-tree, one
/// with a Flex index and one with both, and measures.
///
/// # Errors
/// A bound broken.
pub fn run(seed: u64, budget: u64, times: u64) -> Check<Figures> {
    let mut total = Figures::default();
    for (kinds, share) in SHARES {
        let context = |violation: Violation| violation.context(kinds.name());
        total.add(&load(kinds, seed, (budget, budget * times * share / 10)).map_err(context)?);
    }
    Ok(total)
}

/// Loads so many bytes into a store with these indexes.
fn load(kinds: Kinds, seed: u64, (budget, bytes): (u64, u64)) -> Check<Figures> {
    let directory = tempfile::Builder::new().prefix("cleavedb-bounds").tempdir();
    let directory = directory.map_err(|error| Violation(error.to_string()))?;
    let path = directory.path().join("db");
    let before = allocator::in_use();
    let files_before = descriptors();
    allocator::reset_peak();
    let open_files_max = 64;
    let options = || Options::new().memory_budget(budget).open_files_max(open_files_max);
    let db = options().open(&path)?;
    let slots = if kinds == Kinds::Both { 0..2 } else { 0..1 };
    let keyspace = |slot: u8| {
        let options = KeyspaceOptions::new().index(kinds.index(slot));
        db.keyspace(&format!("load{slot}"), options)
    };
    let keyspaces = slots.map(keyspace).collect::<cleavedb::Result<Vec<_>>>()?;
    let mut random = Random::new(seed);
    let value: Vec<u8> = (0..1024).map(|_| random.bits() as u8).collect();
    let keys = (bytes / keyspaces.len() as u64 / 1040 / 4).max(1000);
    let (own, descriptors) = (db.clone(), 0);
    let mut loader = Loader { db: own, keyspaces, random, keys, value, descriptors, written: 0 };
    loader.load(bytes)?;
    let streams = db.keyspace("streams", KeyspaceOptions::new().index(kinds.index(1)))?;
    stream(&streams, "first", budget)?;
    db.flush()?;
    stream(&streams, "second", budget * 2)?;
    drop(streams);
    let mut pairs = Vec::new();
    for keyspace in &loader.keyspaces {
        let mut count = 0_u64;
        for item in keyspace.iter() {
            item?;
            count += 1;
        }
        pairs.push(count);
    }
    db.compact()?;
    db.wait_idle()?;
    let stats = db.stats();
    let mut figures = Figures {
        budget,
        loaded: loader.written,
        peak: allocator::peak().saturating_sub(before),
        descriptors: loader.descriptors.max(self::descriptors()).saturating_sub(files_before),
        space_amplification: stats.space_amplification,
        write_amplification: stats.write_amplification,
        files: 0,
    };
    drop(loader);
    db.close()?;
    reopen(&options, &path, &pairs, &mut figures)?;
    figures.peak = figures.peak.max(allocator::peak().saturating_sub(before));
    check(&figures, open_files_max)?;
    Ok(figures)
}

/// Puts a long value piece by piece and reads it likewise.
fn stream(keyspace: &Keyspace, key: &str, length: u64) -> Check {
    let mut source = io::Read::take(io::repeat(7), length);
    let put = || keyspace.put_reader(key, &mut source, Some(length));
    let (outcome, written_with) = allocator::peak_of(put);
    outcome?;
    let get = || -> Check<u64> {
        let value = keyspace.get_reader(key)?;
        let mut value = value.ok_or_else(|| Violation(format!("no value of {key}")))?;
        io::copy(&mut value, &mut io::sink()).map_err(|error| Violation(error.to_string()))
    };
    let (outcome, read_with) = allocator::peak_of(get);
    let read = outcome?;
    if read != length {
        return Err(Violation(format!("{read} bytes of {length} read")));
    }
    let held = written_with.max(read_with);
    if held > STREAM_BYTES_MAX {
        return Err(Violation(format!("{held} bytes of memory for a stream")));
    }
    Ok(())
}

/// Reopening counts too; afterwards the files are those that the manifest names.
fn reopen(
    options: &dyn Fn() -> Options,
    path: &std::path::Path,
    pairs: &[u64],
    figures: &mut Figures,
) -> Check {
    let db: Db = options().open(path)?;
    for (slot, pairs) in pairs.iter().enumerate() {
        let keyspace = db.existing_keyspace(&format!("load{slot}"))?;
        let keyspace = keyspace.ok_or_else(|| Violation("the keyspace is gone".to_owned()))?;
        let found = keyspace.iter().keys().count() as u64;
        if found != *pairs {
            return Err(Violation(format!("{found} pairs instead of {pairs} after reopening")));
        }
    }
    db.wait_idle()?;
    let named: usize =
        db.stats().keyspaces.iter().flat_map(|k| &k.levels).map(|level| level.files).sum();
    let entries = std::fs::read_dir(path).map_err(|error| Violation(error.to_string()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_of_index = |name: &std::ffi::OsString| {
        let extension = std::path::Path::new(name).extension();
        ["tbl", "fxp", "fxs", "fxl"].iter().any(|of| extension.is_some_and(|e| e == *of))
    };
    figures.files = names.filter(is_of_index).count();
    if figures.files != named {
        return Err(Violation(format!("{} files on disk, {named} in force", figures.files)));
    }
    Ok(db.close()?)
}

fn check(figures: &Figures, open_files_max: usize) -> Check {
    let memory_max = figures.budget + figures.budget / 10 + SLACK_BYTES;
    if figures.peak > memory_max {
        return Err(Violation(format!("{} bytes of memory, allowed {memory_max}", figures.peak)));
    }
    let files_max = open_files_max + FILES_BESIDE_TABLES;
    if figures.descriptors > files_max {
        let found = figures.descriptors;
        return Err(Violation(format!("{found} descriptors, allowed {files_max}")));
    }
    Ok(())
}
