//! Value tables that are damaged: reads say which file it is, collection leaves that one alone, and
//! the others are read and collected none the less.

use std::path::{Path, PathBuf};

use super::collection::{Model, apart, key, put, value, widths};
use super::novkv::{containers, engine_of, files_of, options, try_open};
use super::*;
use crate::io::Purpose;
use crate::io::memory_disk::CrashMode;
use crate::{Error, ErrorKind};

fn try_open_here(disk: &MemoryDisk) -> crate::Result<Db> {
    try_open(world(disk), options(), widths())
}

fn open(disk: &MemoryDisk) -> Db {
    try_open_here(disk).unwrap()
}

/// A closed store of several containers; `tag` makes its values others of the same lengths.
fn store(disk: &MemoryDisk, tag: u32) -> Model {
    let db = open(disk);
    let keyspace = apart(&db);
    let mut model = Model::new();
    for round in 0..4 {
        for number in (0..200).filter(|number| round == 0 || number % 4 != round) {
            put(&keyspace, &mut model, number, tag + round);
        }
        db.wait_idle().unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(containers(&db).0 > 4, "{:?}", containers(&db));
    drop(keyspace);
    db.close().unwrap();
    model
}

/// The container that most values are in: damage to it is met.
fn most_read(disk: &MemoryDisk) -> PathBuf {
    let db = open(disk);
    let view = engine_of(&db).view.load_full();
    let refs = |id| view.values.refs_in(id).0;
    let most = view.values.containers().max_by_key(|entry| refs(entry.container.id())).unwrap();
    assert!(refs(most.container.id()) > 5);
    most.container.file().path().to_owned()
}

/// Each way to read gives what the model says, or an error that names the file; how many keys fail.
fn failing(db: &Db, model: &Model, file: &Path) -> usize {
    let keyspace = apart(db);
    let is_right = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error:?}");
        assert_eq!(error.file(), Some(file), "{error:?}");
    };
    let mut failed = Vec::new();
    for (key, value) in model {
        match keyspace.get(key) {
            Ok(found) => assert_eq!(found.unwrap(), value.as_bytes(), "{key}"),
            Err(error) => {
                is_right(&error);
                failed.push(key.clone());
            }
        }
        assert!(keyspace.contains(key).unwrap(), "no value is read for that");
    }
    // What is right is in the cache by now, what is wrong is not.
    let one_by_one = model.keys().map(|key| (key, keyspace.multi_get([key])));
    for (key, outcome) in one_by_one {
        assert_eq!(outcome.is_err(), failed.contains(key), "{key}");
        if let Err(error) = outcome {
            is_right(&error);
        }
    }
    let together = keyspace.multi_get(model.keys());
    assert_eq!(together.is_err(), !failed.is_empty());
    if let Err(error) = together {
        is_right(&error);
    }
    for is_backward in [false, true] {
        let mut all: Vec<_> = model.iter().collect();
        let items: Vec<_> = match is_backward {
            true => {
                all.reverse();
                keyspace.iter().rev().take(1000).collect()
            }
            false => keyspace.iter().take(1000).collect(),
        };
        let first = all.iter().position(|(key, _)| failed.contains(key)).unwrap_or(all.len());
        for ((key, value), item) in all.iter().zip(&items).take(first) {
            let (k, v) = item.as_ref().unwrap();
            assert!(**k == *key.as_bytes() && **v == *value.as_bytes(), "{key}");
        }
        match items.get(first) {
            Some(item) => is_right(item.as_ref().unwrap_err()),
            None => assert!(failed.is_empty()),
        }
    }
    failed.len()
}

fn problems(db: &Db) -> Vec<crate::Problem> {
    db.verify(&mut |_, _| {}).unwrap().problems
}

/// The bytes as they are after some damage.
fn damages(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let flipped = |at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x10;
        bytes
    };
    let (middle, end) = (bytes.len() / 2, bytes.len());
    vec![
        ("the first record", flipped(150)),
        ("the middle", flipped(middle)),
        ("the header", flipped(9)),
        ("the trailer", flipped(end - 9)),
        ("the index", flipped(end - 150)),
        ("the end is gone", bytes[..end - 1].to_vec()),
        ("half is gone", bytes[..middle].to_vec()),
        ("all is gone", Vec::new()),
        ("something behind it", [bytes, b"more"].concat()),
        ("zeros", vec![0; end]),
    ]
}

#[test]
fn damage_is_an_error_that_names_the_file() {
    let disk = MemoryDisk::new();
    let model = store(&disk, 0);
    let path = most_read(&disk);
    let good = disk.contents(&path);
    for (what, bytes) in damages(&good) {
        println!("{what}");
        disk.replace(&path, bytes).unwrap();
        let db = open(&disk);
        let failed = failing(&db, &model, &path);
        if what != "something behind it" {
            assert!(failed > 0, "{what}: nothing fails");
        }
        let problems = problems(&db);
        assert!(problems.iter().any(|problem| problem.file.as_deref() == Some(&*path)), "{what}");
        assert!(problems.iter().all(|problem| problem.file.as_deref() == Some(&*path)), "{what}");
        drop(db);
        disk.replace(&path, good.clone()).unwrap();
    }
    let db = open(&disk);
    assert_eq!(failing(&db, &model, &path), 0);
    assert!(problems(&db).is_empty());
}

#[test]
fn a_missing_container_is_noticed() {
    let disk = MemoryDisk::new();
    let model = store(&disk, 0);
    let path = most_read(&disk);
    let db = open(&disk);
    disk.remove(&path).unwrap();
    assert!(failing(&db, &model, &path) > 5);
    assert!(problems(&db).iter().any(|problem| problem.file.as_deref() == Some(&*path)));
    drop(db);
    let error = try_open_here(&disk).err().unwrap();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)), "{error:?}");
}

/// Both come from one store, so that checksums are of one identity.
#[test]
fn a_container_of_another_branch_is_not_taken_for_the_own_one() {
    let trunk = MemoryDisk::new();
    open(&trunk).close().unwrap();
    let (own, other) = (trunk.deep_clone(), trunk.deep_clone());
    let model = store(&own, 100);
    store(&other, 500);
    let mut exchanged = 0;
    for path in files_of(&own, "vtb") {
        let (mine, theirs) = (own.contents(&path), other.contents(&path));
        if mine.len() != theirs.len() || mine == theirs {
            continue;
        }
        exchanged += 1;
        let mixed = own.crash_image(CrashMode::All, 0);
        mixed.replace(&path, theirs).unwrap();
        let db = open(&mixed);
        assert!(failing(&db, &model, &path) > 0);
        assert!(problems(&db).iter().any(|problem| problem.file.as_deref() == Some(&*path)));
    }
    assert!(exchanged > 3, "{exchanged}");
}

/// The damaged one of several that are rewritten together is the one that is left alone.
#[test]
fn a_damaged_container_is_left_alone_and_the_rest_is_collected() {
    let disk = MemoryDisk::new();
    let mut model = store(&disk, 0);
    let all = files_of(&disk, "vtb");
    let db = open(&disk);
    let newest = engine_of(&db).view.load().values.containers().count() - 1;
    drop(db);
    for at in [0, newest / 2, newest] {
        let image = disk.deep_clone();
        let path = &all[at];
        let mut bytes = image.contents(path);
        let middle = bytes.len() / 3;
        bytes[middle] ^= 1;
        image.replace(path, bytes).unwrap();
        let db = open(&image);
        let keyspace = apart(&db);
        let mut model = model.clone();
        (0..200).filter(|n| n % 3 > 0).for_each(|n| put(&keyspace, &mut model, n, 50));
        db.wait_idle().unwrap();
        let error = db.reclaim(None, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.file(), Some(path.as_path()), "{error:?}");
        let refused = engine_of(&db).gc.refused_files();
        assert_eq!(refused.len(), 1, "{refused:?}: only the damaged one");
        let collection = db.stats().collection;
        assert!(collection.files_refused >= 1 && collection.files_removed > 3, "{collection:?}");
        let view = engine_of(&db).view.load_full();
        for entry in view.values.containers() {
            let is_hurt = entry.container.file().path() == path;
            let opened = entry.container.table(Purpose::Read);
            assert!(opened.is_ok());
            let (refs, records) =
                (view.values.refs_in(entry.container.id()).0, entry.totals.records);
            assert!(is_hurt || refs * 10 >= records * 9, "{refs} of {records} in another one");
        }
        drop(view);
        failing(&db, &model, path);
        keyspace.put("more", "writes go on as before").unwrap();
        db.wait_idle().unwrap();
    }
    model.clear();
}

#[test]
fn a_damaged_segment_is_left_alone_and_the_rest_is_collected() {
    let disk = MemoryDisk::new();
    let db = try_open(world(&disk), options().space_amplification_max(1000.0), widths()).unwrap();
    let keyspace = apart(&db);
    let mut model = Model::new();
    (0..200).for_each(|number| put(&keyspace, &mut model, number, 0));
    (0..200).filter(|n| n % 2 == 0).for_each(|n| put(&keyspace, &mut model, n, 1));
    keyspace.compact().unwrap();
    drop(keyspace);
    db.close().unwrap();
    let segments = files_of(&disk, "val");
    for path in segments.iter().take(9).step_by(2) {
        let image = disk.deep_clone();
        let mut bytes = image.contents(path);
        let text = value(1, 0);
        let at = bytes.windows(6).rposition(|window| window == &text.as_bytes()[..6]).unwrap();
        bytes[at] ^= 1;
        image.replace(path, bytes).unwrap();
        let db = open(&image);
        let error = db.reclaim(None, &mut |_| {}).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&**path)));
        let refused = engine_of(&db).gc.refused_files();
        assert_eq!(refused.len(), 1, "{refused:?}: only the damaged one");
        assert!(containers(&db).0 > 0);
        let left = files_of(&image, "val").len();
        assert!(left < segments.len() / 2, "{left} of {}", segments.len());
        assert!(failing(&db, &model, path) <= 1);
        let number = key(1);
        assert!(model.contains_key(&number));
    }
}
