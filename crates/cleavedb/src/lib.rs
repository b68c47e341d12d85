//! CleaveDB: an embedded, ordered key-value engine for SSDs.

pub(crate) mod base;
pub(crate) mod db;
pub(crate) mod deltas;
pub(crate) mod engine;
pub(crate) mod index;
pub(crate) mod io;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod memory;
#[cfg(feature = "sim")]
pub mod sim;
pub(crate) mod table;
pub(crate) mod values;

pub use base::compress::Compression;
pub use base::error::{Error, ErrorKind, Result};
pub use base::limits::{
    BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_BYTES_MAX, KEYSPACE_NAME_BYTES_MAX,
    LARGE_VALUE_BYTES_MAX, VALUE_BYTES_MAX,
};
pub use base::merge_operator::{MergeOperator, operators};
pub use base::value::Value;
pub use db::*;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;
