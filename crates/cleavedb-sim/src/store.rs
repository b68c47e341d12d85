//! The engine behind the harness's vocabulary: slots instead of handles, answers instead of
//! iterators. No checking here.
//!
//! Owns every handle of one open database, so that dropping a [`Store`] closes it.

use std::io::Read as _;

use cleavedb::{
    Batch, Cursor, Db, Durability, IndexKind, Keyspace, KeyspaceOptions, Options, RangeIter,
    Result, Snapshot, ValueStream,
};

use crate::form::Form;
use crate::model::{Answer, Dump, Pair, prefix_of, slot_name, slot_operator, takes_front};
use crate::operation::{Bounds, Change, Move, Read, SLOTS, Walk, key_bytes};

/// One open database and its keyspaces by slot.
pub struct Store {
    /// The database.
    pub db: Db,
    keyspaces: Vec<Option<Keyspace>>,
}

/// The index of a slot's keyspace under a form.
#[must_use]
pub fn index_of(form: &Form, slot: u8) -> IndexKind {
    match form.odd_index {
        // The last slot keeps the naive index, so that all kinds live in one database.
        _ if slot == SLOTS - 1 && form.mixed => IndexKind::Naive,
        Some(index) if slot % 2 == 1 => index,
        _ => form.index,
    }
}

/// How a slot's keyspace is created under a form.
#[must_use]
pub fn keyspace_options(form: &Form, slot: u8) -> KeyspaceOptions {
    let mut options = KeyspaceOptions::new()
        .index(index_of(form, slot))
        .separate_at(form.separate_at)
        .value_compression(form.value_compression);
    if let Some(operator) = slot_operator(slot) {
        options = options.merge_operator(operator.name()).deltas(form.deltas);
    }
    match &form.compression {
        Some(levels) => options.compression(levels.clone()),
        None => options,
    }
}

impl Store {
    /// Opens the database and the keyspaces that it holds.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(options: Options, path: &std::path::Path) -> Result<Self> {
        let db = options.open(path)?;
        let mut keyspaces = Vec::new();
        for slot in 0..SLOTS {
            keyspaces.push(db.existing_keyspace(&slot_name(slot))?);
        }
        Ok(Self { db, keyspaces })
    }

    /// The handle of a slot.
    #[must_use]
    pub fn keyspace(&self, slot: u8) -> Option<&Keyspace> {
        self.keyspaces.get(usize::from(slot)).and_then(Option::as_ref)
    }

    /// Creates the keyspace of a slot.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn create(&mut self, form: &Form, slot: u8) -> Result<()> {
        let keyspace = self.db.keyspace(&slot_name(slot), keyspace_options(form, slot))?;
        if let Some(place) = self.keyspaces.get_mut(usize::from(slot)) {
            *place = Some(keyspace);
        }
        Ok(())
    }

    /// Drops the keyspace of a slot and returns the handle, which must be dead.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn discard(&mut self, slot: u8) -> Result<Option<Keyspace>> {
        self.db.drop_keyspace(&slot_name(slot))?;
        Ok(self.keyspaces.get_mut(usize::from(slot)).and_then(Option::take))
    }

    /// Makes a change; nothing where the keyspace does not exist.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn change(&self, change: Change) -> Result<()> {
        let Some(keyspace) = self.keyspace(change.slot()) else { return Ok(()) };
        match change {
            Change::Put(_, key, value) => keyspace.put(key_bytes(key), value.contents()),
            Change::Delete(_, key) => keyspace.delete(key_bytes(key)),
            Change::Merge(_, key, operand) => keyspace.merge(key_bytes(key), operand.contents()),
            Change::DeleteRange(_, span) => keyspace.delete_range(span.bounds()),
        }
    }

    /// Commits several changes at once; those in keyspaces that do not exist are left out.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn batch(&self, changes: &[Change], durability: Durability) -> Result<()> {
        let mut batch = self.db.batch();
        for &change in changes {
            self.add(&mut batch, change);
        }
        batch.commit(durability)
    }

    fn add(&self, batch: &mut Batch, change: Change) {
        let Some(keyspace) = self.keyspace(change.slot()) else { return };
        match change {
            Change::Put(_, key, value) => batch.put(keyspace, key_bytes(key), value.contents()),
            Change::Delete(_, key) => batch.delete(keyspace, key_bytes(key)),
            Change::Merge(_, key, operand) => {
                batch.merge(keyspace, key_bytes(key), operand.contents())
            }
            Change::DeleteRange(_, span) => batch.delete_range(keyspace, span.bounds()),
        };
    }

    /// Reads, now or through a snapshot; `None` where the keyspace does not exist.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn read(
        &self,
        slot: u8,
        snapshot: Option<&Snapshot>,
        read: &Read,
    ) -> Result<Option<Answer>> {
        let Some(keyspace) = self.keyspace(slot) else { return Ok(None) };
        read_answer(keyspace, snapshot, read).map(Some)
    }

    /// An iterator over a range of a slot.
    #[must_use]
    pub fn range(
        &self,
        slot: u8,
        snapshot: Option<&Snapshot>,
        bounds: Bounds,
    ) -> Option<RangeIter> {
        let keyspace = self.keyspace(slot)?;
        Some(match snapshot {
            Some(snapshot) => snapshot.range(keyspace, bounds),
            None => keyspace.range(bounds),
        })
    }

    /// Everything, walked forward; keyspaces without pairs left out.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn dump(&self) -> Result<Dump> {
        self.collect(false)
    }

    /// Everything, walked backward and then turned round.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn dump_backward(&self) -> Result<Dump> {
        self.collect(true)
    }

    fn collect(&self, backward: bool) -> Result<Dump> {
        let mut dump = Dump::new();
        let snapshot = self.db.snapshot();
        for info in self.db.keyspaces() {
            let Some(keyspace) = self.db.existing_keyspace(&info.name)? else { continue };
            let iterator = snapshot.range::<Vec<u8>>(&keyspace, ..);
            let mut pairs = if backward {
                iterator.rev().map(own).collect::<Result<Vec<Pair>>>()?
            } else {
                iterator.map(own).collect::<Result<Vec<Pair>>>()?
            };
            if backward {
                pairs.reverse();
            }
            if !pairs.is_empty() {
                dump.insert(info.name, pairs);
            }
        }
        Ok(dump)
    }
}

fn own(item: Result<(cleavedb::Value, cleavedb::Value)>) -> Result<Pair> {
    item.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// A value read piece by piece.
fn streamed(stream: Option<ValueStream>) -> Result<Option<Vec<u8>>> {
    let Some(mut stream) = stream else { return Ok(None) };
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        // What it wraps is the store's own error, whose kind counts; if not, no answer is right.
        Err(error) => match error.downcast::<cleavedb::Error>() {
            Ok(error) => Err(error),
            Err(error) => Ok(Some(format!("none of the store's errors: {error}").into_bytes())),
        },
    }
}

fn read_answer(keyspace: &Keyspace, snapshot: Option<&Snapshot>, read: &Read) -> Result<Answer> {
    let owned = |value: Option<cleavedb::Value>| value.map(|value| value.to_vec());
    let range = |bounds: Bounds| match snapshot {
        Some(snapshot) => snapshot.range(keyspace, bounds),
        None => keyspace.range(bounds),
    };
    Ok(match read {
        Read::Get(key) if key % 3 == 0 => Answer::Value(streamed(match snapshot {
            Some(snapshot) => snapshot.get_reader(keyspace, key_bytes(*key))?,
            None => keyspace.get_reader(key_bytes(*key))?,
        })?),
        Read::Get(key) => Answer::Value(owned(match snapshot {
            Some(snapshot) => snapshot.get(keyspace, key_bytes(*key))?,
            None => keyspace.get(key_bytes(*key))?,
        })),
        Read::Contains(key) => Answer::Exists(match snapshot {
            Some(snapshot) => snapshot.get(keyspace, key_bytes(*key))?.is_some(),
            None => keyspace.contains(key_bytes(*key))?,
        }),
        Read::MultiGet(keys) => {
            let keys: Vec<Vec<u8>> = keys.iter().map(|&key| key_bytes(key)).collect();
            let values = match snapshot {
                Some(snapshot) => snapshot.multi_get(keyspace, keys)?,
                None => keyspace.multi_get(keys)?,
            };
            Answer::Values(values.into_iter().map(owned).collect())
        }
        Read::Scan(span, walk) => Answer::Pairs(collect_walk(range(span.bounds()), *walk)?),
        Read::Prefix(key, length, walk) => {
            let prefix = prefix_of(*key, *length);
            let iterator = match snapshot {
                Some(snapshot) => snapshot.prefix(keyspace, prefix),
                None => keyspace.prefix(prefix),
            };
            Answer::Pairs(collect_walk(iterator, *walk)?)
        }
        Read::Cursor(moves) => {
            let cursor = match snapshot {
                Some(snapshot) => snapshot.cursor(keyspace)?,
                None => keyspace.cursor()?,
            };
            Answer::Places(places(cursor, moves)?)
        }
    })
}

fn collect_walk(mut iterator: RangeIter, walk: Walk) -> Result<Vec<Pair>> {
    match walk {
        Walk::Forward => iterator.map(own).collect(),
        Walk::Backward => iterator.rev().map(own).collect(),
        Walk::Keys => iterator.keys().map(|key| Ok((key?.to_vec(), Vec::new()))).collect(),
        Walk::Both(bits) => {
            let mut pairs = Vec::new();
            while let Some(item) =
                if takes_front(bits, pairs.len()) { iterator.next() } else { iterator.next_back() }
            {
                pairs.push(own(item)?);
            }
            Ok(pairs)
        }
        Walk::Guards => {
            let mut pairs = Vec::new();
            for guard in iterator.guards() {
                let guard = guard?;
                let key = guard.key().to_vec();
                let fetched = pairs.len().is_multiple_of(2);
                let value = if fetched { guard.value()?.to_vec() } else { Vec::new() };
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
}

fn places(mut cursor: Cursor, moves: &[Move]) -> Result<Vec<Option<Pair>>> {
    let mut places = Vec::new();
    for one in moves {
        match one {
            Move::First => cursor.seek_first()?,
            Move::Last => cursor.seek_last()?,
            Move::Seek(key) => cursor.seek(key_bytes(*key))?,
            Move::SeekBack(key) => cursor.seek_for_prev(key_bytes(*key))?,
            Move::Next => cursor.next()?,
            Move::Prev => cursor.prev()?,
        }
        let place = match (cursor.valid(), cursor.key(), cursor.value()) {
            (true, Some(key), Some(value)) => Some((key.to_vec(), value.to_vec())),
            _ => None,
        };
        places.push(place);
    }
    Ok(places)
}
