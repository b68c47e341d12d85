//! Two branches of one history: a store is copied, and both copies go on. Files of a Flex index of
//! one are not taken for those of the other, whose number, length and identity they have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::db::handle::Handle;
use crate::engine::Engine;
use crate::io::clock::SimulatedClock;
use crate::io::stepper::Stepper;
use crate::{Durability, ErrorKind, IndexKind, Result};

const KEYS: u32 = 60;

/// Opens it at a time of its own, from which the simulation draws what is unique.
fn try_open(disk: &MemoryDisk, seconds: u64) -> Result<Db> {
    let clock = SimulatedClock::new();
    clock.advance(Duration::from_secs(seconds));
    let executor = Stepper::new(0).attach();
    let io = Io::new(Arc::new(disk.clone()), Arc::new(clock), executor, 0);
    let engine = Engine::open(io, Path::new("/db"), small().into_settings(), tiny())?;
    Ok(Db::new(Handle::new(engine, Durability::Buffered)))
}

fn flex(db: &Db) -> Keyspace {
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    db.keyspace("flex", options).unwrap()
}

fn key(number: u32) -> String {
    format!("key {number:04}")
}

fn value(branch: char, number: u32) -> String {
    format!("what branch {branch} says of {number:04}")
}

/// A branch: as much is written as in the other one, at the same places.
fn grow(trunk: &MemoryDisk, branch: char, seconds: u64) -> MemoryDisk {
    let disk = trunk.deep_clone();
    let db = try_open(&disk, seconds).unwrap();
    for step in [1, 3, 2] {
        for number in (0..KEYS).step_by(step) {
            flex(&db).put(key(number), value(branch, number)).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    disk
}

#[test]
fn files_of_another_branch_are_noticed_or_of_no_use() {
    let trunk = MemoryDisk::new();
    let db = try_open(&trunk, 1).unwrap();
    flex(&db).put("first", "value").unwrap();
    db.close().unwrap();
    let (own, other) = (grow(&trunk, 'a', 2), grow(&trunk, 'b', 3));
    let is_ours = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ["fxs", "fxl", "fxp"].iter().any(|it| ending == *it))
    };
    let paths: Vec<PathBuf> = own.files().into_iter().map(|(path, _)| path).collect();
    let (mut logs, mut segments) = (0, 0);
    for path in paths.into_iter().filter(is_ours) {
        let (mine, theirs) = (own.contents(&path), other.contents(&path));
        if mine == theirs || mine.len() != theirs.len() {
            continue;
        }
        let mixed = own.deep_clone();
        mixed.replace(&path, theirs).unwrap();
        let db = match try_open(&mixed, 4) {
            Ok(db) => db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
                logs += u32::from(path.extension().is_some_and(|ending| ending == "fxl"));
                segments += u32::from(path.extension().is_some_and(|ending| ending == "fxs"));
                continue;
            }
        };
        let mut refused = 0;
        for number in 0..KEYS {
            match flex(&db).get(key(number)) {
                Ok(found) => assert_eq!(found.as_deref(), Some(value('a', number).as_bytes())),
                Err(error) if error.kind() == ErrorKind::Corruption => refused += 1,
                Err(error) => panic!("another error: {error}"),
            }
        }
        let problems = db.verify(&mut |_, _| {}).unwrap().problems;
        assert_eq!(problems.is_empty(), refused == 0, "{}: {problems:?}", path.display());
        segments += u32::from(refused > 0);
    }
    assert!(logs > 0 && segments > 0, "{logs} logs and {segments} segments were exchanged");
}
