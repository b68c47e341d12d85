//! What a benchmark asks of an engine. Narrow on purpose: every ordered key-value store can
//! implement it without a workaround that would cost it speed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::tuning::Tuning;

/// Deletes in one batch where a range is removed key by key.
const RANGE_BATCH: usize = 1_000;

/// How to open an engine. An engine that lacks a setting ignores it and says so in its notes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of memory for caches, buffers and indexes together.
    pub memory_budget: u64,
    /// Whether every write is on the device before it is acknowledged.
    pub sync: bool,
    /// Whether data files are read (and written in the background) past the page cache.
    pub direct: bool,
    /// Threads for background work, 0 for the engine's own choice.
    pub background_threads: usize,
    /// Whether CleaveDB compresses as it does by default; the peers never do here, so comparisons
    /// leave it off.
    #[serde(default)]
    pub compressed: bool,
    /// What only some engines can be told.
    #[serde(default)]
    pub tuning: Tuning,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_budget: 256 << 20,
            sync: false,
            direct: false,
            background_threads: 0,
            compressed: false,
            tuning: Tuning::default(),
        }
    }
}

/// Figures every engine can give; counters since open.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EngineStats {
    /// Key and value bytes of all writes accepted.
    pub user_bytes_written: u64,
    /// Bytes the engine wrote to files.
    pub bytes_written: u64,
    /// Bytes of all its files.
    pub disk_bytes: u64,
    /// Estimated bytes of the newest versions.
    pub live_bytes: u64,
    /// Bytes of the files that hold values apart from keys; 0 where there are none or the engine
    /// does not tell.
    pub value_file_bytes: u64,
    /// Bytes of the records in these files that are still valid, as far as the engine knows.
    pub value_live_bytes: u64,
    /// Bytes of the files that hold keys, where the engine tells.
    pub index_bytes: Option<u64>,
    /// What cleaning of values stored apart has done, where the engine tells.
    pub collection: Option<Collection>,
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// What it counted of its reads, by name; empty without [`Tuning::statistics`] and where the
    /// engine counts nothing.
    pub read_counters: BTreeMap<String, u64>,
    /// Whatever else the engine tells of itself.
    pub detail: serde_json::Value,
}

/// What cleaning of values stored apart has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collection {
    /// Look-ups in the index.
    pub index_reads: u64,
    /// Entries written into the index.
    pub index_writes: u64,
    /// Bytes of values that were written again.
    pub bytes_moved: u64,
    /// Files whose valid values were written again.
    pub files: u64,
    /// Bytes written to files for it, where the engine keeps an account of them by purpose.
    pub bytes_written: u64,
}

impl Collection {
    /// What was done after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            index_reads: self.index_reads.saturating_sub(earlier.index_reads),
            index_writes: self.index_writes.saturating_sub(earlier.index_writes),
            bytes_moved: self.bytes_moved.saturating_sub(earlier.bytes_moved),
            files: self.files.saturating_sub(earlier.files),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
        }
    }
}

impl EngineStats {
    /// Disk bytes by live bytes; 0 where there is nothing.
    #[must_use]
    pub fn space_amplification(&self) -> f64 {
        ratio(self.disk_bytes, self.live_bytes)
    }
}

/// `part / whole`, 0 for an empty whole.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Puts `part` into `value` at `place`, as far as it reaches; a shorter value grows by zeros.
pub fn overwrite(value: &mut Vec<u8>, place: usize, part: &[u8]) {
    let end = place.saturating_add(part.len());
    if value.len() < end {
        value.resize(end, 0);
    }
    if let Some(old) = value.get_mut(place..end) {
        old.copy_from_slice(part);
    }
}

/// What [`Engine::delete_range`] is where an engine has no such call.
///
/// # Errors
/// The engine's.
pub fn delete_keys<E: Engine + ?Sized>(engine: &E, from: &[u8], to: &[u8]) -> Result<()> {
    let mut batch = engine.batch();
    let mut begin = from.to_vec();
    loop {
        let mut keys = Vec::new();
        engine.scan(&begin, false, RANGE_BATCH, &mut |key, _| keys.push(key.to_vec()))?;
        keys.retain(|key| key.as_slice() < to);
        keys.iter().for_each(|key| batch.delete(key));
        batch.commit()?;
        // The next one begins just behind, not at keys that are deleted already.
        let Some(last) = keys.pop() else { return Ok(()) };
        begin = [last.as_slice(), &[0]].concat();
    }
}

/// An open engine with one ordered map. All methods may be called from several threads.
///
/// Calls are virtual: one indirect jump, about a nanosecond, the same for every engine, where the
/// cheapest call of any of them takes several hundred.
pub trait Engine: Send + Sync {
    /// Its name and version.
    fn name(&self) -> String;

    /// How it was opened, in words that let another repeat it. Printed with every result.
    fn settings(&self) -> String;

    /// Stores one pair.
    ///
    /// # Errors
    /// The engine's; the same for every method.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes one key.
    ///
    /// # Errors
    /// The engine's.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Adds the 64-bit little-endian number `operand` to the number stored under `key` (0 if
    /// there is none), as one merge or, where the engine has none, as get and put.
    ///
    /// # Errors
    /// The engine's.
    fn merge_add(&self, key: &[u8], operand: u64) -> Result<()>;

    /// Overwrites the bytes of the value of `key` from `place` on with `part`, as one merge or,
    /// where the engine has none, as get and put. The part lies within the value. Needs
    /// [`Tuning::merges_parts`].
    ///
    /// # Errors
    /// The engine's.
    fn merge_part(&self, key: &[u8], place: usize, part: &[u8]) -> Result<()> {
        let mut new = Vec::new();
        self.get(key, &mut |value| new.extend_from_slice(value))?;
        overwrite(&mut new, place, part);
        self.put(key, &new)
    }

    /// Removes all keys from `from` (inclusive) up to `to` (exclusive), in one call or, where the
    /// engine has none, in batches of deletes.
    ///
    /// # Errors
    /// The engine's.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        delete_keys(self, from, to)
    }

    /// Drops the keyspace with everything in it; only [`Engine::stats`] may be called then.
    ///
    /// # Errors
    /// The engine's; that it has no keyspaces.
    fn drop_keyspace(&self) -> Result<()> {
        bail!("{} has no keyspace to drop", self.name())
    }

    /// Compacts everything to the bottom and waits. Where the engine has no such call, what is in
    /// memory is written out and background work waited for.
    ///
    /// # Errors
    /// The engine's.
    fn compact(&self) -> Result<()> {
        self.flush()?;
        self.settle()
    }

    /// Calls `found` with the value of `key`, if there is one, and says whether there is.
    ///
    /// # Errors
    /// The engine's.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `found` with index and value for each of `keys` that exists.
    ///
    /// # Errors
    /// The engine's.
    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| found(index, value))?;
        }
        Ok(())
    }

    /// Calls `visit` with up to `limit` pairs from `from` on (inclusive), upwards or, if
    /// `reverse`, downwards, and returns how many there were.
    ///
    /// # Errors
    /// The engine's.
    fn scan(
        &self,
        from: &[u8],
        reverse: bool,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize>;

    /// An empty batch, to be used again and again by one thread.
    fn batch(&self) -> Box<dyn WriteBatch + '_>;

    /// Makes everything written so far durable and empties the write buffers.
    ///
    /// # Errors
    /// The engine's.
    fn flush(&self) -> Result<()>;

    /// Waits until no background work is due.
    ///
    /// # Errors
    /// The engine's.
    fn settle(&self) -> Result<()>;

    /// Counters since open and sizes of this moment.
    fn stats(&self) -> EngineStats;
}

/// Several writes committed together.
pub trait WriteBatch {
    /// Adds a put.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Adds a delete.
    fn delete(&mut self, key: &[u8]);
    /// Adds what [`Engine::merge_add`] does.
    fn merge_add(&mut self, key: &[u8], operand: u64);
    /// Writes in it.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Commits all of it and leaves the batch empty.
    ///
    /// # Errors
    /// The engine's.
    fn commit(&mut self) -> Result<()>;
}

/// Opens an engine in a directory.
pub type Opener = fn(&Path, &Settings) -> Result<Box<dyn Engine>>;
