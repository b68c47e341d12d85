//! Merge operators: how operands combine with a value and with one another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};

pub(crate) mod combine;
pub mod operators;

/// Combines a key's value with the operands merged into it since.
///
/// An operator is registered by its [`name`](MergeOperator::name) when a keyspace is created and
/// checked whenever it is opened. It must be deterministic. It need not be commutative; operands
/// arrive in commit order, each exactly once.
pub trait MergeOperator: Send + Sync + 'static {
    /// The permanent name, stored with the keyspace.
    fn name(&self) -> &str;

    /// The value that results from applying `operands`, oldest first, to `existing` (`None`: the
    /// key does not exist).
    ///
    /// # Errors
    /// A message that reaches the reader of this key as
    /// [`ErrorKind::MergeFailed`](crate::ErrorKind::MergeFailed). The key's data stays as it is.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String>;

    /// One operand with the effect of `older` and then `newer`, or `None` where that cannot be
    /// said without the value. The default is `None`: correct for every operator.
    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }
}

/// A shared operator.
pub(crate) type SharedOperator = Arc<dyn MergeOperator>;

/// Runs `full_merge` and turns a failure or a panic of the operator into an error for this key.
pub(crate) fn full_merge(
    operator: &dyn MergeOperator,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let outcome = catch_unwind(AssertUnwindSafe(|| operator.full_merge(key, existing, operands)));
    let describe = |what: &str| {
        Error::new(
            ErrorKind::MergeFailed,
            format!(
                "merge operator '{}' {what} for key \"{}\"",
                operator.name(),
                key.escape_ascii()
            ),
        )
    };
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(message)) => Err(describe(&format!("failed ({message})"))),
        Err(_) => Err(describe("panicked")),
    }
}

/// Runs `partial_merge`; a panic counts as "cannot be combined".
pub(crate) fn partial_merge(
    operator: &dyn MergeOperator,
    key: &[u8],
    older: &[u8],
    newer: &[u8],
) -> Option<Vec<u8>> {
    catch_unwind(AssertUnwindSafe(|| operator.partial_merge(key, older, newer))).ok().flatten()
}
