//! What the engine is told at open: plain data and components, as the public options hand it down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::compress::Compression;
use crate::base::merge_operator::{SharedOperator, operators};
use crate::values::strategy::kind::StrategyKind;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Durability {
    /// The bytes are in the kernel: survives a kill of the process, not a loss of power. The
    /// background sync makes them durable within the sync interval.
    #[default]
    Buffered,
    /// The bytes are on the device: survives a loss of power.
    Sync,
}

/// The structure that keeps a keyspace's entries in order. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum IndexKind {
    /// Leveled LSM-tree.
    #[default]
    Lsm = 1,
    /// One sorted run, rewritten at each flush: the oracle of tests, slow by design.
    Naive = 2,
    /// Entries in order in a flexible address space, changed in place.
    Flex = 3,
}

/// Where a keyspace keeps its merge operands. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Deltas {
    /// In the index, between the entries of other kinds.
    #[default]
    Inline = 1,
    /// In buckets of key ranges beside the index.
    Buckets = 2,
}

/// What is recorded of a keyspace when it is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyspaceSettings {
    /// Its index.
    pub(crate) index: IndexKind,
    /// Name of its merge operator.
    pub(crate) merge_operator: Option<String>,
    /// Compression by level, the last entry for all below; never empty.
    pub(crate) compression: Vec<Compression>,
    /// Bytes from which on a value is kept in a value file; `None`: never.
    pub(crate) separate_at: Option<u32>,
    /// Compression of values in value files.
    pub(crate) value_compression: Compression,
    /// Where its merge operands are; `None` where nothing was asked for: what is recorded always
    /// says.
    pub(crate) deltas: Option<Deltas>,
}

/// Behaviour of an open database.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Create where there is none.
    pub(crate) create_if_missing: bool,
    /// Refuse where there is one.
    pub(crate) error_if_exists: bool,
    /// Write nothing.
    pub(crate) read_only: bool,
    /// Longest wait of a buffered write for its sync; zero for no background sync.
    pub(crate) sync_interval: Duration,
    /// Longest wait of a writer for room.
    pub(crate) write_timeout: Option<Duration>,
    /// Bytes for everything.
    pub(crate) memory_budget: u64,
    /// `O_DIRECT` for reads of tables.
    pub(crate) direct_reads: bool,
    /// `O_DIRECT` for flush and compaction.
    pub(crate) direct_writes: bool,
    /// Table files open at once.
    pub(crate) open_files_max: usize,
    /// Bytes given up when the disk is full.
    pub(crate) reserve_bytes: u64,
    /// How separated values are to be kept; `None`: as they are, or the default at creation.
    pub(crate) strategy: Option<StrategyKind>,
    /// Bytes of value files by bytes of live records, at most.
    pub(crate) space_amplification_max: f64,
    /// The user's merge operators; the built-in ones need no registration.
    pub(crate) operators: Vec<SharedOperator>,
}

impl Settings {
    /// The operator registered under `name`: the user's own before the built-in ones.
    pub(crate) fn operator(&self, name: &str) -> Option<SharedOperator> {
        let own = self.operators.iter().rev().find(|operator| operator.name() == name);
        own.cloned().or_else(|| operators::by_name(name))
    }
}
