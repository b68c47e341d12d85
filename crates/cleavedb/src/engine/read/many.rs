//! Point reads of many keys at one moment.
//!
//! No state of its own. Invariants: MR-1 what is kept apart of keys that the memtables have not
//! decided is on its way before index and values are read, and is waited for when these are there.
//! MR-2 of a base that was deleted since, nothing counts: nor that it could not be read.

use crate::base::checksum::key_hash;
use crate::base::entry::{KeyspaceId, Seq};
use crate::base::error::Result;
use crate::base::lookup::Lookup;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::locate::search::Searches;
use crate::engine::metrics::Operation;
use crate::engine::read::{Base, base_of};
use crate::engine::view::View;
use crate::index::{BoxManyApart, IndexView, KeyLookup};
use crate::io::Purpose;
use crate::values::reader::Wanted;

/// The values of lookups whose entries have handles.
pub(crate) type Values = Vec<Option<Result<Value>>>;

/// What is kept apart from their index of those keys that were not decided, on its way.
pub(crate) struct ManyApart<'k> {
    under_way: BoxManyApart<'k>,
    before: Vec<Option<usize>>,
}

impl<'k> ManyApart<'k> {
    /// Begins to read it, where there is any.
    pub(crate) fn begin(index: &'k dyn IndexView, keys: &[KeyLookup<'k>]) -> Result<Option<Self>> {
        let before = undecided(keys);
        if before.iter().all(Option::is_none) {
            return Ok(None);
        }
        let asked = keys.iter().zip(&before).filter(|(_, before)| before.is_some());
        let mut asked = asked.map(|(key, _)| (key.key, key.lookup.snapshot));
        let under_way = index.begin_many_apart(&mut asked)?;
        Ok(under_way.map(|under_way| Self { under_way, before }))
    }

    /// Waits for it, and adds it to the same keys, of which the index knows no more.
    pub(crate) fn finish(self, keys: &mut [KeyLookup<'_>]) -> Result<()> {
        let lookups = keys.iter_mut().map(|key| &mut key.lookup);
        let mut undecided =
            lookups.zip(self.before).filter_map(|(lookup, before)| Some((before?, lookup)));
        self.under_way.finish(&mut undecided)
    }
}

/// How many operands each of the keys has that are not decided.
pub(crate) fn undecided(keys: &[KeyLookup<'_>]) -> Vec<Option<usize>> {
    let of_key =
        |key: &KeyLookup<'_>| key.lookup.found.is_none().then_some(key.lookup.operands.len());
    keys.iter().map(of_key).collect()
}

/// Lookups of these keys that know nothing yet.
pub(crate) fn lookups_of<'k>(keys: &[&'k [u8]], snapshot: Seq) -> Vec<KeyLookup<'k>> {
    let of_key =
        |&key: &&'k [u8]| KeyLookup { key, hash: key_hash(key), lookup: Lookup::new(snapshot) };
    keys.iter().map(of_key).collect()
}

impl Engine {
    /// The values of many keys at one moment, in the order asked.
    pub(crate) fn multi_get(
        &self,
        keyspace: &KeyspaceState,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Value>>> {
        self.check_readable(keyspace)?;
        let start = self.io.clock.now();
        self.metrics.gets.add(keys.len() as u64);
        let values = match &self.mapping {
            Some(mapping) => self.multi_get_mapped(mapping, keyspace, keys, snapshot),
            None => self.look_up_values(keyspace, keys, snapshot),
        };
        self.metrics.record(Operation::MultiGet, self.io.clock.now().saturating_sub(start));
        values
    }

    /// The same in a database without a map, and without the counting.
    fn look_up_values(
        &self,
        keyspace: &KeyspaceState,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Value>>> {
        // Before the view.
        let mut searches = Searches::begin(self, keyspace, keys);
        let (view, seq) = self.moment(snapshot);
        let mut lookups = lookups_of(keys, seq);
        ask_memtables(&view, keyspace.id, &mut lookups);
        let Some(index) = view.indexes.get(&keyspace.id) else {
            return self.fold_many(&view, keyspace, lookups, snapshot.is_none());
        };
        let apart = ManyApart::begin(&**index, &lookups)?;
        if let Some(searches) = &mut searches {
            searches.find(self, &view, &mut lookups)?;
        }
        if lookups.iter().any(|key| key.lookup.found.is_none()) {
            index.multi_get_base(&mut lookups)?;
        }
        if let Some(searches) = &mut searches {
            searches.note_answers(&lookups);
        }
        let values = self.values_with(&view, keyspace, &mut lookups, apart)?;
        if let Some(searches) = searches {
            searches.offer(self, &view, &lookups, snapshot.is_none());
        }
        self.fold_values(keyspace, lookups, values, snapshot.is_none())
    }

    /// Reads all separated values together and folds each lookup.
    pub(crate) fn fold_many(
        &self,
        view: &View,
        keyspace: &KeyspaceState,
        mut lookups: Vec<KeyLookup<'_>>,
        is_of_now: bool,
    ) -> Result<Vec<Option<Value>>> {
        let values = self.values_with(view, keyspace, &mut lookups, None)?;
        self.fold_values(keyspace, lookups, values, is_of_now)
    }

    /// The separated values that lookups met, read together while what is kept apart is on its way;
    /// the lookups then have that, too (MR-1).
    pub(crate) fn values_with(
        &self,
        view: &View,
        keyspace: &KeyspaceState,
        lookups: &mut [KeyLookup<'_>],
        apart: Option<ManyApart<'_>>,
    ) -> Result<Values> {
        let mut wanted = Vec::new();
        let mut are_separated = Vec::with_capacity(lookups.len());
        for KeyLookup { key, lookup, .. } in &*lookups {
            let base = base_of(lookup, key)?;
            if let Base::Separated(found) = &base {
                let handle = self.strategy.resolve(&found.value)?;
                wanted.push(Wanted { handle, keyspace: keyspace.id, key, seq: found.seq });
            }
            are_separated.push(matches!(base, Base::Separated(_)));
        }
        let read = match wanted.as_slice() {
            [] => Vec::new(),
            wanted => self.value_reader(&view.values).get_many(wanted, Purpose::Read),
        };
        if let Some(apart) = apart {
            apart.finish(lookups)?;
        }
        let mut read = read.into_iter();
        let of_key = |is_separated| if is_separated { read.next() } else { None };
        Ok(are_separated.into_iter().map(of_key).collect())
    }

    /// Folds each lookup into what is left of its value (MR-2).
    pub(crate) fn fold_values(
        &self,
        keyspace: &KeyspaceState,
        lookups: Vec<KeyLookup<'_>>,
        values: Values,
        is_of_now: bool,
    ) -> Result<Vec<Option<Value>>> {
        let value_of = |(KeyLookup { key, mut lookup, .. }, value): (KeyLookup<'_>, Option<_>)| {
            lookup.is_of_now = is_of_now;
            let base = match base_of(&lookup, key)? {
                Base::Separated(_) => value.transpose()?,
                Base::Inline(value) => Some(value.clone()),
                Base::Absent => None,
            };
            self.fold(keyspace, key, &lookup, base)
        };
        lookups.into_iter().zip(values).map(value_of).collect()
    }
}

/// All that `view` knows of each of these keys at its lookup's seq.
pub(crate) fn look_up_many_in(
    view: &View,
    keyspace: KeyspaceId,
    keys: &mut [KeyLookup<'_>],
) -> Result<()> {
    ask_memtables(view, keyspace, keys);
    match view.indexes.get(&keyspace) {
        Some(index) if keys.iter().any(|key| key.lookup.found.is_none()) => index.multi_get(keys),
        _ => Ok(()),
    }
}

pub(crate) fn ask_memtables(view: &View, keyspace: KeyspaceId, keys: &mut [KeyLookup<'_>]) {
    for table in view.memtables() {
        table.get_many(keyspace, &mut keys.iter_mut().map(|key| (key.key, &mut key.lookup)));
    }
}
