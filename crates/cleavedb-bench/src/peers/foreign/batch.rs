//! Batches of LevelDB and RocksDB: handed over as they are where the engine merges, otherwise kept
//! aside until additions have been turned into puts.

use anyhow::Result;

use super::functions::Handle;
use super::store::{Store, raw};
use crate::engine::WriteBatch;
use crate::peers::shared::{self, Aside};

/// A batch of the library's own.
struct Owned<'a> {
    store: &'a Store,
    batch: Handle,
}

impl<'a> Owned<'a> {
    fn new(store: &'a Store) -> Self {
        // SAFETY: makes a batch that is destroyed when this is dropped.
        Self { store, batch: unsafe { (store.common.writebatch_create)() } }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let put = self.store.common.writebatch_put;
        // SAFETY: the batch is ours alone; it copies key and value during the call.
        unsafe { put(self.batch, raw(key), key.len(), raw(value), value.len()) };
    }

    fn delete(&mut self, key: &[u8]) {
        // SAFETY: as for a put.
        unsafe { (self.store.common.writebatch_delete)(self.batch, raw(key), key.len()) };
    }

    fn commit(&mut self) -> Result<()> {
        let store = self.store;
        // SAFETY: database, options and batch are open.
        let outcome = store.call(|error| unsafe {
            (store.common.write)(store.db, store.write_options, self.batch, error);
        });
        // SAFETY: the batch is ours alone.
        unsafe { (store.common.writebatch_clear)(self.batch) };
        outcome
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: ours to destroy, once.
        unsafe { (self.store.common.writebatch_destroy)(self.batch) };
    }
}

/// For a store with a merge operator.
pub(super) struct Native<'a> {
    batch: Owned<'a>,
    writes: usize,
}

impl<'a> Native<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { batch: Owned::new(store), writes: 0 }
    }
}

impl WriteBatch for Native<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes += 1;
        self.batch.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes += 1;
        self.batch.delete(key);
    }

    fn merge_add(&mut self, key: &[u8], operand: u64) {
        let Some(rocks) = &self.batch.store.rocks else { return };
        self.writes += 1;
        let (operand, merge) = (operand.to_le_bytes(), rocks.writebatch_merge);
        // SAFETY: the batch is ours alone; it copies key and operand during the call.
        unsafe { merge(self.batch.batch, raw(key), key.len(), raw(&operand), operand.len()) };
    }

    fn len(&self) -> usize {
        self.writes
    }

    fn commit(&mut self) -> Result<()> {
        self.writes = 0;
        self.batch.commit()
    }
}

/// For a store without one. Puts and deletes go into the library's batch at once as long as the
/// batch adds nothing, so that loads in batches pay for no second copy.
pub(super) struct Folded<'a> {
    batch: Owned<'a>,
    direct: usize,
    aside: Aside,
}

impl<'a> Folded<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { batch: Owned::new(store), direct: 0, aside: Aside::default() }
    }

    fn is_direct(&self) -> bool {
        self.aside.len() == 0
    }

    /// Puts what was kept aside into the library's batch and commits it.
    fn fold(&mut self) -> Result<()> {
        let Self { batch, aside, .. } = self;
        let store = batch.store;
        let _locks = store.adding.lock(aside.added());
        shared::resolved(
            aside,
            |key| store.value(key),
            |key, value| {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                }
                Ok(())
            },
        )?;
        batch.commit()
    }
}

impl WriteBatch for Folded<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        if self.is_direct() {
            self.direct += 1;
            self.batch.put(key, value);
        } else {
            self.aside.put(key, value);
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if self.is_direct() {
            self.direct += 1;
            self.batch.delete(key);
        } else {
            self.aside.delete(key);
        }
    }

    fn merge_add(&mut self, key: &[u8], operand: u64) {
        self.aside.add(key, operand);
    }

    fn len(&self) -> usize {
        self.direct + self.aside.len()
    }

    fn commit(&mut self) -> Result<()> {
        let outcome = if self.is_direct() { self.batch.commit() } else { self.fold() };
        self.direct = 0;
        self.aside.clear();
        outcome
    }
}
