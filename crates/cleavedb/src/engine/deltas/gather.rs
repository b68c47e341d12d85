//! What a flush makes of one key: what its bucket gets, and what the index gets in place of its
//! operands.
//!
//! Pure functions over the key's versions in a memtable. Invariants: DG-1 what is applied or
//! combined lies in one stripe, with no range delete between, and carries the seq of its newest
//! part. DG-2 operands are applied only to a base of the same memtable: the put or delete is there,
//! so nothing older counts, wherever it is. DG-3 an operator that cannot combine, fails or panics
//! leaves its operands as they are.

use crate::base::entry::{Kind, Seq};
use crate::base::marks::mark;
use crate::base::merge_operator::combine::combine_operands;
use crate::base::merge_operator::{MergeOperator, full_merge};
use crate::base::value::Value;
use crate::deltas::collect::survivors::{self, OwnedRecord};
use crate::deltas::record::{DeltaKind, OPERAND_BYTES_MAX};

/// Most bytes of a base and its operands that a flush applies. The value stays in the index; a
/// longer one is for a fold, which puts it where the keyspace has such values.
const APPLIED_BYTES_MAX: usize = OPERAND_BYTES_MAX;

/// A version of a key in a memtable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Its seq.
    pub(super) seq: Seq,
    /// Its kind.
    pub(super) kind: Kind,
    /// The operand, or the value where operands stand right above it.
    pub(super) value: Vec<u8>,
    /// Whether it stands for several.
    pub(super) is_combined: bool,
    /// Whether it is an operand that stays in the index.
    pub(super) stays: bool,
}

/// What the index gets at an operand's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// A put, or an operand that stays.
    pub(super) kind: Kind,
    /// Its value; `None` for that of the memtable.
    pub(super) value: Option<Value>,
}

/// Which stripe a seq lies in.
fn stripe_of(snapshots: &[Seq], seq: Seq) -> usize {
    snapshots.partition_point(|snapshot| *snapshot < seq)
}

/// Whether a version is worth its value: an operand, or what operands apply to.
pub(super) fn needs_value(newer: Option<&Version>, kind: Kind) -> bool {
    let has_operands = newer.is_some_and(|newer| newer.kind == Kind::Merge);
    kind == Kind::Merge || (kind == Kind::Put && has_operands)
}

/// Applies operands to the puts and deletes that they stand upon, newest version first; `cover`
/// tells the newest range delete over the key that is not above a seq. Returns the puts that take
/// their places; the bases take their seqs.
pub(super) fn apply_to_bases(
    key: &[u8],
    versions: &mut Vec<Version>,
    snapshots: &[Seq],
    cover: impl Fn(Seq) -> Seq,
    operator: &dyn MergeOperator,
) -> Vec<(Seq, Kept)> {
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(base) = versions.get(at) {
        let number = at;
        at += 1;
        if !matches!(base.kind, Kind::Put | Kind::Delete) {
            continue;
        }
        let is_above = |version: &&Version| {
            version.kind == Kind::Merge
                && stripe_of(snapshots, version.seq) == stripe_of(snapshots, base.seq)
        };
        let newer = versions.get(..number).unwrap_or_default();
        let count = newer.iter().rev().take_while(is_above).count();
        let above = newer.get(number - count..).unwrap_or_default();
        let Some(top) = above.first().map(|version| version.seq) else { continue };
        let bytes: usize = above.iter().map(|version| version.value.len()).sum();
        if bytes + base.value.len() > APPLIED_BYTES_MAX || cover(top) > base.seq {
            continue;
        }
        let operands: Vec<&[u8]> = above.iter().rev().map(|v| v.value.as_slice()).collect();
        let existing = (base.kind == Kind::Put).then_some(base.value.as_slice());
        let Ok(value) = full_merge(operator, key, existing, &operands) else { continue };
        if value.len() > APPLIED_BYTES_MAX {
            continue;
        }
        mark!("operands_applied_at_flush");
        kept.push((top, Kept { kind: Kind::Put, value: Some(Value::from(value)) }));
        versions.drain(number - count..number);
        at = number - count + 1;
        if let Some(base) = versions.get_mut(number - count) {
            base.seq = top;
        }
    }
    kept
}

/// Combines operands within stripes, where no range delete lies between; newest version first.
pub(super) fn combine(
    key: &[u8],
    versions: &mut Vec<Version>,
    snapshots: &[Seq],
    cover: impl Fn(Seq) -> Seq,
    operator: &dyn MergeOperator,
) {
    let is_run = |a: &Version, b: &Version| {
        let are_operands = a.kind == Kind::Merge && b.kind == Kind::Merge;
        are_operands
            && stripe_of(snapshots, a.seq) == stripe_of(snapshots, b.seq)
            && cover(a.seq) < b.seq
    };
    if !versions.windows(2).any(|pair| matches!(pair, [a, b] if is_run(a, b))) {
        return;
    }
    let mut combined: Vec<Version> = Vec::new();
    for run in versions.chunk_by_mut(is_run) {
        if run.len() == 1 {
            combined.extend(run.iter().cloned());
            continue;
        }
        let operands = run.iter_mut().rev().map(|v| (v.seq, std::mem::take(&mut v.value)));
        let parts = combine_operands(operator, key, operands, OPERAND_BYTES_MAX);
        let is_combined = parts.len() < run.len();
        let parts = parts.into_iter().rev();
        combined.extend(parts.map(|(seq, value)| {
            let kind = Kind::Merge;
            Version { seq, kind, value, is_combined, stays: false }
        }));
    }
    *versions = combined;
}

/// Takes out the operands that stay in the index, and leaves a mark for each: the oldest go into
/// the bucket, as far as there is room.
pub(super) fn leave_out(versions: &mut [Version], mut room: u64) -> Vec<(Seq, Kept)> {
    let mut kept = Vec::new();
    for version in versions.iter_mut().rev().filter(|version| version.kind == Kind::Merge) {
        let bytes = version.value.len();
        match room.checked_sub(bytes as u64).filter(|_| bytes <= OPERAND_BYTES_MAX) {
            Some(rest) if room > 0 => room = rest,
            _ => {
                mark!("operand_left_in_index");
                let value = std::mem::take(&mut version.value);
                let value = version.is_combined.then(|| Value::from(value));
                kept.push((version.seq, Kept { kind: Kind::Merge, value }));
                // What is below and above it in the bucket stays apart.
                version.stays = true;
            }
        }
    }
    kept
}

/// The bucket's records. Of operands in the index that follow one another it is told once: to keep
/// apart what is above them and below, one is enough, and a bucket has room for no more of a key.
pub(super) fn records_of(versions: &mut Vec<Version>) -> Vec<OwnedRecord> {
    let record = |Version { seq, kind, value, stays, .. }| match kind {
        Kind::Merge if stays => {
            OwnedRecord { seq, kind: DeltaKind::Elsewhere, operand: Vec::new() }
        }
        Kind::Merge => OwnedRecord { seq, kind: DeltaKind::Delta, operand: value },
        _ => OwnedRecord { seq, kind: DeltaKind::Anchor, operand: Vec::new() },
    };
    let mut records: Vec<OwnedRecord> = versions.drain(..).map(record).collect();
    survivors::join_elsewhere(&mut records);
    records
}

#[cfg(test)]
mod tests;
