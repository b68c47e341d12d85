//! The public face: thin handles over the engine.

mod batch;
mod cursor;
mod database;
pub mod dump;
pub(crate) mod handle;
mod iterator;
mod keyspace;
mod options;
mod snapshot;
mod stats;
mod stream;

#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;

pub use crate::engine::settings::{Deltas, Durability, IndexKind};
pub use crate::values::strategy::kind::StrategyKind;
pub use batch::Batch;
pub use cursor::Cursor;
pub use database::Db;
pub use iterator::{Guard, GuardsIter, KeysIter, RangeIter};
pub use keyspace::{Keyspace, KeyspaceInfo};
pub use options::{KeyspaceOptions, Options};
pub use snapshot::Snapshot;
pub use stats::{
    CacheStats, CollectionStats, DeltaStats, EventCounts, Histogram, KeyspaceStats, LevelStats,
    LocatorStats, MapStats, Problem, Reclaimed, StallStats, Stats, ValueStats, VerifyReport,
};
pub use stream::ValueStream;
