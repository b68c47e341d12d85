//! One moment of the database.

use std::ops::RangeBounds;

use crate::base::error::{Error, Result};
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::db::handle::{Handle, key_range, prefix_range};
use crate::db::{Cursor, Keyspace, RangeIter, ValueStream};
use crate::engine::snapshots::SnapshotPin;
use crate::index::KeyRange;

/// A view of one commit point for as long as it lives. Cheap to clone. A snapshot that lives long
/// keeps the versions it sees from being dropped.
#[derive(Clone)]
pub struct Snapshot {
    handle: Arc<Handle>,
    pin: Arc<SnapshotPin>,
}

impl Snapshot {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let pin = Arc::new(handle.engine.snapshots.take(&handle.engine.visible));
        Self { handle, pin }
    }

    /// Refuses a keyspace of another database.
    fn check(&self, ks: &Keyspace) -> Result<()> {
        if Arc::ptr_eq(&ks.handle.engine, &self.handle.engine) {
            return Ok(());
        }
        Err(Error::invalid(format!("keyspace '{}' belongs to another database", ks.name())))
    }

    fn iterate(&self, ks: &Keyspace, range: KeyRange) -> RangeIter {
        let (handle, state) = (Arc::clone(&ks.handle), Arc::clone(&ks.state));
        match self.check(ks) {
            Ok(()) => RangeIter::new(handle, state, range, Some(Arc::clone(&self.pin))),
            Err(error) => RangeIter::failed(handle, state, error),
        }
    }

    /// Sequence number of the commit point.
    pub fn seq(&self) -> u64 {
        self.pin.seq()
    }
    /// As [`Keyspace::get`] at this moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, ks: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.check(ks)?;
        self.handle.engine.get(&ks.state, key.as_ref(), Some(self.pin.seq()))
    }
    /// As [`Keyspace::get_reader`] at this moment; the stream may outlive the snapshot.
    ///
    /// # Errors
    /// As [`Keyspace::get_reader`].
    pub fn get_reader(&self, ks: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<ValueStream>> {
        self.check(ks)?;
        let engine = &self.handle.engine;
        let source = engine.open_value(&ks.state, key.as_ref(), Some(self.pin.seq()))?;
        Ok(source.map(ValueStream::new))
    }
    /// As [`Keyspace::multi_get`] at this moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        ks: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.check(ks)?;
        ks.multi_get_at(keys, Some(self.pin.seq()))
    }
    /// As [`Keyspace::range`] at this moment.
    pub fn range<K: AsRef<[u8]>>(&self, ks: &Keyspace, range: impl RangeBounds<K>) -> RangeIter {
        self.iterate(ks, key_range(&range))
    }
    /// As [`Keyspace::prefix`] at this moment.
    pub fn prefix(&self, ks: &Keyspace, prefix: impl AsRef<[u8]>) -> RangeIter {
        self.iterate(ks, prefix_range(prefix.as_ref()))
    }
    /// As [`Keyspace::cursor`] at this moment.
    ///
    /// # Errors
    /// As [`Keyspace::cursor`].
    pub fn cursor(&self, ks: &Keyspace) -> Result<Cursor> {
        self.check(ks)?;
        let pin = Some(Arc::clone(&self.pin));
        Cursor::new(Arc::clone(&ks.handle), Arc::clone(&ks.state), pin)
    }
}
