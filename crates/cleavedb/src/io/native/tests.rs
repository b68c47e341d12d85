//! The native disk on real files, and batches against plain reads.

#![cfg(not(miri))]

use std::io::ErrorKind;

use rustix::fs::FlockOperation;

use super::*;
use crate::io::aligned::AlignedBuffer;
use crate::io::disk::DIRECT_ALIGN;
use crate::io::native::file::direct_span;
use crate::io::seeded::Seeded;

/// In the crate's directory, not in a memory file system that refuses direct I/O.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 509) as u8).collect()
}

fn mode(direct: bool) -> OpenMode {
    OpenMode { direct, random: !direct }
}

fn file_of(disk: &NativeDisk, path: &Path, bytes: &[u8]) {
    let file = disk.create(path, OpenMode::default()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn names_come_and_go() {
    let (disk, root) = (NativeDisk::new(), directory());
    let (a, b, d) = (root.path().join("a"), root.path().join("b"), root.path().join("d"));
    file_of(&disk, &a, b"abc");
    assert_eq!(
        disk.create(&a, OpenMode::default()).err().unwrap().kind(),
        ErrorKind::AlreadyExists
    );
    disk.create_dir(&d).unwrap();
    assert_eq!(disk.create_dir(&d).unwrap_err().kind(), ErrorKind::AlreadyExists);
    disk.hard_link(&a, &d.join("linked")).unwrap();
    disk.rename(&a, &b).unwrap();
    disk.sync_dir(root.path()).unwrap();
    assert!(!disk.exists(&a).unwrap() && disk.exists(&b).unwrap());
    let entry = |name: &str, is_dir| DirEntry { name: name.into(), is_dir, len: 0 };
    let listed = disk.read_dir(root.path()).unwrap();
    assert_eq!(listed[0], DirEntry { len: 3, ..entry("b", false) });
    assert_eq!((listed[1].name.as_str(), listed[1].is_dir, listed.len()), ("d", true, 2));
    assert_eq!(disk.remove_dir(&d).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    disk.remove_file(&d.join("linked")).unwrap();
    disk.remove_dir(&d).unwrap();
    assert_eq!(disk.open(&a, mode(false)).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn direct_files_take_any_buffer_offset_and_length() {
    let (disk, root) = (NativeDisk::new(), directory());
    let path = root.path().join("a");
    let bytes = pattern(3 * DIRECT_ALIGN + 777);
    let file = disk.create(&path, mode(true)).unwrap();
    let mut aligned = AlignedBuffer::new();
    aligned.extend_from_slice(&bytes[..2 * DIRECT_ALIGN]);
    file.write_all_at(&aligned, 0).unwrap();
    file.write_all_at(&bytes[2 * DIRECT_ALIGN..], 2 * DIRECT_ALIGN as u64).unwrap();
    file.sync_data().unwrap();
    for file in [file, disk.open(&path, mode(true)).unwrap()] {
        let mut seeded = Seeded::new(1);
        for _ in 0..300 {
            let offset = seeded.index(bytes.len());
            let len = seeded.index(bytes.len() - offset + 1);
            let mut buffer = vec![0; len];
            file.read_exact_at(&mut buffer, offset as u64).unwrap();
            assert!(buffer == bytes[offset..offset + len], "{len} bytes at {offset}");
        }
        let mut behind = [0; 10];
        let error = file.read_exact_at(&mut behind, bytes.len() as u64 - 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(file.read_at(&mut behind, 1 << 30).unwrap(), 0);
    }
}

#[test]
fn a_direct_span_covers_what_is_wanted() {
    for (offset, len) in [(0, 1), (4095, 2), (4096, 4096), (8191, 1), (5000, 0)] {
        let span = direct_span(offset, len);
        assert_eq!((span.start % 4096, span.len % 4096), (0, 0));
        assert_eq!(span.start + span.skip as u64, offset);
        assert!(span.skip + len <= span.len && span.len < len + 2 * 4096);
    }
}

#[test]
fn lengths_can_be_reserved_cut_and_extended() {
    let (disk, root) = (NativeDisk::new(), directory());
    let file = disk.create(&root.path().join("a"), mode(false)).unwrap();
    file.allocate(10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    file.allocate(5).unwrap();
    assert_eq!(file.len().unwrap(), 10_000);
    file.write_all_at(b"abc", 9_999).unwrap();
    file.set_len(10_001).unwrap();
    let mut tail = [9; 3];
    file.read_exact_at(&mut tail, 9_998).unwrap();
    assert_eq!(&tail, b"\0ab");
    file.start_write_back(0, 10_000);
    file.drop_cached(0, 0);
    let read_only = disk.open(&root.path().join("a"), mode(false)).unwrap();
    assert!(read_only.write_at(b"x", 0).is_err());
}

#[test]
fn a_lock_excludes_this_process_too_and_ends_with_its_guard() {
    let root = directory();
    let path = root.path().join("LOCK");
    let guard = NativeDisk::new().lock(&path, LockMode::Exclusive).unwrap();
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let refused = NativeDisk::new().lock(&path, mode).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    }
    drop(guard);
    drop(NativeDisk::new().lock(&path, LockMode::Exclusive).unwrap());
}

#[test]
fn shared_locks_go_together_and_create_nothing() {
    let root = directory();
    let path = root.path().join("LOCK");
    let disk = NativeDisk::new();
    let missing = disk.lock(&path, LockMode::Shared).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(!disk.exists(&path).unwrap());
    drop(disk.lock(&path, LockMode::Exclusive).unwrap());
    let first = disk.lock(&path, LockMode::Shared).unwrap();
    let second = disk.lock(&path, LockMode::Shared).unwrap();
    drop(first);
    let refused = disk.lock(&path, LockMode::Exclusive).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    drop(second);
    drop(disk.lock(&path, LockMode::Exclusive).unwrap());
}

/// Another process is not in this one's registry: only the kernel knows of its lock.
#[test]
fn the_kernel_keeps_other_processes_out() {
    let root = directory();
    let path = root.path().join("LOCK");
    let disk = NativeDisk::new();
    drop(disk.lock(&path, LockMode::Exclusive).unwrap());
    let other = open_path(&path, OFlags::RDONLY).unwrap();
    let allowed = |mode| match disk.lock(&path, mode) {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::WouldBlock);
            false
        }
    };
    rustix::fs::flock(&other, FlockOperation::LockShared).unwrap();
    assert!(allowed(LockMode::Shared) && !allowed(LockMode::Exclusive));
    rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
    assert!(!allowed(LockMode::Shared) && !allowed(LockMode::Exclusive));
    drop(other);
    assert!(allowed(LockMode::Exclusive), "a refusal left something behind");
}

#[test]
fn a_lock_on_a_file_that_lost_its_name_bars_nobody() {
    let root = directory();
    let path = root.path().join("LOCK");
    let disk = NativeDisk::new();
    let old = disk.lock(&path, LockMode::Exclusive).unwrap();
    disk.remove_file(&path).unwrap();
    let new = disk.lock(&path, LockMode::Exclusive).unwrap();
    drop(old);
    assert!(disk.lock(&path, LockMode::Exclusive).is_err());
    drop(new);
}

/// Random reads in batches, compared with the file's bytes.
fn compare_batches(disk: &NativeDisk, direct: bool) {
    let root = directory();
    let path = root.path().join("a");
    let bytes = pattern(300_000);
    file_of(disk, &path, &bytes);
    let file = disk.open(&path, mode(direct)).unwrap();
    let mut seeded = Seeded::new(2);
    for (count, awaited) in [0, 1, 2, 33, 128, 129, 500].map(|n| [(n, true), (n, false)]).concat() {
        let mut reads: Vec<BatchRead> = (0..count)
            .map(|_| {
                let offset = seeded.below(310_000);
                let len = seeded.index(20_000);
                BatchRead { file: file.clone(), offset, buffer: vec![1; len], result: Ok(()) }
            })
            .collect();
        let lengths: Vec<usize> = reads.iter().map(|read| read.buffer.len()).collect();
        if awaited {
            disk.read_batch(&mut reads);
        } else {
            reads = disk.start_batch(reads).finish();
        }
        assert_eq!(reads.len(), count);
        for (read, len) in reads.iter().zip(lengths) {
            assert_eq!(read.buffer.len(), len);
            let start = read.offset as usize;
            match bytes.get(start..start + len) {
                Some(expected) => assert!(read.result.is_ok() && read.buffer == expected),
                None if len == 0 => assert!(read.result.is_ok()),
                None => {
                    let kind = read.result.as_ref().unwrap_err().kind();
                    assert_eq!(kind, ErrorKind::UnexpectedEof);
                }
            }
        }
    }
}

#[test]
fn batches_read_what_plain_reads_do() {
    let disk = NativeDisk::new();
    compare_batches(&disk, false);
    compare_batches(&disk, true);
    println!("batched reads by {}", disk.batch_mode());
}

#[test]
fn batches_without_a_ring_read_the_same() {
    let disk = NativeDisk::without_ring();
    assert_eq!(disk.batch_mode(), "threads");
    compare_batches(&disk, false);
    compare_batches(&disk, true);
}

#[test]
fn batches_of_many_threads_do_not_mix() {
    for disk in [NativeDisk::new(), NativeDisk::without_ring()] {
        let root = directory();
        let path = root.path().join("a");
        let bytes = pattern(200_000);
        file_of(&disk, &path, &bytes);
        let file = disk.open(&path, mode(false)).unwrap();
        crate::base::sync::thread::scope(|scope| {
            for seed in 0..4 {
                let (disk, file, bytes) = (&disk, &file, &bytes);
                scope.spawn(move || {
                    let mut seeded = Seeded::new(seed);
                    for _ in 0..50 {
                        let mut reads: Vec<BatchRead> = (0..20)
                            .map(|_| BatchRead {
                                file: file.clone(),
                                offset: seeded.below(199_000),
                                buffer: vec![0; 1_000],
                                result: Ok(()),
                            })
                            .collect();
                        disk.read_batch(&mut reads);
                        for read in &reads {
                            let start = read.offset as usize;
                            assert!(read.result.is_ok());
                            assert!(read.buffer == bytes[start..start + 1_000]);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn reads_that_were_begun_may_be_dropped_or_end_on_another_thread() {
    for disk in [NativeDisk::new(), NativeDisk::without_ring()] {
        for direct in [false, true] {
            let root = directory();
            let path = root.path().join("a");
            let bytes = pattern(600_000);
            file_of(&disk, &path, &bytes);
            let file = disk.open(&path, mode(direct)).unwrap();
            let begin = || {
                let read = |number: usize| BatchRead {
                    file: file.clone(),
                    offset: number as u64 * 2_000,
                    buffer: vec![0; 1_500],
                    result: Ok(()),
                };
                disk.start_batch((0..200).map(read).collect())
            };
            for _ in 0..20 {
                drop(begin());
            }
            // The thread that began them is gone when they are waited for.
            let begun = crate::base::sync::thread::scope(|scope| {
                let begun: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
                begun.into_iter().map(|begun| begun.join().unwrap()).collect::<Vec<_>>()
            });
            for begun in begun {
                for read in begun.finish() {
                    assert!(read.result.is_ok(), "{:?}", read.result);
                    let start = read.offset as usize;
                    assert!(read.buffer == bytes[start..start + 1_500]);
                }
            }
        }
    }
}

#[test]
fn a_batch_reports_each_reads_own_error() {
    for disk in [NativeDisk::new(), NativeDisk::without_ring()] {
        let root = directory();
        let path = root.path().join("a");
        file_of(&disk, &path, &[5; 100]);
        let file = disk.open(&path, mode(false)).unwrap();
        let folder: Arc<dyn DiskFile> =
            Arc::new(NativeFile::new(open_path(root.path(), OFlags::RDONLY).unwrap(), None));
        let read = |file: &Arc<dyn DiskFile>, offset| BatchRead {
            file: file.clone(),
            offset,
            buffer: vec![0; 60],
            result: Ok(()),
        };
        let all = || vec![read(&file, 0), read(&folder, 0), read(&file, 60), read(&file, 40)];
        let mut reads = all();
        disk.read_batch(&mut reads);
        for reads in [reads, disk.start_batch(all()).finish()] {
            let kind = |read: &BatchRead| read.result.as_ref().map_err(io::Error::kind).err();
            assert_eq!(
                reads.iter().map(kind).collect::<Vec<_>>(),
                [None, Some(ErrorKind::IsADirectory), Some(ErrorKind::UnexpectedEof), None]
            );
        }
    }
}

#[test]
fn a_hole_gives_blocks_back_and_reads_as_zeros() {
    let (disk, root) = (NativeDisk::new(), directory());
    let path = root.path().join("file");
    let bytes = pattern(1 << 20);
    file_of(&disk, &path, &bytes);
    let file = disk.open_write(&path).unwrap();
    let before = file.footprint().unwrap();
    assert_eq!(before.links, 1);
    match file.punch(8192, 512 << 10) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("skipped: the file system of {} punches no holes", root.path().display());
            return;
        }
        punched => punched.unwrap(),
    }
    file.sync_data().unwrap();
    let mut wanted = bytes;
    wanted[8192..8192 + (512 << 10)].fill(0);
    let mut found = vec![1; 1 << 20];
    for direct in [false, true] {
        disk.open(&path, mode(direct)).unwrap().read_exact_at(&mut found, 0).unwrap();
        assert!(found == wanted, "direct {direct}");
    }
    assert_eq!(file.len().unwrap(), 1 << 20, "the length stays");
    disk.hard_link(&path, &root.path().join("link")).unwrap();
    let after = file.footprint().unwrap();
    assert_eq!(after.links, 2);
    assert!(after.allocated_bytes + (500 << 10) <= before.allocated_bytes, "{before:?} {after:?}");
    file.punch(8192, 512 << 10).unwrap();
    let again = file.footprint().unwrap();
    assert_eq!(again.allocated_bytes, after.allocated_bytes, "once more does no harm");
}

#[test]
fn what_the_page_cache_has_comes_at_once() {
    let disk = NativeDisk::new();
    let root = directory();
    let path = root.path().join("a");
    let bytes = pattern(100_000);
    file_of(&disk, &path, &bytes);
    for direct in [false, true] {
        let file = disk.open(&path, mode(direct)).unwrap();
        let read = |offset: usize, len: usize| BatchRead {
            file: file.clone(),
            offset: offset as u64,
            buffer: vec![1; len],
            result: Err(ErrorKind::Other.into()),
        };
        let begun = disk.start_batch(vec![read(1_000, 5_000), read(70_000, 0), read(0, 100_000)]);
        // A file system may be unable to promise that it will not wait.
        let came_at_once = begun.came_at_once();
        assert!(!came_at_once || !file.is_direct());
        for read in begun.finish() {
            let start = read.offset as usize;
            assert!(read.result.is_ok() && read.buffer == bytes[start..start + read.buffer.len()]);
        }
        // What is not there is no less missing for that.
        let mut rest = disk.start_batch(vec![read(0, 9), read(99_990, 11), read(5, 7)]).finish();
        let after = rest.pop().unwrap();
        assert!(after.result.is_ok() && after.buffer == bytes[5..12]);
        let kind = rest.pop().unwrap().result.unwrap_err().kind();
        assert_eq!(kind, ErrorKind::UnexpectedEof);
        assert!(rest.pop().unwrap().result.is_ok());
        let mut buffer = [7; 20];
        assert!(!file.read_cached_at(&mut buffer, 99_990), "less than was asked for");
    }
}
