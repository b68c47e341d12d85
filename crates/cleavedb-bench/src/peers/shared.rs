//! What several peers need: additions without a merge operator, batches kept aside, the size of a
//! folder, and waiting for engines that do not tell when they are done.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::engine::{EngineStats, Settings, WriteBatch};
use crate::measure::{folder_bytes, processor_time};

/// Locks for read-modify-write; enough that threads seldom meet.
const STRIPES: usize = 256;

/// How often a process is looked at to see whether it still works.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Processor time in one such interval below which it counts as quiet.
const QUIET: Duration = Duration::from_millis(3);

/// Quiet intervals in a row after which it is done, and intervals after which this gives up.
const QUIET_LOOKS: u32 = 5;
const LOOKS_MAX: u32 = 36_000;

/// Locks by key, for engines that have neither a merge nor exclusive writers.
pub(super) struct Stripes(Vec<Mutex<()>>);

impl Stripes {
    pub(super) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    fn place(key: &[u8]) -> usize {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        (hash % STRIPES as u64) as usize
    }

    /// Keeps others from adding to any of `keys`. Locks are taken in one order, so no two
    /// batches wait for each other.
    pub(super) fn lock<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<MutexGuard<'_, ()>> {
        let places: BTreeSet<_> = keys.into_iter().map(Self::place).collect();
        let locks = places.into_iter().filter_map(|place| self.0.get(place));
        locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// The number stored as `old` and `operand` together, as it is stored.
pub(super) fn sum(old: Option<&[u8]>, operand: u64) -> Result<[u8; 8]> {
    let old = match old.map(<[u8; 8]>::try_from) {
        None => 0,
        Some(Ok(bytes)) => u64::from_le_bytes(bytes),
        Some(Err(_)) => bail!("a value that is not a number is added to"),
    };
    Ok(old.wrapping_add(operand).to_le_bytes())
}

/// One write of a batch kept aside.
pub(super) enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    Add(&'a [u8], u64),
}

#[derive(Clone)]
enum Kept {
    Put(Range<usize>, Range<usize>),
    Delete(Range<usize>),
    Add(Range<usize>, u64),
}

/// Writes in order, their bytes in one buffer that is used again, so that keeping them costs a
/// copy and no allocation.
#[derive(Default)]
pub(super) struct Aside {
    bytes: Vec<u8>,
    writes: Vec<Kept>,
}

impl Aside {
    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.writes.push(Kept::Put(key, value));
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        let key = self.keep(key);
        self.writes.push(Kept::Delete(key));
    }

    pub(super) fn add(&mut self, key: &[u8], operand: u64) {
        let key = self.keep(key);
        self.writes.push(Kept::Add(key, operand));
    }

    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        let slice = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.writes.iter().map(move |write| match write {
            Kept::Put(key, value) => Write::Put(slice(key), slice(value)),
            Kept::Delete(key) => Write::Delete(slice(key)),
            Kept::Add(key, operand) => Write::Add(slice(key), *operand),
        })
    }

    /// Keys that are added to.
    pub(super) fn added(&self) -> impl Iterator<Item = &[u8]> {
        self.writes().filter_map(|write| match write {
            Write::Add(key, _) => Some(key),
            Write::Put(..) | Write::Delete(_) => None,
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
    }
}

/// A batch for an engine that takes all writes of one at its commit.
pub(super) struct AsideBatch<C> {
    aside: Aside,
    commit: C,
}

impl<C: FnMut(&Aside) -> Result<()>> AsideBatch<C> {
    /// An empty one, which `commit` hands over.
    pub(super) fn new(commit: C) -> Self {
        Self { aside: Aside::default(), commit }
    }
}

impl<C: FnMut(&Aside) -> Result<()>> WriteBatch for AsideBatch<C> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.aside.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.aside.delete(key);
    }

    fn merge_add(&mut self, key: &[u8], operand: u64) {
        self.aside.add(key, operand);
    }

    fn len(&self) -> usize {
        self.aside.len()
    }

    fn commit(&mut self) -> Result<()> {
        (self.commit)(&self.aside)?;
        self.aside.clear();
        Ok(())
    }
}

/// The puts and deletes that a batch comes to, additions turned into puts with the sums of what
/// `get` gives and what earlier writes of the batch made of it. The caller keeps others out.
pub(super) fn resolved(
    aside: &Aside,
    mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
    mut put: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
) -> Result<()> {
    let mut changed = std::collections::HashMap::<&[u8], Option<Vec<u8>>>::new();
    let counted: BTreeSet<_> = aside.added().collect();
    for write in aside.writes() {
        match write {
            Write::Put(key, value) => {
                put(key, Some(value))?;
                if counted.contains(key) {
                    changed.insert(key, Some(value.to_vec()));
                }
            }
            Write::Delete(key) => {
                put(key, None)?;
                if counted.contains(key) {
                    changed.insert(key, None);
                }
            }
            Write::Add(key, operand) => {
                let old = match changed.get(key) {
                    Some(value) => value.clone(),
                    None => get(key)?,
                };
                let sum = sum(old.as_deref(), operand)?;
                put(key, Some(&sum))?;
                changed.insert(key, Some(sum.to_vec()));
            }
        }
    }
    Ok(())
}

/// What can be said of an engine that counts nothing itself.
pub(super) fn stats_of(dir: &Path) -> EngineStats {
    EngineStats { disk_bytes: folder_bytes(dir), ..EngineStats::default() }
}

/// Waits until the process has done next to nothing for half a second: for engines that do not
/// tell when their background work is done.
pub(super) fn wait_until_quiet() -> Result<()> {
    let mut quiet = 0;
    for _ in 0..LOOKS_MAX {
        let before = processor_time();
        std::thread::sleep(LOOK_INTERVAL);
        let worked = processor_time().saturating_sub(before) > QUIET;
        quiet = if worked { 0 } else { quiet + 1 };
        if quiet == QUIET_LOOKS {
            return Ok(());
        }
    }
    bail!("background work does not end")
}

/// Refuses what an engine cannot do rather than measuring something else.
pub(super) fn refuse_direct(engine: &str, settings: &Settings) -> Result<()> {
    ensure!(!settings.direct, "{engine} cannot read and write past the page cache");
    Ok(())
}
