//! Sum, largest and smallest of 64-bit integers. Stateless; shared by all threads.
//!
//! Invariant: `combine` is associative, so that operands may be combined in any grouping.

use crate::base::merge_operator::MergeOperator;

/// Combines 8-byte little-endian integers pairwise.
pub(super) struct Integer {
    name: &'static str,
    combine: fn(u64, u64) -> u64,
}

/// See [`super::U64_ADD`]. Capped sums of numbers that are not negative are associative.
pub(super) const U64_ADD: Integer = Integer { name: super::U64_ADD, combine: u64::saturating_add };

/// See [`super::I64_ADD`]. In two's complement the wrapping sum of signed numbers has the bits of
/// that of unsigned ones.
pub(super) const I64_ADD: Integer = Integer { name: super::I64_ADD, combine: u64::wrapping_add };

/// See [`super::U64_MAX`].
pub(super) const U64_MAX: Integer = Integer { name: super::U64_MAX, combine: larger };

/// See [`super::U64_MIN`].
pub(super) const U64_MIN: Integer = Integer { name: super::U64_MIN, combine: smaller };

fn larger(a: u64, b: u64) -> u64 {
    a.max(b)
}

fn smaller(a: u64, b: u64) -> u64 {
    a.min(b)
}

fn decode(what: &str, bytes: &[u8]) -> Result<u64, String> {
    <[u8; 8]>::try_from(bytes)
        .map(u64::from_le_bytes)
        .map_err(|_| format!("{what} has {} bytes instead of 8", bytes.len()))
}

impl MergeOperator for Integer {
    fn name(&self) -> &str {
        self.name
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let mut total = existing.map(|bytes| decode("the value", bytes)).transpose()?;
        for operand in operands {
            let operand = decode("an operand", operand)?;
            total = Some(total.map_or(operand, |total| (self.combine)(total, operand)));
        }
        let total = total.ok_or("neither value nor operand")?;
        Ok(total.to_le_bytes().to_vec())
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let older = decode("", older).ok()?;
        let newer = decode("", newer).ok()?;
        Some((self.combine)(older, newer).to_le_bytes().to_vec())
    }
}
