//! The database handle.

use std::path::Path;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::sync::Arc;
use crate::db::handle::Handle;
use crate::db::{
    Batch, Durability, Keyspace, KeyspaceInfo, KeyspaceOptions, Options, Reclaimed, Snapshot,
    Stats, VerifyReport,
};
use crate::engine::commit::{Task, Work};
use crate::index::KeyRange;

/// An open database. Cheap to clone; all clones are the same database, which closes when the last
/// handle (of any type) goes away, or with [`Db::close`].
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

impl Db {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Opens or creates a database with default options.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    /// Removes a database directory's files and, where nothing else is in it, the directory.
    ///
    /// # Errors
    /// `InUse` if it is open, `NotFound` if there is no database.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Options::new().destroy(path)
    }

    /// The keyspace of this name, created with `options` where it does not exist.
    ///
    /// # Errors
    /// `Mismatch` if it exists with another index or merge operator; `InvalidArgument` for an
    /// empty or overlong name; `NotFound` if the merge operator is not registered.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let state = self.handle.engine.keyspace(name, options.into_settings())?;
        Ok(Keyspace::new(Arc::clone(&self.handle), state))
    }

    /// The keyspace of this name with the options it was created with, if it exists.
    ///
    /// # Errors
    /// `NotFound` if its merge operator is not registered.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        let state = self.handle.engine.existing_keyspace(name)?;
        Ok(state.map(|state| Keyspace::new(Arc::clone(&self.handle), state)))
    }

    /// All keyspaces, by name.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let catalogue = self.handle.engine.catalogue.lock();
        catalogue.all().map(|state| KeyspaceInfo::of(state)).collect()
    }

    /// Drops a keyspace and everything in it; space is returned in the background.
    ///
    /// # Errors
    /// `NotFound`; `Closed` is what other handles to it return from then on.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.check_writable()?;
        self.handle.engine.drop_keyspace(name)
    }

    /// An empty batch: any operations on any keyspaces, committed all or nothing.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.handle))
    }

    /// A view of the whole database as it is now, for as long as it lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.handle))
    }

    /// Makes every acknowledged write durable.
    ///
    /// # Errors
    /// `Stopped` or `Io`: the outcome for unsynced writes is unknown.
    pub fn sync(&self) -> Result<()> {
        self.handle.check_writable()?;
        // An empty batch: it is acknowledged after everything before it is visible and durable.
        let work = Work { sync: true, ..Work::control(Task::Write) };
        self.handle.engine.commit(work)
    }

    /// Writes the memtables out and waits until that is durable.
    ///
    /// # Errors
    /// As [`Db::sync`]; `NoSpace`.
    pub fn flush(&self) -> Result<()> {
        self.handle.check_writable()?;
        self.handle.engine.flush_all()
    }

    /// Compacts every keyspace to its bottom level and waits. Where garbage collection goes by
    /// facts ([`StrategyKind::Unified`](crate::StrategyKind::Unified), the default, and `Novkv`),
    /// separated values that stand apart are put in the order of their keys, which takes as much
    /// room again until it is done. Files that this makes superfluous are removed by then, but for
    /// what snapshots, iterators and checkpoints hold.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        self.handle.check_writable()?;
        let keyspaces: Vec<_> = self.handle.engine.catalogue.lock().all().map(Arc::clone).collect();
        for keyspace in keyspaces {
            self.handle.engine.compact_range(&keyspace, KeyRange::default())?;
        }
        Ok(())
    }

    /// Gives back the room of values that were overwritten or deleted, now, and waits: collects all
    /// value files of which enough is garbage, for at most `time_limit` (`None`: as long as it
    /// takes). The database does this by itself in the background; this is for whoever wants the
    /// room at once. `progress` is called with what has been done so far.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"))?;
    /// let files = db.keyspace("files", cleavedb::KeyspaceOptions::new().separate_at(Some(1024)))?;
    /// for number in 0..100 {
    ///     files.put(format!("{number}"), [7; 4096])?;
    /// }
    /// files.delete_range("0"..)?;
    /// let reclaimed = db.reclaim(None, &mut |_| {})?;
    /// assert!(reclaimed.is_complete && reclaimed.bytes_freed > 100 * 4096);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::flush`]; what kept a file from being collected: `Corruption`, `Io`, or a merge
    /// operator's failure.
    pub fn reclaim(
        &self,
        time_limit: Option<Duration>,
        progress: &mut dyn FnMut(Reclaimed),
    ) -> Result<Reclaimed> {
        self.handle.check_writable()?;
        let done = self.handle.engine.reclaim(time_limit, &mut |so_far| progress(so_far.into()))?;
        Ok(done.into())
    }

    /// Waits until no background work is due: flushes and compactions have caught up, and files
    /// that nothing refers to any more are removed.
    ///
    /// # Errors
    /// The background error, if any.
    pub fn wait_idle(&self) -> Result<()> {
        self.handle.check_writable()?;
        self.handle.engine.wait_idle()
    }

    /// Counters and shapes since open.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.handle.engine)
    }

    /// Bytes of memory in use, by part, with "total" and "budget". The parts: "memtables",
    /// "indexes" (what Flex indexes keep of their intervals and extents), "block_cache",
    /// "filters_and_indexes" (of all open tables, also those that only a cursor keeps open),
    /// "deltas" (the directory of buckets, their indexes and filters, and what is cached of keys),
    /// "iterators" (with what they have read ahead), "background" (tables being written, with the
    /// building of their filters, and what compaction has read ahead).
    pub fn memory_usage(&self) -> std::collections::BTreeMap<String, u64> {
        self.handle.engine.memory_usage()
    }

    /// Checks every byte of every file in force and every invariant across structures, while the
    /// database stays usable. `progress` is called with (bytes done, bytes in all).
    ///
    /// # Errors
    /// Only what keeps verification itself from running; findings are in the report.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        self.handle.engine.health.check_open()?;
        VerifyReport::of(&self.handle.engine, progress)
    }

    /// Writes a copy of the database at this moment into directory `path` (which must not exist):
    /// hard links where the file system allows. The copy is a database of its own.
    ///
    /// # Errors
    /// `AlreadyExists`, `Io`, `NoSpace`.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.handle.check_writable()?;
        self.handle.engine.checkpoint(path.as_ref())
    }

    /// Syncs, stops background work and releases the lock. Dropping the last handle does the same
    /// without reporting errors. Handles that still exist return `Closed` from then on.
    ///
    /// # Errors
    /// What could not be made durable.
    pub fn close(self) -> Result<()> {
        self.handle.engine.close()
    }

    /// The durability used where none is named.
    pub fn durability(&self) -> Durability {
        self.handle.durability
    }
}
