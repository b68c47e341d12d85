//! Folding: the newest deltas of a key go into its base, or, where that fails, into the index as
//! they are.
//!
//! What comes out is for the index, in the edit that also takes the deltas out of their bucket; so
//! a fold needs no commit of its own, and nobody sees an operand twice or not at all. Only deltas
//! above the newest anchor leave: what is older is needed by snapshots alone, and the index may
//! hold newer versions than that, above which an older entry must not come to stand.
//!
//! Invariants: DF-1 for each stripe one value, at the seq of its newest delta, so that every
//! snapshot sees what it saw. DF-2 a key whose operator fails keeps its operands: they stay merge
//! entries with their seqs.

use crate::base::entry::{SEQ_MAX, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::{SharedOperator, full_merge};
use crate::base::value::Value;
use crate::deltas::collect::survivors::{Fate, FateOf, KeyRecords, OwnedRecord};
use crate::deltas::ranges::Covers;
use crate::deltas::record::{Bound, DeltaKind, OwnedBound};

/// The newest put or delete of a key that a snapshot sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// Its seq; 0 where there is none.
    pub(crate) seq: Seq,
    /// Its value; none for a delete, or where there is none.
    pub(crate) value: Option<Value>,
    /// Operands above it that the index has itself: some that could not be folded once, maybe.
    pub(crate) operands: Vec<(Seq, Value)>,
}

/// Where bases are: what the engine knows of the index.
pub(crate) trait Bases {
    /// The base of a key at a snapshot.
    fn base(&self, bound: Bound<'_>, snapshot: Seq) -> Result<Base>;
}

/// What a folded key becomes in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IntoIndex {
    /// A put of this value.
    Put(Vec<u8>),
    /// A merge operand, as it was in the bucket.
    Merge(Vec<u8>),
}

/// An entry for the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoldedEntry {
    /// Keyspace and key.
    pub(crate) bound: OwnedBound,
    /// Its seq: that of a delta which was in the bucket.
    pub(crate) seq: Seq,
    /// What it is.
    pub(crate) what: IntoIndex,
}

/// Takes the deltas above the newest anchor out of a key's records; returns the entries that stand
/// for them, newest first. An error is one of reading the base: nothing has happened then.
pub(crate) fn fold(
    key: &mut KeyRecords,
    covers: &Covers,
    snapshots: &[Seq],
    fate_of: FateOf<'_>,
    bases: &dyn Bases,
) -> Result<Vec<FoldedEntry>> {
    let bound = key.bound.as_ref();
    let cover = covers.cover_seq(bound, SEQ_MAX);
    let is_newest = |record: &OwnedRecord| record.kind == DeltaKind::Delta && record.seq > cover;
    let count = key.records.iter().take_while(|record| is_newest(record)).count();
    let newest = key.records.get(..count).unwrap_or_default();
    let operator = match fate_of(bound.keyspace) {
        Fate::Lives(operator) => operator,
        Fate::Gone => None,
    };
    let stripe_of = |seq: Seq| snapshots.partition_point(|snapshot| *snapshot < seq);
    let mut entries = Vec::new();
    let mut start = 0;
    for stripe in newest.chunk_by(|a, b| stripe_of(a.seq) == stripe_of(b.seq)) {
        let below = newest.get(start..).unwrap_or_default();
        start += stripe.len();
        let Some(top) = stripe.first().map(|record| record.seq) else { continue };
        let base = bases.base(bound, top)?;
        match folded(bound, below, &base, operator.as_ref()) {
            Some(value) => entries.push(FoldedEntry {
                bound: key.bound.clone(),
                seq: top,
                what: IntoIndex::Put(value),
            }),
            None => entries.extend(stripe.iter().map(|record| FoldedEntry {
                bound: key.bound.clone(),
                seq: record.seq,
                what: IntoIndex::Merge(record.operand.clone()),
            })),
        }
    }
    key.records.drain(..count);
    // What is left begins with an anchor over the rest, or is under a range anchor.
    if !key.records.iter().any(|record| record.kind == DeltaKind::Delta) {
        key.records.clear();
    }
    Ok(entries)
}

/// The value of a base and the deltas above it, newest first; none where the operator fails (DF-2).
fn folded(
    bound: Bound<'_>,
    deltas: &[OwnedRecord],
    base: &Base,
    operator: Option<&SharedOperator>,
) -> Option<Vec<u8>> {
    let own = deltas.iter().map(|record| (record.seq, record.operand.as_slice()));
    let of_index = base.operands.iter().map(|(seq, operand)| (*seq, operand.as_bytes()));
    let mut all: Vec<_> = own.chain(of_index).filter(|(seq, _)| *seq > base.seq).collect();
    all.sort_unstable_by_key(|(seq, _)| *seq);
    let operands: Vec<&[u8]> = all.into_iter().map(|(_, operand)| operand).collect();
    let existing = base.value.as_deref();
    full_merge(&**operator?, bound.key, existing, &operands).ok()
}
