//! Values of a scan that are read and folded when somebody asks. They own what that takes, so they
//! outlive the cursor they came from; any thread.

use crate::base::entry::{KeyspaceId, Kind, Seq};
use crate::base::error::Result;
use crate::base::merge_operator::{SharedOperator, full_merge};
use crate::base::sync::Arc;
use crate::base::value::Value;
use crate::engine::Engine;
use crate::engine::read::{missing_operator, unsupported_kind};
use crate::io::Purpose;
use crate::values::file_table::ValueFiles;
use crate::values::reader::Wanted;

/// A value that is folded when somebody asks.
pub(crate) enum LaterValue {
    /// Nothing to fold.
    Ready(Value),
    /// A value that stands elsewhere, or a base and what was merged into it.
    Fold(Box<LaterFold>),
}

/// What it takes to read and fold a value.
pub(crate) struct LaterFold {
    pub(super) engine: Arc<Engine>,
    pub(super) files: Arc<ValueFiles>,
    pub(super) keyspace: KeyspaceId,
    pub(super) operator: Option<SharedOperator>,
    pub(super) is_of_now: bool,
    pub(super) base: Option<Base>,
    /// Oldest first.
    pub(super) operands: Vec<Value>,
}

/// The put that decides a key's value.
#[derive(Clone)]
pub(super) enum Base {
    /// Its value.
    Inline(Value),
    /// Its seq and handle, and the files that this leads into, where these are newer than the
    /// view's: in others its record may be gone.
    Separated(Seq, Value, Option<Arc<ValueFiles>>),
    /// Its seq: a map knows where its record stands.
    Bare(Seq),
}

impl Base {
    /// The value of `key`.
    pub(super) fn get(
        self,
        engine: &Engine,
        files: &ValueFiles,
        keyspace: KeyspaceId,
        key: &[u8],
    ) -> Result<Value> {
        match self {
            Self::Inline(value) => Ok(value),
            // The cursor has given it a handle.
            Self::Bare(_) => Err(unsupported_kind(Kind::PutBare)),
            Self::Separated(seq, handle, newer) => {
                let handle = engine.strategy.resolve(&handle)?;
                let wanted = Wanted { handle, keyspace, key, seq };
                let files = newer.as_deref().unwrap_or(files);
                engine.value_reader(files).read(&wanted, Purpose::Read)
            }
        }
    }
}

impl LaterValue {
    /// The value of `key`.
    pub(crate) fn get(self, key: &[u8]) -> Result<Value> {
        match self {
            Self::Ready(value) => Ok(value),
            Self::Fold(later) => {
                let LaterFold { engine, files, keyspace, operator, is_of_now, base, operands } =
                    *later;
                let base = base.map(|base| base.get(&engine, &files, keyspace, key)).transpose()?;
                let value = fold(operator.as_ref(), key, base, &operands)?;
                if is_of_now {
                    engine.note_chain(keyspace, key, operands.len(), value.len());
                }
                Ok(value)
            }
        }
    }
}

/// The value that a base and operands, oldest first, make together.
pub(super) fn fold(
    operator: Option<&SharedOperator>,
    key: &[u8],
    base: Option<Value>,
    operands: &[Value],
) -> Result<Value> {
    match base {
        Some(base) if operands.is_empty() => Ok(base),
        base => {
            let operator = operator.ok_or_else(|| missing_operator(key))?;
            let operands: Vec<&[u8]> = operands.iter().map(Value::as_bytes).collect();
            let base = base.as_ref().map(Value::as_bytes);
            full_merge(operator.as_ref(), key, base, &operands).map(Value::from)
        }
    }
}
