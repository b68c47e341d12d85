//! Background work on real threads and a real directory: facts that the statistics count, met by
//! loading on until they are seen. Nothing here depends on how long anything takes.

use super::*;
use crate::base::widths::Widths;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::context::native_io;
use crate::{Durability, Stats};

/// Writes until then; on any machine the facts come within a small part of it.
const WRITES_MAX: u64 = 3_000_000;
/// Writes between two looks at the statistics.
const WRITES_A_LOOK: u64 = 2_000;
const KEYS: u64 = 40_000;

/// A database with so small memtables, tables and levels that it compacts all the time.
fn compacting(path: &std::path::Path, subcompaction_bytes_min: u64) -> Db {
    let widths = Widths {
        memtable_bytes: 64 << 10,
        table_bytes: 32 << 10,
        level0_runs_trigger: 2,
        level_base_bytes_min: 128 << 10,
        level_ratio: 4,
        subcompaction_bytes_min,
        ..Widths::for_budget(16 << 20)
    };
    let options = Options::new().memory_budget(16 << 20).reserve_bytes(0);
    let io = native_io(4, 0).unwrap();
    let engine = Engine::open(io, path, options.into_settings(), widths).unwrap();
    Db::new(Handle::new(engine, Durability::Buffered))
}

/// Loads until the statistics show what is wanted; then checks the contents.
fn load_until(db: &Db, seen: impl Fn(&Stats) -> bool) -> Stats {
    let ks = plain(db);
    let mut written = 0;
    loop {
        for _ in 0..WRITES_A_LOOK {
            // All keys are met, in an order that spreads each memtable over all of them.
            let key = written * 7_919 % KEYS;
            ks.put(key.to_be_bytes(), [written.to_be_bytes(); 12].concat()).unwrap();
            written += 1;
        }
        let stats = db.stats();
        if seen(&stats) || written >= WRITES_MAX {
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_eq!(ks.iter().count() as u64, written.min(KEYS));
            let problems = db.verify(&mut |_, _| {}).unwrap().problems;
            assert!(problems.is_empty(), "{problems:?}");
            return stats;
        }
    }
}

#[test]
fn compactions_run_beside_each_other() {
    let (_guard, path) = scratch();
    let db = compacting(&path, u64::MAX);
    let stats = load_until(&db, |stats| stats.events.concurrent_compactions_max >= 2);
    assert!(stats.events.concurrent_compactions_max >= 2, "{:?}", stats.events);
    assert_eq!(stats.events.parallel_parts, 0, "none was large enough to be split");
}

#[test]
fn large_compactions_run_in_parts() {
    let (_guard, path) = scratch();
    let db = compacting(&path, 64 << 10);
    let stats = load_until(&db, |stats| stats.events.parallel_parts >= 2);
    assert!(stats.events.parallel_parts >= 2, "{:?}", stats.events);
}
