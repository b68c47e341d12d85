//! Several operations, all or nothing.

use std::io::Read;
use std::ops::RangeBounds;

use crate::base::entry::{KeyspaceId, Kind};
use crate::base::error::{Error, Result};
use crate::base::limits::{
    BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_BYTES_MAX, RANGE_END_BYTES_MAX, VALUE_BYTES_MAX,
};
use crate::base::sync::Arc;
use crate::db::handle::{Handle, check_range, is_empty_range, key_range};
use crate::db::{Durability, Keyspace};
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::commit::{Extra, Task, Work};
use crate::engine::large::{Incoming, LargePut, Taken};
use crate::index::KeyRange;
use crate::log::batch::{encode_large_put, encode_record};
use crate::log::separated::{SeparatedPut, Slot, encode_separated};

/// Operations on any keyspaces of one database, committed atomically in the order added.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cleavedb::Db::open(dir.path().join("db"))?;
/// # let users = db.keyspace("users", cleavedb::KeyspaceOptions::new())?;
/// # let mail = db.keyspace("mail", cleavedb::KeyspaceOptions::new())?;
/// let mut batch = db.batch();
/// batch.put(&users, "ada", "1815").delete(&mail, "draft");
/// batch.commit(cleavedb::Durability::Sync)?;
/// assert_eq!(users.get("ada")?.unwrap(), "1815");
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Batch {
    handle: Arc<Handle>,
    operations: Operations,
    keyspaces: Vec<Arc<KeyspaceState>>,
}

/// Encoded operations; the first refusal is kept until commit.
#[derive(Default)]
pub(crate) struct Operations {
    payload: Vec<u8>,
    count: u32,
    user_bytes: u64,
    only_deletes: bool,
    refused: Option<Error>,
    /// The separated puts in the payload.
    slots: Vec<Slot>,
    /// Large values, which stand in their files already.
    large: Vec<LargePut>,
    /// Keeps its memory from one compressed value to the next.
    scratch: Vec<u8>,
}

impl Operations {
    pub(crate) fn new() -> Self {
        Self { only_deletes: true, ..Self::default() }
    }

    /// Adds a put, whose value is separated where the keyspace says so.
    pub(crate) fn put(
        &mut self,
        engine: &Arc<Engine>,
        keyspace: &KeyspaceState,
        key: &[u8],
        value: &[u8],
    ) {
        if engine.is_large(value.len()) && value.len() <= VALUE_BYTES_MAX {
            let incoming = Incoming { source: &mut &*value, length: None };
            return self.put_from(engine, keyspace, key, incoming);
        }
        self.put_small(keyspace, key, value);
    }

    fn put_small(&mut self, keyspace: &KeyspaceState, key: &[u8], value: &[u8]) {
        let placement = &keyspace.placement;
        if !placement.separates(value.len()) {
            return self.add(Kind::Put, keyspace.id, key, value);
        }
        if let Err(error) = self.check(key, value) {
            self.refused.get_or_insert(error);
            return;
        }
        let hash = placement.hash.hash(keyspace.id, key);
        let compression = placement.compression;
        let put = SeparatedPut { keyspace: keyspace.id, key, value, compression, hash };
        let slot = encode_separated(&mut self.payload, self.count, &put, &mut self.scratch);
        self.slots.push(slot);
        self.added(Kind::PutSeparated, key, value);
    }

    /// Adds a put of what a stream yields to its end; a long value is written to a file of its own
    /// at once.
    pub(crate) fn put_from(
        &mut self,
        engine: &Arc<Engine>,
        keyspace: &KeyspaceState,
        key: &[u8],
        incoming: Incoming<'_>,
    ) {
        let taken = self.check(key, &[]).and_then(|()| engine.take_large(keyspace, key, incoming));
        match taken {
            Ok(Taken::Small(value)) => self.put_small(keyspace, key, &value),
            Ok(Taken::Large(put)) => {
                let handle = put.handle();
                encode_large_put(&mut self.payload, keyspace.id, key, &handle.encode());
                self.large.push(put.renumbered(self.count));
                self.added(Kind::PutSeparated, key, &[]);
                self.user_bytes += u64::from(handle.bytes);
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Adds one operation whose value, if it has one, stays in the index.
    pub(crate) fn add(&mut self, kind: Kind, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        if let Err(error) = self.check(key, value) {
            self.refused.get_or_insert(error);
            return;
        }
        encode_record(&mut self.payload, kind, keyspace, key, value);
        self.added(kind, key, value);
    }

    fn added(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        self.count += 1;
        self.user_bytes += (key.len() + value.len()) as u64;
        self.only_deletes &= matches!(kind, Kind::Delete | Kind::RangeDelete);
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let length = key.len();
            let message = format!("a key of {length} bytes; at most {KEY_BYTES_MAX} are allowed");
            return Err(Error::invalid(message));
        }
        if value.len() > VALUE_BYTES_MAX {
            let length = value.len();
            let message =
                format!("a value of {length} bytes; at most {VALUE_BYTES_MAX} are allowed");
            return Err(Error::invalid(message));
        }
        if self.count as usize >= BATCH_OPERATIONS_MAX
            || self.payload.len() + key.len() + value.len() + RECORD_OVERHEAD > BATCH_BYTES_MAX
        {
            return Err(Error::invalid(format!(
                "a batch holds at most {BATCH_OPERATIONS_MAX} operations and {BATCH_BYTES_MAX} \
                 bytes; commit this one and go on with the next"
            )));
        }
        Ok(())
    }

    /// Adds a range delete; an open end is closed by the largest key.
    pub(crate) fn add_range(&mut self, keyspace: KeyspaceId, range: KeyRange) {
        if let Err(error) = check_range(&range) {
            self.refused.get_or_insert(error);
            return;
        }
        if is_empty_range(&range) {
            return;
        }
        let start = range.start.unwrap_or_default();
        let mut end = range.end.unwrap_or_else(after_all_keys);
        // What lies beyond makes no difference: no key is that long.
        end.truncate(RANGE_END_BYTES_MAX);
        if start.len() > KEY_BYTES_MAX {
            // An exclusive start at the longest key: nothing lies beyond within its prefix.
            let message = format!("a key of {} bytes is too long", start.len());
            self.refused.get_or_insert(Error::invalid(message));
            return;
        }
        self.add(Kind::RangeDelete, keyspace, &start, &end);
    }

    /// Notes a refusal.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// The work of a commit; the operations are gone afterwards.
    pub(crate) fn take(&mut self, durability: Durability) -> Result<Work> {
        let taken = std::mem::replace(self, Self::new());
        if let Some(error) = taken.refused {
            return Err(error);
        }
        if durability == Durability::Sync {
            // Here, not under leadership: nobody else waits for it.
            taken.large.iter().try_for_each(LargePut::sync)?;
        }
        let large = taken.large;
        let extra = (!large.is_empty()).then(|| Box::new(Extra { large, ..Extra::default() }));
        Ok(Work {
            task: Task::Write,
            payload: taken.payload,
            slots: taken.slots,
            count: taken.count,
            user_bytes: taken.user_bytes,
            sync: durability == Durability::Sync,
            frees_space: taken.only_deletes,
            extra,
        })
    }
}

/// Kind, keyspace and two lengths at their longest, and what a separated record has besides:
/// compression, raw length, seq and checksum.
const RECORD_OVERHEAD: usize = 1 + 5 + 5 + 5 + 1 + 5 + 12;

/// An end that lies beyond every key.
fn after_all_keys() -> Vec<u8> {
    vec![0xff; RANGE_END_BYTES_MAX]
}

impl Batch {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle, operations: Operations::new(), keyspaces: Vec::new() }
    }

    /// Adds a put.
    pub fn put(
        &mut self,
        ks: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.add(ks, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Adds a put of what `source` yields, to its end, as [`Keyspace::put_reader`] does: a long
    /// value is written to its file now, and goes away with the batch unless that is committed.
    pub fn put_reader(
        &mut self,
        ks: &Keyspace,
        key: impl AsRef<[u8]>,
        source: &mut dyn Read,
    ) -> &mut Self {
        if self.note(ks) {
            let incoming = Incoming { source, length: None };
            self.operations.put_from(&self.handle.engine, &ks.state, key.as_ref(), incoming);
        }
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, ks: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.add(ks, Kind::Delete, key.as_ref(), &[])
    }

    /// Adds a range delete.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        ks: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> &mut Self {
        if self.note(ks) {
            self.operations.add_range(ks.state.id, key_range(&range));
        }
        self
    }

    /// Adds a merge.
    pub fn merge(
        &mut self,
        ks: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        if let Err(error) = ks.check_operator() {
            self.operations.refuse(error);
            return self;
        }
        self.add(ks, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    fn add(&mut self, ks: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> &mut Self {
        if self.note(ks) {
            match kind {
                Kind::Put => self.operations.put(&self.handle.engine, &ks.state, key, value),
                kind => self.operations.add(kind, ks.state.id, key, value),
            }
        }
        self
    }

    /// Remembers a keyspace of the batch; false if it belongs to another database.
    fn note(&mut self, ks: &Keyspace) -> bool {
        if !Arc::ptr_eq(&ks.handle.engine, &self.handle.engine) {
            let message = format!("keyspace '{}' belongs to another database", ks.name());
            self.operations.refuse(Error::invalid(message));
            return false;
        }
        if !self.keyspaces.iter().any(|known| known.id == ks.state.id) {
            self.keyspaces.push(Arc::clone(&ks.state));
        }
        true
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.operations = Operations::new();
        self.keyspaces.clear();
    }

    /// Commits, leaving the batch empty for reuse. An operation that was refused when it was added
    /// (key too long, keyspace without merge operator) is reported here, nothing written.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` for a refused operation.
    pub fn commit(&mut self, durability: Durability) -> Result<()> {
        let keyspaces = std::mem::take(&mut self.keyspaces);
        let work = self.operations.take(durability)?;
        for keyspace in &keyspaces {
            keyspace.check_exists()?;
        }
        self.handle.write(work)
    }
}

impl Handle {
    /// Waits for room and commits.
    pub(crate) fn write(&self, work: Work) -> Result<()> {
        self.check_writable()?;
        if work.count == 0 && !work.sync {
            // A stopped database acknowledges nothing, not even what changes nothing.
            return self.engine.health.check_writable();
        }
        self.engine.make_room(work.payload.len() as u64)?;
        self.engine.commit(work)
    }
}

#[cfg(test)]
mod tests;
