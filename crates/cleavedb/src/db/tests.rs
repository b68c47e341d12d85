//! The public face end to end, on a real directory.

mod admin;
mod appending;
mod background;
mod basics;
mod checkpoints;
mod collection;
mod concurrency;
mod delta_dropped;
mod delta_flush;
mod delta_folds;
mod delta_long;
mod delta_memory;
mod delta_operators;
mod delta_reads;
mod delta_together;
mod deltas;
mod facts;
mod flex_beside_lsm;
mod flex_branches;
mod flex_defects;
mod flex_defects_waits;
mod flex_time;
mod forged;
mod holes;
mod journal;
mod large;
mod large_on_disk;
mod large_space;
mod late_disk;
mod locks;
mod novkv;
mod novkv_damage;
mod novkv_faults;
mod novkv_reopen;
mod relocation;
mod reopen;
mod reserve;
mod scans;
mod space;
mod unified;
mod value_gets;
mod values;
mod wayfinder;
mod wayfinder_defects;

use tempfile::TempDir;

use crate::base::sync::Arc;
use crate::base::widths::Widths;
use crate::io::Io;
use crate::io::memory_disk::MemoryDisk;
use crate::{Db, Keyspace, KeyspaceOptions, Options};

/// A fresh directory and a path in it for a database.
fn scratch() -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    (dir, path)
}

/// A world in memory: its disk, and what a database needs to run there.
fn world(disk: &MemoryDisk) -> Io {
    Io::simulated(Arc::new(disk.clone()))
}

/// Small enough that a few thousand writes flush and compact.
fn small() -> Options {
    Options::new().memory_budget(1 << 20).reserve_bytes(0)
}

/// Structures so small that some rounds make many of each.
fn tiny() -> Widths {
    Widths {
        memtable_bytes: 8 << 10,
        journal_segment_bytes: 4 << 10,
        block_bytes: 256,
        table_bytes: 4 << 10,
        ..Widths::for_budget(1 << 20)
    }
}

fn plain(db: &Db) -> Keyspace {
    db.keyspace("plain", KeyspaceOptions::new()).unwrap()
}

fn counters(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().merge_operator(crate::operators::U64_ADD);
    db.keyspace("counters", options).unwrap()
}

fn pairs(iter: impl Iterator<Item = crate::Result<(crate::Value, crate::Value)>>) -> Vec<String> {
    iter.map(|item| {
        let (key, value) = item.unwrap();
        format!("{}={}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value))
    })
    .collect()
}
