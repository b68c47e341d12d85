//! One writer or many readers, on a real directory and in memory.

use std::path::Path;

use super::*;
use crate::io::disk::Disk;
use crate::io::native::NativeDisk;
use crate::{ErrorKind, Result};

/// How a test opens the one database it is about.
type Opener<'a> = &'a dyn Fn(Options) -> Result<Db>;

/// Runs a test on a real directory and on a disk in memory; `remove` takes a file away.
fn on_both_disks(test: impl Fn(Opener<'_>, &dyn Fn(&str))) {
    let (_guard, path) = scratch();
    let remove = |name: &str| NativeDisk::new().remove_file(&path.join(name)).unwrap();
    test(&|options| options.open(&path), &remove);
    let disk = MemoryDisk::new();
    let remove = |name: &str| disk.remove(Path::new("/db").join(name)).unwrap();
    test(&|options| options.open_in(world(&disk), Path::new("/db")), &remove);
}

fn read_only() -> Options {
    small().read_only(true)
}

fn refused(outcome: Result<Db>) -> ErrorKind {
    outcome.err().expect("two that exclude each other").kind()
}

#[test]
fn readers_share_and_keep_the_writer_out() {
    on_both_disks(|open, _| {
        let writer = open(small()).unwrap();
        plain(&writer).put("k", "v").unwrap();
        assert_eq!(refused(open(read_only())), ErrorKind::InUse);
        assert_eq!(refused(open(small())), ErrorKind::InUse);
        drop(writer);
        let one = open(read_only()).unwrap();
        let two = open(read_only()).unwrap();
        assert_eq!(plain(&one).get("k").unwrap().as_deref(), Some(b"v".as_slice()));
        one.close().unwrap();
        assert_eq!(refused(open(small())), ErrorKind::InUse);
        assert_eq!(plain(&two).get("k").unwrap().as_deref(), Some(b"v".as_slice()));
        drop(two);
        open(small()).unwrap();
    });
}

#[test]
fn readers_of_a_copy_without_lock_file_are_seen_all_the_same() {
    on_both_disks(|open, remove| {
        plain(&open(small()).unwrap()).put("k", "v").unwrap();
        remove("LOCK");
        let one = open(read_only()).unwrap();
        let two = open(read_only()).unwrap();
        assert_eq!(refused(open(small())), ErrorKind::InUse);
        drop(one);
        // The refused writer left a lock file: later readers hold that one.
        let three = open(read_only()).unwrap();
        drop(two);
        assert_eq!(refused(open(small())), ErrorKind::InUse);
        drop(three);
        open(small()).unwrap();
    });
}

#[test]
fn a_database_that_is_read_is_not_destroyed() {
    let (_guard, path) = scratch();
    drop(small().open(&path).unwrap());
    let reader = read_only().open(&path).unwrap();
    assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::InUse);
    drop(reader);
    Db::destroy(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_reader_changes_nothing_on_the_disk() {
    let disk = MemoryDisk::new();
    let at = Path::new("/db");
    plain(&small().open_in(world(&disk), at).unwrap()).put("k", "v").unwrap();
    disk.remove("/db/LOCK").unwrap();
    let (calls, digest) = (disk.mutations(), disk.digest());
    let reader = read_only().open_in(world(&disk), at).unwrap();
    assert_eq!(plain(&reader).iter().count(), 1);
    reader.close().unwrap();
    assert_eq!((disk.mutations(), disk.digest()), (calls, digest));
}
