//! Point reads: memtables from newest to oldest, then the index, then the merge operator. Of many
//! keys at once: `many`.

use std::ops::Deref;

use crate::base::checksum::key_hash;
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::lookup::{Found, Lookup};
use crate::base::marks::mark;
use crate::base::merge_operator::full_merge;
use crate::base::sync::Arc;
use crate::base::sync::atomic::Ordering;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::deltas::fold::MetOperands;
use crate::engine::locate::search::Search;
use crate::engine::metrics::{Operation, is_get_timed};
use crate::engine::view::View;
use crate::index::BoxApart;
use crate::io::Purpose;
use crate::values::file_table::ValueFiles;
use crate::values::large::reader::LargeFile;
use crate::values::reader::{ValueReader, Wanted};

pub(crate) mod many;

/// Where the bytes of a value come from.
pub(crate) enum Source {
    /// From memory.
    Whole(Value),
    /// From a file of its own, which it pins.
    Large(Box<LargeFile>),
}

impl Engine {
    /// The newest view, and what of it is to be seen.
    ///
    /// The view is taken first. Entries that come after it, up to the seq, reach it through its
    /// active memtable; the value files that they name must be in its table.
    pub(crate) fn moment(&self, snapshot: Option<Seq>) -> (impl Deref<Target = Arc<View>>, Seq) {
        loop {
            let view = self.view.load();
            let seq = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
            if self.newest_value_table.load(Ordering::Acquire) <= view.value_table {
                return (view, seq);
            }
            mark!("view_taken_again_for_value_file");
        }
    }

    /// The value of `key` at `snapshot`, or now.
    pub(crate) fn get(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<Value>> {
        self.check_readable(keyspace)?;
        let start = is_get_timed().then(|| self.io.clock.now());
        self.metrics.gets.add(1);
        let value = self.look_up_value(keyspace, key, snapshot);
        if let Some(start) = start {
            self.metrics.record(Operation::Get, self.io.clock.now().saturating_sub(start));
        }
        value
    }

    /// The value of `key` at `snapshot`, or now, without the counting.
    pub(crate) fn look_up_value(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<Value>> {
        if let Some(mapping) = &self.mapping {
            return self.get_mapped(mapping, keyspace, key, snapshot);
        }
        // Before the view.
        let mut search = Search::begin(self, keyspace, key);
        let (view, seq) = self.moment(snapshot);
        let mut lookup = Lookup::new(seq);
        lookup.is_of_now = snapshot.is_none();
        if in_memtables(&view, keyspace.id, key, &mut lookup) {
            return self.value_of(&view, keyspace, key, &lookup);
        }
        let operands = lookup.operands.len();
        let index = view.indexes.get(&keyspace.id);
        // On its way while the base is looked for and read.
        let apart = match index {
            Some(index) => index.begin_apart(key, seq)?,
            None => None,
        };
        let is_located = match &mut search {
            Some(search) => search.find(self, &view, &mut lookup)?,
            None => false,
        };
        if is_located {
            keyspace.unlocated.end();
        } else if let Some(index) = index {
            let hash = key_hash(key);
            index.get_base(key, hash, &mut lookup)?;
            keyspace.unlocated.note(hash, is_separated(&lookup));
        }
        let is_bare = lookup.operands.len() == operands;
        let value = match apart {
            Some(apart) => {
                self.value_with(&view, (keyspace, key), &mut lookup, (apart, operands))?
            }
            None => self.value_of(&view, keyspace, key, &lookup)?,
        };
        if let Some(search) = search.filter(|_| !is_located) {
            search.offer(self, &view, &lookup, is_bare, snapshot.is_none());
        }
        Ok(value)
    }

    /// The value of what a lookup in a view met, while what is kept of its operands apart, beyond
    /// those that were there before the index was asked, is on its way.
    pub(crate) fn value_with(
        &self,
        view: &View,
        (keyspace, key): (&KeyspaceState, &[u8]),
        lookup: &mut Lookup,
        (apart, operands_before): (BoxApart<'_>, usize),
    ) -> Result<Option<Value>> {
        let base = lookup.found.as_ref().map(|found| found.seq);
        let read = self.base_value(view, keyspace, key, lookup);
        apart.finish(operands_before, lookup)?;
        // Of a base that was deleted since, nothing counts: nor that it could not be read.
        let is_base = lookup.found.as_ref().map(|found| found.seq) == base;
        let value = if is_base { read? } else { None };
        base_of(lookup, key)?;
        self.fold(keyspace, key, lookup, value)
    }

    /// The value that a lookup's operands apply to.
    fn base_value(
        &self,
        view: &View,
        keyspace: &KeyspaceState,
        key: &[u8],
        lookup: &Lookup,
    ) -> Result<Option<Value>> {
        Ok(match base_of(lookup, key)? {
            Base::Separated(found) => {
                let handle = self.strategy.resolve(&found.value)?;
                let wanted = Wanted { handle, keyspace: keyspace.id, key, seq: found.seq };
                Some(self.value_reader(&view.values).get(&wanted)?)
            }
            Base::Inline(value) => Some(value.clone()),
            Base::Absent => None,
        })
    }

    /// The value of what a lookup in a view met.
    pub(crate) fn value_of(
        &self,
        view: &View,
        keyspace: &KeyspaceState,
        key: &[u8],
        lookup: &Lookup,
    ) -> Result<Option<Value>> {
        let base = self.base_value(view, keyspace, key, lookup)?;
        self.fold(keyspace, key, lookup, base)
    }

    /// The value of `key` at `snapshot`, or now, to be read piece by piece.
    pub(crate) fn open_value(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<Source>> {
        self.check_readable(keyspace)?;
        self.metrics.gets.add(1);
        let (view, seq) = self.moment(snapshot);
        let mut lookup = Lookup::new(seq);
        lookup.is_of_now = snapshot.is_none();
        look_up_in(&view, keyspace.id, key, &mut lookup)?;
        // Only a large value is read from its file; those that the map leads to are none.
        if lookup.operands.is_empty()
            && let Some(found) = lookup.found.as_ref().filter(|_| is_separated(&lookup))
        {
            let handle = self.strategy.resolve(&found.value)?;
            if handle.is_large() {
                let wanted = Wanted { handle, keyspace: keyspace.id, key, seq: found.seq };
                let reader = self.value_reader(&view.values);
                let file = reader.open_large(&wanted, Purpose::Read)?;
                return Ok(Some(Source::Large(Box::new(file))));
            }
        }
        let value = match &self.mapping {
            Some(mapping) => self.get_mapped(mapping, keyspace, key, snapshot)?,
            None => self.value_of(&view, keyspace, key, &lookup)?,
        };
        Ok(value.map(Source::Whole))
    }

    /// Whether `key` exists: no operator is run, no value read.
    pub(crate) fn contains(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<bool> {
        self.check_readable(keyspace)?;
        let lookup = self.look_up(keyspace.id, key, snapshot)?;
        let base = lookup.found.is_some_and(|found| found.kind.holds_value());
        Ok(base || !lookup.operands.is_empty())
    }

    /// All that the newest view knows of `key` at `snapshot`, or now.
    pub(crate) fn look_up(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Lookup> {
        let view = self.view.load();
        let seq = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
        let mut lookup = Lookup::new(seq);
        look_up_in(&view, keyspace, key, &mut lookup)?;
        Ok(lookup)
    }

    /// Reads the values in these files.
    pub(crate) fn value_reader<'a>(&'a self, files: &'a ValueFiles) -> ValueReader<'a> {
        ValueReader { context: &self.value_context, files, tail: &self.value_tail }
    }

    /// Whether the memtables alone hold anything of `key` that is newer than `seq`. For whoever
    /// leads commits: all that was written before is in them.
    pub(crate) fn is_newer_in_memtables(&self, keyspace: KeyspaceId, key: &[u8], seq: Seq) -> bool {
        let view = self.view.load();
        // Most of what is frozen is older than what was read a moment ago.
        let mut tables = view.memtables().filter(|table| table.last_seq() > seq);
        tables.any(|table| table.newest_seq(keyspace, key) > seq)
    }

    /// Folds the operands that a lookup met into its base: the value a user sees.
    pub(crate) fn fold(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        lookup: &Lookup,
        base: Option<Value>,
    ) -> Result<Option<Value>> {
        if lookup.operands.is_empty() {
            return Ok(base);
        }
        self.metrics.operands.record(lookup.operands.len());
        let operator = keyspace.operator.as_ref().ok_or_else(|| missing_operator(key))?;
        let operands: Vec<&[u8]> =
            lookup.operands.iter().rev().map(|(_, operand)| operand.as_bytes()).collect();
        let value = full_merge(operator.as_ref(), key, base.as_deref(), &operands)?;
        if lookup.is_of_now {
            let met = MetOperands { count: operands.len(), are_strays: lookup.has_strays };
            self.note_folded(keyspace.id, key, &met, value.len());
        }
        Ok(Some(Value::from(value)))
    }

    /// Reads go on after a failure, but not after close or on a dropped keyspace.
    pub(crate) fn check_readable(&self, keyspace: &KeyspaceState) -> Result<()> {
        self.health.check_open()?;
        keyspace.check_exists()
    }
}

/// Collects all that `view` knows of `key` at the lookup's seq.
pub(crate) fn look_up_in(
    view: &View,
    keyspace: KeyspaceId,
    key: &[u8],
    lookup: &mut Lookup,
) -> Result<()> {
    if !in_memtables(view, keyspace, key, lookup)
        && let Some(index) = view.indexes.get(&keyspace)
    {
        index.get(key, key_hash(key), lookup)?;
    }
    Ok(())
}

/// Asks the memtables; true when they decide.
pub(crate) fn in_memtables(
    view: &View,
    keyspace: KeyspaceId,
    key: &[u8],
    lookup: &mut Lookup,
) -> bool {
    view.active.get(keyspace, key, lookup)
        || view.frozen.iter().any(|frozen| frozen.table.get(keyspace, key, lookup))
}

/// What merge operands of a key apply to.
enum Base<'a> {
    /// Nothing.
    Absent,
    /// A value that stands in the entry.
    Inline(&'a Value),
    /// A value whose handle stands in the entry.
    Separated(&'a Found),
}

/// Whether what a lookup met is a value whose handle stands in the entry.
fn is_separated(lookup: &Lookup) -> bool {
    lookup.found.as_ref().is_some_and(|found| found.kind == Kind::PutSeparated)
}

/// The base that a lookup met.
fn base_of<'a>(lookup: &'a Lookup, key: &[u8]) -> Result<Base<'a>> {
    let Some(found) = &lookup.found else { return Ok(Base::Absent) };
    if lookup.operands.last().is_some_and(|(seq, _)| *seq <= found.seq) {
        let key = key.escape_ascii();
        return Err(Error::corruption(format!("operands of key \"{key}\" are out of order")));
    }
    match found.kind {
        Kind::Put => Ok(Base::Inline(&found.value)),
        Kind::PutSeparated => Ok(Base::Separated(found)),
        Kind::Delete | Kind::RangeDelete => Ok(Base::Absent),
        other => Err(unsupported_kind(other)),
    }
}

/// A kind that no strategy of this build makes.
pub(crate) fn unsupported_kind(kind: Kind) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("an entry of kind {kind:?} is unknown to this build"),
    )
}

/// Operands in a keyspace without an operator.
pub(crate) fn missing_operator(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    Error::corruption(format!("key \"{key}\" has merge operands but its keyspace no operator"))
}
