//! Stores whose files were rewritten, opened again: epochs and facts outlive it, and so does the
//! strategy.

use std::path::Path;

use super::collection::{Model, apart, assert_shows, assert_sound, key, put, reclaim, widths};
use super::forged::forged;
use super::novkv::{
    amplification, assert_goes_by_facts, assert_no_stray, containers, engine_of, files_of, open,
    options, try_open,
};
use super::*;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::atomic::Ordering;
use crate::base::widths::Widths;
use crate::io::memory_disk::CrashMode;
use crate::{ErrorKind, StrategyKind};

/// Widths with which every edit rolls the manifest, or hardly one does.
fn rolling(is_often: bool) -> Widths {
    Widths { manifest_bytes_max: if is_often { 1 } else { 4 << 20 }, ..widths() }
}

/// Options with which nothing is collected that is not dead for the most part.
fn lazy() -> Options {
    options().space_amplification_max(1000.0)
}

/// A store with containers of several epochs.
fn rewritten(db: &Db) -> Model {
    let keyspace = apart(db);
    let mut model = Model::new();
    for round in 0..10 {
        for number in (0..120).filter(|number| round == 0 || number % 10 == round) {
            put(&keyspace, &mut model, number, round);
        }
        reclaim(db);
    }
    let (count, epoch) = containers(db);
    assert!(count > 2 && epoch > 1, "{count} {epoch}");
    model
}

/// What the file table says.
fn table(db: &Db) -> Vec<crate::values::edit::ValuesEdit> {
    let edits = engine_of(db).view.load().values.edits();
    let is_moved = |edit: &crate::values::edit::ValuesEdit| {
        use crate::values::edit::ValuesEdit as E;
        matches!(edit, E::Held(_) | E::Counted { .. })
    };
    edits.into_iter().filter(is_moved).collect()
}

#[test]
fn epochs_and_counts_outlive_reopening() {
    for is_often in [false, true] {
        let disk = MemoryDisk::new();
        let db = try_open(world(&disk), options(), rolling(is_often)).unwrap();
        let mut model = rewritten(&db);
        db.flush().unwrap();
        let before = table(&db);
        drop(db);
        for _ in 0..2 {
            let db = try_open(world(&disk), options(), rolling(is_often)).unwrap();
            assert_eq!(table(&db), before);
            assert_shows(&apart(&db), &model);
            assert_sound(&db);
            db.close().unwrap();
        }
        let db = try_open(world(&disk), options(), rolling(is_often)).unwrap();
        let keyspace = apart(&db);
        (0..120).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 9));
        db.wait_idle().unwrap();
        reclaim(&db);
        assert_shows(&keyspace, &model);
        assert_sound(&db);
        assert_no_stray(&db, &disk);
        assert_goes_by_facts(&db);
        assert!(amplification(&db, &model) < 2.0, "{}", amplification(&db, &model));
    }
}

#[test]
fn facts_that_were_not_used_yet_are_used_after_reopening() {
    for (is_often, is_crashed) in [(false, false), (true, false), (false, true), (true, true)] {
        let disk = MemoryDisk::new();
        let db = try_open(world(&disk), lazy(), rolling(is_often)).unwrap();
        let keyspace = apart(&db);
        let mut model = Model::new();
        (0..200).for_each(|number| put(&keyspace, &mut model, number, 0));
        db.flush().unwrap();
        // Some of them hidden in the memtable, too.
        (0..200).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 1));
        (0..200).filter(|n| n % 4 == 0).for_each(|n| put(&keyspace, &mut model, n, 2));
        keyspace.compact().unwrap();
        db.sync().unwrap();
        let facts = engine_of(&db).facts.load().count();
        assert!(facts >= 100, "{facts}");
        let full = db.stats().values.file_bytes;
        drop(keyspace);
        let image = disk.crash_image(CrashMode::None, 0);
        db.close().unwrap();
        let disk = if is_crashed { image } else { disk };

        let db = try_open(world(&disk), lazy(), rolling(is_often)).unwrap();
        assert_eq!(engine_of(&db).facts.load().count(), facts);
        db.close().unwrap();
        let db = try_open(world(&disk), options(), rolling(is_often)).unwrap();
        assert_eq!(engine_of(&db).facts.load().count(), facts);
        db.wait_idle().unwrap();
        let engine = engine_of(&db);
        let collection = db.stats().collection;
        assert!(collection.records_dead >= 100, "{collection:?}");
        assert_eq!(engine.metrics.collection.facts.load(Ordering::Relaxed), 0, "no new ones");
        assert!(engine.facts.load().count() < facts / 2, "those that were used are gone");
        let rest = db.stats().values.file_bytes;
        assert!(rest * 10 < full * 8, "{rest} of {full}");
        assert_shows(&apart(&db), &model);
        assert_sound(&db);
        assert_goes_by_facts(&db);
    }
}

#[test]
fn a_reader_reads_containers_and_collects_nothing() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let model = rewritten(&db);
    db.close().unwrap();
    let before = disk.digest();
    let reader = try_open(world(&disk), options().read_only(true), widths()).unwrap();
    assert_shows(&apart(&reader), &model);
    assert_sound(&reader);
    drop(reader);
    assert_eq!(disk.digest(), before);
}

#[test]
fn a_checkpoint_holds_containers_and_facts() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let mut model = rewritten(&db);
    let keyspace = apart(&db);
    // Facts that wait, and values in memtables only.
    (0..30).for_each(|number| put(&keyspace, &mut model, number, 20));
    db.flush().unwrap();
    (30..40).for_each(|number| put(&keyspace, &mut model, number, 20));
    db.checkpoint("/copy").unwrap();
    let copied = model.clone();
    for round in 21..25 {
        (0..120).filter(|n| n % 3 > 0).for_each(|n| put(&keyspace, &mut model, n, round));
        db.wait_idle().unwrap();
    }
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    assert_no_stray(&db, &disk);
    assert_goes_by_facts(&db);
    drop(keyspace);
    db.close().unwrap();
    let copy = || small().open_in(world(&disk), Path::new("/copy")).unwrap();
    let db = copy();
    assert_shows(&apart(&db), &copied);
    assert_sound(&db);
    let keyspace = apart(&db);
    let mut model = copied;
    (0..120).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 30));
    reclaim(&db);
    assert_shows(&keyspace, &model);
    assert_sound(&db);
    drop(keyspace);
    db.close().unwrap();
    assert_shows(&apart(&copy()), &model);
    // Neither holds anything of the other's.
    let db = open(&disk);
    assert_sound(&db);
}

#[test]
fn destroying_a_store_removes_its_containers() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    rewritten(&db);
    db.close().unwrap();
    assert!(!files_of(&disk, "vtb").is_empty());
    crate::engine::destroy::destroy(&world(&disk), Path::new("/db")).unwrap();
    assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/db")), "{:?}", disk.files());
}

#[test]
fn the_strategy_is_that_of_the_creation() {
    for (is, other) in
        [(StrategyKind::Novkv, StrategyKind::Wisckey), (StrategyKind::Wisckey, StrategyKind::Novkv)]
    {
        let disk = MemoryDisk::new();
        let open = |options: Options| try_open(world(&disk), options, rolling(true));
        open(small().strategy(is)).unwrap().close().unwrap();
        let error = open(small().strategy(other)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let message = error.to_string();
        assert!(message.contains(is.name()) && message.contains(other.name()), "{message}");
        for asked in [None, Some(is)] {
            let options = asked.map_or_else(small, |kind| small().strategy(kind));
            let db = open(options).unwrap();
            assert_eq!(engine_of(&db).strategy_kind, is);
            apart(&db).put("k", "a value that is separated").unwrap();
            db.close().unwrap();
        }
    }
}

#[test]
fn a_store_of_a_later_strategy_is_refused_by_name() {
    for (payload, what) in [(vec![1, 9], "strategy 9"), (vec![2, 1], "version 2")] {
        let disk = MemoryDisk::new();
        open(&disk).close().unwrap();
        forged(&disk, |sections| {
            sections.retain(|section| section.tag != SectionTag::STORE);
            sections.push(Section { tag: SectionTag::STORE, payload: payload.clone() });
        });
        for is_reader in [false, true] {
            let options = options().read_only(is_reader);
            let error = try_open(world(&disk), options, widths()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}

/// A key that was written last is found wherever it is, and however often the store was opened.
#[test]
fn rewriting_goes_on_over_many_openings() {
    let disk = MemoryDisk::new();
    let mut model = Model::new();
    for round in 0..8 {
        let db = try_open(world(&disk), options(), rolling(round % 2 == 0)).unwrap();
        let keyspace = apart(&db);
        for number in
            (0..150).filter(|number| round == 0 || (number / 3 * 7 + number * round) % 5 < 2)
        {
            put(&keyspace, &mut model, number, round);
        }
        if round % 3 > 0 {
            db.wait_idle().unwrap();
        }
        assert_eq!(keyspace.get(key(149)).unwrap().unwrap(), model[&key(149)].as_bytes());
        drop(keyspace);
        db.close().unwrap();
    }
    let db = open(&disk);
    db.wait_idle().unwrap();
    assert_shows(&apart(&db), &model);
    assert_sound(&db);
    assert_no_stray(&db, &disk);
    assert!(containers(&db).1 > 0);
    assert_goes_by_facts(&db);
}
