//! Combines a run of a key's operands into few, in little more than one pass over their bytes.
//!
//! Pure. Neighbours are combined as in a binary counter: equals with equals, so that a byte is
//! copied as often as lengths double. One after the other, each step would copy all that came
//! before, which is quadratic for operators whose operands grow. Invariant: CB-1 what is combined
//! carries the seq of its newest part, and nothing changes its place among the others.

use std::ops::Deref;

use crate::base::entry::Seq;
use crate::base::merge_operator::{MergeOperator, partial_merge};

/// A combined operand, how many doublings it took, and its newest seq.
struct Part<T> {
    doublings: u32,
    seq: Seq,
    operand: T,
}

/// As few operands as the operator can make of these, oldest first, none of more than
/// `bytes_max` that was not so before.
pub(crate) fn combine_operands<T>(
    operator: &dyn MergeOperator,
    key: &[u8],
    run: impl IntoIterator<Item = (Seq, T)>,
    bytes_max: usize,
) -> Vec<(Seq, T)>
where
    T: Deref<Target = [u8]> + From<Vec<u8>>,
{
    let merge = |older: &Part<T>, newer: &Part<T>| {
        // A sum has at least the length of the longer part, or it would be pointless to try.
        if older.operand.len().max(newer.operand.len()) > bytes_max {
            return None;
        }
        let merged = partial_merge(operator, key, &older.operand, &newer.operand)?;
        (merged.len() <= bytes_max).then(|| T::from(merged))
    };
    let mut parts: Vec<Part<T>> = Vec::new();
    for (seq, operand) in run {
        let mut newest = Part { doublings: 0, seq, operand };
        while let Some(older) = parts.pop() {
            let is_due = older.doublings == newest.doublings;
            match is_due.then(|| merge(&older, &newest)).flatten() {
                Some(operand) => {
                    newest = Part { doublings: newest.doublings + 1, seq: newest.seq, operand };
                }
                None => {
                    parts.push(older);
                    break;
                }
            }
        }
        parts.push(newest);
    }
    // What is left in unequal parts, newest first.
    let mut combined: Vec<(Seq, T)> = Vec::new();
    let Some(mut newest) = parts.pop() else { return combined };
    while let Some(older) = parts.pop() {
        // Of equals it is known that they do not combine.
        let is_new = older.doublings != newest.doublings;
        match is_new.then(|| merge(&older, &newest)).flatten() {
            Some(operand) => {
                newest = Part { doublings: older.doublings, seq: newest.seq, operand };
            }
            None => {
                combined.push((newest.seq, newest.operand));
                newest = older;
            }
        }
    }
    combined.push((newest.seq, newest.operand));
    combined.reverse();
    combined
}

#[cfg(test)]
mod tests;
