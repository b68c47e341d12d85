//! Merge operators that come with the engine, found by name.
//!
//! A keyspace is created with the *name* of its operator and keeps it for good; these names work
//! without registration. All of them are deterministic and associative: however the engine groups
//! the operands of a key (at a flush, in a compaction, in a read), the value is the same.
//!
//! | name | operand | value | combines |
//! |---|---|---|---|
//! | [`U64_ADD`] | `u64`, 8 bytes little-endian | the same | sum, stays at `u64::MAX` |
//! | [`I64_ADD`] | `i64`, 8 bytes little-endian | the same | sum, wraps around |
//! | [`U64_MAX`] | `u64`, 8 bytes little-endian | the same | the largest |
//! | [`U64_MIN`] | `u64`, 8 bytes little-endian | the same | the smallest |
//! | [`APPEND`], `append:SEPARATOR` | any bytes | any bytes | concatenation |
//! | [`SET_UNION`] | a set, see [`encode_set`] | a set | union |
//! | [`PATCH`] | place and bytes, see [`encode_patch`] | any bytes | overwrites a part |
//! | [`JSON_MERGE_PATCH`] | JSON | JSON, keys sorted | RFC 7396 |
//!
//! An operand or a stored value that is not of the stated form makes the *read* of that key fail
//! with [`ErrorKind::MergeFailed`](crate::ErrorKind::MergeFailed) until the key is put or deleted;
//! nothing is lost or changed by the failure.
//!
//! ```
//! use cleavedb::operators;
//!
//! let sum = operators::by_name(operators::U64_ADD).expect("built in");
//! let (two, three) = (2u64.to_le_bytes(), 3u64.to_le_bytes());
//! let total = sum.full_merge(b"visits", None, &[&two, &three]).expect("8-byte operands");
//! assert_eq!(total, 5u64.to_le_bytes());
//! ```

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::merge_operator::MergeOperator;

mod append;
mod integer;
mod json;
mod patch;
mod set;

pub use patch::{PATCH_GROWTH_END_MAX, encode_patch};
pub use set::{decode_set, encode_set};

/// Sum of unsigned integers. Stays at `u64::MAX` where the sum would exceed it: a counter that
/// stops is a smaller surprise than one that begins again at zero.
pub const U64_ADD: &str = "u64-add";

/// Sum of signed integers, wrapping around at the ends: the only choice for which the grouping of
/// operands of both signs does not matter.
pub const I64_ADD: &str = "i64-add";

/// Largest of unsigned integers.
pub const U64_MAX: &str = "u64-max";

/// Smallest of unsigned integers.
pub const U64_MIN: &str = "u64-min";

/// Concatenation without a separator. `append:SEPARATOR` puts SEPARATOR between neighbours, as in
/// `append:,`; `\n`, `\t`, `\r`, `\0`, `\\` and `\xNN` stand for bytes that do not print.
///
/// ```
/// use cleavedb::operators;
///
/// let list = operators::by_name("append:, ").expect("built in");
/// let value = list.full_merge(b"k", Some(b"a"), &[b"b", b"c"]).expect("any bytes will do");
/// assert_eq!(value, b"a, b, c");
/// ```
pub const APPEND: &str = "append";

/// Union of sets of byte strings in the encoding of [`encode_set`].
pub const SET_UNION: &str = "set-union";

/// Overwrites a part of the value, growing it with zeros where it is too short. Made for records
/// with fields at fixed places. See [`encode_patch`].
pub const PATCH: &str = "patch";

/// JSON merge patch (RFC 7396): objects merge key by key, `null` removes, all else replaces. The
/// value is written without spaces, keys sorted.
///
/// ```
/// use cleavedb::operators;
///
/// let json = operators::by_name(operators::JSON_MERGE_PATCH).expect("built in");
/// let value = json
///     .full_merge(b"k", Some(br#"{"name":"Ada","age":36}"#), &[br#"{"age":null,"born":1815}"#])
///     .expect("valid JSON");
/// assert_eq!(value, br#"{"born":1815,"name":"Ada"}"#);
/// ```
pub const JSON_MERGE_PATCH: &str = "json-merge-patch";

/// One of each built-in operator; of the `append:SEPARATOR` family only [`APPEND`].
#[must_use]
pub fn builtin() -> Vec<Arc<dyn MergeOperator>> {
    let names = [U64_ADD, I64_ADD, U64_MAX, U64_MIN, APPEND, SET_UNION, PATCH, JSON_MERGE_PATCH];
    names.into_iter().filter_map(by_name).collect()
}

/// The built-in operator of this name, or `None` where there is none.
#[must_use]
pub fn by_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    Some(match name {
        U64_ADD => Arc::new(integer::U64_ADD),
        I64_ADD => Arc::new(integer::I64_ADD),
        U64_MAX => Arc::new(integer::U64_MAX),
        U64_MIN => Arc::new(integer::U64_MIN),
        SET_UNION => Arc::new(set::SetUnion),
        PATCH => Arc::new(patch::Patch),
        JSON_MERGE_PATCH => Arc::new(json::JsonMergePatch),
        _ => Arc::new(append::Append::from_name(name)?),
    })
}

/// The appending operator with this separator, of any bytes (at most 64). Its name is
/// `append:SEPARATOR` with bytes that do not print escaped, and [`by_name`] finds it by that.
///
/// # Errors
/// `InvalidArgument` for a separator above 64 bytes.
///
/// ```
/// use cleavedb::operators;
///
/// let lines = operators::append(b"\n").expect("short enough");
/// assert_eq!(lines.name(), "append:\\n");
/// assert!(operators::by_name(lines.name()).is_some());
/// ```
pub fn append(separator: &[u8]) -> Result<Arc<dyn MergeOperator>> {
    Ok(Arc::new(append::Append::new(separator)?))
}

#[cfg(test)]
mod tests;
