//! Built-in merge operators on arbitrary values and operands.

use crate::base::merge_operator::operators::builtin;
use crate::base::merge_operator::{full_merge, partial_merge};

/// Takes the first byte as operator, the rest as value and operands, each after a length byte.
/// Combining the first two operands must not change the outcome.
pub fn merge_operators(data: &[u8]) -> bool {
    let Some((&choice, mut rest)) = data.split_first() else { return false };
    let mut parts: Vec<&[u8]> = Vec::new();
    while let Some((&length, tail)) = rest.split_first() {
        let (part, after) = tail.split_at(tail.len().min(usize::from(length)));
        parts.push(part);
        rest = after;
    }
    let operators = builtin();
    let Some(operator) = operators.get(usize::from(choice & 0x7f) % operators.len()) else {
        return false;
    };
    let (existing, operands) = match parts.split_first() {
        Some((&value, operands)) if choice & 0x80 != 0 => (Some(value), operands),
        _ => (None, parts.as_slice()),
    };
    let all = operator.full_merge(b"k", existing, operands);
    let reported = full_merge(operator.as_ref(), b"k", existing, operands);
    assert_eq!(reported.is_ok(), all.is_ok(), "{} panicked", operator.name());
    if let [older, newer, others @ ..] = operands
        && let Some(combined) = partial_merge(operator.as_ref(), b"k", older, newer)
    {
        let grouped: Vec<&[u8]> =
            std::iter::once(combined.as_slice()).chain(others.iter().copied()).collect();
        let again = operator.full_merge(b"k", existing, &grouped);
        assert_eq!(
            again.as_ref().ok(),
            all.as_ref().ok(),
            "{}: grouping changed the value",
            operator.name()
        );
    }
    all.is_ok()
}
