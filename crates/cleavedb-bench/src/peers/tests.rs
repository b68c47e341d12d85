//! Every peer passes the self-test, in each form it can be opened in.
//!
//! A peer whose library is absent fails its test, so that nobody takes it for tested;
//! `CLEAVEDB_PEERS_ABSENT=allow` lets it be absent, which it then says on the terminal.

use std::io::Write as _;

use super::*;
use crate::engine::Settings;
use crate::engines;
use crate::phase::Phase;
use crate::runner::{Plan, Silent, run};
use crate::selftest::{SelfTest, check};
use crate::tuning::Tuning;

fn passes(name: &str) {
    let known = engines::find(name).unwrap();
    if let Some(why) = absent(name) {
        // Straight to the terminal: what tests print is hidden when they pass.
        let line = format!("\nABSENT, not tested: {name}: {why}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        let allowed = std::env::var("CLEAVEDB_PEERS_ABSENT").is_ok_and(|value| value == "allow");
        assert!(allowed, "{name} is absent: {why}");
        return;
    }
    for (sync, direct) in [(false, false), (true, false), (false, true)] {
        if direct && !known.direct {
            let dir = tempfile::tempdir().unwrap();
            let settings = Settings { direct, ..Settings::default() };
            assert!((known.open)(&dir.path().join("db"), &settings).is_err(), "{name}");
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { sync, direct, memory_budget: 32 << 20, ..Settings::default() };
        let calls = if sync { 300 } else { 1_500 };
        let test = SelfTest { rounds: 3, calls, ..SelfTest::default() };
        let passed = check(known.open, &dir.path().join("db"), &settings, &test)
            .unwrap_or_else(|error| panic!("{name}, sync {sync}, direct {direct}: {error:#}"));
        assert_eq!((passed.calls, passed.reopened), (3 * calls, 3), "{name}");
        assert!(!passed.engine.is_empty() && passed.pairs > 50, "{passed:?}");
    }
    deletes_a_range_and_compacts(name);
}

fn deletes_a_range_and_compacts(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let phases = vec![
        Phase::FillRandom,
        Phase::DeleteRange,
        Phase::ReadRandom,
        Phase::FillSeq,
        Phase::Compact,
        Phase::ReadRandom,
    ];
    let settings = Settings { memory_budget: 32 << 20, ..Settings::default() };
    // More than one batch, where a range is deleted key by key.
    let plan = Plan { engine: name.to_owned(), phases, num: 2_500, settings, ..Plan::default() };
    let report = run(&plan, &dir.path().join("db"), &mut Silent).unwrap();
    let found = report.phases.iter().map(|phase| (phase.operations, phase.found));
    let expected = [(2_500, 0), (1, 0), (2_500, 0), (2_500, 0), (1, 0), (2_500, 2_500)];
    assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
}

macro_rules! each {
    ($($test:ident = $name:literal;)*) => {
        $(#[test] fn $test() { passes($name); })*

        #[test]
        fn every_peer_has_its_test() {
            let tested = [$($name),*];
            let known: Vec<_> = ALL.iter().map(|known| known.name).collect();
            assert_eq!(known, tested);
        }
    };
}

each! {
    rocksdb = "rocksdb";
    rocksdb_with_blob_files = "rocksdb-blob";
    rocksdb_with_a_merge_operator = "rocksdb-merge";
    leveldb = "leveldb";
    fjall_plain = "fjall";
    fjall_with_separated_values = "fjall-blob";
    lmdb_plain = "lmdb";
    redb_plain = "redb";
    surrealkv = "surrealkv";
    surrealkv_with_a_value_log = "surrealkv-vlog";
}

/// Merged parts give the values that a map with parts put gives, also after a flush and reopening.
#[test]
fn parts_are_merged_right() {
    for name in ["cleavedb", "rocksdb", "rocksdb-blob", "rocksdb-merge", "leveldb", "fjall"] {
        if absent(name).is_some() {
            continue; // The self-tests say so.
        }
        let dir = tempfile::tempdir().unwrap();
        let tuning = Tuning { merges_parts: true, ..Tuning::default() };
        let settings = Settings { memory_budget: 32 << 20, tuning, ..Settings::default() };
        let mut wanted: Vec<u8> = (0..2_000).map(|byte| byte as u8).collect();
        for round in 0..3u8 {
            let engine = engines::open(name, &dir.path().join("db"), &settings).unwrap();
            if round == 0 {
                engine.put(b"key", &wanted).unwrap();
                engine.flush().unwrap();
            }
            for place in [0, 100, 1_990, 50] {
                engine.merge_part(b"key", place, &[round; 10]).unwrap();
                crate::engine::overwrite(&mut wanted, place, &[round; 10]);
            }
            let mut got = Vec::new();
            assert!(engine.get(b"key", &mut |value| got = value.to_vec()).unwrap());
            assert_eq!(got, wanted, "{name}");
            engine.flush().unwrap();
            engine.settle().unwrap();
            assert!(engine.get(b"key", &mut |value| got = value.to_vec()).unwrap());
            assert_eq!(got, wanted, "{name}, flushed");
        }
    }
}

/// Where gets end, how long values stored apart take, and which entries are operands.
#[test]
fn rocksdb_tells_of_its_reads_when_it_is_asked_to() {
    for name in ["rocksdb", "rocksdb-blob"] {
        if absent(name).is_some() {
            continue; // The self-tests say so.
        }
        for statistics in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let tuning = Tuning { merges_parts: true, statistics, ..Tuning::default() };
            let settings = Settings { memory_budget: 32 << 20, tuning, ..Settings::default() };
            let engine = engines::open(name, &dir.path().join("db"), &settings).unwrap();
            for key in 0..100u8 {
                engine.put(&[key], &[key; 2_000]).unwrap();
            }
            engine.flush().unwrap();
            for key in 0..40u8 {
                engine.merge_part(&[key], 5, b"part").unwrap();
            }
            engine.flush().unwrap();
            engine.settle().unwrap();
            for key in 0..100u8 {
                assert!(engine.get(&[key], &mut |_| ()).unwrap());
            }
            let stats = engine.stats();
            if !statistics {
                assert!(stats.read_counters.is_empty() && stats.detail.is_null());
                continue;
            }
            let counters = stats.read_counters;
            assert_eq!((counters["gets"], counters["operands applied"]), (100, 40), "{name}");
            assert_eq!(counters["gets ended in level 0"], 100, "{counters:?}");
            assert_eq!(counters["blob file reads"] > 0, name == "rocksdb-blob", "{counters:?}");
            assert!(counters["file reads in level 0"] > 0, "{counters:?}");
            assert_eq!(stats.detail["tables"][0]["entries"], 140);
            assert_eq!(stats.detail["tables"][0]["operands"], 40);
        }
    }
}
