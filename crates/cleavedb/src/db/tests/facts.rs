//! Facts that no collection has read for long: they leave memory and manifest for files, and
//! whoever asks for them later is told the same.

use super::collection::{Model, apart, assert_shows, assert_sound, put, widths};
use super::novkv::{assert_goes_by_facts, engine_of, files_of, try_open};
use super::*;
use crate::base::entry::FileId;
use crate::base::names::FileKind;
use crate::base::sync::atomic::Ordering;
use crate::base::widths::Widths;
use crate::io::Purpose;
use crate::io::disk::OpenMode;
use crate::io::memory_disk::CrashMode;
use crate::{ErrorKind, StrategyKind};

/// Strategies that go by facts.
const KINDS: [StrategyKind; 2] = [StrategyKind::Novkv, StrategyKind::Unified];

/// Bytes of manifests for a byte flushed, where every other write of a key of 30 bytes overwrites
/// one and no value is longer than its handle.
const MANIFEST_SHARE_MAX: f64 = 0.5;

/// Nothing is collected that is not dead for the most part.
fn lazy(kind: StrategyKind) -> Options {
    small().strategy(kind).space_amplification_max(1000.0)
}

/// A manifest that is rolled soon, and facts that leave it after so many bytes.
fn spilling(facts_bytes_max: u64) -> Widths {
    Widths { manifest_bytes_max: 16 << 10, facts_bytes_max, ..widths() }
}

/// Does all background work that is queued.
fn settle(db: &Db) {
    db.wait_idle().unwrap();
    engine_of(db).schedule_housekeeping();
    while engine_of(db).io.executor.help() {}
}

/// Writes in each round some values that stay and as many that the next one overwrites: every value
/// file is half dead in the end.
fn overwrite(db: &Db, model: &mut Model, rounds: std::ops::Range<u32>) {
    let keyspace = apart(db);
    for round in rounds {
        for number in 0..30 {
            put(&keyspace, model, number, round);
            put(&keyspace, model, 1000 + 30 * round + number, round);
        }
        db.flush().unwrap();
        settle(db);
    }
}

/// A database that has overwritten for some rounds; with what it must show.
fn overwritten(disk: &MemoryDisk, kind: StrategyKind, facts_bytes_max: u64) -> (Db, Model) {
    let db = try_open(world(disk), lazy(kind), spilling(facts_bytes_max)).unwrap();
    let mut model = Model::new();
    overwrite(&db, &mut model, 0..40);
    (db, model)
}

/// What a store wrote and holds after some overwrites that no collection has made use of.
#[derive(Debug)]
struct Figures {
    /// Bytes of manifests written, by bytes of flushes.
    manifest_share: f64,
    /// The same of files of facts.
    facts_share: f64,
    /// Facts that wait.
    facts: u64,
    /// Most bytes of a manifest in force, once nothing was due.
    manifest_bytes_most: u64,
    /// Most bytes of facts in memory then.
    memory_bytes_most: u64,
    /// Bytes of facts in files.
    disk_bytes: u64,
}

fn figures(facts_bytes_max: u64, overwrites: u32) -> Figures {
    let disk = MemoryDisk::new();
    let widths = Widths {
        manifest_bytes_max: 8 << 10,
        memtable_bytes: 16 << 10,
        value_segment_bytes: 1 << 20,
        facts_bytes_max,
        ..widths()
    };
    let db = try_open(world(&disk), lazy(StrategyKind::Unified), widths).unwrap();
    // Every value is apart, however short: facts are a large part of what is flushed.
    let keyspace = db.keyspace("tiny", KeyspaceOptions::new().separate_at(Some(0))).unwrap();
    let engine = engine_of(&db);
    let (mut manifest_bytes_most, mut memory_bytes_most) = (0, 0);
    for number in 0..overwrites {
        // Every other one stays: no value file is ever worth collecting.
        let named = if number % 2 == 0 { number } else { number * 7919 % 997 };
        let key = format!("a key of some length {named:06} {}", number % 2);
        keyspace.put(&key, number.to_le_bytes()).unwrap();
        if number % 100 == 99 {
            db.flush().unwrap();
            settle(&db);
            let manifest_bytes = engine.manifest_bytes.load(Ordering::Relaxed);
            manifest_bytes_most = manifest_bytes_most.max(manifest_bytes);
            memory_bytes_most = memory_bytes_most.max(engine.facts.load().memory_bytes());
        }
    }
    assert_sound(&db);
    let (meter, facts) = (&engine.io.meter, engine.facts.load());
    let share_of =
        |purpose| meter.bytes_written(purpose) as f64 / meter.bytes_written(Purpose::Flush) as f64;
    Figures {
        manifest_share: share_of(Purpose::Manifest),
        facts_share: share_of(Purpose::Collection),
        facts: facts.count(),
        manifest_bytes_most,
        memory_bytes_most,
        disk_bytes: facts.disk_bytes(),
    }
}

/// However often values are overwritten, a manifest is written of little more than the edits, and
/// what is in it and in memory is bounded.
#[test]
fn neither_manifest_nor_memory_grows_with_facts() {
    let (few, many) = (figures(2 << 10, 5_000), figures(2 << 10, 15_000));
    println!("{few:?}\n{many:?}");
    assert!(many.facts > 10_000 && many.facts > 3 * few.facts, "{many:?}");
    assert!(many.disk_bytes > 3 * few.disk_bytes, "{many:?}");
    for figures in [&few, &many] {
        assert!(figures.manifest_share < MANIFEST_SHARE_MAX, "{figures:?}");
        assert!(figures.manifest_bytes_most < 16 << 10, "{figures:?}");
        assert!(figures.memory_bytes_most < 8 << 10, "{figures:?}");
    }
    // Where they stay, all of them are in memory and in each new manifest.
    let never = figures(u64::MAX, 15_000);
    println!("{never:?}");
    assert_eq!((never.facts, never.disk_bytes), (many.facts, 0));
    assert!(never.manifest_share > MANIFEST_SHARE_MAX && never.facts_share == 0.0, "{never:?}");
    assert!(never.manifest_bytes_most > 64 << 10 && never.memory_bytes_most > 64 << 10);
}

#[test]
fn facts_in_files_are_used_after_reopening() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, model) = overwritten(&disk, kind, 1);
        let facts = db.stats().collection;
        assert!(facts.facts_files > 0 && facts.facts_disk_bytes > 1000, "{facts:?}");
        assert!(facts.facts_waiting > 500, "{facts:?}");
        let files = files_of(&disk, "drp");
        assert_eq!(files.len() as u64, facts.facts_files);
        (0..3).for_each(|_| settle(&db));
        assert_eq!(files_of(&disk, "drp"), files, "what was spilled rests");
        let full = db.stats().values.file_bytes;
        db.sync().unwrap();
        for (number, disk) in
            [disk.crash_image(CrashMode::None, 0), disk.crash_image(CrashMode::All, 0)]
                .into_iter()
                .enumerate()
        {
            let db = try_open(world(&disk), lazy(kind), spilling(1)).unwrap();
            let again = db.stats().collection;
            assert_eq!(again.facts_waiting, facts.facts_waiting, "{kind} {number}");
            db.close().unwrap();
            let db = try_open(world(&disk), small().strategy(kind), spilling(1)).unwrap();
            settle(&db);
            let done = db.stats().collection;
            assert!(done.records_dead >= 500, "{done:?}");
            assert!(done.facts_waiting < facts.facts_waiting / 4, "{done:?}");
            let rest = db.stats().values.file_bytes;
            assert!(rest * 10 < full * 8, "{rest} of {full}");
            assert_shows(&apart(&db), &model);
            assert_sound(&db);
            assert_goes_by_facts(&db);
            assert_eq!(files_of(&disk, "drp").len() as u64, done.facts_files);
        }
    }
}

/// The same writes with and without files: the same is collected.
#[test]
fn facts_say_the_same_wherever_they_stand() {
    for kind in KINDS {
        let collected = |facts_bytes_max| {
            let disk = MemoryDisk::new();
            let (db, model) = overwritten(&disk, kind, facts_bytes_max);
            let facts = db.stats().collection.facts_waiting;
            db.close().unwrap();
            let options = small().strategy(kind);
            let db = try_open(world(&disk), options, spilling(facts_bytes_max)).unwrap();
            settle(&db);
            assert_shows(&apart(&db), &model);
            let done = db.stats();
            let collection = done.collection;
            let dead = (collection.records_dead, collection.records_moved);
            (facts, dead, done.values.file_bytes, collection.facts_waiting)
        };
        assert_eq!(collected(1), collected(u64::MAX), "{kind}");
    }
}

#[test]
fn a_checkpoint_holds_facts_in_files() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, mut model) = overwritten(&disk, kind, 1);
        db.checkpoint("/copy").unwrap();
        let (copied, facts) = (model.clone(), db.stats().collection);
        // What it holds stays, whatever becomes of the original.
        overwrite(&db, &mut model, 40..60);
        assert_shows(&apart(&db), &model);
        db.close().unwrap();
        let settings = small().strategy(kind).into_settings();
        let path = std::path::Path::new("/copy");
        let engine =
            crate::engine::Engine::open(world(&disk), path, settings, spilling(1)).unwrap();
        let copy = Db::new(crate::db::handle::Handle::new(engine, crate::Durability::Buffered));
        assert_eq!(copy.stats().collection.facts_waiting, facts.facts_waiting);
        assert_sound(&copy);
        settle(&copy);
        assert!(copy.stats().collection.records_dead >= 500, "{:?}", copy.stats().collection);
        assert_shows(&apart(&copy), &copied);
        assert_sound(&copy);
    }
}

#[test]
fn a_damaged_file_of_facts_is_named_and_left_alone() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (db, mut model) = overwritten(&disk, kind, 1);
        db.close().unwrap();
        let files = files_of(&disk, "drp");
        for file in &files {
            let mut bytes = disk.contents(file);
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            disk.replace(file, bytes).unwrap();
        }
        let db = try_open(world(&disk), small().strategy(kind), spilling(1)).unwrap();
        let problems = db.verify(&mut |_, _| {}).unwrap().problems;
        assert_eq!(problems.len(), files.len(), "{problems:?}");
        for problem in &problems {
            let file = problem.file.as_deref();
            assert!(file.is_some_and(|file| files.iter().any(|f| f == file)), "{problem:?}");
        }
        // Collection leaves value files alone of which facts stand there; all else goes on, and
        // what is stated from now on is spilled.
        settle(&db);
        overwrite(&db, &mut model, 40..70);
        assert_shows(&apart(&db), &model);
        let collection = db.stats().collection;
        assert!(collection.files_refused > 0, "{collection:?}");
        let stated = engine_of(&db).facts.load().stated_bytes();
        assert!(stated < 4 << 10, "{stated} bytes of facts in memory");
        let engine = engine_of(&db);
        assert!(engine.health.check_writable().is_ok());
    }
}

#[test]
fn what_nothing_names_goes_and_what_is_named_must_be_there() {
    let disk = MemoryDisk::new();
    let kind = StrategyKind::Novkv;
    let (db, model) = overwritten(&disk, kind, 1);
    db.close().unwrap();
    let files = files_of(&disk, "drp");
    let path = |id| crate::base::names::file_name(FileKind::Facts, FileId(id));
    let stray = std::path::Path::new("/db").join(path(900_000));
    let file = world(&disk).disk.create(&stray, OpenMode::default()).unwrap();
    file.write_all_at(b"half of a file of facts", 0).unwrap();
    file.sync_data().unwrap();
    let db = try_open(world(&disk), lazy(kind), spilling(1)).unwrap();
    assert_eq!(files_of(&disk, "drp"), files, "the stray one is gone");
    assert_shows(&apart(&db), &model);
    db.close().unwrap();
    disk.remove(files.first().unwrap()).unwrap();
    let error = try_open(world(&disk), lazy(kind), spilling(1)).err().unwrap();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(files[0].as_path())));
}

/// After each round, in which spills, merges and collections fall, a crash that keeps what was
/// synced, or any part of the rest, opens with all facts that its edits name.
#[test]
fn a_crash_between_spills_loses_no_fact() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let db = try_open(world(&disk), small().strategy(kind), spilling(1)).unwrap();
        let mut model = Model::new();
        let (mut files_most, mut removed) = (0, 0);
        for round in 0..24 {
            let before = files_of(&disk, "drp");
            overwrite(&db, &mut model, round..round + 1);
            db.sync().unwrap();
            let after = files_of(&disk, "drp");
            removed += before.iter().filter(|file| !after.contains(file)).count();
            files_most = files_most.max(after.len());
            for (mode, seed) in [(CrashMode::None, 0), (CrashMode::All, 0)] {
                let image = disk.crash_image(mode, seed);
                let db = try_open(world(&image), lazy(kind), spilling(1)).unwrap();
                assert_shows(&apart(&db), &model);
                assert_sound(&db);
            }
        }
        assert!(files_most > 1 && removed > 3, "{files_most} at most, {removed} removed");
    }
}

/// What is rewritten together has room in memory: segments are read once, and nothing of them a
/// second time, value by value.
#[test]
fn collection_reads_what_it_rewrites_once() {
    let disk = MemoryDisk::new();
    let widths = Widths {
        memtable_bytes: 64 << 10,
        value_segment_bytes: 1 << 20,
        facts_bytes_max: 64 << 10,
        ..Widths::for_budget(16 << 20)
    };
    let settings = Options::new().memory_budget(16 << 20).strategy(StrategyKind::Unified);
    let db = try_open(world(&disk), settings, widths).unwrap();
    let keyspace = db.keyspace("values", KeyspaceOptions::new().separate_at(Some(64))).unwrap();
    for number in 0..40_000_u32 {
        // Not in the order of writing: else whole files would die.
        let mixed = number.wrapping_mul(0x9e37_79b1).rotate_left(13).wrapping_mul(0x85eb_ca6b);
        let named = if number < 8_000 { number } else { mixed % 8_000 };
        keyspace.put(format!("key {named:06}"), vec![number as u8; 1_000]).unwrap();
    }
    db.flush().unwrap();
    settle(&db);
    let stats = db.stats();
    let collected = &stats.collection;
    let (read, reads) = (stats.bytes_read["gc"], stats.reads["gc"]);
    println!("{read} read by {reads} reads: moved {collected:?}");
    assert!(collected.bytes_moved > 2 << 20, "{collected:?}");
    // Live and dead bytes of each victim, once, and what facts in files and indexes take.
    let judged = collected.bytes_moved + collected.records_dead * 1_100;
    assert!(read < judged + judged / 4, "{read} bytes read of {judged}");
    assert!(reads * (16 << 10) < read, "{reads} reads for {read} bytes");
}
