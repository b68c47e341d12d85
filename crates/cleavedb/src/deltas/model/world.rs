//! What stands around the delta store in its model: history, index, operators.

use super::*;

/// Associative; a counter; not associative; and one that fails and panics.
pub(super) const KEYSPACES: [KeyspaceId; 4] =
    [KeyspaceId(1), KeyspaceId(2), KeyspaceId(3), KeyspaceId(9)];

/// Keys of each keyspace.
const KEYS: u64 = 9;

/// What a reader gets: a value, none, or an error of the operator.
pub(super) type Shown = std::result::Result<Option<Vec<u8>>, ()>;

/// An operation on a key.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(Vec<u8>),
    Delete,
    Merge(Vec<u8>),
    /// Of the keys from the operation's up to this one.
    DeleteRange(Box<[u8]>),
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) seq: Seq,
    pub(super) bound: OwnedBound,
    pub(super) op: Op,
}

impl Operation {
    /// Whether it says something of the key.
    pub(super) fn touches(&self, bound: Bound<'_>) -> bool {
        match &self.op {
            Op::DeleteRange(end) => {
                self.bound.keyspace == bound.keyspace
                    && *self.bound.key <= *bound.key
                    && *bound.key < **end
            }
            _ => self.bound.as_ref() == bound,
        }
    }
}

/// Joins operands with a mark, so that every grouping but the right one shows; combines nothing.
struct Fussy;

impl MergeOperator for Fussy {
    fn name(&self) -> &str {
        "fussy"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String> {
        let mut value = existing.unwrap_or(b"nothing").to_vec();
        for operand in operands {
            value.extend_from_slice(b">");
            value.extend_from_slice(operand);
        }
        Ok(value)
    }
}

/// Appends, but panics at an `x` when it combines and fails at one when it folds.
struct Failing;

impl MergeOperator for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String> {
        if operands.iter().any(|operand| operand.contains(&b'x')) {
            return Err("an x".to_owned());
        }
        Ok([existing.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        assert!(!older.contains(&b'x') && !newer.contains(&b'x'), "an x");
        Some([older, newer].concat())
    }
}

pub(super) fn operator_of(keyspace: KeyspaceId) -> Option<SharedOperator> {
    Some(match keyspace.0 {
        1 => operators::by_name("append:,").unwrap(),
        2 => operators::by_name(operators::U64_ADD).unwrap(),
        3 => Arc::new(Fussy),
        _ => Arc::new(Failing),
    })
}

pub(super) fn fate_of(keyspace: KeyspaceId) -> Fate {
    Fate::Lives(operator_of(keyspace))
}

pub(super) fn shown(
    operator: Option<&SharedOperator>,
    key: &[u8],
    value: Option<&[u8]>,
    operands: &[&[u8]],
) -> Shown {
    if operands.is_empty() {
        return Ok(value.map(<[u8]>::to_vec));
    }
    full_merge(&**operator.unwrap(), key, value, operands).map(Some).map_err(|_| ())
}

fn key(number: u64) -> Box<[u8]> {
    format!("key {number}").into_bytes().into()
}

pub(super) fn all_keys() -> impl Iterator<Item = OwnedBound> {
    KEYSPACES
        .into_iter()
        .flat_map(|keyspace| (0..KEYS).map(move |number| OwnedBound { keyspace, key: key(number) }))
}

/// Everything that ever happened.
#[derive(Default)]
pub(super) struct History {
    all: Vec<Operation>,
}

impl History {
    pub(super) fn last_seq(&self) -> Seq {
        self.all.len() as Seq
    }

    /// What is above a seq, oldest first.
    pub(super) fn since(&self, seq: Seq) -> Vec<Operation> {
        self.all[seq as usize..].to_vec()
    }

    pub(super) fn operate(&mut self, random: &mut Seeded) {
        for _ in 0..1 + random.below(6) {
            let keyspace = KEYSPACES[random.index(KEYSPACES.len())];
            // A few keys get most of the operations.
            let number = random.below(1 + random.clone().below(KEYS));
            let bound = OwnedBound { keyspace, key: key(number) };
            let seq = self.last_seq() + 1;
            let bytes = |random: &mut Seeded| match keyspace.0 {
                2 => random.below(1000).to_le_bytes().to_vec(),
                _ => {
                    let letter = if random.chance(2) { b'x' } else { b'a' + (seq % 20) as u8 };
                    vec![letter; 1 + random.below(60) as usize]
                }
            };
            let op = match random.below(100) {
                0..80 => Op::Merge(bytes(random)),
                80..89 => Op::Put(bytes(random)),
                89..96 => Op::Delete,
                _ => Op::DeleteRange(key(number + 1 + random.below(4))),
            };
            self.all.push(Operation { seq, bound, op });
        }
    }

    /// Puts the value of a key, where it has one that its operator can make.
    pub(super) fn fold(&mut self, bound: OwnedBound) -> bool {
        let Ok(Some(value)) = self.shown(bound.as_ref(), self.last_seq()) else { return false };
        let seq = self.last_seq() + 1;
        self.all.push(Operation { seq, bound, op: Op::Put(value) });
        true
    }

    /// What a snapshot shows of a key: operation after operation.
    pub(super) fn shown(&self, bound: Bound<'_>, snapshot: Seq) -> Shown {
        let (mut value, mut operands): (Option<&Vec<u8>>, Vec<&[u8]>) = (None, Vec::new());
        let visible = self.all.iter().take(snapshot as usize);
        for operation in visible.filter(|operation| operation.touches(bound)) {
            match &operation.op {
                Op::Merge(operand) => operands.push(operand),
                Op::Put(put) => (value, operands) = (Some(put), Vec::new()),
                Op::Delete | Op::DeleteRange(_) => (value, operands) = (None, Vec::new()),
            }
        }
        let operator = operator_of(bound.keyspace);
        shown(operator.as_ref(), bound.key, value.map(Vec::as_slice), &operands)
    }
}

/// What an index has of a key at a seq.
#[derive(Clone, Debug)]
enum Version {
    Put(Vec<u8>),
    Delete,
}

/// The index: versions of keys; range deletes are taken apart into deletes of all keys.
#[derive(Clone, Default)]
pub(super) struct Index {
    keys: BTreeMap<OwnedBound, BTreeMap<Seq, Version>>,
}

impl Index {
    pub(super) fn put(&mut self, operation: &Operation) {
        let version = match &operation.op {
            Op::Put(value) => Version::Put(value.clone()),
            _ => Version::Delete,
        };
        self.keys.entry(operation.bound.clone()).or_default().insert(operation.seq, version);
    }

    pub(super) fn delete_range(&mut self, operation: &Operation) {
        for bound in all_keys().filter(|bound| operation.touches(bound.as_ref())) {
            self.keys.entry(bound).or_default().insert(operation.seq, Version::Delete);
        }
    }

    /// The newest put or delete that a snapshot sees.
    pub(super) fn base_at(&self, bound: Bound<'_>, snapshot: Seq) -> (Seq, Option<&Vec<u8>>) {
        let versions = self.keys.get(&bound.to_owned());
        match versions.and_then(|versions| versions.range(..=snapshot).next_back()) {
            Some((seq, Version::Put(value))) => (*seq, Some(value)),
            Some((seq, Version::Delete)) => (*seq, None),
            None => (0, None),
        }
    }

    /// A compaction to the last level: what no snapshot sees goes, tombstones with nothing below
    /// among it.
    pub(super) fn compact(&mut self, snapshots: &[Seq]) {
        let stripe_of = |seq: Seq| snapshots.partition_point(|snapshot| *snapshot < seq);
        for versions in self.keys.values_mut() {
            let mut kept: BTreeMap<Seq, Version> = BTreeMap::new();
            let mut superseder: Option<Seq> = None;
            for (seq, version) in versions.iter().rev() {
                let is_dead = superseder.is_some_and(|newer| stripe_of(newer) == stripe_of(*seq));
                if !is_dead {
                    kept.insert(*seq, version.clone());
                }
                superseder = Some(*seq);
            }
            while kept.first_key_value().is_some_and(|(_, v)| matches!(v, Version::Delete)) {
                kept.pop_first();
            }
            *versions = kept;
        }
    }
}
