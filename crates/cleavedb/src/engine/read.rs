//! Point reads: memtables from newest to oldest, then the index, then the merge operator.

use crate::base::checksum::key_hash;
use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::lookup::Lookup;
use crate::base::merge_operator::{SharedOperator, full_merge};
use crate::base::sync::atomic::Ordering;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::catalogue::KeyspaceState;
use crate::engine::metrics::Operation;
use crate::engine::view::View;
use crate::index::KeyLookup;

impl Engine {
    /// The value of `key` at `snapshot`, or now.
    pub(crate) fn get(
        &self,
        keyspace: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<Value>> {
        self.check_readable(keyspace)?;
        let start = self.io.clock.now();
        self.metrics.gets.fetch_add(1, Ordering::Relaxed);
        let lookup = self.look_up(keyspace.id, key, snapshot)?;
        let value = resolve(lookup, key, keyspace.operator.as_ref());
        self.metrics.record(Operation::Get, self.io.clock.now().saturating_sub(start));
        value
    }

    /// Whether `key` exists: no operator is run.
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
        look_up_in(&view, keyspace, key, seq)
    }

    /// The newest seq of `key` in the memtables alone, whatever is visible; 0 for none.
    pub(crate) fn newest_in_memtables(&self, keyspace: KeyspaceId, key: &[u8]) -> Seq {
        let view = self.view.load();
        view.memtables().map(|table| table.newest_seq(keyspace, key)).max().unwrap_or(0)
    }

    /// The values of many keys at one moment, in the order asked.
    pub(crate) fn multi_get(
        &self,
        keyspace: &KeyspaceState,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Value>>> {
        self.check_readable(keyspace)?;
        let start = self.io.clock.now();
        self.metrics.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let view = self.view.load();
        let seq = snapshot.unwrap_or_else(|| self.visible.load(Ordering::Acquire));
        let mut lookups: Vec<KeyLookup<'_>> = keys
            .iter()
            .map(|key| KeyLookup { key, hash: key_hash(key), lookup: Lookup::new(seq) })
            .collect();
        for wanted in &mut lookups {
            let _ = in_memtables(&view, keyspace.id, wanted.key, &mut wanted.lookup);
        }
        if let Some(index) = view.indexes.get(&keyspace.id)
            && lookups.iter().any(|wanted| wanted.lookup.found.is_none())
        {
            index.multi_get(&mut lookups)?;
        }
        let values = lookups
            .into_iter()
            .map(|wanted| resolve(wanted.lookup, wanted.key, keyspace.operator.as_ref()))
            .collect();
        self.metrics.record(Operation::MultiGet, self.io.clock.now().saturating_sub(start));
        values
    }

    /// Reads go on after a failure, but not after close or on a dropped keyspace.
    pub(crate) fn check_readable(&self, keyspace: &KeyspaceState) -> Result<()> {
        self.health.check_open()?;
        keyspace.check_exists()
    }
}

/// All that `view` knows of `key` at `seq`.
pub(crate) fn look_up_in(
    view: &View,
    keyspace: KeyspaceId,
    key: &[u8],
    seq: Seq,
) -> Result<Lookup> {
    let mut lookup = Lookup::new(seq);
    if !in_memtables(view, keyspace, key, &mut lookup)
        && let Some(index) = view.indexes.get(&keyspace)
    {
        index.get(key, key_hash(key), &mut lookup)?;
    }
    Ok(lookup)
}

/// Asks the memtables; true when they decide.
fn in_memtables(view: &View, keyspace: KeyspaceId, key: &[u8], lookup: &mut Lookup) -> bool {
    view.memtables().any(|table| table.get(keyspace, key, lookup))
}

/// Folds what a lookup met into the value a user sees.
pub(crate) fn resolve(
    lookup: Lookup,
    key: &[u8],
    operator: Option<&SharedOperator>,
) -> Result<Option<Value>> {
    let base = match lookup.found {
        Some(found) => match found.kind {
            _ if lookup.operands.last().is_some_and(|(seq, _)| *seq <= found.seq) => {
                return Err(Error::corruption(format!(
                    "operands of key \"{}\" are out of order",
                    key.escape_ascii()
                )));
            }
            Kind::Put => Some(found.value),
            Kind::Delete | Kind::RangeDelete => None,
            other => return Err(unsupported_kind(other)),
        },
        None => None,
    };
    if lookup.operands.is_empty() {
        return Ok(base);
    }
    let operator = operator.ok_or_else(|| missing_operator(key))?;
    let operands: Vec<&[u8]> =
        lookup.operands.iter().rev().map(|(_, operand)| operand.as_bytes()).collect();
    full_merge(operator.as_ref(), key, base.as_deref(), &operands).map(|v| Some(Value::from(v)))
}

/// A kind that only the value log can resolve stands in a store that has none.
pub(crate) fn unsupported_kind(kind: Kind) -> Error {
    Error::new(ErrorKind::Unsupported, format!("an entry of kind {kind:?} needs a value log"))
}

/// Operands in a keyspace without an operator.
pub(crate) fn missing_operator(key: &[u8]) -> Error {
    let key = key.escape_ascii();
    Error::corruption(format!("key \"{key}\" has merge operands but its keyspace no operator"))
}
