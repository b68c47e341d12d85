//! A user's operator that fails or panics, with operands in buckets: an error for the key that it
//! fails for, and nothing lost.

use std::sync::atomic::Ordering;

use super::appending::{self, Appending, FAILS, PANICS, WORKS};
use super::collection::assert_sound;
use super::deltas::buckets;
use super::novkv::try_open;
use super::*;
use crate::base::widths::Widths;
use crate::engine::deltas::fold::CHAIN_OPERANDS;
use crate::{Deltas, ErrorKind, IndexKind};

struct Bench {
    disk: MemoryDisk,
    operator: std::sync::Arc<Appending>,
    index: IndexKind,
}

impl Bench {
    fn open(&self) -> (Db, Keyspace) {
        let options = small().merge_operator(self.operator.clone());
        let widths = Widths { memtable_bytes: 64 << 20, ..buckets() };
        let db = try_open(world(&self.disk), options, widths).unwrap();
        let options = KeyspaceOptions::new().merge_operator(appending::NAME).index(self.index);
        let options = options.deltas(Deltas::Buckets).separate_at(Some(20));
        let keyspace = db.keyspace("moods", options).unwrap();
        (db, keyspace)
    }

    fn reopen(&self, (db, keyspace): (Db, Keyspace)) -> (Db, Keyspace) {
        drop(keyspace);
        db.close().unwrap();
        self.open()
    }

    fn is(&self, mood: u8) {
        self.operator.mood.store(mood, Ordering::Relaxed);
    }
}

const KEYS: [&str; 5] = ["a", "bad base", "bad none", "c", "d"];

/// One operand more for each key.
fn merge(keyspace: &Keyspace, texts: &mut [String; 5], round: u64) {
    for (key, text) in KEYS.iter().zip(texts) {
        let operand = format!("{round}-{}", "m".repeat(30));
        keyspace.merge(key, &operand).unwrap();
        text.push_str(&operand);
    }
}

fn assert_shows(keyspace: &Keyspace, texts: &[String; 5]) {
    let wanted: Vec<String> =
        KEYS.iter().zip(texts).map(|(k, text)| format!("{k}={text}")).collect();
    assert_eq!(pairs(keyspace.iter()), wanted);
    let got = keyspace.multi_get(KEYS).unwrap();
    for ((key, text), got) in KEYS.iter().zip(texts).zip(got) {
        assert_eq!(keyspace.get(key).unwrap().unwrap(), text.as_bytes(), "{key}");
        assert_eq!(got.unwrap(), text.as_bytes(), "{key}");
    }
}

/// The keys that it fails for show an error, the others what they have.
fn assert_fails_for_the_bad(keyspace: &Keyspace, texts: &[String; 5]) {
    for (key, text) in KEYS.iter().zip(texts) {
        let got = keyspace.get(key);
        if key.starts_with("bad") {
            let error = got.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::MergeFailed, "{error}");
            assert!(error.to_string().contains(key), "{error}");
            assert_eq!(keyspace.multi_get([key]).err().unwrap().kind(), ErrorKind::MergeFailed);
            assert!(keyspace.contains(key).unwrap(), "it is there");
        } else {
            assert_eq!(got.unwrap().unwrap(), text.as_bytes(), "{key}");
        }
    }
    let got = keyspace.multi_get(["a", "c", "d"]).unwrap();
    for (got, text) in got.iter().zip([&texts[0], &texts[3], &texts[4]]) {
        assert_eq!(got.as_ref().unwrap(), text.as_bytes());
    }
    let wanted = [format!("c={}", texts[3]), format!("d={}", texts[4])];
    assert_eq!(pairs(keyspace.range("c"..)), wanted);
    let mut scan = keyspace.iter();
    assert_eq!(scan.next().unwrap().unwrap().1, texts[0].as_bytes());
    let error = scan.next().unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MergeFailed);
}

fn endures(mood: u8, index: IndexKind) {
    let bench = Bench { disk: MemoryDisk::new(), operator: Default::default(), index };
    let mut texts = <[String; 5]>::default();
    let (mut db, mut keyspace) = bench.open();
    for number in [0, 1, 4] {
        texts[number] = format!("base {}", "b".repeat(40));
        keyspace.put(KEYS[number], &texts[number]).unwrap();
    }
    for round in 0..3 {
        merge(&keyspace, &mut texts, round);
        db.flush().unwrap();
    }
    assert_shows(&keyspace, &texts);
    bench.is(mood);
    assert_fails_for_the_bad(&keyspace, &texts);
    let snapshot = (db.snapshot(), texts.clone());
    // Through flushes, collections that find buckets full, folds, compactions, and reopening.
    for round in 3..60 {
        merge(&keyspace, &mut texts, round);
        if round % 2 == 0 {
            db.flush().unwrap();
        }
        if round % 16 == 0 {
            db.wait_idle().unwrap();
            db.compact().unwrap();
        }
    }
    db.wait_idle().unwrap();
    assert_fails_for_the_bad(&keyspace, &texts);
    let (at, seen) = snapshot;
    assert_eq!(at.get(&keyspace, "a").unwrap().unwrap(), seen[0].as_bytes());
    assert_eq!(at.get(&keyspace, "bad none").err().unwrap().kind(), ErrorKind::MergeFailed);
    bench.is(WORKS);
    for (key, text) in KEYS.iter().zip(&seen) {
        assert_eq!(at.get(&keyspace, key).unwrap().unwrap(), text.as_bytes(), "{key}");
    }
    bench.is(mood);
    drop(at);
    (db, keyspace) = bench.reopen((db, keyspace));
    db.wait_idle().unwrap();
    assert_fails_for_the_bad(&keyspace, &texts);
    // A put needs no operator, and hides what failed.
    keyspace.put(KEYS[1], "p").unwrap();
    texts[1] = "p".to_owned();
    db.flush().unwrap();
    assert_eq!(keyspace.get(KEYS[1]).unwrap().unwrap(), b"p");
    merge(&keyspace, &mut texts, 60);
    db.flush().unwrap();
    assert_fails_for_the_bad(&keyspace, &texts);
    bench.is(WORKS);
    assert_shows(&keyspace, &texts);
    db.compact().unwrap();
    assert_shows(&keyspace, &texts);
    assert_sound(&db);
    (db, keyspace) = bench.reopen((db, keyspace));
    assert_shows(&keyspace, &texts);
    assert_sound(&db);
}

#[test]
fn an_operator_that_fails_loses_nothing_and_harms_no_other_key() {
    for index in [IndexKind::Lsm, IndexKind::Flex, IndexKind::Naive] {
        endures(FAILS, index);
    }
}

#[test]
fn an_operator_that_panics_loses_nothing_and_harms_no_other_key() {
    for index in [IndexKind::Lsm, IndexKind::Flex, IndexKind::Naive] {
        endures(PANICS, index);
    }
}

#[test]
fn a_fold_that_an_operator_fails_stops_nothing() {
    for mood in [FAILS, PANICS] {
        let (disk, operator) = (MemoryDisk::new(), std::sync::Arc::<Appending>::default());
        let bench = Bench { disk, operator, index: IndexKind::Lsm };
        let (db, keyspace) = bench.open();
        (0..CHAIN_OPERANDS).for_each(|_| keyspace.merge("bad", "m").unwrap());
        // A read that asks for a fold, and an operator that is off when it comes to that.
        let value = keyspace.get("bad").unwrap().unwrap();
        assert!(keyspace.handle.engine.deltas.is_fold_due());
        bench.is(mood);
        db.wait_idle().unwrap();
        assert!(!keyspace.handle.engine.deltas.is_fold_due(), "nobody tries for ever");
        assert_eq!(super::delta_folds::operands_of(&keyspace, "bad"), CHAIN_OPERANDS);
        keyspace.put("other", "written").unwrap();
        db.flush().unwrap();
        bench.is(WORKS);
        assert_eq!(keyspace.get("bad").unwrap().unwrap(), value);
        assert_eq!(keyspace.get("other").unwrap().unwrap(), b"written");
        assert_sound(&db);
    }
}
