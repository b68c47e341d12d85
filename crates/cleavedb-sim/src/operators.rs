//! Merge operators of the harness: one whose result depends on order and on each operand counting
//! exactly once, one that combines, so that partial merges happen.
//!
//! Pure functions; the model and the engine run the same code.

use std::sync::Arc;

use cleavedb::MergeOperator;

/// Name of [`AppendOperator`].
pub const APPEND: &str = "sim.append";
/// Name of [`SumOperator`].
pub const SUM: &str = "sim.sum";

/// Appends operands to a list, a comma before each: neither commutative nor idempotent; combines
/// some pairs of operands, not all.
pub struct AppendOperator;

impl MergeOperator for AppendOperator {
    fn name(&self) -> &str {
        APPEND
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let mut list = existing.unwrap_or_default().to_vec();
        for operand in operands {
            list.push(b',');
            list.extend_from_slice(operand);
        }
        Ok(list)
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        // Some pairs cannot be combined, so that runs of operands are left with gaps.
        let combines = !(older.len() + newer.len()).is_multiple_of(3);
        combines.then(|| [older, b",", newer].concat())
    }
}

/// Adds operands, little-endian numbers of up to eight bytes, wrapping: partial merges are
/// possible and a lost or doubled operand shows in the sum.
pub struct SumOperator;

fn number(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(padded)
}

impl MergeOperator for SumOperator {
    fn name(&self) -> &str {
        SUM
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let start = existing.map_or(0, number);
        let sum = operands.iter().fold(start, |sum, operand| sum.wrapping_add(number(operand)));
        Ok(sum.to_le_bytes().to_vec())
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(number(older).wrapping_add(number(newer)).to_le_bytes().to_vec())
    }
}

/// Both operators.
#[must_use]
pub fn all() -> Vec<Arc<dyn MergeOperator>> {
    vec![Arc::new(AppendOperator), Arc::new(SumOperator)]
}
