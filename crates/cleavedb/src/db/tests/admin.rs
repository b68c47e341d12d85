//! Opening, closing, keyspaces, checkpoints, verification, figures.

use std::path::Path;

use super::*;
use crate::{ErrorKind, IndexKind};

#[test]
fn opening_says_what_is_wrong() {
    let (_guard, path) = scratch();
    let absent = Options::new().create_if_missing(false).open(&path).err().unwrap();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    assert!(!path.exists(), "nothing was made");
    let db = small().open(&path).unwrap();
    assert_eq!(small().open(&path).err().unwrap().kind(), ErrorKind::InUse);
    db.close().unwrap();
    let exists = small().error_if_exists(true).open(&path).err().unwrap();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        Options::new().memory_budget(1).open(&path).err().unwrap().kind(),
        ErrorKind::InvalidArgument
    );
    Db::destroy(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn keyspaces_are_created_found_and_dropped() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    counters(&db);
    let names: Vec<_> = db.keyspaces().into_iter().map(|k| (k.name, k.id)).collect();
    assert_eq!(names, [("counters".to_owned(), 2), ("plain".to_owned(), 1)]);
    let other = KeyspaceOptions::new().merge_operator("u64-max");
    assert_eq!(db.keyspace("counters", other).err().unwrap().kind(), ErrorKind::Mismatch);
    let unknown = KeyspaceOptions::new().merge_operator("nobody");
    assert_eq!(db.keyspace("new", unknown).err().unwrap().kind(), ErrorKind::NotFound);
    ks.put("k", "v").unwrap();
    db.flush().unwrap();
    ks.put("k2", "v").unwrap();
    db.drop_keyspace("plain").unwrap();
    assert_eq!(ks.get("k").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(ks.put("k", "v").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.drop_keyspace("plain").unwrap_err().kind(), ErrorKind::NotFound);
    drop(ks);
    let ks = plain(&db);
    assert!(ks.get("k").unwrap().is_none());
    ks.put("k", "new").unwrap();
    drop((db, ks));
    let db = small().open(&path).unwrap();
    assert_eq!(pairs(plain(&db).iter()), ["k=new"]);
    let ids: Vec<_> = db.keyspaces().into_iter().map(|k| k.id).collect();
    assert_eq!(ids, [2, 3], "numbers are not reused");
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let (guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    for i in 0..2000 {
        ks.put(format!("{i}"), vec![7; 100]).unwrap();
    }
    let copy_path = guard.path().join("copy");
    db.checkpoint(&copy_path).unwrap();
    assert_eq!(db.checkpoint(&copy_path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    ks.put("later", "x").unwrap();
    let copy = small().open(&copy_path).unwrap();
    let copied = plain(&copy);
    assert_eq!(copied.iter().count(), 2000);
    copied.delete_range::<&str>(..).unwrap();
    copy.compact().unwrap();
    assert_eq!(ks.iter().count(), 2001);
    assert!(copy.verify(&mut |_, _| {}).unwrap().problems.is_empty());
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "looks at the real directory")]
fn read_only_reads_and_writes_nothing() {
    let (_guard, path) = scratch();
    let missing = Options::new().read_only(true).open(&path).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let db = small().open(&path).unwrap();
    plain(&db).put("flushed", "1").unwrap();
    db.flush().unwrap();
    plain(&db).put("logged", "2").unwrap();
    db.close().unwrap();
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(&path)
            .unwrap()
            .map(|e| {
                let e = e.unwrap();
                (
                    e.file_name(),
                    e.metadata().unwrap().len(),
                    e.metadata().unwrap().modified().unwrap(),
                )
            })
            .collect();
        names.sort();
        names
    };
    let before = listing();
    let db = small().read_only(true).open(&path).unwrap();
    let ks = plain(&db);
    assert_eq!(pairs(ks.iter()), ["flushed=1", "logged=2"]);
    assert_eq!(ks.put("k", "v").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(db.verify(&mut |_, _| {}).unwrap().problems.is_empty());
    drop((db, ks));
    assert_eq!(listing(), before);
}

#[test]
fn figures_add_up_after_a_load() {
    let (_guard, path) = scratch();
    let db = small().open(&path).unwrap();
    let ks = plain(&db);
    for i in 0..20_000u64 {
        ks.put((i * 7919 % 20_000).to_be_bytes(), vec![i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert_eq!(stats.user_bytes_written, 20_000 * 108);
    assert_eq!(stats.events.commits, 20_000);
    assert!(stats.events.flushes >= 2, "{:?}", stats.events);
    assert!(stats.bytes_written["journal"] >= stats.user_bytes_written);
    assert!(stats.write_amplification > 1.0);
    assert!(stats.space_amplification > 0.0);
    assert_eq!(stats.keyspaces.len(), 1);
    assert_eq!(stats.latencies["write"].count, 20_000);
    assert_eq!(stats.last_seq, 20_000);
    let memory = db.memory_usage();
    assert!(memory["total"] <= memory["budget"], "{memory:?}");
    assert_eq!(ks.iter().count(), 20_000);
    assert!((0..16u64).all(|i| ks.get(i.to_be_bytes()).unwrap().is_some()));
    assert_eq!(db.stats().latencies["get"].count, 2, "one in eight is timed");
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert!(report.bytes > 0 && report.files > 2);
}

/// What the file system shows is what was written and what was set aside; only the first counts.
#[test]
fn a_tiny_store_is_not_fat() {
    let disk = MemoryDisk::new();
    let open = || small().reserve_bytes(1 << 20).open_in(world(&disk), Path::new("/db")).unwrap();
    let check = |db: &Db| {
        let stats = db.stats();
        let shown: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(stats.disk_bytes + stats.set_aside_bytes, shown);
        assert!(stats.disk_bytes < 5_000, "{} bytes for a pair", stats.disk_bytes);
        assert!(stats.set_aside_bytes > 1 << 20, "{} bytes ahead", stats.set_aside_bytes);
        stats.disk_bytes
    };
    let db = open();
    plain(&db).put("k", "v").unwrap();
    let before = check(&db);
    plain(&db).put("k", [7; 500]).unwrap();
    assert!(check(&db) >= before + 500, "what is written counts at once");
    let crashed = disk.deep_clone();
    db.close().unwrap();
    check(&open());
    // A reader cuts nothing off, and still counts only what is there.
    let reader = small().read_only(true).open_in(world(&crashed), Path::new("/db")).unwrap();
    assert!(reader.stats().disk_bytes < 5_000, "{} bytes", reader.stats().disk_bytes);
}

#[test]
fn memory_of_iterators_and_background_work_comes_and_goes() {
    let (_guard, path) = scratch();
    let db = small().memory_budget(16 << 20).open(&path).unwrap();
    let ks = plain(&db);
    for i in 0..20_000u64 {
        ks.put(i.to_be_bytes(), vec![i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let part = |name: &str| db.memory_usage()[name];
    assert_eq!((part("iterators"), part("background"), part("indexes")), (0, 0, 0));
    let mut walk = ks.iter();
    assert_eq!(walk.by_ref().take(10_000).count(), 10_000);
    assert!(part("iterators") > 60_000, "{} bytes read ahead", part("iterators"));
    let usage = db.memory_usage();
    let parts = usage.iter().filter(|(part, _)| !["total", "budget"].contains(&part.as_str()));
    assert_eq!(parts.map(|(_, bytes)| bytes).sum::<u64>(), usage["total"]);
    for part in ["memtables", "block_cache", "filters_and_indexes"] {
        assert!(usage[part] > 0, "{part}");
    }
    drop(walk);
    assert_eq!(part("iterators"), 0);
    // An LSM-tree's index is in its tables; what a Flex index keeps of its intervals is its own.
    let options = KeyspaceOptions::new().index(IndexKind::Flex).separate_at(None);
    let flex = db.keyspace("flex", options).unwrap();
    (0..2000u64).for_each(|i| flex.put(i.to_be_bytes(), vec![i as u8; 100]).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    // 47 intervals or more, each of a hundred bytes at least.
    assert!(part("indexes") > 4000, "{} bytes of indexes", part("indexes"));
}
