//! A named, ordered map within a database.

use std::io::Read;
use std::ops::RangeBounds;

use crate::base::entry::{Kind, Seq};
use crate::base::error::{Error, Result};
use crate::base::limits::LARGE_VALUE_BYTES_MAX;
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::db::batch::Operations;
use crate::db::handle::{Handle, check_range, key_range, prefix_range};
use crate::db::{Cursor, Deltas, IndexKind, RangeIter, ValueStream};
use crate::engine::catalogue::KeyspaceState;
use crate::engine::large::Incoming;
use crate::index::KeyRange;

/// What there is to know about a keyspace without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// Its name.
    pub name: String,
    /// Its permanent number.
    pub id: u32,
    /// Its index.
    pub index: IndexKind,
    /// Its merge operator.
    pub merge_operator: Option<String>,
    /// Bytes from which on its values are kept in value files; `None`: never.
    pub separate_at: Option<u32>,
    /// Where its merge operands are.
    pub deltas: Deltas,
}

impl KeyspaceInfo {
    pub(crate) fn of(state: &KeyspaceState) -> Self {
        Self {
            name: state.name.clone(),
            id: state.id.0,
            index: state.settings.index,
            merge_operator: state.settings.merge_operator.clone(),
            separate_at: state.settings.separate_at,
            deltas: state.settings.deltas.unwrap_or_default(),
        }
    }
}

/// A keyspace. Cheap to clone, `Send + Sync`.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    pub(crate) state: Arc<KeyspaceState>,
}

impl Keyspace {
    pub(crate) fn new(handle: Arc<Handle>, state: Arc<KeyspaceState>) -> Self {
        Self { handle, state }
    }

    /// Commits one operation.
    fn write(&self, add: impl FnOnce(&mut Operations)) -> Result<()> {
        self.state.check_exists()?;
        let mut operations = Operations::new();
        add(&mut operations);
        self.handle.write(operations.take(self.handle.durability)?)
    }

    /// `InvalidArgument` where there is no merge operator.
    pub(crate) fn check_operator(&self) -> Result<()> {
        if self.state.operator.is_some() {
            return Ok(());
        }
        let name = self.name();
        Err(Error::invalid(format!(
            "keyspace '{name}' has no merge operator; name one in its options when creating it"
        )))
    }

    /// The values of many keys at `snapshot`, or now.
    pub(crate) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.handle.engine.multi_get(&self.state, &keys, snapshot)
    }

    fn iterate(&self, range: KeyRange) -> RangeIter {
        RangeIter::new(Arc::clone(&self.handle), Arc::clone(&self.state), range, None)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// `InvalidArgument` (key longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), value longer
    /// than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX)), `Timeout`, `NoSpace`, `Io`, `Stopped`,
    /// `ReadOnly`, `Closed`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.write(|operations| operations.put(&self.handle.engine, &self.state, key, value))
    }

    /// Stores what `source` yields, to its end, under `key`, with at most 4 MiB of it in memory. A
    /// value of more than 1 MiB goes to a file of its own, chunk by chunk, while it is read; the
    /// write is one operation all the same: seen whole or not at all, whenever the process ends.
    /// Where `length` is given, the source must yield that many bytes: a source cut short then
    /// stores nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` for more than
    /// [`LARGE_VALUE_BYTES_MAX`](crate::LARGE_VALUE_BYTES_MAX) bytes, at once where `length` says
    /// so, and for more or fewer than `length`; `Io` where the source fails. Nothing is stored
    /// then.
    pub fn put_reader(
        &self,
        key: impl AsRef<[u8]>,
        source: &mut dyn Read,
        length: Option<u64>,
    ) -> Result<()> {
        if let Some(length) = length
            && length > LARGE_VALUE_BYTES_MAX
        {
            let message =
                format!("a value of {length} bytes; at most {LARGE_VALUE_BYTES_MAX} are allowed");
            return Err(Error::invalid(message));
        }
        self.handle.check_writable()?;
        let key = key.as_ref();
        self.write(|operations| {
            let incoming = Incoming { source, length };
            operations.put_from(&self.handle.engine, &self.state, key, incoming);
        })
    }

    /// Removes `key`; it need not exist.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let id = self.state.id;
        self.write(|operations| operations.add(Kind::Delete, id, key.as_ref(), &[]))
    }

    /// Removes every key in the range.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` for a reversed range.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let range = key_range(&range);
        self.write(|operations| operations.add_range(self.state.id, range))
    }

    /// Merges `operand` into the value of `key` with the keyspace's operator.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` if the keyspace has no operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.check_operator()?;
        let id = self.state.id;
        self.write(|operations| operations.add(Kind::Merge, id, key.as_ref(), operand.as_ref()))
    }

    /// Sets `key` to `new` (`None`: deletes it) iff its value is `expected` (`None`: iff it does
    /// not exist); returns whether it did.
    ///
    /// # Errors
    /// As [`Keyspace::get`] and [`Keyspace::put`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.handle.check_writable()?;
        let (key, id) = (key.as_ref(), self.state.id);
        let encode = || {
            let mut operations = Operations::new();
            match new {
                Some(value) => operations.put(&self.handle.engine, &self.state, key, value),
                None => operations.add(Kind::Delete, id, key, &[]),
            }
            operations.take(self.handle.durability)
        };
        self.handle.engine.compare_and_swap(&self.state, key, expected, &encode)
    }

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// `Corruption` naming file and offset, `Io`, `MergeFailed`, `Closed`; `TooLarge` for a value
    /// of more than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX) bytes, which
    /// [`Keyspace::get_reader`] reads.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.handle.engine.get(&self.state, key.as_ref(), None)
    }

    /// The value of `key`, to be read piece by piece with at most 4 MiB of it in memory, or `None`.
    /// Values that were put in one piece, and merged ones, are read whole.
    ///
    /// # Errors
    /// As [`Keyspace::get`], here and from the stream.
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueStream>> {
        let source = self.handle.engine.open_value(&self.state, key.as_ref(), None)?;
        Ok(source.map(ValueStream::new))
    }

    /// Whether `key` exists.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.engine.contains(&self.state, key.as_ref(), None)
    }

    /// The values of many keys at one moment, in the order asked; device reads are submitted
    /// together.
    ///
    /// # Errors
    /// As [`Keyspace::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.multi_get_at(keys, None)
    }

    /// The pairs in a range at this moment, in key order, from either end.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> RangeIter {
        self.iterate(key_range(&range))
    }

    /// The pairs whose key begins with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> RangeIter {
        self.iterate(prefix_range(prefix.as_ref()))
    }

    /// All pairs.
    pub fn iter(&self) -> RangeIter {
        self.iterate(KeyRange::default())
    }

    /// A cursor over this moment's pairs, not positioned.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::new(Arc::clone(&self.handle), Arc::clone(&self.state), None)
    }

    /// Compacts the keyspace to its bottom level, as [`crate::Db::compact`] does, and waits.
    ///
    /// # Errors
    /// As [`crate::Db::flush`].
    pub fn compact(&self) -> Result<()> {
        self.handle.check_writable()?;
        self.handle.engine.compact_range(&self.state, KeyRange::default())
    }

    /// Compacts a range to the bottom level, as [`crate::Db::compact`] does, and waits.
    ///
    /// # Errors
    /// As [`crate::Db::flush`].
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.handle.check_writable()?;
        let range = key_range(&range);
        check_range(&range)?;
        self.handle.engine.compact_range(&self.state, range)
    }
}
