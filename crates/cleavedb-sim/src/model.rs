//! What the database should contain: persistent maps, so that the state after every commit can be
//! kept and a snapshot is a clone.
//!
//! Single-threaded. Invariant M1: [`State::fingerprint`] is the sum of the hashes of all pairs, so
//! two states with the same pairs have the same fingerprint whatever led to them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use cleavedb::MergeOperator;
use imbl::OrdMap;

use crate::operation::{Bounds, Change, Expect, Move, Payload, Read, SLOTS, Walk, key_bytes};
use crate::operators::{AppendOperator, SumOperator};

/// Bytes shared by the states that contain them.
pub type Bytes = Arc<[u8]>;
/// The pairs of one keyspace.
pub type Pairs = OrdMap<Bytes, Bytes>;
/// A pair as a read returns it.
pub type Pair = (Vec<u8>, Vec<u8>);
/// All pairs of a database, by name of the keyspace.
pub type Dump = BTreeMap<String, Vec<Pair>>;

/// Name of a slot's keyspace.
#[must_use]
pub fn slot_name(slot: u8) -> String {
    format!("ks{slot}")
}

/// The merge operator of a slot.
#[must_use]
pub fn slot_operator(slot: u8) -> Option<Arc<dyn MergeOperator>> {
    match slot {
        1 | 3 => Some(Arc::new(AppendOperator)),
        2 => Some(Arc::new(SumOperator)),
        _ => None,
    }
}

fn pair_hash(slot_name: &str, key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (slot_name, key, value).hash(&mut hasher);
    hasher.finish()
}

/// Fingerprint of what a scan of everything returned.
#[must_use]
pub fn dump_fingerprint(dump: &Dump) -> u64 {
    let pairs = dump.iter().flat_map(|(name, pairs)| pairs.iter().map(move |pair| (name, pair)));
    pairs.fold(0, |sum: u64, (name, (key, value))| sum.wrapping_add(pair_hash(name, key, value)))
}

/// One keyspace that exists.
#[derive(Clone, Debug)]
pub struct Space {
    /// Tells it from an earlier keyspace of the same name.
    pub generation: u32,
    /// Its pairs.
    pub pairs: Pairs,
}

/// The database at one commit point.
#[derive(Clone, Debug, Default)]
pub struct State {
    spaces: OrdMap<u8, Space>,
    fingerprint: u64,
    generations: u32,
}

impl State {
    /// Sum of the hashes of all pairs (M1).
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The keyspace in a slot.
    #[must_use]
    pub fn space(&self, slot: u8) -> Option<&Space> {
        self.spaces.get(&slot)
    }

    /// The pairs of a slot as seen through a handle of that generation.
    #[must_use]
    pub fn pairs_of(&self, slot: u8, generation: u32) -> Pairs {
        let space = self.space(slot).filter(|space| space.generation == generation);
        space.map(|space| space.pairs.clone()).unwrap_or_default()
    }

    /// Creates the keyspace of a slot; nothing if it exists.
    pub fn create(&mut self, slot: u8) {
        if self.space(slot).is_none() {
            self.generations += 1;
            let space = Space { generation: self.generations, pairs: Pairs::new() };
            self.spaces.insert(slot, space);
        }
    }

    /// Drops the keyspace of a slot.
    pub fn discard(&mut self, slot: u8) {
        if let Some(space) = self.spaces.remove(&slot) {
            for (key, value) in &space.pairs {
                self.forget(slot, key, value);
            }
        }
    }

    fn forget(&mut self, slot: u8, key: &[u8], value: &[u8]) {
        self.fingerprint = self.fingerprint.wrapping_sub(pair_hash(&slot_name(slot), key, value));
    }

    /// Sets or removes one key.
    pub fn set(&mut self, slot: u8, key: &[u8], value: Option<Vec<u8>>) {
        let Some(space) = self.spaces.get_mut(&slot) else { return };
        let old = match &value {
            Some(new) => space.pairs.insert(Bytes::from(key), Bytes::from(new.as_slice())),
            None => space.pairs.remove(key),
        };
        if let Some(old) = old {
            self.forget(slot, key, &old);
        }
        if let Some(new) = value {
            let hash = pair_hash(&slot_name(slot), key, &new);
            self.fingerprint = self.fingerprint.wrapping_add(hash);
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, slot: u8, key: &[u8]) -> Option<Bytes> {
        self.space(slot)?.pairs.get(key).cloned()
    }

    /// Whether the engine must refuse the change.
    #[must_use]
    pub fn refuses(change: Change) -> bool {
        match change {
            Change::Merge(slot, ..) => slot_operator(slot).is_none(),
            Change::DeleteRange(_, span) => span.is_reversed(),
            _ => false,
        }
    }

    /// Applies a change that is not refused.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Put(slot, key, value) => {
                self.set(slot, &key_bytes(key), Some(value.contents()));
            }
            Change::Delete(slot, key) => self.set(slot, &key_bytes(key), None),
            Change::Merge(slot, key, operand) => self.merge(slot, key, operand),
            Change::DeleteRange(slot, span) => {
                let Some(space) = self.space(slot) else { return };
                let keys: Vec<Bytes> =
                    within(&space.pairs, &span.bounds()).map(|(key, _)| key.clone()).collect();
                for key in keys {
                    self.set(slot, &key, None);
                }
            }
        }
    }

    fn merge(&mut self, slot: u8, key: u16, operand: Payload) {
        let Some(operator) = slot_operator(slot) else { return };
        let key = key_bytes(key);
        let old = self.get(slot, &key);
        let operand = operand.contents();
        if let Ok(new) = operator.full_merge(&key, old.as_deref(), &[&operand]) {
            self.set(slot, &key, Some(new));
        }
    }

    /// Whether a compare-and-swap finds what it expects; also the bytes it expects.
    #[must_use]
    pub fn expectation(&self, slot: u8, key: u16, expect: Expect) -> (bool, Option<Vec<u8>>) {
        let current = self.get(slot, &key_bytes(key)).map(|value| value.to_vec());
        let expected = match expect {
            Expect::Current => current.clone(),
            Expect::Absent => None,
            Expect::Other(payload) => Some(payload.contents()),
        };
        (expected == current, expected)
    }

    /// All pairs, keyspaces without pairs left out.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let spaces = (0..SLOTS).filter_map(|slot| Some((slot, self.space(slot)?)));
        spaces
            .filter(|(_, space)| !space.pairs.is_empty())
            .map(|(slot, space)| (slot_name(slot), space.pairs.iter().map(owned).collect()))
            .collect()
    }
}

fn owned((key, value): (&Bytes, &Bytes)) -> Pair {
    (key.to_vec(), value.to_vec())
}

/// Pairs within bounds, in order; none where the bounds are reversed.
pub fn within<'a>(
    pairs: &'a Pairs,
    bounds: &Bounds,
) -> Box<dyn DoubleEndedIterator<Item = (&'a Bytes, &'a Bytes)> + 'a> {
    let empty = match (&bounds.0, &bounds.1) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    };
    if empty {
        return Box::new(std::iter::empty());
    }
    let borrow = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) => Bound::Included(Bytes::from(key.as_slice())),
        Bound::Excluded(key) => Bound::Excluded(Bytes::from(key.as_slice())),
        Bound::Unbounded => Bound::Unbounded,
    };
    Box::new(pairs.range::<_, Bytes>((borrow(&bounds.0), borrow(&bounds.1))))
}

/// Pairs within bounds as a list.
#[must_use]
pub fn list(pairs: &Pairs, bounds: &Bounds) -> Vec<Pair> {
    within(pairs, bounds).map(owned).collect()
}

/// The bounds of all keys that begin with `prefix`.
#[must_use]
pub fn prefix_bounds(prefix: &[u8]) -> Bounds {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return (Bound::Included(prefix.to_vec()), Bound::Excluded(end));
        }
    }
    (Bound::Included(prefix.to_vec()), Bound::Unbounded)
}

/// What a read returns, in a form that engine and model share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A value or its absence.
    Value(Option<Vec<u8>>),
    /// Existence.
    Exists(bool),
    /// Values in the order asked.
    Values(Vec<Option<Vec<u8>>>),
    /// Pairs in the order walked; values that the walk does not fetch are empty.
    Pairs(Vec<Pair>),
    /// Where a cursor stood after each move.
    Places(Vec<Option<Pair>>),
}

/// The order in which a walk over both ends takes its pairs: true is the front.
#[must_use]
pub fn takes_front(bits: u32, step: usize) -> bool {
    (bits >> (step % 32)) & 1 == 0
}

fn walk(mut pairs: Vec<Pair>, walk: Walk) -> Answer {
    match walk {
        Walk::Forward => {}
        Walk::Backward => pairs.reverse(),
        Walk::Both(bits) => {
            let mut rest = std::collections::VecDeque::from(pairs);
            pairs = Vec::new();
            while let Some(pair) =
                if takes_front(bits, pairs.len()) { rest.pop_front() } else { rest.pop_back() }
            {
                pairs.push(pair);
            }
        }
        Walk::Keys => pairs.iter_mut().for_each(|(_, value)| value.clear()),
        Walk::Guards => pairs.iter_mut().skip(1).step_by(2).for_each(|(_, value)| value.clear()),
    }
    Answer::Pairs(pairs)
}

/// The bytes of a prefix read.
#[must_use]
pub fn prefix_of(key: u16, length: u8) -> Vec<u8> {
    let mut prefix = key_bytes(key);
    prefix.truncate(usize::from(length));
    prefix
}

/// What a read of these pairs must return.
#[must_use]
pub fn answer(pairs: &Pairs, read: &Read) -> Answer {
    let get = |key: u16| pairs.get(key_bytes(key).as_slice()).map(|value| value.to_vec());
    match read {
        Read::Get(key) => Answer::Value(get(*key)),
        Read::Contains(key) => Answer::Exists(get(*key).is_some()),
        Read::MultiGet(keys) => Answer::Values(keys.iter().map(|&key| get(key)).collect()),
        Read::Scan(span, how) => walk(list(pairs, &span.bounds()), *how),
        Read::Prefix(key, length, how) => {
            walk(list(pairs, &prefix_bounds(&prefix_of(*key, *length))), *how)
        }
        Read::Cursor(moves) => Answer::Places(places(pairs, moves)),
    }
}

fn places(pairs: &Pairs, moves: &[Move]) -> Vec<Option<Pair>> {
    let mut at: Option<Pair> = None;
    let mut places = Vec::new();
    for one in moves {
        let from = |bound| (bound, Bound::Unbounded);
        let upto = |bound| (Bound::Unbounded, bound);
        let here = at.as_ref().map(|(key, _)| key.clone());
        at = match (one, here) {
            (Move::First, _) => within(pairs, &from(Bound::Unbounded)).next().map(owned),
            (Move::Last, _) => within(pairs, &upto(Bound::Unbounded)).next_back().map(owned),
            (Move::Seek(key), _) => {
                within(pairs, &from(Bound::Included(key_bytes(*key)))).next().map(owned)
            }
            (Move::SeekBack(key), _) => {
                within(pairs, &upto(Bound::Included(key_bytes(*key)))).next_back().map(owned)
            }
            (Move::Next, Some(key)) => within(pairs, &from(Bound::Excluded(key))).next().map(owned),
            (Move::Prev, Some(key)) => {
                within(pairs, &upto(Bound::Excluded(key))).next_back().map(owned)
            }
            (Move::Next | Move::Prev, None) => None,
        };
        places.push(at.clone());
    }
    places
}

#[cfg(test)]
mod tests;
