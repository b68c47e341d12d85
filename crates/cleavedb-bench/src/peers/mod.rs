//! Other engines, to be measured beside CleaveDB with the same workloads. Built only with the
//! feature `peers`.
//!
//! RocksDB and LevelDB are shared libraries opened at run time: from the folder that
//! `CLEAVEDB_PEERS` names (`crates/cleavedb-bench/fetch-peers.sh` fills one), or where the system
//! keeps its libraries. Each engine says in its settings how it was opened. What an engine cannot
//! do is an error or stands in its settings; nothing is left out in silence.

mod fjall;
mod foreign;
mod lmdb;
mod redb;
mod shared;
mod surreal;

use crate::engines::Known;

pub use foreign::{LIBRARY_FOLDER, absent};

/// Every peer. Those whose library is absent fail to open; [`absent`] says so beforehand.
pub const ALL: &[Known] = &[
    Known { name: "rocksdb", open: foreign::open_rocksdb, direct: true },
    Known { name: "rocksdb-blob", open: foreign::open_rocksdb_blob, direct: true },
    Known { name: "rocksdb-merge", open: foreign::open_rocksdb_merge, direct: true },
    Known { name: "leveldb", open: foreign::open_leveldb, direct: false },
    Known { name: "fjall", open: fjall::open, direct: false },
    Known { name: "fjall-blob", open: fjall::open_separated, direct: false },
    Known { name: "lmdb", open: lmdb::open, direct: false },
    Known { name: "redb", open: redb::open, direct: false },
    Known { name: "surrealkv", open: surreal::open, direct: false },
    Known { name: "surrealkv-vlog", open: surreal::open_separated, direct: false },
];

#[cfg(test)]
mod tests;
